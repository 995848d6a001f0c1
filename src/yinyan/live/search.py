"""Search over ids and labels: what begins with the words asked for, then what is spelled alike."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from yinyan.graph.ids import Id, Ids

__all__ = ["Search"]

Rows = NDArray[np.int64]

_PAD = "\x02\x02"  # before a text, so that its beginning has trigrams of its own
_SHORTLIST = 200  # texts that share most trigrams, to be compared letter by letter
_ALIKE = 0.4  # how alike two spellings must be, from 0 to 1
_COMMON = 50_000  # a trigram in more texts than this says little, and is left out where others say more
_LONGEST = 120  # letters of a text that are looked at


class Search:
    """Finds rows of a model by prefix and by likeness; nodes that came later are looked through one by one."""

    def __init__(self, ids: Ids, labels: Sequence[str | None] | None) -> None:
        names = [str(value) for value in ids.take(range(len(ids)))] if len(ids) else []
        texts = [name.casefold()[:_LONGEST] for name in names]
        owners = list(range(len(texts)))
        if labels is not None:
            said = [(row, label.casefold()[:_LONGEST]) for row, label in enumerate(labels) if label]
            texts += [text for _, text in said]
            owners += [row for row, _ in said]
        order = sorted(range(len(texts)), key=texts.__getitem__)
        self._texts = [texts[place] for place in order]
        self._owners = np.array([owners[place] for place in order], dtype=np.int64)
        self._grams, self._starts, self._postings = _trigram_index(self._texts)

    def find(self, query: str, limit: int, newer: Sequence[tuple[int, Id, str | None]] = ()) -> list[int]:
        """Up to `limit` rows: texts that begin with the query, shortest first among those, then similar ones.

        `newer` names nodes that came after the model: (row, id, label).
        """
        return [row for _, row in self.scored(query, limit, newer)]

    def scored(
        self, query: str, limit: int, newer: Sequence[tuple[int, Id, str | None]] = ()
    ) -> list[tuple[float, int]]:
        """The same, each with how near it is: above 2 where a text begins with the query, below 1 where not."""
        wanted = query.casefold()[:_LONGEST]
        found: dict[int, float] = {
            row: _begun(min(len(text) for text in (str(value), label) if text is not None))
            for row, value, label in newer
            if _begins(wanted, value, label)
        }
        for row, length in self._prefixed(wanted, limit).items():
            found.setdefault(row, _begun(length))
        if len(found) < limit:
            ranked = [*self._similar(wanted), *_similar_new(wanted, newer)]
            for alike, row in sorted(ranked, key=lambda entry: -entry[0]):
                found.setdefault(row, alike)
        return [(score, row) for row, score in found.items()][:limit]

    def _prefixed(self, wanted: str, limit: int) -> dict[int, int]:
        """Rows of texts that begin with the words, with the length of the text."""
        first = bisect_left(self._texts, wanted)
        last = bisect_left(self._texts, wanted + "\U0010ffff", lo=first)
        found: dict[int, int] = {}
        for place in range(first, min(last, first + 4 * limit)):  # in order of the alphabet, an equal text first
            found.setdefault(int(self._owners[place]), len(self._texts[place]))
        return dict(islice(found.items(), limit))

    def _similar(self, wanted: str) -> Iterator[tuple[float, int]]:
        if not self._texts:
            return
        codes = np.unique(_trigrams([wanted])[0])
        places = np.searchsorted(self._grams, codes)
        places = places[places < self._grams.size]
        places = places[np.isin(self._grams[places], codes)]
        sizes = self._starts[places + 1] - self._starts[places]
        rare = places[sizes <= _COMMON] if (sizes <= _COMMON).any() else places[np.argsort(sizes)[:2]]
        if not rare.size:
            return
        hits = np.concatenate([self._postings[self._starts[p] : self._starts[p + 1]] for p in rare])
        counts = np.bincount(hits, minlength=len(self._texts))
        shortlist = np.argpartition(-counts, min(_SHORTLIST, counts.size - 1))[:_SHORTLIST]
        matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
        for place in shortlist[counts[shortlist] > 0].tolist():
            alike = _likeness(wanted, matcher, self._texts[place])
            if alike >= _ALIKE:
                yield alike, int(self._owners[place])


def _begun(length: int) -> float:
    """How near a text of a length is that begins with the query: the shorter, the nearer."""
    return 2 + 1 / (1 + length)


def _begins(wanted: str, value: Id, label: str | None) -> bool:
    return str(value).casefold().startswith(wanted) or (label is not None and label.casefold().startswith(wanted))


def _similar_new(wanted: str, newer: Sequence[tuple[int, Id, str | None]]) -> Iterator[tuple[float, int]]:
    matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
    for row, value, label in newer:
        texts = [str(value), *([label] if label else [])]
        alike = max(_likeness(wanted, matcher, text.casefold()[:_LONGEST]) for text in texts)
        if alike >= _ALIKE:
            yield alike, row


def _likeness(wanted: str, matcher: difflib.SequenceMatcher[str], text: str) -> float:
    """From 0 to 1; a text that holds the whole query counts as alike."""
    if wanted in text:
        return 0.9 + 0.1 * len(wanted) / max(1, len(text))
    matcher.set_seq1(text)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE else 0.0


def _trigrams(texts: Sequence[str]) -> tuple[NDArray[np.uint64], Rows]:
    """Codes of three letters each of all texts, and the place of the text each is from."""
    padded = [_PAD + text for text in texts]
    letters = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    owner = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
    codes = letters[:-2] << np.uint64(42) | letters[1:-1] << np.uint64(21) | letters[2:]
    whole = owner[:-2] == owner[2:]
    return codes[whole], owner[:-2][whole]


def _trigram_index(texts: Sequence[str]) -> tuple[NDArray[np.uint64], Rows, NDArray[np.int32]]:
    """Sorted codes, where the texts of each begin, and the places of the texts."""
    if not texts:
        return np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)
    codes, owner = _trigrams(texts)
    order = np.argsort(codes, kind="stable")
    grams, starts = np.unique(codes[order], return_index=True)
    return grams, np.append(starts, codes.size), owner[order].astype(np.int32)

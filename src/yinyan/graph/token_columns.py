"""Columns whose cells hold several tokens: lists, texts such as 'a|b|c', and words."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.graph.column_plans import ColumnPlan, Outcome
from yinyan.graph.column_types import is_text, plain_text
from yinyan.text import counted

__all__ = ["MOST_CATEGORIES", "find_separator", "lists_in_text", "plan_hashed", "plan_tokens", "token_codes"]

MOST_CATEGORIES = 1000  # columns of categories and of tokens; more tokens are hashed
_MOST_BUCKETS = 4096
_SAMPLE = 10_000  # cells that are looked at to find a separator
_SEPARATORS = ("|", ";", ",")
_DECIMAL = r"^\s*-?[0-9.]*,[0-9]+\s*$"  # a number, not two tokens
_LIST = r"(?s)^\s*[\[(].*[\])]\s*$"
_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,\s'"][^,]*)""", re.DOTALL)
_MOSTLY = 0.9
_RECURS = 2.0  # cells that hold a token, on average: below, the parts of a text are not shared
_WORDS_RECUR = 3.0  # the same of parts between spaces, which free text has as well


class Tokens(NamedTuple):
    """Every token of a column, in the order of rows."""

    rows: npt.NDArray[np.int64]
    texts: pa.Array  # of text
    missing: npt.NDArray[np.bool_]  # (rows of the column,)


def find_separator(column: pa.ChunkedArray, *, spaces: bool) -> str | None:
    """The character between the tokens of most cells, if they share tokens; `spaces` may be one as well."""
    known = plain_text(column).drop_null()
    if len(known) > _SAMPLE:
        known = known.take(np.linspace(0, len(known) - 1, _SAMPLE).astype(np.int64))
    distinct = pc.unique(known)
    for separator in (*_SEPARATORS, *([" "] if spaces else [])):
        several = pc.sum(pc.match_substring(distinct, separator)).as_py() or 0
        if several < max(2, 0.1 * len(distinct)):
            continue
        if separator == "," and _share(distinct, _DECIMAL) > 0.5:
            continue
        found = _split(pa.chunked_array([distinct]), separator)
        different = len(pc.unique(found.texts))
        if separator == " ":
            if different <= min(MOST_CATEGORIES, len(distinct) // 2) and len(found.texts) >= _WORDS_RECUR * different:
                return separator
        elif 1 < different <= len(distinct) and len(found.texts) >= _RECURS * different:
            return separator
    return None


def lists_in_text(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column of texts such as "['a', 'b']" as lists of text or of numbers; None if most cells are no such text."""
    column = plain_text(column)
    known = column.drop_null()
    if not len(known) or _share(known, _LIST) < _MOSTLY:
        return None
    encoded = pc.dictionary_encode(column).combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    parsed = [_items(text) for text in encoded.dictionary.to_pylist()]
    flat = {item for items in parsed for item in items}
    lists = pa.array(parsed, pa.large_list(pa.large_string()))
    for kind in (pa.int64(), pa.float64()):
        try:
            if flat and pa.array(sorted(flat), pa.large_string()).cast(kind) is not None:
                lists = lists.cast(pa.large_list(kind))
                break
        except pa.ArrowInvalid:
            continue
    return pa.chunked_array([lists.take(encoded.indices)])


def plan_tokens(name: str, column: pa.ChunkedArray, separator: str, *, asked: bool) -> Outcome:
    """One 0/1 column per token if there are few; many are hashed, unless they hardly recur."""
    found = _split(column, separator)
    distinct = pc.unique(found.texts)
    if not len(distinct):
        return Outcome(None, "lists without values")
    lost = int(found.missing.sum())
    pairs = len(np.unique(found.rows * len(distinct) + _places(found.texts, distinct)))
    if pairs == len(distinct) * len(column):
        return Outcome(None, "the same value in every row")
    if pairs == len(distinct) and (separator == "words" or len(distinct) > MOST_CATEGORIES):
        return Outcome(None, "no word or token occurs in two rows")
    if not asked and len(distinct) > MOST_CATEGORIES and pairs < _RECURS * len(distinct):
        return Outcome(None, f"{len(distinct):,} distinct tokens that hardly recur{_CURE}")
    if len(distinct) > MOST_CATEGORIES:
        return plan_hashed(name, len(distinct), lost, pairs + lost, separator)
    tokens = tuple(sorted(distinct.to_pylist()))
    plan = ColumnPlan(name, "tokens", len(tokens), has_missing=lost > 0, categories=tokens, separator=separator)
    return Outcome(plan, _marked(lost), pairs + lost)


def plan_hashed(name: str, distinct: int, lost: int, nonzero: int, separator: str = "") -> Outcome:
    """Columns that many tokens share: each token has the column that its hash says."""
    size = min(_MOST_BUCKETS, 1 << (distinct - 1).bit_length())
    plan = ColumnPlan(name, "hashed", size, has_missing=lost > 0, separator=separator)
    note = f"{distinct:,} distinct values hashed into {size:,} columns"
    return Outcome(plan, f"{note}; {_marked(lost)}" if lost else note, nonzero)


def token_codes(plan: ColumnPlan, column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows and columns of the ones that a column makes, each pair once; unknown tokens make none."""
    if plan.separator == "[]" and is_text(column.type):
        column = _parsed(column)
    found = _split(column, plan.separator)
    distinct = pc.unique(found.texts)
    if plan.kind == "tokens":
        known = pa.array(plan.categories, pa.large_string())
        codes = np.asarray(pc.index_in(distinct, value_set=known).fill_null(-1), dtype=np.int64)
    else:
        codes = np.array([_bucket(text, plan.size) for text in distinct.to_pylist()], dtype=np.int64)
    codes = codes[_places(found.texts, distinct)] if len(distinct) else codes
    rows = found.rows[codes >= 0]
    codes = codes[codes >= 0]
    if plan.has_missing:
        lost = np.flatnonzero(found.missing)
        rows, codes = np.concatenate([rows, lost]), np.concatenate([codes, np.full(len(lost), plan.size)])
    keys = np.unique(rows * plan.width + codes)
    return keys // plan.width, keys % plan.width


_CURE = ": name the column under feature_columns (--feature) to use it"


def _marked(lost: int) -> str:
    return f"{counted(lost, 'missing value')} marked in a further column" if lost else ""


def _split(column: pa.ChunkedArray, separator: str) -> Tokens:
    """The tokens of a column of lists or of text, without spaces around them and without empty ones."""
    missing = np.asarray(column.is_null())
    if is_text(column.type):
        text = plain_text(column)
        if separator == "words":
            text = pc.replace_substring_regex(pc.utf8_lower(text), r"[^\p{L}\p{N}_]+", " ")
        if separator in (" ", "words"):
            lists = pc.utf8_split_whitespace(text)
        else:
            lists = pc.split_pattern(text, separator) if separator else _single(text)
    else:
        lists = column
    lists = lists.cast(pa.large_list(pa.large_string()))
    lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    rows = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)
    texts = pc.utf8_trim_whitespace(lists.flatten())
    kept = pc.and_(texts.is_valid(), pc.not_equal(texts, "")).fill_null(False)
    return Tokens(rows[np.asarray(kept, dtype=bool)], texts.filter(kept), missing)


def _single(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of one value each."""
    values = pa.concat_arrays(text.chunks) if text.num_chunks else pa.array([], pa.large_string())
    return pa.chunked_array([pa.LargeListArray.from_arrays(np.arange(len(values) + 1), values)])


def _parsed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    lists = [None if text is None else _items(text) for text in plain_text(column).to_pylist()]
    return pa.chunked_array([pa.array(lists, pa.large_list(pa.large_string()))])


def _items(text: str) -> list[str]:
    """The items of a list that was written as text by Python, JSON or numpy."""
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] in "[(" and inner[-1:] in "])" else inner
    found = [next(part for part in match if part) if any(match) else "" for match in _ITEM.findall(inner)]
    return [re.sub(r"\\(.)", r"\1", item).strip() for item in found if item.strip() not in ("", "None", "null", "nan")]


def _places(texts: pa.Array, distinct: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.index_in(texts, value_set=distinct), dtype=np.int64)


def _share(texts: pa.Array | pa.ChunkedArray, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.float64())).as_py() or 0.0)


def _bucket(text: str, size: int) -> int:
    """A column for a token, the same in every process and on every machine."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % size

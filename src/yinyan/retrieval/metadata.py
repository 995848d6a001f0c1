"""What an index is, what was measured of it, and which model it belongs to."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from yinyan.model.decoder import Decoder

__all__ = ["AtK", "IndexMetadata", "error_of", "fingerprint", "read_metadata"]


@dataclass(frozen=True)
class AtK:
    """What was measured for answers of k rows, and the effort that it takes."""

    k: int
    recall: float  # mean over the sources
    low_share: float  # of sources whose recall is below 0.9
    milliseconds: float  # per source, in a batch of the sample
    effort: dict[str, int]


@dataclass(frozen=True)
class IndexMetadata:
    """What an index is, and what was measured."""

    kind: str  # 'exact', 'mips' or 'flashlight'
    num_nodes: int  # of the rows at the build
    columns: int  # of a stored row
    cells: int  # that the rows are divided into
    effort: dict[str, int] | None  # of a search for k rows; None: every row is scored
    promised_recall: float | None  # None: no recall was asked for, or none that was asked for is reached
    recall: float  # measured against exact search
    k: int  # number of results that `recall`, `effort` and `milliseconds` are of
    sample: int  # sources that recall was measured on
    milliseconds: float  # per source, in a batch of the sample
    exact_milliseconds: float  # per source, of exact search
    bytes: int  # of memory, without the embeddings
    bytes_share: float  # of the memory of the embeddings
    fingerprint: str  # of decoder and embeddings
    seed: int  # of the sample
    note: str | None = None  # what of the budget is not met, and what was taken instead
    per_k: tuple[AtK, ...] = ()  # what was measured for each k; empty for exact search
    asked_recall: float | None = None  # that the build was asked for, kept or not
    relation: str | None = None  # whose partners it finds, of a model with relations

    @property
    def error(self) -> float:
        """A bound of the standard error of the measured recall."""
        return error_of(self.recall, self.sample)

    def recall_at(self, k: int) -> float | None:
        """The recall for answers of k rows: between two k that were measured the lower, None above the largest.

        Parameters
        ----------
        k
            How many rows an answer has.

        Returns
        -------
        float or None
            1.0 for exact search.

        Examples
        --------
        >>> index.metadata.recall_at(7)
        1.0
        """
        if self.effort is None:
            return 1.0
        known = {at.k: at.recall for at in self.per_k}
        if not known or k > max(known):
            return None
        below = max((other for other in known if other <= k), default=min(known))
        return min(known[below], known[min(other for other in known if other >= k)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            The fields by name.

        Examples
        --------
        >>> index.metadata.to_dict()["recall"]
        1.0
        """
        return {**asdict(self), "per_k": [asdict(at) for at in self.per_k]}

    def __str__(self) -> str:
        if self.effort is None:
            spent = f"{self.exact_milliseconds:.3g} ms per node"
            text = f"exact index of {self.num_nodes:,} nodes: every candidate is scored ({spent})"
        else:
            recalls = ", ".join(f"recall@{at.k} {at.recall:.4f}" for at in self.per_k)
            low = ", ".join(f"{at.low_share:.0%} at k = {at.k}" for at in self.per_k)
            text = (
                f"{self.kind} index of {self.num_nodes:,} nodes: {recalls} measured on {self.sample} nodes "
                f"(recall below 0.9: {low} of the nodes), "
                f"{self.milliseconds:.3g} ms per node for k = {self.k} ({self.exact_milliseconds:.3g} exact), "
                f"{self.bytes / 2**20:,.1f} MB ({self.bytes_share:.0%} of the embeddings), {self.cells:,} cells, "
                + ", ".join(f"{name} {value:,}" for name, value in self.effort.items())
            )
        text = text if self.relation is None else f"relation {self.relation!r}: {text}"
        return text if self.note is None else f"{text}; {self.note}"


def error_of(recall: float, sample: int) -> float:
    """A bound of the standard error of a recall that was measured on so many sources."""
    return math.sqrt(recall * (1 - recall) / max(1, sample))


def read_metadata(facts: Mapping[str, Any]) -> IndexMetadata:
    """What `to_dict` gave."""
    return IndexMetadata(**{**facts, "per_k": tuple(AtK(**each) for each in facts["per_k"])})


def fingerprint(decoder: Decoder, embeddings: Tensor) -> str:
    """A digest of what scores depend on."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(decoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
    digest.update(repr(tuple(embeddings.shape)).encode())
    for block in embeddings.detach().split(1 << 16):
        digest.update(np.ascontiguousarray(block.cpu().numpy()).data)
    return digest.hexdigest()

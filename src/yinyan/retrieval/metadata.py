"""What an index is, what was measured of it, and which model it belongs to."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from yinyan.model.decoder import Decoder

__all__ = ["IndexMetadata", "fingerprint"]


@dataclass(frozen=True)
class IndexMetadata:
    """What an index is, and what was measured."""

    kind: str  # 'exact', 'mips' or 'flashlight'
    num_nodes: int  # of the rows at the build
    columns: int  # of a stored row
    cells: int  # that the rows are divided into
    effort: dict[str, int] | None  # of a search; None: every row is scored
    promised_recall: float | None  # None: no recall was asked for, or none that was asked for is reached
    recall: float  # measured against exact search
    k: int  # number of results that recall is measured for
    sample: int  # sources that recall was measured on
    milliseconds: float  # per source, in a batch of the sample
    exact_milliseconds: float  # per source, of exact search
    bytes: int  # of memory, without the embeddings
    bytes_share: float  # of the memory of the embeddings
    fingerprint: str  # of decoder and embeddings
    seed: int  # of the sample
    note: str | None = None  # what of the budget is not met, and what was taken instead

    @property
    def error(self) -> float:
        """A bound of the standard error of the measured recall."""
        return math.sqrt(self.recall * (1 - self.recall) / max(1, self.sample))

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
        return asdict(self)

    def __str__(self) -> str:
        if self.effort is None:
            spent = f"{self.exact_milliseconds:.3g} ms per node"
            text = f"exact index of {self.num_nodes:,} nodes: every candidate is scored ({spent})"
        else:
            text = (
                f"{self.kind} index of {self.num_nodes:,} nodes: recall@{self.k} {self.recall:.4f} measured on "
                f"{self.sample} nodes, {self.milliseconds:.3g} ms per node ({self.exact_milliseconds:.3g} exact), "
                f"{self.bytes / 2**20:,.1f} MB ({self.bytes_share:.0%} of the embeddings), {self.cells:,} cells, "
                + ", ".join(f"{name} {value:,}" for name, value in self.effort.items())
            )
        return text if self.note is None else f"{text}; {self.note}"


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

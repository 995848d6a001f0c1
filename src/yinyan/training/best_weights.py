"""The weights that validate best: in memory, or in a temporary file where they are large."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import IO

import numpy as np
import torch
from torch import Tensor

__all__ = ["LARGE", "BestWeights"]

LARGE = 256 << 20  # bytes of a matrix from which on it is written to a file


class BestWeights:
    """A copy of a model's weights. Matrices of `large` bytes and more go to a temporary file, if it can be written.

    The file is removed with this object, or when the process ends.
    """

    def __init__(self, weights: Mapping[str, Tensor] | None = None, *, large: int = LARGE) -> None:
        self._large = large
        self._held: dict[str, Tensor] = {}
        self._places: dict[str, tuple[int, tuple[int, ...]]] = {}  # where a matrix begins in the file, and its shape
        self._file: IO[bytes] | None = None
        if weights:
            self.keep(weights)

    def __bool__(self) -> bool:
        return bool(self._held or self._places)

    @torch.no_grad()
    def keep(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the weights, in the place of those before."""
        self._held, self._places = {}, {}
        for name, value in weights.items():
            if not self._written(name, value):
                self._held[name] = value.detach().clone()

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Copy what is kept into the weights of the same names."""
        with torch.no_grad():
            for name, value in weights.items():
                value.copy_(self[name])

    def __getitem__(self, name: str) -> Tensor:
        """One of the weights; a large one is read from the file."""
        if name in self._held:
            return self._held[name]
        first, shape = self._places[name]
        if self._file is None:
            raise RuntimeError("the file of the best weights is gone")
        self._file.seek(first)
        return torch.from_numpy(np.fromfile(self._file, dtype=np.float32, count=int(np.prod(shape))).reshape(shape))

    def tensors(self) -> dict[str, Tensor]:
        """All weights, by name."""
        return {name: self[name] for name in (*self._held, *self._places)}

    def _written(self, name: str, value: Tensor) -> bool:
        """Whether a matrix is large, and was written to the file."""
        if value.dtype != torch.float32 or value.numel() * value.element_size() < self._large:
            return False
        rows = value.detach().cpu().contiguous().numpy()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="yinyan-")  # noqa: SIM115 - it lives as long as this object
            first = sum(4 * int(np.prod(shape)) for _, shape in self._places.values())
            self._file.seek(first)
            rows.tofile(self._file)
        except OSError:  # no room, or no folder for it: memory has to do
            return False
        self._places[name] = (first, rows.shape)
        return True

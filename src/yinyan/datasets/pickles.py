"""Arrays out of pickled data files, without running anything that the files ask for."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import refuse_damaged
from yinyan.datasets.pickle_checks import check_pickle
from yinyan.errors import InputError
from yinyan.graph.packed_files import check_unpacked_size

__all__ = ["SparseRows", "UnpicklingError", "read_pickle", "read_torch_pickle"]

UnpicklingError = pickle.UnpicklingError  # for those who must catch it

_DEEPEST = 50  # containers within containers
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # first of the three pickles before the content in torch's old files
_PLAIN = frozenset(f"{kind}{size}" for kind in "iu" for size in "1248") | {"f4", "f8", "b1"}


class SparseRows(NamedTuple):
    """A scipy matrix in compressed rows, as it was pickled: scipy is not needed to read it."""

    shape: tuple[int, int]
    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    data: npt.NDArray[Any]


# The classes below stand in for what the files name. Each has a __setstate__, since without one a pickle may set
# attributes of the class itself.


class _Dtype:
    """For numpy.dtype: numbers only."""

    def __init__(self, code: str, *_: object) -> None:
        if code not in _PLAIN:
            raise ValueError(f"an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(">" if state[1] == ">" else "<")


class _Array:
    """For numpy's _reconstruct, which makes an empty array that its state then fills."""

    def __init__(self, *_: object) -> None:
        self.array: npt.NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        held = content.encode("latin-1") if isinstance(content, str) else content  # Python 2 wrote text
        found = np.frombuffer(held, dtype=kind.dtype).reshape(shape, order="F" if by_columns else "C")
        self.array = found.astype(kind.dtype.newbyteorder("="))


class _Csr:
    """For scipy's csr_matrix."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows, columns = state.get("_shape", state.get("shape", (0, 0)))
        self.rows = SparseRows((int(rows), int(columns)), *(state[key].array for key in ("indptr", "indices", "data")))


class _Bytes:
    """For _codecs.encode and bytes, by which Python 3 writes bytes in the protocols of Python 2."""

    def __new__(cls, text: str = "", *_: object) -> bytes:  # type: ignore[misc]
        return text.encode("latin-1")

    def __setstate__(self, state: object) -> None:
        raise ValueError("bytes with a state")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # since numpy 2
    ("numpy", "ndarray"): "numpy.ndarray",  # an argument of _reconstruct, never called
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,  # since scipy 1.8
    ("_codecs", "encode"): _Bytes,
    ("__builtin__", "bytes"): _Bytes,  # where there are none
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "list"): list,
    ("__builtin__", "list"): list,  # in Python 2
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file, encoding="latin-1")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise InputError(
                f"'{self._path}' asks for {module}.{name}, and was not read: a data file needs no more than "
                "numpy arrays, sparse matrices, lists and dicts (fetch it again from its source)"
            )
        return _ADMITTED[module, name]

    def persistent_load(self, key: Any) -> Any:
        raise InputError(f"'{self._path}' holds torch tensors, where numpy arrays were expected (as OGB ships them)")


def read_pickle(path: Path) -> Any:
    """Read a pickle of numpy arrays, sparse rows and plain containers, of any protocol and of Python 2 as well."""
    with refuse_damaged(path, "is not a pickle of arrays, or is damaged"):
        return _plain(_loaded(io.BytesIO(path.read_bytes()), path))


def read_torch_pickle(path: Path) -> Any:
    """Read numpy arrays from a file that torch.save wrote, in its old form or its new one."""
    with refuse_damaged(path, "is not a pickle of arrays, or is damaged"), path.open("rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                name = next((name for name in archive.namelist() if name.endswith("/data.pkl")), "data.pkl")
                check_unpacked_size(path, path.stat().st_size, archive.getinfo(name).file_size)
                return _plain(_loaded(io.BytesIO(archive.read(name)), path))
        held = io.BytesIO(path.read_bytes())
        magic, *_ = [_loaded(held, path) for _ in ("magic number", "version", "system")]
        if magic != _TORCH_MAGIC:
            raise ValueError("torch.save did not write it")
        return _plain(_loaded(held, path))


def _loaded(file: io.BytesIO, path: Path) -> Any:
    """One pickle, after a look at what it would build."""
    start = file.tell()
    check_pickle(file)
    file.seek(start)
    return _Unpickler(file, path).load()


def _plain(value: Any, depth: int = 0, made: dict[int, Any] | None = None) -> Any:
    """The value with its stand-ins replaced by what they hold; what occurs often is made once."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, _Csr):
        return value.rows
    if depth > _DEEPEST:
        raise ValueError(f"containers within containers, more than {_DEEPEST} deep")
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    if isinstance(value, dict):
        found: Any = {_plain(k, depth + 1, made): _plain(held, depth + 1, made) for k, held in value.items()}
    elif isinstance(value, (list, tuple)):
        found = [_plain(held, depth + 1, made) for held in value]
    else:
        raise ValueError(f"holds {type(value).__name__}")
    made[id(value)] = found
    return found

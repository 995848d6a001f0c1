"""Pickled arrays are read, and nothing else that a pickle may ask for is done."""

from __future__ import annotations

import builtins
import functools
import operator
import os
import pickle
import subprocess
import sys
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csc_matrix, csr_matrix

from data_set_files import write_old_torch
from yinyan.datasets import pickles
from yinyan.datasets.pickles import SparseRows, read_pickle, read_torch_pickle
from yinyan.errors import InputError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Call:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def attacks(marker: Path) -> dict[str, Any]:
    touch = f"open({str(marker)!r}, 'w').close()"
    return {
        "os.system": Call(os.system, f"echo > '{marker}'"),
        "eval": Call(eval, touch),
        "exec": Call(exec, touch),
        "open": Call(open, str(marker), "w"),
        "getattr": Call(getattr, "a", "upper"),
        "__import__": Call(builtins.__import__, "os"),
        "partial": functools.partial(os.system, f"echo > '{marker}'"),
        "attrgetter": operator.attrgetter("system"),
        "Popen": Call(subprocess.Popen, ["touch", str(marker)]),
        "numpy.load": Call(np.load, str(marker)),
        "numpy.save": Call(np.save, str(marker), np.zeros(1)),
        "numpy.fromfile": Call(np.fromfile, str(marker)),
        "numpy.memmap": Call(np.memmap, str(marker), "u1", "w+", 0, (1,)),
        "numpy.testing": Call(np.testing.rundocs, str(marker)),
        "numpy.frompyfunc": Call(np.frompyfunc, os.system, 1, 1),
        "a class of ours": Call(Call, print),
        "a set": Call(set, [1]),
        "bytearray": Call(bytearray, 3),
        "OrderedDict": OrderedDict(a=1),
        "another matrix": csc_matrix(np.eye(2)),
        "objects": np.array([Call(os.system, f"echo > '{marker}'")], dtype=object),
        "text": np.array(["a"]),
        "in a dict": {"edge": [np.zeros(2), Call(os.system, f"echo > '{marker}'")]},
        "as a key": {Call(os.system, f"echo > '{marker}'"): 1},
        "a factory": defaultdict(functools.partial(os.system, "true")),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", attacks(Path("marker")))
def test_calls_are_refused_and_not_made(tmp_path: Path, name: str, protocol: int) -> None:
    marker = tmp_path / "marker"
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(attacks(marker)[name], protocol=protocol))
    with pytest.raises(InputError, match=r"ind\.cora\.x"):
        read_pickle(path)
    assert not marker.exists()


def test_the_refusal_names_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match=r"asks for os\.system, and was not read: a data file needs no more than"):
        read_pickle(path)


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
OPCODES = {
    "INST": b"(S'true'\nios\nsystem\n.",
    "nested name": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
    "extension": b"\x82\x01.",
    "persistent id": b"Pkey\n.",
    "state for a class": RECONSTRUCT + b"N}\x8c\x0c__setstate__cos\nsystem\ns\x86b.",
    "attributes for a class": RECONSTRUCT + b"N}\x8c\x08__init__K\x01s\x86b.",
    "state for a codec": b"c_codecs\nencode\nN}\x8c\x07__new__K\x01s\x86b.",
    "ndarray called": b"cnumpy\nndarray\n(K\x02tR.",
    "a class as the answer": RECONSTRUCT + b".",
    "a huge string": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "nothing": b"",
    "no pickle": b"<html>404</html>",
    "cut short": pickle.dumps(np.arange(100), protocol=2)[:-50],
}


@pytest.mark.parametrize("name", OPCODES)
def test_crafted_and_damaged_pickles_are_refused(tmp_path: Path, name: str) -> None:
    before = dict(vars(pickles._Array)), dict(vars(pickles._Bytes))
    path = tmp_path / "x"
    path.write_bytes(OPCODES[name])
    with pytest.raises(InputError, match=r"/x'"):
        read_pickle(path)
    assert (dict(vars(pickles._Array)), dict(vars(pickles._Bytes))) == before


def test_only_listed_names_are_admitted() -> None:
    assert {name for _, name in pickles._ADMITTED} == {
        *("_reconstruct", "ndarray", "dtype", "csr_matrix", "encode", "bytes", "defaultdict", "list")
    }


@pytest.mark.parametrize("protocol", [2, 3, 4])  # 0 and 1 write scipy's objects by copyreg, 5 numpy's by its own way
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1, 2], dtype=">i4"),
        np.array([1.5], dtype="f4"),
        np.array([True, False]),
        np.zeros((0, 2), dtype=np.int64),
        np.array(7),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back(tmp_path: Path, array: np.ndarray[Any, Any], protocol: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps({"a": [array]}, protocol=protocol))
    found = read_pickle(path)["a"][0]
    assert np.array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=") and found.flags.writeable


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_sparse_rows_come_back_without_scipy(tmp_path: Path, protocol: int) -> None:
    matrix = csr_matrix(np.array([[0, 1.5, 0], [2, 0, 0]]))
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps(matrix, protocol=protocol))
    found = read_pickle(path)
    assert isinstance(found, SparseRows) and found.shape == (2, 3)
    assert np.array_equal(found.indices, matrix.indices) and np.array_equal(found.data, matrix.data)
    script = (
        "import sys; from pathlib import Path; from yinyan.datasets.pickles import read_pickle; "
        f"read_pickle(Path({str(path)!r})); print('scipy' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_come_back(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "train.pt"
    held = {"edge": np.arange(4).reshape(2, 2), "year": np.array([2000.0, 2001.0])}
    torch.save(held, path, _use_new_zipfile_serialization=zipped)
    found = read_torch_pickle(path)
    assert list(found) == ["edge", "year"]
    assert all(np.array_equal(found[key], held[key]) for key in held)


@pytest.mark.parametrize("zipped", [True, False])
def test_bad_files_of_torch_are_refused(tmp_path: Path, zipped: bool) -> None:
    marker, path = tmp_path / "marker", tmp_path / "train.pt"
    for value in (Call(os.system, f"echo > '{marker}'"), {"edge": Call(eval, f"open({str(marker)!r}, 'w')")}):
        torch.save(value, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(InputError, match=r"asks for \w+\.(system|eval)"):
            read_torch_pickle(path)
    torch.save({"edge": torch.zeros(2)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"train\.pt' (holds torch tensors|asks for torch)"):
        read_torch_pickle(path)
    assert not marker.exists()


def test_a_pickle_that_torch_did_not_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.pt"
    path.write_bytes(b"".join(pickle.dumps(value) for value in (1, 2, 3, {})))
    with pytest.raises(InputError, match=r"torch\.save did not write it"):
        read_torch_pickle(path)
    write_old_torch(path, {})
    assert read_torch_pickle(path) == {}


# -- small files that ask for much -----------------------------------------------------------------------------


def nested(kind: type, levels: int) -> Any:
    value: Any = kind([])
    for _ in range(levels):
        value = kind([value, value])
    return value


def deep(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


def as_key(levels: int) -> bytes:
    """A dict whose key is a tuple of tuples, two by two: its hash alone takes 2 ** levels steps."""
    return b"\x80\x02}" + b")" + b"2\x86" * levels + b"K\x01s."


BOMBS: dict[str, bytes] = {
    "as a key": as_key(60),
    "one key many times": b"\x80\x02}(" + b"(" + b"K\x01" * 5000 + b"tq\x00K\x01" + b"h\x00K\x01" * 5000 + b"u.",
    "tuples": pickle.dumps(nested(tuple, 60)),
    "deep lists": deep(100_000),
    "a list within itself": b"\x80\x02]q\x00h\x00a.",
    "a memo of a thousand million": b"\x80\x02]r\xff\xff\xff\x3f.",
    "bytes that are not there": b"\x80\x04\x8e\xff\xff\xff\xff\xff\x0f\x00\x00.",
    "a frame that is not there": b"\x80\x04\x95\xff\xff\xff\xff\xff\x0f\x00\x00N.",
    "an array that is not there": pickle.dumps(np.zeros(3)).replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_that_asks_for_endless_work_is_refused_at_once(tmp_path: Path, name: str) -> None:
    """A nested pickle hung: a tuple that holds another twice, sixty levels deep."""
    (tmp_path / "ind.cora.x").write_bytes(BOMBS[name])
    began = time.monotonic()
    with pytest.raises(InputError, match=r"ind\.cora\.x' is not a pickle of arrays, or is damaged"):
        read_pickle(tmp_path / "ind.cora.x")
    assert time.monotonic() - began < 5


def test_what_occurs_twice_is_made_once(tmp_path: Path) -> None:
    """Sixty lists, each of which holds the one before twice, are sixty lists."""
    (tmp_path / "x").write_bytes(pickle.dumps(nested(list, 40)))
    began = time.monotonic()
    found = read_pickle(tmp_path / "x")
    assert time.monotonic() - began < 5 and found[0] is found[1]


@pytest.mark.parametrize("protocol", range(5))
def test_large_plain_data_are_read(tmp_path: Path, protocol: int) -> None:
    plain = {i: [i, i + 1, "text"] for i in range(20_000)}
    held = {
        "graph": plain,
        "arrays": [np.arange(1000), np.ones((30, 4), np.float32)],
        3: (1, 2, (3, 4)),
        4: tuple(range(20_000)),
    }
    (tmp_path / "x").write_bytes(pickle.dumps(held, protocol=protocol))
    found = read_pickle(tmp_path / "x")
    assert found["graph"] == plain and np.array_equal(found["arrays"][0], np.arange(1000))
    assert found[3] == [1, 2, [3, 4]]

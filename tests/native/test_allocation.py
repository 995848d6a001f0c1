"""Freed blocks are kept within, and given back after."""

from __future__ import annotations

import subprocess
import sys

import pytest

from yinyan.native import allocation
from yinyan.native.allocation import give_back_beside, held_memory

_CODE = """
import resource, torch
from yinyan.native.allocation import held_memory
torch.set_num_threads(1)
x = torch.ones(10_000_000)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        x * 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

x * 2
usual = faults()
with held_memory():
    with held_memory():
        for _ in range(20):  # until the blocks have found their places
            x * 2
    held = faults()
    kept = resident()
after = resident()
print(usual, held, kept - after)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults are counted on Linux")
def test_large_blocks_are_used_again_and_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True, timeout=120)
    usual, held, given_back = map(int, done.stdout.split())
    if usual < 5_000:
        pytest.skip("this C library keeps large blocks, or uses large pages, by itself")
    assert held < usual / 5
    assert given_back > 30e6


def test_an_error_within_ends_it() -> None:
    with pytest.raises(ValueError, match="mine"), held_memory():
        raise ValueError("mine")
    assert allocation._depth == 0


@pytest.mark.parametrize(("size", "calls"), [(1 << 20, 0), (1 << 30, 1)])
def test_free_memory_goes_back_beside_large_matrices_only(
    size: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(allocation, "give_back", lambda: given.append(size))
    give_back_beside(size)
    assert len(given) == calls

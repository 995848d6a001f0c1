"""The soak says which of its bars are broken: one that cannot break would show nothing."""

from __future__ import annotations

from lib.soak_figures import broken_bars

LOAD = {
    "exit_code": 0,
    **{"unexpected_errors": 0, "lost": 0, "doubled": 0, "versions_went_back": 0},
    "top10_overlap": {"worst_moment": 0.98},
    "memory_mb": {"first_third": 100, "last_third": 120},
}
GOOD = {
    "load": {"plain": LOAD},
    "flipped_bits": {"model": {"refused": 9, "exact": 1}},
    "loads_during_saves": {"loads": 7_744, "mixed": 0, "failed": 0},
    "killed_commands": {"fit": {"broken": []}},
}


def test_a_service_that_holds_breaks_no_bar() -> None:
    assert broken_bars(GOOD) == []


def test_what_the_service_once_did_breaks_bars() -> None:
    once = {
        "exit_code": 1,
        **{"unexpected_errors": 2, "lost": 1, "doubled": 4, "versions_went_back": 99},
        "top10_overlap": {"worst_moment": 0.77},
        "memory_mb": {"first_third": 100, "last_third": 200},
    }
    found = {
        "load": {"plain": once},
        "flipped_bits": {"index": {"refused": 46, "signal": 74}},
        "loads_during_saves": {"loads": 7_744, "mixed": 959, "failed": 3},
        "killed_commands": {"fit": {"broken": ["step 3 of 9: left nothing"]}},
    }
    assert broken_bars(found) == [
        "plain: the service ended with 1",
        "plain: unexpected_errors is 2",
        "plain: lost is 1",
        "plain: doubled is 4",
        "plain: versions_went_back is 99",
        "plain: overlap with a fresh pass is 0.77 at one moment",
        "plain: memory grew from 100 to 200 MB",
        "flipped bits of the index: 74 ended as 'signal'",
        "loads during saves: 959 mixed",
        "loads during saves: 3 failed",
        "fit killed: step 3 of 9: left nothing",
    ]

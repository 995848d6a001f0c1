"""Verdicts: the rule at its boundaries, what counts as a leak, and the page."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from small_recipes import made_up, table

from yinyan.reproduce import Job, Recipe, Result, read_recipe, recipe_names
from yinyan.reproduce.recipe import Place
from yinyan.reproduce.verdict_page import verdict_page, write_verdicts
from yinyan.reproduce.verdicts import UNKNOWN_SPREAD, VERDICTS, Claim, claims, side, tolerance, verdict

TEXT = """
title = "A table"
metric = "hits@100"
source = "released"
protocols = ["released", "clean"]
seeds = 3

[[row]]
name = "GCN"
method = "gcn"
reason = "a smaller network"
on.cora = { expect = 50.0, spread = 3.0 }
"""

OCN = """
title = "Edge-wise"
metric = "hits@100"
source = "clean"
protocols = ["clean"]
seeds = 3

[[row]]
name = "OCN"
method = "ocn"
on.cora = { expect = 50.0, spread = 3.0 }

[[row]]
name = "OCN, as published"
method = "ocn-as-published"
on.cora = {}
"""


def runs(recipe: Recipe, figures: dict[str, float | None], *, by: str = "protocol") -> list[Result]:
    """Three seeds around each mean, with a standard deviation of 4; none where all diverged."""
    found = []
    for cell in recipe.cells():
        centre = figures.get(getattr(cell, by), 0.0)
        if getattr(cell, by) in figures:
            found.append(made_up(cell, None if centre is None else centre + 4 * (cell.seed - 1)))
    return found


def one_claim(recipe: Recipe, results: list[Result]) -> Claim:
    (claim,) = claims([recipe], {recipe.name: results})
    return claim


def one(figures: dict[str, float | None]) -> str:
    return verdict(one_claim(table(TEXT), runs(table(TEXT), figures)))


@pytest.mark.parametrize(
    ("spread", "values", "expected"),
    [
        (3.0, [36, 40, 44], 10.0),
        (3.0, [40, 44], 2 * 10**0.5),  # two runs have no spread of their own
        (None, [36, 40, 44], 2 * 17**0.5),
        (None, [40], 2 * 2**0.5),
        (0.0, [40, 40, 40], 0.0),
    ],
)
def test_the_tolerance_is_two_standard_deviations_of_both(
    spread: float | None, values: list[float], expected: float
) -> None:
    assert tolerance(spread, values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("clean", "leaking", "expected"),
    [
        (50.0, 99.0, "reproduced"),
        (40.0, 99.0, "reproduced"),  # ten points, the tolerance itself
        (60.0, 99.0, "reproduced"),
        (60.01, 99.0, "exceeded"),
        (39.99, 50.0, "reproduced only with a leak"),
        (39.99, 40.0, "reproduced only with a leak"),
        (39.99, 60.0, "reproduced only with a leak"),
        (39.99, 60.01, "exceeded only with a leak"),
        (39.99, 39.99, "not reproduced"),
        (None, 50.0, "reproduced only with a leak"),  # all runs diverged
        (None, None, "not reproduced"),
    ],
)
def test_the_rule_at_its_boundaries(clean: float | None, leaking: float | None, expected: str) -> None:
    assert one({"clean": clean, "released": leaking}) == expected
    assert expected in VERDICTS


def test_without_runs_there_is_no_verdict() -> None:
    assert one({}) == "not run"
    assert one({"released": 50.0}) == "not run", "runs with a leak alone show nothing"
    assert one({"clean": 39.99}) == "not reproduced"


def test_without_a_published_value_there_is_no_side() -> None:
    with pytest.raises(ValueError, match=r"a published value is needed to compare with \(got none for 'cora'\)"):
        side(Place("cora", 1, ("clean",), {}), [50.0])


def test_one_point_is_a_usual_published_spread() -> None:
    recipes = [read_recipe(name) for name in recipe_names()]
    places = [place for recipe in recipes for row in recipe.rows for place in row.places]
    spreads = {(place.data, place.expect): place.spread for place in places if place.spread is not None}
    assert median(spreads.values()) == pytest.approx(UNKNOWN_SPREAD, abs=0.3)


def test_only_the_first_protocol_without_a_leak_counts() -> None:
    text = TEXT.replace('["released", "clean"]', '["released", "clean", "clean+val"]')
    claim = one_claim(table(text), runs(table(text), {"clean": 39.0, "clean+val": 50.0, "released": 30.0}))
    assert verdict(claim) == "not reproduced"
    assert {run.cell.protocol for run in claim.clean} == {"clean"}


class TestPeersThatLeak:
    @pytest.mark.parametrize(
        ("fair", "published", "expected"),
        [
            (45.0, 50.0, "reproduced"),
            (39.0, 50.0, "reproduced only with a leak"),
            (39.0, 39.0, "not reproduced"),
        ],
    )
    @pytest.mark.parametrize("where", ["at the fair row", "at the leaking row", "at both"])
    def test_their_runs_count_as_such(self, fair: float, published: float, expected: str, where: str) -> None:
        value = "on.cora = { expect = 50.0, spread = 3.0 }"
        text = OCN if where == "at the fair row" else OCN.replace("on.cora = {}", value)
        text = text.replace(value, "on.cora = {}", 1) if where == "at the leaking row" else text
        results = runs(table(text), {"ocn": fair, "ocn-as-published": published}, by="method")
        claim = one_claim(table(text), results)
        assert verdict(claim) == expected
        assert {run.cell.method for run in claim.leaking} == {"ocn-as-published"}

    def test_without_the_fair_row_there_is_no_verdict(self) -> None:
        head, _, _ = OCN.partition("[[row]]")
        text = head + '[[row]]\nname = "OCN"\nmethod = "ocn-as-published"\non.cora = { expect = 50.0 }\n'
        claim = one_claim(table(text), runs(table(text), {"clean": 50.0}))
        assert verdict(claim) == "not run" and len(claim.leaking) == 3

    def test_the_reason_names_the_leak(self) -> None:
        results = runs(table(OCN), {"ocn": 10.0, "ocn-as-published": 50.0}, by="method")
        page = verdict_page(claims([table(OCN)], {"small": results}), set(), smoke=False)
        assert "`ocn-as-published` is normalised over the batch, which reveals the label; `ocn` is not |" in page


class TestOneValueInSeveralTables:
    def test_equal_settings_are_listed_once_with_all_runs(self) -> None:
        first, second = table(TEXT.replace("seeds = 3", "seeds = 2"), "first"), table(TEXT, "second")
        second_only = runs(second, {"clean": 50.0})
        some = {"first": [made_up(cell, 46.0 + 4 * cell.seed) for cell in first.cells() if cell.protocol == "clean"]}
        (claim,) = claims([first, second], some | {"second": second_only})
        assert (claim.recipe.name, claim.others) == ("first", ("second",))
        assert sorted(run.figure or 0 for run in claim.clean) == [46.0, 50.0, 54.0]

    @pytest.mark.parametrize("change", ["expect = 51.0", "encoder = { num_steps = 9 }, expect = 50.0"])
    def test_other_values_and_settings_are_apart(self, change: str) -> None:
        other = table(TEXT.replace("expect = 50.0", change), "other")
        assert len(claims([table(TEXT), other], {})) == 2

    def test_what_one_of_them_leaves_out_is_kept(self) -> None:
        bare = TEXT.replace(", spread = 3.0", "").replace('reason = "a smaller network"\n', "")
        (claim,) = claims([table(bare, "first"), table(TEXT, "second")], {})
        assert (claim.place.spread, claim.place.reason) == (3.0, "a smaller network")


class TestPage:
    def page(self, figures: dict[str, float | None], text: str = TEXT) -> str:
        recipe = table(text)
        return verdict_page(claims([recipe], {"small": runs(recipe, figures)}), {"small"}, smoke=False)

    def test_rule_counts_and_lines(self) -> None:
        page = self.page({"clean": 30.0, "released": 50.0})
        assert page.startswith("# Verdicts on published values\n")
        assert "2 √(theirs² + ours²)" in page and "fewer than 3 runs, counts as 1 point" in " ".join(page.split())
        assert "## [A table](small.md)" in page
        assert (
            "| cora, Hits@100 | GCN | 50.00 ± 3.00 | released | 30.00 ± 4.00 (3) | 50.00 ± 4.00 (3) "
            "| reproduced only with a leak | leaking split of the released code; a smaller network |"
        ) in page
        for name, count in (("reproduced", 0), ("reproduced only with a leak", 1), ("not run", 0)):
            assert f"| {name} | {VERDICTS[name]} | {count} |" in page
        assert all(len(line) <= 100 for line in page.splitlines() if not line.startswith("|"))

    def test_reasons(self) -> None:
        bare = TEXT.replace('reason = "a smaller network"\n', "")
        assert "| not reproduced | a smaller network |" in self.page({"clean": 30.0})
        assert "| not reproduced | not known |" in self.page({"clean": 30.0}, bare)
        assert "| reproduced |  |" in self.page({"clean": 50.0}, bare)
        needy = bare.replace("seeds = 3", 'seeds = 3\nneeds = "a GPU"')
        assert "| not run | needs a GPU |" in self.page({}, needy)

    def test_values_of_other_protocols_are_named_as_such(self) -> None:
        text = TEXT.replace('source = "released"', 'source = "LLP\'s split"').replace(
            'reason = "a smaller network"\n', ""
        )
        page = self.page({"clean": 30.0}, text)
        assert "| LLP's split (not ours) | 30.00" in page
        assert "| not reproduced | another split than ours; no other reason is known |" in page
        row = TEXT.replace('method = "gcn"', 'method = "gcn"\nsource = "BUDDY\'s split"')
        assert "| BUDDY's split (not ours) |" in self.page({"clean": 30.0}, row)
        official = TEXT.replace("on.cora = {", 'on.ogbl-ddi = { protocols = ["official"],')
        assert "| ogbl-ddi, Hits@100 | GCN | 50.00 ± 3.00 | official |" in self.page({}, official)

    @pytest.mark.parametrize(
        ("clean", "difference"),
        [(50.0, "+0.00 ± 5.00 | level"), (60.5, "+10.50 ± 5.00 | higher"), (30.0, "-20.00 ± 5.00 | lower")],
    )
    def test_values_of_others_have_no_verdict(self, clean: float, difference: str) -> None:
        page = self.page({"clean": clean}, TEXT.replace("spread = 3.0", 'spread = 3.0, expect_of = "NCNC"'))
        assert f"| NCNC | released | {clean:.2f} ± 4.00 (3) | {difference} |" in page
        assert "## [A table]" not in page

    def test_it_is_written_from_the_runs_at_hand(self, tmp_path: Path) -> None:
        path = write_verdicts(Job(tmp_path))
        page = path.read_text(encoding="utf-8")
        assert path.name == "verdicts.md" and "main" in recipe_names()
        assert "| cora, Hits@100 | YinYanGNN, the authors' settings (also in negatives, proportions" in page
        assert page.count("| 93.83 ± 0.78 | released | not run |") == 1
        assert "| NCNC | clean | not run |  | not run |" in page

"""The page of verdicts: every published value of the recipes, whether it is reproduced, and why not."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from yinyan.evaluation import PROTOCOLS
from yinyan.files import write_text
from yinyan.peers.registry import METHODS
from yinyan.reproduce.recipe import read_recipe, recipe_names
from yinyan.reproduce.result_tables import in_words, markdown_row, published_value, result_cell
from yinyan.reproduce.running import Job, Result, kept_results
from yinyan.reproduce.verdicts import (
    EXCEEDED_WITH_LEAK,
    FEWEST,
    NOT_REPRODUCED,
    NOT_RUN,
    ONLY_WITH_LEAK,
    UNKNOWN_SPREAD,
    VERDICTS,
    Claim,
    claims,
    figures,
    side,
    tolerance,
    verdict,
)

__all__ = ["verdict_page", "write_verdicts", "written_verdicts"]

_PLACES = {-1: "lower", 0: "level", 1: "higher"}
_RULE = f"""
A published value is reproduced if the mean of our runs differs from it by no more than the tolerance: two standard
deviations of both together, 2 √(theirs² + ours²). A standard deviation that was not published, and ours of fewer than
{FEWEST} runs, counts as {UNKNOWN_SPREAD:g} point. Runs without a leak are of the protocol *clean*, or of *official*
where the data come with a split. Runs with a leak are of the protocol *released*, whose training links and messages
have reverses of test links, or of a peer whose scores `audit_scorer` refuses. Numbers of runs are in brackets. Runs
that diverged have no figure.
"""
_SOURCES = """
*Published under* names the protocol of the published value. What is no protocol of ours is marked: such a value is of
another split, and its verdict compares two splits. A value that several tables have for the same settings is listed
once, with the names of the other tables. *Reason* names a difference between the published run and ours. Whether it
explains the gap was tested only where the page of the table has such a test.
"""
_BESIDE = """
These published values belong to another method, or to other settings, than the row that they are printed beside. There
is nothing to reproduce: *higher* and *lower* are by more than the tolerance, *level* is within it. The difference has
the standard deviation of both together where both are known.
"""


def write_verdicts(job: Job) -> Path:
    """Write the page from the runs at hand."""
    path = job.folder / "verdicts.md"
    write_text(path, written_verdicts(job))
    return path


def written_verdicts(job: Job) -> str:
    """The page of all recipes, from the runs at hand."""
    recipes = [read_recipe(name) for name in recipe_names()]
    results: dict[str, list[Result]] = {}
    for result in kept_results((cell for recipe in recipes for cell in recipe.cells()), job):
        results.setdefault(result.cell.recipe, []).append(result)
    pages = {recipe.name for recipe in recipes if (job.folder / f"{recipe.name}.md").exists()}
    return verdict_page(claims(recipes, results), pages, smoke=job.smoke)


def verdict_page(found: Sequence[Claim], pages: set[str], *, smoke: bool) -> str:
    """The rule, how often each verdict is given, and one table per recipe."""
    own = [claim for claim in found if not claim.place.expect_of]
    beside = [claim for claim in found if claim.place.expect_of]
    counts = Counter(verdict(claim) for claim in own)
    title = "Verdicts on published values" + (" (smoke run on small stand-ins)" if smoke else "")
    lines = [f"# {title}", "", _filled(_RULE), "", _table(["verdict", "meaning", "values"])]
    lines += [markdown_row([name, meaning, str(counts[name])]) for name, meaning in VERDICTS.items()]
    lines += ["", _filled(_SOURCES)]
    head = ["data", "row", "published", "published under", "without a leak", "with a leak", "verdict", "reason"]
    for name in dict.fromkeys(claim.recipe.name for claim in own):
        mine = [claim for claim in own if claim.recipe.name == name]
        lines += ["", f"## {_title(mine[0], pages)}", "", _table(head)]
        lines += [markdown_row(_line(claim)) for claim in mine]
    lines += ["", "## Ours beside published values of others", "", _filled(_BESIDE), ""]
    lines += [
        _table(["data", "row", "table", "published", "published by", "published under", "ours", "difference", "place"])
    ]
    lines += [markdown_row(_line_beside(claim)) for claim in beside]
    command = f"yinyan reproduce NAME{' --smoke' if smoke else ''}"
    lines += ["", f"Made by `{command}`, together with the page of any table. With `--pages` nothing is run."]
    return "\n".join(lines) + "\n"


def _line(claim: Claim) -> list[str]:
    also = f" (also in {', '.join(claim.others)})" if claim.others else ""
    leaking = _runs(claim.leaking) if claim.leaking else ""
    published = published_value(claim.place)
    cells = [_data(claim), claim.row.name + also, published, _source(claim), _runs(claim.clean), leaking]
    return [*cells, verdict(claim), _reason(claim)]


def _line_beside(claim: Claim) -> list[str]:
    where = f"{claim.recipe.name}{''.join(f', {name}' for name in claim.others)}"
    cells = [_data(claim), claim.row.name, where, published_value(claim.place), claim.place.expect_of, _source(claim)]
    values = figures(claim.clean)
    if not values or claim.place.expect is None:
        return [*cells, _runs(claim.clean), "", "not run" if not claim.clean else "lower"]
    difference = f"{mean(values) - claim.place.expect:+.2f}"
    if claim.place.spread is not None and len(values) >= FEWEST:
        difference += f" ± {tolerance(claim.place.spread, values) / 2:.2f}"
    return [*cells, _runs(claim.clean), difference, _PLACES[side(claim.place, values)]]


def _reason(claim: Claim) -> str:
    """What the recipe gives, and what follows from the verdict."""
    given, found = claim.place.reason, verdict(claim)
    if found == NOT_RUN:
        return "; ".join(text for text in (given, claim.recipe.needs and f"needs {claim.recipe.needs}") if text)
    if found in (ONLY_WITH_LEAK, EXCEEDED_WITH_LEAK):
        leaks = dict.fromkeys(_leak(run) for run in claim.leaking)
        return "; ".join([*leaks, *([given] if given else [])])
    if given or found != NOT_REPRODUCED:
        return given
    return "not known" if claim.source in PROTOCOLS else "another split than ours; no other reason is known"


def _leak(run: Result) -> str:
    fair = METHODS[run.cell.method].without_leak if run.cell.method in METHODS else ""
    if fair:
        return f"`{run.cell.method}` is normalised over the batch, which reveals the label; `{fair}` is not"
    return "leaking split of the released code"


def _source(claim: Claim) -> str:
    return claim.source if claim.source in PROTOCOLS else f"{claim.source} (not ours)"


def _data(claim: Claim) -> str:
    return f"{claim.place.data}, {in_words(claim.place.metric or claim.recipe.metric)}"


def _runs(runs: Sequence[Result]) -> str:
    return result_cell(runs) + (f" ({len(runs)})" if runs else "")


def _title(claim: Claim, pages: set[str]) -> str:
    name, title = claim.recipe.name, claim.recipe.title
    return f"[{title}]({name}.md)" if name in pages else f"{title} (`{name}`)"


def _table(head: Sequence[str]) -> str:
    return f"{markdown_row(head)}\n{markdown_row(['---'] * len(head))}"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)

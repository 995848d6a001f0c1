"""What a reproduction leaves behind: a page, a JSON file and a picture for each recipe, and an index of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from yinyan.files import atomic_path, write_text
from yinyan.reproduce.plots import draw
from yinyan.reproduce.recipe import Recipe, read_recipe, recipe_names
from yinyan.reproduce.result_tables import as_json, as_markdown
from yinyan.reproduce.running import Job, Result, kept_results

__all__ = ["recipe_list", "write_index", "write_pages"]


def write_pages(recipe: Recipe, results: Sequence[Result], job: Job) -> list[Path]:
    """Write the pages of a recipe; the picture is left out where matplotlib is not installed."""
    command = f"yinyan reproduce {recipe.name}{' --smoke' if job.smoke else ''}"
    if job.smoke:  # nobody may take them for results
        recipe = replace(recipe, title=f"{recipe.title} (smoke run on small stand-ins)")
    job.folder.mkdir(parents=True, exist_ok=True)
    page = as_markdown(recipe, results, command)
    written = [job.folder / f"{recipe.name}.md", job.folder / f"{recipe.name}.json"]
    if find_spec("matplotlib") is not None and any(result.figure is not None for result in results):
        picture = job.folder / f"{recipe.name}.png"
        with atomic_path(picture) as place:
            place.write_bytes(draw(recipe, results))
        page += f"\n![{recipe.title}]({picture.name})\n"
        written.append(picture)
    write_text(written[0], page)
    write_text(written[1], json.dumps(as_json(recipe, results, command), indent=1) + "\n")
    return written


def write_index(job: Job) -> Path:
    """A page that names every table and figure, with what was run of it."""
    about = (
        "Tables and figures of the paper, published values beside ours. Each page names the command that makes it; "
        "a run is one method, data set, protocol and seed."
    )
    title = "Smoke runs on small stand-ins: no results" if job.smoke else "Results"
    verdicts = "[Verdicts](verdicts.md) lists which published values are reproduced, and which only with a leak."
    lines = [f"# {title}", "", about, "", verdicts, "", "| page | runs |", "|---|---|"]
    for name, title, state in recipe_list(job):
        page = f"[{title}]({name}.md)" if (job.folder / f"{name}.md").exists() else f"{title} (`{name}`)"
        lines.append(f"| {page} | {state} |")
    path = job.folder / "README.md"
    write_text(path, "\n".join(lines) + "\n")
    return path


def recipe_list(job: Job) -> list[tuple[str, str, str]]:
    """Name, title and state of every recipe."""
    found = []
    for name in recipe_names():
        recipe = read_recipe(name)
        cells = list(recipe.cells())
        done = len(kept_results(cells, job))
        state = f"{done} of {len(cells)} runs" + (f"; needs {recipe.needs}" if recipe.needs and not done else "")
        found.append((name, recipe.title, state))
    return found

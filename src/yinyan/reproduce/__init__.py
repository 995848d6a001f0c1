"""Published tables: recipes, their runs, and pages with the published value beside ours."""

from __future__ import annotations

from yinyan.reproduce.recipe import Cell, Recipe, read_recipe, recipe_names
from yinyan.reproduce.running import Job, Result, kept_results, run_cells

__all__ = ["Cell", "Job", "Recipe", "Result", "kept_results", "read_recipe", "recipe_names", "run_cells"]

"""Recipes: TOML files that hold settings and the published values they should give, side by side."""

from __future__ import annotations

import difflib
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from yinyan.errors import SettingsError
from yinyan.evaluation import PROTOCOLS
from yinyan.metrics import metric
from yinyan.peers.contract import merged
from yinyan.peers.full_ranking import is_ranking_metric
from yinyan.peers.knowledge_graphs import FILTERED, triple_method
from yinyan.peers.registry import method
from yinyan.settings import GROUPS, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Cell", "Place", "Recipe", "Row", "read_recipe", "recipe_names"]

Overrides = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """What a row does on one data set."""

    data: str
    seeds: int
    protocols: tuple[str, ...]
    settings: Overrides
    expect: float | None = None  # the published value, in per cent
    spread: float | None = None  # its standard deviation
    expect_of: str = ""  # whose published value it is, where not of the row's own method and settings
    reason: str = ""  # why it is not, or not as it stands, reproduced
    metric: str | None = None  # where it is not the table's


@dataclass(frozen=True)
class Row:
    """A line of a table: a method with its settings."""

    name: str
    method: str
    places: tuple[Place, ...]
    row_normalised: bool = False  # features divided by their row's sum, as some libraries load them
    series: str = ""  # of a figure: the curve this point belongs to
    x: float | None = None  # and where it stands
    source: str = ""  # the protocol of its published values, where it is not the table's


@dataclass(frozen=True)
class Cell:
    """One run: a row of a recipe on a data set, under a protocol, with a seed."""

    recipe: str  # name of the recipe
    row: str  # name of the row
    method: str  # as for `yinyan.peers.method`
    data: str  # as for `yinyan.datasets.load`
    protocol: str  # name of the protocol
    metric: str  # name of the metric
    seed: int  # of split and training
    row_normalised: bool  # whether features are divided by their row's sum
    settings: Overrides = field(hash=False)  # by group
    sources: int | None = None  # the most whose rankings are made, where not all are

    @property
    def summary(self) -> str:
        """The cell in a few words."""
        return f"{self.recipe}: {self.row}, {self.data}, {self.protocol}, seed {self.seed}"

    @property
    def digest(self) -> str:
        """Changes with whatever could change the result; cells of two tables that agree in it are one run."""
        marks: list[Any] = [self.method, self.data, self.protocol, self.metric, self.seed, self.row_normalised]
        marks += [self.settings] if self.sources is None else [self.settings, self.sources]
        return hashlib.blake2b(json.dumps(marks, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Recipe:
    """A table or figure: rows, protocols, and the published values."""

    name: str  # as for `read_recipe`
    title: str  # of the table
    about: str  # what the table shows
    metric: str  # name of the metric
    source: str  # the protocol under which the published values were obtained
    protocols: tuple[str, ...]  # under which it is run
    rows: tuple[Row, ...]  # methods with their settings
    x_label: str = ""  # of the horizontal axis of a figure
    needs: str = ""  # hardware that a run takes
    also: tuple[str, ...] = ()  # further metrics of the same runs, in columns of their own
    sources: int | None = None  # of full rankings: the most that are ranked, drawn by the seed; all unless given
    compare: str = ""  # a row that the page compares with the first of each data set
    first_seed: int = 0  # seeds count from here

    def cells(self, seeds: int | None = None) -> Iterator[Cell]:
        """Every run of the recipe, ordered by seed, so that a run that was stopped has a whole table of fewer seeds.

        Parameters
        ----------
        seeds
            The number of seeds; the recipe's unless given.

        Returns
        -------
        iterator of Cell
            The runs.

        Examples
        --------
        >>> from yinyan import reproduce
        >>> next(reproduce.read_recipe("main").cells()).seed
        0
        """
        jobs = [(r, p, q, s) for r in self.rows for p in r.places for q in p.protocols for s in range(seeds or p.seeds)]
        for row, place, protocol, seed in sorted(jobs, key=lambda job: job[3]):
            where = (place.data, protocol, place.metric or self.metric, self.first_seed + seed)
            yield Cell(self.name, row.name, row.method, *where, row.row_normalised, place.settings, self.sources)


def recipe_names() -> list[str]:
    """The recipes that come with the package.

    Returns
    -------
    list of str
        Their names, sorted.

    Examples
    --------
    >>> from yinyan import reproduce
    >>> "main" in reproduce.recipe_names()
    True
    """
    return sorted(f.name.removesuffix(".toml") for f in _folder().iterdir() if f.name.endswith(".toml"))


def read_recipe(name: str) -> Recipe:
    """A recipe by its name, every setting of it checked.

    Parameters
    ----------
    name
        One of `recipe_names`.

    Returns
    -------
    Recipe
        The recipe.

    Raises
    ------
    SettingsError
        If there is no such recipe.

    Examples
    --------
    >>> from yinyan import reproduce
    >>> reproduce.read_recipe("main").metric
    'hits@100'
    """
    return _recipe(name, _document(name))


def parse_recipe(name: str, text: str) -> Recipe:
    """A recipe from the text of its file."""
    return _recipe(name, tomllib.loads(text))


def _document(name: str) -> dict[str, Any]:
    if name not in recipe_names():
        near = difflib.get_close_matches(name, recipe_names(), n=1, cutoff=0.0)[0]
        raise SettingsError(f"there is no recipe {name!r} (nearest: {near!r}; yinyan reproduce --list names all)")
    return tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def _recipe(name: str, document: Mapping[str, Any]) -> Recipe:
    known = {"title", "about", "metric", "also", "source", "protocols", "seeds", "x_label", "needs", "block", "row"}
    known |= {"sources", "compare", "on", "first_seed", "reason"}
    _refuse_unknown(name, document, known)
    protocols = _protocols(name, document["protocols"])
    _check_metric(document["metric"])
    also = tuple(document.get("also", ()))
    for further in also:
        kinds = [is_ranking_metric(one) - (one in FILTERED) for one in (further, document["metric"])]
        if kinds not in ([1, 1], [-1, -1]):
            raise SettingsError(
                f"{name}: 'also' and 'metric' need to be recall@K, ndcg@K or full-mrr, or all of {', '.join(FILTERED)} "
                f"(got {further!r})"
            )
    if "sources" in document and not is_ranking_metric(document["metric"]):
        raise SettingsError(f"{name}: 'sources' needs a metric of full ranking (got {document['metric']!r})")
    rows = tuple(_row(f"{name}: row {i + 1}", row, document, protocols) for i, row in enumerate(document["row"]))
    if document.get("compare", rows[0].name) not in (row.name for row in rows):
        raise SettingsError(f"{name}: 'compare' needs to name a row (got {document['compare']!r})")
    given = ("title", "metric", "source", "x_label", "needs", "sources", "compare", "first_seed")
    plain = {key: document[key] for key in given if key in document}
    return Recipe(name, about=document.get("about", "").strip(), protocols=protocols, rows=rows, also=also, **plain)


def _row(path: str, row: Mapping[str, Any], document: Mapping[str, Any], protocols: tuple[str, ...]) -> Row:
    _refuse_unknown(
        path, row, {"name", "method", "use", "settings_of", "on", "series", "x", "source", "reason", *GROUPS}
    )
    (triple_method if document["metric"] in FILTERED else method)(row["method"])
    other = _settings_of(path, row)
    settings, normalised = _blocks(path, row, document)
    normalised = normalised or (other.row_normalised if other else False)
    settings = merged(settings, _groups(row))
    common = {"seeds": document.get("seeds", 1), "reason": row.get("reason", document.get("reason", ""))}
    places = tuple(
        _place(f"{path}: {data}", data, given, merged(_on(path, data, other), settings), protocols, document, common)
        for data, given in row.get("on", document.get("on", {})).items()
    )
    shown = {key: row[key] for key in ("series", "x", "source") if key in row}
    return Row(row["name"], row["method"], places, normalised, **shown)


def _blocks(path: str, given: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Overrides, bool]:
    """Settings of the blocks that a row or a place uses, the later ones over the earlier; whether rows are
    normalised."""
    settings: Overrides = {}
    normalised = False
    for block in given.get("use", ()):
        if block not in document.get("block", {}):
            raise SettingsError(f"{path}: there is no block {block!r}")
        chosen = document["block"][block]
        _refuse_unknown(f"{path}: block {block!r}", chosen, {"row_normalised", *GROUPS})
        normalised = normalised or chosen.get("row_normalised", False)
        settings = merged(settings, _groups(chosen))
    return settings, normalised


def _settings_of(path: str, row: Mapping[str, Any]) -> Row | None:
    """The row of another recipe whose settings this one has, if it names one."""
    if "settings_of" not in row:
        return None
    named = row["settings_of"]
    _refuse_unknown(f"{path}: settings_of", named, {"recipe", "row"})
    document = _document(named["recipe"])
    for other in document["row"]:
        if other["name"] == named["row"] and "settings_of" not in other:
            return _row(f"{named['recipe']}: row {named['row']!r}", other, document, tuple(document["protocols"]))
    raise SettingsError(
        f"{path}: 'settings_of' needs to name a row with settings of its own (got {named['row']!r} of "
        f"{named['recipe']!r})"
    )


def _on(path: str, data: str, shared: Row | None) -> Overrides:
    """The settings of another recipe's row on a data set."""
    if shared is None:
        return {}
    for place in shared.places:
        if place.data == data:
            return place.settings
    raise SettingsError(f"{path}: the row {shared.name!r} has no settings for {data!r}: leave 'settings_of' out")


def _place(
    path: str,
    data: str,
    given: Mapping[str, Any],
    settings: Overrides,
    protocols: tuple[str, ...],
    document: Mapping[str, Any],
    common: Mapping[str, Any],
) -> Place:
    own_keys = ("expect", "spread", "expect_of", "reason", "seeds", "metric")
    _refuse_unknown(path, given, {*own_keys, "protocols", "use", *GROUPS})
    if "metric" in given:
        _check_metric(given["metric"])
    shared, normalised = _blocks(path, given, document)
    if normalised:
        raise SettingsError(f"{path}: 'row_normalised' is of a whole row: use such a block there, not on one data set")
    own = merged(merged(settings, shared), _groups(given))
    Settings().updated(own)
    plain = {**common} | {key: given[key] for key in own_keys if key in given}
    return Place(data, protocols=_protocols(path, given.get("protocols", protocols)), settings=own, **plain)


def _check_metric(name: str) -> None:
    if not is_ranking_metric(name) and name not in FILTERED:
        metric(name)


def _groups(given: Mapping[str, Any]) -> Overrides:
    return {group: dict(given[group]) for group in GROUPS if group in given}


def _protocols(path: str, names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in PROTOCOLS:
            raise SettingsError(f"{path}: protocols need to be among {', '.join(PROTOCOLS)} (got {name!r})")
    return tuple(names)


def _refuse_unknown(path: str, given: Mapping[str, Any], known: set[str]) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise SettingsError(f"{path}: unknown key {key!r} (nearest: {near!r})")


def _folder() -> Traversable:
    return files("yinyan.reproduce") / "recipes"

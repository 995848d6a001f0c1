"""Recipes: every shipped one is sound, a slip is refused by its path, and a digest tells runs apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_recipes import TABLE, table

from yinyan.datasets import NAMES
from yinyan.datasets.recommender import LAYOUTS
from yinyan.errors import SettingsError
from yinyan.evaluation import PROTOCOLS
from yinyan.peers.knowledge_graphs import FILTERED, TRIPLE_METHODS
from yinyan.peers.registry import METHODS
from yinyan.reproduce import read_recipe, recipe_names
from yinyan.reproduce.recipe import Place

EVERY = pytest.mark.parametrize("name", recipe_names())


@EVERY
def test_every_shipped_recipe_is_sound(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name and recipe.title and recipe.rows and recipe.about
    names = [row.name for row in recipe.rows]
    assert len(set(names)) == len(names), "rows are told apart by their names"
    for row in recipe.rows:
        assert row.method in (TRIPLE_METHODS if recipe.metric in FILTERED else METHODS)
        assert (row.x is not None) == bool(row.series) == bool(recipe.x_label)
        for place in row.places:
            assert place.data in NAMES and place.seeds >= 1 and set(place.protocols) <= set(PROTOCOLS)
            assert place.protocols and (place.expect is None or 0 < place.expect < 100)
            official = place.data.startswith(("ogbl-", "heart-", "fixed-")) or place.data in LAYOUTS
            official = official or recipe.metric in FILTERED
            assert all(protocol.startswith("official") == official for protocol in place.protocols)
    assert len(list(recipe.cells())) == len({cell.digest for cell in recipe.cells()}), "no cell runs for nothing"


def place(recipe: str, row: str, data: str) -> Place:
    chosen = next(r for r in read_recipe(recipe).rows if r.name == row)
    return next(p for p in chosen.places if p.data == data)


AUTHORS = "YinYanGNN, the authors' settings"


@pytest.mark.parametrize(
    ("recipe", "row", "expected"),
    [
        ("main", AUTHORS, (93.83, 94.45, 90.73)),
        ("negatives", "without negatives", (91.72, 92.61, 86.70)),
        ("cflp", AUTHORS, (84.10, 90.52, 72.38)),
        ("cflp", "CFLP", (65.57, 68.09, 44.90)),
        ("distillation", "LLP", (78.82, 77.32, 57.33)),
        ("distillation", "Logit matching", (74.72, 72.44, 42.78)),
        ("distillation", "Representation matching", (75.75, 65.19, 44.44)),
        ("distillation", "YinYanGNN, ours", (85.39, 84.96, 61.02)),
        ("samplers", "global", (92.63, 93.43, 90.54)),
        ("samplers", "source", (92.69, 94.45, 90.40)),
        ("proportions", "1:0.1", (93.26, 92.44, 87.08)),
        ("proportions", "1:10", (87.31, 92.50, 57.00)),
        ("random-features", "random features", (91.25, 89.69, 79.82)),
        ("gcn-negatives", "GCN with negatives", (76.15, 67.80, 74.96)),
        ("gnns", "GAT", (79.10, 64.56, 41.81)),
        ("non-gnn", "TransE", (67.40, 60.19, 36.67)),
        ("peers", "NCNC", (89.65, 93.47, 81.29)),
        ("peers", "GAE", (89.01, 91.78, 78.81)),
        ("peers", "SEAL", (81.71, 83.89, 75.54)),
        ("peers", "NBFNet", (71.65, 74.07, 58.73)),
        ("peers", "Neo-GNN", (80.42, 84.67, 73.93)),
        ("peers", "ELPH", (87.72, 93.44, 72.99)),
        ("peers", "BUDDY", (88.00, 92.93, 74.10)),
        ("peers", "OCN as published (leaks)", (89.82, 93.62, 83.96)),
        ("peers", "OCNP as published (leaks)", (90.06, 93.41, 82.32)),
    ],
)
def test_published_values_of_the_planetoid_sets(recipe: str, row: str, expected: tuple[float, ...]) -> None:
    assert tuple(place(recipe, row, data).expect for data in ("cora", "citeseer", "pubmed")) == expected


@pytest.mark.parametrize(
    ("recipe", "row", "data", "expected"),
    [
        ("ddi", "YinYanGNN, two-core budget", "ogbl-ddi", 80.92),
        ("ddi", "RA", "ogbl-ddi", 27.60),
        ("collab", "YinYanGNN", "ogbl-collab", 66.10),
        ("ppa", "YinYanGNN, K = 1", "ogbl-ppa", 54.64),
        ("ppa", "YinYanGNN, K = 2", "ogbl-ppa", 56.60),
        ("citation2", "YinYanGNN", "ogbl-citation2", 86.21),
        ("citation2", "YinYanGNN with NCN's decoder, K = 1", "ogbl-citation2", 90.03),
        ("heart", "NCN", "heart-citeseer", 28.65),
    ],
)
def test_published_values_of_official_splits(recipe: str, row: str, data: str, expected: float) -> None:
    assert place(recipe, row, data).expect == expected


def test_published_spreads() -> None:
    spreads = [place("main", AUTHORS, data).spread for data in ("cora", "citeseer", "pubmed")]
    assert spreads == [0.78, 0.53, 0.40]
    assert place("ddi", "YinYanGNN, two-core budget", "ogbl-ddi").spread == 3.35


def test_leaking_values_stand_beside_the_leaking_protocol() -> None:
    """The paper's own split leaks: its figures are named so, and a clean column stands beside them."""
    for name in ("main", "negatives", "samplers", "proportions", "random-features", "lambda"):
        recipe = read_recipe(name)
        assert recipe.source == "released" and {"released", "clean"} <= set(recipe.protocols)


class TestSettings:
    def test_blocks_then_rows_then_places(self) -> None:
        ours = table().rows[1]
        assert ours.row_normalised and not table().rows[0].row_normalised
        assert ours.places[0].settings == {"encoder": {"hidden_size": 16, "num_steps": 4}}

    def test_a_place_uses_blocks_of_its_own(self) -> None:
        """Over those of its row, and under its own settings."""
        text = TABLE.replace("[[row]]", "[block.deep]\nencoder = { num_steps = 7, dropout = 0.2 }\n\n[[row]]", 1)
        text = text.replace("{ encoder = { num_steps = 4 } }", '{ use = ["deep"], encoder = { dropout = 0.1 } }')
        settings = table(text).rows[1].places[0].settings
        assert settings == {"encoder": {"hidden_size": 16, "num_steps": 7, "dropout": 0.1}}

    def test_seeds_and_protocols_of_a_place_win(self) -> None:
        cora, citeseer = table().rows[0].places
        assert (cora.seeds, cora.protocols, cora.expect, cora.spread) == (2, ("released", "clean"), 33.92, 0.46)
        assert (citeseer.seeds, citeseer.protocols, citeseer.expect) == (1, ("clean",), None)

    def test_of_another_recipe(self) -> None:
        """The row's own settings, and those of its data set, come after what it shares."""
        shared = 'settings_of = { recipe = "accuracy", row = "YinYanGNN, ours" }'
        ours = table(TABLE.replace('use = ["warm"]', shared)).rows[1]
        assert ours.places[0].settings == {"encoder": {"sketch_size": 64, "num_steps": 4}}
        assert ours.places[0].expect is None and not ours.row_normalised
        text = TABLE.replace('use = ["warm"]', 'settings_of = { recipe = "main", row = "' + AUTHORS + '" }')
        assert table(text).rows[1].row_normalised

    def test_reasons_of_a_data_set_win_over_those_of_its_row(self) -> None:
        text = TABLE.replace("seeds = 2", 'seeds = 2\nreason = "of all"', 1)
        text = text.replace('method = "cn"', 'method = "cn"\nreason = "of the row"\nsource = "a split"')
        recipe = table(text.replace("seeds = 1 }", 'seeds = 1, reason = "of Citeseer", expect_of = "SEAL" }'))
        first, second = recipe.rows
        assert [place.reason for place in first.places] == ["of the row", "of Citeseer"]
        assert [place.expect_of for place in first.places] == ["", "SEAL"]
        assert (second.places[0].reason, first.source, second.source) == ("of all", "a split", "")


def test_fresh_splits_share_the_settings_of_accuracy() -> None:
    recipe = read_recipe("fresh-splits")
    assert {cell.seed for cell in recipe.cells()} == set(range(200, 210))
    for data in ("cora", "citeseer", "pubmed"):
        own = place("fresh-splits", "YinYanGNN, settings of the recipe accuracy", data)
        assert own.settings == place("accuracy", "YinYanGNN, ours", data).settings and own.settings
        assert (own.expect, own.expect_of) == (place("peers", "NCNC", data).expect, "NCNC")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds = 2", "sedes = 2", r"small: unknown key 'sedes' \(nearest: 'seeds'\)"),
        ('method = "cn"', 'method = "cn"\nusing = []', r"small: row 1: unknown key 'using' \(nearest: 'use'\)"),
        ('method = "cn"', 'method = "kn"', r"there is no method 'kn' \(nearest: '\w+'"),
        ("expect = 33.92", "expects = 33.92", r"small: row 1: cora: unknown key 'expects' \(nearest: 'expect'\)"),
        ("row_normalised = true", "normalised = true", r"small: row 2: block 'warm': unknown key 'normalised'"),
        ('use = ["warm"]', 'use = ["worm"]', r"small: row 2: there is no block 'worm'"),
        (
            "{ encoder = { num_steps = 4",
            '{ use = ["warm"], encoder = { num_steps = 4',
            r"row 2: cora: 'row_normalised' is",
        ),
        ('["released", "clean"]', '["dirty"]', r"small: protocols need to be among clean, .*\(got 'dirty'\)"),
        ('protocols = ["clean"]', 'protocols = ["x"]', r"small: row 1: citeseer: protocols need .*\(got 'x'\)"),
        ('"hits@100"', '"misses@100"', r"misses@100"),
        (
            '"hits@100"',
            '"hits@100"\nalso = ["recall@20"]',
            r"small: 'also' and 'metric' need to be recall@K, ndcg@K or full-mrr",
        ),
        ('"hits@100"', '"ndcg@20"\nalso = ["mrr"]', r"small: 'also' and 'metric' need .*\(got 'mrr'\)"),
        (
            '"hits@100"',
            '"hits@100"\nsources = 5',
            r"small: 'sources' needs a metric of full ranking \(got 'hits@100'\)",
        ),
        ('"hits@100"', '"hits@100"\ncompare = "us"', r"small: 'compare' needs to name a row \(got 'us'\)"),
        ("expect = 33.92", "reasons = 'x'", r"small: row 1: cora: unknown key 'reasons' \(nearest: 'reason'\)"),
        (
            'use = ["warm"]',
            'settings_of = { recipe = "peers", row = "MLP" }',
            r"small: row 2: 'settings_of' needs to name a row with settings of its own \(got 'MLP' of 'peers'\)",
        ),
        (
            'use = ["warm"]',
            'settings_of = { recipe = "fresh-splits", row = "YinYanGNN, settings of the recipe accuracy" }',
            r"small: row 2: 'settings_of' needs to name a row with settings of its own",
        ),
        ('use = ["warm"]', 'settings_of = { recipe = "pears", row = "CN" }', r"there is no recipe 'pears'"),
        (
            'use = ["warm"]',
            'settings_of = { recipe = "peers", name = "CN" }',
            r"small: row 2: settings_of: unknown key 'name' \(nearest: ",
        ),
        (
            'use = ["warm"]',
            'settings_of = { recipe = "ddi", row = "CN" }',
            r"small: row 2: the row 'CN' has no settings for 'cora'",
        ),
        ("{ num_steps = 4 }", "{ num_stebs = 4 }", r"encoder\.num_stebs: unknown setting \(nearest: 'num_steps'\)"),
        ("{ num_steps = 4 }", "{ num_steps = -4 }", r"encoder\.num_steps: needs to be"),
    ],
)
def test_slips_are_refused_by_their_path(old: str, new: str, words: str) -> None:
    assert old in TABLE
    with pytest.raises(SettingsError, match=words):
        table(TABLE.replace(old, new, 1))


def test_unknown_recipes_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"there is no recipe 'mian' \(nearest: 'main'; yinyan reproduce --list"):
        read_recipe("mian")


class TestCells:
    def test_first_seeds_come_first(self) -> None:
        cells = [(c.seed, c.row, c.data, c.protocol) for c in table().cells()]
        assert cells == [
            (0, "common neighbours", "cora", "released"),
            (0, "common neighbours", "cora", "clean"),
            (0, "common neighbours", "citeseer", "clean"),
            (0, "ours", "cora", "released"),
            (0, "ours", "cora", "clean"),
            (1, "common neighbours", "cora", "released"),
            (1, "common neighbours", "cora", "clean"),
            (1, "ours", "cora", "released"),
            (1, "ours", "cora", "clean"),
        ]

    def test_seeds_can_be_given(self) -> None:
        assert {c.seed for c in table().cells(3)} == {0, 1, 2}
        assert [c.data for c in table().cells(3)].count("citeseer") == 3

    def test_seeds_can_count_from_another(self) -> None:
        later = table(TABLE.replace("seeds = 2", "seeds = 2\nfirst_seed = 200", 1))
        assert [c.seed - 200 for c in later.cells()] == [c.seed for c in table().cells()]
        assert {c.seed for c in later.cells(3)} == {200, 201, 202}

    def test_carry_what_they_need(self) -> None:
        ours = next(c for c in table().cells() if c.row == "ours")
        assert (ours.method, ours.metric, ours.row_normalised) == ("yinyan", "hits@100", True)
        assert ours.summary == "small: ours, cora, released, seed 0"
        assert hash(ours) == hash(replace(ours, settings={}))

    def test_the_digest_changes_with_whatever_could_change_the_result(self) -> None:
        cell = next(c for c in table().cells() if c.row == "ours")
        others = [
            replace(cell, method="gcn"),
            replace(cell, data="citeseer"),
            replace(cell, protocol="clean"),
            replace(cell, metric="hits@50"),
            replace(cell, seed=1),
            replace(cell, row_normalised=False),
            replace(cell, settings={"encoder": {"hidden_size": 16, "num_steps": 5}}),
            replace(cell, settings={"encoder": {"hidden_size": 16}}),
            replace(cell, settings={"decoder": {"hidden_size": 16, "num_steps": 4}}),
        ]
        assert len({cell.digest, *(other.digest for other in others)}) == 10

    def test_the_digest_does_not_change_with_names_or_order(self) -> None:
        cell = next(c for c in table().cells() if c.row == "ours")
        turned = {"encoder": dict(reversed(cell.settings["encoder"].items()))}
        assert replace(cell, recipe="other", row="another", settings=turned).digest == cell.digest

    def test_tables_share_runs(self) -> None:
        """The rows of the main table with negatives are those of the ablation."""
        main, ablation = ({c.digest for c in read_recipe(n).cells()} for n in ("main", "negatives"))
        assert main & ablation


def test_sources_tell_runs_apart_and_none_leave_old_digests_as_they_were() -> None:
    ranked = TABLE.replace('"hits@100"', '"full-mrr"')
    all_of_them, some, fewer = (
        next(table(ranked.replace('"full-mrr"', f'"full-mrr"{more}')).cells())
        for more in ("", "\nsources = 200", "\nsources = 20")
    )
    assert (all_of_them.sources, some.sources, fewer.sources) == (None, 200, 20)
    assert len({all_of_them.digest, some.digest, fewer.digest}) == 3
    kept = next(read_recipe("recommenders").cells())
    assert kept.sources is None and kept.digest == replace(kept, sources=None).digest


def test_data_sets_of_all_rows_stand_in_one_place() -> None:
    """A row without data sets of its own takes the table's."""
    shared = TABLE.replace("on.cora = { encoder = { num_steps = 4 } }", "")
    recipe = table(shared.replace("[block.warm]", "[on]\nusair = {}\nns = { seeds = 1 }\n\n[block.warm]"))
    first, second = recipe.rows
    assert [place.data for place in first.places] == ["cora", "citeseer"]
    assert [(place.data, place.seeds) for place in second.places] == [("usair", 2), ("ns", 1)]

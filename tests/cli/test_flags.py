from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from command_line import TINY, refused, run, works, write_links
from yinyan import Graph
from yinyan.cli import common
from yinyan.cli.flags import Run, old_flag, with_run, with_table
from yinyan.errors import InputError, SettingsError
from yinyan.graph.table_options import TableOptions
from yinyan.settings import GROUPS, Settings, allowed_kinds, parse_overrides, setting_paths

FIELDS = [(group, field) for group, kind in GROUPS.items() for field in dataclasses.fields(kind)]
EACH = pytest.mark.parametrize(("group", "field"), FIELDS, ids=setting_paths())


def received(*arguments: str) -> tuple[dict[str, dict[str, Any]], str]:
    """What a command with the settings' flags is called with, and its standard error."""
    app, calls = typer.Typer(), []

    @app.command()
    @with_run
    def stub(*, run: Run) -> None:
        calls.append(run.overrides)

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return calls[0], result.stderr


def table_options(*arguments: str) -> TableOptions:
    """What a command with the tables' flags is called with."""
    app, calls = typer.Typer(), []

    @app.command()
    @with_table
    def stub(*, table: TableOptions) -> None:
        calls.append(table)

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return calls[0]


def examples(group: str, field: dataclasses.Field[Any]) -> list[tuple[str, Any]]:
    """Two texts for a setting, and the values that must come of them."""
    kinds, choices = allowed_kinds(typing.get_type_hints(GROUPS[group])[field.name])
    if bool in kinds:
        return [("true", True), ("false", False)]
    found: list[tuple[str, Any]] = [(choice, choice) for choice in choices]
    found += [("none", None)] if type(None) in kinds else []
    numbers = [1, 2] if int in kinds else [0.25, 0.5] if float in kinds else []
    return [*found, *((str(number), number) for number in numbers)][-2:]


class TestSet:
    @EACH
    def test_reaches_its_setting_and_no_other(self, group: str, field: dataclasses.Field[Any]) -> None:
        values = []
        for text, value in examples(group, field):
            overrides, said = received("--set", f"{group}.{field.name}={text}")
            assert set(overrides) == {group} and set(overrides[group]) == {field.name} and said == ""
            changed = getattr(getattr(Settings().updated(overrides), group), field.name)
            assert changed == value and type(changed) is type(value)
            values.append(value)
        assert len(set(values)) == 2

    def test_is_repeatable_and_the_last_wins(self) -> None:
        found, _ = received(
            "--set", "encoder.dropout=.1", "--set", "decoder.dropout = 0.2", "--set", "encoder.dropout=0"
        )
        assert found == {"encoder": {"dropout": 0}, "decoder": {"dropout": 0.2}}
        assert received()[0] == {}

    def test_takes_words_and_numbers(self) -> None:
        assert parse_overrides(["encoder.step_size=safe"]) == {"encoder": {"step_size": "safe"}}
        assert parse_overrides(["encoder.step_size=0.2"]) == {"encoder": {"step_size": 0.2}}
        assert parse_overrides(["encoder.self_loops=TRUE"]) == {"encoder": {"self_loops": True}}
        assert Settings().updated(parse_overrides(["encoder.margin=none"])).encoder.margin is None

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("encoder.num_stepz=3", r"^encoder\.num_stepz: unknown setting \(nearest: 'num_steps'\)$"),
            ("encodr.num_steps=3", r"^encodr: unknown setting \(nearest: 'encoder'\)$"),
            ("num_steps=3", r"^num_steps: unknown setting \(nearest: 'encoder\.num_steps'\)$"),
            ("epochs=3", r"^epochs: unknown setting \(nearest: 'training\.epochs'\)$"),
            ("encoder.num_steps", r"needs to be name=value, such as encoder\.num_steps=3$"),
            ("=3", "needs to be name=value"),
            ("training.epochs=many", r"training\.epochs: needs to be an integer of at least 1 \(got 'many'\)"),
            ("training.epochs=0", r"training\.epochs: needs to be an integer of at least 1 \(got 0\)"),
            ("encoder.repulsion=nan", r"encoder\.repulsion: needs to be a number"),
            ("encoder.self_loops=1", r"encoder\.self_loops: needs to be true or false \(got '1'\)"),
            ("training.loss=best", r"training\.loss: needs to be 'paper', 'squared'"),
        ],
    )
    def test_refuses_with_the_path_and_the_nearest_name(self, text: str, said: str) -> None:
        with pytest.raises(SettingsError, match=said):
            parse_overrides([text])

    def test_is_in_the_saved_model(self, tmp_path: Path) -> None:
        links, flags = write_links(tmp_path / "links.csv"), ("--set", "encoder.num_steps=1")
        works("fit", links, "--out", tmp_path / "m", *TINY, *flags, "--set", "encoder.output_norm=false", "-q")
        kept = (tmp_path / "m" / "settings.toml").read_text(encoding="utf-8")
        assert "num_steps = 1\n" in kept and "output_norm = false\n" in kept

    @pytest.mark.parametrize("command", ["fit", "evaluate"])
    def test_is_refused_in_one_line_before_the_table_is_read(self, command: str, tmp_path: Path) -> None:
        assert "encoder.dropout: needs to be" in refused(command, tmp_path / "absent.csv", "--set", "encoder.dropout=2")


class TestOldFlags:
    """Flags of single settings work for one version more, out of sight and with a warning."""

    @EACH
    def test_reaches_its_setting_and_warns(self, group: str, field: dataclasses.Field[Any]) -> None:
        flag = old_flag(group, field.name)
        for text, value in examples(group, field):
            no = f"--no-{flag[2:]}"
            used = [flag] if value is True else [no] if value is False else [flag, text]
            overrides, said = received(*used)
            assert overrides == parse_overrides([f"{group}.{field.name}={text}"])
            assert said == (
                f"warning: {used[0]} will be removed in the next version: write --set {group}.{field.name}={text}\n"
            )

    def test_one_warning_for_all_and_set_wins(self) -> None:
        overrides, said = received("--dropout", "0.1", "--decoder-dropout", "0.2", "--set", "encoder.dropout=0.3")
        assert overrides == {"encoder": {"dropout": 0.3}, "decoder": {"dropout": 0.2}}
        assert said.count("warning") == 1 and "--set encoder.dropout=0.1 --set decoder.dropout=0.2" in said

    def test_flags_of_renamed_settings(self) -> None:
        overrides, said = received("--validation-share", "0.2")
        assert overrides == {"training": {"valid_share": 0.2}}
        assert "write --set training.valid_share=0.2" in said
        assert parse_overrides(["training.validation_negatives=5"]) == {"training": {"valid_negatives": 5}}

    def test_both_ways_exclude_each_other(self) -> None:
        with pytest.raises(SettingsError, match="--self-loops and --no-self-loops exclude each other"):
            received("--self-loops", "--no-self-loops")


class TestSettingsCommand:
    def test_lists_every_setting_with_meaning_default_and_values(self) -> None:
        listed = works("settings", "--json").json
        assert [row["name"] for row in listed] == setting_paths()
        by_name = {row["name"]: row for row in listed}
        assert by_name["encoder.num_steps"] == {
            "name": "encoder.num_steps",
            "meaning": next(f for g, f in FIELDS if (g, f.name) == ("encoder", "num_steps")).metadata["help"],
            "default": 4,
            "allowed": "an integer of at least 0",
        }
        assert by_name["encoder.margin"]["default"] == "none"
        assert by_name["decoder.kind"]["allowed"] == "'hadamard', 'dot', 'multi-dot', 'distance' or 'complex'"

    def test_reads_well_at_a_hundred_columns(self) -> None:
        lines = works("settings").out.splitlines()
        assert lines[0].split() == ["name", "meaning", "default", "allowed", "values"]
        assert all(len(line) <= 100 for line in lines)
        assert [line.split()[0] for line in lines if line.startswith(tuple(GROUPS))] == setting_paths()

    @pytest.mark.parametrize(
        ("names", "count"),
        [("encoder", len(dataclasses.fields(GROUPS["encoder"]))), ("decoder.width", 1), ("negatives", 4)],
    )
    def test_filters(self, names: str, count: int) -> None:
        rows = works("settings", names, "--json").json
        assert len(rows) == count and all(names in row["name"] for row in rows)

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        assert "no setting is called 'encodr' (nearest: 'encoder')" in refused("settings", "encodr")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[encoder]\nnum_steps = 3\nmargin = "none"\n[training]\nepochs = 7\n', encoding="utf-8")
    model = common.predictor(Run(file, seed=1, device="cpu", overrides={"encoder": {"num_steps": 2}}))
    assert model.get_params(deep=False)["encoder"] == {"num_steps": 2, "margin": "none"}
    assert model.get_params(deep=False)["training"] == {"epochs": 7}
    assert common.predictor(Run(seed=1, device="cpu")).get_params(deep=False)["encoder"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[encodr]\nnum_steps = 1\n", "encodr: unknown setting (nearest: 'encoder')"),
        ("[encoder]\nnum_stepz = 1\n", "encoder.num_stepz: unknown setting (nearest: 'num_steps')"),
        ("[training]\nepochs = 1.5\n", "training.epochs: needs to be an integer of at least 1 (got 1.5)"),
        ("[training]\nloss = 'best'\n", "training.loss: needs to be"),
        ("[training]\nmask_targets = 1\n", "training.mask_targets: needs to be true or false (got 1)"),
        ("[encoder\n", "is not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(content, encoding="utf-8")
    assert said in refused("fit", write_links(tmp_path / "links.csv"), "--settings", file)


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path) -> None:
    said = refused("fit", tmp_path / "links.csv", "--settings", tmp_path / "absent.toml")
    assert "cannot read the settings file" in said


TABLE = [
    (("--nodes", "a.csv"), "nodes", "a.csv"),
    (("--source", "x"), "source", "x"),
    (("--target", "2"), "target", "2"),
    (("--weight", "2020"), "weight", "2020"),
    (("--no-weight",), "weight", False),
    (("--time", "when"), "time", "when"),
    (("--no-time",), "time", False),
    (("--edge-feature", "channel", "--edge-feature", "km"), "edge_features", ["channel", "km"]),
    (("--query", "SELECT a, b FROM c"), "query", "SELECT a, b FROM c"),
    (("--nodes-query", "papers"), "nodes_query", "papers"),
    (("--node-id", "key", "--nodes", "a.csv"), "node_id", "key"),
    (("--feature", "a", "--feature", "b", "--nodes", "a.csv"), "feature_columns", ["a", "b"]),
    (("--label", "title", "--nodes", "a.csv"), "label", "title"),
    (("--no-label",), "label", False),
    (("--attribute", "a", "--attribute", "b", "--nodes", "a.csv"), "attributes", ["a", "b"]),
    (("--no-attributes",), "attributes", False),
    (("--directed",), "directed", True),
    (("--bipartite",), "bipartite", True),
    (("--bipartite", "--prefixes", "user:,item:"), "prefixes", ("user:", "item:")),
    (("--keep-unmatched",), "unmatched", "keep"),
    (("--id-type", "integer"), "id_type", "integer"),
    (("--no-header",), "header", False),
    (("--delimiter", "\\t"), "delimiter", "\t"),
    (("--delimiter", ";"), "delimiter", ";"),
    (("--encoding", "latin-1"), "encoding", "latin-1"),
    (("--na", "NULL", "--na", "x"), "na_values", ["NULL", "x"]),
]


@pytest.mark.parametrize(("arguments", "option", "value"), TABLE, ids=[t[0][0] for t in TABLE])
def test_each_table_flag_reaches_its_option(arguments: tuple[str, ...], option: str, value: Any) -> None:
    plain, changed = table_options(), table_options(*arguments)
    assert plain == TableOptions()
    assert getattr(changed, option) == value != getattr(plain, option)


def test_the_table_flags_are_all_tried() -> None:
    tried = {name for arguments, _, _ in TABLE for name in arguments if name.startswith("--")}
    assert {option for _, option, _ in TABLE} == {f.name for f in dataclasses.fields(TableOptions)}
    own = {"--json", "--quiet", "--help", "--relation"}
    shown = set(re.findall(r"(--[a-z-]+) ", works("audit", "--help").out)) - own
    assert shown == tried


def test_table_options_and_from_table_agree() -> None:
    """Names, defaults and types are declared once; the signature is there for readers and type checkers."""
    parameters = dict(inspect.signature(Graph.from_table).parameters)
    del parameters["edges"]
    fields = {f.name: f for f in dataclasses.fields(TableOptions)}
    assert parameters.keys() == fields.keys()
    assert {n: p.default for n, p in parameters.items()} == {n: f.default for n, f in fields.items()}
    assert {n: p.annotation for n, p in parameters.items()} == {n: f.type for n, f in fields.items()}
    assert all(f.metadata["help"] for f in fields.values())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--id-type", "number"), r"\(--id-type\) needs to be 'keep', 'text' or 'integer' \(got 'number'\)"),
        (("--bipartite", "--prefixes", "user:"), r"\(--prefixes\) needs two different texts"),
        (("--prefixes", "user:,item:"), r"pass bipartite=True \(--bipartite\)"),
        (("--feature", "a"), "--nodes"),
        (("--node-id", "a"), "--nodes"),
        (("--weight", "w", "--no-weight"), "--weight and --no-weight exclude each other"),
        (("--directed", "--bipartite"), "either directed or bipartite"),
    ],
)
def test_table_flags_that_make_no_sense(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        table_options(*flags)


def test_a_column_named_by_a_number_is_found_by_that_name(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("a,b,2020\n" + "".join(f"x{i},x{(i + s) % 20},{s}\n" for i in range(20) for s in (1, 3)))
    assert run("fit", path, "--weight", "2020", "--out", tmp_path / "m", *TINY, "-q").code == 0
    assert "edge weights" in run("info", tmp_path / "m").out

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from command_line import TINY, refused, run, write_links
from yinyan import shell
from yinyan.errors import InputError
from yinyan.flags import TableFlags, flag_name, with_settings, with_table
from yinyan.settings import GROUPS, Settings, allowed_kinds

FIELDS = [(group, field) for group, kind in GROUPS.items() for field in dataclasses.fields(kind)]
NAMES = [f"{group}.{field.name}" for group, field in FIELDS]


def received(*arguments: str) -> dict[str, dict[str, Any]]:
    """What a command with the settings' flags is called with."""
    app, calls = typer.Typer(), []

    @app.command()
    @with_settings
    def stub(*, overrides: dict[str, Any]) -> None:
        calls.append(overrides)

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return calls[0]


def table_flags(*arguments: str) -> TableFlags:
    """What a command with the tables' flags is called with."""
    app, calls = typer.Typer(), []

    @app.command()
    @with_table
    def stub(*, table: TableFlags) -> None:
        calls.append(table)

    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return calls[0]


def examples(group: str, field: dataclasses.Field[Any]) -> list[tuple[list[str], Any]]:
    """Two ways to use a setting's flag, and the values that must come of them."""
    kinds, choices = allowed_kinds(typing.get_type_hints(GROUPS[group])[field.name])
    flag = flag_name(group, field.name).replace("_", "-")
    if bool in kinds:
        return [([f"--{flag}"], True), ([f"--no-{flag}"], False)]
    found: list[tuple[list[str], Any]] = [([f"--{flag}", choice], choice) for choice in choices]
    found += [([f"--{flag}", "none"], None)] if type(None) in kinds else []
    numbers = [1, 2] if int in kinds else [0.25, 0.5] if float in kinds else []
    return [*found, *(([f"--{flag}", str(number)], number) for number in numbers)][-2:]


@pytest.mark.parametrize(("group", "field"), FIELDS, ids=NAMES)
def test_each_flag_reaches_its_setting_and_no_other(group: str, field: dataclasses.Field[Any]) -> None:
    values = []
    for arguments, value in examples(group, field):
        overrides = received(*arguments)
        assert set(overrides) == {group} and set(overrides[group]) == {field.name}
        changed = Settings().updated(overrides)
        assert getattr(getattr(changed, group), field.name) == value
        assert type(getattr(getattr(changed, group), field.name)) is type(value)
        values.append(value)
    assert len(set(values)) == 2


def test_every_word_that_a_setting_takes_has_its_flag() -> None:
    for group, field in FIELDS:
        _, choices = allowed_kinds(typing.get_type_hints(GROUPS[group])[field.name])
        for choice in choices:
            flag = "--" + flag_name(group, field.name).replace("_", "-")
            assert received(flag, choice) == {group: {field.name: choice}}


def test_unused_flags_override_nothing() -> None:
    assert received() == {}


def test_words_and_numbers_of_one_flag() -> None:
    assert received("--step-size", "safe") == {"encoder": {"step_size": "safe"}}
    assert received("--step-size", "0.2") == {"encoder": {"step_size": 0.2}}
    assert Settings().updated(received("--margin", "none")).encoder.margin is None
    assert Settings().updated(received("--margin", "2")).encoder.margin == 2.0


def test_the_two_dropouts_are_told_apart() -> None:
    both = received("--dropout", "0.1", "--decoder-dropout", "0.2")
    assert both == {"encoder": {"dropout": 0.1}, "decoder": {"dropout": 0.2}}


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[encoder]\nnum_steps = 3\nmargin = "none"\n[training]\nepochs = 7\n', encoding="utf-8")
    model = shell.predictor(file, {"encoder": {"num_steps": 2}}, seed=1, device="cpu")
    assert model.get_params(deep=False)["encoder"] == {"num_steps": 2, "margin": "none"}
    assert model.get_params(deep=False)["training"] == {"epochs": 7}
    assert shell.predictor(None, {}, seed=1, device="cpu").get_params(deep=False)["encoder"] is None


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epochs", "many"), "training.epochs: needs to be an integer of at least 1 (got 'many')"),
        (("--epochs", "0"), "training.epochs: needs to be an integer of at least 1 (got 0)"),
        (("--dropout", "2"), "encoder.dropout: needs to be a number"),
        (("--repulsion", "nan"), "encoder.repulsion: needs to be a number"),
        (("--margin", "wide"), "encoder.margin: needs to be"),
        (("--loss", "best"), "training.loss: needs to be 'paper', 'squared'"),
        (("--self-loops", "--no-self-loops"), "--self-loops and --no-self-loops exclude each other"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in refused("fit", tmp_path / "links.csv", *arguments)


def test_a_setting_given_by_flag_is_in_the_saved_model(tmp_path: Path) -> None:
    links = write_links(tmp_path / "links.csv")
    assert run("fit", links, "--out", tmp_path / "m", *TINY, "--num-steps", "1", "--no-output-norm", "-q").code == 0
    kept = (tmp_path / "m" / "settings.toml").read_text(encoding="utf-8")
    assert "num_steps = 1\n" in kept and "output_norm = false\n" in kept


TABLE = [
    (("--nodes", "a.csv"), "nodes", Path("a.csv")),
    (("--source", "x"), "source", "x"),
    (("--target", "2"), "target", "2"),
    (("--weight", "2020"), "weight", "2020"),
    (("--no-weight",), "weight", False),
    (("--time", "when"), "time", "when"),
    (("--no-time",), "time", False),
    (("--node-id", "key", "--nodes", "a.csv"), "node_id", "key"),
    (("--feature", "a", "--feature", "b", "--nodes", "a.csv"), "feature_columns", ["a", "b"]),
    (("--directed",), "directed", True),
    (("--bipartite",), "bipartite", True),
    (("--bipartite", "--prefixes", "user:,item:"), "prefixes", ("user:", "item:")),
    (("--keep-unmatched",), "unmatched", "keep"),
    (("--id-type", "integer"), "id_type", "integer"),
    (("--no-header",), "header", False),
    (("--delimiter", "\\t"), "delimiter", "\t"),
    (("--delimiter", ";"), "delimiter", ";"),
    (("--encoding", "latin-1"), "encoding", "latin-1"),
]


@pytest.mark.parametrize(("arguments", "option", "value"), TABLE, ids=[t[0][0] for t in TABLE])
def test_each_table_flag_reaches_its_option(arguments: tuple[str, ...], option: str, value: Any) -> None:
    plain, changed = table_flags().graph_options(), table_flags(*arguments).graph_options()
    assert changed[option] == value != plain[option]


def test_the_table_flags_are_all_tried() -> None:
    tried = {name for arguments, _, _ in TABLE for name in arguments if name.startswith("--")}
    assert {"--" + field.name.replace("_", "-") for field in dataclasses.fields(TableFlags)} == tried


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (TableFlags(id_type="number"), "--id-type needs to be keep, text or integer"),
        (TableFlags(bipartite=True, prefixes="user:"), "--prefixes needs two texts"),
        (TableFlags(prefixes="user:,item:"), "add --bipartite"),
        (TableFlags(feature=["a"]), "--nodes"),
        (TableFlags(node_id="a"), "--nodes"),
        (TableFlags(weight="w", no_weight=True), "--weight and --no-weight exclude each other"),
    ],
)
def test_table_flags_that_make_no_sense(flags: TableFlags, said: str) -> None:
    with pytest.raises(InputError, match=said):
        flags.graph_options()


def test_a_column_named_by_a_number_is_found_by_that_name(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("a,b,2020\n" + "".join(f"x{i},x{(i + s) % 20},{s}\n" for i in range(20) for s in (1, 3)))
    assert run("fit", path, "--weight", "2020", "--out", tmp_path / "m", *TINY, "-q").code == 0
    assert "weighted edges" in run("info", tmp_path / "m").out

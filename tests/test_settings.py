"""Settings: what is refused, in which words, and what survives a file."""

from __future__ import annotations

import dataclasses
import math
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yinyan.errors import SettingsError
from yinyan.settings import (
    GROUPS,
    DecoderSettings,
    EncoderSettings,
    Settings,
    TrainingSettings,
    allowed_kinds,
    read_settings,
)

FIELDS = [(group, f) for group, kind in GROUPS.items() for f in dataclasses.fields(kind)]
EACH = pytest.mark.parametrize(("group", "field"), FIELDS, ids=[f"{group}.{f.name}" for group, f in FIELDS])


def kinds_of(group: str, field: dataclasses.Field[Any]) -> tuple[list[type], list[str]]:
    return allowed_kinds(typing.get_type_hints(GROUPS[group])[field.name])


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"encoder": {"hiden_size": 3}}, r"encoder\.hiden_size: unknown setting \(nearest: 'hidden_size'\)"),
            (
                {"training": {"learning_rat": 3}},
                r"training\.learning_rat: unknown setting \(nearest: 'learning_rate'\)",
            ),
            ({"decoder": {"layers": 3}}, r"decoder\.layers: unknown setting \(nearest: "),
            ({"encodr": {}}, r"encodr: unknown setting \(nearest: 'encoder'\)"),
            ({"hidden_size": 3}, r"hidden_size: unknown setting"),
            ({"encoder": {3: 3}}, r"encoder\.3: unknown setting"),
        ],
    )
    def test_name_their_path_and_the_nearest(self, overrides: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            Settings().updated(overrides)

    def test_a_group_must_be_a_mapping(self) -> None:
        with pytest.raises(SettingsError, match=r"encoder: needs a mapping of settings or EncoderSettings \(got 3\)"):
            Settings().updated({"encoder": 3})
        with pytest.raises(SettingsError, match="encoder: needs a mapping"):
            Settings().updated({"encoder": DecoderSettings()})


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "values", "message"),
        [
            (
                EncoderSettings,
                {"hidden_size": 0},
                r"encoder\.hidden_size: needs to be an integer of at least 1 \(got 0\)",
            ),
            (EncoderSettings, {"hidden_size": True}, r"encoder\.hidden_size: needs to be an integer.*\(got True\)"),
            (EncoderSettings, {"hidden_size": 8.0}, r"encoder\.hidden_size: needs to be an integer.*\(got 8\.0\)"),
            (EncoderSettings, {"hidden_size": "8"}, r"encoder\.hidden_size: needs to be an integer.*\(got '8'\)"),
            (
                EncoderSettings,
                {"anchoring": "much"},
                r"encoder\.anchoring: needs to be a number of at least 0 \(got 'much'\)",
            ),
            (EncoderSettings, {"anchoring": -0.1}, r"encoder\.anchoring: .*got -0\.1"),
            (EncoderSettings, {"anchoring": None}, r"encoder\.anchoring: .*got None"),
            (EncoderSettings, {"anchoring": True}, r"encoder\.anchoring: .*got True"),
            (EncoderSettings, {"anchoring": math.nan}, r"encoder\.anchoring: .*got nan"),
            (EncoderSettings, {"anchoring": math.inf}, r"encoder\.anchoring: .*got inf"),
            (
                EncoderSettings,
                {"step_size": 0.0},
                r"encoder\.step_size: needs to be 'safe' or a number above 0 \(got 0\.0\)",
            ),
            (EncoderSettings, {"step_size": "fast"}, r"encoder\.step_size: .*'safe'.*got 'fast'"),
            (EncoderSettings, {"dropout": 1.0}, r"encoder\.dropout: .*of at least 0 and at most 0\.99 \(got 1\.0\)"),
            (
                EncoderSettings,
                {"inputs": "feature"},
                r"encoder\.inputs: needs to be 'features', .* or 'random' \(got 'feature'\)",
            ),
            (
                EncoderSettings,
                {"expected_negatives": 1},
                r"encoder\.expected_negatives: needs to be true or false \(got 1\)",
            ),
            (EncoderSettings, {"expected_negatives": "yes"}, r"encoder\.expected_negatives: .*got 'yes'"),
            (EncoderSettings, {"margin": -1}, r"encoder\.margin: .*got -1"),
            (EncoderSettings, {"margin": "some"}, r"encoder\.margin: .*'none'.*got 'some'"),
            (
                DecoderSettings,
                {"kind": "cosine"},
                r"decoder\.kind: needs to be 'hadamard', 'dot', 'multi-dot', 'distance' or 'complex' \(got 'cosine'\)",
            ),
            (
                TrainingSettings,
                {"learning_rate": 0},
                r"training\.learning_rate: needs to be a number above 0 \(got 0\)",
            ),
            (
                TrainingSettings,
                {"valid_share": 0.6},
                r"training\.valid_share: .*above 0 and at most 0\.5 \(got 0\.6\)",
            ),
            (TrainingSettings, {"warmup": [0.1]}, r"training\.warmup: .*got \[0\.1\]"),
        ],
    )
    def test_impossible_ones_are_refused_in_words(self, kind: Any, values: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            kind(**values)

    def test_whole_numbers_become_floats(self) -> None:
        value = EncoderSettings(anchoring=2).anchoring
        assert value == 2.0
        assert isinstance(value, float)

    @pytest.mark.parametrize("given_as", [None, "none"])
    def test_none_can_be_written(self, given_as: Any) -> None:
        assert EncoderSettings(margin=given_as).margin is None
        assert EncoderSettings(margin=0.5).margin == 0.5

    @pytest.mark.parametrize("value", ["safe", 0.5, 1])
    def test_two_kinds_of_step(self, value: Any) -> None:
        assert EncoderSettings(step_size=value).step_size == value

    @EACH
    def test_bounds_are_enforced(self, group: str, field: dataclasses.Field[Any]) -> None:
        low, above, high = (field.metadata[key] for key in ("low", "above", "high"))
        for good, bad in (
            (low, None if low is None else low - 1),
            (None, above),
            (high, None if high is None else high + 1),
        ):
            if good is not None:
                GROUPS[group](**{field.name: good})
            if bad is not None:
                with pytest.raises(SettingsError, match=rf"{group}\.{field.name}: needs to be"):
                    GROUPS[group](**{field.name: bad})
        if low is above is high is None:
            assert not {int, float} & set(kinds_of(group, field)[0])  # every number has a bound

    @EACH
    def test_nonsense_is_refused(self, group: str, field: dataclasses.Field[Any]) -> None:
        for nonsense in ("nonsense", [], {}, object()):
            with pytest.raises(SettingsError, match=rf"{group}\.{field.name}: needs to be"):
                GROUPS[group](**{field.name: nonsense})


class TestFields:
    @EACH
    def test_have_help(self, group: str, field: dataclasses.Field[Any]) -> None:
        help_text = field.metadata["help"]
        assert len(help_text) > 10
        assert not help_text.endswith(".")

    @EACH
    def test_are_frozen(self, group: str, field: dataclasses.Field[Any]) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(GROUPS[group](), field.name, field.default)

    def test_settings_are_frozen_and_comparable(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Settings().encoder = EncoderSettings()  # type: ignore[misc]
        assert Settings() == Settings()
        assert hash(Settings()) == hash(Settings())
        assert Settings() != Settings(encoder=EncoderSettings(num_steps=9))


class TestUpdated:
    def test_changes_what_it_names_and_nothing_else(self) -> None:
        start = Settings(encoder=EncoderSettings(num_steps=7))
        changed = start.updated({"encoder": {"hidden_size": 32}, "training": {"epochs": 3}})
        assert changed.encoder == EncoderSettings(num_steps=7, hidden_size=32)
        assert changed.training == TrainingSettings(epochs=3)
        assert changed.decoder == DecoderSettings()
        assert start.encoder == EncoderSettings(num_steps=7)

    def test_takes_whole_groups(self) -> None:
        group = EncoderSettings(num_steps=7)
        assert Settings().updated({"encoder": group}).encoder is group

    def test_of_nothing_is_the_same(self) -> None:
        assert Settings().updated({}) == Settings()
        assert Settings().updated({"encoder": {}}) == Settings()

    def test_checks_values(self) -> None:
        with pytest.raises(SettingsError, match=r"training\.epochs"):
            Settings().updated({"training": {"epochs": 0}})


def values_of(group: str, field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    kinds, choices = kinds_of(group, field)
    low, above, high = (field.metadata[key] for key in ("low", "above", "high"))
    options: list[st.SearchStrategy[Any]] = [st.sampled_from(choices)] if choices else []
    for kind in kinds:
        if kind is int:
            options.append(st.integers(low, high if high is not None else 10**9))
        elif kind is float:
            start = above if above is not None else low
            options.append(st.floats(start, high if high is not None else 1e9, exclude_min=above is not None))
        else:
            options.append(st.booleans() if kind is bool else st.none())
    return st.one_of(options)


ANY_SETTINGS = st.fixed_dictionaries(
    {
        group: st.fixed_dictionaries({f.name: values_of(group, f) for f in dataclasses.fields(kind)})
        for group, kind in GROUPS.items()
    }
)


class TestFiles:
    @settings(max_examples=12)  # each draws fifty values
    @given(ANY_SETTINGS)
    def test_toml_round_trip(self, tmp_path_factory: pytest.TempPathFactory, values: dict[str, dict[str, Any]]) -> None:
        chosen = Settings().updated(values)
        path = tmp_path_factory.getbasetemp() / "settings.toml"
        path.write_text(chosen.to_toml(), encoding="utf-8")
        assert Settings().updated(read_settings(path)) == chosen

    def test_file_round_trip(self, tmp_path: Path) -> None:
        chosen = Settings().updated({"encoder": {"margin": 0.5, "step_size": "safe"}, "decoder": {"kind": "dot"}})
        path = tmp_path / "settings.toml"
        path.write_text(chosen.to_toml(), encoding="utf-8")
        assert Settings().updated(read_settings(path)) == chosen

    def test_toml_is_complete(self) -> None:
        """A later release may change a default, but not a saved model."""
        listed = {(group, name) for group, values in Settings().to_dict().items() for name in values}
        assert listed == {(group, f.name) for group, f in FIELDS}
        assert 'margin = "none"' in Settings().to_toml()

    def test_partial_file(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.toml"
        path.write_text("[encoder]\nhidden_size = 32\n", encoding="utf-8")
        assert read_settings(path) == {"encoder": {"hidden_size": 32}}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[encoder\n", r"settings\.toml' is not a TOML file: "),
            ("[encoder]\nhiden_size = 3\n", r"encoder\.hiden_size: unknown setting"),
            ("[encoder]\nhidden_size = -3\n", r"encoder\.hidden_size: needs to be"),
            ("[encodr]\n", "encodr: unknown setting"),
        ],
    )
    def test_faults_are_named_on_reading(self, text: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "settings.toml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match=message):
            read_settings(path)

    def test_missing_and_unreadable_files(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"cannot read the settings file '.*nowhere\.toml': No such file"):
            read_settings(tmp_path / "nowhere.toml")
        path = tmp_path / "binary.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(SettingsError, match="is not a TOML file"):
            read_settings(path)


def test_a_saved_model_may_hold_settings_that_are_gone(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[training]\nepochs = 7\nclusters = 1\n[encoder]\nnum_steps = 2\ntable_start = 'spectral'\n")
    assert read_settings(file, saved=True) == {"training": {"epochs": 7}, "encoder": {"num_steps": 2}}
    with pytest.raises(SettingsError, match=r"training\.clusters: unknown setting"):
        read_settings(file)

"""Old names, orders and ways to call still work for one version, and say what to write instead."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor, TrainingSettings, random_split
from yinyan.deprecation import renamed_keyword, reordered
from yinyan.errors import SettingsError
from yinyan.settings import Settings, read_settings


def test_options_of_from_networkx_go_by_keyword() -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_edge("a", "b", cost=3.0)
    graph.add_edge("b", "c", cost=5.0)
    with pytest.warns(DeprecationWarning, match=r"from_networkx with positional options.*use weight=…"):
        old = Graph.from_networkx(graph, "cost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = Graph.from_networkx(graph, weight="cost")
    assert old.weights is not None and new.weights is not None
    assert old.weights.tolist() == new.weights.tolist() == [3.0, 5.0]
    with pytest.raises(TypeError, match=r"takes one argument and keywords \(got 5 by position\)"):
        Graph.from_networkx(graph, "cost", None, None, None)


def test_options_of_from_scipy_go_by_keyword() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix([[0, 1], [1, 0]])
    with pytest.warns(DeprecationWarning, match=r"use ids=…, features=…"):
        old = Graph.from_scipy(matrix, ["x", "y"], None)
    assert old.ids.take([0, 1]) == Graph.from_scipy(matrix, ids=["x", "y"]).ids.take([0, 1])


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())


def test_a_renamed_keyword_is_converted() -> None:
    @renamed_keyword("off", "on", lambda off: not off)
    def switch(*, on: bool = True) -> bool:
        return on

    assert switch() and not switch(on=False)
    with pytest.warns(DeprecationWarning, match=r"switch\(off=…\) is deprecated .*: use on=False") as caught:
        assert switch(off=True) is False  # type: ignore[call-arg]
    assert caught[0].filename == __file__, "the warning names the caller's line"
    with pytest.raises(TypeError, match="got 'on' and its old name 'off'"):
        switch(on=True, off=True)  # type: ignore[call-arg]


class Recorder:
    @reordered("b", "c", missing={"a": None})
    def call(self, a: object, b: object, c: object) -> tuple[object, object, object]:
        return a, b, c


def test_the_new_order_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    made = Recorder()
    assert made.call(1, 2, 3) == made.call(1, 2, c=3) == made.call(1, b=2, c=3) == made.call(c=3, b=2, a=1) == (1, 2, 3)
    assert not recwarn.list


def test_the_old_order_still_works() -> None:
    made = Recorder()
    for found in (
        lambda: made.call(2, 3),  # type: ignore[call-arg]
        lambda: made.call(2, c=3),  # type: ignore[call-arg]
        lambda: made.call(b=2, c=3),  # type: ignore[call-arg]
    ):
        with pytest.warns(DeprecationWarning, match=r"call\(b, c\) is deprecated .* use Recorder.call\(a, b, c\)"):
            assert found() == (None, 2, 3)
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert made.call(2, 3, a=1) == (1, 2, 3)  # type: ignore[misc]
    for wrong in ((1,), (1, 2, 3, 4)):
        with pytest.raises(TypeError):
            made.call(*wrong)  # type: ignore[call-arg]


def test_known_is_exclude_known(model: LinkPredictor) -> None:
    index = model.index("exact", k=5)
    for asked in (model, index):
        with pytest.warns(DeprecationWarning, match=r"recommend\(known=…\) .* use exclude_known=False"):
            old = asked.recommend(0, k=100, known=True)  # type: ignore[call-arg]
        assert list(old) == list(asked.recommend(0, k=100, exclude_known=False))


def test_embed_new_takes_features_and_edges_first(model: LinkPredictor) -> None:
    new = model.embed_new(None, None, [(0, 3)])
    named = model.embed_new(["x"], None, [("x", 3)])
    with pytest.warns(DeprecationWarning, match=r"embed_new\(ids, features, edges\)"):
        assert np.array_equal(model.embed_new(None, [(0, 3)]), new)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert np.array_equal(model.embed_new(None, [("x", 3)], ids=["x"]), named)  # type: ignore[misc]


def test_settings_of_the_validation_set(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"training\.validation_share .* use training\.valid_share"):
        assert Settings().updated({"training": {"validation_share": 0.2}}).training.valid_share == 0.2
    with pytest.warns(DeprecationWarning, match="TrainingSettings"):
        made = TrainingSettings(validation_negatives=7)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match=r"TrainingSettings\.validation_negatives .* use valid_negatives"):
        assert made.validation_negatives == made.valid_negatives == 7  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="old name of 'valid_share', which is given too"):
        Settings().updated({"training": {"validation_share": 0.2, "valid_share": 0.2}})
    file = tmp_path / "settings.toml"
    file.write_text("[training]\nvalidation_share = 0.2\n")
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert Settings().updated(read_settings(file)).training.valid_share == 0.2


def test_a_model_saved_with_the_old_names_loads_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(Settings().to_toml().replace("valid_share", "validation_share"))
    assert read_settings(file, saved=True)["training"]["valid_share"] == Settings().training.valid_share
    assert not recwarn.list


def test_validation_edges_as_messages() -> None:
    graph = planted_graph()
    with pytest.warns(DeprecationWarning, match=r"random_split\(validation_messages=…\) .* use valid_as_messages=True"):
        old = random_split(graph, seed=0, validation_messages=True)  # type: ignore[call-arg]
    assert np.array_equal(old.test_messages, random_split(graph, seed=0, valid_as_messages=True).test_messages)

"""The decoder as ONNX scores as the model does, whatever its kind, with sketches and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import works
from contracts import planted_graph, tiny
from yinyan import LinkPredictor
from yinyan.connect import urls
from yinyan.errors import InputError, MissingExtraError
from yinyan.exporting import onnx_decoder

pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "default, with sketches": ({"kind": "hadamard", "depth": 2}, {"sketch_size": 16}, False),
    "directed, deep, residual": ({"kind": "hadamard", "depth": 3, "residual": True, "norm": True}, {}, True),
    "dot": ({"kind": "dot"}, {"sketch_size": 0}, False),
    "heads with sketches": ({"kind": "multi-dot", "heads": 4}, {"sketch_size": 16}, False),
    "distance": ({"kind": "distance"}, {"sketch_size": 0}, True),
}


def fitted(decoder: dict[str, Any], encoder: dict[str, Any], directed: bool) -> LinkPredictor:
    groups = tiny(decoder={**decoder, "rerank": False}, encoder=encoder, training={"epochs": 1})
    return LinkPredictor(**groups).fit(planted_graph(directed=directed))


@pytest.mark.parametrize("name", CASES)
def test_scores_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    model = fitted(*CASES[name])
    path = tmp_path / "decoder.onnx"
    assert model.export_onnx(path) <= onnx_decoder.TOLERANCE
    session = runtime.InferenceSession(str(path))
    rows = model.embeddings_
    for count in (1, 3, 39):  # batches of any size
        pairs = np.array([(0, i + 1) for i in range(count)])
        (scores,) = session.run(None, {"source": rows[pairs[:, 0]], "target": rows[pairs[:, 1]]})
        np.testing.assert_allclose(scores, model.score_rows(pairs), rtol=1e-5, atol=1e-5)
    assert list(tmp_path.iterdir()) == [path]


def test_a_difference_is_an_error_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(*CASES["dot"])
    monkeypatch.setattr(onnx_decoder, "_difference", lambda *given: 2e-5)
    with pytest.raises(InputError, match=r"differ by 2\.0e-05, and 1e-05 is allowed"):
        model.export_onnx(tmp_path / "decoder.onnx")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"needs to end in \.onnx"):
        model.export_onnx(tmp_path / "decoder.pb")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(urls.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[onnx\]'"):
        onnx_decoder.check_onnx_file(Path("decoder.onnx"))


def test_the_command(tmp_path: Path) -> None:
    fitted(*CASES["dot"]).save(tmp_path / "model")
    ran = works("export", tmp_path / "model", "--onnx", tmp_path / "decoder.onnx", "--json").json
    assert ran["difference"] <= 1e-5 and (tmp_path / "decoder.onnx").stat().st_size > 500

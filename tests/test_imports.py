"""Imports point one way (STYLE: graph → splits, energy → encoder → training → predictor → command line)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import yinyan

ROOT = Path(yinyan.__file__).parent

# A module may import from its own layer and from those above it in this list. A new file has to be given its place.
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(layer.split())
    for layer in (
        "yinyan errors wording",
        "settings files parts allocation compiling ranges",
        "native",
        "randomness",
        "columns csv_files tables id_columns ids edge_lists feature_matrix feature_columns features node_tables",
        "graph",
        "graph_tables graph_sources",
        "descent propagation sampling block_sampling energy messages",
        "clusters ordering splits metrics ranking bootstrap",
        "progress",
        "sketches",
        "encoder decoder losses",
        "embedding row_lists live_rows refreshing completion spectra",
        "histories",
        "batches",
        "training",
        "tensors checkpoint calibration explanation free_memory memory memory_check results",
        "retrieval retrieval.cells retrieval.kernels retrieval.snapshot",
        "retrieval.lists retrieval.screening",
        "retrieval.folding",
        "retrieval.exact retrieval.queries",
        "retrieval.asking retrieval.probing",
        "retrieval.budgets retrieval.flashlight retrieval.mining retrieval.mips",
        "retrieval.index",
        "retrieval.index_store",
        "fitting extension defaults",
        "datasets datasets.archives datasets.bundled datasets.collegemsg datasets.dataset datasets.digests "
        "datasets.download datasets.heart datasets.loading datasets.ogb datasets.ogb_files datasets.pickles "
        "datasets.places datasets.planetoid datasets.seal datasets.sources",
        "auditing auditing.files auditing.findings auditing.link_checks auditing.material auditing.negative_checks",
        "card store",
        "predictor",
        "peers.heuristics peers.matrices peers.neighbours peers.walk_sums peers.walks",
        "peers.contract peers.layered",
        "peers.classical peers.factorisation peers.gae peers.gcn_negatives peers.gnn peers.knowledge peers.mlp "
        "peers.ncn peers.node2vec peers.ours",
        "peers peers.registry",
        "bulk protocol",
        "reproduce.recipe",
        "reproduce.running reproduce.stand_ins reproduce.measuring reproduce.tables reproduce.plots",
        "reproduce reproduce.pages",
        "reporting.colours reporting.content reporting.curves reporting.layout reporting.markup reporting.spelling",
        "reporting.canvas reporting.style",
        "reporting.charts reporting.map_chart",
        "reporting.recommended_section reporting.result_section reporting.told_apart_section "
        "reporting.training_section",
        "reporting.page",
        "reporting",
        "evidence",
        "demo doctor",
        "client",
        "service service.schemas service.options service.row_sets service.vectors service.names service.keys "
        "service.search service.metrics",
        "service.labels service.structure",
        "service.change_log service.renewal",
        "service.moment",
        "service.finding service.live service.questions service.browsing service.model_page",
        "service.problems",
        "service.working service.limits",
        "service.room",
        "service.app service.protocol",
        "service.serving",
        "flags",
        "shell research hosting retrieving",
        "cli",
        "__main__",
    )
)

# Upward imports that are meant, each within a function or for the type checker only.
EXCEPTIONS = {
    ("graph", "graph_tables"): "Graph.from_table is a constructor of Graph and needs Graph itself",
    ("graph", "graph_sources"): "so are from_arrays, from_networkx, from_scipy and from_pyg",
    ("retrieval.index", "retrieval.index_store"): "Index.save writes what load_index reads",
    ("yinyan", "*"): "the package's public names, loaded on first use",
}


class Import(NamedTuple):
    importer: str
    imported: str
    line: int
    eager: bool  # runs when the importer is imported: not within a function, not for the type checker only


def module_name(file: Path) -> str:
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts) or "yinyan"


FILES = {module_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def imports_of(name: str) -> Iterator[Import]:
    yield from _imports(name, ast.parse(FILES[name].read_text(encoding="utf-8")), eager=True)


def _imports(name: str, node: ast.AST, *, eager: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for imported in sorted(set(_imported(child))):
                yield Import(name, imported, child.lineno, eager)
        lazy = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        yield from _imports(name, child, eager=eager and not lazy and not typing_only)


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules of this package that a statement imports, without the package's name."""
    if isinstance(statement, ast.Import):
        dotted = [alias.name for alias in statement.names]
    else:
        assert statement.level == 0, f"line {statement.lineno}: relative imports hide where they point"
        base = statement.module or ""
        inner = [f"{base}.{alias.name}" for alias in statement.names]
        dotted = [whole if whole.removeprefix("yinyan.") in FILES else base for whole in inner]
    for whole in dotted:
        if whole == "yinyan":
            yield "yinyan"
        elif whole.startswith("yinyan."):
            yield whole.removeprefix("yinyan.")


def place(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


def excepted(found: Import) -> bool:
    return not found.eager and ((found.importer, found.imported) in EXCEPTIONS or (found.importer, "*") in EXCEPTIONS)


def test_every_file_has_its_place_and_every_place_its_file() -> None:
    listed = [name for layer in LAYERS for name in sorted(layer)]
    assert len(listed) == len(set(listed)), "a module is listed twice"
    assert set(FILES) - set(listed) == set(), "give new files their layer in LAYERS"
    assert set(listed) - set(FILES) == set(), "these are gone: strike them from LAYERS"


@pytest.mark.parametrize("name", FILES)
def test_no_import_points_upward(name: str) -> None:
    upward = [
        f"{found.importer} (line {found.line}) imports {found.imported}, which stands above it"
        for found in imports_of(name)
        if place(found.imported) > place(found.importer) and not excepted(found)
    ]
    assert upward == []


def test_the_exceptions_are_still_needed() -> None:
    used = {
        key
        for name in FILES
        for found in imports_of(name)
        if place(found.imported) > place(name)
        for key in ((found.importer, found.imported), (found.importer, "*"))
    }
    assert set(EXCEPTIONS) <= used


def test_upward_imports_would_be_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "energy.py"
    file.write_text(
        "import yinyan.encoder\nfrom yinyan import cli, __version__\n"
        "if TYPE_CHECKING:\n    from yinyan.predictor import LinkPredictor\n"
        "def f():\n    from yinyan.training import train\n"
    )
    monkeypatch.setitem(FILES, "energy", file)
    found = list(imports_of("energy"))
    assert [(f.imported, f.eager) for f in found] == [
        ("encoder", True),
        ("cli", True),
        ("yinyan", True),
        ("predictor", False),
        ("training", False),
    ]
    with pytest.raises(AssertionError, match=r"energy \(line 1\) imports encoder"):
        test_no_import_points_upward("energy")


def test_no_module_imports_itself_in_a_circle() -> None:
    needs = {name: {f.imported for f in imports_of(name) if f.eager} - {"yinyan"} for name in FILES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for other in sorted(needs[name]):
                visit(other, (*path, name))
            done.add(name)

    for name in FILES:
        visit(name, ())
    assert done == set(FILES)


def _loaded_after(statement: str) -> set[str]:
    script = f"import sys; sys.path.insert(0, {str(ROOT.parent)!r}); {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_neither_torch_nor_numpy() -> None:
    loaded = _loaded_after("import yinyan")
    assert "yinyan" in loaded
    assert loaded & {"torch", "numpy", "pyarrow", "typer", "yinyan.graph"} == set()


def test_optional_packages_are_not_needed_to_import_every_module() -> None:
    names = ["yinyan", *(f"yinyan.{name}" for name in FILES if name not in ("yinyan", "__main__"))]
    loaded = _loaded_after("import " + ", ".join(names))
    assert set(names) <= loaded
    assert (
        loaded & {"matplotlib", "pandas", "polars", "networkx", "scipy", "sklearn", "graphdatascience", "faiss"}
        == set()
    )


def test_public_names_resolve() -> None:
    for name in yinyan.__all__:
        assert getattr(yinyan, name) is not None
    assert set(yinyan.__all__) <= set(dir(yinyan))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = yinyan.nonsense


@pytest.mark.parametrize("name", [name for name in FILES if name != "__main__"])  # which runs the command line
def test_listed_names_exist(name: str) -> None:
    module = __import__(f"yinyan.{name}" if name != "yinyan" else name, fromlist=["_"])
    listed = getattr(module, "__all__", [])
    assert listed or name in ("retrieval", "service"), "say what is public in __all__"
    assert [entry for entry in listed if not hasattr(module, entry)] == []


@pytest.mark.parametrize("name", FILES)
def test_no_print_no_assert_no_pickle(name: str) -> None:
    for node in ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        where = f"{name}, line {getattr(node, 'lineno', '?')}"
        assert not isinstance(node, ast.Assert), where
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            assert "file" in {keyword.arg for keyword in node.keywords}, where
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            unsafe = {m.split(".")[0] for m in modules} & {"pickle", "cPickle", "dill", "joblib", "shelve"}
            assert not unsafe or name == "datasets.pickles", where  # the home of the restricted unpickler
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("torch.save", "eval", "exec"), where
            assert called != "torch.load" or "weights_only=True" in ast.unparse(node), where


def test_every_file_says_what_it_is() -> None:
    for name, file in FILES.items():
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert said, f"{name} has no docstring"

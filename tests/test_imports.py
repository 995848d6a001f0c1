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
from contracts import planted_graph, tiny
from yinyan import LinkPredictor

ROOT = Path(yinyan.__file__).parent

# Imports point left: a room may import from itself, from the rooms of its own step and of those before it. The first
# dotted part of a module's name is its room.
ORDER: tuple[frozenset[str], ...] = tuple(
    frozenset(step.split())
    for step in (
        "yinyan errors threads",
        "text deprecation",
        "files settings",
        "native",
        "randomness connect",
        "graph",
        "sampling",
        "splits metrics",
        "model",
        "results progress charts",
        "training",
        "retrieval store datasets drawing",
        "distributed monitoring",
        "auditing live exporting",
        "preparing tuning",
        "predictor",
        "peers",
        "hard_negatives relation_evaluation",
        "evaluation",
        "rolling",
        "reproduce reporting",
        "service",
        "cli",
        "__main__",
    )
)

# Imports that point right and are meant, each within a function or for the type checker only.
EXCEPTIONS = {
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


def room(name: str) -> str:
    return name.partition(".")[0]


def place(name: str) -> int:
    return next(number for number, step in enumerate(ORDER) if room(name) in step)


def excepted(found: Import) -> bool:
    return not found.eager and ((found.importer, found.imported) in EXCEPTIONS or (found.importer, "*") in EXCEPTIONS)


def test_every_room_has_its_place_and_every_place_its_room() -> None:
    listed = [name for step in ORDER for name in sorted(step)]
    assert len(listed) == len(set(listed)), "a room is listed twice"
    assert {room(name) for name in FILES} == set(listed), "give a new room its place in ORDER, strike one that is gone"


@pytest.mark.parametrize("name", FILES)
def test_no_import_points_upward(name: str) -> None:
    upward = [
        f"{found.importer} (line {found.line}) imports {found.imported}, which stands to its right"
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
        "import yinyan.training.loop\nfrom yinyan import cli, __version__\n"
        "if TYPE_CHECKING:\n    from yinyan.predictor import LinkPredictor\n"
        "def f():\n    from yinyan.training.loop import train\n"
    )
    monkeypatch.setitem(FILES, "model.energy", file)
    found = list(imports_of("model.energy"))
    assert [(f.imported, f.eager) for f in found] == [
        ("training.loop", True),
        ("cli", True),
        ("yinyan", True),
        ("predictor", False),
        ("training.loop", False),
    ]
    with pytest.raises(AssertionError, match=r"model\.energy \(line 1\) imports training\.loop"):
        test_no_import_points_upward("model.energy")


def test_no_module_imports_itself_in_a_circle() -> None:
    needs = {name: {f.imported for f in imports_of(name) if f.eager} - {"yinyan"} for name in FILES}
    # a room's own files may import each other; its __init__ only gathers what they offer
    needs = {name: {n for n in found if n != room(name)} for name, found in needs.items()}
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


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph()).save(folder)
    return folder


ASKING = {
    "predictor": "import yinyan; m = yinyan.LinkPredictor.load({0!r}); m.recommend(0); m.score((0, 1)); m.embed(0); "
    "m.predict_proba((0, 1)); m.explain(0, 1); m.similar(0); m.best_links(3); m.embed_new(None, None, [(0, 1)]); "
    "m.index('exact', k=3)",
    "service": "from yinyan.service import answers as q, serving; from yinyan.service.options import Options; "
    "room = serving.Room(Options({0!r})); serving.create_app(room); q.score(room.now, [(0, 1)]); "
    "q.recommend(room.now, q.Wish([0])); "
    "q.explain(room.now, [(0, 1)]); q.embed(room.now, [0]); "
    "room.keeper.submit({{'kind': 'add_nodes', 'nodes': [{{'id': 'x', 'neighbours': [0]}}]}}).result(20); "
    "q.similar(room.now, ['x'], 3); room.close()",
    "command line": "from typer.testing import CliRunner; from yinyan.cli.commands import app; "
    "done = [CliRunner().invoke(app, c) for c in (['recommend', {0!r}, '0'], ['explain', {0!r}, '0', '1'], "
    "['similar', {0!r}, '0'], ['serve', '--help'])]; sys.exit(1) if any(d.exit_code for d in done) else None",
}


@pytest.mark.parametrize("who", ASKING)
def test_asking_never_imports_the_training_loop(saved: Path, who: str) -> None:
    loaded = _loaded_after(ASKING[who].format(str(saved)))
    assert "yinyan.retrieval.questions" in loaded
    assert {name for name in loaded if name.startswith("yinyan.training.")} <= {
        "yinyan.training.hooks",
        "yinyan.training.fingerprints",  # which only name what training reads
    }


def test_optional_packages_are_not_needed_to_import_every_module() -> None:
    names = ["yinyan", *(f"yinyan.{name}" for name in FILES if name not in ("yinyan", "__main__"))]
    loaded = _loaded_after("import " + ", ".join(names))
    assert set(names) <= loaded
    assert (
        loaded
        & {"matplotlib", "pandas", "polars", "networkx", "scipy", "sklearn", "graphdatascience", "faiss", "optuna"}
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
    is_room = FILES[name].name == "__init__.py"
    assert listed or is_room, "say what is public in __all__"
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

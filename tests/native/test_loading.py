"""Which library of kernels is used: the wheel's for the processor, never one that is not what this code calls."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yinyan import SettingsError
from yinyan.native import compiling, graph_kernels, loading, retrieval_kernels
from yinyan.native.loading import layout_digest, load_kernels
from yinyan.native.sources import sources_digest
from yinyan.native.variants import BASELINE, VARIANTS, library_name

NATIVE = Path(loading.__file__).parent
COMPILER = next((found for name in compiling._COMPILERS if (found := shutil.which(name))), None)
STRUCTURES = {
    "graph_kernels": (graph_kernels._Matrix, graph_kernels._Layer),
    "retrieval_kernels": (retrieval_kernels._Decoder, retrieval_kernels._Screen, retrieval_kernels._Lists),
    "partition_kernels": (),
}
HEADER = '#include "abi.h"\nstruct Small { int64_t first; float second; };\nextern "C" {\n'
FIELDS = "STRUCTURE(Small), FIELD(Small, first), FIELD(Small, second)"
LAYOUT = f"uint64_t structure_layout() {{ return abi::layout_of({{{FIELDS}}}); }}\n"

needs_compiler = pytest.mark.skipif(COMPILER is None or os.name != "posix", reason="no compiler, or not POSIX")


class _Small(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int64), ("second", ctypes.c_float))


def small(*fields: tuple[str, type]) -> type[ctypes.Structure]:
    """A structure of the same name with other fields."""
    return type("_Small", (ctypes.Structure,), {"_fields_": fields})


OTHERS = {
    "swapped": small(("second", ctypes.c_float), ("first", ctypes.c_int64)),
    "fewer": small(("first", ctypes.c_int64)),
    "wider": small(("first", ctypes.c_int64), ("second", ctypes.c_double)),
    "renamed": small(("first", ctypes.c_int64), ("other", ctypes.c_float)),
}


Build = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A source of kernels with the real headers beside it, and an empty folder of a wheel's libraries."""
    (tmp_path / "lib").mkdir()
    shutil.copy(NATIVE / "abi.h", tmp_path)
    (tmp_path / "small.cpp").write_text(f"{HEADER}{LAYOUT}int32_t answer() {{ return VARIANT; }}\n}}\n")
    (tmp_path / "graph_kernels.cpp").write_text(
        '#include <cstdint>\nextern "C" uint32_t processor_features() { return FEATURES; }\n'
    )
    return tmp_path


@pytest.fixture
def build(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Compiles a variant of the small source into the folder; `features` are those of a pretended processor."""
    monkeypatch.setattr(loading, "packaged_folder", lambda: project / "lib")
    monkeypatch.delenv("YINYAN_NATIVE", raising=False)
    loading._processor_features.cache_clear()

    def compiled(source: str, variant: str, *defined: str, digest: int | None = None) -> Path:
        made = project / "lib" / library_name(source, variant, sys.platform)
        says = sources_digest(project / f"{source}.cpp") if digest is None else digest
        flags = [f"-D{text}" for text in (f"YINYAN_SOURCES={says:#x}ull", *defined)]
        assert COMPILER is not None
        subprocess.run(
            [COMPILER, "-std=c++17", "-shared", "-fPIC", *flags, f"{project / source}.cpp", "-o", made], check=True
        )
        return made

    yield compiled
    loading._processor_features.cache_clear()


def answer(project: Path, structure: type[ctypes.Structure] = _Small) -> tuple[int, str]:
    kernels = load_kernels(project / "small.cpp", [structure])
    return int(kernels.library.answer()), kernels.origin


@needs_compiler
class TestVariants:
    @pytest.mark.parametrize(
        ("features", "best", "words"),
        [(0, 0, "any processor"), (1, 1, "AVX2"), (3, 2, "AVX-512"), (2, 0, "any processor")],
    )
    def test_the_best_that_the_processor_runs_is_used(
        self, project: Path, build: Build, monkeypatch: pytest.MonkeyPatch, features: int, best: int, words: str
    ) -> None:
        build("graph_kernels", BASELINE, f"FEATURES={features}")
        for number, variant in enumerate(reversed(VARIANTS)):
            build("small", variant.name, f"VARIANT={number}")
        number, origin = answer(project)
        assert number == best and origin.startswith(f"of the wheel, for {words}")
        for number, variant in enumerate(reversed(VARIANTS)):  # and any by its name, if the processor can
            monkeypatch.setenv("YINYAN_NATIVE", variant.name)
            if variant.features & features == variant.features:
                assert answer(project)[0] == number
            else:
                with pytest.raises(SettingsError, match=f"YINYAN_NATIVE={variant.name} needs a processor with .* 'a?"):
                    answer(project)

    def test_a_variant_that_is_missing_is_passed_over(self, project: Path, build: Build) -> None:
        """Wheels for macOS have no AVX-512."""
        build("graph_kernels", BASELINE, "FEATURES=3")
        build("small", "avx2", "VARIANT=1")
        build("small", BASELINE, "VARIANT=0")
        assert answer(project)[0] == 1

    def test_names_that_cannot_be_used_are_errors(
        self, project: Path, build: Build, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        build("graph_kernels", BASELINE, "FEATURES=3")
        build("small", BASELINE, "VARIANT=0")
        monkeypatch.setenv("YINYAN_NATIVE", "avx2")
        with pytest.raises(
            SettingsError, match="asks for the kernels 'avx2', but this installation has others: baseline"
        ):
            answer(project)
        shutil.rmtree(project / "lib")
        with pytest.raises(SettingsError, match="none, since it was installed from source"):
            answer(project)
        monkeypatch.setenv("YINYAN_NATIVE", "sse")
        with pytest.raises(SettingsError, match="one of 1, 0, compile, avx512, avx2, baseline \\(got 'sse'\\)"):
            answer(project)

    def test_a_wheel_never_compiles_unless_asked(
        self, project: Path, build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (project / "small.cpp").write_text(f"{HEADER}{LAYOUT}int32_t answer() {{ return 7; }}\n}}\n")
        with pytest.warns(RuntimeWarning, match="has no library for"), pytest.raises(compiling.NoKernelsError):
            answer(project)
        assert not (tmp_path / "cache").exists()
        monkeypatch.setenv("YINYAN_NATIVE", "compile")
        assert answer(project) == (7, "compiled for this processor")


@needs_compiler
class TestRefusal:
    @pytest.fixture(autouse=True)
    def _processor(self, build: Build) -> None:
        build("graph_kernels", BASELINE, "FEATURES=0")

    def refused(self, project: Path, structure: type[ctypes.Structure] = _Small) -> str:
        with (
            pytest.warns(RuntimeWarning, match="the compiled kernels are not used") as seen,
            pytest.raises(compiling.NoKernelsError) as error,
        ):
            answer(project, structure)
        assert str(error.value) in str(seen[0].message)
        return str(error.value)

    def test_what_is_right_passes_without_a_warning(self, project: Path, build: Build) -> None:
        build("small", BASELINE, "VARIANT=3")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert answer(project)[0] == 3

    def test_a_library_of_other_sources(self, project: Path, build: Build) -> None:
        build("small", BASELINE, "VARIANT=3", digest=0xBAD)
        message = self.refused(project)
        assert re.search(r"made of other sources \(source_digest 0xbad, expected 0x\w+\): install yinyan anew", message)

    def test_a_header_that_changed_counts_as_other_sources(self, project: Path, build: Build) -> None:
        build("small", BASELINE, "VARIANT=3")
        with (project / "abi.h").open("a") as header:
            header.write("// later\n")
        assert "other sources" in self.refused(project)

    @pytest.mark.parametrize("how", OTHERS)
    def test_structures_of_another_layout(self, project: Path, build: Build, how: str) -> None:
        build("small", BASELINE, "VARIANT=3")
        assert "another layout (structure_layout" in self.refused(project, OTHERS[how])

    def test_a_doctored_library(self, project: Path, build: Build) -> None:
        """One byte of the digest that it says is altered, as in a file that was damaged or swapped."""
        path, digest = build("small", BASELINE, "VARIANT=3"), sources_digest(project / "small.cpp")
        whole, said = path.read_bytes(), digest.to_bytes(8, "little")
        if whole.count(said) != 1:
            pytest.skip("this architecture does not keep the digest in one piece")
        path.unlink()
        path.write_bytes(whole.replace(said, (digest ^ 1).to_bytes(8, "little")))
        assert f"source_digest {digest ^ 1:#x}" in self.refused(project)

    def test_what_is_no_library_of_kernels(self, project: Path, build: Build) -> None:
        made = project / "lib" / library_name("small", BASELINE, sys.platform)
        made.write_bytes(b"\x7fELF")
        assert "cannot be loaded" in self.refused(project)
        made.unlink()
        shutil.copy(project / "lib" / library_name("graph_kernels", BASELINE, sys.platform), made)
        assert "no function 'source_digest'" in self.refused(project)


@pytest.mark.parametrize("stem", STRUCTURES)
def test_the_sources_list_every_field_that_python_declares(stem: str) -> None:
    """The digest of both sides is of the same text: structures, and their fields in order."""
    text = (NATIVE / f"{stem}.cpp").read_text(encoding="utf-8")
    listed = re.findall(r"(?:STRUCTURE|FIELD)\((\w+)(?:, (\w+))?\)", text)
    expected = []
    for structure in STRUCTURES[stem]:
        name = structure.__name__.lstrip("_")
        expected += [(name, ""), *((name, field[0]) for field in structure._fields_)]
    assert listed == expected
    for structure in STRUCTURES[stem]:
        (body,) = re.findall(rf"struct {structure.__name__.lstrip('_')} \{{(.*?)\n\}};", text, re.DOTALL)
        declared = re.findall(r"(\w+)(?=[,;])", re.sub(r"//.*", "", body))
        assert declared == [field[0] for field in structure._fields_]


def test_a_layout_digest_depends_on_names_places_and_sizes() -> None:
    digests = [layout_digest([kind]) for kind in (_Small, *OTHERS.values())]
    assert len(set(digests)) == len(digests)
    wider = OTHERS["wider"]
    assert layout_digest([_Small, wider]) != layout_digest([wider, _Small])


@pytest.mark.skipif(graph_kernels.library() is None, reason=f"no compiled kernels: {graph_kernels.why_not()}")
def test_the_processor_has_what_linux_lists() -> None:
    library = graph_kernels.library()
    assert library is not None
    library.processor_features.restype = ctypes.c_uint32
    found = library.processor_features()
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), None)
    if flags is None:
        pytest.skip("no list of the processor's features, or not an x86 processor")
    avx2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"} <= flags
    avx512 = avx2 and {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"} <= flags
    assert found == (3 if avx512 else 1 if avx2 else 0)

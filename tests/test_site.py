"""The site of the documentation: it is built without a warning, and asks no other host for anything."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed (extra docs)")

ROOT = Path(__file__).parents[1]
spec = spec_from_file_location("site_conf", ROOT / "docs/conf.py")
assert spec is not None and spec.loader is not None
conf = module_from_spec(spec)
spec.loader.exec_module(conf)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds; its own command line, in another folder."""
    (command,) = re.findall(r"^\t\$\(BIN\)/python -m (sphinx .+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folder = tmp_path_factory.mktemp("site")
    words = [str(folder / word) if word.startswith("build/") else word for word in command.split()]
    built = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "build/site"


class Loaded(HTMLParser):
    """What a page loads from elsewhere, without being asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "index", "search"):
            self.addresses.append(given.get("href") or "")
        self.addresses += re.findall(r"url\(([^)]+)\)", given.get("style") or "")


def elsewhere(addresses: list[str]) -> list[str]:
    return [found for found in addresses if re.match(r"\s*[\"']?(?:[a-z]+:)?//", found)]


def test_every_page_is_once_in_the_navigation() -> None:
    """But for tables of results, which are below the page that lists them."""
    named = [name for _, pages in conf.navigation() for name in pages]
    assert len(named) == len(set(named))
    written = {path.relative_to(ROOT).as_posix() for kind in ("md", "ipynb") for path in ROOT.glob(f"docs/**/*.{kind}")}
    assert {name for name in written if not name.startswith("docs/results/")} - {"docs/README.md"} <= set(named)
    assert all((ROOT / name).is_file() for name in named)


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(list(ROOT.glob("docs/**/*.md")))
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses and elsewhere(loaded.addresses) == [], page.relative_to(site)
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        found = re.findall(r"url\(([^)]+)\)", text) + re.findall(r"@import\s+([\"'][^\"']+)", text)
        assert elsewhere(found) == [], style.relative_to(site)


def test_what_pages_load_is_there(site: Path) -> None:
    for name in ("index.html", "docs/guide/tables.html", "search.html"):
        loaded = Loaded()
        loaded.feed((site / name).read_text(encoding="utf-8"))
        files = [(site / name).parent / address.partition("?")[0] for address in loaded.addresses if address]
        assert len(files) > 4 and [file for file in files if not file.is_file()] == []


def test_search_has_an_index_of_its_own(site: Path) -> None:
    """A file of the site, which a page reads without a server."""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(") and "calibration" in index and "docs/guide/questions" in index


def test_the_front_page_is_the_readme(site: Path) -> None:
    front = (site / "index.html").read_text(encoding="utf-8")
    assert "<h1>yinyan" in front
    for title, _ in conf.navigation():
        assert f'<span class="caption-text">{title}</span>' in front


@pytest.mark.parametrize("address", ["//x.org/a.js", "https://x.org", "'http://x.org/f.woff'"])
def test_the_check_finds_other_hosts(address: str) -> None:
    assert elsewhere(["a.js", "../b.css", "data:image/png;base64,AA", address]) == [address]

"""The site of the documentation: Sphinx reads the pages where they are. `make docs` builds it in build/site."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

import yinyan

ROOT = Path(__file__).parents[1]
INDEX = ROOT / "docs/README.md"  # its tables are the navigation

project = "yinyan"
release = version = yinyan.__version__
html_title = f"yinyan {release}"
language = "en"

# The folder of sources is the project's own (`-c docs .`): links lead where they do for readers of the files
root_doc = "README"
include_patterns = ["*.md", "benchmarks/README.md", "docs/**.md", "docs/**.ipynb"]
HIDDEN = (".[a-z]*", ".[a-z]*/**", "**/.ipynb_checkpoints/**")  # not ".*": the path of a style sheet begins with "./"
exclude_patterns = ["SECURITY.md", "build/**", "dist/**", "web/**", "src/**", "tests/**", *HIDDEN]

extensions = ["myst_nb"]
myst_heading_anchors = 4  # those that GitHub gives
nb_execution_mode = "off"  # tests run the notebooks; the site shows what was committed
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # no script of another host
highlight_language = "none"
smartquotes = False  # names between quotes are code

html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["yinyan.css"]
html_favicon = html_logo = "../web/src/mark.svg"
html_copy_source = html_show_sourcelink = False
html_show_copyright = html_show_sphinx = False
LETTERS = {
    "font-stack": 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
    "font-stack--monospace": 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
}
BLUE = ("color-brand-primary", "color-brand-content", "color-brand-visited")  # as in the explorer
html_theme_options = {
    "light_css_variables": {**LETTERS, **dict.fromkeys(BLUE, "#0b6cae")},
    "dark_css_variables": dict.fromkeys(BLUE, "#62b5ee"),
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
}


def navigation() -> list[tuple[str, list[str]]]:
    """Headings of the index, and the pages in the tables below them."""
    found = []
    for part in INDEX.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = part.partition("\n")[0].partition(":")[0]
        rows = "\n".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| ["))
        pages = [(INDEX.parent / name).resolve() for name in re.findall(r"\]\(([^)#]+)\)", rows)]
        found.append((title, [page.relative_to(ROOT).as_posix() for page in pages]))
    return found


def toctree(pages: list[str], caption: str = "") -> str:
    """A list of pages for the navigation, which the page itself does not show."""
    head = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *head, "", *(f"/{page}" for page in pages), "```", ""])


def titled_links(text: str) -> str:
    """Links that show the name of a file of ours show the title of its page instead."""
    return re.sub(r"\[`?[\w./-]+\.(?:md|ipynb)`?\](\([\w./-]+\.(?:md|ipynb)(?:#[\w-]+)?\))", r"[]\1", text)


def adapt(app: Sphinx, page: str, source: list[str]) -> None:
    """A page for the site: with titles, the pages of the index below the front page, tables of results below theirs."""
    source[0] = titled_links(source[0])
    named = navigation()
    if page == root_doc:
        app.env.note_dependency(str(INDEX))  # read again where the tables have changed
        source[0] += toctree([INDEX.relative_to(ROOT).as_posix()])
        source[0] += "".join(toctree(pages, title) for title, pages in named)
    elif page == "docs/results/README":
        above = {name for _, pages in named for name in pages}
        tables = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/results").glob("*.md"))
        source[0] += toctree([name for name in tables if name not in above])


def add_front_page(app: Sphinx, problem: Exception | None) -> None:
    """The address of the folder shows the front page."""
    if problem is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", adapt)
    app.connect("build-finished", add_front_page)

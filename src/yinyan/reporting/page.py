"""A report of one model as a single web page that needs nothing else."""

from __future__ import annotations

import os

from yinyan.files import write_text
from yinyan.reporting.content import ReportContent
from yinyan.reporting.markup import escaped, section
from yinyan.reporting.recommended_section import recommended_section
from yinyan.reporting.result_section import result_section
from yinyan.reporting.style import MARK, STYLE
from yinyan.reporting.told_apart_section import told_apart_section
from yinyan.reporting.training_section import training_section

__all__ = ["write_report"]

_ALLOWED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # nothing is fetched, no script runs


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the page whole or not at all; the same content gives the same bytes."""
    write_text(path, _page(content))


def _page(content: ReportContent) -> str:
    title = escaped(content.title)
    sections = (
        result_section(content),
        _basis(content),
        recommended_section(content),
        told_apart_section(content),
        training_section(content),
        _settings(content),
    )
    subtitle = f"<p class='subtitle'>{escaped(content.subtitle)}</p>" if content.subtitle else ""
    generated = f"<p class='small'>{escaped(content.generated)}</p>" if content.generated else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_ALLOWED}">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<header>{MARK}<div><h1>{title}</h1>{subtitle}{generated}</div></header>
<main>
{"".join(part for part in sections if part)}</main>
</body>
</html>
"""


def _basis(content: ReportContent) -> str:
    facts = "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{escaped(value)}</dd></div>" for name, value in content.facts.items()
    )
    notes = "".join(f"<li>{escaped(note)}</li>" for note in content.notes)
    parts = [f"<div><h3>Facts</h3><dl class='facts'>{facts}</dl></div>"] if facts else []
    parts += [f"<div><h3>Guessed, merged or chosen</h3><ul>{notes}</ul></div>"] if notes else []
    return section("What this rests on", f"<div class='pair'>{''.join(parts)}</div>") if parts else ""


def _settings(content: ReportContent) -> str:
    groups = ""
    for group, values in content.settings.items():
        rows = "".join(
            f"<tr><th scope='row'>{escaped(name)}</th><td>{escaped(value)}</td></tr>" for name, value in values.items()
        )
        groups += f"<div><h3>{escaped(group)}</h3><table class='settings'>{rows}</table></div>" if rows else ""
    if not groups:
        return ""
    summary = "<summary><h2>Settings</h2></summary>"
    return f"<section><details>{summary}<div class='groups'>{groups}</div></details></section>\n"

"""The command line: parse, call, print; one file for each group of commands."""

from __future__ import annotations

from yinyan.cli.commands import main

__all__ = ["main"]

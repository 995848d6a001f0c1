"""The report of a model: one web page with its charts and its map."""

from __future__ import annotations

from yinyan.reporting.content import ReportContent
from yinyan.reporting.layout import map_2d
from yinyan.reporting.page import write_report

__all__ = ["ReportContent", "map_2d", "write_report"]

"""What is drawn of a graph, in a page of one file."""

from __future__ import annotations

from yinyan.drawing.neighbourhood import NeighbourhoodDrawing, draw_neighbourhood

__all__ = ["NeighbourhoodDrawing", "draw_neighbourhood"]

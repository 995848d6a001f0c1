"""The command that exports a model for other programs: vectors to files and stores, the decoder as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from yinyan.cli import common, flags, relations
from yinyan.connect.urls import DatabaseUrl
from yinyan.errors import InputError
from yinyan.text import counted

__all__ = ["export"]


def export(
    model: flags.Model,
    *,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="place for vectors of all nodes: .parquet, .npy, lancedb:FOLDER, ...",
            metavar="PLACE",
            show_default=False,
        ),
    ] = None,
    vectors: Annotated[str, typer.Option(help="kind of vectors: embedding, row or inner-product")] = "embedding",
    table: Annotated[str | None, typer.Option(help="name of the table or collection in a store")] = None,
    if_exists: Annotated[str, typer.Option(help="if there is such a table: error or replace")] = "error",
    onnx: Annotated[
        Path | None, typer.Option(help=".onnx file for the decoder: scores of two stored rows", show_default=False)
    ] = None,
    relation: flags.RelationName = None,
    device: flags.Device = "cpu",
    as_json: flags.AsJson = False,
) -> None:
    """Export vectors of all nodes, with ids and labels, or the decoder as ONNX.

    Places of vectors are files (.parquet, .arrow, .npy), qdrant:FOLDER, qdrant:http://host:6333, lancedb:FOLDER and
    postgresql:// URLs. Inner products of the kind inner-product are scores.
    """
    if embeddings is None and onnx is None:
        raise InputError("export needs --embeddings, --onnx or both")
    write = None if embeddings is None else _writer(embeddings, table, if_exists)
    if onnx is not None:
        from yinyan.exporting.onnx_decoder import check_onnx_file

        check_onnx_file(onnx)
    if not relations.has_relations(model):
        relations.refuse_name(relation)
    predictor = common.load(model, device)
    done: dict[str, Any] = {}
    if write is not None:
        made = predictor.vectors(vectors, relation=relation)  # type: ignore[arg-type]  # a wrong word is refused
        write(made)
        done = {"rows": len(made), "place": _shown(str(embeddings)), **made.facts}
        if not as_json:
            typer.echo(f"wrote {counted(len(made), 'vector')} of {made.width} columns to '{done['place']}'")
            if "score" in made.facts:
                typer.echo(f"score = {made.facts['score']}, offset {made.offset:.6g}")
    if onnx is not None:
        difference = predictor.export_onnx(onnx, relation=relation)
        done |= {"onnx": str(onnx), "difference": difference}
        if not as_json:
            typer.echo(f"wrote the decoder to '{onnx}': its scores differ from the model's by at most {difference:.1e}")
    if as_json:
        common.print_json(done)


def _writer(place: str, table: str | None, if_exists: str) -> Any:
    """What writes vectors to a place; a wrong place is refused before a model is loaded."""
    from yinyan.exporting.node_vectors import check_vectors_file
    from yinyan.exporting.vector_stores import store_of

    found = store_of(place)
    if found is None:
        if table is not None or if_exists != "error":
            raise InputError("--table and --if-exists are for stores: leave them out for a file")
        check_vectors_file(Path(place))
        return lambda vectors: vectors.save(place)
    if table is None:
        raise InputError("a store needs the name of a table or collection: add --table nodes")
    into, target = found
    return lambda vectors: into(vectors, target, table, if_exists)


def _shown(place: str) -> str:
    """A place without the user and password of a URL."""
    return DatabaseUrl(place).shown if place.startswith("postgres") else place

"""The routes: each parses, asks, and answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from yinyan import __version__
from yinyan.live.keeper import Made
from yinyan.live.new_nodes import feature_remarks
from yinyan.service import answers, browsing, schemas
from yinyan.service.context import Room
from yinyan.service.doors import METRICS
from yinyan.service.limits import Gate
from yinyan.service.log_lines import LogHandler, LogLines
from yinyan.service.model_page import model_page
from yinyan.service.options import Limits
from yinyan.service.problems import add_handlers, problem
from yinyan.service.prometheus import DROPPED, Counters
from yinyan.service.sizes import TEXT
from yinyan.service.versions import HEADER, document_versions

__all__ = ["create_app"]

_STATIC = FilePath(__file__).parent / "static"
_NO_PAGE = "yinyan serves a model here. This page is not part of this installation; see /openapi.json.\n"

_FEW, _SMALL = 4, 100  # nodes, and partners each, of requests that may wait for each other

IdText = Annotated[str, Path(description="id of the node", examples=["p1"], max_length=TEXT)]
Kind = Annotated[
    Literal["auto", "text", "integer"],
    Query(description="type of the id in the path: text, integer, or auto (default)"),
]
NodeType = Annotated[
    str | None, Query(max_length=TEXT, description="type of the nodes, in a model with relations", examples=["person"])
]
RelationFilter = Annotated[
    str | None, Query(max_length=TEXT, description="relation whose edges are shown, in a model with relations")
]

_WORDS = {
    400: "the body is not JSON, or X-Yinyan-Version no whole number",
    401: "an API key is required",
    403: "refused: request from another site or host name",
    404: "a node is not in the graph",
    408: "the body arrived too slowly",
    409: "the change contradicts the graph, the model or the mode of the service",
    412: "the change log ends before the version in X-Yinyan-Version",
    413: "the request is too large",
    415: "the body is not application/json",
    422: "the request is invalid",
    503: "too many requests are waiting, or a version is not reached yet",
    504: "the answer took too long",
}


def _documented(model: Any, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer."""
    content = {"application/problem+json": {"schema": schemas.Problem.model_json_schema()}}
    found: dict[int | str, dict[str, Any]] = {s: {"description": _WORDS[s], "content": content} for s in statuses}
    return {200: {"model": model, "description": "the answer"}, **found}


_ASKED = (400, 401, 403, 404, 408, 412, 413, 415, 422, 503, 504)
_CHANGED = (*_ASKED, 409)
_GOT = (400, 401, 403, 404, 412, 422, 503, 504)


def _json(content: dict[str, Any]) -> Response:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    headers = {HEADER: str(content["version"])} if "version" in content else None
    return Response(text.encode(), media_type="application/json", headers=headers)


def create_app(room: Room) -> ASGIApp:
    """The service as an ASGI application."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        handler.attach()
        yield
        room.close()
        handler.detach()
        lines.close()

    app = FastAPI(
        title="yinyan",
        summary="Which links are missing, and how sure are you?",
        version=__version__,
        docs_url=None,  # its page would load scripts from elsewhere: ours is served below
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.router.route_class = room.bodies.route_class()
    add_handlers(app)
    _questions(app, room)
    _browsing(app, room)
    _changes(app, room)
    counters = Counters([getattr(route, "path", "") for route in app.routes] + _STATE_ROUTES, room.options.shared)
    _state(app, room, counters)
    _page(app)
    _match_exactly(app)
    document_versions(app)
    lines = LogLines(room.options.access_log, lambda: counters.note(DROPPED))
    handler = LogHandler(lines)
    return Gate(app, room, counters, lines)


def _match_exactly(app: FastAPI) -> None:
    """A path is matched to its very end, and an id may hold any character: `$` ignores a last newline, `.` all."""
    for route in app.routes:
        if isinstance(route, Route):
            pattern = route.path_regex.pattern.removesuffix("$")
            route.path_regex = re.compile(pattern + r"\Z", re.DOTALL)


def _questions(app: FastAPI, room: Room) -> None:
    @app.post("/v1/score", tags=["questions"], responses=_documented(schemas.Scores, *_ASKED))
    async def score(body: schemas.ScoreBody) -> Response:
        """Score pairs of nodes, with probabilities."""
        return await room.desk.ask(lambda: _json(answers.score(room.now.of(body.relation), body.pairs, body.base_rate)))

    @app.post("/v1/recommend", tags=["questions"], responses=_documented(schemas.Recommended, *_ASKED))
    async def recommend(body: schemas.RecommendBody) -> Response:
        """Recommend the best new links of nodes, without rejected pairs and, by default, without known edges."""
        rules = None if body.rules is None else body.rules.rules()
        wish = answers.Wish(body.nodes, body.k, body.excludes_known, body.among, body.where, rules)
        plain = body.among is None and body.where is None and rules is None
        if len(body.nodes) <= _FEW and body.k <= _SMALL and plain:  # such are answered together
            return _json(await room.counter.ask(answers.Asked(wish, body.relation)))
        return await room.desk.ask(lambda: _json(answers.recommend(room.now, wish, body.relation)))

    @app.post("/v1/similar", tags=["questions"], responses=_documented(schemas.SimilarNodes, *_ASKED))
    async def similar(body: schemas.SimilarBody) -> Response:
        """The nodes nearest in the embedding space, by the cosine of their embeddings; bipartite, of the same side."""
        return await room.desk.ask(lambda: _json(answers.similar(room.now.of(body.relation), body.nodes, body.k)))

    @app.post("/v1/explain", tags=["questions"], responses=_documented(schemas.Explanations, *_ASKED))
    async def explain(body: schemas.ExplainBody) -> Response:
        """Explain scores: the share of each neighbour."""
        return await room.slow_desk.ask(lambda: _json(answers.explain(room.now.of(body.relation), body.pairs)))

    @app.post("/v1/embed", tags=["questions"], responses=_documented(schemas.Embeddings, *_ASKED))
    async def embed(body: schemas.VectorsBody) -> Response:
        """Embeddings of nodes."""
        return await room.desk.ask(lambda: _json(answers.embed(room.now, body.nodes)))


def _browsing(app: FastAPI, room: Room) -> None:
    @app.get("/v1/nodes", tags=["browsing"], responses=_documented(schemas.FoundNodes, *_GOT))
    async def find_nodes(
        query: Annotated[str, Query(max_length=200, description="beginning of an id or label", examples=["p1"])] = "",
        limit: Annotated[int, Query(ge=1, le=Limits.listed, description="maximum number of nodes")] = 20,
        type: NodeType = None,
        relation: RelationFilter = None,
    ) -> Response:
        """Search nodes by id or label, by prefix or similar spelling; without a query, nodes of highest degree."""
        return await room.desk.ask(lambda: _json(browsing.found_nodes(room.now, query, limit, type, relation)))

    @app.get("/v1/nodes/{id:path}", tags=["browsing"], responses=_documented(schemas.NodePage, *_GOT))
    async def node(
        id: IdText,
        kind: Kind = "auto",
        limit: Annotated[int, Query(ge=0, le=Limits.listed, description="maximum number of neighbours")] = 100,
        offset: Annotated[int, Query(ge=0, le=2**31, description="number of neighbours to skip")] = 0,
        type: NodeType = None,
        relation: RelationFilter = None,
    ) -> Response:
        """One node with its attributes and neighbours."""
        return await room.desk.ask(lambda: _json(browsing.node_page(room.now, id, kind, limit, offset, type, relation)))

    @app.get("/v1/neighbourhood/{id:path}", tags=["browsing"], responses=_documented(schemas.Neighbourhood, *_GOT))
    async def neighbourhood(
        id: IdText,
        kind: Kind = "auto",
        limit: Annotated[int, Query(ge=1, le=Limits.listed, description="maximum number of nodes")] = 60,
        type: NodeType = None,
        relation: RelationFilter = None,
    ) -> Response:
        """Nodes around one node, and the edges between them."""
        return await room.desk.ask(lambda: _json(browsing.neighbourhood(room.now, id, kind, limit, type, relation)))

    @app.get("/v1/map", tags=["browsing"], responses=_documented(schemas.NodeMap, *_GOT))
    async def node_map(
        limit: Annotated[int, Query(ge=2, le=Limits.mapped, description="maximum number of nodes")] = 20_000,
    ) -> Response:
        """Positions of nodes on a map of the embeddings (t-SNE), and some edges between them."""
        return await room.slow_desk.ask(lambda: _json(room.maps.map(room.now, limit)))

    @app.get("/v1/model", tags=["browsing"], responses=_documented(schemas.ModelPage, *_GOT))
    async def model(
        relation: Annotated[
            str | None, Query(max_length=TEXT, description="predicted relation whose figures are shown")
        ] = None,
    ) -> Response:
        """The model: figures with their protocol, charts of held-out pairs, training, settings, current graph."""
        return await room.desk.ask(lambda: _json(model_page(room.now, relation, read_only=room.keeper.read_only)))


def _changes(app: FastAPI, room: Room) -> None:
    async def change(kind: str, name: str, pairs: Sequence[Any]) -> Response:
        made = await room.changed({"kind": kind, "pairs": pairs})
        return _json({name: made.num, "version": made.version})

    @app.post("/v1/edges", tags=["changes"], responses=_documented(schemas.Added, *_CHANGED))
    async def add_edges(body: schemas.EdgesBody) -> Response:
        """Add edges; edges that exist already are not counted."""
        return await change("add_links", "added", body.edges)

    @app.delete("/v1/edges", tags=["changes"], responses=_documented(schemas.Removed, *_CHANGED))
    async def remove_edges(body: schemas.EdgesBody) -> Response:
        """Remove edges; edges that do not exist are not counted."""
        return await change("remove_links", "removed", body.edges)

    @app.post("/v1/rejections", tags=["changes"], responses=_documented(schemas.RejectedPairs, *_CHANGED))
    async def reject(body: schemas.PairsBody) -> Response:
        """Reject pairs: they are not recommended any more."""
        return await change("reject", "rejected", body.pairs)

    @app.delete("/v1/rejections", tags=["changes"], responses=_documented(schemas.RejectedPairs, *_CHANGED))
    async def take_back(body: schemas.PairsBody) -> Response:
        """Undo rejections: these pairs can be recommended again."""
        return await change("take_back", "rejected", body.pairs)

    @app.post("/v1/nodes", tags=["changes"], responses=_documented(schemas.AddedNodes, *_CHANGED))
    async def add_nodes(body: schemas.NodesBody) -> Response:
        """Add nodes with edges to their neighbours. Without features they get the mean of each feature column."""
        made = await room.changed({"kind": "add_nodes", "nodes": [node.model_dump() for node in body.nodes]})
        about = {"clipped": made.clipped, "imputed": made.imputed}
        return _json({"added": made.num, **about, "remarks": feature_remarks(**about), "version": made.version})

    @app.post("/v1/reload", tags=["changes"], responses=_documented(schemas.Reloaded, *_CHANGED))
    async def reload() -> Response:
        """Load the model directory again, without interrupting running requests."""
        made: Made = await room.reloaded()
        return _json({"fingerprint": room.now.served.fingerprint, "version": made.version})


_STATE_ROUTES = ["/healthz", "/readyz", METRICS, "/", "/docs", "/assets/{name:path}"]


def _state(app: FastAPI, room: Room, counters: Counters) -> None:
    @app.get("/healthz", tags=["state"], responses=_documented(schemas.Health, 403))
    async def healthz() -> Response:
        """Liveness: the process answers."""
        return _json({"status": "alive"})

    @app.get("/readyz", tags=["state"], responses=_documented(schemas.Health, 403, 503))
    async def readyz() -> Response:
        """Readiness: queries see all acknowledged changes."""
        if room.keeper.failure is not None:
            return problem(503, room.keeper.failure)
        return _json({"status": "ready"})

    refusals = {status: facts for status, facts in _documented(None, 401, 403).items() if status != 200}

    @app.get(METRICS, tags=["state"], response_class=PlainTextResponse, responses=refusals)
    async def metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return PlainTextResponse(
            counters.text(await run_in_threadpool(room.gauges)), media_type="text/plain; version=0.0.4"
        )


def _page(app: FastAPI) -> None:
    """The pages, from the package's own files: a name that is not one of theirs never reaches the disk."""
    folder = _STATIC / "assets"
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}

    def shown(name: str) -> Response:
        page = _STATIC / name
        if not page.is_file():
            return PlainTextResponse(_NO_PAGE)
        return FileResponse(page, headers={"Cache-Control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def explorer() -> Response:
        return shown("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return shown("docs.html")

    @app.get("/assets/{name:path}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in files:
            return problem(404, f"there is no file {name!r:.80} of the pages")
        return FileResponse(files[name], headers={"Cache-Control": "no-cache"})

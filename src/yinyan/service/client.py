"""A client of the service, which answers as the predictor does."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from yinyan.deprecation import renamed_keyword
from yinyan.errors import InputError, ServiceError, UnknownNodeError
from yinyan.graph.pair_tables import is_frame, pairs_from_frame
from yinyan.results import Contribution, Explanation, Id, Recommendations
from yinyan.service.sizes import BODY_BYTES, NODES, PAIRS, RECOMMEND_NODES

if TYPE_CHECKING:
    from yinyan.retrieval.rules import Rules

__all__ = ["Client", "ServiceError"]

Pair = tuple[Id, Id]

_ENVELOPE = 4_096  # bytes of a body beside its list


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error here: the key and the question are for the address that was given."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Never."""


class _NodeNotFoundError(ServiceError, UnknownNodeError):
    """The service says that a node is not in the graph."""


class _InvalidRequestError(ServiceError, InputError):
    """A request that cannot be answered as it is."""


_KINDS: dict[int, type[ServiceError]] = {404: _NodeNotFoundError, 413: _InvalidRequestError, 422: _InvalidRequestError}

_CURES = {
    0: "is 'yinyan serve' running there?",
    401: "pass a key that 'yinyan keys' printed: Client(address, key=…)",
    403: "use a local name such as 127.0.0.1, or start the service with --api-keys",
    404: "Client.search finds ids",
    408: "send less at a time",
    409: "nothing was changed: correct the request",
    412: "set the client's 'version' to 0 to read the present state",
    413: "send less at a time",
    422: "correct the request: /docs of the service shows its form",
    500: "see the log of the service",
    503: "ask again in a few seconds",
    504: "ask for less at a time, or start the service with a larger --seconds",
}


class Client:
    """Queries a service that `yinyan serve` has started.

    Every refusal raises ServiceError, which has the HTTP status, and says what is wrong and what to do about it. It is
    an InputError too if the request is invalid (422) or too large (413), and an UnknownNodeError if a node is not in
    the graph (404). Redirects are not followed, so that the key reaches no other host. A list that is longer than one
    request may be is sent in several requests; each is answered, or changes the graph, as a whole.

    The client sends the largest version that it has seen with each request, and the service gives no answer from an
    older state, whichever of its processes is asked.

    Parameters
    ----------
    address
        The address of the service.
    key
        An API key, if the service asks for one.
    timeout
        Maximum seconds per request.

    Attributes
    ----------
    version
        The largest version seen; set it to 0 to read the state of a service whose change log was replaced.

    Examples
    --------
    >>> from yinyan import Client
    >>> Client("http://127.0.0.1:8000").address
    'http://127.0.0.1:8000'
    """

    def __init__(self, address: str = "http://127.0.0.1:8000", *, key: str | None = None, timeout: float = 30.0):
        self.address, self.timeout, self.version = address.rstrip("/"), timeout, 0
        self._lock = threading.Lock()  # one client may be used by several threads
        self._types: frozenset[str] | None = None  # of nodes; None where they were not asked for yet
        self._headers = {"Content-Type": "application/json"} | ({} if key is None else {"X-API-Key": key})
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())  # straight to the address that was given

    @renamed_keyword("known", "exclude_known", lambda known: not known)
    def recommend(
        self,
        nodes: Any,
        k: int = 10,
        *,
        relation: str | None = None,
        among: Iterable[Any] | None = None,
        exclude_known: bool = True,
        where: str | None = None,
        rules: Rules | None = None,
    ) -> Recommendations:
        """The k best partners of each node, as `LinkPredictor.recommend`; rejected pairs are left out.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids; (type, id) where the model has relations.
        k
            How many partners per node, at most.
        relation
            The relation that is asked about; it may be left out if one is predicted.
        among
            Ids of the candidates; all nodes unless given.
        exclude_known
            Whether partners that the live graph links to the node already are left out.
        where
            A condition on candidates, as the text that `LinkPredictor.recommend` takes.
        rules
            Rules of the answer. With `once` all nodes go in one request, which has a limit.

        Returns
        -------
        Recommendations
            Source, target, score, rank and probability, best first for each node, with labels where there are any.

        Raises
        ------
        UnknownNodeError
            If a node is neither an id nor a label.
        InputError
            If `where` is no text, cannot be read, or names an attribute that nodes do not have.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().recommend("p1", k=10)  # doctest: +SKIP
        """
        if where is not None and not isinstance(where, str):
            raise InputError(f"'where' needs to be a condition in text, which the service can read (got {where!r})")
        pool = None if among is None else list(among)
        body = {
            **{"k": k, "exclude_known": exclude_known, "where": where, "rules": _rules(rules)},
            **{"among": None if pool is None else _named(pool), "relation": relation},
        }
        asked = self._nodes(nodes)
        if rules is not None and rules.once is not None and len(asked) > RECOMMEND_NODES:
            raise InputError(
                f"'once' holds within one request, which may name {RECOMMEND_NODES:,} nodes (got {len(asked):,}): ask "
                "LinkPredictor.recommend, or name fewer"
            )
        answers = self._answers("recommend", "nodes", asked, RECOMMEND_NODES, body)
        results = [result for answer in answers for result in answer["results"]]
        found = _table([(r, p["target"], p) for r in results for p in r["recommendations"]], "score")
        return replace(found, **{name: answers[-1][name] for name in ("base_rate", "missing_share")})

    def similar(self, nodes: Any, k: int = 10, *, relation: str | None = None) -> Recommendations:
        """The k nodes nearest to each in the embedding space, as `LinkPredictor.similar`.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids; (type, id) where the model has relations.
        k
            How many similar nodes per node, at most.
        relation
            A relation whose types the nodes have, in a model of several predicted relations.

        Returns
        -------
        Recommendations
            Source, target, cosine (as score) and rank, nearest first for each node.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().similar("p1", k=10)  # doctest: +SKIP
        """
        body = {"k": k, "relation": relation}
        results = self._gathered("similar", "nodes", self._nodes(nodes), RECOMMEND_NODES, "results", body)
        return _table([(r, s["node"], s) for r in results for s in r["similar"]], "similarity")

    def score(self, pairs: Any, *, relation: str | None = None) -> NDArray[np.float32]:
        """Scores of pairs: the larger, the likelier a link.

        Parameters
        ----------
        pairs
            A sequence or an array of pairs (source, target), or a data frame with two columns, or with columns called
            source and target or alike.
        relation
            The relation that is asked about; it may be left out if one is predicted.

        Returns
        -------
        numpy.ndarray
            (p,) scores.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().score([("p1", "p2"), ("p1", "p3")])  # doctest: +SKIP
        """
        found = self._gathered("score", "pairs", _pairs(pairs), PAIRS, "scores", {"relation": relation})
        return np.array([s["score"] for s in found], dtype=np.float32)

    def predict_proba(
        self, pairs: Any, *, base_rate: float | None = None, relation: str | None = None
    ) -> NDArray[np.float64]:
        """The probability that each pair is a missing edge, as `LinkPredictor.predict_proba`.

        Parameters
        ----------
        pairs
            A sequence or an array of pairs (source, target), or a data frame with two columns, or with columns called
            source and target or alike.
        base_rate
            The share of links among the pairs asked about, if it is known. With None probabilities hold at the base
            rate of the model, which `model()["probabilities"]` has.
        relation
            The relation that is asked about; it may be left out if one is predicted.

        Returns
        -------
        numpy.ndarray
            (p,) probabilities.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().predict_proba([("p1", "p2")], base_rate=0.01)  # doctest: +SKIP
        """
        body = {"base_rate": base_rate, "relation": relation}
        found = self._gathered("score", "pairs", _pairs(pairs), PAIRS, "scores", body)
        return np.array([s["probability"] for s in found])

    def explain(self, source: Any, target: Any, *, relation: str | None = None) -> Explanation:
        """Which neighbours moved the score of a pair, and by how much.

        Parameters
        ----------
        source, target
            Two different ids.
        relation
            The relation that is asked about. Contributions name the relation of each neighbour.

        Returns
        -------
        Explanation
            The score, the score without messages, and the contribution of each neighbour.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().explain("p1", "p2")  # doctest: +SKIP
        """
        body = {"pairs": [_named([source, target])], "relation": relation}
        answer = self._post("explain", body)["explanations"][0]
        found = {name: answer[name] for name in Explanation.__dataclass_fields__ if name in answer}
        return Explanation(**{**found, "contributions": tuple(Contribution(**c) for c in found["contributions"])})

    def embed(self, nodes: Sequence[Any]) -> NDArray[np.float32]:
        """The stored vectors of nodes.

        Parameters
        ----------
        nodes
            A sequence of ids; of (type, id) where the model has several types.

        Returns
        -------
        numpy.ndarray
            (len(nodes), d) vectors.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().embed(["p1", "p2"])  # doctest: +SKIP
        """
        found = self._gathered("embed", "nodes", _named(nodes), NODES, "embeddings")
        return np.array([e["vector"] for e in found], np.float32)

    def search(
        self, query: str = "", limit: int = 20, *, type: str | None = None, relation: str | None = None
    ) -> list[dict[str, Any]]:
        """Nodes whose id or label begins with a text or is spelled alike.

        Parameters
        ----------
        query
            The text.
        limit
            How many nodes, at most.
        type
            The type of the nodes, in a model with relations; all types unless given.
        relation
            The relation whose edges are counted as the degree; all unless given.

        Returns
        -------
        list of dict
            Id and label of each node, and its type if the model has relations.

        Raises
        ------
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().search("neural", limit=5)  # doctest: +SKIP
        """
        page = urlencode({"query": query, "limit": limit, **_given(type=type, relation=relation)})
        found: list[dict[str, Any]] = self._ask("GET", f"nodes?{page}")["nodes"]
        return found

    def node(self, node: Any, *, limit: int = 100, offset: int = 0, relation: str | None = None) -> dict[str, Any]:
        """A node with its attributes and neighbours.

        Parameters
        ----------
        node
            The id; (type, id) where several types have it.
        limit
            How many neighbours, at most.
        offset
            How many neighbours to leave out before them.
        relation
            The relation of the edges to the neighbours; all unless given.

        Returns
        -------
        dict
            The answer of the service.

        Raises
        ------
        UnknownNodeError
            If the id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().node("p1", limit=10)  # doctest: +SKIP
        """
        type_, value = node if isinstance(node, tuple) else (None, node)
        kind = "integer" if isinstance(value, int) else "text"
        page = urlencode({"kind": kind, "limit": limit, "offset": offset, **_given(type=type_, relation=relation)})
        return self._ask("GET", f"nodes/{quote(str(value), safe='')}?{page}")

    def model(self, relation: str | None = None) -> dict[str, Any]:
        """Facts about the model: data, settings, figures.

        Parameters
        ----------
        relation
            The predicted relation whose figures are shown; the first unless given.

        Returns
        -------
        dict
            The answer of the service.

        Raises
        ------
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().model()  # doctest: +SKIP
        """
        page = urlencode(_given(relation=relation))
        return self._ask("GET", f"model?{page}" if page else "model")

    def add_links(self, pairs: Sequence[Pair]) -> int:
        """Add links to the live graph.

        Parameters
        ----------
        pairs
            A sequence of pairs (source, target).

        Returns
        -------
        int
            How many were new.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().add_links([("p1", "p2")])  # doctest: +SKIP
        """
        return self._changed("POST", "edges", "edges", pairs, "added")

    def remove_links(self, pairs: Sequence[Pair]) -> int:
        """Remove links from the live graph.

        Parameters
        ----------
        pairs
            A sequence of pairs (source, target).

        Returns
        -------
        int
            How many there were.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().remove_links([("p1", "p2")])  # doctest: +SKIP
        """
        return self._changed("DELETE", "edges", "edges", pairs, "removed")

    def add_node(
        self, node: Id, *, features: Any = None, neighbours: Sequence[Id] = (), label: str | None = None
    ) -> None:
        """Add a node to the live graph.

        Parameters
        ----------
        node
            The new id.
        features
            Its features, if the model uses any: numbers, or values by column. Without them it gets the mean of each
            feature column, with a warning.
        neighbours
            Ids of nodes that it is linked to.
        label
            A text to show and to search for.

        Raises
        ------
        InputError
            If the request is invalid.
        UnknownNodeError
            If a neighbour is not in the graph.
        ServiceError
            If the id is in the graph already, the features do not fit, or the service does not answer.

        Examples
        --------
        >>> Client().add_node("p99", neighbours=["p1", "p2"])  # doctest: +SKIP
        """
        given = features.tolist() if isinstance(features, np.ndarray) else features
        new = {"id": node, "features": given, "neighbours": list(neighbours), "label": label}
        for remark in self._post("nodes", {"nodes": [new]}).get("remarks", ()):
            warnings.warn(remark, stacklevel=2)

    def reject(self, pairs: Sequence[Pair]) -> int:
        """Never recommend these pairs again.

        Parameters
        ----------
        pairs
            A sequence of pairs (source, target).

        Returns
        -------
        int
            How many were not rejected before.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().reject([("p1", "p2")])  # doctest: +SKIP
        """
        return self._changed("POST", "rejections", "pairs", pairs, "rejected")

    def take_back(self, pairs: Sequence[Pair]) -> int:
        """Recommend rejected pairs again.

        Parameters
        ----------
        pairs
            A sequence of pairs (source, target).

        Returns
        -------
        int
            How many were rejected.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().take_back([("p1", "p2")])  # doctest: +SKIP
        """
        return self._changed("DELETE", "rejections", "pairs", pairs, "rejected")

    def reload(self) -> None:
        """Make the service read its model directory again.

        Raises
        ------
        ServiceError
            If the service refuses or does not answer.

        Examples
        --------
        >>> Client().reload()  # doctest: +SKIP
        """
        self._post("reload", None)
        self._types = None

    def _nodes(self, nodes: Any) -> list[Any]:
        """Nodes in the form of the service: one node is a list of one. (type, id) is one node if there is such a type.

        The types of the service are asked for where a tuple may be two ids as well.
        """
        if isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], str):
            if self._types is None:
                self._types = frozenset(kind["name"] for kind in self.model().get("types") or [])
            if nodes[0] in self._types:
                nodes = [nodes]
        return _named(_listed(nodes))

    def _post(self, route: str, body: Any) -> dict[str, Any]:
        return self._ask("POST", route, body)

    def _gathered(
        self, route: str, field: str, values: Sequence[Any], most: int, name: str, more: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Answers about a list, in its order, by as many requests as it takes."""
        return [found for answer in self._answers(route, field, values, most, more) for found in answer[name]]

    def _answers(
        self, route: str, field: str, values: Sequence[Any], most: int, more: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The answer to each of as many requests as a list takes."""
        room = BODY_BYTES - _ENVELOPE - len(json.dumps(more))
        return [self._post(route, {field: part, **(more or {})}) for part in _parts(values, most, room)]

    def _changed(self, method: str, route: str, field: str, pairs: Sequence[Pair], name: str) -> int:
        """How many pairs of a list changed, by as many requests as it takes."""
        parts = _parts(pairs, PAIRS, BODY_BYTES - _ENVELOPE)
        return sum(int(self._ask(method, route, {field: part})[name]) for part in parts)

    def _ask(self, method: str, route: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        if data is not None and len(data) > BODY_BYTES:
            raise _refusal(413, f"one request may have {BODY_BYTES:,} bytes (got {len(data):,})")
        headers = {**self._headers, "X-Yinyan-Version": str(self.version)}
        request = Request(f"{self.address}/v1/{route}", data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                answer: dict[str, Any] = json.load(response)
        except HTTPError as error:
            raise self._refused(error) from None
        except (URLError, OSError) as error:
            raise _refusal(0, f"no answer from {self.address}: {error}", "No answer") from error
        with self._lock:
            self.version = max(self.version, int(answer.get("version", 0)))
        return answer

    def _refused(self, error: HTTPError) -> ServiceError:
        """A refusal of the service as an error."""
        if error.code in range(300, 400):
            place = str(error.headers.get("Location"))
            words = f"{self.address} redirects to {place!r:.200}, and redirects are not followed"
            return ServiceError(words, error.code, title=str(error.reason), cure="use that address")
        try:
            told = json.loads(error.read())
            return _refusal(error.code, str(told["detail"]), str(told.get("title", error.reason)))
        except (ValueError, KeyError, TypeError):  # not by yinyan, but by something before it
            return _refusal(error.code, f"the service answered with status {error.code}", str(error.reason))


def _refusal(status: int, detail: str, title: str | None = None) -> ServiceError:
    """An error of the kind that a status means, with its cure."""
    title = HTTPStatus(status).phrase if title is None else title
    return _KINDS.get(status, ServiceError)(detail, status, title=title, cure=_CURES.get(status, ""))


def _named(nodes: Iterable[Any]) -> list[Any]:
    """Ids as they are, and (type, id) as the service reads it."""
    return [{"type": node[0], "id": node[1]} if isinstance(node, tuple) and len(node) == 2 else node for node in nodes]


def _given(**values: str | None) -> dict[str, str]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _rules(rules: Rules | None) -> dict[str, Any] | None:
    """Rules as the service reads them."""
    if rules is None:
        return None
    lists = {
        name: None
        if given is None
        else [{"source": _named([source])[0], "targets": _named(found)} for source, found in given.items()]
        for name, given in (("allow", rules.allow), ("deny", rules.deny))
    }
    return {**lists, "once": rules.once}


def _listed(nodes: Any) -> list[Any]:
    return [nodes] if isinstance(nodes, (int, str)) else list(nodes)


def _pairs(pairs: Any) -> Sequence[Any]:
    """Pairs of plain ids, out of a list, an array or a data frame."""
    if is_frame(pairs):
        return pairs_from_frame(pairs)
    listed = pairs.tolist() if isinstance(pairs, np.ndarray) else list(pairs)
    return [_named(pair) if isinstance(pair, (list, tuple)) else pair for pair in listed]


def _table(rows: Sequence[tuple[dict[str, Any], Id, dict[str, Any]]], score: str) -> Recommendations:
    """Answers of the service as a table; `score` names their figure. Labels and probabilities come along."""
    labels = [[source.get("label") for source, _, _ in rows], [facts.get("label") for _, _, facts in rows]]
    has_labels = any(label is not None for column in labels for label in column)
    typed = bool(rows) and all("type" in source and "type" in facts for source, _, facts in rows)
    ends = [source for source, _, _ in rows], [facts for _, _, facts in rows]
    types = [tuple(end["type"] for end in own) if typed else None for own in ends]
    chances = [facts["probability"] for _, _, facts in rows if "probability" in facts]
    return Recommendations(
        sources=tuple(source["node"] for source, _, _ in rows),
        targets=tuple(target for _, target, _ in rows),
        scores=np.array([facts[score] for _, _, facts in rows], dtype=np.float32),
        ranks=np.array([facts["rank"] for _, _, facts in rows], dtype=np.int64),
        probabilities=np.array(chances) if rows and len(chances) == len(rows) else None,
        source_labels=tuple(labels[0]) if has_labels else None,
        target_labels=tuple(labels[1]) if has_labels else None,
        source_types=types[0],
        target_types=types[1],
    )


def _parts(values: Sequence[Any], most: int, room: int) -> Iterator[list[Any]]:
    """A list in parts of at most so many items and bytes of JSON; an empty list is one part."""
    part: list[Any] = []
    size = 0
    for value in values:
        length = len(json.dumps(value)) + 2
        if part and (len(part) == most or size + length > room):
            yield part
            part, size = [], 0
        part.append(value)
        size += length
    if part or not len(values):
        yield part

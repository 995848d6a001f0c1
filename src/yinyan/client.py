"""A client of the service, which answers as the predictor does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError, YinYanError
from yinyan.results import Contribution, Explanation, Id, Recommendations

__all__ = ["Client", "ServiceError"]

Pair = tuple[Id, Id]


class ServiceError(YinYanError):
    """The service refused, or cannot be reached; `status` is HTTP's, 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Asks a service that `yinyan serve` has started."""

    def __init__(self, address: str = "http://127.0.0.1:8000", *, key: str | None = None, timeout: float = 30.0):
        self.address, self.timeout = address.rstrip("/"), timeout
        self._headers = {"Content-Type": "application/json"} | ({} if key is None else {"X-API-Key": key})
        self._opener = build_opener(ProxyHandler({}))  # straight to the address that was given

    def recommend(
        self, nodes: Id | Sequence[Id], k: int = 10, *, among: Iterable[Id] | None = None, known: bool = False
    ) -> Recommendations:
        """The k best new partners of each node."""
        listed = [nodes] if isinstance(nodes, (int, str)) else list(nodes)
        body = {"nodes": listed, "k": k, "known": known, "among": None if among is None else list(among)}
        results = self._post("recommend", body)["results"]
        rows = [(r["node"], p) for r in results for p in r["recommendations"]]
        return Recommendations(
            sources=tuple(node for node, _ in rows),
            targets=tuple(p["target"] for _, p in rows),
            scores=np.array([p["score"] for _, p in rows], dtype=np.float32),
            ranks=np.array([p["rank"] for _, p in rows], dtype=np.int64),
        )

    def score(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """One score a pair."""
        return np.array([s["score"] for s in self._post("score", {"pairs": list(pairs)})["scores"]], dtype=np.float32)

    def predict_proba(self, pairs: Sequence[Pair], *, base_rate: float = 0.5) -> NDArray[np.float64]:
        """The probability that each pair is a link, where a share `base_rate` of those asked about are."""
        answer = self._post("score", {"pairs": list(pairs), "base_rate": base_rate})
        return np.array([s["probability"] for s in answer["scores"]])

    def explain(self, source: Id, target: Id) -> Explanation:
        """Which neighbours moved the score of a pair, and by how much."""
        found = self._post("explain", {"pairs": [(source, target)]})["explanations"][0]
        return Explanation(**{**found, "contributions": tuple(Contribution(**c) for c in found["contributions"])})

    def embed(self, nodes: Sequence[Id]) -> NDArray[np.float32]:
        """The vectors of nodes, (len(nodes), d)."""
        return np.array([e["vector"] for e in self._post("embed", {"nodes": list(nodes)})["embeddings"]], np.float32)

    def search(self, query: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """Nodes whose id or label begins with a text or is spelled alike."""
        found: list[dict[str, Any]] = self._ask("GET", f"nodes?{urlencode({'query': query, 'limit': limit})}")["nodes"]
        return found

    def node(self, node: Id, *, limit: int = 100, offset: int = 0) -> dict[str, Any]:
        """A node with its attributes and neighbours."""
        kind = "integer" if isinstance(node, int) else "text"
        page = urlencode({"kind": kind, "limit": limit, "offset": offset})
        return self._ask("GET", f"nodes/{quote(str(node), safe='')}?{page}")

    def model(self) -> dict[str, Any]:
        """What is known of the model."""
        return self._ask("GET", "model")

    def add_links(self, pairs: Sequence[Pair]) -> int:
        """Add links to the live graph; returns how many were new."""
        return int(self._post("edges", {"edges": list(pairs)})["added"])

    def remove_links(self, pairs: Sequence[Pair]) -> int:
        """Remove links; returns how many there were."""
        return int(self._ask("DELETE", "edges", {"edges": list(pairs)})["removed"])

    def add_node(
        self, node: Id, *, features: Any = None, neighbours: Sequence[Id] = (), label: str | None = None
    ) -> None:
        """Add a node, with features if the model reads any (numbers, or values by column)."""
        given = features.tolist() if isinstance(features, np.ndarray) else features
        new = {"id": node, "features": given, "neighbours": list(neighbours), "label": label}
        self._post("nodes", {"nodes": [new]})

    def reject(self, pairs: Sequence[Pair]) -> int:
        """Never recommend these pairs again; returns how many were not rejected before."""
        return int(self._post("rejections", {"pairs": list(pairs)})["rejected"])

    def take_back(self, pairs: Sequence[Pair]) -> int:
        """Recommend rejected pairs again; returns how many were rejected."""
        return int(self._ask("DELETE", "rejections", {"pairs": list(pairs)})["rejected"])

    def reload(self) -> None:
        """Have the service read its model directory again."""
        self._post("reload", None)

    def _post(self, route: str, body: Any) -> dict[str, Any]:
        return self._ask("POST", route, body)

    def _ask(self, method: str, route: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.address}/v1/{route}", data, self._headers, method=method)
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except HTTPError as error:
            raise _refusal(error.code, error.read()) from None
        except (URLError, OSError) as error:
            raise ServiceError(f"no answer from {self.address}: {error} (is 'yinyan serve' running there?)") from error


def _refusal(status: int, body: bytes) -> YinYanError:
    """The library's own error again."""
    try:
        detail = str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the service answered with status {status}"
    kinds: dict[int, type[YinYanError]] = {404: UnknownNodeError, 422: InputError}
    return kinds[status](detail) if status in kinds else ServiceError(detail, status)

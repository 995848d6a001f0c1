"""The shapes of requests and answers, with examples."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

__all__ = [
    "Added",
    "EdgesBody",
    "Embeddings",
    "Explanations",
    "FoundNodes",
    "Health",
    "ModelPage",
    "Neighbourhood",
    "NewNodeBody",
    "NodeMap",
    "NodePage",
    "NodesBody",
    "PairsBody",
    "Problem",
    "RecommendBody",
    "Recommended",
    "RejectedPairs",
    "Reloaded",
    "Removed",
    "ScoreBody",
    "Scores",
    "VectorsBody",
]

NodeId = StrictInt | StrictStr  # 7 and "7" are different nodes
IdPair = Annotated[list[NodeId], Field(min_length=2, max_length=2)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _with(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class ScoreBody(_Body):
    """Pairs to score."""

    model_config = _with({"pairs": [["p1", "p9"], ["p1", "p2"]], "base_rate": 0.5})
    pairs: list[IdPair]
    base_rate: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5


class RecommendBody(_Body):
    """Nodes that want partners."""

    model_config = _with({"nodes": ["p1"], "k": 10})
    nodes: list[NodeId]
    k: Annotated[StrictInt, Field(ge=1)] = 10
    known: StrictBool = False
    among: list[NodeId] | None = None


class PairsBody(_Body):
    """Pairs of nodes."""

    model_config = _with({"pairs": [["p1", "p9"]]})
    pairs: list[IdPair]


class VectorsBody(_Body):
    """Nodes whose vectors are wanted."""

    model_config = _with({"nodes": ["p1", "p9"]})
    nodes: list[NodeId]


class EdgesBody(_Body):
    """Links to add or to remove."""

    model_config = _with({"edges": [["p1", "p9"]]})
    edges: list[IdPair]


class NewNodeBody(_Body):
    """A node to add."""

    model_config = _with({"id": "p3000", "features": None, "neighbours": ["p1"], "label": "A new paper"})
    id: NodeId
    features: list[Annotated[float, Field(allow_inf_nan=False)]] | dict[str, Any] | None = None
    neighbours: list[NodeId] = []
    label: StrictStr | None = None


class NodesBody(_Body):
    """Nodes to add."""

    model_config = _with({"nodes": [{"id": "p3000", "neighbours": ["p1"], "label": "A new paper"}]})
    nodes: list[NewNodeBody]


class Score(BaseModel):
    """A pair's score."""

    source: NodeId
    target: NodeId
    score: float
    probability: float
    is_link: bool


class Scores(BaseModel):
    """Scores in the order of the pairs."""

    scores: list[Score]
    version: int


class Partner(BaseModel):
    """A recommended partner."""

    target: NodeId
    label: str | None
    score: float
    probability: float
    rank: int


class NodePartners(BaseModel):
    """A node's recommended partners, best first."""

    node: NodeId
    recommendations: list[Partner]


class Recommended(BaseModel):
    """Partners in the order of the nodes."""

    results: list[NodePartners]
    version: int


class ContributionOut(BaseModel):
    """How a neighbour moved a score."""

    end: NodeId
    neighbour: NodeId | None
    kind: str
    amount: float


class ExplanationOut(BaseModel):
    """A score taken apart."""

    source: NodeId
    target: NodeId
    score: float
    score_alone: float
    probability: float
    base_rate: float
    is_link: bool
    contributions: list[ContributionOut]
    residue: float


class Explanations(BaseModel):
    """Explanations in the order of the pairs."""

    explanations: list[ExplanationOut]
    version: int


class Embedding(BaseModel):
    """A node's vector."""

    node: NodeId
    vector: list[float]


class Embeddings(BaseModel):
    """Vectors in the order of the nodes."""

    embeddings: list[Embedding]
    version: int


class NodeCard(BaseModel):
    """A node in a list."""

    id: NodeId
    label: str | None
    degree: int


class FoundNodes(BaseModel):
    """Nodes that a search has found, best first."""

    nodes: list[NodeCard]
    version: int


class NodePage(NodeCard):
    """A node with its neighbours."""

    attributes: dict[str, Any]
    neighbours: list[NodeCard]
    version: int


class DrawnNode(NodeCard):
    """A node in a drawing."""

    hop: int


class Neighbourhood(BaseModel):
    """Nodes around one, and the links among them."""

    nodes: list[DrawnNode]
    links: list[IdPair]
    version: int


class NodeMap(BaseModel):
    """Places of nodes in the plane."""

    ids: list[NodeId]
    labels: list[str | None]
    x: list[float]
    y: list[float]
    version: int


class ModelPage(BaseModel):
    """What is known of the model."""

    model_config = ConfigDict(protected_namespaces=())
    name: str
    model: dict[str, Any]
    metrics: dict[str, float | None]
    protocol: str
    split: str
    settings: dict[str, dict[str, Any]]
    training: list[dict[str, Any]]
    best_epoch: int
    energy: list[float | None]
    reliability: list[dict[str, float]]
    versions: dict[str, str]
    index: dict[str, Any]
    live: dict[str, float]
    read_only: bool
    why_read_only: str | None


class Added(BaseModel):
    """How much was new, and the number of the last change."""

    added: int
    version: int


class Removed(BaseModel):
    """How much was there, and the number of the last change."""

    removed: int
    version: int


class RejectedPairs(BaseModel):
    """How many pairs were not rejected before (or, taken back, were)."""

    rejected: int
    version: int


class Reloaded(BaseModel):
    """The model that is served now."""

    fingerprint: str
    version: int


class Health(BaseModel):
    """Whether the service is alive, or ready."""

    status: str


class Problem(BaseModel):
    """What is wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str

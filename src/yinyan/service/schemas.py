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
    "SimilarBody",
    "SimilarNodes",
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


class SimilarBody(_Body):
    """Nodes whose nearest nodes are wanted."""

    model_config = _with({"nodes": ["p1"], "k": 10})
    nodes: list[NodeId]
    k: Annotated[StrictInt, Field(ge=1)] = 10


class RecommendBody(SimilarBody):
    """Nodes for which links are recommended."""

    exclude_known: StrictBool = True
    among: list[NodeId] | None = None
    known: Annotated[
        StrictBool | None,
        Field(
            description="old name, for one version: known=true is exclude_known=false",
            json_schema_extra={"deprecated": True},
        ),
    ] = None

    @property
    def excludes_known(self) -> bool:
        """By the new name, or by the old one if it is given."""
        return self.exclude_known if self.known is None else not self.known


class PairsBody(_Body):
    """Pairs of nodes."""

    model_config = _with({"pairs": [["p1", "p9"]]})
    pairs: list[IdPair]


class VectorsBody(_Body):
    """Nodes whose embeddings are requested."""

    model_config = _with({"nodes": ["p1", "p9"]})
    nodes: list[NodeId]


class EdgesBody(_Body):
    """Edges to add or to remove."""

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


class _Answer(BaseModel):
    version: int  # of the graph


class Score(BaseModel):
    """Score and probability of one pair."""

    source: NodeId
    target: NodeId
    score: float
    probability: float
    is_link: bool


class Scores(_Answer):
    """Scores in the order of the pairs."""

    scores: list[Score]


class Partner(BaseModel):
    """One recommended link of a node."""

    target: NodeId
    label: str | None
    score: float
    probability: float
    rank: int


class NodePartners(BaseModel):
    """Recommended links of one node, best first."""

    node: NodeId
    recommendations: list[Partner]


class Recommended(_Answer):
    """Recommended links in the order of the nodes."""

    results: list[NodePartners]


class SimilarNode(BaseModel):
    """A node that is near in the embedding space."""

    node: NodeId
    label: str | None
    similarity: float
    rank: int


class NodeSimilar(BaseModel):
    """A node's similar nodes, nearest first."""

    node: NodeId
    similar: list[SimilarNode]


class SimilarNodes(_Answer):
    """Similar nodes in the order of the nodes asked about."""

    results: list[NodeSimilar]


class ContributionOut(BaseModel):
    """Share of one neighbour in a score."""

    end: NodeId
    neighbour: NodeId | None
    kind: str
    amount: float


class ExplanationOut(Score):
    """Decomposition of a score into the shares of neighbours."""

    score_alone: float
    base_rate: float
    contributions: list[ContributionOut]
    residue: float


class Explanations(_Answer):
    """Explanations in the order of the pairs."""

    explanations: list[ExplanationOut]


class Embedding(BaseModel):
    """Embedding of one node."""

    node: NodeId
    vector: list[float]


class Embeddings(_Answer):
    """Embeddings in the order of the nodes."""

    embeddings: list[Embedding]


class NodeCard(BaseModel):
    """A node in a list."""

    id: NodeId
    label: str | None
    degree: int


class FoundNodes(_Answer):
    """Nodes found by a search, best first."""

    nodes: list[NodeCard]


class NodePage(_Answer, NodeCard):
    """A node with its neighbours."""

    attributes: dict[str, Any]
    neighbours: list[NodeCard]


class DrawnNode(NodeCard):
    """A node in a drawing."""

    hop: int


class Neighbourhood(_Answer):
    """Nodes around one node, and the edges between them."""

    nodes: list[DrawnNode]
    links: list[IdPair]


class NodeMap(_Answer):
    """Two-dimensional positions of nodes."""

    ids: list[NodeId]
    labels: list[str | None]
    x: list[float]
    y: list[float]
    edges: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        description="edges between some of them, as positions in these lists"
    )


class HeldOut(BaseModel):
    """The pairs that the charts of scores are about."""

    pairs: str
    num_positives: int
    num_negatives: int
    base_rate: float


class Histogram(BaseModel):
    """Shares of the positives and of the negatives by score; one edge more than shares."""

    edges: list[float]
    positives: list[float]
    negatives: list[float]


class CurveOut(BaseModel):
    """A curve and the area under it."""

    x: list[float]
    y: list[float]
    area: float


class ReliabilityBin(BaseModel):
    """Stated probability, observed share of positives with its 95 % interval, number of pairs."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


class ModelPage(BaseModel):
    """Figures, settings and training of the model."""

    model_config = ConfigDict(protected_namespaces=())
    name: str
    model: dict[str, Any]
    metrics: dict[str, float | None]
    protocol: str
    split: str
    seed: int
    seconds: float
    notes: list[str]
    settings: dict[str, dict[str, Any]]
    training: list[dict[str, Any]]
    best_epoch: int
    energy: list[float | None]
    held_out: HeldOut | None
    histogram: Histogram | None
    roc: CurveOut | None
    precision_recall: CurveOut | None
    reliability: list[ReliabilityBin]
    versions: dict[str, str]
    index: dict[str, Any]
    live: dict[str, float]
    read_only: bool


class Added(_Answer):
    """Number of new edges or nodes, and the version of the graph."""

    added: int


class AddedNodes(Added):
    """Number of new nodes, and those whose features were clipped to the range that training saw."""

    clipped: list[NodeId] = []


class Removed(_Answer):
    """Number of removed edges, and the version of the graph."""

    removed: int


class RejectedPairs(_Answer):
    """Number of pairs whose rejection changed, and the version of the graph."""

    rejected: int


class Reloaded(_Answer):
    """Fingerprint of the model that is served."""

    fingerprint: str


class Health(BaseModel):
    """State of the service: alive or ready."""

    status: str


class Problem(BaseModel):
    """Error details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str

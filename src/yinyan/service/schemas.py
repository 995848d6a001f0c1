"""The shapes of requests and answers, with examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    StringConstraints,
)

from yinyan.retrieval.condition_syntax import MOST_CHARACTERS
from yinyan.retrieval.rules import Rules
from yinyan.service.options import Limits
from yinyan.service.problems import TooMuchError
from yinyan.service.sizes import TEXT

__all__ = [
    "Added",
    "Body",
    "EdgesBody",
    "Embeddings",
    "ExplainBody",
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
    "PerSource",
    "Problem",
    "RecommendBody",
    "Recommended",
    "RejectedPairs",
    "Reloaded",
    "Removed",
    "RulesBody",
    "ScoreBody",
    "Scores",
    "SimilarBody",
    "SimilarNodes",
    "VectorsBody",
]

_TOO_LONG = 10 ** (TEXT - 1)  # an integer id
_EXACT = 2**53  # whole numbers up to here are the same as a float


def _whole(value: Any) -> Any:
    """A whole number written as 7.0 is 7, as JSON Schema has it."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT else value


def _short(value: int) -> int:
    if abs(value) >= _TOO_LONG:
        raise ValueError(f"an integer id may have {TEXT - 1:,} digits")
    return value


class _FirstFault(FailFast):
    """The first fault is enough to refuse a list; unlike its base, this can stand in a union."""

    def __hash__(self) -> int:
        return hash(_FirstFault)


Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Text = Annotated[str, StringConstraints(strict=True, max_length=TEXT)]
NodeId = Text | Annotated[Whole, AfterValidator(_short)]  # 7 and "7" are different nodes


class TypedId(BaseModel):
    """A node of a model with relations: ids are unique per type."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"type": "person", "id": "u1"}]})
    type: Text
    id: NodeId


def _named(node: Any) -> Any:
    """(type, id), as the questions take it."""
    return (node.type, node.id) if isinstance(node, TypedId) else node


NodeName = Annotated[NodeId | TypedId, AfterValidator(_named)]
AnyId = StrictStr | StrictInt  # of an answer: ids of the table that the model was fitted on may be longer
IdPair = Annotated[list[NodeId], Field(min_length=2, max_length=2), _FirstFault()]
Ids = Annotated[list[NodeId], _FirstFault()]
Nodes = Annotated[list[NodeName], _FirstFault()]
NamedPair = Annotated[list[NodeName], Field(min_length=2, max_length=2), _FirstFault()]
NamedPairs = Annotated[list[NamedPair], _FirstFault()]
RelationOf = Annotated[
    Text | None, Field(description="relation that is asked about; null where one kind of edge is predicted")
]
Numbers = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], _FirstFault()]
Pairs = Annotated[list[IdPair], _FirstFault()]


class Body(BaseModel):
    """What a request may bring."""

    model_config = ConfigDict(extra="forbid")
    counted: ClassVar[Mapping[str, tuple[str, str]]] = {}  # field to the name of its limit, and the word for its items

    @classmethod
    def count(cls, content: Any, limits: Limits) -> None:
        """Refuse what is too long or too large, before its types are looked at."""
        if isinstance(content, dict):
            for field, (limit, what) in cls.counted.items():
                _at_most(content.get(field), getattr(limits, limit), what)


def _at_most(value: Any, most: int, what: str) -> None:
    """Refuse a list that is too long or a number that is too large; anything else is for the validation."""
    count = len(value) if isinstance(value, (list, dict)) else value if isinstance(value, (int, float)) else 0
    if count > most:
        raise TooMuchError(f"one request may have {most:,} {what} (got {count:,}): send several")


def _with(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class ScoreBody(Body):
    """Pairs to score."""

    model_config = _with({"pairs": [["p1", "p9"], ["p1", "p2"]], "base_rate": 0.5})
    counted = {"pairs": ("pairs", "pairs")}
    pairs: NamedPairs
    relation: RelationOf = None
    base_rate: Annotated[
        float | None, Field(gt=0, lt=1, allow_inf_nan=False, description="share of links; null: that of the model")
    ] = None


class SimilarBody(Body):
    """Nodes whose nearest nodes are wanted."""

    model_config = _with({"nodes": ["p1"], "k": 10})
    counted = {"nodes": ("recommend_nodes", "nodes"), "k": ("k", "similar nodes per node")}
    nodes: Nodes
    relation: RelationOf = None
    k: Annotated[Whole, Field(ge=1)] = 10


class PerSource(BaseModel):
    """Candidates of one source."""

    model_config = _with({"source": "p1", "targets": ["p9"]})
    source: NodeName
    targets: Nodes


class RulesBody(BaseModel):
    """Rules of an answer."""

    model_config = _with({"deny": [{"source": "p1", "targets": ["p9"]}], "once": "target"})
    allow: Annotated[list[PerSource] | None, Field(description="the only candidates of some sources")] = None
    deny: Annotated[list[PerSource] | None, Field(description="who is no candidate of some sources")] = None
    once: Annotated[
        Literal["target", "node"] | None,
        Field(description="target: nobody is recommended twice; node: nobody is in two links"),
    ] = None

    def rules(self) -> Rules:
        """As the questions take them."""
        return Rules(_by_source(self.allow), _by_source(self.deny), self.once)


class RecommendBody(SimilarBody):
    """Nodes for which links are recommended."""

    counted = {**SimilarBody.counted, "k": ("k", "links per node"), "among": ("pairs", "candidates")}
    exclude_known: StrictBool = True
    among: Nodes | None = None
    where: Annotated[
        Annotated[str, StringConstraints(strict=True, max_length=MOST_CHARACTERS)] | None,
        Field(description="condition, such as: candidate.year >= 2010 and candidate.field = source.field"),
    ] = None
    rules: RulesBody | None = None
    known: Annotated[
        StrictBool | None,
        Field(
            description="old name, for one version: known=true is exclude_known=false",
            json_schema_extra={"deprecated": True},
        ),
    ] = None

    @classmethod
    def count(cls, content: Any, limits: Limits) -> None:
        """Of the lists, and of those within the rules."""
        super().count(content, limits)
        rules = content.get("rules") if isinstance(content, dict) else None
        given: dict[str, Any] = rules if isinstance(rules, dict) else {}
        for name in ("allow", "deny"):
            lists = given[name] if isinstance(given.get(name), list) else []
            targets = [entry.get("targets") for entry in lists if isinstance(entry, dict)]
            total = len(lists) + sum(len(found) for found in targets if isinstance(found, list))
            _at_most(total, limits.pairs, f"nodes in the rule {name!r}")

    @property
    def excludes_known(self) -> bool:
        """By the new name, or by the old one if it is given."""
        return self.exclude_known if self.known is None else not self.known


def _by_source(lists: list[PerSource] | None) -> dict[Any, list[Any]] | None:
    """Targets by source; several lists of one source are joined."""
    if lists is None:
        return None
    found: dict[Any, list[Any]] = {}
    for rule in lists:
        found.setdefault(rule.source, []).extend(rule.targets)
    return found


class PairsBody(Body):
    """Pairs of nodes."""

    model_config = _with({"pairs": [["p1", "p9"]]})
    counted = {"pairs": ("pairs", "pairs")}
    pairs: Pairs


class ExplainBody(Body):
    """Pairs whose scores are explained."""

    model_config = _with({"pairs": [["p1", "p9"]]})
    counted = {"pairs": ("explained_pairs", "pairs to explain")}
    pairs: NamedPairs
    relation: RelationOf = None


class VectorsBody(Body):
    """Nodes whose embeddings are requested."""

    model_config = _with({"nodes": ["p1", "p9"]})
    counted = {"nodes": ("nodes", "nodes")}
    nodes: Nodes


class EdgesBody(Body):
    """Edges to add or to remove."""

    model_config = _with({"edges": [["p1", "p9"]]})
    counted = {"edges": ("pairs", "pairs")}
    edges: Pairs


class NewNodeBody(Body):
    """A node to add."""

    model_config = _with({"id": "p3000", "features": None, "neighbours": ["p1"], "label": "A new paper"})
    counted = {"features": ("features", "features per node"), "neighbours": ("pairs", "neighbours")}
    id: NodeId
    features: Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], _FirstFault()] | dict[Text, Any] | None = (
        None
    )
    neighbours: Ids = []
    label: Text | None = None


class NodesBody(Body):
    """Nodes to add."""

    model_config = _with({"nodes": [{"id": "p3000", "neighbours": ["p1"], "label": "A new paper"}]})
    counted = {"nodes": ("nodes", "nodes")}
    nodes: Annotated[list[NewNodeBody], _FirstFault()]

    @classmethod
    def count(cls, content: Any, limits: Limits) -> None:
        """Of all nodes together, and of each."""
        super().count(content, limits)
        nodes = content.get("nodes") if isinstance(content, dict) else None
        found = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
        for node in found:
            NewNodeBody.count(node, limits)
        lists = [node.get("neighbours") for node in found]
        _at_most(sum(len(near) for near in lists if isinstance(near, list)), limits.pairs, "links of new nodes")


class _Answer(BaseModel):
    version: int  # of the graph


TypeOf = Annotated[str | None, Field(description="type of the node; in models with relations alone")]


class Score(BaseModel):
    """Score and probability of one pair."""

    source: AnyId
    source_label: str | None
    target: AnyId
    target_label: str | None
    source_type: TypeOf = None
    target_type: TypeOf = None
    score: float
    probability: float
    is_link: bool


class Scores(_Answer):
    """Scores in the order of the pairs."""

    scores: list[Score]
    base_rate: float


class Partner(BaseModel):
    """One recommended link of a node."""

    target: AnyId
    label: str | None
    type: TypeOf = None
    score: float
    probability: float
    rank: int


class NodePartners(BaseModel):
    """Recommended links of one node, best first."""

    node: AnyId
    label: str | None
    type: TypeOf = None
    recommendations: list[Partner]


class Recommended(_Answer):
    """Recommended links in the order of the nodes."""

    results: list[NodePartners]
    base_rate: float
    missing_share: float


class SimilarNode(BaseModel):
    """A node that is near in the embedding space."""

    node: AnyId
    label: str | None
    type: TypeOf = None
    similarity: float
    rank: int


class NodeSimilar(BaseModel):
    """A node's similar nodes, nearest first."""

    node: AnyId
    label: str | None
    type: TypeOf = None
    similar: list[SimilarNode]


class SimilarNodes(_Answer):
    """Similar nodes in the order of the nodes asked about."""

    results: list[NodeSimilar]


class ContributionOut(BaseModel):
    """Share of one neighbour in a score."""

    end: AnyId
    neighbour: AnyId | None
    kind: str
    amount: float
    label: str | None
    relation: str | None = Field(None, description="of the edge; in models with relations alone")
    neighbour_type: TypeOf = None
    end_type: TypeOf = None


class ExplanationOut(Score):
    """Decomposition of a score into the shares of neighbours."""

    score_alone: float
    base_rate: float
    relation: str | None = None
    contributions: list[ContributionOut]
    residue: float
    shared: float = 0.0  # what exact counts of shared neighbours add, where they rerank listed links


class Explanations(_Answer):
    """Explanations in the order of the pairs."""

    explanations: list[ExplanationOut]


class Embedding(BaseModel):
    """Embedding of one node."""

    node: AnyId
    type: TypeOf = None
    vector: list[float]


class Embeddings(_Answer):
    """Embeddings in the order of the nodes."""

    embeddings: list[Embedding]


class NodeCard(BaseModel):
    """A node in a list."""

    id: AnyId
    label: str | None
    type: TypeOf = None
    degree: int


class FoundNodes(_Answer):
    """Nodes found by a search, best first."""

    nodes: list[NodeCard]


class Neighbour(NodeCard):
    """The other end of an edge of a node."""

    relation: str | None = Field(None, description="of the edge; in models with relations alone")


class NodePage(_Answer, NodeCard):
    """A node with its neighbours."""

    attributes: dict[str, Any]
    neighbours: list[Neighbour]


class DrawnNode(NodeCard):
    """A node in a drawing."""

    hop: int


class Neighbourhood(_Answer):
    """Nodes around one node, and the edges between them."""

    nodes: list[DrawnNode]
    links: list[Annotated[list[AnyId], Field(min_length=2, max_length=2)]]
    ends: list[Annotated[list[int], Field(min_length=2, max_length=2)]] | None = Field(
        None, description="the links as positions in 'nodes'; in models with relations alone"
    )
    relations: list[str] | None = Field(None, description="the relation of each link; in models with relations alone")


class NodeMap(_Answer):
    """Two-dimensional positions of nodes."""

    ids: list[AnyId]
    labels: list[str | None]
    types: list[str] | None = Field(None, description="type of each node; in models with relations alone")
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
    """Stated probability, observed share of missing edges with its 95 % interval, number of rows."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


class DegreeGroup(ReliabilityBin):
    """The same for sources whose number of edges is between two."""

    least: int
    most: int


class Lists(BaseModel):
    """The recommended lists of held-out edges that the calibration is measured on."""

    edges: str
    length: int
    num_sources: int
    num_hits: int
    error: float
    by_degree: list[DegreeGroup]


class BaseRate(BaseModel):
    """The base rate of probabilities: missing edges as a share of all new pairs, and of the known edges."""

    base_rate: float
    missing_share: float


class TypeFacts(BaseModel):
    """The nodes of one type."""

    name: str
    num_nodes: int
    num_features: int


class RelationFacts(BaseModel):
    """One relation: its edges, how strongly it attracts, and its figures if it is predicted."""

    name: str
    source: str
    target: str
    num_links: int
    directed: bool
    predicted: bool
    attraction: float
    metrics: dict[str, float | None]


class ModelPage(_Answer):
    """Figures, settings and training of the model."""

    model_config = ConfigDict(protected_namespaces=())
    name: str
    relation: str | None = Field(None, description="relation of the figures and charts; in models with relations alone")
    types: list[TypeFacts] | None = Field(None, description="types of nodes; in models with relations alone")
    relations: list[RelationFacts] | None = Field(None, description="relations; in models with relations alone")
    overall: dict[str, float | None] | None = Field(
        None, description="figures over all predicted relations; in models with relations alone"
    )
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
    probabilities: BaseRate
    lists: Lists | None
    reliability: list[ReliabilityBin]
    versions: dict[str, str]
    index: dict[str, Any]
    live: dict[str, float]
    read_only: bool


class Added(_Answer):
    """Number of new edges or nodes, and the version of the graph."""

    added: int


class AddedNodes(Added):
    """Number of new nodes, and remarks about their features."""

    clipped: list[NodeId] = Field([], description="nodes whose features were clipped to the range that training saw")
    imputed: list[NodeId] = Field([], description="nodes without features, which got the mean of each feature column")
    remarks: list[str] = Field([], description="the same in words, with a cure")


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

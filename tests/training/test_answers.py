"""Asking for both ends of triples: the loss and its gradients equal their definition; epochs ask each once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typed_graphs import shop
from yinyan import Graph, LinkPredictor
from yinyan.errors import SettingsError
from yinyan.model.answer_ranking import rank_answers
from yinyan.model.relation_vectors import ComplexVectors, RelationVectors
from yinyan.model.typed_fitted import TypedFitted
from yinyan.peers.triple_formulas import DistMultVectors, RotatEVectors, TransEVectors
from yinyan.settings import TrainingSettings
from yinyan.training import answers
from yinyan.training.adam import Adagrad, Group
from yinyan.training.answers import descend_on_answers, questions_of

TRIPLES = torch.tensor([[0, 5, 0], [0, 6, 0], [1, 5, 0], [3, 4, 1], [3, 4, 1], [6, 2, 1]])
# relation 0 joins rows 0-3 to rows 4-6; relation 1 joins all to all
LIMITS = torch.tensor([[0, 4, 4, 3], [0, 7, 0, 7]])


def settings(**options: object) -> TrainingSettings:
    return TrainingSettings(**{"loss": "infonce", "loss_sampler": "all", **options})  # type: ignore[arg-type]


def made(kind: type[RelationVectors] = ComplexVectors) -> tuple[RelationVectors, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(4, [True, True]).double(), torch.randn(7, 4, dtype=torch.float64, requires_grad=True)


def descended(vectors: RelationVectors, y: Tensor, asked: Tensor, chosen: TrainingSettings) -> float:
    held = y.clone()
    return descend_on_answers(
        vectors, held, questions_of(TRIPLES, asked), LIMITS, chosen, torch.Generator().manual_seed(0), None
    )


def by_definition(vectors: RelationVectors, y: Tensor, asked: Tensor, n3: float) -> Tensor:
    """Question by question."""
    total = torch.zeros((), dtype=y.dtype)
    for number in asked.tolist():
        source, target, relation = TRIPLES[number % 6].tolist()
        back = number >= 6
        known, answer = (target, source) if back else (source, target)
        first, size = LIMITS[relation, :2] if back else LIMITS[relation, 2:]
        which, way = torch.tensor([relation]), torch.tensor([back])
        query = vectors.queries(y[known][None], which, way)
        logits = vectors.block(query, y[first : first + size])
        total = total + F.cross_entropy(logits, torch.tensor([answer - int(first)]))
        vector = vectors.vectors(which, way)[0]
        total = total + n3 * (vectors.cubes(y[known]) + vectors.cubes(y[answer]) + vectors.cubes(vector))
    return total / len(asked)


@pytest.mark.parametrize("kind", [ComplexVectors, DistMultVectors, TransEVectors, RotatEVectors])
@pytest.mark.parametrize("block", [1 << 23, 10])
def test_loss_and_gradients_are_those_of_the_definition(
    kind: type[RelationVectors], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_BLOCK_LOGITS", block)
    asked = torch.tensor([0, 1, 2, 3, 4, 5, 6, 8, 9, 11])
    vectors, y = made(kind)
    loss = descended(vectors, y, asked, settings(n3=0.1))
    own = [y.grad, vectors.forth.grad, vectors.back.grad]
    again, z = made(kind)
    expected = by_definition(again, z, asked, 0.1)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()))
    for found, wanted in zip(own, [z.grad, again.forth.grad, again.back.grad], strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_sample_that_is_all_nodes_has_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "uniform_nodes", lambda size, *others: torch.randperm(size))
    asked = torch.arange(12)
    vectors, y = made()
    everyone = descended(vectors, y, asked, settings())
    again, z = made()
    assert descended(again, z, asked, settings(loss_sampler="shared")) == pytest.approx(everyone)
    for found, wanted in (
        (z.grad, y.grad),
        (again.forth.grad, vectors.forth.grad),
        (again.back.grad, vectors.back.grad),
    ):
        torch.testing.assert_close(found, wanted)


def test_a_sample_stands_for_all_nodes() -> None:
    """The mean over many draws is near the loss over all, a little below it."""
    asked = torch.arange(12)
    everyone = descended(*made(), asked, settings())
    chosen = settings(loss_sampler="shared", loss_negatives=4)
    found = []
    for seed in range(200):
        vectors, y = made()
        generator = torch.Generator().manual_seed(seed)
        found.append(
            descend_on_answers(vectors, y.clone(), questions_of(TRIPLES, asked), LIMITS, chosen, generator, None)
        )
    assert everyone - 0.2 < np.mean(found) < everyone + 0.02


def test_a_weight_itself_gets_a_sparse_gradient_where_few_rows_are_touched() -> None:
    """And Adagrad moves the same rows by the same steps."""
    limits, found = torch.tensor([[0, 40, 0, 40]] * 2), {}
    for optimizer in ("adam", "adagrad"):
        chosen = settings(loss_sampler="shared", loss_negatives=3, n3=0.1, clip_norm=0.0, optimizer=optimizer)
        vectors, _ = made()
        y = nn.Parameter(torch.randn(40, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
        steps, generator = Adagrad([Group([y, *vectors.parameters()], 0.0)]), torch.Generator().manual_seed(0)
        for asked in (torch.tensor([0, 3, 8]), torch.tensor([1, 3])):
            descend_on_answers(vectors, y, questions_of(TRIPLES, asked), limits, chosen, generator, None)
            assert y.grad is not None and y.grad.is_sparse == (optimizer == "adagrad")
            steps.step(0.1)
            steps.zero_grad()
        found[optimizer] = y.detach()
    torch.testing.assert_close(found["adam"], found["adagrad"])


def ring(count: int = 40) -> Graph:
    steps = (("next", 1), ("third", 3), ("fifth", 5))
    return Graph.from_triples(  # type: ignore[return-value]
        [(f"n{i}", name, f"n{(i + step) % count}") for i in range(count) for name, step in steps], directed=True
    )


SMALL = {
    "encoder": {
        **{"inputs": "embeddings", "num_layers": 0, "hidden_size": 16, "embedding_size": 16, "num_steps": 0},
        **{"num_negatives": 0, "learn_repulsion": "no", "output_norm": False, "dropout": 0.0, "sketch_size": 0},
    },
    "decoder": {"kind": "complex", "dropout": 0.0},
    "training": {
        **{"optimizer": "adagrad", "learning_rate": 0.3, "schedule": "constant", "warmup": 0.0, "averaging": 0.0},
        **{"loss": "infonce", "loss_sampler": "all", "epochs": 30, "batch_size": 60, "selection": "mrr", "n3": 0.01},
    },
}


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(seed=0, **SMALL).fit(ring())  # type: ignore[arg-type]


def test_a_fit_learns_steps_along_a_ring(model: LinkPredictor) -> None:
    fitted = model.fitted_
    assert fitted.best_score > 0.5, "chance is about .1"
    assert fitted.history[-1].loss < fitted.history[0].loss / 2
    assert fitted.best_score == max(record.score for record in fitted.history if record.score is not None)


def test_training_edges_rank_no_lower_than_validation_edges(model: LinkPredictor) -> None:
    fitted: TypedFitted = model.fitted_  # type: ignore[assignment]
    assert isinstance(fitted.model.relations, ComplexVectors)
    edges = [fitted.graph.relations[name].edges for name in fitted.predicted]
    known = np.concatenate([np.column_stack([own, np.full(len(own), n)]) for n, own in enumerate(edges)])
    spans = torch.tensor([[0, 40, 0, 40]] * 3)
    found = rank_answers(fitted.model.relations, fitted.embeddings, known, known, spans)
    assert found.means["mrr"] >= fitted.best_score


def test_a_model_answers_after_a_round_trip(model: LinkPredictor, tmp_path) -> None:  # type: ignore[no-untyped-def]
    pairs = [("n1", "n2"), ("n5", "n8"), ("n7", "n3")]
    model.save(tmp_path / "model")
    loaded = LinkPredictor.load(tmp_path / "model")
    for relation in ("next", "third"):
        np.testing.assert_array_equal(
            np.asarray(loaded.score(pairs, relation=relation)), np.asarray(model.score(pairs, relation=relation))
        )
    assert str(loaded.recommend("n1", relation="next", k=3)) == str(model.recommend("n1", relation="next", k=3))


def test_relations_between_types_ask_for_the_right_type() -> None:
    training = {**SMALL["training"], "epochs": 2, "loss_sampler": "shared", "loss_negatives": 10}  # type: ignore[dict-item]
    groups = {**SMALL, "training": training}
    model = LinkPredictor(seed=0, **groups).fit(shop(), predict=["buys", "follows"])  # type: ignore[arg-type]
    assert {row[1] for row in model.recommend(("person", "1"), relation="buys", k=3)} <= {str(i) for i in range(18)}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"training": {"loss": "paper"}}, r"training\.loss.*'infonce'.*got 'paper'"),
        ({"decoder": {"kind": "hadamard"}}, r"training\.loss_sampler.*decoder\.kind = 'complex'"),
        ({"encoder": {"sketch_size": 8}}, r"decoder\.kind.*encoder\.sketch_size = 0"),
        ({"encoder": {"embedding_size": 8}}, r"encoder\.num_layers.*got 8 and 16"),
        ({"encoder": {"inputs": "both", "sign_hops": 1}}, r"sign_hops"),
        ({"encoder": {"embedding_start": "spectral"}}, r"encoder\.embedding_start"),
        ({"encoder": {"hidden_size": 15, "embedding_size": 15}}, r"even"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changed: dict[str, dict[str, object]], message: str) -> None:
    groups = {group: {**values, **changed.get(group, {})} for group, values in SMALL.items()}
    with pytest.raises(SettingsError, match=message):
        LinkPredictor(**groups).fit(ring())  # type: ignore[arg-type]


def test_the_complex_decoder_is_for_relations() -> None:
    graph = Graph.from_arrays([(i, i + 1) for i in range(30)])
    with pytest.raises(SettingsError, match=r"decoder\.kind.*with relations"):
        LinkPredictor(decoder={"kind": "complex"}, epochs=1).fit(graph)

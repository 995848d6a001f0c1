"""The base model and its descent: what each setting does, and what sampled negatives are for."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.encoder import Encoder, EncoderInput
from yinyan.model.energy import layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.settings import EncoderSettings

NODES, FEATURES = 12, 5
RING = torch.stack([torch.arange(NODES), (torch.arange(NODES) + 1) % NODES], dim=1)
WEB = torch.cat(
    [RING[:-2], torch.tensor([[0, 5], [2, 7], [1, 9], [0, 3]])]
)  # no symmetry; the last node is linked once
# every setting is named, so that a better default breaks no test
SMALL: dict[str, Any] = {
    "inputs": "both",
    "hidden_size": 8,
    "embedding_size": 4,
    "num_layers": 1,
    "base_norm": False,
    "sign_hops": 0,
    "num_steps": 3,
    "step_size": 0.5,
    "anchoring": 0.5,
    "attraction": 1.0,
    "repulsion": 0.3,
    "learn_repulsion": "softplus",
    "num_negatives": 2,
    "sampler": "global",
    "expected_negatives": False,
    "margin": None,
    "self_loops": False,
    "feature_dropout": 0.5,
    "node_dropout": 0.0,
    "dropout": 0.5,
    "output_norm": True,
    "sketch_size": 0,
}


def settings(**options: Any) -> EncoderSettings:
    return EncoderSettings(**{**SMALL, **options})


def messages(links: Tensor = WEB) -> MessageGraph:
    return MessageGraph.from_pairs(links, NODES, dtype=torch.float64)


def features() -> Tensor:
    made = torch.randn(NODES, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    made[made.abs() < 0.5] = 0
    return made


def build(chosen: EncoderSettings, *, num_features: int = FEATURES, seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    return Encoder(chosen, NODES, num_features).double()


def embed(
    encoder: Encoder, *, seed: int = 0, training: bool = False, x: Any = None, links: Tensor = WEB, **kw: Any
) -> Tensor:
    drops = torch.Generator().manual_seed(seed + 1) if training else None
    given = features() if x is None else x
    return encoder(given, messages(links), negatives=torch.Generator().manual_seed(seed), drops=drops, **kw)


def sparse(dense: Tensor) -> SparseMatrix:
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
    return SparseMatrix.from_csr(indptr, dense.nonzero()[:, 1], dense[dense != 0], dense.shape[1])


class TestSymmetryBreaking:
    """Section V.C of the paper: on a ring of equal nodes no node can be told from another, unless by sampling."""

    ones = torch.ones(NODES, 2, dtype=torch.float64)

    def ring(self, **options: Any) -> Tensor:
        encoder = build(settings(inputs="features", output_norm=False, **options), num_features=2)
        encoder.base.bias.data.normal_()
        return embed(encoder, x=self.ones, links=RING).detach()

    @pytest.mark.parametrize("options", [{"num_negatives": 0}, {"expected_negatives": True}])
    def test_symmetric_nodes_are_alike_without_samples(self, options: dict[str, Any]) -> None:
        y = self.ring(**options)
        assert y.any()
        torch.testing.assert_close(y, y[:1].expand_as(y))

    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_sampled_negatives_tell_them_apart(self, sampler: str) -> None:
        y = self.ring(sampler=sampler)
        assert torch.cdist(y, y)[~torch.eye(NODES, dtype=torch.bool)].min() > 1e-4

    def test_then_pairs_at_equal_distance_score_differently(self) -> None:
        blind, seeing = self.ring(num_negatives=0), self.ring()
        for distance in (1, 3, 6):
            other = (torch.arange(NODES) + distance) % NODES
            blind_scores, scores = (blind * blind[other]).sum(1), (seeing * seeing[other]).sum(1)
            assert blind_scores.std() < 1e-12
            assert scores.std() > 1e-3

    @pytest.mark.parametrize("inputs", ["embeddings", "random"])
    def test_so_do_inputs_of_their_own(self, inputs: str) -> None:
        encoder = build(settings(inputs=inputs, num_negatives=0), num_features=0)
        y = embed(encoder, links=RING).detach()
        assert torch.cdist(y, y)[~torch.eye(NODES, dtype=torch.bool)].min() > 1e-4


class TestInputs:
    @pytest.mark.parametrize(
        ("inputs", "reads_features", "has_table"),
        [("features", True, False), ("embeddings", False, True), ("both", True, True), ("random", False, True)],
    )
    def test_what_f_reads(self, inputs: str, reads_features: bool, has_table: bool) -> None:
        encoder = build(settings(inputs=inputs))
        same, other = embed(encoder), embed(encoder, x=features() + 1)
        assert torch.allclose(same, other) != reads_features
        assert (encoder.base.table is not None) == has_table

    def test_random_features_are_fixed_but_saved(self) -> None:
        encoder = build(settings(inputs="random"))
        assert "base.table" in encoder.state_dict()
        assert "base.table" not in dict(encoder.named_parameters())

    @pytest.mark.parametrize("inputs", ["embeddings", "both"])
    def test_embeddings_are_learned(self, inputs: str) -> None:
        encoder = build(settings(inputs=inputs))
        embed(encoder).square().sum().backward()
        table = dict(encoder.named_parameters())["base.table"]
        assert table.shape == (NODES, 4)
        assert table.grad is not None
        assert (table.grad != 0).any(1).all()

    def test_embeddings_start_orthogonal(self) -> None:
        table = build(settings(inputs="embeddings")).base.table
        assert table is not None
        gram = (table.T @ table).detach()
        torch.testing.assert_close(gram, gram[0, 0] * torch.eye(4, dtype=torch.float64), atol=1e-5, rtol=1e-5)

    def test_both_without_features_reads_embeddings(self) -> None:
        encoder = build(settings(inputs="both"), num_features=0)
        assert encoder(None, messages(), negatives=torch.Generator()).shape == (NODES, 8)

    def test_both_is_the_sum_of_its_parts(self) -> None:
        base = build(settings(inputs="both")).base
        assert base.feature_weight is not None
        assert base.table is not None
        assert base.table_weight is not None
        made = messages().terms(settings(num_negatives=0), torch.empty(0), None)
        wanted = features() @ base.feature_weight[0] + base.table @ base.table_weight[0] + base.bias
        torch.testing.assert_close(base(features(), made), wanted)

    def test_missing_features_are_named(self) -> None:
        with pytest.raises(SettingsError, match=r"encoder\.inputs: 'features' needs a graph with features"):
            build(settings(inputs="features"), num_features=0)
        with pytest.raises(ValueError, match="built for features, and none were given"):
            build(settings(inputs="features"))(None, messages(), negatives=torch.Generator())

    def test_more_layers_are_an_mlp(self) -> None:
        base = build(settings(inputs="features", num_layers=3)).base
        assert base.feature_weight is not None
        made = messages().terms(settings(num_negatives=0), torch.empty(0), None)
        x = features() @ base.feature_weight[0] + base.bias
        for linear in base.rest:
            x = F.relu(x) @ linear.weight.T + linear.bias
        assert len(base.rest) == 2
        torch.testing.assert_close(base(features(), made), x)


class TestSign:
    @pytest.mark.parametrize("self_loops", [False, True])
    @pytest.mark.parametrize("hops", [1, 3])
    def test_equals_explicit_powers(self, hops: int, self_loops: bool) -> None:
        """[X, ÃX, …, Ã^h X] W with Ã built from the links (and the loops, if any)."""
        chosen = settings(inputs="both", sign_hops=hops, self_loops=self_loops)
        base = build(chosen).base
        adjacency = torch.eye(NODES, dtype=torch.float64) * self_loops
        adjacency[WEB[:, 0], WEB[:, 1]] = adjacency[WEB[:, 1], WEB[:, 0]] = 1.0
        root = adjacency.sum(1).clamp(min=1).rsqrt()
        normalised = root[:, None] * adjacency * root
        assert base.feature_weight is not None
        assert base.table is not None
        assert base.table_weight is not None
        wanted = base.bias.expand(NODES, -1)
        for power in range(hops + 1):
            walk = torch.linalg.matrix_power(normalised, power)
            wanted = wanted + walk @ features() @ base.feature_weight[power]
            wanted = wanted + walk @ base.table @ base.table_weight[power]
        made = messages().terms(chosen, torch.tensor([0.3, 0.3], dtype=torch.float64), torch.Generator())
        torch.testing.assert_close(base(features(), made), wanted)

    def test_hidden_links_are_not_walked(self) -> None:
        encoder = build(settings(inputs="features", sign_hops=2, num_steps=0))
        hidden = torch.arange(len(WEB)) < 4
        torch.testing.assert_close(embed(encoder, hidden=hidden), embed(encoder, links=WEB[4:]))


class TestSparseFeatures:
    @pytest.mark.parametrize("hops", [0, 2])
    def test_give_the_same_result_and_gradients(self, hops: int) -> None:
        results, grads = [], []
        for x in (features(), sparse(features())):
            encoder = build(settings(inputs="both", sign_hops=hops))
            y = embed(encoder, x=x)
            y.square().sum().backward()
            results.append(y.detach())
            grads.append({name: p.grad for name, p in encoder.named_parameters()})
        torch.testing.assert_close(results[0], results[1])
        assert grads[0].keys() == grads[1].keys()
        for name, grad in grads[0].items():
            torch.testing.assert_close(grad, grads[1][name], msg=name)

    def test_are_dropped_out_in_training(self) -> None:
        encoder = build(settings(inputs="features", feature_dropout=0.5, dropout=0.0))
        x = sparse(features())
        assert not torch.allclose(embed(encoder, x=x, training=True), embed(encoder, x=x))


class TestNodeDropout:
    calm: ClassVar[dict[str, Any]] = {"feature_dropout": 0.0, "dropout": 0.0}

    @pytest.mark.parametrize("inputs", ["features", "embeddings", "both", "random"])
    def test_leaves_whole_nodes_out_and_makes_the_others_up_for_it(self, inputs: str) -> None:
        base = build(settings(inputs=inputs, node_dropout=0.5, **self.calm)).base
        base.bias.data.normal_()
        whole = base(features(), None) - base.bias
        dropped = base(features(), None, torch.Generator().manual_seed(0)) - base.bias
        gone = (dropped.abs() < 1e-12).all(1)
        assert 0 < gone.sum() < NODES
        torch.testing.assert_close(dropped[~gone], 2 * whole[~gone])

    @pytest.mark.parametrize("x", [features(), sparse(features())], ids=["dense", "sparse"])
    @pytest.mark.parametrize("hops", [0, 2])
    def test_gradients(self, x: Any, hops: int) -> None:
        encoder = build(settings(sign_hops=hops, node_dropout=0.5, **self.calm))

        def f(*weights: Tensor) -> Tensor:
            names = ["feature_weight", "table", "table_weight"]
            given = dict(zip(names, weights, strict=True))
            terms = messages().terms(encoder.settings, encoder.repulsion(), torch.Generator().manual_seed(0))
            drops = torch.Generator().manual_seed(3)
            return torch.func.functional_call(encoder.base, given, (x, terms, drops))

        base = encoder.base
        assert torch.autograd.gradcheck(f, (base.feature_weight, base.table, base.table_weight))

    def test_a_node_left_out_is_told_by_its_neighbours(self) -> None:
        encoder = build(
            settings(inputs="embeddings", node_dropout=0.5, output_norm=False, num_negatives=0, **self.calm)
        )
        f = encoder.base(None, None, torch.Generator().manual_seed(1))  # of the seed that `embed` gives it
        gone = (f == encoder.base.bias).all(1)
        assert 0 < gone.sum() < NODES
        assert (embed(encoder, training=True)[gone].abs() > 1e-6).any(1).all()


class TestForward:
    @pytest.mark.parametrize("margin", [None, 0.1])
    def test_is_the_descent_from_f(self, margin: float | None) -> None:
        encoder = build(settings(margin=margin))
        made = messages().terms(encoder.settings, encoder.repulsion(), torch.Generator().manual_seed(0))
        f = y = encoder.base(features(), made)
        for _ in range(3):
            y = layer(y, f, made, 0.5)
        assert encoder.norm is not None
        torch.testing.assert_close(embed(encoder), encoder.norm(y))

    def test_no_steps_is_the_base_model(self) -> None:
        encoder = build(settings(num_steps=0, output_norm=False))
        torch.testing.assert_close(embed(encoder), embed(encoder, links=RING))

    def test_hidden_links_do_not_pass_messages(self) -> None:
        encoder, hidden = build(settings(num_negatives=0)), torch.arange(len(WEB)) < 4
        torch.testing.assert_close(embed(encoder, hidden=hidden), embed(encoder, links=WEB[4:]))
        assert not torch.allclose(embed(encoder, hidden=hidden), embed(encoder))

    def test_same_seed_same_embeddings(self) -> None:
        first, again = (embed(build(settings()), training=True) for _ in range(2))
        assert torch.equal(first, again)
        assert not torch.equal(first, embed(build(settings(), seed=1), training=True))
        assert not torch.equal(first, embed(build(settings()), seed=1, training=True))

    def test_expected_negatives_need_no_seed(self) -> None:
        encoder = build(settings(expected_negatives=True))
        assert torch.equal(embed(encoder, seed=0), embed(encoder, seed=1))

    def test_output_norm(self) -> None:
        normed = embed(build(settings()))
        torch.testing.assert_close(normed.mean(1), torch.zeros(NODES, dtype=torch.float64))
        assert build(settings(output_norm=False)).norm is None

    def test_every_parameter_gets_a_gradient(self) -> None:
        encoder = build(settings(inputs="both", num_layers=2, sign_hops=1))
        (embed(encoder, training=True) * torch.arange(8)).square().sum().backward()
        assert all(p.grad is not None and p.grad.any() for p in encoder.parameters())

    def test_works_in_single_precision(self) -> None:
        encoder = build(settings()).float()
        single = MessageGraph.from_pairs(WEB, NODES)
        y = encoder(features().float(), single, negatives=torch.Generator().manual_seed(0))
        assert y.dtype == torch.float32
        torch.testing.assert_close(y.double(), embed(build(settings())), atol=1e-5, rtol=1e-4)


class TestRepulsion:
    @pytest.mark.parametrize("function", ["no", "softplus", "sigmoid"])
    def test_starts_at_its_setting(self, function: str) -> None:
        encoder = build(settings(learn_repulsion=function, repulsion=0.35))
        torch.testing.assert_close(
            encoder.repulsion().double(), torch.full_like(encoder.repulsion(), 0.35).double(), atol=1e-6, rtol=0
        )

    @pytest.mark.parametrize("expected", [True, False])
    @pytest.mark.parametrize("margin", [None, 0.1])
    @pytest.mark.parametrize("function", ["softplus", "sigmoid"])
    def test_learned_ones_get_gradients(self, function: str, margin: float | None, expected: bool) -> None:
        encoder = build(settings(learn_repulsion=function, margin=margin, expected_negatives=expected))
        (embed(encoder) * torch.arange(8)).square().sum().backward()
        weight = dict(encoder.named_parameters())["repulsion_weight"]
        assert weight.shape == (1 if expected else 2,)
        assert weight.grad is not None
        assert (weight.grad != 0).all()

    def test_gradient_is_that_of_the_embeddings(self) -> None:
        encoder = build(settings(learn_repulsion="softplus"))
        weight = encoder.repulsion_weight

        def cost(moved: Tensor) -> Tensor:
            made = messages().terms(encoder.settings, F.softplus(moved), torch.Generator().manual_seed(0))
            f = y = encoder.base(features(), made)
            for _ in range(3):
                y = layer(y, f, made, 0.5)
            return (encoder.finish(y) * torch.arange(8)).square().sum()

        (embed(encoder) * torch.arange(8)).square().sum().backward()
        (wanted,) = torch.autograd.grad(cost(weight), weight)
        torch.testing.assert_close(weight.grad, wanted)

    def test_fixed_one_is_no_parameter(self) -> None:
        encoder = build(settings(learn_repulsion="no"))
        assert "repulsion_weight" not in dict(encoder.named_parameters())
        assert "repulsion_weight" in encoder.state_dict()
        assert encoder.repulsion().numel() == 1  # K graphs act as one

    def test_fixed_ones_stay_apart_under_a_margin(self) -> None:
        """Softplus is not linear, so that K bounded graphs are not one."""
        assert build(settings(learn_repulsion="no", margin=0.1)).repulsion().numel() == 2

    @pytest.mark.parametrize("function", ["no", "softplus", "sigmoid"])
    def test_no_negatives_can_be_trained(self, function: str) -> None:
        """The backward pass failed on an empty list of negative graphs."""
        encoder = build(settings(num_negatives=0, learn_repulsion=function))
        embed(encoder).square().sum().backward()
        assert encoder.repulsion().numel() == 0
        assert encoder.base.bias.grad is not None

    @pytest.mark.parametrize(
        ("function", "value"), [("softplus", 0.0), ("sigmoid", 0.0), ("sigmoid", 1.0), ("sigmoid", 2.0)]
    )
    def test_impossible_starts_are_refused(self, function: str, value: float) -> None:
        with pytest.raises(SettingsError, match=rf"encoder\.repulsion: learned through {function}.*got {value}"):
            build(settings(learn_repulsion=function, repulsion=value))

    def test_fixed_zero_is_allowed(self) -> None:
        assert build(settings(learn_repulsion="no", repulsion=0.0)).repulsion().tolist() == [0.0]


class TestEnergyTrace:
    @pytest.mark.parametrize("margin", [None, 0.1])
    @pytest.mark.parametrize("expected", [True, False])
    def test_falls_with_safe_steps(self, margin: float | None, expected: bool) -> None:
        encoder = build(settings(step_size="safe", margin=margin, expected_negatives=expected, num_steps=6))
        trace = encoder.energy_trace(EncoderInput(features(), messages(), torch.Generator().manual_seed(0)))
        assert len(trace) == 7
        assert all(after < before for before, after in zip(trace, trace[1:], strict=False))

    def test_can_look_further_than_it_steps(self) -> None:
        encoder = build(settings(num_steps=2))
        draws = [torch.Generator().manual_seed(0) for _ in range(2)]
        short = encoder.energy_trace(EncoderInput(features(), messages(), draws[0]))
        long = encoder.energy_trace(EncoderInput(features(), messages(), draws[1]), num_steps=5)
        assert (len(short), len(long)) == (3, 6)
        assert long[:3] == short

    def test_huge_steps_raise_it(self) -> None:
        encoder = build(settings(step_size=50.0))
        trace = encoder.energy_trace(EncoderInput(features(), messages(), torch.Generator().manual_seed(0)))
        assert trace[-1] > trace[0]


# setting: two values, what must be set beside them for it to matter, and whether it matters in training only
EFFECTS: dict[str, tuple[Any, Any, dict[str, Any], bool]] = {
    "inputs": ("features", "both", {}, False),
    "hidden_size": (8, 16, {}, False),
    "embedding_size": (4, 6, {}, False),
    "num_layers": (1, 2, {}, False),
    "base_norm": (False, True, {"num_layers": 2}, False),
    "sign_hops": (0, 1, {}, False),
    "num_steps": (1, 3, {}, False),
    "step_size": (0.5, "safe", {}, False),
    "anchoring": (0.5, 2.0, {}, False),
    "attraction": (1.0, 0.2, {}, False),
    "repulsion": (0.3, 0.6, {}, False),
    "learn_repulsion": ("softplus", "no", {"num_negatives": 1}, False),
    "num_negatives": (2, 1, {}, False),
    "sampler": ("global", "source", {}, False),
    "expected_negatives": (False, True, {}, False),
    "margin": (None, 0.0, {}, False),
    "self_loops": (False, True, {}, False),
    "feature_dropout": (0.0, 0.5, {"dropout": 0.0}, True),
    "node_dropout": (0.0, 0.5, {"dropout": 0.0, "feature_dropout": 0.0}, True),
    "dropout": (0.0, 0.5, {"feature_dropout": 0.0}, True),
    "output_norm": (True, False, {}, False),
    "sketch_size": (0, 16, {}, False),
}


class TestEverySetting:
    def test_is_listed(self) -> None:
        elsewhere = {"storage", "recompute"}  # TestStorage
        elsewhere |= {"embedding_start", "degree_column", "half_life", "relation_maps"}  # files of their own
        known = {f.name for f in dataclasses.fields(EncoderSettings)} - elsewhere
        assert set(EFFECTS) == set(SMALL) == known

    @pytest.mark.parametrize("name", [name for name in EFFECTS if name != "learn_repulsion"])
    def test_changes_the_embeddings(self, name: str) -> None:
        first, second, beside, training_only = EFFECTS[name]
        made = [build(settings(**{**beside, name: value})) for value in (first, second)]
        inference, training = ([embed(e, training=mode) for e in made] for mode in (False, True))

        def equal(pair: list[Tensor]) -> bool:
            return pair[0].shape == pair[1].shape and torch.allclose(*pair, atol=1e-6)

        assert not equal(training)
        assert equal(inference) == training_only

    def test_learning_repulsion_changes_what_is_learned_only(self) -> None:
        first, second, beside, _ = EFFECTS["learn_repulsion"]
        made = [build(settings(**beside, learn_repulsion=value)) for value in (first, second)]
        torch.testing.assert_close(embed(made[0]), embed(made[1]), atol=1e-6, rtol=1e-5)
        assert len(list(made[0].parameters())) == len(list(made[1].parameters())) + 1

    @pytest.mark.parametrize("name", ["sampler", "expected_negatives", "margin"])
    def test_of_negatives_does_nothing_without_them(self, name: str) -> None:
        first, second, _, _ = EFFECTS[name]
        made = [embed(build(settings(num_negatives=0, **{name: value}))) for value in (first, second)]
        torch.testing.assert_close(*made)

    @pytest.mark.parametrize(
        "name", ["step_size", "anchoring", "attraction", "repulsion", "self_loops", "num_negatives"]
    )
    def test_of_the_descent_does_nothing_without_steps(self, name: str) -> None:
        first, second, _, _ = EFFECTS[name]
        made = [embed(build(settings(num_steps=0, **{name: value}))) for value in (first, second)]
        torch.testing.assert_close(*made)


class TestStorage:
    def pair(self, **options: Any) -> tuple[Encoder, Encoder]:
        chosen = settings(inputs="features", num_steps=3, learn_repulsion="softplus", **options)
        return build(chosen).float(), build(
            settings(inputs="features", num_steps=3, learn_repulsion="softplus")
        ).float()

    def run(self, encoder: Encoder) -> tuple[Tensor, list[Tensor]]:
        drops = torch.Generator().manual_seed(1)
        graph = MessageGraph.from_pairs(WEB, NODES)
        y = encoder(features().float(), graph, negatives=torch.Generator().manual_seed(0), drops=drops)
        weights = [p for p in encoder.parameters() if p.requires_grad]
        return y.detach(), list(torch.autograd.grad((y * y.detach().cos()).sum(), weights))

    def test_layers_can_be_computed_again(self) -> None:
        (again, slopes), (kept, wanted) = map(self.run, self.pair(recompute=True))
        assert torch.equal(again, kept)
        for mine, theirs in zip(slopes, wanted, strict=True):
            torch.testing.assert_close(mine, theirs)

    def test_half_precision_is_near_and_comes_back_as_float32(self) -> None:
        (half, slopes), (full, wanted) = map(self.run, self.pair(storage="bfloat16"))
        assert half.dtype == torch.float32
        assert not torch.equal(half, full)
        torch.testing.assert_close(half, full, rtol=0.05, atol=0.05)
        for mine, theirs in zip(slopes, wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.1 * float(theirs.abs().max()))

    def test_a_margin_wants_full_precision(self) -> None:
        with pytest.raises(SettingsError, match=r"encoder\.storage.*margin"):
            build(settings(storage="bfloat16", margin=0.1))

    def test_without_negatives_nothing_is_kept_to_learn_them(self) -> None:
        encoder = build(settings(inputs="features", num_negatives=0, learn_repulsion="softplus", num_steps=4)).float()
        kept: list[Tensor] = []
        terms = MessageGraph.from_pairs(WEB, NODES).terms(encoder.settings, encoder.repulsion(), None)
        f = torch.randn(NODES, 8, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            encoder._descended(f, terms)
        assert not [t for t in kept if t.shape == f.shape]


@pytest.mark.parametrize("block", [8192, 5])
def test_rows_that_node_dropout_leaves_out_are_not_multiplied(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values and gradients as those of all products, times what dropout makes of ones."""
    from yinyan.model import encoder as module
    from yinyan.model.encoder import BaseModel
    from yinyan.randomness import dropout

    monkeypatch.setattr(module, "_BLOCK_ROWS", block)
    settings = EncoderSettings(inputs="embeddings", embedding_size=4, hidden_size=6, node_dropout=0.6, dropout=0.0)
    base = BaseModel(settings, 30, 0)
    assert base.table is not None and base.table_weight is not None
    found = base(None, None, torch.Generator().manual_seed(3))
    kept = dropout(torch.ones(30), 0.6, torch.Generator().manual_seed(3))[:, None]
    assert 0 < (kept > 0).sum() < 30
    wanted = (base.table @ base.table_weight[0]) * kept + base.bias
    assert torch.allclose(found, wanted, atol=1e-6)
    weights = [base.table, base.table_weight]
    for got, right in zip(
        torch.autograd.grad(found.square().sum(), weights), torch.autograd.grad(wanted.square().sum(), weights),
        strict=True,
    ):  # fmt: skip
        assert torch.allclose(got, right, atol=1e-5)

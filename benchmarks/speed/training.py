"""A whole training on Cora: ours against the same model as one would write it with PyTorch Geometric.

YINYAN_DATA=/data python benchmarks/speed/training.py             # defaults for the graph, 150 epochs each
YINYAN_DATA=/data python benchmarks/speed/training.py --quick     # 15 epochs each
YINYAN_DATA=/data python benchmarks/speed/training.py --json --picture training.png

Protocol clean, seed 0; test links are never looked at. Both sides run a fixed number of epochs, so that luck with early
stopping does not count; where patience would have ended each is printed beside. Settings are those that yinyan
suggests for the graph, the same in both: batches, T, dropout, LayerNorm, Hadamard MLP, loss with three
non-links a link, AdamW, clipping, warm-up and cosine, averaged weights, a validation every few epochs on the same
pairs. Both start from the same weights.

The other side has dense features, a MessagePassing layer over edge_index with normalised weights for each step, the
batch's links masked out of edge_index by a boolean selection, torch_geometric.utils.negative_sampling for the loss, and
autograd.

training_over_pyg             As suggested: expected negatives. The mean negative graph of the global sampler is
                              (1 1ᵀ - I) / (n - 1), which the other side writes as (y.sum(0) - y) / (n - 1).
training_over_pyg_sampled     With a sampled negative graph (K = 1) at each step; the other side draws its with
                              negative_sampling and passes messages over it by a second MessagePassing layer.

Before anything is timed, both sides embed the graph with the same weights and expected negatives, and must agree.
Ours also traces the energy at each validation, which is part of our time.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree, negative_sampling

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.model.fitted import build_model
from yinyan.model.scoring import Model
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training.data import TrainingData, training_data
from yinyan.training.defaults import suggest
from yinyan.training.loop import learning_rate, train

CPU = torch.device("cpu")
SEED = 0
_ASKED = {
    "inputs": "features",
    "num_layers": 1,
    "sign_hops": 0,
    "margin": None,
    "self_loops": False,
    "sampler": "global",
}


class Propagate(MessagePassing):
    """Σ_j w_ij x_j by gather and scatter."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x, weight=weight)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        return weight[:, None] * x_j


class PlainModel(nn.Module):
    """The model of the settings over dense features and edge_index."""

    def __init__(self, settings: Settings, num_features: int) -> None:
        super().__init__()
        self.settings = settings
        encoder, decoder = settings.encoder, settings.decoder
        self.linear = nn.Linear(num_features, encoder.hidden_size)
        self.links, self.non_links = Propagate(), Propagate()
        start = math.log(math.expm1(encoder.repulsion))
        self.repulsion = nn.Parameter(torch.tensor(start), requires_grad=encoder.learn_repulsion == "softplus")
        self.norm = nn.LayerNorm(encoder.hidden_size)
        self.decoder = nn.Sequential(
            nn.Linear(encoder.hidden_size, decoder.width),
            nn.ReLU(),
            nn.Dropout(decoder.dropout),
            nn.Linear(decoder.width, 1),
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        s, n = self.settings.encoder, x.shape[0]
        f = self.linear(F.dropout(x, s.feature_dropout, self.training))
        f = F.dropout(f, s.dropout, self.training)
        edge_index, weight = gcn_norm(edge_index, num_nodes=n, add_self_loops=False)
        degrees = degree(edge_index[0], n)
        if s.expected_negatives:
            negative_index, negative_weight = None, None
            repelled = degrees.mean().expand(n)
        else:
            drawn = negative_sampling(edge_index, n, edge_index.shape[1] // 2)
            negative_index = torch.cat([drawn, drawn.flip(0)], dim=1)
            negative_index, negative_weight = gcn_norm(negative_index, num_nodes=n, add_self_loops=False)
            repelled = degree(negative_index[0], n)
        anchor = (s.anchoring / (degrees + repelled).clamp(min=1e-12) * (degrees + repelled > 0))[:, None]
        linked, pushed = (degrees > 0).float()[:, None], (repelled > 0).float()[:, None]
        push = F.softplus(self.repulsion)
        y = f
        for _ in range(s.num_steps):
            if negative_index is None:
                around = (y.sum(0) - y) / (n - 1)
            else:
                around = self.non_links(y, negative_index, negative_weight)
            pull = linked * y - self.links(y, edge_index, weight)
            y = y - s.step_size * (anchor * (y - f) + s.attraction * pull - push * (pushed * y - around))
        return self.norm(y)

    def score(self, y: Tensor, pairs: Tensor) -> Tensor:
        return self.decoder(y[pairs[..., 0]] * y[pairs[..., 1]]).squeeze(-1)

    def start_from(self, model: Model) -> None:
        """The other side's initial weights."""
        theirs = model.state_dict()
        with torch.no_grad():
            self.linear.weight.copy_(theirs["encoder.base.feature_weight"][0].T)
            self.linear.bias.copy_(theirs["encoder.base.bias"])
            for mine, name in ((self.decoder[0], "decoder.hidden.0"), (self.decoder[3], "decoder.output")):
                mine.weight.copy_(theirs[f"{name}.weight"])
                mine.bias.copy_(theirs[f"{name}.bias"])


def train_plain(model: PlainModel, x: Tensor, data: TrainingData, settings: Settings) -> list[dict[str, float]]:
    """The loop; returns the validations."""
    asked = settings.training
    n, links = x.shape[0], data.targets.T.contiguous()
    everything = torch.cat([links, links.flip(0)], dim=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=asked.learning_rate, weight_decay=asked.weight_decay)
    average = {name: value.detach().clone() for name, value in model.named_parameters()}
    total = asked.epochs * math.ceil(links.shape[1] / asked.batch_size)
    done, history = 0, []
    for epoch in range(1, asked.epochs + 1):
        model.train()
        for batch in torch.randperm(links.shape[1]).split(asked.batch_size):
            visible = torch.ones(links.shape[1], dtype=torch.bool)
            visible[batch] = False
            kept = links[:, visible]
            y = model(x, torch.cat([kept, kept.flip(0)], dim=1))
            non_links = negative_sampling(everything, n, batch.numel() * asked.loss_negatives)
            positive, negative = model.score(y, data.targets[batch]), model.score(y, non_links.T)
            loss = F.softplus(-positive).mean() + F.softplus(negative).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), asked.clip_norm)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(asked, done, total)
            optimizer.step()
            share = 1 - min(asked.averaging, (1 + done) / (10 + done))
            with torch.no_grad():
                for name, value in model.named_parameters():
                    average[name].lerp_(value, share)
            done += 1
        if epoch % asked.evaluate_every == 0 or epoch == asked.epochs:
            history.append({"epoch": epoch, **validate_plain(model, average, x, everything, data)})
    return history


@torch.no_grad()
def validate_plain(
    model: PlainModel, average: dict[str, Tensor], x: Tensor, edge_index: Tensor, data: TrainingData
) -> dict[str, float]:
    own = {name: value.detach().clone() for name, value in model.named_parameters()}
    model.load_state_dict(average)
    model.eval()
    y = model(x, edge_index)
    positive, negative = (model.score(y, pairs).numpy() for pairs in (data.valid_links, data.valid_non_links))
    model.load_state_dict(own)
    hits, auc = hits_at_rate(positive, negative, 0.1), roc_auc(positive, negative)
    return {"hits": hits, "auc": auc, "score": hits + auc}


def run_ours(split: Split, data: TrainingData, settings: Settings) -> list[dict[str, float]]:
    model = build_model(settings, split.graph, SEED)
    state = train(model, data, settings.training, Streams(SEED, CPU))
    return [
        {"epoch": r.epoch, "hits": r.hits, "auc": r.auc, "score": r.score} for r in state.history if r.score is not None
    ]  # type: ignore[dict-item]


def run_plain(split: Split, x: Tensor, data: TrainingData, settings: Settings) -> list[dict[str, float]]:
    torch.manual_seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002 - PyG's sampler draws from it
    model = PlainModel(settings, x.shape[1])
    model.start_from(build_model(settings, split.graph, SEED))
    return train_plain(model, x, data, settings)


def demand_same(split: Split, x: Tensor, data: TrainingData, settings: Settings) -> float:
    """The largest difference of the two sides' embeddings under the same weights."""
    ours, plain = build_model(settings, split.graph, SEED), PlainModel(settings, x.shape[1])
    plain.start_from(ours)
    plain.eval()
    with torch.no_grad():
        a = ours.encoder(data.features, data.messages)
        b = plain(x, torch.cat([data.targets, data.targets.flip(1)]).T)
    gap = float((a - b).abs().max())
    if gap > 1e-3:
        raise SystemExit(f"the two models differ by {gap:.2g} under the same weights: nothing was measured")
    return gap


def stops_at(history: list[dict[str, float]], patience: int) -> int:
    """The epoch at which so many validations without progress would have ended the run."""
    best, waited = -math.inf, 0
    for row in history:
        best, waited = (row["score"], 0) if row["score"] > best else (best, waited + 1)
        if waited >= patience:
            return int(row["epoch"])
    return int(history[-1]["epoch"])


def dense(data: TrainingData) -> Tensor:
    x = data.features
    if isinstance(x, Tensor):
        return x
    if x is None:
        raise SystemExit("this data set has no features")
    made = torch.zeros(x.shape)
    made[torch.repeat_interleave(x.indptr.diff().long()), x.columns.long()] = x.values.float()
    return made


def main() -> None:
    parser = common.parser(__doc__, quick="15 epochs, one run each")
    parser.add_argument("--data", default="cora")
    parser.add_argument("--epochs", type=int, help="another number than the suggested one")
    parser.add_argument("--repeats", type=int, default=2, help="runs of each side, taking turns")
    options = common.parsed(parser, epochs=2)
    started = time.perf_counter()
    split = make_split(common.load_data(options.data, smoke=options.smoke), "clean", SEED)
    suggested = suggest(split.graph, len(split.train_targets)).settings
    patience = suggested.training.patience
    epochs = options.epochs or (15 if options.quick else suggested.training.epochs)
    fixed = suggested.updated({"encoder": {"sketch_size": 0}, "training": {"epochs": epochs, "patience": 0}})
    strange = {k: getattr(fixed.encoder, k) for k, v in _ASKED.items() if getattr(fixed.encoder, k) != v}
    if strange or fixed.decoder.depth != 2 or fixed.decoder.residual or fixed.decoder.norm or split.graph.directed:
        raise SystemExit(f"the plain model is not written for these settings: {strange or fixed.decoder}")
    sampled = fixed.updated({"encoder": {"expected_negatives": False, "num_negatives": 1}})
    expected = fixed.updated({"encoder": {"expected_negatives": True}})
    data = training_data(split.graph, split, CPU)
    x = dense(data)
    gap = demand_same(split, x, data, expected)

    found: dict[str, list[dict[str, float]]] = {}
    times = common.Times()
    runs: dict[str, common.Task] = {}
    for name, settings in (("", expected), ("_sampled", sampled)):
        runs[f"ours{name}"] = lambda s=settings, k=f"ours{name}": found.update({k: run_ours(split, data, s)})
        runs[f"pyg{name}"] = lambda s=settings, k=f"pyg{name}": found.update({k: run_plain(split, x, data, s)})
    times.run(runs, 1 if options.quick else options.repeats, warm_up=0)

    rows = {
        name: {
            "seconds": times.least(name),
            "seconds_an_epoch": times.least(name) / epochs,
            "best_valid_auc": max(row["auc"] for row in found[name]),
            "best_valid_hits": max(row["hits"] for row in found[name]),
            "would_stop_at": stops_at(found[name], patience),
        }
        for name in runs
    }
    ratios = {
        "training_over_pyg": times.ratio("ours", "pyg"),
        "training_over_pyg_sampled": times.ratio("ours_sampled", "pyg_sampled"),
    }
    result: dict[str, Any] = {
        **ratios,
        "median_ratios": {
            "training_over_pyg": times.median_ratio("ours", "pyg"),
            "training_over_pyg_sampled": times.median_ratio("ours_sampled", "pyg_sampled"),
        },
        "runs": rows,
        "epochs": epochs,
        "epochs_are_fixed": True,
        "patience_in_validations": patience,
        "largest_difference_of_embeddings": gap,
        "data": options.data,
        "encoder": dataclasses.asdict(expected.encoder),
        "training": dataclasses.asdict(expected.training),
        **common.machine(),
        "total_seconds": time.perf_counter() - started,
    }
    if options.picture:
        seconds = {name: row["seconds"] for name, row in rows.items()}
        title = f"{options.data}: {epochs} epochs, {result['threads']} threads"
        common.bars(options.picture, seconds, title=title, label="seconds", line=None)
    common.report(options, result, lambda: show(result))


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    print(
        f"\n{result['data']}, {result['epochs']} epochs each, a fixed number; "
        "early stopping would have come where the table says\n"
    )
    header = ("", "seconds", "s per epoch", "best valid AUC", "best valid Hits@10%", "would stop at")
    common.print_table(header, [(name, *row.values()) for name, row in result["runs"].items()])
    print()
    medians = result["median_ratios"]
    common.print_table(("ratio", "of minima", "median"), [(k, result[k], v) for k, v in medians.items()])


if __name__ == "__main__":
    main()

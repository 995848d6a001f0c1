"""Ablations: what one change of the settings brings on validation links, against the suggested settings.

YINYAN_DATA=/data python benchmarks/ablations/hyperparameters.py --data cora --seeds 3   # all of them: hours
python benchmarks/ablations/hyperparameters.py --names                                   # what there is to try
... --data citeseer --ablations sketches "no negatives" --keep runs.jsonl                # some of them
... --data cora --on "sketches of 64"                                                    # each on top of that one
... --data roget.csv --method gcn                                                        # any table, any peer

Protocol clean (official where the data come with a split), splits of seeds 100, 101, …, which are not those of reported
seeds (their validation links can be test links of those, as with any splits of one graph). A figure is what chooses the
weights, Hits@10% plus AUC unless the settings say otherwise, at the best epoch; test links are never scored. `gain` is
the mean over the seeds of the difference to the base on the same split, `±` its standard error; `head` is the same
difference in the mean of Hits at .5, 1, 4 and 10 %, for runs that kept it. Finished runs are kept in --keep and not
repeated.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import _path  # noqa: F401
from lib import common, variants
from yinyan.datasets import Dataset
from yinyan.errors import DivergedError
from yinyan.evaluation import make_split
from yinyan.graph import Graph
from yinyan.metrics import hits_at_rate
from yinyan.peers import Task, method
from yinyan.peers.contract import Outcome, merged, trained
from yinyan.splits import Split
from yinyan.training.defaults import ground, suggest

Change = dict[str, dict[str, Any]]

FIRST_SEED = 100
RATES = (0.005, 0.01, 0.04, 0.1)  # of the validation negatives
BASE = "as suggested"
BASES: dict[str, Change] = {  # what the search started from, where it is not what yinyan suggests
    "pubmed": {
        "encoder": {"feature_dropout": 0.3, "dropout": 0.1, "output_norm": False, "num_steps": 2, "step_size": 0.5},
        "decoder": {"dropout": 0.05},
        "training": {
            "epochs": 60, "batch_size": 2048, "learning_rate": 0.02, "weight_decay": 0.0, "loss_negatives": 1,
            "selection": "hits@100",
        },
    },
    "heart-citeseer": {"training": {"selection": "mrr"}},
    "ogbl-ddi": {
        "encoder": {
            "inputs": "embeddings", "embedding_size": 128, "hidden_size": 128,
            "num_steps": 1, "step_size": 0.5, "dropout": 0.0, "output_norm": False,
        },
        "decoder": {"depth": 1, "dropout": 0.0},
        "training": {
            "epochs": 12, "batch_size": 65_536, "learning_rate": 0.001, "weight_decay": 0.0, "loss": "squared",
            "loss_negatives": 4, "selection": "hits@20", "evaluate_every": 1, "patience": 0, "schedule": "constant",
            "warmup": 0.0,
        },
    },
}  # fmt: skip
ABLATIONS: dict[str, Change] = {
    BASE: {},
    # structure
    "sketches of 64": {"encoder": {"sketch_size": 64}},
    "sketches": {"encoder": {"sketch_size": 256}},
    "sketches of 512": {"encoder": {"sketch_size": 512}},
    # the encoder
    "no negatives": {"encoder": {"num_negatives": 0}},
    "sampled negatives": {"encoder": {"expected_negatives": False}},
    "three sampled graphs": {"encoder": {"expected_negatives": False, "num_negatives": 3}},
    "source negatives": {"encoder": {"sampler": "source"}},
    "repulsion not learned": {"encoder": {"learn_repulsion": "no"}},
    "one step": {"encoder": {"num_steps": 1, "step_size": 0.8}},
    "two steps": {"encoder": {"num_steps": 2, "step_size": 0.5}},
    "eight steps": {"encoder": {"num_steps": 8}},
    "weak anchoring": {"encoder": {"anchoring": 0.2}},
    "strong anchoring": {"encoder": {"anchoring": 1.0}},
    "a margin": {"encoder": {"margin": 1.0}},
    "strong anchoring, three steps": {  # what was suggested for graphs without features at first
        "encoder": {
            "embedding_size": 64,
            "num_steps": 3,
            "step_size": 0.3,
            "anchoring": 0.5,
            "node_dropout": 0.0,
            "dropout": 0.5,
            "learn_repulsion": "softplus",
        },
        "decoder": {"depth": 2, "norm": False, "dropout": 0.5},
    },
    "no node dropout, two layers": {  # what was suggested for them then
        "encoder": {"node_dropout": 0.0, "dropout": 0.5, "learn_repulsion": "softplus"},
        "decoder": {"depth": 2, "norm": False},
    },
    "large batches": {  # and then, until small ones were tried
        "training": {"batch_size": 4.0, "epochs": 2.0, "evaluate_every": 3, "loss": "paper", "loss_negatives": 3}
    },
    "no node dropout": {"encoder": {"node_dropout": 0.0}},
    "50 % node dropout": {"encoder": {"node_dropout": 0.5}},
    "90 % node dropout": {"encoder": {"node_dropout": 0.9}},
    "ten steps": {"encoder": {"num_steps": 10}},
    "16-dimensional embeddings": {"encoder": {"embedding_size": 16}},
    "embeddings beside the features": {"encoder": {"inputs": "both", "embedding_size": 32}},
    "no steps": {"encoder": {"num_steps": 0}},
    "512 dimensions": {"encoder": {"hidden_size": 512}, "decoder": {"width": 512}},
    "outputs not normalised": {"encoder": {"output_norm": False}},
    # the decoder
    "two layers": {"decoder": {"depth": 2, "norm": False}},
    "three layers": {"decoder": {"depth": 3}},
    "three layers, normalised": {"decoder": {"depth": 3, "norm": True, "dropout": 0.1}, "encoder": {"dropout": 0.1}},
    "four residual layers": {"decoder": {"depth": 4, "residual": True, "norm": True, "dropout": 0.3}},
    # the loss, and what is asked of it
    "chosen by Hits@100": {"training": {"selection": "hits@100"}},
    "log-loss, three negatives": {"training": {"loss": "paper", "loss_negatives": 3}},
    "squared loss": {"training": {"loss": "squared"}},
    "the paper's loss": {"training": {"loss": "paper"}},
    "squared AUC loss": {"training": {"loss": "auc"}},
    "ranking loss": {"training": {"loss": "logrank"}},
    "InfoNCE": {"training": {"loss": "infonce", "loss_negatives": 8}},
    "hardest-negatives loss": {"training": {"loss": "hardest", "loss_negatives": 4}},
    "hardest-negatives loss, three layers, normalised": {
        "training": {"loss": "hardest", "loss_negatives": 4},
        "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
        "encoder": {"dropout": 0.1},
    },
    "InfoNCE by source": {"training": {"loss": "infonce", "loss_negatives": 8, "loss_sampler": "source"}},
    "two steps, InfoNCE by source": {
        "encoder": {"num_steps": 2, "step_size": 0.5},
        "training": {"loss": "infonce", "loss_negatives": 8, "loss_sampler": "source"},
    },
    "sketches of 256, two steps, InfoNCE by source": {  # the recipe 'accuracy' on HeaRT's Citeseer
        "encoder": {"sketch_size": 256, "num_steps": 2, "step_size": 0.5},
        "training": {"loss": "infonce", "loss_negatives": 8, "loss_sampler": "source"},
    },
    "sketches of 256, two steps, InfoNCE by source, fewer steps": {  # with the schedule of the default settings
        "encoder": {"sketch_size": 256, "num_steps": 2, "step_size": 0.5},
        "decoder": {"width": 64},
        "training": {
            "loss": "infonce",
            "loss_negatives": 8,
            "loss_sampler": "source",
            "learning_rate": 0.009,
            "epochs": 70,
            "evaluate_every": 5,
        },
    },
    "source negatives in the loss": {"training": {"loss_sampler": "source"}},
    "one loss negative": {"training": {"loss_negatives": 1}},
    "eight loss negatives": {"training": {"loss_negatives": 8}},
    "32 loss negatives": {"training": {"loss_negatives": 32}},
    "either end kept in the loss": {},
    "an eighth of the loss negatives similar": {},
    "half of the loss negatives similar": {},
    # training
    "half batches": {"training": {"batch_size": 0.5}},
    "half batches, half of the epochs": {"training": {"batch_size": 0.5, "epochs": 0.5}},
    "quarter batches, a quarter of the epochs": {"training": {"batch_size": 0.25, "epochs": 0.25, "evaluate_every": 1}},
    "quarter batches": {"training": {"batch_size": 0.25}},
    "twice the epochs": {"training": {"epochs": 2.0}},
    "constant rate": {"training": {"schedule": "constant"}},
    "linear schedule": {"training": {"schedule": "linear"}},
    "constant rate, longer averages": {"training": {"schedule": "constant", "averaging": 0.995}},
    "weights not averaged": {"training": {"averaging": 0.0}},
    "longer averages": {"training": {"averaging": 0.995}},
    "little decay": {"training": {"weight_decay": 0.05}},
    "90 % feature dropout": {"encoder": {"feature_dropout": 0.9}},
    "less dropout": {"encoder": {"feature_dropout": 0.5, "dropout": 0.3}, "decoder": {"dropout": 0.3}},
    "half batches, strong anchoring, less dropout": {
        "encoder": {"feature_dropout": 0.5, "dropout": 0.3, "anchoring": 1.0},
        "decoder": {"dropout": 0.3},
        "training": {"batch_size": 0.5, "epochs": 0.5},
    },
    "targets not masked": {"training": {"mask_targets": False}},
    # other ways down (variants.py)
    "momentum": {},
    "Chebyshev": {},
    "minimum": {"encoder": {"num_negatives": 0}},
    "learned steps": {},
    "learned anchoring": {},
    "graded steps": {},
    # other non-links, what sketches say in another way (variants.py)
    "negatives by degree": {},
    "hard negatives": {},
    "gates": {},
    "core numbers": {},
    # what the model is surest of, wrongly, teaches it (variants.py)
    "mined negatives": {"training": {"loss_negatives": 48}},
    "mined negatives, fewer candidates": {"training": {"loss_negatives": 12}},
}
SMOKE = (BASE, "half batches", "two layers", "momentum", "gates")  # what a smoke run tries
_SHARES = ("batch_size", "epochs")  # given as shares of what is suggested


def changed(base: Change, change: Change, suggested: Any) -> Change:
    """Both changes; shares become numbers."""
    both = merged(base, change)
    training = both.get("training", {})
    for name in _SHARES:
        share = change.get("training", {}).get(name)
        if isinstance(share, float):
            usual = base.get("training", {}).get(name, getattr(suggested.training, name))
            training[name] = max(1, round(share * usual))
    return both


def opened(data: str, *, bipartite: bool, smoke: bool) -> Dataset:
    """A data set by its name, or a table of edges by its path."""
    path = Path(data)
    if not path.suffix:
        return common.load_data(data, smoke=smoke)
    return Dataset(path.stem, Graph.from_table(path, bipartite=bipartite), None, "hits@100")


def run(data: str, seed: int, ablation: str, on: str, *, peer: str, bipartite: bool, smoke: bool) -> dict[str, Any]:
    loaded = opened(data, bipartite=bipartite, smoke=smoke)
    split = make_split(loaded, "clean" if loaded.parts is None else "official", seed)
    usual = suggest if peer == "yinyan-as-suggested" else ground  # as the method itself does
    suggested = usual(split.graph, len(split.train_targets)).settings
    base = changed(BASES.get(data, {}), ABLATIONS[on], suggested)
    settings = merged(changed(base, ABLATIONS[ablation], suggested), common.SMALL if smoke else {})
    started = time.perf_counter()
    task = Task(split, seed, settings, "cpu")
    build = variants.VARIANTS.get(ablation)
    try:
        outcome = method(peer)(task) if build is None else trained(task, build)
        found, hits = outcome.validation, head(outcome, split)
    except DivergedError:  # a result too
        found, hits = None, {}
    return {
        "data": loaded.name,
        "method": peer,
        "seed": seed,
        "ablation": ablation,
        "on": on,
        "settings": settings,
        "validation": found,
        "hits": hits,
        "seconds": time.perf_counter() - started,
    }


def head(outcome: Outcome, split: Split) -> dict[str, float]:
    """Hits of validation links among the first non-links, if the messages of validation are those of test time."""
    if split.valid_negatives.ndim != 2 or not np.array_equal(split.valid_messages, split.test_messages):
        return {}
    links, non_links = (outcome.score(pairs) for pairs in (split.valid_targets, split.valid_negatives))
    return {str(rate): hits_at_rate(links, non_links, rate) for rate in RATES}


def table(rows: list[dict[str, Any]], on: str) -> list[tuple[str, ...]]:
    """One line a ablation: runs, mean, gains over the base on the same splits; diverged ones say so."""
    rows = [row for row in rows if row.get("on", BASE) == on]
    diverged = {row["ablation"] for row in rows if row["validation"] is None}
    of = {(row["ablation"], row["seed"]): row for row in rows if row["ablation"] not in diverged}
    base = {seed: row for (ablation, seed), row in of.items() if ablation == BASE}
    lines = []
    for ablation in ABLATIONS:
        if ablation in diverged:
            lines.append((ablation, "", "diverged", "", "", "", ""))
        mine = {seed: row for (name, seed), row in of.items() if name == ablation}
        if not mine:
            continue
        gains = [row["validation"] - base[seed]["validation"] for seed, row in mine.items() if seed in base]
        firsts = [
            statistics.mean(row["hits"].values()) - statistics.mean(base[seed]["hits"].values())
            for seed, row in mine.items()
            if row.get("hits") and base.get(seed, {}).get("hits")
        ]
        error = f"{statistics.stdev(gains) / math.sqrt(len(gains)):.4f}" if len(gains) > 1 else ""
        mean = statistics.mean(row["validation"] for row in mine.values())
        gain, first = (f"{statistics.mean(some):+.4f}" if some else "" for some in (gains, firsts))
        seconds = statistics.mean(row["seconds"] for row in mine.values())
        lines.append((ablation, str(len(mine)), f"{mean:.4f}", gain, error, first, f"{seconds:.0f}"))
    return lines


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--data", default="cora", help="a data set, or the path of a table of edges")
    parser.add_argument("--bipartite", action="store_true", help="the ends of that table's edges are of two kinds")
    parser.add_argument("--method", default="yinyan", help="whose settings are changed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ablations", nargs="+", choices=list(ABLATIONS), default=list(ABLATIONS), metavar="NAME")
    parser.add_argument(
        "--on", choices=list(ABLATIONS), default=BASE, metavar="NAME", help="the ablation that the others add to"
    )
    parser.add_argument("--names", action="store_true", help="print the names of the ablations")
    parser.add_argument("--keep", type=Path, default=Path("ablations.jsonl"), help="where finished runs are kept")
    options = common.parsed(parser, seeds=1, ablations=SMOKE, on="sketches of 64", keep=None)
    if options.names:
        print("\n".join(ABLATIONS))
        return
    name = Path(options.data).stem
    kept = kept_runs(options.keep)
    done = {
        (row["data"], row.get("method", "yinyan"), row["seed"], row["ablation"], row.get("on", BASE)) for row in kept
    }
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        for ablation in options.ablations:
            if (name, options.method, seed, ablation, options.on) in done:
                continue
            peer, bipartite = options.method, options.bipartite
            kept.append(
                run(options.data, seed, ablation, options.on, peer=peer, bipartite=bipartite, smoke=options.smoke)
            )
            if options.keep is not None:
                with options.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(kept[-1]) + "\n")
    rows = [row for row in kept if (row["data"], row.get("method", "yinyan")) == (name, options.method)]
    lines = table(rows, options.on)
    if options.picture:
        bars = {line[0]: float(line[2]) for line in lines if line[1]}
        common.bars(options.picture, bars, title=f"{name}, on '{options.on}'", label="validation", line=None)
    header = ("ablation", "runs", "validation", "gain", "±", "head", "seconds")
    common.report(options, rows, lambda: common.print_table(header, lines))


def kept_runs(path: Path | None) -> list[dict[str, Any]]:
    """Runs that were finished before."""
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()

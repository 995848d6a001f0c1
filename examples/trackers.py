"""Follow training with any callable of (figures, step): mlflow.log_metrics and wandb.log fit as they are."""

import numpy as np

import yinyan

rng = np.random.default_rng(0)
pairs = np.concatenate([rng.integers(0, 40, (150, 2)), rng.integers(40, 80, (150, 2))])
graph = yinyan.Graph.from_arrays(pairs)


def tensorboard_like(figures: dict[str, float], step: int) -> None:
    for name, value in figures.items():
        print(f"{step:3d} {name:<14} {value:.4f}")


hooks = yinyan.Hooks(tell=print, trackers=[tensorboard_like])
yinyan.LinkPredictor(seed=0, encoder={"hidden_size": 16}, training={"epochs": 3}).fit(graph, hooks=hooks)

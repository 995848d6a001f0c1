"""What every peer must do, with a model that is small enough for a look at the graph around each pair."""

from __future__ import annotations

from peer_contract import PeerContract, small

from yinyan.peers import Outcome, Task, method
from yinyan.splits import Split


class EdgeWiseContract(PeerContract):
    """The same with two layers of eight dimensions and one negative per edge."""

    @classmethod
    def run(cls, split: Split, *, seed: int = 0, epochs: int | None = None) -> Outcome:
        training = {"epochs": epochs or cls.epochs, "evaluate_every": 5, "loss_negatives": 1}
        settings = small(encoder={"hidden_size": 8, "num_steps": 2}, training=training)
        return method(cls.name)(Task(split, seed=seed, settings=settings, device="cpu"))

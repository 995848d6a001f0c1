"""What a search found: the comparison with the defaults, the trials, and which settings mattered."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from yinyan.progress import duration
from yinyan.text import counted, text_table
from yinyan.tuning.space import Space, Value, grouped_by_path
from yinyan.tuning.trials import Trial

__all__ = ["Candidate", "Tuning"]


@dataclass(frozen=True)
class Candidate:
    """Settings that were fitted on every seed of the comparison, beside the defaults.

    Examples
    --------
    >>> from yinyan.tuning.outcome import Candidate
    >>> Candidate({"encoder.num_steps": 3}, (1.2, 1.4), (1.1, 1.1)).gain
    0.2
    """

    values: dict[str, Value]  # settings that differ from the defaults, by path
    scores: tuple[float, ...]  # validation score per seed
    default_scores: tuple[float, ...]  # of the default settings on the same splits

    @property
    def gains(self) -> tuple[float, ...]:
        """Score minus that of the defaults, per seed."""
        return tuple(a - b for a, b in zip(self.scores, self.default_scores, strict=True))

    @property
    def gain(self) -> float:
        """Mean of the gains."""
        return round(statistics.fmean(self.gains), 6)

    @property
    def spread(self) -> float:
        """Standard deviation of the gains over the seeds."""
        return round(statistics.stdev(self.gains), 6)

    @property
    def is_better(self) -> bool:
        """Whether the gain is larger than its spread over the seeds."""
        return self.gain > self.spread


@dataclass(frozen=True)
class Tuning:
    """What a search for settings found, and what it took."""

    space: Space  # the kind of graph, and the values that were searched
    metric: str  # the validation metric that scores are of
    minutes: float  # the budget
    seconds: float  # the time that was spent, over all runs of the search
    search_seed: int  # seed of the trials
    seeds: tuple[int, ...]  # seeds of the comparison, for splits and weights
    default_score: float  # of the first trial
    trials: tuple[Trial, ...]  # all that ended, the defaults first
    candidates: tuple[Candidate, ...]  # the best trials, compared with the defaults on all seeds
    chosen: Candidate | None  # the best one that is better than the defaults; None keeps the defaults
    given: dict[str, dict[str, Any]]  # settings that were given, and not searched
    importances: dict[str, float]  # share of the variance of the scores, by setting

    @property
    def overrides(self) -> dict[str, dict[str, Any]]:
        """The settings to fit with, by group: those given, and those that beat the defaults."""
        found = {group: dict(values) for group, values in self.given.items()}
        for group, values in grouped_by_path(self.chosen.values if self.chosen else {}).items():
            found[group] = {**found.get(group, {}), **values}
        return found

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> import optuna
        >>> from yinyan import LinkPredictor
        >>> tuned = LinkPredictor.tuned(graph, minutes=1, trials=2, seeds=2, epochs=1, hidden_size=8)
        >>> tuned.tuning_.to_dict()["seeds"]
        [1, 2]
        """
        candidates = [
            asdict(each) | {"gain": each.gain, "spread": each.spread, "better": each.is_better}
            for each in self.candidates
        ]
        return {
            "kind": self.space.kind,
            "space": {each.path: each.in_words() for each in self.space.dimensions},
            "metric": self.metric,
            "minutes": self.minutes,
            "seconds": round(self.seconds, 1),
            "search_seed": self.search_seed,
            "seeds": list(self.seeds),
            "default_score": self.default_score,
            "trials": [each._asdict() for each in self.trials],
            "candidates": candidates,
            "settings": self.overrides,
            "tuned": self.chosen is not None,
            "importances": self.importances,
        }

    def to_toml(self) -> str:
        """The settings as a TOML document for `fit --settings`, with the verdict as a comment.

        Returns
        -------
        str
            The document.

        Examples
        --------
        >>> import optuna
        >>> from yinyan import LinkPredictor
        >>> tuned = LinkPredictor.tuned(graph, minutes=1, trials=2, seeds=2, epochs=1, hidden_size=8)
        >>> "hidden_size = 8" in tuned.tuning_.to_toml()
        True
        """
        import tomli_w

        comment = "".join(f"# {line}\n" for line in self.verdict.splitlines())
        plain = {
            group: {name: "none" if value is None else value for name, value in values.items()}
            for group, values in self.overrides.items()
        }
        return comment + tomli_w.dumps(plain)

    @property
    def verdict(self) -> str:
        """In one or two lines: what was chosen, and by how much it is better."""
        seeds = ", ".join(map(str, self.seeds))
        if self.chosen is not None:
            return (
                f"tuned: {self.chosen.gain:+.4f} ± {self.chosen.spread:.4f} ({self.metric}) on validation edges, "
                f"against the defaults on seeds {seeds}"
            )
        if not self.candidates:
            return f"defaults kept: none of {counted(len(self.trials) - 1, 'trial')} was better on validation edges"
        best = max(self.candidates, key=lambda each: each.gain)
        return (
            f"defaults kept: the best candidate is {best.gain:+.4f} ± {best.spread:.4f} ({self.metric}) on validation "
            f"edges of seeds {seeds}, which does not exceed its spread"
        )

    def __str__(self) -> str:
        states = [trial.state for trial in self.trials]
        counts = ", ".join(f"{states.count(state)} {state}" for state in ("complete", "pruned", "failed"))
        parts = [
            f"graph      {self.space.kind}: {counted(len(self.space.dimensions), 'setting')} searched\n"
            f"budget     {self.minutes:g} min, {duration(self.seconds)} spent\n"
            f"trials     {len(self.trials)} on seed {self.search_seed}: {counts}; "
            f"the defaults reach {self.default_score:.4f} ({self.metric})"
        ]
        if self.candidates:
            rows = [
                [f"{c.gain:+.4f}", f"{c.spread:.4f}", "yes" if c.is_better else "no", in_words(c.values)]
                for c in self.candidates
            ]
            seeds = ", ".join(map(str, self.seeds))
            header = ["gain", "spread", "better", f"settings, on seeds {seeds}"]
            parts.append(text_table(header, rows, right=(0, 1)))
        if self.importances:
            rows = [[name, f"{share:.0%}"] for name, share in self.importances.items()]
            parts.append(text_table(["setting", "share of the variance of scores"], rows, right=(1,)))
        return "\n\n".join([*parts, self.verdict])


def in_words(values: dict[str, Value]) -> str:
    """Values by path in one line."""
    return ", ".join(f"{path}={value}" for path, value in values.items()) or "default settings"

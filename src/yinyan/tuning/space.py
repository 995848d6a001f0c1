"""Which settings are searched for which kind of graph, and over which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from yinyan.graph import Graph
from yinyan.settings import Settings

if TYPE_CHECKING:
    from optuna import Trial

__all__ = ["Dimension", "Space", "grouped_by_path", "space_of", "value_at"]

Value = float | int | str | bool


@dataclass(frozen=True)
class Dimension:
    """The values of one setting: a range, or a list of choices. The default is always among them."""

    path: str
    default: Value
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Value, ...] = ()

    def suggested(self, trial: Trial) -> Value:
        """A value for a trial, with three digits."""
        if self.choices:
            return cast("Value", trial.suggest_categorical(self.path, self.choices))
        number = trial.suggest_float(self.path, self.low, self.high, log=self.log)
        return self.default if number == self.default else float(f"{number:.3g}")

    def in_words(self) -> str:
        """The values in words."""
        if self.choices:
            return ", ".join(str(choice) for choice in self.choices)
        return f"{self.low:.3g} to {self.high:.3g}" + (" (logarithmic)" if self.log else "")


class Space(NamedTuple):
    """The settings to be searched for a kind of graph."""

    kind: str  # of graph, in words
    dimensions: tuple[Dimension, ...]

    def defaults(self) -> dict[str, Value]:
        """The default values by path."""
        return {each.path: each.default for each in self.dimensions}


def space_of(graph: Graph, base: Settings, given: Mapping[str, Any]) -> Space:
    """The search space of a graph around its default settings; settings that are `given` stay as they are."""
    kind, wanted = _kind_of(graph, base)
    fixed = {f"{group}.{name}" for group, values in given.items() for name in _names(values)}
    return Space(kind, tuple(each for each in (*wanted, _rate(base)) if each.path not in fixed))


def _names(values: Any) -> tuple[str, ...]:
    return tuple(values) if isinstance(values, Mapping) else tuple(vars(values))


def _kind_of(graph: Graph, base: Settings) -> tuple[str, tuple[Dimension, ...]]:
    if base.encoder.inputs == "embeddings" and base.training.loss_sampler == "shared":
        return "large, without features", _large(base)
    if graph.features is not None:
        few = "" if base.encoder.inputs == "features" else "few "
        return f"with {few}features", _with_features(base)
    if graph.directed:
        return "directed, without features", _directed(base)
    if graph.is_bipartite:
        return "bipartite, without features", (*_bare(base), _sketches(base))
    return "without features", _bare(base)


def _with_features(base: Settings) -> tuple[Dimension, ...]:
    return (
        _among("encoder.inputs", base, "features", "both"),
        _among("encoder.num_steps", base, 1, 2, 4, 6),
        _between("encoder.feature_dropout", base, 0.0, 0.85),
        _between("encoder.dropout", base, 0.0, 0.6),
        _among("decoder.depth", base, 2, 3),
        _between("decoder.dropout", base, 0.0, 0.6),
        _among("training.loss", base, "paper", "infonce", "hardest"),
        _among("training.weight_decay", base, 0.0, 0.1, 0.5, 2.0),
        _sketches(base),
    )


def _bare(base: Settings) -> tuple[Dimension, ...]:
    return (
        _among("encoder.num_steps", base, 2, 4, 6, 8),
        _between("encoder.node_dropout", base, 0.4, 0.95),
        _between("encoder.anchoring", base, 0.03, 0.6, log=True),
        _between("decoder.dropout", base, 0.0, 0.6),
        _among("training.loss", base, "paper", "infonce", "hardest"),
        _among("training.loss_negatives", base, 3, 8, 16),
        _between("training.weight_decay", base, 0.2, 8.0, log=True),
    )


def _directed(base: Settings) -> tuple[Dimension, ...]:
    return (
        _among("encoder.num_steps", base, 1, 2, 3, 5),
        _between("encoder.node_dropout", base, 0.0, 0.8),
        _between("encoder.anchoring", base, 0.05, 1.5, log=True),
        _between("encoder.dropout", base, 0.0, 0.7),
        _between("decoder.dropout", base, 0.0, 0.6),
        _among("training.loss", base, "paper", "infonce", "hardest"),
        _between("training.weight_decay", base, 0.2, 8.0, log=True),
    )


def _large(base: Settings) -> tuple[Dimension, ...]:
    epochs = base.training.epochs
    return (
        _among("encoder.num_steps", base, 2, 4, 6),
        _between("encoder.node_dropout", base, 0.3, 0.95),
        _between("encoder.anchoring", base, 0.03, 0.6, log=True),
        _among("training.loss_negatives", base, 32, 128, 512),
        _among("training.epochs", base, max(2, epochs // 2), 2 * epochs),
    )


def _sketches(base: Settings) -> Dimension:
    return _among("encoder.sketch_size", base, 0, 64)


def _rate(base: Settings) -> Dimension:
    rate = base.training.learning_rate
    return _between("training.learning_rate", base, rate / 4, rate * 4, log=True)


def _between(path: str, base: Settings, low: float, high: float, *, log: bool = False) -> Dimension:
    """A range, widened to the default; `log` is for positive numbers."""
    default = value_at(base, path)
    return Dimension(path, default, min(low, default), max(high, default), log)


def _among(path: str, base: Settings, *choices: Value) -> Dimension:
    """Choices, the default first."""
    default = value_at(base, path)
    return Dimension(path, default, choices=(default, *(choice for choice in choices if choice != default)))


def value_at(settings: Settings, path: str) -> Any:
    """The value of a setting such as "encoder.num_steps"."""
    group, _, name = path.partition(".")
    return getattr(getattr(settings, group), name)


def grouped_by_path(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Values by path as values by name, by group."""
    found: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        group, _, name = path.partition(".")
        found.setdefault(group, {})[name] = value
    return found

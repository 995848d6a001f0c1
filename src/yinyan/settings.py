"""Settings: frozen dataclasses, checked in one place, read from and written to TOML."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from yinyan.errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DecoderSettings", "EncoderSettings", "Settings", "TrainingSettings", "read_settings"]

_Group = TypeVar("_Group", "EncoderSettings", "DecoderSettings", "TrainingSettings")

type_hints = functools.cache(typing.get_type_hints)  # evaluating the annotations takes a millisecond each time


def _option(
    default: Any, help: str, *, low: float | None = None, above: float | None = None, high: float | None = None
) -> Any:
    """A field whose metadata serves the check, the command line's flag and its help text."""
    return field(default=default, metadata={"help": help, "low": low, "above": above, "high": high})


class _Checked:
    """Checks every field against its annotation and range as soon as an instance exists."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = _checked_value(f"{_group_name(type(self))}.{f.name}", f, getattr(self, f.name), type(self))
            object.__setattr__(self, f.name, value)


@dataclass(frozen=True)
class EncoderSettings(_Checked):
    """The base model f and the T descent steps of the energy."""

    inputs: Literal["features", "embeddings", "both", "random"] = _option(
        "both", "what f reads: given features, learned embeddings, both, or fixed random features"
    )  # works for every graph; `defaults` narrows it where the features suffice
    hidden_size: int = _option(
        256, "width of f and of the embeddings", low=1
    )  # time grows with its square in the decoder
    embedding_size: int = _option(
        64, "width of the learned (or random) input embeddings", low=1
    )  # small beside features
    table_start: Literal["orthogonal", "spectral", "completed", "smoothed"] = _option(
        "orthogonal",
        "what learned embeddings start from: random orthogonal rows, the links' leading eigenvectors, or those of the "
        "links completed by the ones that seem to be missing, as they are or smoothed over nodes of like links",
    )  # eigenvectors suit dense graphs without features, the more so completed
    table_missing: float | None = _option(
        None,
        "share of all links that is taken to be missing where tables start completed or smoothed (none: .3 and .5)",
        low=0,
        high=0.99,
    )  # a little more than clean splits hold out; beliefs that predict each other die out with less than half
    table_shrinkage: float = _option(
        0.02, "what the eigenvalues of tables that start completed are shrunk by; the largest is 1", low=0, high=1
    )  # more where links are few
    table_ridge: float = _option(
        0.1, "how strongly beliefs are smoothed where tables start smoothed", above=0
    )  # less lets beliefs run away where many links are taken to be missing
    num_layers: int = _option(1, "layers of the base model f", low=1)  # a linear f overfits least
    base_norm: bool = _option(
        False, "normalise the hidden layers of f over the nodes (batch normalisation)"
    )  # a linear f has none
    sign_hops: int = _option(0, "neighbourhood powers fed to f (SIGN features)", low=0)  # the steps do this already
    num_steps: int = _option(4, "descent steps (graph layers) T; 0 ignores the graph", low=0)  # reaches four hops
    step_size: float | Literal["safe"] = _option(
        0.3, "descent step, or 'safe' for guaranteed descent", above=0
    )  # below the bound of 'safe' for these weights
    anchoring: float = _option(0.5, "pull towards f (lambda_0)", low=0)  # keeps a node's own features audible
    attraction: float = _option(1.0, "pull between the ends of links (lambda)", low=0)  # fixes the scale of the others
    repulsion: float = _option(0.3, "push between the ends of non-links (lambda_K)", low=0)  # more can diverge
    learn_repulsion: Literal["no", "softplus", "sigmoid"] = _option(
        "softplus", "learn one repulsion per negative graph, through this function"
    )  # starts at `repulsion`; sigmoid is the paper's, and caps it at 1
    num_negatives: int = _option(1, "negative graphs K; 0 for none", low=0)  # more graphs, less noise, more time
    sampler: Literal["global", "source", "blocks"] = _option(
        "global", "how non-links are drawn: both ends at random, one end kept, or between random blocks of nodes"
    )  # the loss judges global non-links too; blocks are global ones that memory serves faster
    expected_negatives: bool = _option(
        True, "use the mean of all negative graphs instead of samples"
    )  # deterministic, and free
    margin: float | None = _option(
        None, "bound of the repulsion energy per link (gamma), or none", low=0
    )  # as the paper ran
    self_loops: bool = _option(False, "add a self loop to every node of the message graph")  # anchoring does its work
    feature_dropout: float = _option(0.7, "dropout on the inputs of f", low=0, high=0.99)  # bag-of-words overfit fast
    node_dropout: float = _option(
        0.0,
        "share of the nodes whose inputs a training step leaves out: their neighbours tell of them",
        low=0,
        high=0.99,
    )  # against embeddings that know their links by heart; features differ less from node to node
    dropout: float = _option(0.5, "dropout on the output of f", low=0, high=0.99)  # never inside the descent
    output_norm: bool = _option(True, "layer normalisation of the final embeddings")  # hubs no longer dominate
    sketch_size: int = _option(
        0,
        "dimensions of random sketches beside the embeddings, whose products count common neighbours; 0 for none",
        low=0,
    )  # structure at node-wise cost, for three more rows of that size a node
    storage: Literal["float32", "bfloat16"] = _option(
        "float32", "how the layers store embeddings between them; sums are always taken in float32"
    )  # half the bytes to move, for two digits of precision
    recompute: bool = _option(
        False, "compute the layers again in the backward pass instead of keeping them"
    )  # for graphs that would not fit otherwise


@dataclass(frozen=True)
class DecoderSettings(_Checked):
    """The function of two stored embeddings that scores a pair."""

    kind: Literal["hadamard", "dot", "distance"] = _option("hadamard", "the pair function")  # dot suits plain MIPS
    depth: int = _option(2, "layers of the Hadamard MLP", low=1)  # one hidden layer: enough for small graphs
    width: int = _option(256, "width of the Hadamard MLP", low=1)  # as wide as the embeddings
    residual: bool = _option(False, "residual connections in the Hadamard MLP")  # for depths of three and more
    norm: bool = _option(False, "layer normalisation in the Hadamard MLP")  # the size of y_i * y_j tells something
    dropout: float = _option(0.5, "dropout in the Hadamard MLP", low=0, high=0.99)  # a few thousand links overfit it
    directed_maps: bool = _option(
        True, "on a directed graph, map source and target before the product"
    )  # otherwise a->b and b->a score alike
    allow_symmetric: bool = _option(False, "accept a symmetric decoder on a directed graph")  # must be asked for


@dataclass(frozen=True)
class TrainingSettings(_Checked):
    """The loop: what a step sees, what it optimises and when it stops."""

    epochs: int = _option(150, "passes over the training links at most", low=1)  # the schedule ends with them
    batch_size: int = _option(0, "target links a step; 0 for all of them", low=0)  # small batches mask few links
    updates_per_propagation: int = _option(
        1, "batches that share one pass of the encoder: the decoder learns from each, the encoder from all", low=1
    )  # where the layers take most of a step; more hide more links and move the encoder less often
    clusters: int = _option(
        1, "parts of the graph computed one after the other (learned embeddings stay whole); 1 for no parts", low=1
    )  # only where a step's layers do not fit: slower, and Adam still holds three numbers for each learned one
    clusters_per_step: int = _option(
        1, "clusters computed together, chosen anew each time", low=1
    )  # more of them, fewer links cut
    learning_rate: float = _option(0.004, "Adam's learning rate", above=0)  # with clipping and a cosine schedule
    weight_decay: float = _option(0.5, "Adam's decoupled weight decay", low=0)  # times the rate: .2 % a step
    schedule: Literal["constant", "cosine", "linear"] = _option("cosine", "learning rate over the epochs")  # ends calm
    warmup: float = _option(0.05, "share of the steps that warm the learning rate up", low=0, high=1)  # deep decoders
    clip_norm: float = _option(1.0, "largest gradient norm; 0 for no clipping", low=0)  # rare spikes, no bias else
    averaging: float = _option(
        0.98, "share of the running average of weights kept at a step; 0 for none", low=0, high=0.9999
    )  # smooths the choice of the best epoch
    loss: Literal["paper", "squared", "auc", "hinge", "logrank", "infonce", "hardest"] = _option(
        "paper", "the training loss"
    )  # a calibrated log-loss
    loss_negatives: int = _option(
        3, "sampled non-links per target link in the loss", low=1
    )  # steadier gradients at little cost
    loss_sampler: Literal["global", "source"] = _option("global", "how the loss draws non-links")  # as they are judged
    mask_targets: bool = _option(
        True, "hide a step's target links from its message graph"
    )  # else the model learns to copy its input
    validation_share: float = _option(0.1, "share of the links held out by fit", above=0, high=0.5)  # clean's 10 %
    validation_negatives: int = _option(
        20_000, "sampled non-links for validation", low=1
    )  # few make the best epoch luck
    selection: Literal["balanced", "hits@20", "hits@50", "hits@100", "mrr", "auc"] = _option(
        "balanced", "validation metric that chooses the weights: Hits@10% plus AUC, or one metric"
    )  # two metrics together wobble less than one
    keep: Literal["best", "last"] = _option(
        "best", "weights kept: of the best validation, or of the last step"
    )  # the last is for comparison
    evaluate_every: int = _option(3, "epochs between validations", low=1)  # averaged weights move slowly
    patience: int = _option(
        20, "validations without progress before stopping; 0 for never", low=0
    )  # a third of the epochs
    node_order: Literal["given", "local"] = _option(
        "given", "how nodes stand in memory while training: as given, or with neighbours near each other"
    )  # finding an order takes seconds; `defaults` asks for it where it pays
    refuse_oversize: bool = _option(
        True, "refuse a run whose estimated memory exceeds what is free"
    )  # better than to be killed half way
    refuse_runaway: bool = _option(
        True, "stop where the layers run away from f instead of settling"
    )  # normalisation would hide it
    inference_samples: int = _option(
        1, "negative samples averaged at inference", low=1
    )  # expected negatives need one only


@dataclass(frozen=True)
class Settings:
    """All settings of a model, group by group."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    decoder: DecoderSettings = field(default_factory=DecoderSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def updated(self, overrides: Mapping[str, Any]) -> Settings:
        """A copy with `overrides`, a mapping of group to mapping of name to value."""
        groups: dict[str, Any] = {}
        for name, values in overrides.items():
            if name not in GROUPS:
                raise SettingsError(_unknown(name, name, list(GROUPS)))
            groups[name] = _updated_group(getattr(self, name), values)
        return dataclasses.replace(self, **groups)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values, ready for TOML: `None` becomes the text "none"."""
        return {
            name: {k: "none" if v is None else v for k, v in dataclasses.asdict(getattr(self, name)).items()}
            for name in GROUPS
        }

    def to_toml(self) -> str:
        """The settings as a TOML document, complete, so that a later default changes nothing."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())


GROUPS: dict[str, type[EncoderSettings] | type[DecoderSettings] | type[TrainingSettings]] = {
    "encoder": EncoderSettings,
    "decoder": DecoderSettings,
    "training": TrainingSettings,
}


def read_settings(path: str | Path) -> dict[str, dict[str, Any]]:
    """Overrides from a TOML file: `[encoder]`, `[decoder]` and `[training]`, each complete or partial."""
    try:
        document: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the settings file '{path}': {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"'{path}' is not a TOML file: {error}") from error
    Settings().updated(document)  # every key and value is checked before anything is trained
    return document


def _updated_group(group: _Group, values: Mapping[str, Any] | _Group) -> _Group:
    if isinstance(values, type(group)):
        return values
    prefix = _group_name(type(group))
    if not isinstance(values, Mapping):
        raise SettingsError(f"{prefix}: needs a mapping of settings or {type(group).__name__} (got {values!r})")
    known = [f.name for f in dataclasses.fields(group)]
    for name in values:
        if name not in known:
            raise SettingsError(_unknown(f"{prefix}.{name}", name, known))
    return dataclasses.replace(group, **values)


def _group_name(kind: type) -> str:
    return kind.__name__.removesuffix("Settings").lower()


def _unknown(path: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
    return f"{path}: unknown setting (nearest: '{near[0]}')"


def _checked_value(path: str, f: dataclasses.Field[Any], value: Any, owner: type) -> Any:
    """`value` in its declared type, or a SettingsError that names the path and what is allowed."""
    hint = type_hints(owner)[f.name]
    kinds, choices = allowed_kinds(hint)
    if value == "none" and type(None) in kinds:
        return None
    if (value is None and type(None) in kinds) or (isinstance(value, str) and value in choices):
        return value
    if isinstance(value, bool) != (bool in kinds) or not isinstance(
        value, tuple(kinds) + ((int,) if float in kinds else ())
    ):
        raise SettingsError(f"{path}: needs to be {_in_words(f, kinds, choices)} (got {value!r})")
    low, above, high = f.metadata["low"], f.metadata["above"], f.metadata["high"]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        outside = (low is not None and value < low) or (above is not None and value <= above)
        if outside or (high is not None and value > high) or not abs(value) <= sys.float_info.max:
            raise SettingsError(f"{path}: needs to be {_in_words(f, kinds, choices)} (got {value!r})")
        return float(value) if float in kinds else value
    return value


def allowed_kinds(hint: Any) -> tuple[list[type], list[str]]:
    """The plain types and the literal texts that an annotation admits."""
    if typing.get_origin(hint) is Literal:
        return [], list(typing.get_args(hint))
    parts = typing.get_args(hint)
    if not parts:
        return [hint], []
    kinds: list[type] = []
    choices: list[str] = []
    for part in parts:
        more_kinds, more_choices = allowed_kinds(part)
        kinds += more_kinds
        choices += more_choices
    return kinds, choices


def _in_words(f: dataclasses.Field[Any], kinds: list[type], choices: list[str]) -> str:
    words = [repr(choice) for choice in choices]
    nouns = {int: "an integer", float: "a number", bool: "true or false", type(None): "'none'"}
    low, above, high = f.metadata["low"], f.metadata["above"], f.metadata["high"]
    least = "" if low is None and above is None else f"of at least {low}" if above is None else f"above {above}"
    most = "" if high is None else f"and at most {high}" if least else f"of at most {high}"
    bounds = [part for part in (least, most) if part]
    for kind in kinds:
        words.append(" ".join([nouns[kind], *(bounds if kind in (int, float) else [])]))
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]

"""Settings: frozen dataclasses, checked in one place, read from and written to TOML."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import sys
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from yinyan.deprecation import renamed_fields, warn_deprecated
from yinyan.errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "DecoderSettings",
    "EncoderSettings",
    "Settings",
    "TrainingSettings",
    "read_settings",
    "settings_from_text",
    "without_retired",
]

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
    """Settings of the base model f and of the T descent steps of the energy.

    Raises
    ------
    SettingsError
        If a value is out of its range.

    Examples
    --------
    >>> from yinyan import EncoderSettings
    >>> EncoderSettings(num_steps=3).num_steps
    3
    """

    # works for every graph; `defaults` narrows it where the features suffice
    inputs: Literal["features", "embeddings", "both", "random"] = _option(
        "both", "inputs of the base model f: node features, learned embeddings, both, or random features"
    )
    # time grows with its square in the decoder
    hidden_size: int = _option(256, "dimensions of f and of the embeddings", low=1)
    # small beside features
    embedding_size: int = _option(64, "dimensions of learned or random input embeddings", low=1)
    # a random start takes hundreds of steps to find what a few products find
    embedding_start: Literal["random", "spectral"] = _option(
        "random", "start of learned embeddings: random directions, or the leading eigenvectors of the graph"
    )
    # a linear f overfits least
    num_layers: int = _option(1, "number of layers of the base model f; 0: learned embeddings as they are", low=0)
    base_norm: bool = _option(False, "batch normalisation of the hidden layers of f")  # a linear f has none
    # the steps do this already
    sign_hops: int = _option(0, "number of neighbourhood powers as inputs of f (SIGN features)", low=0)
    # reaches four hops
    num_steps: int = _option(4, "number of propagation steps (graph layers, T); 0 ignores the graph", low=0)
    # below the bound of 'safe' for these weights
    step_size: float | Literal["safe"] = _option(
        0.3, "step size of the descent, or 'safe' for guaranteed descent", above=0
    )
    anchoring: float = _option(0.5, "weight of the pull towards f (lambda_0)", low=0)  # keeps a node's own features
    # fixes the scale of the others
    attraction: float = _option(1.0, "weight of the pull between the ends of edges (lambda)", low=0)
    # more can diverge
    repulsion: float = _option(0.3, "weight of the push between the ends of negatives (lambda_K)", low=0)
    # starts at `repulsion`; sigmoid is the paper's, and caps it at 1
    learn_repulsion: Literal["no", "softplus", "sigmoid"] = _option(
        "softplus", "function through which one repulsion per negative graph is learned, or 'no'"
    )
    # more graphs, less noise, more time
    num_negatives: int = _option(1, "number of negative graphs (K); 0 for none", low=0)
    # one weight per relation is enough for one product per layer
    relation_maps: bool = _option(
        False, "learn one weight per relation and dimension for the messages of relations (M_r); slower"
    )
    # the loss uses global negatives too; blocks are global ones with faster memory access
    sampler: Literal["global", "source", "blocks"] = _option(
        "global", "sampler of negatives: both ends random (global), one end kept (source), or random blocks of nodes"
    )
    # deterministic, and free
    expected_negatives: bool = _option(True, "use the mean of all negative graphs instead of samples")
    # as the paper ran
    margin: float | None = _option(None, "bound of the repulsion energy per negative (gamma), or none", low=0)
    self_loops: bool = _option(False, "add a self loop to every node of the message graph")  # anchoring does its work
    # bag-of-words overfit fast
    feature_dropout: float = _option(0.7, "dropout rate of the inputs of f", low=0, high=0.99)
    # against embeddings that memorise their edges; features differ less from node to node
    node_dropout: float = _option(0.0, "share of nodes whose inputs are dropped in a training step", low=0, high=0.99)
    dropout: float = _option(0.5, "dropout rate of the output of f", low=0, high=0.99)  # never inside the descent
    output_norm: bool = _option(True, "layer normalisation of the final embeddings")  # hubs no longer dominate
    # structure at node-wise cost, for three more rows of that size per node
    sketch_size: int = _option(0, "dimensions of structural sketches (common-neighbour estimates); 0 for none", low=0)
    # what sketches cost too much for on large graphs; the best guess about a pair of which nothing else is known
    degree_column: bool = _option(False, "a column of the embeddings for the logarithm of the degree (dot decoder)")
    # what is old counts in full until validation shows a gain
    half_life: float | Literal["learned"] | None = _option(
        None,
        "time after which an edge weighs half, in the unit of its times (dates: seconds), 'learned', or none",
        above=0,
    )
    # half the bytes to move, for two digits of precision
    storage: Literal["float32", "bfloat16"] = _option(
        "float32", "number type of stored layers; sums are always float32"
    )
    # for graphs that would not fit otherwise
    recompute: bool = _option(False, "recompute the layers in the backward pass, to save memory")

    @property
    def structure_columns(self) -> int:
        """Columns beside the embeddings: of the sketches, or of the degree."""
        return 3 * self.sketch_size + 1 if self.sketch_size else int(self.degree_column)


@dataclass(frozen=True)
class DecoderSettings(_Checked):
    """Settings of the decoder, the function of two stored embeddings that scores a pair.

    Raises
    ------
    SettingsError
        If a value is out of its range.

    Examples
    --------
    >>> from yinyan import DecoderSettings
    >>> DecoderSettings(kind="dot").kind
    'dot'
    """

    # dot suits plain MIPS; multi-dot scores all pairs at the cost of dot, with signs and interactions; complex is for
    # graphs with many relations
    kind: Literal["hadamard", "dot", "multi-dot", "distance", "complex"] = _option(
        "hadamard", "decoder: the function of two embeddings that scores a pair"
    )
    depth: int = _option(2, "number of layers of the Hadamard MLP", low=1)  # one hidden layer: enough for small graphs
    width: int = _option(256, "dimensions of the hidden layers of the Hadamard MLP", low=1)  # as wide as the embeddings
    residual: bool = _option(False, "residual connections in the Hadamard MLP")  # for depths of three and more
    norm: bool = _option(False, "layer normalisation in the Hadamard MLP")  # the size of y_i * y_j carries information
    heads: int = _option(4, "number of inner products of the multi-dot decoder", low=1)  # one: a signed inner product
    # a few thousand edges overfit it
    dropout: float = _option(0.5, "dropout rate of the hidden layers of the decoder", low=0, high=0.99)
    # otherwise a->b and b->a score alike
    directed_maps: bool = _option(True, "separate linear maps of source and target in a directed graph")
    allow_symmetric: bool = _option(False, "allow a symmetric decoder for a directed graph")  # must be asked for
    # where they bring nothing beyond noise, a score stays one of two stored vectors
    rerank: bool = _option(True, "add exact common-neighbour counts to scores where validation edges rank higher by it")


@renamed_fields(validation_share="valid_share", validation_negatives="valid_negatives")
@dataclass(frozen=True)
class TrainingSettings(_Checked):
    """Settings of the training loop: batches, loss, optimiser, validation and stopping.

    Raises
    ------
    SettingsError
        If a value is out of its range.

    Examples
    --------
    >>> from yinyan import TrainingSettings
    >>> TrainingSettings(epochs=20).epochs
    20
    """

    epochs: int = _option(150, "maximum number of passes over the training edges", low=1)  # the schedule ends with them
    batch_size: int = _option(0, "target edges per step; 0 for all", low=0)  # small batches mask few edges
    # rows of rare nodes move as far as those of hubs with the second
    optimizer: Literal["adam", "adagrad"] = _option("adam", "optimiser: Adam, or Adagrad")
    learning_rate: float = _option(0.004, "learning rate of the optimiser", above=0)  # with clipping, cosine schedule
    weight_decay: float = _option(0.5, "decoupled weight decay of Adam", low=0)  # times the rate: .2 % per step
    # weight decay knows no difference between rare nodes and hubs
    n3: float = _option(
        0.0, "weight of the N3 penalty (third powers) of embeddings and relations, of the complex decoder", low=0
    )
    schedule: Literal["constant", "cosine", "linear"] = _option("cosine", "schedule of the learning rate")  # ends calm
    warmup: float = _option(0.05, "share of the steps with a rising learning rate", low=0, high=1)  # deep decoders
    clip_norm: float = _option(1.0, "maximum gradient norm; 0 for no clipping", low=0)  # rare spikes, no bias else
    # a table of millions of rows has no memory to spare for a number of each kind per entry
    moments: Literal["entries", "rows"] = _option(
        "entries", "gradient variances of Adam for learned embeddings: per entry, or per row to save memory"
    )
    # smooths the choice of the best epoch
    averaging: float = _option(
        0.98, "decay of the running average of the weights; 0 for no average", low=0, high=0.9999
    )
    # a calibrated log-loss
    loss: Literal["paper", "squared", "auc", "hinge", "logrank", "infonce", "hardest"] = _option(
        "paper", "training loss"
    )
    # steadier gradients at little cost
    loss_negatives: int = _option(3, "negatives per target edge in the loss", low=1)
    # as in the evaluation
    loss_sampler: Literal["global", "source", "shared", "all"] = _option(
        "global",
        "negatives of the loss: both ends random (global), one end kept (source), shared by a block, or all pairs",
    )
    # held-out and future edges are negatives in training
    missing_share: float = _option(
        0.0, "share of edges assumed to be missing among the negatives, with loss_sampler 'all'", low=0, high=0.99
    )
    # else the model learns to copy its input
    mask_targets: bool = _option(True, "hide the target edges of a step from its message graph")
    # at the time of an answer there is no message from the future either
    message_times: Literal["auto", "past", "all"] = _option(
        "auto",
        "edges that pass messages in a step: all, or those earlier than its targets (auto: past if split by time)",
    )
    # before them is too little to predict from
    history_share: float = _option(
        0.5,
        "share of the earliest edges that are messages and no targets, where steps see the past only",
        low=0,
        high=0.95,
    )
    # clean's 10 %
    valid_share: float = _option(0.1, "share of edges that fit holds out for validation", above=0, high=0.5)
    valid_negatives: int = _option(20_000, "number of negatives for validation", low=1)  # few make the best epoch luck
    # two metrics together wobble less than one
    selection: Literal["balanced", "ranking", "hits@20", "hits@50", "hits@100", "mrr", "auc"] = _option(
        "balanced",
        "validation metric for the best epoch: Hits@10% + AUC (balanced), lists + AUC (ranking), or one metric",
    )
    # the last is for comparison
    keep: Literal["best", "last"] = _option("best", "weights to keep: of the best validation or of the last step")
    evaluate_every: int = _option(3, "number of epochs between validations", low=1)  # averaged weights move slowly
    # a third of the epochs
    patience: int = _option(20, "number of validations without progress before stopping; 0 for never", low=0)
    # any gain counts; `defaults` asks for more than noise
    min_gain: float = _option(
        0.0, "gain of the validation score that counts as progress for patience, in its standard errors", low=0
    )
    # finding an order takes seconds; `defaults` asks for it where it pays
    node_order: Literal["given", "local"] = _option(
        "given", "order of nodes in memory during training: as given, or neighbours near each other (local)"
    )
    # better than to be killed half way
    refuse_oversize: bool = _option(True, "refuse a run whose estimated memory exceeds the free memory")
    refuse_runaway: bool = _option(True, "stop a run whose layers diverge")  # normalisation would hide it
    # expected negatives need one only
    inference_samples: int = _option(1, "number of negative samples averaged at inference", low=1)


@dataclass(frozen=True)
class Settings:
    """All settings of a model, group by group.

    Examples
    --------
    >>> from yinyan import EncoderSettings, Settings
    >>> Settings(encoder=EncoderSettings(num_steps=3)).encoder.num_steps
    3
    """

    encoder: EncoderSettings = field(default_factory=EncoderSettings)  # base model and descent steps
    decoder: DecoderSettings = field(default_factory=DecoderSettings)  # score of a pair
    training: TrainingSettings = field(default_factory=TrainingSettings)  # training loop

    def updated(self, overrides: Mapping[str, Any]) -> Settings:
        """A copy with other values.

        Parameters
        ----------
        overrides
            Values by name, by group.

        Returns
        -------
        Settings
            The copy.

        Raises
        ------
        SettingsError
            If a group or name is unknown, or a value is out of its range.

        Examples
        --------
        >>> from yinyan import Settings
        >>> Settings().updated({"encoder": {"num_steps": 3}}).encoder.num_steps
        3
        """
        groups: dict[str, Any] = {}
        for name, values in overrides.items():
            if name not in GROUPS:
                raise SettingsError(_unknown(name, name, list(GROUPS)))
            groups[name] = _updated_group(getattr(self, name), values)
        return dataclasses.replace(self, **groups)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values, ready for TOML: `None` becomes the text "none".

        Returns
        -------
        dict
            Values by name, by group.

        Examples
        --------
        >>> from yinyan import Settings
        >>> Settings().to_dict()["encoder"]["margin"]
        'none'
        """
        return {
            name: {k: "none" if v is None else v for k, v in dataclasses.asdict(getattr(self, name)).items()}
            for name in GROUPS
        }

    def to_toml(self) -> str:
        """All settings as a TOML document, so that a later default changes none.

        Returns
        -------
        str
            The document.

        Examples
        --------
        >>> from yinyan import Settings
        >>> Settings().to_toml().splitlines()[0]
        '[encoder]'
        """
        import tomli_w

        return tomli_w.dumps(self.to_dict())


GROUPS: dict[str, type[EncoderSettings] | type[DecoderSettings] | type[TrainingSettings]] = {
    "encoder": EncoderSettings,
    "decoder": DecoderSettings,
    "training": TrainingSettings,
}


# names of earlier versions, group by group: they work for one version, with a warning
RENAMED = {"training": {"validation_share": "valid_share", "validation_negatives": "valid_negatives"}}


def grouped(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings without their group, such as `num_steps`, under the group that has them."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        homes = [group for group, kind in GROUPS.items() if name in kind.__dataclass_fields__]
        if not homes:
            known = sorted({f for kind in GROUPS.values() for f in kind.__dataclass_fields__})
            raise SettingsError(_unknown(name, name, known))
        if len(homes) > 1:
            cure = " or ".join(f"{group}={{{name!r}: …}}" for group in homes)
            raise SettingsError(f"{name}: a setting of {' and of '.join(homes)} (write {cure})")
        found.setdefault(homes[0], {})[name] = value
    return found


# settings of earlier versions that only training read: a model saved with them loads without them
_RETIRED = {
    "encoder": ("table_start", "table_missing", "table_shrinkage", "table_ridge"),
    "training": ("updates_per_propagation", "clusters", "clusters_per_step"),
}


def without_retired(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by group, as an earlier version saved them, without those that this version no longer has."""
    kept = dict(groups)
    for group, names in _RETIRED.items():
        if isinstance(kept.get(group), Mapping):
            kept[group] = {name: value for name, value in kept[group].items() if name not in names}
    return kept


def read_settings(path: str | Path, *, saved: bool = False) -> dict[str, dict[str, Any]]:
    """Overrides from a TOML file: `[encoder]`, `[decoder]` and `[training]`, each complete or partial.

    The file of a `saved` model may hold settings that this version no longer has; they are left out.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"cannot read the settings file '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"'{path}' is not a TOML file: {error}") from error
    return settings_from_text(text, path, saved=saved)


def settings_from_text(text: str, path: str | Path, *, saved: bool = False) -> dict[str, dict[str, Any]]:
    """As `read_settings`, from the content of a file; `path` names it in errors."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"'{path}' is not a TOML file: {error}") from error
    if saved:
        document = without_retired(document)
    for group, renamed in RENAMED.items() if saved else ():  # nobody wrote these by hand
        document[group] = {renamed.get(name, name): value for name, value in document.get(group, {}).items()}
    Settings().updated(document)  # every key and value is checked before anything is trained
    return document


def parse_overrides(assignments: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Overrides from texts such as "encoder.num_steps=3", each value in its setting's type."""
    overrides: dict[str, dict[str, Any]] = {}
    for text in assignments:
        path, sign, value = text.partition("=")
        group, dot, name = path.strip().partition(".")
        if not sign or not path.strip():
            raise SettingsError(f"{text!r} needs to be name=value, such as encoder.num_steps=3")
        if not dot:
            near = min(setting_paths(), key=lambda known: -_likeness(group, known.partition(".")[2]))
            raise SettingsError(f"{group}: unknown setting (nearest: '{near}')")
        name = RENAMED.get(group, {}).get(name, name)
        known = f"{group}.{name}" in setting_paths()
        overrides.setdefault(group, {})[name] = _parsed(GROUPS[group], name, value.strip()) if known else value
    Settings().updated(overrides)  # refuses unknown names and wrong values
    return overrides


def setting_paths() -> list[str]:
    """The names of all settings, such as "encoder.num_steps"."""
    return [f"{group}.{f.name}" for group, kind in GROUPS.items() for f in dataclasses.fields(kind)]


def allowed_values(group: str, name: str) -> str:
    """Type, range and choices of a setting, in words."""
    owner: type = GROUPS[group]
    kinds, choices = allowed_kinds(type_hints(owner)[name])
    return _in_words(next(f for f in dataclasses.fields(owner) if f.name == name), kinds, choices)


def _parsed(owner: type, name: str, text: str) -> Any:
    """A text as the setting's type; one that fits none stays text, which the check refuses."""
    kinds, choices = allowed_kinds(type_hints(owner)[name])
    if text in choices:
        return text
    if bool in kinds:
        return {"true": True, "false": False}.get(text.lower(), text)
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                break
    return text


def _likeness(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def _updated_group(group: _Group, values: Mapping[str, Any] | _Group) -> _Group:
    if isinstance(values, type(group)):
        return values
    prefix = _group_name(type(group))
    if not isinstance(values, Mapping):
        raise SettingsError(f"{prefix}: needs a mapping of settings or {type(group).__name__} (got {values!r})")
    known = [f.name for f in dataclasses.fields(group)]
    values = _by_new_names(prefix, values)
    for name in values:
        if name not in known:
            raise SettingsError(_unknown(f"{prefix}.{name}", name, known))
    return dataclasses.replace(group, **values)


def _by_new_names(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    renamed = RENAMED.get(group, {})
    for old in renamed.keys() & values.keys():
        if renamed[old] in values:
            raise SettingsError(f"{group}.{old}: is the old name of {renamed[old]!r}, which is given too: leave it out")
        warn_deprecated(f"{group}.{old}", f"{group}.{renamed[old]}", depth=4)
    return {renamed.get(name, name): value for name, value in values.items()}


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

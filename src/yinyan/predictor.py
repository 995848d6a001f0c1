"""LinkPredictor: the object people hold."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.auditing import audit
from yinyan.calibration import BASE_RATE, Method, shifted
from yinyan.defaults import suggest
from yinyan.errors import InputError, NotFittedError, SettingsError
from yinyan.explanation import explain_pair
from yinyan.extension import extend
from yinyan.fitting import Fitted, Hooks, fit_model
from yinyan.graph import Graph
from yinyan.randomness import Streams
from yinyan.results import Contribution, Explanation, Id, Recommendations
from yinyan.retrieval.asking import Ask, Where, as_list, is_id, recommended
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index, build_index
from yinyan.retrieval.index_store import load_index
from yinyan.retrieval.mining import best_pairs
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import GROUPS, DecoderSettings, EncoderSettings, TrainingSettings
from yinyan.splits import Split, holdout_split
from yinyan.tensors import feature_tensor, message_graph, pick_device
from yinyan.training import decode

__all__ = ["LinkPredictor"]

Overrides = Mapping[str, Any]
Pair = tuple[Id, Id]


class LinkPredictor:
    """Predicts missing links of a graph.

    `encoder`, `decoder` and `training` override single settings, as mappings of names to values; what they do not
    name is chosen by the size and the features of the graph. A settings object in their place fixes a whole group.
    """

    def __init__(
        self,
        *,
        encoder: Overrides | EncoderSettings | None = None,
        decoder: Overrides | DecoderSettings | None = None,
        training: Overrides | TrainingSettings | None = None,
        calibration: Method = "platt",
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.decoder = decoder
        self.training = training
        self.calibration = calibration
        self.seed = seed
        self.device = device

    # -- scikit-learn's contract ---------------------------------------------------------------------------

    _parameters = ("encoder", "decoder", "training", "calibration", "seed", "device")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; `deep` adds single overrides as `encoder__num_steps` and so on."""
        found = {name: getattr(self, name) for name in self._parameters}
        if deep:
            for group in GROUPS:
                if isinstance(found[group], Mapping):
                    found |= {f"{group}__{name}": value for name, value in found[group].items()}
        return found

    def set_params(self, **params: Any) -> LinkPredictor:
        """Change parameters by the names of `get_params`; single settings as `encoder__num_steps`."""
        for name, value in params.items():
            group, _, setting = name.partition("__")
            if name in self._parameters:
                setattr(self, name, value)
            elif setting and group in GROUPS:
                present = getattr(self, group)
                if present is not None and not isinstance(present, Mapping):
                    present = vars(present)
                setattr(self, group, {**(present or {}), setting: value})
            else:
                known = ", ".join([*self._parameters, *(f"{group}__…" for group in GROUPS)])
                raise SettingsError(f"{name!r} is not a parameter of LinkPredictor (it has {known})")
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # whoever asks for tags has scikit-learn

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __repr__(self) -> str:
        given = [f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if v is not None]
        return f"LinkPredictor({', '.join(given)})"

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(
        self, graph: Graph, y: None = None, *, split: Split | None = None, hooks: Hooks | None = None
    ) -> LinkPredictor:
        """Learn from the links of `graph`, from scratch; returns self.

        A tenth of the links is held out to choose the weights and to calibrate probabilities; the final embeddings
        see them all. With a `split`, its own roles apply; one that leaks is refused. `y` is there for scikit-learn's
        pipelines.
        """
        if not isinstance(graph, Graph):
            raise InputError(f"fit needs a yinyan.Graph (got {type(graph).__name__}): see Graph.from_table")
        if self.calibration not in ("platt", "isotonic"):
            raise SettingsError(f"'calibration' needs to be 'platt' or 'isotonic' (got {self.calibration!r})")
        if isinstance(self.seed, bool) or not isinstance(self.seed, (int, np.integer)):
            raise SettingsError(f"'seed' needs to be an integer (got {self.seed!r})")
        overrides = {g: getattr(self, g) for g in GROUPS if getattr(self, g) is not None}
        first = suggest(graph, graph.num_edges).settings.updated(overrides).training
        if split is None:
            split = holdout_split(
                graph,
                seed=int(self.seed),
                valid_share=first.validation_share,
                valid_negatives=first.validation_negatives,
            )
        elif split.graph is not graph:
            raise InputError("the split was made from another graph (make it anew from this one)")
        else:
            audit(split)
        suggestion = suggest(graph, len(split.train_targets))
        self.fitted_ = fit_model(
            split,
            suggestion.settings.updated(overrides),
            seed=int(self.seed),
            device=pick_device(self.device),
            calibration=self.calibration,
            hooks=hooks or Hooks(),
            reasons=suggestion.reasons,
        )
        return self

    @property
    def graph_(self) -> Graph:
        """The graph that the model knows."""
        return self._fitted.graph

    @property
    def embeddings_(self) -> NDArray[np.float32]:
        """(n, d): a row for each node, in the order of `graph_.ids`; the first `encoder.hidden_size` columns are the
        embedding, the others sketches of its neighbourhood, if there are any."""
        view: NDArray[np.float32] = self._fitted.embeddings.cpu().numpy().view()
        view.flags.writeable = False  # it may share memory with the model
        return view

    @property
    def metrics_(self) -> dict[str, float]:
        """Figures on the held-out validation links."""
        return dict(self._fitted.metrics)

    @property
    def _fitted(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise NotFittedError("this LinkPredictor is not fitted yet: call fit(graph) first, or load a saved model")
        return self.fitted_

    # -- asking --------------------------------------------------------------------------------------------

    def recommend(
        self,
        nodes: Id | Sequence[Id],
        k: int = 10,
        *,
        among: Iterable[Id] | None = None,
        known: bool = False,
        where: Where | None = None,
    ) -> Recommendations:
        """The `k` best new partners of each node: known links are left out unless `known`.

        `among` restricts the candidates, and so does `where`: a function of an id, or a boolean for each node in the
        order of `graph_.ids`. In a bipartite graph they come from the other side. Fewer than `k` candidates are fewer
        rows.
        """
        fitted = self._fitted
        return recommended(fitted.graph, self._exact_ask(), nodes, k, among=among, known=known, where=where)

    def index(
        self,
        kind: Literal["auto", "exact", "mips", "flashlight"] = "auto",
        *,
        recall: float | None = 0.98,
        milliseconds: float | None = None,
        megabytes: float | None = None,
        k: int = 100,
        seed: int = 0,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Index:
        """An index that recommends without scoring every node.

        It chooses its own parameters within the budgets: a `recall` of the exact `k` best, `milliseconds` a node,
        `megabytes` beside the embeddings. What it measured is in its `metadata`, and is told.
        """
        fitted = self._fitted
        budget = Budget(recall=recall, milliseconds=milliseconds, megabytes=megabytes, k=k)
        decoder, y = fitted.model.decoder, fitted.embeddings
        return build_index(fitted.graph, decoder, y, kind=kind, budget=budget, seed=seed, tell=tell)

    def load_index(self, path: str | Path) -> Index:
        """The index that was saved in the directory of this model; refused if the model has changed since."""
        fitted = self._fitted
        return load_index(Path(path), fitted.graph, fitted.model.decoder, fitted.embeddings)

    def best_links(
        self,
        k: int = 100,
        *,
        index: Index | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Recommendations:
        """The `k` best new links of the whole graph, ranked from 1: exactly, or as well as an `index` finds them."""
        fitted = self._fitted
        ask = index.top_k if index is not None else self._exact_ask()
        symmetric = fitted.model.decoder.is_symmetric and not fitted.graph.directed
        pairs, scores = best_pairs(
            fitted.graph, ask, self.score_rows, k, symmetric=symmetric, on_progress=on_progress, should_stop=should_stop
        )
        ids = fitted.graph.ids
        return Recommendations(
            tuple(ids.take(pairs[:, 0])), tuple(ids.take(pairs[:, 1])), scores, np.arange(1, len(pairs) + 1)
        )

    def _exact_ask(self) -> Ask:
        fitted = self._fitted
        return functools.partial(ExactSearch(fitted.model.decoder).top_k, Snapshot.of(fitted.embeddings, check=False))

    @overload
    def score(self, pairs: Pair) -> float: ...
    @overload
    def score(self, pairs: Sequence[Pair] | NDArray[Any]) -> NDArray[np.float32]: ...
    def score(self, pairs: Any) -> Any:
        """One score a pair, the larger the likelier: (p,) for a sequence of pairs, a float for one pair."""
        single = _is_pair(pairs)
        scores = self.score_rows(self._pair_rows([pairs] if single else pairs))
        return float(scores[0]) if single else scores

    def score_rows(self, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores of (p, 2) pairs of rows of `graph_`, for those who have rows and no ids."""
        fitted = self._fitted
        rows = torch.from_numpy(np.ascontiguousarray(pairs)).to(fitted.embeddings.device)
        return decode(fitted.model.decoder, fitted.embeddings, rows)

    @overload
    def predict_proba(self, pairs: Pair, *, base_rate: float = ...) -> float: ...
    @overload
    def predict_proba(self, pairs: Sequence[Pair] | NDArray[Any], *, base_rate: float = ...) -> NDArray[np.float64]: ...
    def predict_proba(self, pairs: Any, *, base_rate: float = BASE_RATE) -> Any:
        """The probability that each pair is a link, calibrated on held-out pairs.

        It holds where a share `base_rate` of the pairs asked about are links: 0.5, or what you know of yours.
        """
        scores = self.score(pairs)
        chances = shifted(self._fitted.calibration.probabilities(scores), base_rate)
        return float(chances) if chances.ndim == 0 else chances

    def explain(self, source: Id, target: Id) -> Explanation:
        """Which neighbours, attracting and repelling, moved the score of a pair, and by how much.

        With sampled negatives the first sample is explained, even if scores average over several.
        """
        fitted = self._fitted
        ids = fitted.graph.ids
        a, b = (int(row) for row in ids.rows([source, target]))
        if a == b:
            raise InputError(f"explain needs two different nodes (got {source!r} twice)")
        device = fitted.embeddings.device
        shares, alone, full = explain_pair(
            fitted.encoder,
            fitted.model.decoder,
            feature_tensor(fitted.graph.features, device),
            message_graph(fitted.graph, fitted.message_edges, device),
            a,
            b,
            Streams.fresh(fitted.seed, "inference/0", device),
        )
        return Explanation(
            source=ids[a],
            target=ids[b],
            score=full,
            score_alone=alone,
            contributions=tuple(
                Contribution(
                    ids[s.end],
                    None if s.neighbour is None else ids[s.neighbour],
                    "attracts" if s.attracts else "repels",
                    s.amount,
                )
                for s in shares
            ),
            residue=full - alone - sum(s.amount for s in shares),
            is_link=bool(fitted.graph.has_edges([(a, b)])[0]),
            probability=float(shifted(fitted.calibration.probabilities(full), BASE_RATE)),
            base_rate=BASE_RATE,
        )

    def energy_trace(self, num_steps: int | None = None) -> list[float]:
        """The energy before the first layer and after each, for the model's own number of layers or another."""
        fitted = self._fitted
        device = fitted.embeddings.device
        return fitted.model.encoder.energy_trace(
            feature_tensor(fitted.graph.features, device),
            message_graph(fitted.graph, fitted.message_edges, device),
            negatives=Streams.fresh(fitted.seed, "inference/0", device),
            num_steps=num_steps,
        )

    def embed(self, nodes: Id | Sequence[Id]) -> NDArray[np.float32]:
        """The stored vectors of nodes, (len(nodes), d); (d,) for one node: columns as of `embeddings_`."""
        fitted = self._fitted
        rows = fitted.graph.ids.rows(as_list(nodes))
        vectors: NDArray[np.float32] = fitted.embeddings[torch.from_numpy(rows)].cpu().numpy()
        return vectors[0] if is_id(nodes) else vectors

    def embed_new(
        self, features: Any, edges: Iterable[tuple[Id, Id]], *, ids: Sequence[Id] | None = None
    ) -> NDArray[np.float32]:
        """Vectors (m, d) of m unseen nodes: the layers run again on the extended graph, nothing is retrained.

        `features` has a row for each new node (a matrix, or a table with the columns the model was trained on; None
        for a model without features). `edges` joins new nodes, called by `ids` or, without, by their row 0..m-1, to
        known ids: (new, known).
        """
        grown = extend(self._fitted, features, list(edges), ids)
        vectors: NDArray[np.float32] = grown.fitted.embeddings[torch.from_numpy(grown.rows)].cpu().numpy()
        return vectors

    def extended(self, ids: Sequence[Id], features: Any, edges: Iterable[tuple[Id, Id]]) -> LinkPredictor:
        """A predictor that also knows new nodes, to ask it about them; this one stays as it is."""
        grown = LinkPredictor(**self.get_params(deep=False))
        grown.fitted_ = extend(self._fitted, features, list(edges), ids).fitted
        return grown

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to a directory, whole or not at all."""
        from yinyan.store import save_model

        save_model(Path(path), self._fitted, self.get_params(deep=False))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> LinkPredictor:
        """Read a model back; refuses what is incomplete, altered or of a newer format."""
        from yinyan.store import load_model

        fitted, params = load_model(Path(path), pick_device(device))
        model = cls(**{**params, "device": device})
        model.fitted_ = fitted
        return model

    def _pair_rows(self, pairs: Any) -> NDArray[np.int64]:
        if not isinstance(pairs, Iterable):
            raise InputError(f"pairs are (source, target) or a sequence of such (got {pairs!r})")
        listed = [tuple(pair) if not is_id(pair) else (pair,) for pair in pairs]
        for place, pair in enumerate(listed):
            if len(pair) != 2:
                raise InputError(f"pair {place} needs two ids (got {pair!r})")
        ids = self._fitted.graph.ids
        first, second = ids.rows([p[0] for p in listed]), ids.rows([p[1] for p in listed])
        return np.stack([first, second], axis=1)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(is_id(part) for part in value)

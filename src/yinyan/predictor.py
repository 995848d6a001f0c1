"""LinkPredictor: the object people hold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.auditing import audit
from yinyan.deprecation import renamed_keyword, reordered
from yinyan.drawing import NeighbourhoodDrawing, draw_neighbourhood
from yinyan.errors import InputError, NotFittedError, SettingsError, StoreError
from yinyan.exporting.node_vectors import Kind, NodeVectors
from yinyan.exporting.onnx_decoder import write_onnx
from yinyan.graph import Graph
from yinyan.graph.conversion import as_any_graph
from yinyan.graph.pair_tables import is_frame, pairs_from_table
from yinyan.graph.typed_graph import RelationName, TypedGraph
from yinyan.live.new_nodes import extend
from yinyan.live.typed_new_nodes import extend_typed
from yinyan.model.calibration import Method
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import Fitted
from yinyan.model.quality import weakness
from yinyan.model.tensors import pick_device
from yinyan.model.typed_fitted import TypedFitted
from yinyan.randomness import Streams
from yinyan.results import Explanation, Id, Recommendations
from yinyan.retrieval.best_links import FIRST
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.choice import Chooser, Search
from yinyan.retrieval.held_out import reranked_lists
from yinyan.retrieval.index import Index
from yinyan.retrieval.index_store import load_index
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.recommend import Rules, Where, checked_k
from yinyan.retrieval.state import FittedState
from yinyan.retrieval.typed_questions import TypedQuestions
from yinyan.settings import GROUPS, DecoderSettings, EncoderSettings, Settings, TrainingSettings, grouped
from yinyan.splits import Split
from yinyan.splits.typed_split import TypedSplit, typed_holdout
from yinyan.text import html_facts, listed
from yinyan.threads import use_threads

if TYPE_CHECKING:
    from yinyan.graph.moments import Moment
    from yinyan.monitoring.drift import Drift
    from yinyan.store.parts import WrittenRows
    from yinyan.training.hooks import Hooks
    from yinyan.training.showing import Verbose
    from yinyan.tuning.outcome import Tuning

__all__ = ["LinkPredictor"]

Overrides = Mapping[str, Any]
Pair = tuple[Id, Id]


class LinkPredictor:
    """Predicts missing links of a graph.

    A setting that is not given is chosen by the size and the features of the graph; `reasons_` lists why. Before `fit`,
    a query raises NotFittedError.

    Parameters
    ----------
    encoder, decoder, training
        Settings of one group: a mapping of names to values, or a settings object, which fixes the whole group.
    calibration
        Calibration method of the probabilities: 'platt' or 'isotonic'.
    seed
        Seed of all random numbers.
    device
        'auto', 'cpu', 'cuda' or 'mps'.
    threads
        Number of threads, for the whole process. Without it the environment variable YINYAN_THREADS counts, and else
        all cores that the process may use. It is not saved with a model. Sums of other numbers of threads may differ
        in their last digits.
    settings
        Single settings without their group, such as `num_steps=3`.

    Raises
    ------
    SettingsError
        If a single setting is unknown, or is a setting of two groups.

    Examples
    --------
    >>> from yinyan import LinkPredictor
    >>> LinkPredictor(num_steps=3, epochs=1).fit(graph).settings_.encoder.num_steps
    3
    """

    tuning_: Tuning  # of `tuned`

    def __init__(
        self,
        *,
        encoder: Overrides | EncoderSettings | None = None,
        decoder: Overrides | DecoderSettings | None = None,
        training: Overrides | TrainingSettings | None = None,
        calibration: Method = "platt",
        seed: int = 0,
        device: str = "auto",
        threads: int | None = None,
        **settings: Any,
    ) -> None:
        self.encoder = encoder
        self.decoder = decoder
        self.training = training
        self.calibration = calibration
        self.seed = seed
        self.device = device
        self.threads = threads
        self._set(grouped(settings))

    def _set(self, overrides: Mapping[str, Mapping[str, Any]]) -> None:
        """Single settings into their groups."""
        for group, values in overrides.items():
            present = getattr(self, group)
            if present is not None and not isinstance(present, Mapping):
                present = vars(present)
            setattr(self, group, {**(present or {}), **values})

    # -- scikit-learn's contract ---------------------------------------------------------------------------

    _parameters = ("encoder", "decoder", "training", "calibration", "seed", "device", "threads")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters, as scikit-learn asks for them.

        Parameters
        ----------
        deep
            Whether single settings are added, as `encoder__num_steps` and so on.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> from yinyan import LinkPredictor
        >>> LinkPredictor(num_steps=3).get_params()["encoder__num_steps"]
        3
        """
        found = {name: getattr(self, name) for name in self._parameters}
        if deep:
            for group in GROUPS:
                if isinstance(found[group], Mapping):
                    found |= {f"{group}__{name}": value for name, value in found[group].items()}
        return found

    def set_params(self, **params: Any) -> LinkPredictor:
        """Change parameters by the names of `get_params`.

        Parameters
        ----------
        params
            Parameters of the constructor; single settings as `encoder__num_steps` or `num_steps`.

        Returns
        -------
        LinkPredictor
            This predictor.

        Raises
        ------
        SettingsError
            If a name is unknown.

        Examples
        --------
        >>> from yinyan import LinkPredictor
        >>> LinkPredictor().set_params(num_steps=3).encoder
        {'num_steps': 3}
        """
        for name, value in params.items():
            group, _, setting = name.partition("__")
            if name in self._parameters:
                setattr(self, name, value)
            else:
                self._set({group: {setting: value}} if setting and group in GROUPS else grouped({name: value}))
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags  # whoever asks for tags has scikit-learn

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __repr__(self) -> str:
        given = [f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if v is not None]
        return f"LinkPredictor({', '.join(given)})"

    def _repr_html_(self) -> str:
        if hasattr(self, "fitted_") and isinstance(self.fitted_, TypedFitted):
            return self.fitted_.graph._repr_html_()
        if not hasattr(self, "fitted_"):
            return html_facts("LinkPredictor, not fitted", {k: repr(v) for k, v in self.get_params(deep=False).items()})
        fitted = self.fitted_
        facts = {
            "graph": f"{fitted.graph.num_nodes:,} nodes, {fitted.graph.num_edges:,} edges",
            "embeddings": f"{fitted.settings.encoder.hidden_size} dimensions",
            "training": f"{len(fitted.history)} epochs in {fitted.seconds:.0f} s",
            "seed": str(fitted.seed),
        }
        facts |= {f"validation {name}": f"{value:.4f}" for name, value in fitted.metrics.items()}
        return html_facts("LinkPredictor", facts)

    # -- fitting -------------------------------------------------------------------------------------------

    def fit(
        self,
        graph: Any,
        y: None = None,
        *,
        predict: RelationName | Sequence[RelationName] | None = None,
        split: Split | TypedSplit | None = None,
        as_of: Moment | None = None,
        hooks: Hooks | None = None,
        verbose: Verbose = "auto",
        keep_best: bool = False,
    ) -> LinkPredictor:
        """Learn from the edges of `graph`, from scratch.

        A tenth of the edges is held out to choose the weights and to calibrate probabilities, over the lists that are
        recommended without them; the final embeddings use them all. It is a random tenth, or the latest where edges
        have times; `fitted_.split_text` says which.

        Parameters
        ----------
        graph
            The graph to learn from: a `Graph`, or a NetworkX graph, a table of edges (data frame, Arrow table, dict of
            columns, path), a SciPy sparse matrix or a PyTorch Geometric `Data`, which are converted with default
            options. `hooks.tell` is called with a line on the conversion. A graph with relations (`TypedGraph`, or
            PyG's `HeteroData`) trains a model of relations.
        y
            Ignored; present for scikit-learn's pipelines.
        predict
            Of a graph with relations the one that is predicted, or several; all unless given. The edges of the others
            pass messages only.
        split
            A split of `graph` whose roles apply in place of the held-out tenth. One that leaks is refused.
        as_of
            A moment, such as '2024-05-31' or a number: nothing later is used. The model is that of
            `graph.as_of(as_of)`, without later edges and without nodes whose edges are all later.
        hooks
            Callbacks: progress, trackers, checkpoint, stopping. With hooks, `verbose` 'auto' shows nothing.
        verbose
            Whether progress is shown on standard error, with the time left: True, False, or 'auto', which shows a run
            of more than ten seconds: a bar on a terminal and in a notebook, plain lines in a file.
        keep_best
            Whether Ctrl-C (in a notebook, the interruption of the kernel) ends the training and keeps the best weights
            so far. Without it Ctrl-C raises KeyboardInterrupt.

        Returns
        -------
        LinkPredictor
            This predictor, fitted.

        Raises
        ------
        InputError
            If `graph` cannot be converted, `split` was made from another graph, `as_of` is no moment of its edges, or
            `predict` names no relation.
        SettingsError
            If a parameter of this predictor is out of its range.
        LeakError
            If `split` leaks.
        TrainingError
            If training would take more memory than is free, or diverges.
        StoppedError
            If `hooks` stop it.

        Examples
        --------
        >>> from yinyan import LinkPredictor
        >>> LinkPredictor(training={"epochs": 1}).fit(graph).graph_ is graph
        True
        """
        from yinyan.training.chosen import chosen  # asking imports no training
        from yinyan.training.fit import fit_model
        from yinyan.training.showing import watched

        graph = as_any_graph(graph, (lambda text: None) if hooks is None else hooks.tell)
        if as_of is not None:
            if split is not None:
                raise InputError("'as_of' and 'split' exclude each other: split graph.as_of(date)")
            graph = graph.as_of(as_of)
        if self.calibration not in ("platt", "isotonic"):
            raise SettingsError(f"'calibration' needs to be 'platt' or 'isotonic' (got {self.calibration!r})")
        seed, overrides = self._checked_seed(), self._given()
        if isinstance(graph, TypedGraph):
            return self._fit_typed(graph, predict, split, overrides, hooks, verbose, keep_best=keep_best)
        if predict is not None:
            raise InputError(
                f"'predict' names relations, and this graph has one kind of edge (got {predict!r}): leave it out, or "
                "make the graph with Graph.from_tables"
            )
        if isinstance(split, TypedSplit):
            raise InputError("this split is of a graph with relations, and the graph has none")
        split, settings, reasons = chosen(graph, overrides, seed=seed, split=split)
        audit(split)
        with watched(hooks, verbose, keep_best=keep_best) as shown:
            if remark := use_threads(self.threads):
                shown.tell(remark)
            if split.protocol == "temporal-holdout":
                shown.tell(f"training: {split.graph.num_edges:,} edges, {split.words}")
            self.fitted_ = fit_model(
                split,
                settings,
                seed=seed,
                device=pick_device(self.device),
                calibration=self.calibration,
                hooks=shown,
                lists=partial(reranked_lists, seed=seed, rerank=settings.decoder.rerank),
                reasons=reasons,
            )
        self._warn_if_weak()
        return self

    @classmethod
    def tuned(
        cls,
        graph: Any,
        minutes: float = 20.0,
        *,
        split: Split | None = None,
        trials: int | None = None,
        seeds: int = 3,
        folder: str | Path | None = None,
        calibration: Method = "platt",
        seed: int = 0,
        device: str = "auto",
        threads: int | None = None,
        hooks: Hooks | None = None,
        verbose: Verbose = "auto",
        **settings: Any,
    ) -> LinkPredictor:
        """Search for settings within a budget of time, and fit with the best that were found.

        A small space of settings is searched by Optuna, the defaults first; trials that fall behind on validation
        edges end early. The best two and the defaults are then fitted on other seeds. Settings replace the defaults
        only if they are better by more than the spread over these seeds. `tuning_` holds the trials and figures.

        Parameters
        ----------
        graph
            The graph, as for `fit`; one without relations.
        minutes
            The budget of the search, over all runs of it. The final fit comes after it.
        split
            A split of `graph` whose test edges are kept away: the search sees the graph without them, and the final
            fit has this split.
        trials
            The largest number of trials; the budget alone decides unless given.
        seeds
            How many seeds the best settings and the defaults are compared on.
        folder
            A folder that keeps the trials: a stopped search goes on from there, one with a larger budget continues.
        calibration, seed, device, threads
            As for the constructor. Trials and the final fit have `seed`; the comparison has the seeds after it.
        hooks
            Callbacks, as for `fit`: lines on trials go to `hooks.tell`, `hooks.should_stop` ends the search.
        verbose
            Whether progress is shown, as for `fit`.
        settings
            Settings that are fixed and not searched: single ones, or groups such as `encoder={"num_steps": 3}`.

        Returns
        -------
        LinkPredictor
            A fitted predictor. Its `encoder`, `decoder` and `training` hold the settings that were given and found.

        Raises
        ------
        InputError
            If `graph` cannot be converted, has relations, or `split` was made from another one.
        SettingsError
            If the budget is too short for one comparison, or a parameter is out of its range.
        MissingExtraError
            If Optuna is not installed.
        StoreError
            If the folder holds the trials of another search.
        StoppedError
            If `hooks` stop it.

        Examples
        --------
        >>> import optuna
        >>> from yinyan import LinkPredictor
        >>> small = {"hidden_size": 8, "embedding_size": 8, "epochs": 1}
        >>> tuned = LinkPredictor.tuned(graph, minutes=1, trials=2, seeds=2, **small)
        >>> len(tuned.tuning_.trials), tuned.graph_ is graph
        (2, True)
        """
        from yinyan.training.showing import watched  # asking imports no training
        from yinyan.tuning.search import tune

        model = cls(calibration=calibration, seed=seed, device=device, threads=threads, **settings)
        graph = as_any_graph(graph, (lambda text: None) if hooks is None else hooks.tell)
        if isinstance(graph, TypedGraph):
            raise InputError("tuning is for graphs without relations: tune a relation alone, with graph.of_relation")
        if split is not None and split.graph is not graph:
            raise InputError("the split was made from another graph (make it anew from this one)")
        with watched(hooks, verbose, keep_best=False) as shown:
            use_threads(threads)
            found = tune(
                graph if split is None else split.graph_without_test(),
                minutes=minutes,
                given=model._given(),
                seed=model._checked_seed(),
                seeds=seeds,
                device=pick_device(device),
                trials=trials,
                folder=None if folder is None else Path(folder),
                tell=shown.tell,
                should_stop=shown.should_stop,
            )
        model.set_params(**found.overrides)
        model.tuning_ = found
        return model.fit(graph, split=split, hooks=hooks, verbose=verbose)

    def _given(self) -> dict[str, Any]:
        """The settings that were given, by group."""
        return {group: getattr(self, group) for group in GROUPS if getattr(self, group) is not None}

    def _checked_seed(self) -> int:
        if isinstance(self.seed, bool) or not isinstance(self.seed, (int, np.integer)):
            raise SettingsError(f"'seed' needs to be an integer (got {self.seed!r})")
        return int(self.seed)

    def _fit_typed(
        self,
        graph: TypedGraph,
        predict: RelationName | Sequence[RelationName] | None,
        split: Any,
        overrides: dict[str, Any],
        hooks: Hooks | None,
        verbose: Verbose,
        *,
        keep_best: bool,
    ) -> LinkPredictor:
        """Learn from a graph with relations."""
        from yinyan.training.showing import watched
        from yinyan.training.typed_defaults import suggest_typed
        from yinyan.training.typed_fit import fit_typed

        if split is None:
            names = tuple(graph.relations)
            first = suggest_typed(graph, names, graph.num_edges, overrides).settings.updated(overrides).training
            split = typed_holdout(
                *(graph, predict),
                seed=int(self.seed),
                valid_share=first.valid_share,
                valid_negatives=first.valid_negatives,
            )
        elif not isinstance(split, TypedSplit) or split.graph is not graph or predict is not None:
            raise InputError(
                "the split of a graph with relations is made from this graph, and names what is predicted: leave "
                "'predict' out, or make the split anew"
            )
        for part in split.parts.values():
            audit(part)
        num_targets = sum(len(part.train_targets) for part in split.parts.values())
        suggestion = suggest_typed(graph, split.predicted, num_targets, overrides)
        settings = suggestion.settings.updated(overrides)
        with watched(hooks, verbose, keep_best=keep_best) as chosen:
            if remark := use_threads(self.threads):
                chosen.tell(remark)
            made = fit_typed(
                split,
                settings,
                seed=int(self.seed),
                device=pick_device(self.device),
                calibration=self.calibration,
                hooks=chosen,
                lists=partial(reranked_lists, seed=int(self.seed), rerank=settings.decoder.rerank),
                reasons=suggestion.reasons,
            )
        self.fitted_ = cast("Fitted", made)
        self._warn_if_weak()
        return self

    def _warn_if_weak(self) -> None:
        """Say so if the model is hardly better than chance: its answers look like any other's."""
        if (wrong := weakness(self._either.metrics)) is not None:
            warnings.warn(wrong, stacklevel=3)

    @property
    def graph_(self) -> Graph:
        """The graph of the model, with the edges that it may use; a `TypedGraph` if it has relations."""
        return cast("Graph", self._either.graph)

    @property
    def embeddings_(self) -> NDArray[np.float32]:
        """(n, d): a row for each node, in the order of `graph_.ids`; the first `encoder.hidden_size` columns are the
        embedding, the others sketches of its neighbourhood, if there are any."""
        view: NDArray[np.float32] = self._either.embeddings.cpu().numpy().view()
        view.flags.writeable = False  # it may share memory with the model
        return view

    @property
    def metrics_(self) -> dict[str, float]:
        """Metrics on the held-out validation edges."""
        return dict(self._either.metrics)

    @property
    def base_rate_(self) -> float:
        """The base rate of the probabilities: missing edges as a share of all pairs of nodes without an edge.

        As many edges count as missing as were held out for validation; of a `split` with test edges, these. Of several
        predicted relations each has its own, which answers name.
        """
        return self._asked(None)[0].base_rate

    @property
    def settings_(self) -> Settings:
        """All settings that the model was trained with: those given, and those chosen for the graph."""
        return self._either.settings

    @property
    def reasons_(self) -> tuple[str, ...]:
        """Why settings that were not given were chosen: one line each."""
        return self._either.reasons

    @property
    def _either(self) -> Fitted | TypedFitted:
        """The fitted model, of relations or not."""
        if not hasattr(self, "fitted_"):
            raise NotFittedError("this LinkPredictor is not fitted yet: call fit(graph) first, or load a saved model")
        if self.threads is not None:
            use_threads(self.threads)
        return self.fitted_

    @property
    def _fitted(self) -> Fitted:
        fitted = self._either
        if isinstance(fitted, TypedFitted):
            raise InputError(
                "this model has relations, which are not understood here: ask with relation=, or fit one relation "
                f"alone with fit(graph.of_relation({fitted.predicted[0]!r}))"
            )
        return fitted

    def _typed(self, relation: RelationName | None) -> TypedQuestions | None:
        """The questions about relations, if the model has any."""
        fitted = self._either
        if not isinstance(fitted, TypedFitted):
            if relation is not None:
                raise InputError(f"this model has one kind of edge, and no relation {relation!r}: leave 'relation' out")
            return None
        kept: TypedQuestions | None = vars(self).get("_typed_questions_")
        if kept is None or kept.fitted is not fitted:
            kept = self._typed_questions_ = TypedQuestions(fitted)
        return kept

    @property
    def _questions(self) -> Questions:
        """The questions about the model, kept until it is another one. Threads may share them."""
        return self._kept(self._fitted)[1]

    @property
    def _chooser(self) -> Chooser:
        """What chooses between exact search and an index, kept as long as the questions."""
        return self._kept(self._fitted)[2]

    def _asked(self, relation: RelationName | None) -> tuple[Fitted, Questions, Chooser]:
        """The model of a relation, or the one without relations, its questions, and what chooses its search."""
        typed = self._typed(relation)
        if typed is None:
            fitted = self._fitted
            return fitted, *self._kept(fitted)[1:]
        name = typed.named(relation)
        fitted, questions = typed.fitted.relations[name], typed.of(name)
        if name not in typed.choosers:
            typed.choosers[name] = Chooser(fitted.graph, fitted.model.decoder, fitted.embeddings, questions.state)
        return fitted, questions, typed.choosers[name]

    def _kept(self, fitted: Fitted) -> tuple[FittedState, Questions, Chooser]:
        kept: tuple[FittedState, Questions, Chooser] | None = vars(self).get("_questions_")
        if kept is None or not kept[0].is_of(fitted):
            state = FittedState(fitted)
            chooser = Chooser(fitted.graph, fitted.model.decoder, fitted.embeddings, state)
            kept = self._questions_ = (state, Questions(state), chooser)
        return kept

    # -- asking --------------------------------------------------------------------------------------------

    @renamed_keyword("known", "exclude_known", lambda known: not known)
    def recommend(
        self,
        nodes: Any,
        k: int = 10,
        *,
        relation: RelationName | None = None,
        among: Iterable[Id] | None = None,
        exclude_known: bool = True,
        where: Where | None = None,
        rules: Rules | None = None,
        index: Index | None = None,
        search: Search = "auto",
    ) -> Recommendations:
        """The `k` best partners of each node, with their probabilities.

        In a bipartite graph they come from the other side. Fewer than `k` candidates are fewer rows. Answers are exact
        until an index pays for itself: on a graph of 20,000 nodes or more, after enough nodes were asked for. The
        result's `recall` says how much of the exact answer the search finds.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids. A label stands for the one node that has it, where there is no such id. In a
            graph with several types (type, id) names a node, such as `("person", "u1")`.
        k
            How many partners per node, at most.
        relation
            The relation that is asked about; it may be left out if one is predicted. Candidates are of its other type.
        among
            Ids of the candidates; all nodes unless given.
        exclude_known
            Whether partners that the graph links to the node already are left out.
        where
            A condition on candidates. A text compares attributes of both ends, such as
            `"candidate.country = source.country and candidate.year >= 2010"`; attributes are the columns of the node
            table, and id, label and degree. Or a function of a candidate's id, a function of the ids of source and
            candidate, which is called for every pair, or a boolean for each node in the order of `graph_.ids`.
        rules
            Rules of the whole answer: `Rules(allow=..., deny=...)` lists candidates per source, and `Rules(once=...)`
            recommends nobody twice.
        index
            An index of this model to search with; `search` decides unless given.
        search
            'exact' scores every candidate. 'index' asks an index, and builds it the first time. 'auto' takes what costs
            less time; with `among`, `where` or `rules` it is exact.

        Returns
        -------
        Recommendations
            Source, target, score, rank and probability, best first for each node. Probabilities hold at `base_rate_`,
            over lists of new links; of a pair that is an edge already they say nothing.

        Raises
        ------
        UnknownNodeError
            If a node is neither an id nor a label of the graph.
        ConditionError
            If a text `where` cannot be read, or names an attribute that nodes do not have.
        InputError
            If `k` is no positive integer, `where` has another shape, or a label is that of several nodes.
        SettingsError
            If `search` is none of the three.

        Examples
        --------
        >>> found = model.recommend([0, 1], k=3)
        >>> len(found), found[0].source, found[0].rank
        (6, 0, 1)
        >>> model.recommend(0, k=2, among=[5, 6], exclude_known=False).ranks
        array([1, 2])
        >>> max(model.recommend(5, k=3, where="candidate.id < source.id").targets) < 5
        True
        """
        _, questions, chooser = self._asked(relation)
        nodes = questions.state.listed(nodes)
        narrowed = search == "auto" and not (among is None and where is None and rules is None)
        if index is None:
            index = chooser.choose(len(nodes), checked_k(k), "exact" if narrowed else search)
        if index is not None:
            found = index.recommend(nodes, k, among=among, exclude_known=exclude_known, where=where, rules=rules)
            return questions.with_probabilities(found)
        started = time.perf_counter()
        found = questions.recommend(nodes, k, among=among, exclude_known=exclude_known, where=where, rules=rules)
        if not narrowed:
            chooser.note_exact(len(nodes), time.perf_counter() - started)
        return found

    @contextmanager
    def sharded(
        self, path: str | Path, *, shards: int | None = None, threads: int = 1, address: str | None = None
    ) -> Iterator[LinkPredictor]:
        """Answer questions by Ray actors that hold shards of the embeddings, as long as the context lasts.

        Exact answers are the same as without: scores, order and probabilities. An index that is built meanwhile has its
        lists with the actors, and a recall that was measured on merged answers. An actor that dies is started again.

        Parameters
        ----------
        path
            The directory that this model was loaded from; every host of the cluster must be able to read it.
        shards
            Number of actors. Without it, the processors of the cluster over `threads`.
        threads
            Number of threads per actor.
        address
            Address of a Ray cluster. Without it, that of the environment variable RAY_ADDRESS, or a cluster of this
            machine, which ends with the context.

        Returns
        -------
        context manager
            Of this model.

        Raises
        ------
        MissingExtraError
            If Ray is not installed (extra `cluster`).
        InputError
            If `shards` is no positive integer, or there is no cluster at the address.
        StoreError
            If a host holds another model in `path`.

        Examples
        --------
        >>> import yinyan
        >>> model = yinyan.LinkPredictor.load("model")  # doctest: +SKIP
        >>> with model.sharded("model", shards=4):  # doctest: +SKIP
        ...     found = model.recommend([1, 2, 3], k=10, search="exact")
        """
        from yinyan.retrieval.ray_shards import SavedRows, ray_shards

        fitted = self._fitted
        state, questions, chooser = self._kept(fitted)
        saved = SavedRows.of(Path(path), state.num_nodes)
        with ray_shards(saved, shards=shards, threads=threads, address=address) as search:
            model, own = fitted.model, state.search
            there = Chooser(fitted.graph, model.decoder, fitted.embeddings, state, shards=search)
            state.search, self._questions_ = search, (state, questions, there)
            try:
                yield self
            finally:
                state.search, self._questions_ = own, (state, questions, chooser)

    def similar(self, nodes: Any, k: int = 10, *, relation: RelationName | None = None) -> Recommendations:
        """The `k` nodes nearest to each node in the embedding space.

        Nearness is the cosine of two embeddings, without sketches. It compares nodes, not links: in a bipartite graph
        similar nodes are of the same side, and neighbours in the graph count like all others.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids.
        k
            How many similar nodes per node, at most.
        relation
            A relation whose types the nodes have, in a model of several predicted relations.

        Returns
        -------
        Recommendations
            Source, target, cosine (as score) and rank, nearest first for each node; the node itself is left out.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If `k` is no positive integer.

        Examples
        --------
        >>> found = model.similar(0, k=3)
        >>> len(found), 0 in found.targets, bool(abs(found.scores).max() <= 1)
        (3, False, True)
        """
        return self._asked(relation)[1].similar(nodes, k)

    def index(
        self,
        kind: Literal["auto", "exact", "mips", "flashlight"] = "auto",
        *,
        relation: RelationName | None = None,
        recall: float | None = 0.98,
        milliseconds: float | None = None,
        megabytes: float | None = None,
        k: int = 100,
        seed: int = 0,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Index:
        """An index that recommends without scoring every node.

        It chooses its own parameters within the budgets. What was measured is in its `metadata`. 'auto' takes what
        comes nearest to the budgets, exact search or the best index tried, and `metadata.note` says so.

        Parameters
        ----------
        kind
            The kind of index; 'auto' chooses by the size of the graph and the decoder.
        relation
            The relation whose partners it finds, in a model of several predicted relations: each has an index of its
            own, with a recall of its own.
        recall
            The least share of the exact best partners that it has to find: of `k`, and of 1, 10, 20, 50 and 100.
        milliseconds
            The most time per node.
        megabytes
            The most memory beside the embeddings.
        k
            A number of partners that recall is measured for, beside the usual ones.
        seed
            Draws the sample that recall is measured on.
        tell
            Called with lines about the choice.

        Returns
        -------
        Index
            It has `recommend` and `best_links`, as this predictor.

        Raises
        ------
        SettingsError
            If an option is out of range, a named kind cannot keep the budgets, or the decoder does not allow it.

        Examples
        --------
        >>> index = model.index("exact", k=5)
        >>> index.recommend(0, k=3).targets == model.recommend(0, k=3).targets
        True
        """
        budget = Budget(recall=recall, milliseconds=milliseconds, megabytes=megabytes, k=k)
        return self._asked(relation)[2].built(kind, budget=budget, seed=seed, tell=tell)

    def choose_index(
        self,
        sources: int,
        k: int = 10,
        *,
        relation: RelationName | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> Index | None:
        """The index that `recommend` would ask about so many nodes; it is built now if it pays for itself.

        Parameters
        ----------
        sources
            How many nodes will be asked about.
        k
            How many partners per node.
        relation
            The relation that would be asked about, in a model of several predicted relations.
        tell
            Called with lines about the choice.

        Returns
        -------
        Index or None
            None where exact search takes less time.

        Examples
        --------
        >>> model.choose_index(40) is None
        True
        """
        return self._asked(relation)[2].choose(sources, checked_k(k), "auto", tell)

    def load_index(self, path: str | Path, *, relation: RelationName | None = None) -> Index:
        """Read the index that was saved in the directory of this model.

        Parameters
        ----------
        path
            The directory of the model.
        relation
            The relation whose index it is, in a model of several predicted relations.

        Returns
        -------
        Index
            The index, as it was saved.

        Raises
        ------
        StoreError
            If there is none, or the model has changed since.

        Examples
        --------
        >>> model.save("model")
        >>> model.index("exact", k=5).save("model")
        >>> model.load_index("model").metadata.kind
        'exact'
        """
        fitted, questions, _ = self._asked(relation)
        state = questions.state
        found = load_index(Path(path), fitted.graph, fitted.model.decoder, fitted.embeddings, state.names)
        return found._answering_as(state)

    def best_links(
        self,
        k: int = 100,
        *,
        relation: RelationName | None = None,
        nodes: Sequence[Any] | NDArray[Any] | None = None,
        where: Where | None = None,
        index: Index | None = None,
        search: Search = "auto",
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Recommendations:
        """The `k` best new links of the whole graph.

        Parameters
        ----------
        k
            How many links, at most.
        relation
            The relation of the links; it may be left out if one is predicted.
        nodes
            Ids of nodes: only new links of these are sought, in a directed graph those that start at one of them.
        where
            A condition on links, as for `recommend`. An undirected link is listed if the condition holds with one of
            its ends as the source, and from this end. In a bipartite graph sources are of side 0, or the `nodes`.
        index
            An index of this model to search with; `search` decides unless given.
        search
            'exact' scores every pair, 'index' asks an index, 'auto' takes what costs less time.
        on_progress
            Called with the number of nodes done and the number of all.
        should_stop
            Asked now and then; if true, the search ends with a StoppedError.

        Returns
        -------
        Recommendations
            Source, target, score, rank and probability (at `base_rate_`), best first. Undirected links occur once.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        ConditionError
            If a text `where` cannot be read, or names an attribute that nodes do not have.
        InputError
            If `k` is no positive integer.
        StoppedError
            If `should_stop` returned true.

        Examples
        --------
        >>> best = model.best_links(3)
        >>> best.ranks.tolist(), best.probabilities.shape
        ([1, 2, 3], (3,))
        """
        fitted, questions, chooser = self._asked(relation)
        if index is None:
            count = fitted.graph.num_nodes if nodes is None else len(nodes)
            index = chooser.choose(count, FIRST, search)
        top_k = None if index is None else index.top_k
        found = questions.best_links(
            k, nodes=nodes, where=where, top_k=top_k, on_progress=on_progress, should_stop=should_stop
        )
        return found if index is None else replace(found, recall=index._recall(FIRST, narrowed=where is not None))

    @overload
    def score(self, pairs: tuple[Id, Id], *, relation: RelationName | None = ...) -> float: ...
    @overload
    def score(self, pairs: Any, *, relation: RelationName | None = ...) -> NDArray[np.float32]: ...
    def score(self, pairs: Any, *, relation: RelationName | None = None) -> Any:
        """Scores of pairs: the larger, the likelier a link.

        Parameters
        ----------
        pairs
            A pair (source, target), a sequence or an array of pairs, or a data frame or Arrow table with two columns,
            or with columns called source and target or alike.
        relation
            The relation that is asked about; it may be left out if one is predicted. The source is of its source type.

        Returns
        -------
        float or numpy.ndarray
            A float for one pair, (p,) for a sequence.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If a pair has not two ids.

        Examples
        --------
        >>> isinstance(model.score((0, 1)), float), model.score([(0, 1), (0, 30)]).shape
        (True, (2,))
        """
        return self._asked(relation)[1].score(pairs)

    def score_rows(self, pairs: NDArray[np.int64], *, relation: RelationName | None = None) -> NDArray[np.float32]:
        """Scores of pairs of rows, for callers that have rows and no ids.

        Parameters
        ----------
        pairs
            (p, 2) rows of `graph_`; with relations, of `graph_.of_relation(relation)`.
        relation
            The relation that is asked about; it may be left out if one is predicted.

        Returns
        -------
        numpy.ndarray
            (p,) scores.

        Raises
        ------
        InputError
            If a row is out of range, or `pairs` is not of the shape (p, 2).

        Examples
        --------
        >>> import numpy as np
        >>> model.score_rows(np.array([[0, 1], [0, 2]])).shape
        (2,)
        """
        return self._asked(relation)[1].score_rows(pairs)

    @overload
    def predict_proba(
        self, pairs: Pair, *, base_rate: float | None = ..., relation: RelationName | None = ...
    ) -> float: ...
    @overload
    def predict_proba(
        self, pairs: Any, *, base_rate: float | None = ..., relation: RelationName | None = ...
    ) -> NDArray[np.float64]: ...
    def predict_proba(self, pairs: Any, *, base_rate: float | None = None, relation: RelationName | None = None) -> Any:
        """The probability that each pair is a missing edge, calibrated on recommended lists of held-out edges.

        It is the share of new pairs with such a score that turn out to be edges, if as many edges are missing as were
        held out for validation. Of a pair that is an edge already it says nothing.

        Parameters
        ----------
        pairs
            A pair (source, target), a sequence or an array of pairs, or a data frame or Arrow table with two columns,
            or with columns called source and target or alike.
        base_rate
            The share of links among the pairs asked about, if it is known: the odds are multiplied by the odds of this
            rate over those of `base_rate_`. With None they hold at `base_rate_`.
        relation
            The relation that is asked about; it may be left out if one is predicted.

        Returns
        -------
        float or numpy.ndarray
            A float for one pair, (p,) for a sequence.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If a pair has not two ids, or `base_rate` does not lie between 0 and 1.

        Examples
        --------
        >>> likely, rare = (model.predict_proba((0, 1), base_rate=rate) for rate in (0.5, 0.01))
        >>> 0 < rare < likely < 1
        True
        >>> model.predict_proba((0, 1)) == model.predict_proba((0, 1), base_rate=model.base_rate_)
        True
        """
        chances = self._asked(relation)[1].probabilities(self.score(pairs, relation=relation), base_rate)
        return float(chances) if chances.ndim == 0 else chances

    def explain(self, source: Any, target: Any, *, relation: RelationName | None = None) -> Explanation:
        """Which neighbours, attracting and repelling, moved the score of a pair, and by how much.

        With sampled negatives the first sample is explained, even if scores average over several.

        Parameters
        ----------
        source, target
            Two different ids.
        relation
            The relation that is asked about. Contributions name the relation of each neighbour.

        Returns
        -------
        Explanation
            The score, the score without messages, and the contribution of each neighbour.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.
        InputError
            If both ids are the same.

        Examples
        --------
        >>> why = model.explain(0, 1)
        >>> total = why.score_alone + sum(c.amount for c in why.contributions) + why.residue
        >>> abs(total - why.score) < 1e-6
        True
        """
        return self._asked(relation)[1].explain(source, target)

    def explore(
        self, node: Any, k: int = 10, *, relation: RelationName | None = None, limit: int = 40
    ) -> NeighbourhoodDrawing:
        """A drawing of a node with its edges and its best new links, as the explorer of the service draws it.

        In a notebook it is shown below the cell. It is one page of HTML that needs no service and no network.

        Parameters
        ----------
        node
            An id or a label, as in `recommend`.
        k
            How many predicted links, at most.
        relation
            The relation that is asked about; it may be left out if one is predicted.
        limit
            How many nodes of the graph, at most: neighbours first, then theirs; of more, those with most edges.

        Returns
        -------
        NeighbourhoodDrawing
            What a notebook shows; `save` writes it to a file.

        Raises
        ------
        UnknownNodeError
            If the node is neither an id nor a label of the graph.
        InputError
            If `node` is not one node, or `k` or `limit` is too small.

        Examples
        --------
        >>> drawing = model.explore(0, k=3)
        >>> drawing.num_edges == len(model.graph_.neighbours(0))
        True
        """
        fitted, questions, _ = self._asked(relation)
        if not questions.state.is_node(node):
            raise InputError(f"explore draws one node: give its id (got {node!r})")
        (row,) = questions.state.rows([node]).tolist()
        found = self.recommend(node, k, relation=relation)
        return draw_neighbourhood(fitted.graph, questions, row, found, limit)

    def energy_trace(self, num_steps: int | None = None) -> list[float]:
        """The energy before the first layer and after each.

        Parameters
        ----------
        num_steps
            The number of layers; the model's own unless given.

        Returns
        -------
        list of float
            `num_steps` + 1 values.

        Raises
        ------
        InputError
            If `num_steps` is negative or no integer.

        Examples
        --------
        >>> len(model.energy_trace(3))
        4
        """
        if (typed := self._typed(None)) is not None:
            return typed.energy_trace(num_steps)
        encoder, features, messages, seed, _ = self._questions.evidence()
        negatives = Streams.fresh(seed, "inference/0", messages.pairs.device)
        return encoder.energy_trace(EncoderInput(features, messages, negatives), num_steps)

    def embed(self, nodes: Any) -> NDArray[np.float32]:
        """The stored vectors of nodes, with columns as those of `embeddings_`.

        Parameters
        ----------
        nodes
            An id, or a sequence of ids; (type, id) where there are several types.

        Returns
        -------
        numpy.ndarray
            (d,) for one node, (len(nodes), d) for a sequence.

        Raises
        ------
        UnknownNodeError
            If an id is not in the graph.

        Examples
        --------
        >>> model.embed([0, 1]).shape == (2, *model.embed(0).shape)
        True
        """
        if (typed := self._typed(None)) is not None:
            return typed.embed(nodes)
        return self._questions.embed(nodes)

    def vectors(self, kind: Kind = "embedding", *, relation: RelationName | None = None) -> NodeVectors:
        """The vectors of all nodes with ids and labels, for files, vector stores and other programs.

        Parameters
        ----------
        kind
            'embedding': the columns of the embedding, whose cosine `similar` goes by. 'row': all columns of
            `embeddings_`, which the decoder reads. 'inner-product': vectors whose inner products are the scores.
        relation
            The predicted relation; it may be left out if there is one.

        Returns
        -------
        NodeVectors
            The vectors, computed in blocks when they are written.

        Raises
        ------
        InputError
            If `kind` is 'inner-product', and the score of this model is no inner product; the message says why.

        Examples
        --------
        >>> model.vectors().to_arrow().num_rows == model.graph_.num_nodes
        True
        """
        return NodeVectors(self._asked(relation)[1].state, kind)

    def export_onnx(self, path: str | Path, *, relation: RelationName | None = None) -> float:
        """Write the decoder as ONNX, and compare its scores with those of this model.

        Inputs are `source` and `target`: float32 rows of `embeddings_`, a batch of any size. The output `score` has one
        number per pair. Exact counts that rerank lists (`decoder.rerank`) are not part of it.

        Parameters
        ----------
        path
            A name that ends in .onnx.
        relation
            The predicted relation; it may be left out if there is one.

        Returns
        -------
        float
            The largest difference of a score, relative to the larger of the score and one; at most 1e-5.

        Raises
        ------
        InputError
            If the scores differ by more, or the name ends otherwise. Nothing is written then.
        MissingExtraError
            If onnx, onnxscript or onnxruntime is not installed (`pip install 'yinyan[onnx]'`).

        Examples
        --------
        >>> model.export_onnx("decoder.onnx") <= 1e-5
        True
        """
        return write_onnx(self._asked(relation)[1].state, path)

    @reordered("features", "edges", missing={"ids": None})
    def embed_new(
        self,
        ids: Sequence[Id] | None,
        features: Any,
        edges: Iterable[Pair] | Mapping[str, Iterable[Any]],
        *,
        type: str | None = None,
        relation: RelationName | None = None,
    ) -> NDArray[np.float32]:
        """Vectors of unseen nodes: the layers run again on the extended graph, nothing is retrained.

        Parameters
        ----------
        ids
            Ids of the m new nodes. With None they are called 0..m-1, by their rows in `features`, and each edge
            starts with a new node.
        features
            A row for each new node: a matrix, or a table with the columns that the model was trained on. None for a
            model without features; for a model with features it means the mean of each column, with a warning. Values
            outside the range of their column in training are clipped to it, with a warning.
        edges
            Pairs of ids, each with at least one new node; known nodes may be given by label. With relations: pairs
            (source, target) of one `relation`, or a mapping of relations to such pairs.
        type
            The type of the new nodes, in a model with several types.
        relation
            The relation of the edges, in a model with relations.

        Returns
        -------
        numpy.ndarray
            (m, d) vectors, with columns as those of `embeddings_`.

        Raises
        ------
        UnknownNodeError
            If an edge names a node that is neither known nor new.
        InputError
            If a new id is in the graph already, an edge joins two known nodes, or the features do not fit.

        Examples
        --------
        >>> model.embed_new(["new"], None, [("new", 0), ("new", 3)]).shape == (1, *model.embed(0).shape)
        True
        """
        if self._typed(relation) is not None:
            if ids is None:
                raise InputError("a model with relations needs the ids of new nodes: pass 'ids'")
            whole = self._extended_typed(ids, features, edges, type, relation)
            kind = next(iter(whole.graph.nodes)) if type is None else type
            rows = [whole.graph.row_of(kind, node) for node in ids]
            found: NDArray[np.float32] = whole.embeddings[torch.tensor(rows, dtype=torch.int64)].cpu().numpy()
            return found
        self._refuse_type(type)
        grown = extend(self._fitted, features, _pairs_of(edges), ids)
        vectors: NDArray[np.float32] = grown.fitted.embeddings[torch.from_numpy(grown.rows)].cpu().numpy()
        return vectors

    def extended(
        self,
        ids: Sequence[Id],
        features: Any,
        edges: Iterable[Pair] | Mapping[str, Iterable[Any]],
        *,
        type: str | None = None,
        relation: RelationName | None = None,
    ) -> LinkPredictor:
        """A predictor that also knows new nodes; nothing is retrained, and this one stays as it is.

        Parameters
        ----------
        ids
            Ids of the new nodes.
        features
            A row for each new node, as for `embed_new`.
        edges
            Pairs of ids, each with at least one new node, as for `embed_new`.
        type
            The type of the new nodes, in a model with several types.
        relation
            The relation of the edges, in a model with relations.

        Returns
        -------
        LinkPredictor
            A fitted predictor of the extended graph.

        Raises
        ------
        UnknownNodeError
            If an edge names a node that is neither known nor new.
        InputError
            If a new id is in the graph already, an edge joins two known nodes, or the features do not fit.

        Examples
        --------
        >>> grown = model.extended(["new"], None, [("new", 0), ("new", 3)])
        >>> grown.recommend("new", k=1)[0].source
        'new'
        """
        grown = LinkPredictor(**self.get_params(deep=False))
        if self._typed(relation) is not None:
            grown.fitted_ = cast("Fitted", self._extended_typed(ids, features, edges, type, relation))
            return grown
        self._refuse_type(type)
        grown.fitted_ = extend(self._fitted, features, _pairs_of(edges), ids).fitted
        return grown

    def _extended_typed(
        self, ids: Sequence[Id], features: Any, edges: Any, kind: str | None, relation: RelationName | None
    ) -> TypedFitted:
        fitted = self._either
        if not isinstance(fitted, TypedFitted):
            raise TypeError("this model has no relations")
        if not isinstance(edges, Mapping):
            pairs = list(edges)
            if relation is None and pairs and len(fitted.graph.relations) > 1:
                raise InputError(
                    "name the relation of the new edges: relation='...', or edges={relation: pairs} (relations: "
                    f"{listed(list(fitted.graph.relations))})"
                )
            edges = {next(iter(fitted.graph.relations)) if relation is None else relation: pairs}
        elif relation is not None:
            raise InputError("'edges' name their relations already: leave 'relation' out")
        by_name = {fitted.graph.relation(name).name: list(pairs) for name, pairs in edges.items()}
        return extend_typed(fitted, kind, features, by_name, list(ids))

    def _refuse_type(self, kind: str | None) -> None:
        if kind is not None:
            raise InputError(f"this model has one type of nodes, and no type {kind!r}: leave 'type' out")

    # -- watching ------------------------------------------------------------------------------------------

    def drift(self, edges: Any, *, recommended: Any = None) -> Drift:
        """How today's edges differ from those of training, and whether to refit.

        Compared are the degrees of their ends, their share with new nodes, the scores of new links, their AUC, and how
        many of them are in the lists of ten that the model recommends. The model does not change.

        Parameters
        ----------
        edges
            Edges that came after the fit, with or without those of training: pairs of ids, a data frame, or the path
            of a table. Ids that the graph does not have are new nodes. Labels that one node has count as its id.
        recommended
            Recommendations that were made, in the same forms or as `Recommendations`: how many became edges.

        Returns
        -------
        Drift
            Figures of training and of now, and an answer with its reasons.

        Raises
        ------
        InputError
            If there are no edges, an id is missing, or the model has relations.

        Examples
        --------
        >>> print(model.drift([(0, 39), (1, 38)]).answer)
        refit? unsure: 2 new links between known nodes; figures of scores need 50
        """
        from yinyan.monitoring.arrivals import arrivals, known_pairs_of
        from yinyan.monitoring.drift import drift_of, followed
        from yinyan.monitoring.reference import Reference

        fitted = self._fitted
        arrived = arrivals(fitted.graph, _pairs_in(edges))
        made = None
        if recommended is not None:
            pairs = known_pairs_of(fitted.graph, _pairs_in(recommended))
            made = followed(pairs, arrived.links)
        return drift_of(Reference(fitted), arrived, followed=made)

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, max_shard_bytes: int | None = None) -> None:
        """Write the model to a directory, whole or not at all.

        Parameters
        ----------
        path
            The directory; a model that is there already is replaced.
        max_shard_bytes
            Arrays with more bytes are saved in several files. `load` maps these files into memory instead of reading
            them, and the actors of `sharded` open their own rows only. Without it, 4 GiB.

        Raises
        ------
        StoreError
            If the directory cannot be written, or holds something else.
        InputError
            If `max_shard_bytes` is no positive integer.

        Examples
        --------
        >>> model.save("model")
        """
        self._warn_if_weak()
        self._saved(path, max_shard_bytes)

    def _saved(
        self, path: str | Path, max_shard_bytes: int | None, written: Mapping[str, Sequence[WrittenRows]] | None = None
    ) -> None:
        """As `save`, without a warning, of a model with arrays whose rows are in files already."""
        from yinyan.store import save_model

        params = {name: value for name, value in self.get_params(deep=False).items() if name != "threads"}
        save_model(Path(path), self._either, params, max_shard_bytes=max_shard_bytes, written=written)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", threads: int | None = None) -> LinkPredictor:
        """Read a saved model.

        Parameters
        ----------
        path
            The directory that `save` wrote.
        device
            'auto', 'cpu', 'cuda' or 'mps'.
        threads
            Number of threads, as for `LinkPredictor`.

        Returns
        -------
        LinkPredictor
            A fitted predictor that answers as the saved one.

        Raises
        ------
        StoreError
            If the model is incomplete, altered or of a newer format.
        SettingsError
            If there is no such device.

        Examples
        --------
        >>> from yinyan import LinkPredictor
        >>> model.save("model")
        >>> LinkPredictor.load("model").graph_.num_nodes
        40
        """
        from yinyan.store import load_any_model

        use_threads(threads)
        fitted, params = load_any_model(Path(path), pick_device(device))
        try:
            model = cls(**{**params, "device": device, "threads": threads})
        except (TypeError, SettingsError) as error:
            raise StoreError(f"the model in '{path}' cannot be read: {error} (in model.json)") from error
        model.fitted_ = cast("Fitted", fitted)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is kept between questions, which a copy makes for itself."""
        return {name: value for name, value in vars(self).items() if name not in ("_questions_", "_typed_questions_")}


def _pairs_of(edges: Iterable[Pair] | Mapping[str, Iterable[Any]]) -> list[Pair]:
    """The edges of new nodes of a model without relations."""
    if isinstance(edges, Mapping):
        raise InputError("this model has one kind of edge: give 'edges' as pairs, not by relation")
    return list(edges)


def _pairs_in(source: Any) -> list[Pair]:
    """Pairs of ids in whichever form they come."""
    if isinstance(source, Recommendations):
        return list(zip(source.sources, source.targets, strict=True))
    if isinstance(source, (str, Path)) or is_frame(source):
        return pairs_from_table(source)
    pairs = [tuple(pair) for pair in source]
    for place, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(f"edge {place} needs two ids (got {pair!r})")
    return cast("list[Pair]", pairs)

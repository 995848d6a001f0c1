"""The search: trials on one seed, then the best of them against the defaults on other seeds."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from yinyan.auditing import audit
from yinyan.errors import DivergedError, MemoryLimitError, SettingsError, StoppedError
from yinyan.graph import Graph
from yinyan.model.fitted import EpochRecord, Fitted
from yinyan.progress import Progress, duration
from yinyan.settings import Settings
from yinyan.text import counted
from yinyan.training.chosen import chosen
from yinyan.training.fingerprints import graph_fingerprint
from yinyan.training.fit import fit_model
from yinyan.training.hooks import Hooks
from yinyan.tuning.outcome import Candidate, Tuning, in_words
from yinyan.tuning.space import Space, Value, grouped_by_path, space_of
from yinyan.tuning.trials import VALIDATIONS, Fit, Trial, Trials, opened_trials

if TYPE_CHECKING:
    import optuna

__all__ = ["tune"]

_FINALISTS = 2
_FEWEST_SEEDS = 2  # for a spread

Overrides = Mapping[str, Mapping[str, Any]]


def tune(
    graph: Graph,
    *,
    minutes: float,
    given: Mapping[str, Any],
    seed: int,
    seeds: int,
    device: torch.device,
    trials: int | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Tuning:
    """Search for settings that are better on validation edges than the defaults, by more than noise.

    Trials have `seed`; the best of them and the defaults are then fitted on `seeds` other seeds. With a `folder`,
    trials and fits are kept: a stopped search goes on, and one with a larger budget continues. `tell` is called with
    a line on each trial.
    """
    _check(minutes, seeds, trials)
    made = _Search(graph, given, seed, tuple(range(seed + 1, seed + 1 + seeds)), device, should_stop)
    if not made.space.dimensions:
        raise SettingsError("there is nothing to tune: all settings that would be searched are given")
    shown = progress or Progress()
    with opened_trials(folder, made.space, made.marks(), seed) as kept:
        try:
            tell(f"training: {made.in_words(minutes)}")
            made.run_trials(kept, minutes, trials, tell, shown)
            candidates = made.compare(kept, shown)
        except StoppedError:
            ended = counted(len(kept.done()), "trial")
            cure = f"Run the same command again to go on; trials are in '{folder}'" if folder else "Nothing is kept"
            raise StoppedError(f"tuning was stopped after {ended}. {cure}") from None
        done = kept.done()
        best = max((each for each in candidates if each.is_better), key=lambda each: each.gain, default=None)
        return Tuning(
            space=made.space,
            metric=made.base.training.selection,
            minutes=minutes,
            seconds=_spent(kept),
            search_seed=seed,
            seeds=made.seeds,
            default_score=_score_of(done[0]),
            trials=tuple(done),
            candidates=tuple(candidates),
            chosen=best,
            given={group: _as_dict(values) for group, values in given.items()},
            importances=kept.importances(),
        )


def _check(minutes: float, seeds: int, trials: int | None) -> None:
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes < math.inf:
        raise SettingsError(f"'minutes' needs to be a number above 0 (got {minutes!r})")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < _FEWEST_SEEDS:
        raise SettingsError(f"'seeds' needs to be an integer of at least {_FEWEST_SEEDS}, for a spread (got {seeds!r})")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 2):
        raise SettingsError(f"'trials' needs to be an integer of at least 2: the defaults come first (got {trials!r})")


class _Search:
    """What the trials of one search share."""

    def __init__(
        self,
        graph: Graph,
        given: Mapping[str, Any],
        seed: int,
        seeds: tuple[int, ...],
        device: torch.device,
        should_stop: Callable[[], bool],
    ) -> None:
        self._graph, self._given, self._seed, self._device = graph, given, seed, device
        self.seeds = seeds
        self._should_stop = should_stop
        self.base: Settings = chosen(graph, given, seed=seed).settings
        self.space: Space = space_of(graph, self.base, given)

    def marks(self) -> str:
        """A digest of all that the scores of the trials depend on."""
        times = self._graph.times
        dated = "" if times is None else hashlib.blake2b(times.tobytes(), digest_size=8).hexdigest()
        marks = (graph_fingerprint(self._graph), dated, self.base.to_toml(), self.space, self._seed)
        return hashlib.blake2b(repr(marks).encode(), digest_size=8).hexdigest()

    def in_words(self, minutes: float) -> str:
        """The search in one line."""
        names = ", ".join(each.path for each in self.space.dimensions)
        return f"tuning for {minutes:g} min, graph {self.space.kind}: {names}"

    def run_trials(
        self, kept: Trials, minutes: float, most: int | None, tell: Callable[[str], None], progress: Progress
    ) -> None:
        """Trials until the rest of the budget is needed to compare the best of them."""
        budget = 60 * minutes
        progress.start("minute", math.ceil(minutes), _spent(kept) / 60)
        try:
            while True:
                done = kept.done()
                if done:
                    self._refuse_short_budget(done[0], budget, most)
                    if len(done) >= (most or math.inf):
                        return
                    if _spent(kept) + self._reserve(kept) + done[0].seconds > budget and len(done) > 1:
                        return
                self._run_trial(kept)
                tell(_report(kept.done()))
                progress.advance(min(_spent(kept) / 60, math.ceil(minutes)), f"best {_best(kept.done()):.4f}")
        finally:
            progress.finish()

    def _refuse_short_budget(self, default: Trial, budget: float, most: int | None) -> None:
        """An error where not even one candidate could be compared with the defaults."""
        least = default.seconds * (2 + 2 * len(self.seeds))
        if budget < least and most is None:
            raise SettingsError(
                f"a budget of {duration(budget)} is too short: a fit with default settings takes "
                f"{duration(default.seconds)}, and {counted(2 + 2 * len(self.seeds), 'fit')} are needed at least "
                f"(set the minutes to {math.ceil(least / 60)} or more)"
            )

    def _reserve(self, kept: Trials) -> float:
        """Seconds that the comparison will take, as the trials suggest."""
        done, finished = kept.done(), kept.fits()
        times = [done[0].seconds, *(trial.seconds for trial in _finalists(done))]
        times += [done[0].seconds] * (1 + _FINALISTS - len(times))
        keys = [_key(each) for each in (done[0], *_finalists(done))]
        ready = sum(fit.seconds for (key, _), fit in finished.items() if key in keys)
        return max(0.0, sum(times) * len(self.seeds) - ready)

    def _run_trial(self, kept: Trials) -> None:
        """One trial, from the proposal to its score."""
        is_first = not kept.done()
        trial = kept.ask()
        values = {each.path: each.suggested(trial) for each in self.space.dimensions}
        trial.set_user_attr("values", values)
        watch = _Watch(trial, may_prune=not is_first)
        began, failure = time.perf_counter(), ""
        score: float | None = None
        try:
            score = self._fit(values, self._seed, watch).best_score
        except _PrunedError:
            pass
        except (DivergedError, MemoryLimitError) as error:
            if is_first:  # the defaults: there is nothing to compare with
                kept.drop(trial)
                raise
            failure = str(error)
        except BaseException:
            kept.drop(trial)
            raise
        trial.set_user_attr("seconds", time.perf_counter() - began)
        trial.set_user_attr("epochs", watch.epoch)
        if failure:
            kept.fail(trial, failure)
        elif score is None:
            kept.prune(trial)
        else:
            kept.complete(trial, score)

    def compare(self, kept: Trials, progress: Progress) -> list[Candidate]:
        """The best trials and the defaults on the other seeds."""
        done = kept.done()
        finalists = _finalists(done)
        if not finalists:
            return []
        default = done[0]
        progress.start("fit", len(self.seeds) * (1 + len(finalists)))
        try:
            for place, seed in enumerate(self.seeds):
                for number, trial in enumerate((default, *finalists)):
                    if (_key(trial), seed) not in kept.fits():
                        kept.keep_fit(_key(trial), seed, self._timed(trial.values, seed, may_fail=number > 0))
                    progress.advance(place * (1 + len(finalists)) + number + 1)
        finally:
            progress.finish()
        found = [self._candidate(kept, default, trial) for trial in finalists]
        return [each for each in found if each is not None]

    def _candidate(self, kept: Trials, default: Trial, trial: Trial) -> Candidate | None:
        """A finalist beside the defaults; None if it cannot be trained with every seed."""
        fits, unchanged = kept.fits(), self.space.defaults()
        scores = [fits[_key(trial), seed].score for seed in self.seeds]
        beside = [fits[_key(default), seed].score for seed in self.seeds]
        values = {path: value for path, value in trial.values.items() if value != unchanged[path]}
        trained = tuple(score for score in scores if score is not None)
        if len(trained) < len(scores):
            return None
        return Candidate(values, trained, tuple(score for score in beside if score is not None))

    def _timed(self, values: Mapping[str, Value], seed: int, *, may_fail: bool) -> Fit:
        began = time.perf_counter()
        score: float | None = None
        try:
            score = self._fit(values, seed, lambda record, whole: None).best_score
        except (DivergedError, MemoryLimitError):
            if not may_fail:
                raise
        return Fit(score, time.perf_counter() - began)

    def _fit(self, values: Mapping[str, Value], seed: int, on_epoch: Callable[[EpochRecord, int], None]) -> Fitted:
        """A fit whose validation edges are those of the seed; test edges are not in the graph."""
        overrides = {group: _as_dict(given) for group, given in self._given.items()}
        for group, chosen_values in grouped_by_path(values).items():
            overrides[group] = {**overrides.get(group, {}), **chosen_values}
        split, settings, _ = chosen(self._graph, self._given, seed=seed)
        audit(split)
        settings = settings.updated(overrides)
        return fit_model(
            split,
            settings,
            seed=seed,
            device=self._device,
            calibration="platt",
            hooks=Hooks(
                on_epoch=lambda record: on_epoch(record, settings.training.epochs), should_stop=self._should_stop
            ),
        )


class _PrunedError(Exception):
    """The trial is left behind by others."""


class _Watch:
    """Reports the validations of a trial, and ends one that is left behind."""

    def __init__(self, trial: optuna.Trial, *, may_prune: bool) -> None:
        self._trial, self._may_prune = trial, may_prune
        self.epoch = self._step = 0

    def __call__(self, record: EpochRecord, whole: int) -> None:
        """After each epoch of `whole`."""
        self.epoch = record.epoch
        step = round(VALIDATIONS * record.epoch / whole)
        if record.score is None or step <= self._step:
            return
        self._step = step
        self._trial.report(record.score, step)
        is_behind = self._trial.should_prune()  # asked of the defaults too: others are compared with them
        if is_behind and self._may_prune and step < VALIDATIONS:
            raise _PrunedError


def _finalists(done: Sequence[Trial]) -> list[Trial]:
    """The best complete trials that are better than the defaults."""
    better = [t for t in done[1:] if t.state == "complete" and _score_of(t) > _score_of(done[0])]
    return sorted(better, key=lambda t: -_score_of(t))[:_FINALISTS]


def _score_of(trial: Trial) -> float:
    return -math.inf if trial.score is None else trial.score


def _best(done: Sequence[Trial]) -> float:
    return max(_score_of(trial) for trial in done if trial.state == "complete")


def _key(trial: Trial) -> str:
    """The settings of a trial as a key."""
    return hashlib.blake2b(repr(sorted(trial.values.items())).encode(), digest_size=8).hexdigest()


def _spent(kept: Trials) -> float:
    return sum(t.seconds for t in kept.done()) + sum(fit.seconds for fit in kept.fits().values())


def _as_dict(values: Any) -> dict[str, Any]:
    return dict(values) if isinstance(values, Mapping) else dict(vars(values))


def _report(done: Sequence[Trial]) -> str:
    """One line on the latest trial."""
    trial = done[-1]
    if trial.state == "failed":
        what = f"failed: {trial.reason}"
    elif trial.state == "pruned":
        what = f"pruned after {counted(trial.epochs, 'epoch')}"
    else:
        what = f"{trial.score:.4f}"
    unchanged = done[0].values
    changes = in_words({path: value for path, value in trial.values.items() if value != unchanged[path]})
    return f"trial: {trial.number:<3} {what}, {duration(trial.seconds)}: {changes}"

"""The trials of a search and the fits that compare the best of them: kept by Optuna, in memory or in a folder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from yinyan.errors import MissingExtraError, StoreError
from yinyan.progress import Checkpoints, make_folder
from yinyan.randomness import named_seed
from yinyan.tuning.space import Space, Value

if TYPE_CHECKING:
    import optuna

__all__ = ["Fit", "Trial", "Trials", "opened_trials"]

VALIDATIONS = 12  # of a whole run, about: what a trial is pruned by is counted in these
_FIRST_RUNG, _KEPT = 3, 2  # validations before a trial may be pruned; one of so many goes on from each rung
_RANDOM = 6  # trials before the search follows what it has seen
_ENOUGH = 8  # completed trials, for a table of importances
_FILE = "trials.log"


class Trial(NamedTuple):
    """A tried setting: its values, and what came of it."""

    number: int  # from 0, the defaults
    values: dict[str, Value]  # of the settings that are searched, by path
    state: str  # complete, pruned or failed
    score: float | None  # by the validation metric; of a pruned trial the last one
    epochs: int  # that it ran
    seconds: float  # that it took
    reason: str = ""  # of a failure


class Fit(NamedTuple):
    """The figure of one fit that compares settings."""

    score: float | None  # None if the settings cannot be trained
    seconds: float


class Trials:
    """The trials of one search, which may be resumed: the same search proposes the same trials."""

    def __init__(self, study: optuna.Study, space: Space, seed: int) -> None:
        self._study, self._space, self._seed = study, space, seed
        for trial in study.get_trials(deepcopy=False):
            if trial.state.name == "RUNNING":  # of a process that was killed
                study.tell(trial.number, state=_state("FAIL"))

    def ask(self) -> optuna.Trial:
        """The next trial: the defaults at first, then what the search proposes."""
        from optuna.samplers import TPESampler

        done = len(self.done())
        seed = named_seed(self._seed, f"tuning trial {done}") % 2**32
        self._study.sampler = TPESampler(n_startup_trials=_RANDOM, seed=seed)
        if done == 0:
            self._study.enqueue_trial(dict(self._space.defaults()))
        return self._study.ask()

    def complete(self, trial: optuna.Trial, score: float) -> None:
        """End a trial with its score."""
        self._study.tell(trial, score)

    def prune(self, trial: optuna.Trial) -> None:
        """End a trial that others leave behind."""
        self._study.tell(trial, state=_state("PRUNED"))

    def fail(self, trial: optuna.Trial, reason: str) -> None:
        """End a trial whose settings cannot be trained."""
        trial.set_user_attr("reason", reason)
        self._study.tell(trial, state=_state("FAIL"))

    def drop(self, trial: optuna.Trial) -> None:
        """End a trial that was stopped: it does not count, and is proposed again."""
        self._study.tell(trial, state=_state("FAIL"))

    def done(self) -> list[Trial]:
        """All trials that ended, the defaults first."""
        found: list[Trial] = []
        for each in self._study.get_trials(deepcopy=False):
            attributes = each.user_attrs
            if each.state.name not in ("COMPLETE", "PRUNED") and "reason" not in attributes:
                continue
            values = attributes["values"]
            state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(each.state.name, "failed")
            score = None if state == "failed" or each.value is None else float(each.value)
            found.append(
                Trial(
                    *(len(found), values, state, score, attributes.get("epochs", 0), attributes.get("seconds", 0.0)),
                    attributes.get("reason", ""),
                )
            )
        return found

    def fits(self) -> dict[tuple[str, int], Fit]:
        """The fits that compare settings, by a key of the settings and the seed."""
        kept = self._study.user_attrs
        return {
            (name.split("/", 2)[2], int(name.split("/", 2)[1])): Fit(**value)
            for name, value in kept.items()
            if name.startswith("fit/")
        }

    def keep_fit(self, key: str, seed: int, fit: Fit) -> None:
        """Keep a fit for a resumed run."""
        self._study.set_user_attr(f"fit/{seed}/{key}", fit._asdict())

    def importances(self) -> dict[str, float]:
        """Share of the variance of the scores that each setting explains (fANOVA); empty if trials are too few."""
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        complete = [t for t in self._study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
        if len(complete) < _ENOUGH or len({t.value for t in complete}) < 2:
            return {}
        evaluator = FanovaImportanceEvaluator(seed=self._seed % 2**32)
        found = get_param_importances(self._study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items() if math.isfinite(share)}


@contextmanager
def opened_trials(folder: Path | None, space: Space, marks: str, seed: int) -> Iterator[Trials]:
    """The trials of a search, in memory or in a folder that one process holds at a time.

    `marks` is a digest of all that scores depend on: a folder with trials of another search is refused.
    """
    optuna = _optuna()
    with nullcontext() if folder is None else _held(folder):
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=_FIRST_RUNG, reduction_factor=_KEPT)
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study = optuna.create_study(
                    storage=None if folder is None else _storage(optuna, folder, marks),
                    study_name=marks,
                    direction="maximize",
                    pruner=pruner,
                    load_if_exists=True,
                )
                yield Trials(study, space, seed)
        finally:
            optuna.logging.set_verbosity(before)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    make_folder(folder, folder)
    with Checkpoints.lock(folder, f"the folder of trials '{folder}'"):
        yield


def _storage(optuna: Any, folder: Path, marks: str) -> Any:
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    file = str(folder / _FILE)
    storage = optuna.storages.JournalStorage(JournalFileBackend(file, lock_obj=JournalFileOpenLock(file)))
    names = [study.study_name for study in storage.get_all_studies()]
    if names and marks not in names:
        raise StoreError(
            f"the trials in '{folder}' are of another search: its graph, settings or seed differ "
            "(name another folder for this one, or remove that)"
        )
    return storage


def _state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]


def _optuna() -> Any:
    try:
        import optuna
        import sklearn  # noqa: F401  # importances are found by its trees
    except ImportError as error:
        raise MissingExtraError("tuning needs optuna and scikit-learn: pip install 'yinyan[tune]'") from error
    return optuna

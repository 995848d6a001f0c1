"""From scores to probabilities at a stated base rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError
from yinyan.model.held_out_lists import HeldOutLists

__all__ = [
    "Calibration",
    "IsotonicCalibration",
    "PlattCalibration",
    "calibration_from_dict",
    "fit_calibration",
    "fit_to_lists",
    "shifted",
]

Method = Literal["platt", "isotonic"]
Floats = NDArray[np.float64]

BASE_RATE = 0.5  # of a calibration on sampled pairs: as many links as non-links, whatever was sampled

_PRIORS = (1e-3, 0.0)  # of slope and intercept, in observations: a sample that is separated has no steepest line
_HITS_PER_BIN, _MOST_BINS = 25, 8  # expected hits between two knots of the correction
_SHRINKAGE = 10.0  # hits that each bin is given as expected: few hits leave the line straight


@dataclass(frozen=True)
class PlattCalibration:
    """σ(slope · score + intercept + shift): the shift, where lists differ from the line, is linear between knots."""

    slope: float
    intercept: float
    base_rate: float = BASE_RATE
    knots: tuple[float, ...] = ()
    shifts: tuple[float, ...] = ()

    def probabilities(self, scores: ArrayLike) -> Floats:
        """P(link | score) at the calibration's own base rate."""
        s = np.asarray(scores, dtype=np.float64)
        shift = np.interp(s, self.knots, self.shifts) if self.knots else 0.0
        return _sigmoid(self.slope * s + self.intercept + shift)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"method": "platt", **vars(self), "knots": list(self.knots), "shifts": list(self.shifts)}


@dataclass(frozen=True)
class IsotonicCalibration:
    """A rising step function through the pooled data, linear between its knots."""

    knots: tuple[float, ...]
    values: tuple[float, ...]
    base_rate: float = BASE_RATE

    def probabilities(self, scores: ArrayLike) -> Floats:
        """P(link | score) at the calibration's own base rate."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.knots, self.values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        knots, values = list(self.knots), list(self.values)
        return {"method": "isotonic", "knots": knots, "values": values, "base_rate": self.base_rate}


Calibration = PlattCalibration | IsotonicCalibration  # maps scores to probabilities at its own base rate


def fit_calibration(positive: ArrayLike, negative: ArrayLike, method: Method) -> Calibration:
    """Fit on the scores of held-out links and non-links, each kind weighted to one half in all."""
    pos, neg = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not pos.size or not neg.size:
        raise InputError("calibration needs held-out links and negatives (got none of one kind)")
    scores = np.concatenate([pos, neg])
    weights = np.concatenate([np.full(pos.size, 0.5 / pos.size), np.full(neg.size, 0.5 / neg.size)])
    labels = _smoothed(np.repeat([True, False], [pos.size, neg.size]))
    return _platt(scores, labels, weights) if method == "platt" else _isotonic(scores, labels, weights)


def fit_to_lists(lists: HeldOutLists, method: Method, base_rate: float) -> Calibration:
    """Fit on recommended lists in which held-out edges count as hits.

    The other rows are not all negatives: `lists.missing` edges are missing among them per held-out one. With p the
    probability that such a row is one of those, a row is a hit with probability q = p / (p + lists.missing). This q is
    fitted to the hits, and p is what is kept.
    """
    if not lists.scores.size:
        raise InputError("calibration needs recommended lists of held-out edges (got none)")
    scores, labels = lists.scores.astype(np.float64), _smoothed(lists.hits)
    weights = lists.weights * (lists.weights.size / lists.weights.sum())
    if method == "platt":
        return _corrected(_line(scores, labels, weights, lists.missing, base_rate), lists, weights)
    steps = _isotonic(scores, labels, weights)
    return IsotonicCalibration(steps.knots, tuple(lists.as_missing(steps.values).tolist()), base_rate)


def shifted(probabilities: ArrayLike, base_rate: float, given: float = BASE_RATE) -> Floats:
    """Probabilities at the base rate `given` restated for another: the odds are multiplied by the ratio of theirs."""
    if not isinstance(base_rate, (int, float)) or not 0 < base_rate < 1:
        raise InputError(f"'base_rate' needs to lie between 0 and 1 (got {base_rate!r})")
    p = np.asarray(probabilities, dtype=np.float64)
    up, down = base_rate * (1 - given), (1 - base_rate) * given
    return p * up / (p * up + (1 - p) * down)


def calibration_from_dict(form: dict[str, Any]) -> Calibration:
    """The inverse of `to_dict`; models of earlier versions have a base rate of 1/2 and a line."""
    rate = float(form.get("base_rate", BASE_RATE))
    if not 0 < rate < 1:
        raise ValueError(f"the base rate of the calibration needs to lie between 0 and 1 (got {rate})")
    knots = tuple(map(float, form.get("knots", ())))
    values = tuple(map(float, form.get("shifts" if form["method"] == "platt" else "values", ())))
    if len(knots) != len(values):
        raise ValueError(f"the calibration has {len(knots)} knots and {len(values)} values")
    if form["method"] == "platt":
        return PlattCalibration(float(form["slope"]), float(form["intercept"]), rate, knots, values)
    return IsotonicCalibration(knots, values, rate)


def _smoothed(hits: NDArray[np.bool_]) -> Floats:
    """Platt's smoothed labels: a perfectly separated sample does not prove certainty."""
    num_hits = int(hits.sum())
    return np.where(hits, (num_hits + 1) / (num_hits + 2), 1 / (hits.size - num_hits + 2))


def _line(scores: Floats, labels: Floats, weights: Floats, missing: float, base_rate: float) -> PlattCalibration:
    """The line of best likelihood, if it rises; else the rate."""
    centre = float(np.average(scores, weights=weights))
    spread = float(np.sqrt(np.average((scores - centre) ** 2, weights=weights))) or 1.0
    x = np.stack([(scores - centre) / spread, np.ones_like(scores)], axis=1)
    theta = _fitted(x, labels, weights, missing, np.array(_PRIORS))
    if theta[0] < 0:  # a better score never means a smaller chance: then scores say nothing
        theta = np.append(0.0, _fitted(x[:, 1:], labels, weights, missing, np.array(_PRIORS[1:])))
    slope = float(theta[0]) / spread
    return PlattCalibration(slope, float(theta[1]) - slope * centre, base_rate)


def _corrected(line: PlattCalibration, lists: HeldOutLists, weights: Floats) -> PlattCalibration:
    """Shift the line by what bins of the lists, of as many expected hits each, have more or fewer hits than it states.

    Each bin has some expected hits added to what it has, so that chance moves it little. The curve keeps rising.
    """
    order = np.argsort(lists.scores, kind="stable")
    scores, hits, w = lists.scores[order].astype(np.float64), lists.hits[order], weights[order]
    p = line.probabilities(scores)
    expected = w * p / (p + lists.missing)
    count = int(min(_MOST_BINS, expected.sum() // _HITS_PER_BIN, np.unique(scores).size))
    if count < 2 or line.slope == 0:
        return line
    reached = (np.cumsum(expected) - expected / 2) / expected.sum()
    bin_of = np.minimum((reached * count).astype(np.int64), count - 1)
    stated = np.bincount(bin_of, expected, count).astype(np.float64)
    found = np.bincount(bin_of, w * hits, count)
    knots = np.bincount(bin_of, expected * scores, count) / stated
    share = stated / np.bincount(bin_of, w, count)
    most = 0.98 / (1 + lists.missing)  # of hits, where nearly all others are missing edges
    shares = [np.minimum(q, most) for q in (share, share * (found + _SHRINKAGE) / (stated + _SHRINKAGE))]
    before, after = (np.log(q) - np.log1p(-q) for q in map(lists.as_missing, shares))
    at = line.slope * knots
    rising = _isotonic(knots, at + after - before, stated).probabilities(knots)
    return replace(line, knots=tuple(knots.tolist()), shifts=tuple((rising - at).tolist()))


def _fitted(x: Floats, labels: Floats, weights: Floats, missing: float, priors: Floats) -> Floats:
    """Fisher scoring on the weighted log-loss of q = p / (p + missing), p = σ(x θ), halving steps that overshoot."""

    def loss(theta: Floats) -> float:
        z = x @ theta
        p = _sigmoid(z)
        return float((weights * (np.log(p + missing) + labels * np.logaddexp(0, -z))).sum()) + float(
            priors @ theta**2 / 2
        )

    theta = np.zeros(x.shape[1])
    rate = float(np.clip((weights * labels).sum() / weights.sum(), 1e-12, 0.5))
    start = min(missing * rate / (1 - rate), 0.9)
    theta[-1] = np.log(start / (1 - start))
    now = loss(theta)
    for _ in range(100):
        p = _sigmoid(x @ theta)
        share = (1 - p) / (p + missing)
        slope = x.T @ (weights * share * (p * (1 - labels) - missing * labels)) + priors * theta
        bend = (x * (weights * missing * p * share**2)[:, None]).T @ x + np.diag(priors + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (then := loss(theta - step)) > now and np.abs(step).max() > 1e-12:
            step = step / 2
        theta, gain, now = theta - step, now - then, then
        if gain < 1e-10 * max(1.0, abs(now)):
            break
    return theta


def _platt(scores: Floats, labels: Floats, weights: Floats) -> PlattCalibration:
    """Newton's method on the weighted log-loss over standardised scores, halving steps that overshoot."""
    centre, spread = float(scores.mean()), float(scores.std()) or 1.0
    x = np.stack([(scores - centre) / spread, np.ones_like(scores)], axis=1)

    def loss(theta: Floats) -> float:
        z = x @ theta
        return float((weights * (np.logaddexp(0, z) - labels * z)).sum())

    theta = np.zeros(2)
    for _ in range(100):
        p = _sigmoid(x @ theta)
        slope = x.T @ (weights * (p - labels))
        bend = (x * (weights * p * (1 - p))[:, None]).T @ x + 1e-9 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        while loss(theta - step) > loss(theta) and np.abs(step).max() > 1e-12:
            step = step / 2
        theta = theta - step
        if np.abs(step).max() < 1e-10:
            break
    if theta[0] < 0:  # a better score never means a smaller chance: then scores say nothing
        rate = float((weights * labels).sum() / weights.sum())
        return PlattCalibration(0.0, float(np.log(rate / (1 - rate))))
    slope_raw = float(theta[0]) / spread
    return PlattCalibration(slope_raw, float(theta[1]) - slope_raw * centre)


def _isotonic(scores: Floats, labels: Floats, weights: Floats) -> IsotonicCalibration:
    """Pool adjacent violators."""
    knots, where = np.unique(scores, return_inverse=True)
    mass = np.bincount(where, weights)
    level = np.bincount(where, weights * labels) / mass
    blocks: list[list[float]] = []  # [value, weight, knots]
    for value, weight in zip(level.tolist(), mass.tolist(), strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            v, w, n = blocks.pop()
            u = blocks[-1]
            u[0], u[1], u[2] = (u[0] * u[1] + v * w) / (u[1] + w), u[1] + w, u[2] + n
    ends = np.cumsum([int(b[2]) for b in blocks])
    kept: dict[float, float] = {}
    for block, end in zip(blocks, ends, strict=True):  # a flat block needs its two ends only
        for knot in (knots[end - int(block[2])], knots[end - 1]):
            kept[float(knot)] = float(block[0])
    return IsotonicCalibration(tuple(kept), tuple(kept.values()))


def _sigmoid(z: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -z))

"""From scores to probabilities at a stated base rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError

__all__ = [
    "Calibration",
    "IsotonicCalibration",
    "PlattCalibration",
    "calibration_from_dict",
    "fit_calibration",
    "shifted",
]

Method = Literal["platt", "isotonic"]
Floats = NDArray[np.float64]

BASE_RATE = 0.5  # of the calibration: as many links as non-links, whatever was sampled


@dataclass(frozen=True)
class PlattCalibration:
    """σ(slope · score + intercept)."""

    slope: float
    intercept: float

    def probabilities(self, scores: ArrayLike) -> Floats:
        """P(link | score) at base rate 1/2."""
        return _sigmoid(self.slope * np.asarray(scores, dtype=np.float64) + self.intercept)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"method": "platt", "slope": self.slope, "intercept": self.intercept}


@dataclass(frozen=True)
class IsotonicCalibration:
    """A rising step function through the pooled data, linear between its knots."""

    knots: tuple[float, ...]
    values: tuple[float, ...]

    def probabilities(self, scores: ArrayLike) -> Floats:
        """P(link | score) at base rate 1/2."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.knots, self.values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"method": "isotonic", "knots": list(self.knots), "values": list(self.values)}


Calibration = PlattCalibration | IsotonicCalibration  # maps scores to probabilities at base rate 1/2


def fit_calibration(positive: ArrayLike, negative: ArrayLike, method: Method) -> Calibration:
    """Fit on the scores of held-out links and non-links, each kind weighted to one half in all."""
    pos, neg = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    if not pos.size or not neg.size:
        raise InputError("calibration needs held-out links and negatives (got none of one kind)")
    scores = np.concatenate([pos, neg])
    weights = np.concatenate([np.full(pos.size, 0.5 / pos.size), np.full(neg.size, 0.5 / neg.size)])
    # Platt's smoothed labels: a perfectly separated sample does not prove certainty
    labels = np.concatenate([np.full(pos.size, (pos.size + 1) / (pos.size + 2)), np.full(neg.size, 1 / (neg.size + 2))])
    return _platt(scores, labels, weights) if method == "platt" else _isotonic(scores, labels, weights)


def shifted(probabilities: ArrayLike, base_rate: float) -> Floats:
    """Probabilities at base rate 1/2 restated for another: the odds are multiplied by its odds."""
    if not isinstance(base_rate, (int, float)) or not 0 < base_rate < 1:
        raise InputError(f"'base_rate' needs to lie between 0 and 1 (got {base_rate!r})")
    p = np.asarray(probabilities, dtype=np.float64)
    return p * base_rate / (p * base_rate + (1 - p) * (1 - base_rate))


def calibration_from_dict(form: dict[str, Any]) -> Calibration:
    """The inverse of `to_dict`."""
    if form["method"] == "platt":
        return PlattCalibration(float(form["slope"]), float(form["intercept"]))
    return IsotonicCalibration(tuple(map(float, form["knots"])), tuple(map(float, form["values"])))


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

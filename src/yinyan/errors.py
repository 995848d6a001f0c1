"""The errors a caller can act on: one base, and a kind for each cure."""

from __future__ import annotations

__all__ = [
    "DivergedError",
    "InputError",
    "LeakError",
    "MemoryLimitError",
    "MissingExtraError",
    "NotFittedError",
    "SettingsError",
    "StoppedError",
    "StoreError",
    "TrainingError",
    "UnknownNodeError",
    "YinYanError",
]


class YinYanError(ValueError):
    """Base of every error this library raises on purpose."""


class InputError(YinYanError):
    """A table, frame or array does not describe a graph."""


class LeakError(InputError):
    """A split lets answers leak into training or into the messages."""


class UnknownNodeError(YinYanError):
    """A node id is not in the graph."""


class SettingsError(YinYanError):
    """A setting has an unknown name or an impossible value."""


class TrainingError(YinYanError):
    """Training cannot start, or cannot go on."""


class MemoryLimitError(TrainingError):
    """Training would take more memory than there is: the message names settings that would fit."""


class DivergedError(TrainingError):
    """The energy or the weights ran away: other settings are the cure."""


class StoppedError(YinYanError):
    """Work was asked to stop; the message says where it can go on from."""


class StoreError(YinYanError):
    """A model directory cannot be written, or must not be trusted."""


class MissingExtraError(YinYanError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""


class NotFittedError(YinYanError, AttributeError):
    """A fitted model is needed (scikit-learn's name, and its two bases)."""

"""The errors that a caller can act on: one base class, and a class for each remedy."""

from __future__ import annotations

__all__ = [
    "ConditionError",
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
    """Base class of every error that this library raises on purpose.

    Examples
    --------
    >>> from yinyan import YinYanError
    >>> try:
    ...     model.recommend("nobody")
    ... except YinYanError as error:
    ...     print(type(error).__name__)
    UnknownNodeError
    """


class InputError(YinYanError):
    """A table, frame or array does not describe a graph."""


class ConditionError(InputError):
    """A condition (`where=`) cannot be read, or does not fit the attributes of the nodes."""


class LeakError(InputError):
    """A split lets answers leak into training or into the messages."""


class UnknownNodeError(YinYanError):
    """A node id is not in the graph."""


class SettingsError(YinYanError):
    """A setting has an unknown name, or its value is out of range."""


class TrainingError(YinYanError):
    """Training cannot start or cannot continue."""


class MemoryLimitError(TrainingError):
    """Training would take more memory than is free; the message names settings that would fit."""


class DivergedError(TrainingError):
    """The energy or the weights diverged; other settings are needed."""


class StoppedError(YinYanError):
    """A run was stopped; the message names how to continue it, if that is possible."""


class StoreError(YinYanError):
    """A model directory cannot be written, or its files are missing, damaged or of another version."""


class MissingExtraError(YinYanError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class NotFittedError(YinYanError, AttributeError):
    """A fitted model is needed. Name and base classes are those of scikit-learn's error."""

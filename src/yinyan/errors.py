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
    "ServiceError",
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
    """A split lets answers leak into training or into the messages, or a scorer depends on its batch."""


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


class ServiceError(YinYanError):
    """A service refused a request of `Client`, or did not answer.

    A node that is not in the graph is an UnknownNodeError as well, and an invalid request an InputError.

    Parameters
    ----------
    detail
        What is wrong, in the words of the service.
    status
        HTTP status; 0 if there was no answer.
    title
        Name of the status.
    cure
        What to do about it; the message ends with it.

    Attributes
    ----------
    detail, status, title, cure
        As given.

    Examples
    --------
    >>> from yinyan import Client, ServiceError
    >>> try:
    ...     Client("http://127.0.0.1:1").model()
    ... except ServiceError as error:
    ...     print(error.status, error.title, error.cure, sep="; ")
    0; No answer; is 'yinyan serve' running there?
    """

    def __init__(self, detail: str, status: int = 0, *, title: str = "", cure: str = "") -> None:
        super().__init__(f"{detail} ({cure})" if cure else detail)
        self.detail, self.status, self.title, self.cure = detail, status, title, cure


class MissingExtraError(YinYanError, ImportError):
    """An optional package is needed; the message names the extra to install."""


class NotFittedError(YinYanError, AttributeError):
    """A fitted model is needed. Name and base classes are those of scikit-learn's error."""

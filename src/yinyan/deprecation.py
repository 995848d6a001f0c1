"""Old ways to call a function, which work for one more version and say so."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["by_keyword", "renamed_fields", "renamed_keyword", "reordered", "warn_deprecated"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)


def warn_deprecated(old: str, new: str, *, depth: int = 2) -> None:
    """Say that `old` goes with the next version, and what to write instead; `depth` frames above the caller."""
    warnings.warn(f"{old} is deprecated and goes with version 0.3: use {new}", DeprecationWarning, stacklevel=depth + 1)


def by_keyword(*names: str) -> Callable[[_Function], _Function]:
    """Let values that follow the two first arguments by position stand for the keywords `names`, with a warning."""

    def wrap(function: _Function) -> _Function:
        @functools.wraps(function)
        def called(owner: Any, first: Any, *rest: Any, **options: Any) -> Any:
            if not rest:
                return function(owner, first, **options)
            if len(rest) > len(names):
                raise TypeError(
                    f"{function.__name__}() takes one argument and keywords (got {1 + len(rest)} by position)"
                )
            given = dict(zip(names, rest, strict=False))
            warn_deprecated(f"{function.__name__} with positional options", ", ".join(f"{name}=…" for name in given))
            return function(owner, first, **given, **options)

        return called  # type: ignore[return-value]

    return wrap


def renamed_keyword(
    old: str, new: str, convert: Callable[[Any], Any] = lambda x: x
) -> Callable[[_Function], _Function]:
    """A decorator: the keyword `old` still works, and stands for `new` with its value converted."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(
                        f"{function.__qualname__}() got {new!r} and its old name {old!r}: leave {old!r} out"
                    )
                warn_deprecated(f"{function.__qualname__}({old}=…)", f"{new}={_spelled(convert(kwargs[old]))}")
                kwargs[new] = convert(kwargs.pop(old))
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def reordered(*old: str, missing: Mapping[str, Any] | None = None) -> Callable[[_Function], _Function]:
    """A decorator of a method: a call that fits the order `old` only still works; `missing` fills what it lacks."""

    def decorate(method: _Function) -> _Function:
        signature = inspect.signature(method)
        known = list(signature.parameters.values())[1:]
        needed = [each.name for each in known if each.default is each.empty]
        order = ", ".join(needed)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(self, *args, **kwargs)
            except TypeError:
                named = {**(missing or {}), **kwargs}
                if len(args) > len(old) or set(old[: len(args)]) & set(kwargs):
                    raise
                named |= dict(zip(old, args, strict=False))
                if not set(needed) <= set(named) <= {each.name for each in known}:
                    raise
                warn_deprecated(f"{method.__qualname__}({', '.join(old)})", f"{method.__qualname__}({order})")
                return method(self, **named)
            return method(self, *args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def renamed_fields(**names: str) -> Callable[[_Class], _Class]:
    """A decorator of a dataclass: fields `old=new` can still be given and read by their old names."""

    def decorate(cls: _Class) -> _Class:
        for old, new in names.items():
            setattr(cls, old, _alias(f"{cls.__name__}.{old}", new))
            cls.__init__ = renamed_keyword(old, new)(cls.__init__)  # type: ignore[misc]
        return cls

    return decorate


def _alias(old: str, new: str) -> property:
    def read(self: Any) -> Any:
        warn_deprecated(old, new)
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`.")


def _spelled(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 20 else "…"

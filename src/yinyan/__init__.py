"""Link prediction by energy descent: which links are missing, and how sure are you?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yinyan.auditing import Audit, audit
    from yinyan.client import Client
    from yinyan.errors import (
        InputError,
        LeakError,
        MissingExtraError,
        NotFittedError,
        SettingsError,
        StoreError,
        TrainingError,
        UnknownNodeError,
        YinYanError,
    )
    from yinyan.fitting import Hooks
    from yinyan.graph import Graph
    from yinyan.parts import Parts
    from yinyan.predictor import LinkPredictor
    from yinyan.protocol import Evaluation, evaluate
    from yinyan.results import Explanation, Recommendations
    from yinyan.settings import DecoderSettings, EncoderSettings, Settings, TrainingSettings
    from yinyan.splits import Split, given_split, random_split, released_split, temporal_split

__version__ = "0.1.0"

# Loaded on first use: importing the package, and asking the command line for help, does not import torch.
_HOMES = {
    "Audit": "auditing",
    "Client": "client",
    "DecoderSettings": "settings",
    "EncoderSettings": "settings",
    "Evaluation": "protocol",
    "Explanation": "results",
    "Graph": "graph",
    "Hooks": "fitting",
    "InputError": "errors",
    "LeakError": "errors",
    "LinkPredictor": "predictor",
    "MissingExtraError": "errors",
    "NotFittedError": "errors",
    "Parts": "parts",
    "Recommendations": "results",
    "Settings": "settings",
    "SettingsError": "errors",
    "Split": "splits",
    "StoreError": "errors",
    "TrainingError": "errors",
    "TrainingSettings": "settings",
    "UnknownNodeError": "errors",
    "YinYanError": "errors",
    "audit": "auditing",
    "evaluate": "protocol",
    "given_split": "splits",
    "random_split": "splits",
    "released_split": "splits",
    "temporal_split": "splits",
}

_ROOMS = ("bootstrap", "datasets", "losses", "metrics", "peers", "ranking", "reproduce")

__all__ = [
    "Audit",
    "Client",
    "DecoderSettings",
    "EncoderSettings",
    "Evaluation",
    "Explanation",
    "Graph",
    "Hooks",
    "InputError",
    "LeakError",
    "LinkPredictor",
    "MissingExtraError",
    "NotFittedError",
    "Parts",
    "Recommendations",
    "Settings",
    "SettingsError",
    "Split",
    "StoreError",
    "TrainingError",
    "TrainingSettings",
    "UnknownNodeError",
    "YinYanError",
    "__version__",
    "audit",
    "evaluate",
    "given_split",
    "random_split",
    "released_split",
    "temporal_split",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"yinyan.{name}")
    if name in _HOMES:
        return getattr(import_module(f"yinyan.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'yinyan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])

"""Link prediction by energy descent: which links are missing, and how sure are you?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from yinyan.threads import wait_passively

if TYPE_CHECKING:
    from yinyan.auditing import Audit, audit, audit_scorer, audit_steps
    from yinyan.connect.tables import DatabaseTable
    from yinyan.errors import (
        ConditionError,
        InputError,
        LeakError,
        MissingExtraError,
        NotFittedError,
        ServiceError,
        SettingsError,
        StoreError,
        TrainingError,
        UnknownNodeError,
        YinYanError,
    )
    from yinyan.evaluation import Evaluation, evaluate
    from yinyan.graph import Graph, TypedGraph
    from yinyan.live.embeddings import LiveEmbeddings
    from yinyan.predictor import LinkPredictor
    from yinyan.results import Explanation, Recommendations
    from yinyan.retrieval.rules import Rules
    from yinyan.rolling import RollingEvaluation, evaluate_rolling
    from yinyan.service.client import Client
    from yinyan.settings import DecoderSettings, EncoderSettings, Settings, TrainingSettings
    from yinyan.splits import Parts, Split, given_split, random_split, released_split, temporal_split
    from yinyan.training.hooks import Hooks

__version__ = "0.2.0"

wait_passively()  # before anything loads torch

# Loaded on first use: importing the package, and asking the command line for help, does not import torch.
_HOMES = {
    "Audit": "auditing",
    "Client": "service.client",
    "ConditionError": "errors",
    "DatabaseTable": "connect.tables",
    "DecoderSettings": "settings",
    "EncoderSettings": "settings",
    "Evaluation": "evaluation",
    "Explanation": "results",
    "Graph": "graph",
    "Hooks": "training.hooks",
    "InputError": "errors",
    "LeakError": "errors",
    "LinkPredictor": "predictor",
    "LiveEmbeddings": "live.embeddings",
    "MissingExtraError": "errors",
    "NotFittedError": "errors",
    "Parts": "splits",
    "Prepared": "preparing",
    "Recommendations": "results",
    "RollingEvaluation": "rolling",
    "Rules": "retrieval.rules",
    "ServiceError": "errors",
    "Settings": "settings",
    "SettingsError": "errors",
    "Split": "splits",
    "StoreError": "errors",
    "TrainingError": "errors",
    "TrainingSettings": "settings",
    "TypedGraph": "graph",
    "UnknownNodeError": "errors",
    "YinYanError": "errors",
    "audit": "auditing",
    "audit_scorer": "auditing",
    "audit_steps": "auditing",
    "evaluate": "evaluation",
    "evaluate_rolling": "rolling",
    "given_split": "splits",
    "prepare": "preparing",
    "random_split": "splits",
    "read_prepared": "preparing",
    "released_split": "splits",
    "temporal_split": "splits",
}

# public modules, by the names that users know
_MODULES = {
    "bootstrap": "metrics.intervals",
    "datasets": "datasets",
    "losses": "model.losses",
    "metrics": "metrics",
    "peers": "peers",
    "ranking": "metrics.ranking",
    "reproduce": "reproduce",
}

__all__ = [
    "Audit",
    "Client",
    "ConditionError",
    "DatabaseTable",
    "DecoderSettings",
    "EncoderSettings",
    "Evaluation",
    "Explanation",
    "Graph",
    "Hooks",
    "InputError",
    "LeakError",
    "LinkPredictor",
    "LiveEmbeddings",
    "MissingExtraError",
    "NotFittedError",
    "Parts",
    "Prepared",
    "Recommendations",
    "RollingEvaluation",
    "Rules",
    "ServiceError",
    "Settings",
    "SettingsError",
    "Split",
    "StoreError",
    "TrainingError",
    "TrainingSettings",
    "TypedGraph",
    "UnknownNodeError",
    "YinYanError",
    "__version__",
    "audit",
    "audit_scorer",
    "audit_steps",
    "evaluate",
    "evaluate_rolling",
    "given_split",
    "prepare",
    "random_split",
    "read_prepared",
    "released_split",
    "temporal_split",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"yinyan.{_MODULES[name]}")
    if name in _HOMES:
        return getattr(import_module(f"yinyan.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'yinyan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])

"""One cell: load the data, split them, fit, and score the test links once."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache

import torch

from yinyan.datasets import load, load_knowledge_graph
from yinyan.datasets.dataset import Dataset
from yinyan.errors import DivergedError
from yinyan.evaluation import figures_of, held_out_scores, make_split, negatives_in_words, ranking_figures
from yinyan.graph.feature_matrix import rows_normalised
from yinyan.peers.contract import Fits, Overrides, Task, merged
from yinyan.peers.full_ranking import is_ranking_metric
from yinyan.peers.knowledge_graphs import FILTERED, TripleTask, triple_method
from yinyan.peers.registry import method
from yinyan.reproduce.recipe import Cell
from yinyan.reproduce.running import CURVE, Result
from yinyan.reproduce.stand_ins import knowledge_stand_in, stand_in

__all__ = ["measure"]

_SMALL_TRIPLES: Overrides = {
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "training": {"epochs": 2, "batch_size": 200, "evaluate_every": 1},
}

_SMALL: Overrides = {
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "decoder": {"width": 8},
    "training": {"epochs": 2, "batch_size": 40, "valid_negatives": 50},
}
_FITS: Fits = {}  # the last training of this process: protocols that differ at test time share it


def measure(cell: Cell, *, device: str, threads: int, smoke: bool) -> Result:
    """The cell's figure; a smoke run is made on a small stand-in and shows only that the recipe runs."""
    if threads:
        torch.set_num_threads(threads)
    if cell.metric in FILTERED:
        return _measure_triples(cell, device, smoke)
    data = _data(cell.data, smoke, cell.row_normalised)
    settings = merged(cell.settings, _SMALL) if smoke else cell.settings
    split = make_split(data, cell.protocol, cell.seed)
    name = f"stand-in for {cell.data}" if smoke else cell.data
    against = negatives_in_words(split, cell.metric, cell.sources)
    protocol = f"{name} / {cell.protocol} / {against} / {cell.metric} / seed {cell.seed}"
    started = time.perf_counter()
    try:
        outcome = method(cell.method)(Task(split, cell.seed, settings, device, fits=_FITS))
    except DivergedError as error:  # a result too: these settings diverge
        return Result(cell, None, {}, None, protocol, time.perf_counter() - started, str(error))
    if is_ranking_metric(cell.metric):
        figures = ranking_figures(outcome, split, cell.metric, sources=cell.sources)
    else:
        figures = figures_of(*held_out_scores(outcome.score, split), cell.metric)
    seconds = time.perf_counter() - started + outcome.spared
    return Result(cell, 100 * figures[cell.metric], figures, outcome.validation, protocol, seconds)


def _measure_triples(cell: Cell, device: str, smoke: bool) -> Result:
    """Test triples of a knowledge graph among all entities, and the validation figures by epoch."""
    data = knowledge_stand_in(cell.data) if smoke else load_knowledge_graph(cell.data)
    settings = merged(cell.settings, _SMALL_TRIPLES) if smoke else cell.settings
    protocol = f"{data.name} / {cell.protocol} / filtered ranking of both ends / {cell.metric} / seed {cell.seed}"
    started = time.perf_counter()
    outcome = triple_method(cell.method)(TripleTask(data, cell.seed, settings, device))
    seconds = time.perf_counter() - started
    means = outcome.rank(data.test, data.known).means
    figures = {name: means[short] for name, short in FILTERED.items()}
    for record in outcome.history:
        if record.mrr is not None:
            figures[f"{CURVE}{record.epoch}"] = record.mrr
    return Result(cell, 100 * figures[cell.metric], figures, outcome.validation, protocol, seconds)


@lru_cache(maxsize=4)
def _data(name: str, smoke: bool, row_normalised: bool) -> Dataset:
    data = stand_in(name) if smoke else load(name)
    if row_normalised and data.graph.features is not None:
        data = replace(data, graph=replace(data.graph, features=rows_normalised(data.graph.features)))
    return data

"""The peak of training is foretold, and what would not fit is refused with settings that would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import yinyan
from command_line import TINY, refused, works, write_links
from contracts import planted_graph, tiny
from yinyan import allocation, fitting, memory, memory_check, training
from yinyan.errors import MemoryLimitError, TrainingError
from yinyan.fitting import Hooks, build_model
from yinyan.free_memory import free_memory
from yinyan.graph import Graph
from yinyan.memory import MemoryEstimate, Sizes, estimate, in_words
from yinyan.memory_check import refuse_if_too_large
from yinyan.predictor import LinkPredictor
from yinyan.settings import Settings
from yinyan.splits import holdout_split
from yinyan.tensors import feature_tensor, message_graph

CPU = torch.device("cpu")
N, D = 1_000, 32
CELLS = N * D
SIZES = Sizes(
    nodes=N, links=5_000, messages=4_500, valid_messages=0, test_messages=5_000, known=4_500, targets=4_500,
    valid_pairs=2_000,
)  # fmt: skip
LARGE = Sizes(
    nodes=2_000_000, links=10_000_000, messages=9_000_000, valid_messages=0, test_messages=10_000_000, known=9_000_000,
    targets=9_000_000, valid_pairs=1_000_000,
)  # fmt: skip


def settings(**groups: Any) -> Settings:
    base = Settings().updated(
        {
            "encoder": {"inputs": "embeddings", "hidden_size": D, "feature_dropout": 0.0},
            "decoder": {"width": D},
            "training": {"batch_size": 100},
        }
    )
    return base.updated(groups)


def of(sizes: Sizes = SIZES, device: torch.device = CPU, **groups: Any) -> MemoryEstimate:
    return estimate(sizes, settings(**groups), device)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.native, "library", lambda: object())


class TestParts:
    """What can be reckoned by hand."""

    def test_a_message_link_takes_52_bytes_and_a_known_one_20(self) -> None:
        assert of().graph == 4_500 * (52 + 20) + 4 * N + 8 * (4_500 + 5_000)

    def test_a_validation_graph_of_its_own_counts(self) -> None:
        assert of(replace(SIZES, valid_messages=100)).graph - of().graph == 5_200 + 4 * N

    def test_pairs_are_copied_to_a_device(self) -> None:
        assert of(device=torch.device("cuda")).graph - of().graph == 16 * (4_500 + 2 * 2_000)

    def test_dense_features_are_shared_on_a_cpu(self) -> None:
        sizes = replace(SIZES, feature_columns=10)
        assert of(sizes).features == 0
        assert of(sizes, torch.device("cuda")).features == 4 * N * 10

    def test_sparse_features_hold_the_places_of_their_transpose(self) -> None:
        sizes = replace(SIZES, feature_columns=10, feature_entries=300)
        assert of(sizes).features == 300 * 16 + 4 * (N + 10)
        assert of(sizes, torch.device("cuda")).features == 300 * 20 + 4 * (N + 10)

    def test_weights_with_gradients_moments_and_copies(self) -> None:
        trained = 4 * (64 * N + 64 * D + D * D)  # table, its map, the decoder's hidden layer
        found = of()
        assert (found.weights, found.moments, found.copies) == (2 * trained, 2 * trained, 2 * trained)
        assert of(training={"averaging": 0.0}).copies == trained

    def test_a_random_table_has_no_gradient(self) -> None:
        found, trained = of(encoder={"inputs": "random"}), 4 * (64 * D + D * D)
        assert (found.weights, found.moments) == (2 * trained + 4 * 64 * N, 2 * trained)

    @pytest.mark.parametrize(
        ("encoder", "bytes_a_cell"),
        [
            ({}, 4 * 4 + 1 + 8),  # four layers, a byte of dropout, the result before and after normalisation
            ({"num_steps": 6}, 6 * 4 + 1 + 8),
            ({"storage": "bfloat16"}, 4 * 2 + 1 + 8),
            ({"recompute": True}, 4 + 1 + 8),
            ({"learn_repulsion": "no"}, 12 + 1),  # f and two buffers, while the layers run
            ({"dropout": 0.0}, 4 * 4 + 8),
            ({"output_norm": False}, 4 * 4 + 1 + 4),
            ({"num_steps": 0}, 1 + 8),
            ({"num_layers": 2, "base_norm": True}, 13 + 4 * 4 + 1 + 8),
            ({"margin": 1.0}, 4 * 8 + 1 + 8),  # Y and the push of every layer
            ({"margin": 1.0, "expected_negatives": False}, 4 * 4 + 1 + 8),  # the push alone
            ({"margin": 1.0, "expected_negatives": False, "num_negatives": 2}, 4 * 12 + 1 + 8),
        ],
    )
    def test_embeddings_kept(self, encoder: dict[str, Any], bytes_a_cell: int) -> None:
        assert of(encoder=encoder).embeddings == CELLS * bytes_a_cell

    def test_dropped_inputs_are_kept_with_a_byte_of_chance(self) -> None:
        encoder = {"inputs": "both", "feature_dropout": 0.5}
        dense, sparse = replace(SIZES, feature_columns=10), replace(SIZES, feature_columns=10, feature_entries=300)
        assert of(dense, encoder=encoder).embeddings == of().embeddings + 5 * N * 10
        assert of(sparse, encoder=encoder).embeddings == of().embeddings + 5 * 300

    def test_embeddings_of_clusters(self) -> None:
        found = of(training={"clusters": 4}).embeddings  # (T + 1) stored layers and three of a pass, for all nodes
        assert found == CELLS * (5 * 4 + 3 * 4) + CELLS // 4 * (1 + 4 * 3 * 4 + 8)

    @pytest.mark.usefixtures("kernels")
    def test_gradients(self) -> None:
        assert of().gradients == CELLS * 16
        assert of(encoder={"storage": "bfloat16"}).gradients == CELLS * (3 * 2 + 4)
        assert of(encoder={"recompute": True}).gradients == CELLS * 24

    def test_without_compiled_kernels_products_are_made_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory.native, "library", lambda: None)
        assert of().gradients == CELLS * (16 + 8) + 8 * 4_500

    @pytest.mark.parametrize(
        ("decoder", "numbers", "chances"),
        [
            ({}, 3 * D + 2 * D, D),  # both ends, their product, one hidden layer before and after dropout
            ({"depth": 1}, 3 * D, 0),
            ({"depth": 3, "norm": True}, 3 * D + 6 * D, 2 * D),
            ({"dropout": 0.0}, 3 * D + D, 0),
            ({"kind": "dot"}, 3 * D, 0),
            ({"kind": "distance"}, 4 * D, 0),
        ],
    )
    def test_a_batch_of_pairs(self, decoder: dict[str, Any], numbers: int, chances: int) -> None:
        pairs = 100 * 4
        assert of(decoder=decoder).decoder == pairs * (4 * numbers + chances + 32) + 300 * D * 4

    def test_directed_pairs_are_mapped(self) -> None:
        sizes = replace(SIZES, directed=True)
        assert of(sizes).decoder - of().decoder == 400 * 2 * D * 4
        assert of(sizes, decoder={"directed_maps": False}).decoder == of().decoder

    def test_no_batch_is_larger_than_the_targets(self) -> None:
        whole = of(training={"batch_size": 0}).decoder
        assert whole == of(training={"batch_size": 4_500}).decoder == of(training={"batch_size": 99_999}).decoder

    def test_sampled_graphs_have_a_matrix_each(self) -> None:
        one, three = (of(encoder={"expected_negatives": False, "num_negatives": k}).negatives for k in (1, 3))
        assert three - one == 2 * (4_500 * 16 + 4 * N * 4)
        fixed = {"expected_negatives": False, "learn_repulsion": "no"}
        one, three = (of(encoder={**fixed, "num_negatives": k}).negatives for k in (1, 3))
        assert three - one == 2 * 4_500 * 16, "those of one weight are merged"

    def test_the_total_is_a_peak_and_not_a_sum(self) -> None:
        found = of(encoder={"num_steps": 8})
        parts = [value for value in vars(found).values() if isinstance(value, int)]
        assert found.total < memory._RUNTIME + memory._BACKWARD * sum(parts)
        smaller = replace(found, update=0, validation=0, building=0, finishing=0)
        assert smaller.total == found.total, "they do not live when a step is at its height"
        assert replace(found, decoder=0).total == replace(found, decoder=1).total, "less than the gradients"
        assert replace(found, finishing=10**9).total > 10**9


class TestAgainstWhatIsBuilt:
    @pytest.mark.parametrize("directed", [False, True])
    @pytest.mark.parametrize("inputs", ["features", "embeddings", "both", "random"])
    def test_weights(self, inputs: str, directed: bool) -> None:
        graph = planted_graph(size=200, features=np.ones((400, 30), np.float32), directed=directed)
        chosen = settings(encoder={"inputs": inputs, "num_layers": 2, "sign_hops": 1}, decoder={"depth": 3})
        sizes = replace(SIZES, nodes=400, feature_columns=30, directed=directed)
        found = estimate(sizes, chosen, CPU)
        model = build_model(chosen, graph, 0)
        trained, fixed = found.moments // 2, found.weights - found.moments
        assert trained == pytest.approx(_bytes(*model.parameters()), rel=0.05)  # biases are left out
        assert fixed + trained == pytest.approx(_bytes(*model.state_dict().values()), rel=0.05)

    def test_message_graph(self) -> None:
        graph = planted_graph(size=100)
        messages = message_graph(graph, np.arange(graph.num_edges), CPU)
        places, known = messages.structure, messages.known
        tensors = (messages.pairs, messages.weights, places.indptr, places.columns, places.pair_of_slot, known.keys)
        held = _bytes(*tensors, known.order)
        assert memory._message_graph(graph.num_edges, graph.num_nodes) == pytest.approx(held, abs=8)

    def test_sparse_features(self) -> None:
        scipy_sparse = pytest.importorskip("scipy.sparse")
        matrix = scipy_sparse.random(300, 50, density=0.05, format="csr", dtype=np.float32, random_state=0)
        graph = Graph.from_arrays(np.array([[i, i + 1] for i in range(299)]), num_nodes=300, features=matrix)
        split = holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=50)
        held = feature_tensor(graph.features, CPU)
        total = _bytes(*(t for t in vars(held).values() if isinstance(t, torch.Tensor))) - 4 * matrix.nnz
        assert estimate(Sizes.of(split), settings(), CPU).features == pytest.approx(total, abs=16)

    def test_sizes_of_a_split(self) -> None:
        graph = planted_graph(features=np.ones((40, 3), np.float32), directed=True)
        split = holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=50)
        found = Sizes.of(split)
        assert (found.nodes, found.links, found.feature_columns, found.feature_entries) == (
            40,
            graph.num_edges,
            3,
            None,
        )
        assert found.messages == found.known == found.targets == len(split.train_targets)
        assert found.valid_messages == 0 and found.test_messages == graph.num_edges and found.directed
        assert found.valid_pairs == max(len(split.valid_targets), len(split.valid_negatives))
        apart = replace(split, valid_messages=split.train_messages[:-1])
        assert Sizes.of(apart).valid_messages == found.messages - 1

    def test_constants_are_those_of_the_code(self) -> None:
        assert memory._BLOCK == training._BLOCK
        assert dict(allocation._KEEP)[allocation._THRESHOLD] == memory._HELD_BELOW


class TestMonotone:
    @pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
    @pytest.mark.parametrize("negatives", [{}, {"expected_negatives": False}, {"learn_repulsion": "no"}])
    def test_more_takes_more(self, negatives: dict[str, Any], device: str) -> None:
        place = torch.device(device)

        def total(sizes: Sizes = LARGE, **groups: Any) -> int:
            encoder = {"hidden_size": 64, **negatives, **groups.pop("encoder", {})}
            groups = {"training": {"batch_size": 16_384}, **groups}
            return of(sizes, place, encoder=encoder, **groups).total

        def scaled(*names: str) -> Sizes:
            return replace(LARGE, **{name: 2 * getattr(LARGE, name) for name in names})

        base, links = total(), scaled("links", "messages", "test_messages", "known", "targets")
        assert total(scaled("nodes")) > base
        assert total(links) > base
        assert total(encoder={"hidden_size": 128}) > base
        assert total(training={"batch_size": 4_000_000}) > base
        assert total(encoder={"num_steps": 8}) >= base
        assert total(encoder={"num_negatives": 8}) >= base

    def test_layers_and_negative_graphs_where_they_are_kept(self) -> None:
        layers = [of(LARGE, encoder={"num_steps": steps}).total for steps in (2, 4, 8, 16)]
        graphs = [of(LARGE, encoder={"expected_negatives": False, "num_negatives": k}).total for k in (1, 2, 4, 8)]
        batches = [of(LARGE, training={"batch_size": b}).total for b in (10**5, 10**6, 2 * 10**6)]
        for totals in (layers, graphs, batches):
            assert totals == sorted(set(totals))

    @pytest.mark.parametrize("cure", [{"recompute": True}, {"storage": "bfloat16"}])
    def test_the_cures_help(self, cure: dict[str, Any]) -> None:
        assert of(LARGE, encoder={"num_steps": 8, **cure}).total < of(LARGE, encoder={"num_steps": 8}).total


class TestRefusal:
    wide = settings(
        encoder={"hidden_size": 256, "num_steps": 8}, decoder={"width": 256}, training={"batch_size": 16_384}
    )

    def message(self, free: int, chosen: Settings | None = None) -> str:
        chosen = chosen or self.wide
        with pytest.raises(MemoryLimitError) as caught:
            refuse_if_too_large(estimate(LARGE, chosen, CPU), free, chosen)
        return str(caught.value)

    def proposals(self, message: str) -> list[tuple[dict[str, dict[str, Any]], str]]:
        found = []
        proposed, waive = message.split(" would fit: ")[1].split(". Or let it try: ")
        assert waive == "training.refuse_oversize = false"
        for words in proposed.split("; "):
            change: dict[str, dict[str, Any]] = {}
            for group, name, value in re.findall(r"(\w+)\.(\w+) = ([\w']+)", words):
                change.setdefault(group, {})[name] = json.loads(value.replace("'", '"'))
            size = re.search(r"\((.+?)\)$", words)
            assert size is not None
            found.append((change, size[1]))
        return found

    def test_enough_is_let_pass(self) -> None:
        needed = estimate(LARGE, self.wide, CPU)
        refuse_if_too_large(needed, needed.total, self.wide)

    def test_unknown_is_let_pass(self) -> None:
        refuse_if_too_large(estimate(LARGE, self.wide, CPU), None, self.wide)

    @pytest.mark.parametrize("share", [0.99, 0.8, 0.6, 0.4, 0.3, 0.2])
    def test_only_what_fits_is_proposed(self, share: float) -> None:
        total = estimate(LARGE, self.wide, CPU).total
        free = int(share * total)
        message = self.message(free)
        assert message.startswith(
            f"training needs about {in_words(total)} at its peak and {in_words(free)} are free: "
        ), message
        found = self.proposals(message)
        assert found
        for change, size in found:
            again = estimate(LARGE, self.wide.updated(change), CPU).total
            assert again <= free
            assert in_words(again) == size

    def test_the_mildest_come_first(self) -> None:
        found = self.proposals(self.message(int(0.9 * estimate(LARGE, self.wide, CPU).total)))
        assert [change for change, _ in found] == [
            {"encoder": {"recompute": True}},
            {"encoder": {"storage": "bfloat16"}},
            {"encoder": {"hidden_size": 128}, "decoder": {"width": 128}},
        ]
        assert "encoder.recompute = true (" in self.message(int(0.9 * estimate(LARGE, self.wide, CPU).total))

    def test_a_large_batch_is_halved_as_often_as_needed(self) -> None:
        chosen = settings(training={"batch_size": 4_000_000})
        small = of(LARGE, training={"batch_size": 500_000}).total
        found = self.proposals(self.message(small, chosen))
        assert {"training": {"batch_size": 500_000}} in [change for change, _ in found]

    def test_where_no_change_is_enough_several_are(self) -> None:
        narrow = {"hidden_size": 8, "num_steps": 99}
        chosen = settings(encoder=narrow, training={"batch_size": 8_000_000})
        both = settings(encoder={**narrow, "recompute": True}, training={"batch_size": 500_000})
        message = self.message(estimate(LARGE, both, CPU).total, chosen)
        assert " This would fit: encoder.recompute = true with training.batch_size = 500000 (" in message
        assert len(self.proposals(message)) == 1

    def test_nothing_fits(self) -> None:
        message = self.message(10**9)
        assert not re.search("Th(is|ese) would fit", message)
        assert "No settings would fit: it takes a machine with more memory" in message

    def test_what_takes_most_is_named(self) -> None:
        assert " of it for the embeddings of all layers." in self.message(10**10)
        chosen = settings(training={"batch_size": 8_000_000})
        assert " of it for the pairs of a batch." in self.message(10**9, chosen)

    def test_no_useless_change(self) -> None:
        chosen = settings(encoder={"hidden_size": 256, "margin": 1.0, "num_steps": 8}, decoder={"width": 256})
        message = self.message(int(0.6 * estimate(LARGE, chosen, CPU).total), chosen)
        assert "recompute" not in message and "storage" not in message, "a margin keeps to float32, and to its layers"

    def test_is_one_of_our_errors(self) -> None:
        assert issubclass(MemoryLimitError, TrainingError)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "1 MiB"), (90 << 20, "90 MiB"), (1023 << 20, "1,023 MiB"), (1 << 30, "1.0 GiB"), (33_500_000_000, "31.2 GiB")],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words


class TestFreeMemory:
    """A machine of 8 GiB, 6 of them free, in the temporary folder."""

    @pytest.fixture(autouse=True)
    def _linux(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        write(tmp_path, "proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 6291456 kB\n")

    def test_without_a_group(self, tmp_path: Path) -> None:
        assert free_memory(CPU, tmp_path) == 6 << 30

    def test_version_two(self, tmp_path: Path) -> None:
        write(tmp_path, "proc/self/cgroup", "0::/app/one\n")
        write(tmp_path, "sys/fs/cgroup/app/one/memory.max", "max\n")
        write(tmp_path, "sys/fs/cgroup/app/one/memory.current", "5\n")
        assert free_memory(CPU, tmp_path) == 6 << 30, "no limit"
        write(tmp_path, "sys/fs/cgroup/app/memory.max", f"{4 << 30}\n")
        write(tmp_path, "sys/fs/cgroup/app/memory.current", f"{3 << 30}\n")
        assert free_memory(CPU, tmp_path) == 1 << 30, "a parent's limit binds"
        write(tmp_path, "sys/fs/cgroup/app/memory.stat", f"anon 7\ninactive_file {1 << 30}\n")
        assert free_memory(CPU, tmp_path) == 2 << 30, "cached files give way"

    def test_version_one(self, tmp_path: Path) -> None:
        write(tmp_path, "proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/abc\n1:cpu,cpuacct:/\n")
        write(
            tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{5 << 30}\n"
        )  # a container sees its own as root
        write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{2 << 30}\n")
        write(tmp_path, "sys/fs/cgroup/memory/memory.stat", f"total_inactive_file {1 << 29}\n")
        assert free_memory(CPU, tmp_path) == (3 << 30) + (1 << 29)

    def test_an_endless_limit_is_none(self, tmp_path: Path) -> None:
        write(tmp_path, "proc/self/cgroup", "4:memory:/\n")
        write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
        write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", "7\n")
        assert free_memory(CPU, tmp_path) == 6 << 30

    def test_a_group_that_is_over_its_limit(self, tmp_path: Path) -> None:
        write(tmp_path, "proc/self/cgroup", "0::/\n")
        write(tmp_path, "sys/fs/cgroup/memory.max", "10\n")
        write(tmp_path, "sys/fs/cgroup/memory.current", "20\n")
        assert free_memory(CPU, tmp_path) == 0

    @pytest.mark.parametrize("text", ["", "nonsense\n", "0::/\n"])
    def test_files_that_say_nothing(self, tmp_path: Path, text: str) -> None:
        write(tmp_path, "proc/self/cgroup", text)
        write(tmp_path, "sys/fs/cgroup/memory.max", "not a number")
        assert free_memory(CPU, tmp_path) == 6 << 30

    def test_no_files_at_all(self, tmp_path: Path) -> None:
        assert free_memory(CPU, tmp_path / "nowhere") is None

    def test_elsewhere_it_may_be_unknown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "win32")
        monkeypatch.delattr(os, "sysconf")
        assert free_memory(CPU) is None

    def test_cuda(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7, 9))
        assert free_memory(torch.device("cuda")) == 7

    def test_mps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 9, raising=False)
        monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 4)
        assert free_memory(torch.device("mps")) == 5
        monkeypatch.delattr(torch.mps, "recommended_max_memory")
        assert free_memory(torch.device("mps")) is None


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="Linux says what is free")
def test_this_machine_has_some() -> None:
    free = free_memory(CPU)
    assert free is not None and free > 2**20


class TestInARun:
    def fit(self, graph: Graph | None = None) -> list[str]:
        said: list[str] = []
        hooks = Hooks(tell=said.append, on_start=lambda epochs, done: said.append("start"))
        LinkPredictor(**tiny(training={"epochs": 1, "batch_size": 30})).fit(graph or planted_graph(), hooks=hooks)
        return said

    def test_the_line_is_the_last_before_training(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_check, "free_memory", lambda device: 22_441_154_970)
        said = self.fit()
        assert re.fullmatch(r"memory: about \d+ MiB at the peak, 20\.9 GiB are free", said[-2])
        assert said[-1] == "start"

    def test_unknown_free_memory_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_check, "free_memory", lambda device: None)
        assert re.fullmatch(r"memory: about \d+ MiB at the peak", self.fit()[-2])

    def test_refused_before_anything_is_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*given: object) -> None:
            raise AssertionError("too late")

        monkeypatch.setattr(memory_check, "free_memory", lambda device: 1 << 20)
        monkeypatch.setattr(fitting, "training_data", never)
        with pytest.raises(MemoryLimitError, match=r"about \d+ MiB at its peak and 1 MiB are free"):
            self.fit()

    def test_a_refusal_can_be_waived(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_check, "free_memory", lambda device: 1 << 20)
        training = {"epochs": 1, "batch_size": 30, "refuse_oversize": False}
        assert LinkPredictor(**tiny(training=training)).fit(planted_graph()).fitted_.best_epoch == 1

    def test_other_models_are_not_estimated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_check, "free_memory", lambda device: 1)
        graph, said = planted_graph(), []
        chosen = settings(training={"epochs": 1, "batch_size": 30})
        split = holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=50)
        hooks, build = Hooks(tell=said.append), fitting._our_model
        fitting.fit_model(split, chosen, seed=0, device=CPU, calibration="platt", hooks=hooks, build=build)
        assert said == []

    def test_on_the_command_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        links = write_links(tmp_path / "links.csv")
        ran = works("fit", links, *TINY, "--out", tmp_path / "model")
        assert re.search(r"memory: about \d+ MiB at the peak", ran.err)
        monkeypatch.setattr(memory_check, "free_memory", lambda device: 1 << 20)
        said = refused("fit", links, *TINY, "--out", tmp_path / "other")
        assert "at its peak and 1 MiB are free" in said
        assert not (tmp_path / "other").exists()


CHILD = """
import contextlib, ctypes, dataclasses, gc, json
import numpy as np, torch
from yinyan.fitting import Hooks, fit_model
from yinyan.graph import Graph
from yinyan.memory import Sizes, estimate
from yinyan.settings import Settings
from yinyan.splits import holdout_split

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

torch.set_num_threads(1)
n, m, batch = 50_000, 500_000, 16_384
pairs = np.random.default_rng(0).integers(0, n, (m, 2))
graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=n)
settings = Settings().updated({
    "encoder": {"inputs": "embeddings", "hidden_size": 64, "feature_dropout": 0.0},
    "decoder": {"width": 64}, "training": {"batch_size": batch, "epochs": 1, "evaluate_every": 1},
})
split = holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=20_000)
split = dataclasses.replace(split, train_targets=split.train_targets[:2 * batch])  # an epoch of two steps
needed = estimate(Sizes.of(split), settings, torch.device("cpu")).total
del pairs
gc.collect()
with contextlib.suppress(AttributeError, OSError):
    ctypes.CDLL(None).malloc_trim(0)
with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the highest mark starts anew
before = status("VmRSS")
fit_model(split, settings, seed=0, device=torch.device("cpu"), calibration="platt", hooks=Hooks())
print(json.dumps([needed, status("VmHWM") - before]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how much was resident")
def test_the_estimate_is_near_what_a_process_takes() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(yinyan.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, timeout=180)
    assert ran.returncode == 0, ran.stderr
    needed, grown = json.loads(ran.stdout.splitlines()[-1])
    assert needed == pytest.approx(grown, rel=0.4), (in_words(needed), in_words(grown))


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)

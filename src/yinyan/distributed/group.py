"""The processes of a run: what they send each other, and what they must agree on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

# Its functions keep the group that exists when it is imported as a default argument, so that this group is never
# destroyed. torch.distributed.checkpoint imports it, and one of gloo's threads that frees a tensor while the
# interpreter ends aborts the process (signal 6). So it is imported while there is no group.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from yinyan.errors import InputError, SettingsError, TrainingError
from yinyan.model.tensors import pick_device

__all__ = ["TIMEOUT", "Group", "is_launched", "restarts"]

TIMEOUT = "YINYAN_RANK_TIMEOUT"  # environment variable: seconds that a process waits for the others
_SECONDS = 600.0


def is_launched() -> bool:
    """Whether this process is one of several that torchrun started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def restarts() -> int:
    """How often torchrun has restarted the processes."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class Group:
    """The processes of a run. Every method is called by all of them, in the same order."""

    def __init__(self, device: str = "auto") -> None:
        """Join the group that torchrun has started, or be alone."""
        self.rank, self.size = 0, 1
        self.seconds = _timeout()
        self.device = self._own_device(device)
        self.bytes_sent = 0  # to other processes, by `exchange`
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        timeout = timedelta(seconds=self.seconds)
        if is_launched():
            self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            with self._waiting("the start"):
                store, *_ = next(iter(rendezvous("env://", timeout=timeout)))
                # torchrun may keep the store of a group that it restarts, with the addresses of its dead processes
                store = dist.PrefixStore(f"restart {restarts()}", store)  # type: ignore[attr-defined]
                dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size, timeout=timeout)
        else:
            store = dist.HashStore()  # type: ignore[attr-defined]
            dist.init_process_group(backend, store=store, rank=0, world_size=1, timeout=timeout)

    @property
    def is_first(self) -> bool:
        """Whether this process reports and writes."""
        return self.rank == 0

    def leave(self) -> None:
        """End the group and its threads. To be called on every path: a thread that is left can abort the exit."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def summed(self, x: Tensor) -> Tensor:
        """The sum of all processes' x, with the same bits on all of them."""
        if self.size == 1:
            return x
        total = x.contiguous().clone()
        with self._waiting("a sum"):
            dist.all_reduce(total)
        return total

    def largest(self, number: int) -> int:
        """The largest of all processes' numbers."""
        found = torch.tensor([number], device=self.device)
        with self._waiting("a maximum"):
            dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def exchange(self, sent: Tensor, counts: Sequence[int], out: Tensor, out_counts: Sequence[int]) -> Tensor:
        """Send `counts[p]` rows of `sent` to each process p, and receive `out_counts[p]` rows of each into `out`."""
        if self.size == 1:
            return out.copy_(sent)
        self.exchange_started(sent, counts, out, out_counts)()
        return out

    def exchange_started(
        self, sent: Tensor, counts: Sequence[int], out: Tensor, out_counts: Sequence[int]
    ) -> Callable[[], None]:
        """The same of several processes in the background; the call waits for its end."""
        others = sent.shape[0] - counts[self.rank]
        self.bytes_sent += others * sent.element_size() * (sent.numel() // max(1, sent.shape[0]))
        with self._waiting("an exchange of rows"):
            work = dist.all_to_all_single(out, sent, list(out_counts), list(counts), async_op=True)

        def wait() -> None:
            with self._waiting("an exchange of rows"):
                work.wait()

        return wait

    def exchange_counts(self, counts: Tensor) -> Tensor:
        """(size,) how many rows each process will send to this one, given how many this one sends to each."""
        return self.exchange(counts, [1] * self.size, torch.empty_like(counts), [1] * self.size)

    def gathered(self, x: Tensor) -> Tensor:
        """The rows of all processes' x, one after the other, on all of them."""
        if self.size == 1:
            return x
        counts = self.summed(torch.eye(self.size, dtype=torch.long, device=x.device)[self.rank] * x.shape[0]).tolist()
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: x.shape[0]] = x
        parts = [torch.empty_like(padded) for _ in counts]
        with self._waiting("the gathering of rows"):
            dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def gathered_by_first(self, x: Tensor) -> Tensor | None:
        """The rows of all processes' x in the first process; None in the others."""
        counts = [0] * self.size
        counts[0] = x.shape[0]
        got = self.exchange_counts(torch.tensor(counts, device=self.device)).tolist()
        out = self.exchange(x, counts, x.new_empty(sum(got), *x.shape[1:]), got)
        return out if self.is_first else None

    def texts(self, text: str) -> list[str]:
        """The texts of all processes."""
        data = torch.tensor(list(text.encode()), dtype=torch.uint8, device=self.device)
        sizes = self.gathered(torch.tensor([data.numel()], device=self.device)).tolist()
        whole = bytes(self.gathered(data).tolist())
        ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
        return [whole[end - size : end].decode() for end, size in zip(ends, sizes, strict=True)]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.summed(torch.zeros(1, device=self.device))

    def agree(self, facts: Mapping[str, object]) -> None:
        """Refuse to go on where processes differ in one of the facts."""
        all_facts = [json.loads(text) for text in self.texts(json.dumps({k: str(v) for k, v in facts.items()}))]
        for name, value in all_facts[0].items():
            for rank, others in enumerate(all_facts):
                if others.get(name) != value:
                    raise InputError(
                        f"the processes differ in {name}: {value!r} in process 0, {others.get(name)!r} in process "
                        f"{rank} (start all of them with the same version, command and prepared folder)"
                    )

    def raise_if_any(self, error: Exception | None) -> None:
        """Raise an error in all processes if one of them has one, so that none waits for it."""
        found = self.texts("" if error is None else str(error))
        if error is not None:
            raise error
        for rank, text in enumerate(found):
            if text:
                raise TrainingError(f"process {rank} of {self.size} cannot go on: {text}")

    def _own_device(self, name: str) -> torch.device:
        device = torch.device("cpu") if name == "auto" and not torch.cuda.is_available() else pick_device(name)
        if device.type == "mps":
            raise SettingsError("'device' is 'mps', which has no communication between processes (use 'cpu')")
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(device)
        return device

    @contextmanager
    def _waiting(self, what: str) -> Iterator[None]:
        """Say who waited for what if another process does not answer."""
        began = time.monotonic()
        try:
            yield
        except RuntimeError as error:  # of any backend
            raise TrainingError(
                f"process {self.rank} of {self.size} lost the others at {what}, after "
                f"{time.monotonic() - began:.0f} s: a process has ended, hangs or is cut off (see its own messages; "
                f"start again with --resume; {TIMEOUT}={self.seconds:g} is the limit in seconds): "
                f"{str(error).splitlines()[0]}"
            ) from error


def _timeout() -> float:
    given = os.environ.get(TIMEOUT, str(_SECONDS))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise SettingsError(f"'{TIMEOUT}' needs to be a positive number of seconds (got {given!r})")
    return seconds

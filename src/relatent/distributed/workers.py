"""Collective operations of the processes that run one fit, on one machine or on several.

`torchrun` starts the processes; torch.distributed connects them: Gloo transfers NumPy arrays, NCCL tensors on GPUs.
In a fit by one process every collective returns its argument, and torch is not needed.

Each worker owns a range of entities and holds all factors. Traffic is counted twice: `bytes_handed` counts the bytes
that a worker passes to collectives, `bytes_sent` the bytes that each of P workers in a ring sends for them:

    sum of n bytes          2 (P − 1) / P · n         one round to add, one to distribute the sum
    gather of n in total    (P − 1) / P · n
    exchange                the bytes for other workers
    broadcast of n          (P − 1) / P · n           average over the workers
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import FitError, InputError, LostWorkerError, RelatentError

T = TypeVar("T")

TIMEOUT_SECONDS = 3600.0  # wait for other workers: the first may be reading a large file
TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Workers:
    """The group of workers that run one fit, seen from one of them; `Workers.join()` under torchrun, else `ALONE`.

    Methods that communicate are collective: every worker must call the same ones in the same order.

    >>> Workers().size  # one process alone; `with Workers.join() as workers` under torchrun
    1
    """

    def __init__(self, rank: int = 0, size: int = 1, *, store: Any = None):
        self.rank, self.size = rank, size
        here = os.environ if size > 1 else {}
        self.local_rank, self.local_size = (
            int(here.get(*name)) for name in (("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"))
        )
        self.bytes_handed = self.bytes_sent = 0
        self._store = store

    # --- joining and leaving

    @classmethod
    def join(cls, *, device: str = "cpu", timeout: float = TIMEOUT_SECONDS) -> Workers:
        """Join the workers that torchrun has started; leave with `leave` or at the end of a `with` block."""
        try:
            import torch
            import torch.distributed as dist
        except ImportError:
            raise InputError("several workers need torch: pip install 'relatent[gpu]'") from None
        missing = [name for name in TORCHRUN_VARIABLES if name not in os.environ]
        if missing:
            raise InputError(
                f"several workers must be started by torchrun, but {missing[0]} is not set: "
                "torchrun --nproc-per-node 4 -m relatent fit …"
            )
        if not timeout > 0:
            raise InputError(f"timeout must be above 0 seconds, got {timeout!r}")
        wait = timedelta(seconds=timeout)
        on_gpu = device.startswith("cuda")
        if on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        try:
            store, rank, size = next(dist.rendezvous("env://", rank, size, timeout=wait))
            store.set_timeout(wait)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=size, timeout=wait
            )
        except RuntimeError as problem:
            raise FitError(f"worker {rank} could not connect to the other {size - 1}: {_first_line(problem)}") from None
        workers = cls(rank, size, store=store)
        workers._divide_threads()
        return workers

    def _divide_threads(self) -> None:
        """Divide the cores of a machine among its workers, unless NUMBA_NUM_THREADS is set."""
        if "NUMBA_NUM_THREADS" not in os.environ:
            import numba

            numba.set_num_threads(max(1, numba.get_num_threads() // self.local_size))

    def leave(self) -> None:
        """Leave the group."""
        if self._store is not None:
            import torch.distributed as dist

            self._store = None
            with suppress(RuntimeError):
                dist.destroy_process_group()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def is_first_to_report(self) -> bool:
        """Whether no other worker has called this before: one worker reports an error that stops all of them."""
        if self._store is None:
            return True
        with suppress(RuntimeError):
            return bool(self._store.add("relatent/told", 1) == 1)
        return True  # the others are gone

    # --- ownership of entities

    def entity_edges(self, n: int) -> NDArray[np.int64]:
        """First entity of each worker, (P + 1,): equal ranges; the last worker also gets the remainder."""
        if n < self.size:
            raise InputError(f"{n} entities are too few for {self.size} workers: start at most {max(n, 1)}")
        return np.append(np.arange(self.size, dtype=np.int64) * (n // self.size), n)

    def entity_range(self, n: int) -> slice:
        """The entities that this worker owns."""
        low, high = self.entity_edges(n)[self.rank : self.rank + 2].tolist()
        return slice(low, high)

    # --- collectives on NumPy arrays (without a copy) and on tensors (on their device)

    def sum(self, array: T) -> T:
        """The sum over all workers, in place."""
        if self.size > 1 and _size(array):
            self._count(array, 2 * (self.size - 1) / self.size)
            self._call(lambda dist: dist.all_reduce(_tensor(array)))
        return array

    def sum_rows(self, whole: Any) -> Any:
        """The sum over all workers, of the rows that this worker owns only: sends half as much as `sum`."""
        if self.size == 1:
            return whole
        parts = self.exchange(whole, np.diff(self.entity_edges(len(whole))).tolist())
        return parts.reshape(self.size, -1, *whole.shape[1:]).sum(axis=0)

    def gather_rows(self, whole: T) -> T:
        """Fill the rows that other workers own, in place; each worker has filled its `entity_range`."""
        if self.size > 1:
            count = len(whole) // self.size  # type: ignore[arg-type]
            tensor = _tensor(whole)
            even, rest = tensor[: count * self.size], tensor[count * self.size :]
            own = even[count * self.rank : count * (self.rank + 1)]
            self._count(own, self.size - 1)

            def gather(dist: Any) -> None:
                join = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # torch 2.13 renames it
                join(even.reshape(-1), own.reshape(-1))

            self._call(gather)
            if len(rest):
                self.broadcast(rest, self.size - 1)
        return whole

    def broadcast(self, array: T, source: int = 0) -> T:
        """The array of one worker on all, in place."""
        if self.size > 1 and _size(array):
            self._count(array, (self.size - 1) / self.size)
            self._call(lambda dist: dist.broadcast(_tensor(array), source))
        return array

    def broadcast_from(self, source: int, array: NDArray[Any]) -> NDArray[Any]:
        """A copy of the array of one worker; lengths may differ between workers."""
        length = int(self.broadcast(np.array([len(array)], np.int64), source)[0])
        given = np.array(array) if self.rank == source else np.empty((length, *array.shape[1:]), array.dtype)
        return self.broadcast(given, source)

    def gather(self, part: NDArray[Any]) -> list[NDArray[Any]]:
        """The arrays of all workers, by rank; they may differ in length."""
        if self.size == 1:
            return [part]
        lengths = self.gather_numbers(len(part))
        longest = max(lengths)
        padded = np.zeros((self.size * longest, *part.shape[1:]), part.dtype)
        padded[longest * self.rank :][: len(part)] = part
        self.gather_rows(padded)
        return [padded[longest * other :][:length] for other, length in enumerate(lengths)]

    def gather_numbers(self, number: int) -> list[int]:
        """One integer per worker."""
        numbers = np.zeros(self.size, np.int64)
        numbers[self.rank] = number
        return [int(count) for count in self.sum(numbers)]

    def exchange(self, array: Any, counts: Sequence[int]) -> Any:
        """Send counts[0] rows to worker 0, the next counts[1] to worker 1, …; return the rows received, by rank."""
        if self.size == 1:
            return array
        table = np.zeros((self.size, self.size), np.int64)
        table[self.rank] = counts
        self.sum(table)
        to_come = table[:, self.rank].tolist()
        shape = (sum(to_come), *array.shape[1:])
        if isinstance(array, np.ndarray):
            given, received = np.require(array, requirements=("C", "W")), np.empty(shape, array.dtype)
        else:
            given, received = array.contiguous(), array.new_empty(shape)
        away = given.nbytes * (1 - counts[self.rank] / max(len(given), 1))
        self.bytes_handed += given.nbytes
        self.bytes_sent += round(away)
        self._call(
            lambda dist: dist.all_to_all_single(_tensor(received), _tensor(given), to_come, [int(c) for c in counts])
        )
        return received

    # --- numbers, texts and errors

    def agree(self, *numbers: float) -> tuple[float, ...]:
        """The first worker's numbers, so that all workers decide alike even if machines round differently."""
        if self.size == 1:
            return numbers
        return tuple(self.broadcast(np.array(numbers, np.float64)).tolist())

    def any(self, claim: bool) -> bool:
        """Whether the claim holds on any worker."""
        return self.sum_int(int(claim)) > 0

    def sum_float(self, number: float) -> float:
        """The sum of a float over all workers."""
        return number if self.size == 1 else float(self.sum(np.array([number], np.float64))[0])

    def sum_int(self, number: int) -> int:
        """The sum of an integer over all workers."""
        return number if self.size == 1 else int(self.sum(np.array([number], np.int64))[0])

    def max(self, number: float) -> float:
        """The maximum over all workers."""
        return float(np.max(np.concatenate(self.gather(np.array([number], np.float64)))))

    def gather_texts(self, text: str) -> list[str]:
        """One text per worker."""
        if self.size == 1:
            return [text]
        return [part.tobytes().decode() for part in self.gather(np.frombuffer(text.encode(), np.uint8))]

    def agree_on_text(self, text: str) -> str:
        """The first worker's text."""
        if self.size == 1:
            return text
        return self.broadcast_from(0, np.frombuffer(text.encode(), np.uint8)).tobytes().decode()

    def check_same(self, text: str, what: str) -> None:
        """Raise InputError if the text differs between workers."""
        texts = self.gather_texts(text)
        for other, theirs in enumerate(texts):
            if theirs != texts[0]:
                raise InputError(
                    f"{what} must be the same on all workers, but those of worker 0 and worker {other} differ"
                )

    @contextmanager
    def raise_together(self) -> Iterator[None]:
        """Raise the error of one worker on all of them. The block must not contain another collective."""
        problem: RelatentError | None = None
        try:
            yield
        except RelatentError as error:
            if self.size == 1:
                raise
            problem = error
        if self.size > 1:
            told = next((text for text in self.gather_texts("" if problem is None else str(problem)) if text), None)
            if told is not None:
                raise problem if problem is not None and str(problem) == told else InputError(told)

    def _count(self, array: Any, times: float) -> None:
        self.bytes_handed += array.nbytes
        self.bytes_sent += round(array.nbytes * times)

    def _call(self, collective: Callable[[Any], Any]) -> None:
        import torch.distributed as dist

        try:
            collective(dist)
        except RuntimeError as problem:  # errors of Gloo and NCCL derive from it
            raise LostWorkerError(
                f"worker {self.rank} of {self.size} has lost the connection to another worker ({_first_line(problem)}):"
                " start the fit again with any number of workers; with a checkpoint it resumes where it stopped"
            ) from None


ALONE = Workers()


def _tensor(array: Any) -> Any:
    """The array as a tensor that shares its memory."""
    if isinstance(array, np.ndarray):
        import torch

        return torch.from_numpy(array)
    return array


def _size(array: Any) -> int:
    return int(np.prod(array.shape))


def _first_line(problem: object) -> str:
    text = str(problem).strip().splitlines()
    return text[0].split(". This may")[0].rstrip(".") if text else type(problem).__name__

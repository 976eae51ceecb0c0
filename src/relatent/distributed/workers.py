"""Several processes, on one machine or on many, that work on one fit together; or one that works alone.

Started by `torchrun`, they meet through torch.distributed: Gloo carries what lies in memory, NCCL what lies on GPUs.
A worker that is alone answers every call with what it was given, and needs no torch.

Each owns a range of entities, and all hold all factors. What a worker sends is counted twice: `handed` is what it gives
to the collectives, `sent` what a ring of P workers makes each of them send for it:

    sum of n bytes          2 (P − 1) / P · n         each part goes round twice, to be added and to be told
    gather of n in all      (P − 1) / P · n
    exchange                what is for others
    broadcast of n          (P − 1) / P · n           on average: n for all but one
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

TIMEOUT = 3600.0  # seconds that a worker waits for silent others: the first may be reading a large file for all
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Workers:
    """The workers of a fit as one of them sees them; `Workers.join()` under torchrun, `ALONE` otherwise.

    Every method but the counts is for all workers at once: each calls the same ones, in the same order.
    """

    def __init__(self, rank: int = 0, size: int = 1, *, store: Any = None):
        self.rank, self.size = rank, size
        here = os.environ if size > 1 else {}
        self.local_rank, self.local_size = (
            int(here.get(*name)) for name in (("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"))
        )
        self.handed = self.sent = 0
        self._store = store

    # --- coming and going

    @classmethod
    def join(cls, *, device: str = "cpu", timeout: float = TIMEOUT) -> Workers:
        """This process as one of those that torchrun has started; leave by `leave` or at the end of a `with`."""
        try:
            import torch
            import torch.distributed as dist
        except ImportError:
            raise InputError("several workers need torch: pip install 'relatent[gpu]'") from None
        missing = [name for name in NEEDED if name not in os.environ]
        if missing:
            raise InputError(
                f"several workers are started by torchrun, but {missing[0]} is not set: "
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
            raise FitError(f"worker {rank} did not find the other {size - 1}: {_first_line(problem)}") from None
        workers = cls(rank, size, store=store)
        workers._divide_threads()
        return workers

    def _divide_threads(self) -> None:
        """The cores of a machine are shared by the workers on it, unless someone has said otherwise."""
        if "NUMBA_NUM_THREADS" not in os.environ:
            import numba

            numba.set_num_threads(max(1, numba.get_num_threads() // self.local_size))

    def leave(self) -> None:
        """Part from the others."""
        if self._store is not None:
            import torch.distributed as dist

            self._store = None
            with suppress(RuntimeError):
                dist.destroy_process_group()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def is_first_to_tell(self) -> bool:
        """Whether no other worker has asked this before: what ends all of them is told by one."""
        if self._store is None:
            return True
        with suppress(RuntimeError):
            return bool(self._store.add("relatent/told", 1) == 1)
        return True  # nobody is left to ask

    # --- who owns what

    def edges(self, n: int) -> NDArray[np.int64]:
        """Where each worker's entities begin, (P + 1,): equally many, and the last one has those left over."""
        if n < self.size:
            raise InputError(f"there are {n} entities for {self.size} workers: start {max(n, 1)} at most")
        return np.append(np.arange(self.size, dtype=np.int64) * (n // self.size), n)

    def rows(self, n: int) -> slice:
        """The entities that this worker owns."""
        low, high = self.edges(n)[self.rank : self.rank + 2].tolist()
        return slice(low, high)

    # --- collectives on NumPy arrays, which are not copied, and on tensors, which stay where they are

    def sum(self, array: T) -> T:
        """The sum over all workers, in place."""
        if self.size > 1 and _numbers(array):
            self._count(array, 2 * (self.size - 1) / self.size)
            self._call(lambda dist: dist.all_reduce(_tensor(array)))
        return array

    def sum_rows(self, whole: NDArray[Any]) -> NDArray[Any]:
        """The sum over all workers of the rows that this one owns: half of what `sum` sends."""
        if self.size == 1:
            return whole
        parts = self.exchange(whole, np.diff(self.edges(len(whole))).tolist())
        total: NDArray[Any] = parts.reshape(self.size, -1, *whole.shape[1:]).sum(axis=0)
        return total

    def gather_rows(self, whole: T) -> T:
        """Every worker's own rows for all, in place: each has filled those of `rows`."""
        if self.size > 1:
            each = len(whole) // self.size  # type: ignore[arg-type]
            tensor = _tensor(whole)
            even, rest = tensor[: each * self.size], tensor[each * self.size :]
            own = even[each * self.rank : each * (self.rank + 1)]
            self._count(own, self.size - 1)

            def gather(dist: Any) -> None:
                join = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # torch 2.13 renames it
                join(even.reshape(-1), own.reshape(-1))

            self._call(gather)
            if len(rest):
                self.broadcast(rest, self.size - 1)
        return whole

    def broadcast(self, array: T, source: int = 0) -> T:
        """What one of them has, for all, in place."""
        if self.size > 1 and _numbers(array):
            self._count(array, (self.size - 1) / self.size)
            self._call(lambda dist: dist.broadcast(_tensor(array), source))
        return array

    def copy_of(self, source: int, array: NDArray[Any]) -> NDArray[Any]:
        """What one of them gives, of whatever length."""
        length = int(self.broadcast(np.array([len(array)], np.int64), source)[0])
        given = np.array(array) if self.rank == source else np.empty((length, *array.shape[1:]), array.dtype)
        return self.broadcast(given, source)

    def gather(self, part: NDArray[Any]) -> list[NDArray[Any]]:
        """The parts of all workers, by rank; they differ in length only."""
        if self.size == 1:
            return [part]
        lengths = self.gather_numbers(len(part))
        longest = max(lengths)
        padded = np.zeros((self.size * longest, *part.shape[1:]), part.dtype)
        padded[longest * self.rank :][: len(part)] = part
        self.gather_rows(padded)
        return [padded[longest * other :][:length] for other, length in enumerate(lengths)]

    def gather_numbers(self, number: int) -> list[int]:
        """One whole number of each worker."""
        numbers = np.zeros(self.size, np.int64)
        numbers[self.rank] = number
        return [int(each) for each in self.sum(numbers)]

    def exchange(self, array: NDArray[Any], counts: Sequence[int]) -> NDArray[Any]:
        """What all have for this worker, by rank: the first counts[0] rows are for worker 0, and so on."""
        if self.size == 1:
            return array
        table = np.zeros((self.size, self.size), np.int64)
        table[self.rank] = counts
        self.sum(table)
        to_come = table[:, self.rank].tolist()
        given = np.require(array, requirements=("C", "W"))
        received = np.empty((sum(to_come), *array.shape[1:]), array.dtype)
        away = given.nbytes * (1 - counts[self.rank] / max(len(given), 1))
        self.handed += given.nbytes
        self.sent += round(away)
        self._call(
            lambda dist: dist.all_to_all_single(_tensor(received), _tensor(given), to_come, [int(c) for c in counts])
        )
        return received

    def barrier(self) -> None:
        """Wait until all are here."""
        self.total(0)

    # --- numbers, texts and troubles

    def agreed(self, *numbers: float) -> tuple[float, ...]:
        """The first worker's numbers: what is decided by them is decided alike, whatever machines make of rounding."""
        if self.size == 1:
            return numbers
        return tuple(self.broadcast(np.array(numbers, np.float64)).tolist())

    def any(self, claim: bool) -> bool:
        """Whether it holds for any."""
        return self.total(int(claim)) > 0

    def add(self, number: float) -> float:
        """The sum of a number over all workers."""
        return number if self.size == 1 else float(self.sum(np.array([number], np.float64))[0])

    def total(self, number: int) -> int:
        """The sum of a whole number over all workers."""
        return number if self.size == 1 else int(self.sum(np.array([number], np.int64))[0])

    def most(self, number: float) -> float:
        """The largest of the workers' numbers."""
        return float(np.max(np.concatenate(self.gather(np.array([number], np.float64)))))

    def texts(self, text: str) -> list[str]:
        """A text of each worker."""
        if self.size == 1:
            return [text]
        return [part.tobytes().decode() for part in self.gather(np.frombuffer(text.encode(), np.uint8))]

    def told(self, text: str) -> str:
        """The first worker's text."""
        if self.size == 1:
            return text
        return self.copy_of(0, np.frombuffer(text.encode(), np.uint8)).tobytes().decode()

    def check_same(self, text: str, what: str) -> None:
        """Refuse what must not differ between workers and does."""
        texts = self.texts(text)
        for other, theirs in enumerate(texts):
            if theirs != texts[0]:
                raise InputError(f"{what} must be the same on all workers, but those of 0 and {other} differ")

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is refused on one worker is refused on all, in the same words. No other collective goes in here."""
        problem: RelatentError | None = None
        try:
            yield
        except RelatentError as error:
            if self.size == 1:
                raise
            problem = error
        if self.size > 1:
            told = next((text for text in self.texts("" if problem is None else str(problem)) if text), None)
            if told is not None:
                raise problem if problem is not None and str(problem) == told else InputError(told)

    def _count(self, array: Any, times: float) -> None:
        self.handed += array.nbytes
        self.sent += round(array.nbytes * times)

    def _call(self, collective: Callable[[Any], Any]) -> None:
        import torch.distributed as dist

        try:
            collective(dist)
        except RuntimeError as problem:  # whatever Gloo and NCCL raise descends from it
            raise LostWorkerError(
                f"worker {self.rank} of {self.size} has lost another one ({_first_line(problem)}): start again, with "
                "any number of workers; with a checkpoint the fit goes on where it was"
            ) from None


ALONE = Workers()


def _tensor(array: Any) -> Any:
    """The same numbers as a tensor."""
    if isinstance(array, np.ndarray):
        import torch

        return torch.from_numpy(array)
    return array


def _numbers(array: Any) -> int:
    return int(np.prod(array.shape))


def _first_line(problem: object) -> str:
    text = str(problem).strip().splitlines()
    return text[0].split(". This may")[0].rstrip(".") if text else type(problem).__name__

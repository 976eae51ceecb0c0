"""Arrays on a GPU, and the few operations on them that are no operators: `host` in PyTorch. Extra `relatent[gpu]`.

On CUDA the operations are Triton kernels (`kernels`); on PyTorch's CPU, where tests run, they are plain words.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Ids, Vector
from ..errors import FitError, InputError
from .numpy_backend import TINY

ROOM = 1 << 30  # bytes of scores at a time
ROWS = 1 << 18  # of A in float64 at a time
UNIT = 64  # columns of a product come in multiples of this


def check(name: str) -> None:
    """Refuse a GPU that is not there, and say what to do."""
    device = torch.device(name)
    if not torch.cuda.is_available():
        raise InputError(f"device={name!r}: PyTorch sees no CUDA device here; take device='cpu'")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise InputError(f"device={name!r}: there are {torch.cuda.device_count()} CUDA devices, the first is 'cuda:0'")
    if importlib.util.find_spec("triton") is None:
        raise InputError(f"device={name!r} needs Triton: pip install 'relatent[gpu]'")


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y in float32."""
    return torch.mm(x, y, out_dtype=torch.float32) if x.dtype == torch.float16 and x.is_cuda else x.float() @ y.float()


class Products:
    """Rows sorted by relation, times the matrix of their relation."""

    def __init__(self, bounds: Ids, device: torch.device):
        self._pairs = list(pairwise(bounds.tolist()))
        self._bounds = torch.from_numpy(np.asarray(bounds, np.int64)).to(device)
        self._tiles: Tensor | None = None
        if device.type == "cuda":
            from .triton_kernels import TILE

            tiles = [
                (k, low, min(low + TILE, stop))
                for k, (start, stop) in enumerate(self._pairs)
                for low in range(start, stop, TILE)
            ]
            self._tiles = torch.tensor(tiles, dtype=torch.int64, device=device).reshape(-1, 3)

    def times(self, X: Tensor, R: Tensor, turned: bool) -> Tensor:
        """Each row times R_k, or R_kᵀ."""
        if self._tiles is not None:
            from . import triton_kernels as kernels

            return kernels.times(X, R, self._tiles, turned)
        out = torch.empty_like(X)
        for k, (low, high) in enumerate(self._pairs):
            out[low:high] = X[low:high] @ (R[k].T if turned else R[k])
        return out

    def add_outer(self, X: Tensor, Y: Tensor, dR: Tensor) -> None:
        """Add Σ x yᵀ over the rows of each relation to dR_k."""
        if self._tiles is not None:
            from . import triton_kernels as kernels

            return kernels.add_outer(X, Y, self._bounds, dR)
        for k, (low, high) in enumerate(self._pairs):
            dR[k] += X[low:high].T @ Y[low:high]


class Sums:
    """Weighted sums of rows of a matrix, by segments of an index."""

    def __init__(self, starts: Ids, index: Ids, weights: Vector, device: torch.device):
        def put(x: NDArray[Any], dtype: Any) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x, dtype)).to(device)

        self.starts, self.index, self.weights = put(starts, np.int64), put(index, np.int64), put(weights, np.float32)

    def __call__(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        """Σ w x over each segment, (g, r); with other weights, if given."""
        weights = self.weights if weights is None else weights
        if X.is_cuda:
            from . import triton_kernels as kernels

            return kernels.sums(X, self.starts, self.index, weights)
        segment = torch.repeat_interleave(torch.arange(len(self.starts) - 1), self.starts.diff())
        out = X.new_zeros(len(self.starts) - 1, X.shape[1])
        return out.index_add_(0, segment, weights[:, None] * X[self.index])


class Device:
    """PyTorch: float32 arrays; products of scores in float16 with float32 sums, or in TF32."""

    def __init__(self, name: str = "cuda", *, half: bool = True):
        self.device, self.half = torch.device(name), half
        self.dtype = np.dtype(np.float32)
        self._unit = 2.0**15 if half else 1.0  # of a softmax: float16 then has all its digits down to p = 2e-9

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Tell in one line that the GPU's memory is too small."""
        try:
            yield
        except torch.cuda.OutOfMemoryError as problem:
            total = torch.cuda.get_device_properties(self.device).total_memory / 1e9
            raise FitError(
                f"the {total:.0f} GB of the GPU are not enough: lower the rank, or take the CPU"
            ) from problem

    def place(self, x: NDArray[Any]) -> Tensor:
        """An array on the device: numbers as float32, indices as int64."""
        dtype = np.float32 if np.issubdtype(x.dtype, np.floating) else np.int64
        return torch.tensor(np.ascontiguousarray(x, dtype), device=self.device)

    def fetch(self, x: Tensor) -> NDArray[Any]:
        """The array in this machine's memory."""
        return x.cpu().numpy()  # type: ignore[no-any-return]

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Zeros of the type of another array."""
        return like.new_zeros(shape)

    def eps(self, x: Tensor) -> float:
        """The spacing of its numbers at 1."""
        return float(torch.finfo(x.dtype).eps)

    def contiguous(self, x: Tensor) -> Tensor:
        """The array in one piece."""
        return x.contiguous()

    def products(self, bounds: Ids) -> Products:
        """Products by relation, for rows in this order."""
        return Products(bounds, self.device)

    def sums(self, starts: Ids, index: Ids, weights: Vector) -> Sums:
        """Sums by segments of this index."""
        return Sums(starts, index, weights, self.device)

    def dot(self, a: Tensor, b: Tensor) -> float:
        """a · b in float64."""
        return float(torch.dot(a.reshape(-1).double(), b.reshape(-1).double()))

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """x y, rounded no more than scores are."""
        with tf32(True):
            return x @ y

    def narrow(self, x: Tensor) -> Tensor:
        """An array of the work in the type of the work."""
        return x.float()

    def widened(self, x: Tensor) -> Tensor:
        """An array of the work in float64."""
        return x.double()

    def wide(self, x: NDArray[Any]) -> Tensor:
        """An array of float64 on the device."""
        return torch.tensor(np.asarray(x, np.float64), device=self.device)

    def gram(self, A: Tensor) -> NDArray[Any]:
        """AᵀA in float64, in this machine's memory."""
        G = torch.zeros(A.shape[1], A.shape[1], dtype=torch.float64, device=A.device)
        for rows in A.split(ROWS):
            wide = rows.double()
            G += wide.T @ wide
        return self.fetch(G)

    def softmax(self, S: Tensor) -> tuple[Tensor, Tensor]:
        """The softmax along the last axis, and log Σ exp there, in float64."""
        return torch.softmax(S, -1), torch.logsumexp(S, -1).double()

    def attend(self, Q: Tensor, A: Tensor, c: Tensor, hidden: tuple[Tensor, Tensor]) -> tuple[float, Tensor, Tensor]:
        """With P = softmax(Q Aᵀ) along rows, hidden cells left out: Σ c log Σ exp, P A and Pᵀ diag(c) Q.

        The sum of rounded factors is off by <gradient, rounding error> to first order, which is taken out again.
        """
        n, r = A.shape
        if not len(Q):
            return 0.0, torch.empty_like(Q), torch.zeros_like(A)
        width = -(-n // UNIT) * UNIT
        keys = self._narrow(torch.nn.functional.pad(A, (0, 0, 0, width - n)))
        queries, weighted = self._narrow(Q), c * Q
        # A power of two keeps what is summed inside float16's range.
        size = torch.exp2(torch.log2(weighted.abs().amax().clamp(min=1e-30) / 256).ceil()).clamp(min=1)
        weighted = self._narrow(weighted / size)
        logs, dQ, dA = Q.new_empty(len(Q)), torch.empty_like(Q), Q.new_zeros(width, r)
        step = max(1, ROOM // (4 * width))
        for low in range(0, len(Q), step):
            here = slice(low, min(low + step, len(Q)))
            S = product(queries[here], keys.T)
            if len(hidden[0]):
                edges = torch.tensor([here.start, here.stop], device=S.device)
                first, last = torch.searchsorted(hidden[0], edges).tolist()
                S[hidden[0][first:last] - low, hidden[1][first:last]] = -torch.inf
            P, logs[here] = self._softmax(S, n)
            dQ[here] = product(P, keys)
            dA += product(P.T, weighted[here])
        unit = 1 / self._unit
        dQ, dA = dQ * unit, dA[:n] * (size * unit)
        value = self.dot(c[:, 0], logs)
        if self.half:
            value -= self.dot(c * dQ, queries.float() - Q) + self.dot(dA, keys[:n].float() - A)
        return value, dQ, dA

    def _narrow(self, x: Tensor) -> Tensor:
        return x.half() if self.half else x

    def _softmax(self, S: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The softmax of each row's first n, as 2¹⁵ p if it is float16, and log Σ exp."""
        dtype = torch.float16 if self.half else torch.float32
        if S.is_cuda:
            from . import triton_kernels as kernels

            return kernels.softmax(S, n, self._unit, dtype)
        P = torch.zeros_like(S, dtype=dtype)
        P[:, :n] = self._unit * torch.softmax(S[:, :n], 1)
        return P, torch.logsumexp(S[:, :n], 1)

    def two_loops(self, S: Tensor, Y: Tensor, curvature: Vector, newest_first: Ids, q: Tensor) -> None:
        """L-BFGS: turn a gradient into a direction in place (Nocedal & Wright, algorithm 7.4)."""
        order = newest_first.tolist()
        alpha = {}
        for pair in order:
            alpha[pair] = self.dot(S[pair], q) / float(curvature[pair])
            q.add_(Y[pair], alpha=-alpha[pair])
        q.mul_(float(curvature[order[0]]) / self.dot(Y[order[0]], Y[order[0]]))
        for pair in reversed(order):
            q.add_(S[pair], alpha=alpha[pair] - self.dot(Y[pair], q) / float(curvature[pair]))

    def adam(self, x: Tensor, mean: Tensor, square: Tensor, g: Tensor, rate: float, fades: tuple[float, float]) -> None:
        """Adam's update in place; fades: of the memories of g and of its square."""
        mean.lerp_(g, 1 - fades[0])
        square.mul_(fades[1]).addcmul_(g, g, value=1 - fades[1])
        x.addcdiv_(mean, square.sqrt().add_(TINY), value=-rate)


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Library products in TF32, which rounds no more than float16 does, or in float32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before

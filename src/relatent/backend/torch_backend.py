"""The backend of PyTorch tensors on a GPU. Needs the extra `relatent[gpu]`.

On CUDA the operations are Triton kernels (`triton_kernels`); on PyTorch's CPU device, where tests run, plain PyTorch.
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
from . import compact_matrices as compact
from .memory import MAX_SCORE_BYTES, WIDE_NUMBERS
from .protocol import ADAM_EPSILON

GRAM_ROWS = 1 << 18  # rows of A converted to float64 at once
COLUMN_MULTIPLE = 64  # columns of a float16 product are padded to a multiple of this


def check(name: str) -> None:
    """Raise InputError unless this CUDA device exists and Triton is installed."""
    device = torch.device(name)
    if not torch.cuda.is_available():
        raise InputError(f"device={name!r}: PyTorch finds no CUDA device; use device='cpu'")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise InputError(f"device={name!r}: there are {torch.cuda.device_count()} CUDA devices, the first is 'cuda:0'")
    if importlib.util.find_spec("triton") is None:
        raise InputError(f"device={name!r} needs Triton: pip install 'relatent[gpu]'")


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y in float32."""
    return torch.mm(x, y, out_dtype=torch.float32) if x.dtype == torch.float16 and x.is_cuda else x.float() @ y.float()


class TorchRelationProducts:
    """Rows sorted by relation, multiplied by the matrix of their relation."""

    def __init__(self, bounds: Ids, device: torch.device):
        self._pairs = list(pairwise(bounds.tolist()))
        self._starts = np.asarray(bounds, np.int64)
        self._bounds = torch.from_numpy(self._starts).to(device)
        self._pieces: dict[int, list[tuple[slice, slice, TorchSegmentSums]]] = {}  # by the rows of a piece; on a CPU
        self._relation = torch.repeat_interleave(torch.arange(len(bounds) - 1, device=device), self._bounds.diff())
        self._tiles: Tensor | None = None
        if device.type == "cuda":
            from .triton_kernels import OuterPieces, tile_rows

            self._tile_rows, self._outer_pieces = tile_rows(self._starts), OuterPieces.of(self._starts, device)
            tiles = [
                (k, low, min(low + self._tile_rows, stop))
                for k, (start, stop) in enumerate(self._pairs)
                for low in range(start, stop, self._tile_rows)
            ]
            self._tiles = torch.tensor(tiles, dtype=torch.int64, device=device).reshape(-1, 3)

    def times(self, X: Tensor, R: Tensor, transposed: bool) -> Tensor:
        if R.ndim != 3:
            return self._times_compact(X, R, transposed)
        if self._tiles is not None:
            from . import triton_kernels as kernels

            return kernels.times(X, R, self._tiles, transposed, self._tile_rows)
        out = torch.empty_like(X)
        for k, (low, high) in enumerate(self._pairs):
            out[low:high] = X[low:high] @ (R[k].T if transposed else R[k])
        return out

    def add_outer(self, X: Tensor, Y: Tensor, dR: Tensor) -> None:
        if dR.ndim != 3:
            return self._add_compact_outer(X, Y, dR)
        if self._tiles is not None:
            from . import triton_kernels as kernels

            return kernels.add_outer(X, Y, self._outer_pieces, dR)
        for k, (low, high) in enumerate(self._pairs):
            dR[k] += X[low:high].T @ Y[low:high]

    def _times_compact(self, X: Tensor, R: Tensor, transposed: bool) -> Tensor:
        if X.is_cuda:
            from . import compact_kernels

            return compact_kernels.rows_times(X, R, self._relation, back=transposed)
        out, step = torch.empty_like(X), max(1, compact.MAX_NUMBERS // R[0].numel())
        for low in range(0, len(X), step):
            rows = slice(low, low + step)
            out[rows] = compact.rows_times(X[rows], R[self._relation[rows]], back=transposed)
        return out

    def _add_compact_outer(self, X: Tensor, Y: Tensor, dR: Tensor) -> None:
        """In pieces of so many rows that their products fit the memory; sums in a fixed order."""
        if X.is_cuda:
            from . import compact_kernels

            return compact_kernels.add_outer(X, Y, self._bounds, dR)
        step = max(1, compact.MAX_NUMBERS // dR[0].numel())
        if step not in self._pieces:
            self._pieces[step] = [self._piece(low, step) for low in range(0, len(X), step)]
        for rows, relations, sum_by_relation in self._pieces[step]:
            products = compact.row_products(X[rows], Y[rows], dR[0]).flatten(1)
            dR[relations] += sum_by_relation(products).reshape(dR[relations].shape)

    def _piece(self, low: int, step: int) -> tuple[slice, slice, TorchSegmentSums]:
        """Rows from `low` on, the relations that they have, and the sums over the rows of each of these."""
        high = min(low + step, int(self._starts[-1]))
        first, last = np.searchsorted(self._starts, (low, high - 1), side="right") - 1
        edges = np.clip(self._starts[first : last + 2], low, high) - low
        sums = TorchSegmentSums(edges, np.arange(high - low), np.ones(high - low), self._bounds.device)
        return slice(low, high), slice(int(first), int(last) + 1), sums


class TorchSegmentSums:
    """Weighted sums of rows of a matrix, over the segments of an index."""

    def __init__(self, starts: Ids, index: Ids, weights: Vector, device: torch.device):
        def put(x: NDArray[Any], dtype: Any) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x, dtype)).to(device)

        self.starts, self.index, self.weights = put(starts, np.int64), put(index, np.int64), put(weights, np.float32)

    def __call__(self, X: Tensor, weights: Tensor | None = None) -> Tensor:
        weights = self.weights if weights is None else weights
        if X.is_cuda:
            from . import triton_kernels as kernels

            return kernels.sums(X, self.starts, self.index, weights)
        segment = torch.repeat_interleave(torch.arange(len(self.starts) - 1), self.starts.diff())
        out = X.new_zeros(len(self.starts) - 1, X.shape[1])
        return out.index_add_(0, segment, weights[:, None] * X[self.index])

    def add_to(self, out: Tensor, X: Tensor, scale: float = 1.0) -> None:
        if X.is_cuda and out.is_contiguous():
            from . import triton_kernels as kernels

            kernels.add_sums(out, X, self.starts, self.index, self.weights, scale)
        else:
            out.add_(self(X), alpha=scale)


class TorchBackend:
    """PyTorch: float32 arrays; products of scores in float16 with float32 sums, or in TF32.

    `Backend` documents the methods.
    """

    column_multiple = 8

    def __init__(self, name: str = "cuda", *, half: bool = True):
        self.device, self.half = torch.device(name), half
        self.dtype = np.dtype(np.float32)
        self._unit = 2.0**15 if half else 1.0  # scale of softmax outputs: float16 keeps its precision down to p = 2e-9

    def free_memory(self) -> int:
        free, _ = torch.cuda.mem_get_info(self.device)
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)  # for later arrays
        return int(free + kept)

    @contextmanager
    def memory_guard(self) -> Iterator[None]:
        """Turn PyTorch's out-of-memory error into a FitError that says what to do."""
        try:
            yield
        except torch.cuda.OutOfMemoryError as problem:
            total = torch.cuda.get_device_properties(self.device).total_memory / 1e9
            raise FitError(
                f"the GPU's {total:.0f} GB of memory are not enough: lower the rank, or use device='cpu'"
            ) from problem

    def from_numpy(self, x: NDArray[Any]) -> Tensor:
        """An array on the device: numbers as float32, indices as int64."""
        dtype = np.float32 if np.issubdtype(x.dtype, np.floating) else np.int64
        return torch.tensor(np.ascontiguousarray(x, dtype), device=self.device)

    def to_numpy(self, x: Tensor) -> NDArray[Any]:
        return x.cpu().numpy()  # type: ignore[no-any-return]

    def zeros(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return like.new_zeros(shape)

    def eps(self, x: Tensor) -> float:
        return float(torch.finfo(x.dtype).eps)

    def contiguous(self, x: Tensor) -> Tensor:
        return x.contiguous()

    def relation_products(self, bounds: Ids) -> TorchRelationProducts:
        return TorchRelationProducts(bounds, self.device)

    def segment_sums(self, starts: Ids, index: Ids, weights: Vector) -> TorchSegmentSums:
        return TorchSegmentSums(starts, index, weights, self.device)

    def dot(self, a: Tensor, b: Tensor) -> float:
        return float(self.deferred_dot(a, b))

    def deferred_dot(self, a: Tensor, b: Tensor) -> Tensor:
        if a.is_cuda:
            from . import triton_kernels as kernels

            return kernels.dot(a, b)
        parts = zip(a.reshape(-1).split(WIDE_NUMBERS), b.reshape(-1).split(WIDE_NUMBERS), strict=True)
        return sum((torch.dot(x.double(), y.double()) for x, y in parts), torch.zeros((), dtype=torch.float64))

    def rows_times(self, X: Tensor, P: Tensor, *, back: bool = False) -> Tensor:
        if X.is_cuda:
            from . import compact_kernels

            return compact_kernels.rows_times(X, P, None, back=back)
        return compact.rows_times(X, P, back=back)

    def row_products(self, X: Tensor, Y: Tensor, like: Tensor) -> Tensor:
        if X.is_cuda and like.ndim == 1:
            from . import compact_kernels

            return compact_kernels.complex_products(X, Y)
        return compact.row_products(X, Y, like)

    def add_cubes(self, x: Tensor, counts: Tensor, weight: float, dx: Tensor, *, paired: bool) -> Tensor:
        if x.is_cuda:
            from . import triton_kernels as kernels

            return kernels.add_cubes(x, counts, weight, dx, paired)
        return compact.add_cubes(x, counts, weight, dx, self.deferred_dot, paired=paired)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x y in TF32."""
        with tf32(True):
            return x @ y

    def tall_product(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y

    def to_dtype(self, x: Tensor) -> Tensor:
        return x.float()

    def to_float64(self, x: Tensor) -> Tensor:
        return x.double()

    def from_numpy_float64(self, x: NDArray[Any]) -> Tensor:
        return torch.tensor(np.asarray(x, np.float64), device=self.device)

    def gram(self, A: Tensor) -> NDArray[Any]:
        G = torch.zeros(A.shape[1], A.shape[1], dtype=torch.float64, device=A.device)
        for rows in A.split(GRAM_ROWS):
            wide = rows.double()
            G += wide.T @ wide
        return self.to_numpy(G)

    def softmax(self, S: Tensor) -> tuple[Tensor, Tensor]:
        return torch.softmax(S, -1), torch.logsumexp(S, -1).double()

    def softmax_sums(
        self, Q: Tensor, A: Tensor, c: Tensor, excluded: tuple[Tensor, Tensor], *, accurate: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`Backend.softmax_sums`; in float16 the value is corrected for rounded inputs to first order."""
        n, r = A.shape
        if not len(Q):
            return Q.new_zeros(()), torch.empty_like(Q), torch.zeros_like(A)
        width = -(-n // COLUMN_MULTIPLE) * COLUMN_MULTIPLE
        keys = A.new_zeros((width, r), dtype=torch.float16 if self.half else A.dtype)
        keys[:n] = A
        queries, weighted = self._to_half(Q), c * Q
        # Dividing by a power of two keeps the products inside float16's range.
        size = torch.exp2(torch.log2(weighted.abs().amax().clamp(min=1e-30) / 256).ceil()).clamp(min=1)
        weighted = self._to_half(weighted / size)
        logs, dQ, dA = Q.new_empty(len(Q)), torch.empty_like(Q), Q.new_zeros(width, r)
        step = max(1, MAX_SCORE_BYTES // (4 * width))
        for low in range(0, len(Q), step):
            here = slice(low, min(low + step, len(Q)))
            S = product(queries[here], keys.T)
            if len(excluded[0]):
                edges = torch.tensor([here.start, here.stop], device=S.device)
                first, last = torch.searchsorted(excluded[0], edges).tolist()
                S[excluded[0][first:last] - low, excluded[1][first:last]] = -torch.inf
            P, logs[here] = self._softmax(S, n)
            dQ[here] = product(P, keys)
            dA += product(P.T, weighted[here])
            del S, P  # before the next scores
        unit = 1 / self._unit
        dQ, dA = dQ.mul_(unit), dA[:n].mul_(size * unit)
        value = self.deferred_dot(c[:, 0], logs)
        if self.half and accurate:
            value = value - self.deferred_dot(c * dQ, queries.float() - Q)
            value = value - self.deferred_dot(dA, keys[:n].float() - A)
        return value, dQ, dA

    def _to_half(self, x: Tensor) -> Tensor:
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

    def lbfgs_direction(self, S: Tensor, Y: Tensor, curvature: Vector, newest_first: Ids, q: Tensor) -> None:
        order = newest_first.tolist()
        alpha = {}
        for pair in order:
            alpha[pair] = self.dot(S[pair], q) / float(curvature[pair])
            q.add_(Y[pair], alpha=-alpha[pair])
        q.mul_(float(curvature[order[0]]) / self.dot(Y[order[0]], Y[order[0]]))
        for pair in reversed(order):
            q.add_(S[pair], alpha=alpha[pair] - self.dot(Y[pair], q) / float(curvature[pair]))

    def adam_step(
        self, x: Tensor, mean: Tensor, square: Tensor, g: Tensor, rate: float, betas: tuple[float, float]
    ) -> None:
        if x.is_cuda:
            from . import triton_kernels as kernels

            return kernels.adam_step(x, mean, square, g, rate, betas, ADAM_EPSILON)
        mean.lerp_(g, 1 - betas[0])
        square.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
        x.addcdiv_(mean, square.sqrt().add_(ADAM_EPSILON), value=-rate)

    def add_rows(self, out: Tensor, ids: Tensor, rows: Tensor) -> None:
        """Add each row to the row of `out` with its id; sums in a fixed order."""
        if not out.is_cuda:
            out.index_add_(0, ids, rows)
            return
        from . import triton_kernels as kernels

        ordered, order = torch.sort(ids, stable=True)
        distinct, counts = torch.unique_consecutive(ordered, return_counts=True)
        starts = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
        out[distinct] += kernels.sums(rows, starts, order, torch.ones_like(order, dtype=torch.float32))

    def add_scaled(self, y: Tensor, c: float, x: Tensor) -> None:
        y += c * x


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Library products in TF32, which rounds no more than float16 does, or in float32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before

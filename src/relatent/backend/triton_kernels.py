"""Triton kernels of `torch_backend`; `numpy_backend` has the same operations in NumPy. Needs `relatent[gpu]`."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 32  # rows of one relation per program


@triton.jit
def _times(X, R, out, tiles, r, TRANSPOSED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A tile of rows of one relation times R_k, or R_kᵀ."""
    tile = tiles + 3 * tl.program_id(0)
    k, start, stop = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2)
    rows = start + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    here, known = rows < stop, columns < r
    acc = tl.zeros([BM, BN], tl.float32)
    for low in range(0, r, BK):
        inner = low + tl.arange(0, BK)
        within = inner < r
        x = tl.load(X + rows[:, None] * r + inner[None, :], here[:, None] & within[None, :], 0.0)
        if TRANSPOSED:
            y = tl.load(R + k * r * r + columns[:, None] * r + inner[None, :], known[:, None] & within[None, :], 0.0)
            acc = tl.dot(x, y.T, acc, input_precision="tf32x3")
        else:
            y = tl.load(R + k * r * r + inner[:, None] * r + columns[None, :], within[:, None] & known[None, :], 0.0)
            acc = tl.dot(x, y, acc, input_precision="tf32x3")
    tl.store(out + rows[:, None] * r + columns[None, :], acc, here[:, None] & known[None, :])


def times(X: Tensor, R: Tensor, tiles: Tensor, transposed: bool) -> Tensor:
    """Each row times the R_k, or the R_kᵀ, of its tile (k, start, stop)."""
    X, R = X.contiguous(), R.contiguous()  # as the kernel reads them
    r, out = X.shape[1], torch.empty_like(X)
    if len(tiles):
        _times[(len(tiles), triton.cdiv(r, 64))](X, R, out, tiles, r, TRANSPOSED=transposed, BM=TILE, BN=64, BK=64)
    return out


@triton.jit
def _add_outer(X, Y, out, bounds, r, B: tl.constexpr, BK: tl.constexpr):
    """A block of Σ x yᵀ over the rows of one relation, added."""
    k = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(bounds + k), tl.load(bounds + k + 1)
    p, q = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(2) * B + tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for low in range(start, stop, BK):
        rows = low + tl.arange(0, BK)
        here = rows < stop
        x = tl.load(X + rows[:, None] * r + p[None, :], here[:, None] & (p < r)[None, :], 0.0)
        y = tl.load(Y + rows[:, None] * r + q[None, :], here[:, None] & (q < r)[None, :], 0.0)
        acc = tl.dot(x.T, y, acc, input_precision="tf32x3")
    at = out + k * r * r + p[:, None] * r + q[None, :]
    inside = (p < r)[:, None] & (q < r)[None, :]
    tl.store(at, tl.load(at, inside, 0.0) + acc, inside)


def add_outer(X: Tensor, Y: Tensor, bounds: Tensor, dR: Tensor) -> None:
    """Add Σ x yᵀ over the rows of each relation to dR_k."""
    X, Y = X.contiguous(), Y.contiguous()
    r = X.shape[1]
    blocks = triton.cdiv(r, 64)
    _add_outer[(len(dR), blocks, blocks)](X, Y, dR, bounds, r, B=64, BK=32)


@triton.jit
def _sums(X, starts, index, weights, out, r, LANES: tl.constexpr, BF: tl.constexpr):
    """Σ w x over one segment, in a fixed order, so that results are reproducible."""
    g = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(starts + g), tl.load(starts + g + 1)
    at = tl.program_id(1) * LANES + tl.arange(0, LANES)
    known = at < r
    acc = tl.zeros([LANES], tl.float32)
    for low in range(start, stop, BF):
        f = low + tl.arange(0, BF)
        here = f < stop
        row = tl.load(index + f, here, 0)
        w = tl.load(weights + f, here, 0.0)
        x = tl.load(X + row[:, None] * r + at[None, :], here[:, None] & known[None, :], 0.0)
        acc += tl.sum(w[:, None] * x, 0)
    tl.store(out + g * r + at, acc, known)


def sums(X: Tensor, starts: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Σ w x over each segment of the index."""
    X = X.contiguous()
    r = X.shape[1]
    out = torch.empty(len(starts) - 1, r, device=X.device)
    lanes = min(128, triton.next_power_of_2(r))
    if len(out):
        _sums[(len(out), triton.cdiv(r, lanes))](X, starts, index, weights, out, r, LANES=lanes, BF=16, num_warps=2)
    return out


@triton.jit
def _softmax(S, P, logs, n, width, scale, BLOCK: tl.constexpr):
    """scale · softmax over the first n columns of a row, and log Σ exp; the rest of the row is set to zero."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for low in range(0, n, BLOCK):
        s = tl.load(S + row * width + low + at, low + at < n, -float("inf"))
        new = tl.maximum(most, s)
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(most - base) + tl.exp(s - base)
        most = new
    top = tl.max(most, 0)
    log = top + tl.log(tl.sum(total * tl.exp(most - top), 0))
    tl.store(logs + row, log)
    for low in range(0, width, BLOCK):
        s = tl.load(S + row * width + low + at, low + at < n, -float("inf"))
        p = scale * tl.exp(s - log)
        tl.store(P + row * width + low + at, p.to(P.dtype.element_ty), low + at < width)


def softmax(S: Tensor, n: int, scale: float, dtype: Any) -> tuple[Tensor, Tensor]:
    """scale · softmax over each row's first n columns, and log Σ exp."""
    P, logs = torch.empty_like(S, dtype=dtype), S.new_empty(len(S))
    _softmax[(len(S),)](S, P, logs, n, S.shape[1], scale, BLOCK=2048, num_warps=8)
    return P, logs

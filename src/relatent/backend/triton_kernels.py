"""Triton kernels of `torch_backend`; `numpy_backend` has the same operations in NumPy. Needs `relatent[gpu]`."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

TILES = (32, 128)  # rows of one relation per program, of relations with few rows and with many
MANY_ROWS = 1024  # per relation
OUTER_ROWS = 2048  # of one relation per sum of outer products
WIDE_ROW = 1 << 22  # numbers of a row beyond which 128 per program make more programs than a GPU's grid has
NUMBERS = 1024  # per program and turn, of operations on single numbers
TURNS = 8  # of a program that sums products


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


def tile_rows(bounds: NDArray[np.int64]) -> int:
    """The rows of a tile: more where relations have many, so that R_k is read less often."""
    return TILES[int(bounds[-1]) >= MANY_ROWS * (len(bounds) - 1)]


def times(X: Tensor, R: Tensor, tiles: Tensor, transposed: bool, rows: int = TILES[0]) -> Tensor:
    """Each row times the R_k, or the R_kᵀ, of its tile (k, start, stop) of at most so many rows."""
    X, R = X.contiguous(), R.contiguous()  # as the kernel reads them
    r, out = X.shape[1], torch.empty_like(X)
    if len(tiles):
        grid, warps = (len(tiles), triton.cdiv(r, 64)), 8 if rows > TILES[0] else 4
        _times[grid](X, R, out, tiles, r, TRANSPOSED=transposed, BM=rows, BN=64, BK=64 // (warps // 4), num_warps=warps)
    return out


@triton.jit
def _outer(X, Y, dR, sums, pieces, r, B: tl.constexpr, BK: tl.constexpr):
    """A block of Σ x yᵀ over a piece of one relation's rows: added to dR_k if it has no place in `sums`."""
    piece = pieces + 4 * tl.program_id(0)
    k, start, stop, place = tl.load(piece), tl.load(piece + 1), tl.load(piece + 2), tl.load(piece + 3)
    p, q = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(2) * B + tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for low in range(start, stop, BK):
        rows = low + tl.arange(0, BK)
        here = rows < stop
        x = tl.load(X + rows[:, None] * r + p[None, :], here[:, None] & (p < r)[None, :], 0.0)
        y = tl.load(Y + rows[:, None] * r + q[None, :], here[:, None] & (q < r)[None, :], 0.0)
        acc = tl.dot(x.T, y, acc, input_precision="tf32x3")
    inside = (p < r)[:, None] & (q < r)[None, :]
    at = p[:, None] * r + q[None, :]
    if place < 0:
        tl.store(dR + k * r * r + at, tl.load(dR + k * r * r + at, inside, 0.0) + acc, inside)
    else:
        tl.store(sums + place * r * r + at, acc, inside)


class OuterPieces(NamedTuple):
    """Rows sorted by relation, cut into pieces; the sums of relations with several pieces are added afterwards."""

    pieces: Tensor  # (relation, start, stop, place among the sums or −1) of each
    starts: Tensor  # (K + 1,) the first sum of each relation
    index: Tensor  # 0 … the number of sums − 1
    ones: Tensor

    @classmethod
    def of(cls, bounds: NDArray[np.int64], device: torch.device, rows: int = OUTER_ROWS) -> OuterPieces:
        """Pieces of at most so many rows."""
        pieces, starts, place = [], [0], 0
        for k, (first, end) in enumerate(pairwise(bounds.tolist())):
            is_cut = end - first > rows
            for low in range(first, end, rows):
                pieces.append((k, low, min(low + rows, end), place if is_cut else -1))
                place += is_cut
            starts.append(place)
        put = partial(torch.tensor, dtype=torch.int64, device=device)
        return cls(
            put(pieces).reshape(-1, 4),
            put(starts),
            torch.arange(place, device=device),
            torch.ones(place, device=device),
        )


def add_outer(X: Tensor, Y: Tensor, rows: OuterPieces, dR: Tensor) -> None:
    """Add Σ x yᵀ over the rows of each relation to contiguous dR_k; in a fixed order."""
    X, Y = X.contiguous(), Y.contiguous()
    r, blocks = X.shape[1], triton.cdiv(X.shape[1], 64)
    sums = X.new_empty(len(rows.index), r * r)
    if len(rows.pieces):
        _outer[(len(rows.pieces), blocks, blocks)](X, Y, dR, sums, rows.pieces, r, B=64, BK=32)
    if len(sums):
        add_sums(dR.view(len(dR), -1), sums, rows.starts, rows.index, rows.ones, 1.0)


@triton.jit
def _sums(X, starts, index, weights, out, r, scale, ADD: tl.constexpr, LANES: tl.constexpr, BF: tl.constexpr):
    """scale Σ w x over one segment, in a fixed order, so that results are reproducible; written, or added."""
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
    if ADD:
        if stop > start:
            tl.store(out + g * r + at, tl.load(out + g * r + at, known, 0.0) + scale * acc, known)
    else:
        tl.store(out + g * r + at, acc, known)


def sums(X: Tensor, starts: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Σ w x over each segment of the index."""
    out = torch.empty(len(starts) - 1, X.shape[1], device=X.device)
    _launch_sums(out, X, starts, index, weights, 1.0, add=False)
    return out


def add_sums(out: Tensor, X: Tensor, starts: Tensor, index: Tensor, weights: Tensor, scale: float) -> None:
    """Add scale Σ w x over each segment of the index to a row of contiguous `out`."""
    _launch_sums(out, X, starts, index, weights, scale, add=True)


def _launch_sums(
    out: Tensor, X: Tensor, starts: Tensor, index: Tensor, weights: Tensor, scale: float, *, add: bool
) -> None:
    X, r = X.contiguous(), X.shape[1]
    lanes = min(128 if r < WIDE_ROW else 1024, triton.next_power_of_2(r))
    if len(out):
        grid = (len(out), triton.cdiv(r, lanes))
        _sums[grid](X, starts, index, weights, out, r, scale, ADD=add, LANES=lanes, BF=16, num_warps=2)


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


@triton.jit
def _dot(a, b, out, n, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    """Σ of the products of some numbers, in float64."""
    low = tl.program_id(0).to(tl.int64) * BLOCK * TURNS
    acc = tl.zeros([BLOCK], tl.float64)
    for turn in range(TURNS):
        at = low + turn * BLOCK + tl.arange(0, BLOCK)
        x, y = tl.load(a + at, at < n, 0.0), tl.load(b + at, at < n, 0.0)
        acc += x.to(tl.float64) * y.to(tl.float64)
    tl.store(out + tl.program_id(0), tl.sum(acc, 0))


def dot(a: Tensor, b: Tensor) -> Tensor:
    """a · b in float64, as an array of one number; in a fixed order."""
    a, b = a.reshape(-1), b.reshape(-1)
    sums = a.new_zeros(max(1, triton.cdiv(len(a), NUMBERS * TURNS)), dtype=torch.float64)
    if len(a):
        _dot[(len(sums),)](a, b, sums, len(a), BLOCK=NUMBERS, TURNS=TURNS)
    return sums.sum()


@triton.jit
def _adam_step(x, mean, square, g, n, rate, beta1, beta2, epsilon, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    slope = tl.load(g + at, here, 0.0)
    first = beta1 * tl.load(mean + at, here, 0.0) + (1 - beta1) * slope
    second = beta2 * tl.load(square + at, here, 0.0) + (1 - beta2) * slope * slope
    tl.store(mean + at, first, here)
    tl.store(square + at, second, here)
    tl.store(x + at, tl.load(x + at, here, 0.0) - rate * first / (tl.sqrt(second) + epsilon), here)


def adam_step(
    x: Tensor, mean: Tensor, square: Tensor, g: Tensor, rate: float, betas: tuple[float, float], epsilon: float
) -> None:
    """One step of Adam, of contiguous vectors in place."""
    if len(x):
        _adam_step[(triton.cdiv(len(x), NUMBERS),)](
            x, mean, square, g.contiguous(), len(x), rate, *betas, epsilon, BLOCK=NUMBERS
        )


@triton.jit
def _add_cubes(x, dx, counts, sums, m, d, weight, PAIRED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """weight Σ count |x|³ of some rows and columns, its derivatives added; `PAIRED`: of complex numbers."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    here = rows < m
    inside = here[:, None] & (columns < d)[None, :]
    at = rows[:, None] * (2 * d if PAIRED else d) + columns[None, :]
    factor = weight * tl.load(counts + rows, here, 0.0)[:, None]
    a = tl.load(x + at, inside, 0.0)
    if PAIRED:
        b = tl.load(x + at + d, inside, 0.0)
        size = tl.sqrt(a * a + b * b)
        tl.store(dx + at + d, tl.load(dx + at + d, inside, 0.0) + 3 * factor * size * b, inside)
    else:
        size = tl.abs(a)
    tl.store(dx + at, tl.load(dx + at, inside, 0.0) + 3 * factor * size * a, inside)
    place = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums + place, tl.sum(tl.sum((factor * size * size * size).to(tl.float64), 1), 0))


def add_cubes(x: Tensor, counts: Tensor, weight: float, dx: Tensor, paired: bool) -> Tensor:
    """Add the derivatives of weight Σ count |x|³ to contiguous dx (m, r), and return the sum, in float64."""
    x, m, d = x.contiguous(), len(x), x.shape[1] // (2 if paired else 1)
    grid = (triton.cdiv(m, 8), triton.cdiv(d, 128))
    sums = x.new_zeros(max(1, grid[0] * grid[1]), dtype=torch.float64)
    if m and d:
        _add_cubes[grid](x, dx, counts.contiguous(), sums, m, d, weight, PAIRED=paired, BM=8, BN=128)
    return sums.sum()

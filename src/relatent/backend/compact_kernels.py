"""Triton kernels for relation matrices of few numbers (`compact_matrices` has the same in NumPy and PyTorch).

They hold nothing but rows and parameters: the products of single numbers, as many as the parameters of all rows, stay
in registers. Offsets are 64-bit: rows times their width exceed 32 bits on large graphs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 8, 128  # of one program
ROWS_AT_ONCE = 16  # of one relation, in a sum over its rows


@triton.jit
def _complex_times(
    X, P, index, out, m, d, BACK: tl.constexpr, INDEXED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Rows (a, b) times (x, y) as complex numbers, or times (x, −y)."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    here = rows < m
    inside = here[:, None] & (columns < d)[None, :]
    k = tl.load(index + rows, here, 0) if INDEXED else rows
    at = rows[:, None] * 2 * d + columns[None, :]
    of_relation = k[:, None] * 2 * d + columns[None, :]
    a, b = tl.load(X + at, inside, 0.0), tl.load(X + at + d, inside, 0.0)
    x, y = tl.load(P + of_relation, inside, 0.0), tl.load(P + of_relation + d, inside, 0.0)
    if BACK:
        y = -y
    tl.store(out + at, a * x - b * y, inside)
    tl.store(out + at + d, a * y + b * x, inside)


@triton.jit
def _blocks_times(
    X,
    P,
    index,
    out,
    m,
    r,
    B: tl.constexpr,
    BACK: tl.constexpr,
    INDEXED: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Rows times blocks of B × B on the diagonal, or their transposes."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    here, known = rows < m, columns < r
    inside = here[:, None] & known[None, :]
    k = tl.load(index + rows, here, 0) if INDEXED else rows
    first, q = columns // B * B, columns % B  # the first column of the block, and the column inside it
    acc = tl.zeros([BM, BN], tl.float32)
    for p in range(B):
        x = tl.load(X + rows[:, None] * r + first[None, :] + p, inside, 0.0)
        inner = q * B + p if BACK else p * B + q
        acc += x * tl.load(P + k[:, None] * r * B + (first * B + inner)[None, :], inside, 0.0)
    tl.store(out + rows[:, None] * r + columns[None, :], acc, inside)


def rows_times(X: Tensor, P: Tensor, index: Tensor | None, *, back: bool) -> Tensor:
    """Each row times the compact matrix P[index], or its transpose; without an index each row has its own."""
    X, P = X.contiguous(), P.contiguous()
    (m, r), out = X.shape, torch.empty_like(X)
    settings = {"BACK": back, "INDEXED": index is not None, "BM": ROWS, "BN": COLUMNS}
    where = X if index is None else index
    if m and P.ndim == 2:
        _complex_times[_grid(m, r // 2)](X, P, where, out, m, r // 2, **settings)
    elif m:
        _blocks_times[_grid(m, r)](X, P, where, out, m, r, B=P.shape[-1], **settings)
    return out


@triton.jit
def _complex_outer(X, Y, out, bounds, d, BF: tl.constexpr, BN: tl.constexpr):
    """Σ over the rows of one relation of (a, b) conjugated times (u, v), added."""
    k = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(bounds + k), tl.load(bounds + k + 1)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    known = columns < d
    real, imaginary = tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32)
    for low in range(start, stop, BF):
        rows = low + tl.arange(0, BF)
        inside = (rows < stop)[:, None] & known[None, :]
        at = rows[:, None] * 2 * d + columns[None, :]
        a, b = tl.load(X + at, inside, 0.0), tl.load(X + at + d, inside, 0.0)
        u, v = tl.load(Y + at, inside, 0.0), tl.load(Y + at + d, inside, 0.0)
        real += tl.sum(a * u + b * v, 0)
        imaginary += tl.sum(a * v - b * u, 0)
    if stop > start:
        here = out + k * 2 * d + columns
        tl.store(here, tl.load(here, known, 0.0) + real, known)
        tl.store(here + d, tl.load(here + d, known, 0.0) + imaginary, known)


@triton.jit
def _blocks_outer(X, Y, out, bounds, r, B: tl.constexpr, BF: tl.constexpr, BN: tl.constexpr):
    """Σ x yᵀ over the rows of one relation inside blocks of B × B, added."""
    k = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(bounds + k), tl.load(bounds + k + 1)
    numbers = tl.program_id(1) * BN + tl.arange(0, BN)
    known = numbers < r * B
    p, q = numbers // B, numbers // (B * B) * B + numbers % B  # columns of X and Y
    acc = tl.zeros([BN], tl.float32)
    for low in range(start, stop, BF):
        rows = low + tl.arange(0, BF)
        inside = (rows < stop)[:, None] & known[None, :]
        x = tl.load(X + rows[:, None] * r + p[None, :], inside, 0.0)
        acc += tl.sum(x * tl.load(Y + rows[:, None] * r + q[None, :], inside, 0.0), 0)
    if stop > start:
        here = out + k * r * B + numbers
        tl.store(here, tl.load(here, known, 0.0) + acc, known)


def add_outer(X: Tensor, Y: Tensor, bounds: Tensor, dP: Tensor) -> None:
    """Add Σ x yᵀ over the rows of each relation, as derivatives in compact parameters, to dP; in a fixed order."""
    X, Y, r = X.contiguous(), Y.contiguous(), X.shape[1]
    if dP.ndim == 2:
        _complex_outer[(len(dP), triton.cdiv(r // 2, COLUMNS))](X, Y, dP, bounds, r // 2, BF=ROWS_AT_ONCE, BN=COLUMNS)
        return
    b = dP.shape[-1]
    _blocks_outer[(len(dP), triton.cdiv(r * b, COLUMNS))](X, Y, dP, bounds, r, B=b, BF=ROWS_AT_ONCE, BN=COLUMNS)


@triton.jit
def _complex_products(X, Y, out, m, d, BM: tl.constexpr, BN: tl.constexpr):
    """φ of each pair of rows: (a, b) conjugated times (u, v)."""
    rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows < m)[:, None] & (columns < d)[None, :]
    at = rows[:, None] * 2 * d + columns[None, :]
    a, b = tl.load(X + at, inside, 0.0), tl.load(X + at + d, inside, 0.0)
    u, v = tl.load(Y + at, inside, 0.0), tl.load(Y + at + d, inside, 0.0)
    tl.store(out + at, a * u + b * v, inside)
    tl.store(out + at + d, a * v - b * u, inside)


def complex_products(X: Tensor, Y: Tensor) -> Tensor:
    """φ(x, y) of each pair of rows for complex matrices."""
    X, Y = X.contiguous(), Y.contiguous()
    (m, r), out = X.shape, torch.empty_like(X)
    if m:
        _complex_products[_grid(m, r // 2)](X, Y, out, m, r // 2, BM=ROWS, BN=COLUMNS)
    return out


def _grid(rows: int, columns: int) -> tuple[int, int]:
    return triton.cdiv(rows, ROWS), triton.cdiv(columns, COLUMNS)

"""Triton kernels of the exact logistic sum on a GPU: corrections at listed cells, which are facts and unobserved cells.

Cells are visited in a fixed order, so that every call gives the same sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class PieceFactors(NamedTuple):
    """The factors of a piece."""

    Q: Tensor  # (m · height, rank)
    A: Tensor
    bias: Tensor  # (m,)


class CellsByRow(NamedTuple):
    """Listed cells sorted by row."""

    starts: Tensor  # (rows + 1,)
    rows: Tensor  # distinct rows (k, i) of Q
    objects: Tensor
    weights: Tensor  # of facts; 0 for an unobserved cell


class CellsByObject(NamedTuple):
    """The same cells sorted by object."""

    starts: Tensor  # (objects + 1,)
    objects: Tensor  # distinct objects
    cells: Tensor  # positions in the order by row
    rows: Tensor  # of Q


class RowCorrections(NamedTuple):
    """What the listed cells of a row change."""

    slopes: Tensor  # (cells,) dℓ/dθ less what the sum over all cells has counted
    dQ: Tensor  # noqa: N815  (height, m, rank) corrected in place
    sums: Tensor  # (2, rows) changes of the value, and of the slope of the bias


@triton.jit
def _correct_row(
    factors,  # PieceFactors
    cells,  # CellsByRow
    out,  # RowCorrections
    m,
    height,
    RANK: tl.constexpr,
    LANES: tl.constexpr,  # the next power of two
    BF: tl.constexpr,
):
    """The listed cells of one row (k, i)."""
    g = tl.program_id(0)
    start, stop, row = tl.load(cells.starts + g), tl.load(cells.starts + g + 1), tl.load(cells.rows + g)
    r = tl.arange(0, LANES)
    known = r < RANK
    k, i = row // height, row % height
    q = tl.load(factors.Q + row.to(tl.int64) * RANK + r, known, 0.0)
    b = tl.load(factors.bias + k)
    dq = tl.zeros([LANES], tl.float32)
    value, slope = tl.zeros([BF], tl.float32), tl.zeros([BF], tl.float32)
    for f in range(start, stop, BF):
        at = f + tl.arange(0, BF)
        here = at < stop
        o = tl.load(cells.objects + at, here, 0)
        a = tl.load(factors.A + o.to(tl.int64)[:, None] * RANK + r[None, :], here[:, None] & known[None, :], 0.0)
        w, counted = tl.load(cells.weights + at, here, 0.0), tl.where(here, 1.0, 0.0)
        t = tl.sum(q[None, :] * a, 1) + b
        e = tl.exp(-tl.abs(t))
        false = tl.where(t > 0, 1.0, e) / (1 + e)  # σ(θ)
        true = tl.where(t > 0, e, 1.0) / (1 + e)  # σ(−θ)
        slopes = -w * true - counted * false
        log = tl.log(1 + e)
        value += w * (tl.maximum(-t, 0) + log) - counted * (tl.maximum(t, 0) + log)
        slope += slopes
        dq += tl.sum(slopes[:, None] * a, 0)
        tl.store(out.slopes + at, slopes, here)
    at = out.dQ + (i * m + k).to(tl.int64) * RANK + r
    tl.store(at, tl.load(at, known) + dq, known)
    tl.store(out.sums + g, tl.sum(value, 0))
    tl.store(out.sums + tl.num_programs(0) + g, tl.sum(slope, 0))


@triton.jit
def _correct_object(
    Q,
    slopes,
    cells,  # CellsByObject
    dA,
    RANK: tl.constexpr,
    LANES: tl.constexpr,
    BF: tl.constexpr,
):
    """The listed cells of one object."""
    g = tl.program_id(0)
    start, stop, o = tl.load(cells.starts + g), tl.load(cells.starts + g + 1), tl.load(cells.objects + g)
    r = tl.arange(0, LANES)
    known = r < RANK
    da = tl.zeros([LANES], tl.float32)
    for f in range(start, stop, BF):
        at = f + tl.arange(0, BF)
        here = at < stop
        d = tl.load(slopes + tl.load(cells.cells + at, here, 0), here, 0.0)
        row = tl.load(cells.rows + at, here, 0)
        q = tl.load(Q + row.to(tl.int64)[:, None] * RANK + r[None, :], here[:, None] & known[None, :], 0.0)
        da += tl.sum(d[:, None] * q, 0)
    at = dA + o.to(tl.int64) * RANK + r
    tl.store(at, tl.load(at, known) + da, known)


def correct_rows(factors: PieceFactors, cells: CellsByRow, out: RowCorrections, height: int) -> None:
    """Fill the slopes of listed cells and the sums of their rows, and correct dQ."""
    _correct_row[(len(cells.rows),)](factors, cells, out, len(factors.bias), height, **_lanes(factors.A.shape[1]))


def correct_objects(Q: Tensor, slopes: Tensor, cells: CellsByObject, dA: Tensor) -> None:
    """Correct dA at the objects of listed cells."""
    _correct_object[(len(cells.objects),)](Q, slopes, cells, dA, **_lanes(Q.shape[1]))


def _lanes(rank: int) -> dict[str, Any]:
    """How the products of a listed cell are spread over threads."""
    lanes = triton.next_power_of_2(rank)
    return {
        "RANK": rank,
        "LANES": lanes,
        "BF": max(1, min(32, 4096 // lanes)),
        "num_warps": 4 if lanes >= 128 else 1,
    }

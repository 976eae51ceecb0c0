"""Triton kernels of the exact logistic sum on a GPU: sigmoid attention over all cells, and corrections at listed ones.

Numbers that decide their form:

- y arrives in units of −log 2, so a cell is one ex2, one fma with the bias in it, and one reciprocal.
- σ is carried as 2¹⁵ σ: float16 then keeps eleven bits of it down to θ ≈ −20 and loses it at −28.
- Rows and columns that fill up a block are zero vectors: they add nothing to dQ and dA, and what they add to the sums
  is known, so no cell is ever masked.
- Σ softplus takes one logarithm for 64 cells, by p ← p + e + p·e with e = exp(−|θ|).
- The value of rounded factors is off by <gradient, rounding error> to first order. Both are at hand where a block ends,
  so it is taken out again there, for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

SHIFT = tl.constexpr(15.0)  # σ is carried as 2^SHIFT σ
TINY = tl.constexpr(2.0**-15)
UNIT_OF_SIGMA = 2.0**-15


@triton.jit
def _ex2(x):
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _lg2(x):
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _rcp(x):
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _sigmoids_of_two(s, c):
    """2¹⁵ / (1 + c 2^s) in float16 and float32; two cells share a reciprocal, as 1/a = b · 1/(ab)."""
    return tl.inline_asm_elementwise(
        """{
        .reg .f32 a, b, q;
        ex2.approx.ftz.f32 a, $3;                ex2.approx.ftz.f32 b, $4;
        fma.rn.ftz.f32 a, a, $5, 0f38000000;     fma.rn.ftz.f32 b, b, $6, 0f38000000;
        min.ftz.f32 a, a, 0f5d800000;            min.ftz.f32 b, b, 0f5d800000;
        mul.ftz.f32 q, a, b;
        rcp.approx.ftz.f32 q, q;
        mul.ftz.f32 $1, q, b;                    mul.ftz.f32 $2, q, a;
        cvt.rn.f16x2.f32 $0, $2, $1;
        }""",
        "=r,=f,=f,f,f,f,f",
        [s, c],
        (tl.float16, tl.float32),
        True,
        2,
    )


@triton.jit
def _sigmoids_of_four(s, c):
    """As `_sigmoids_of_two`, one reciprocal for four cells: each factor at most 2³¹, or their product overflows."""
    return tl.inline_asm_elementwise(
        """{
        .reg .f32 a, b, c, d, ab, cd, q;
        ex2.approx.ftz.f32 a, $6;                ex2.approx.ftz.f32 b, $7;
        ex2.approx.ftz.f32 c, $8;                ex2.approx.ftz.f32 d, $9;
        fma.rn.ftz.f32 a, a, $10, 0f38000000;    fma.rn.ftz.f32 b, b, $11, 0f38000000;
        fma.rn.ftz.f32 c, c, $12, 0f38000000;    fma.rn.ftz.f32 d, d, $13, 0f38000000;
        min.ftz.f32 a, a, 0f4f000000;            min.ftz.f32 b, b, 0f4f000000;
        min.ftz.f32 c, c, 0f4f000000;            min.ftz.f32 d, d, 0f4f000000;
        mul.ftz.f32 ab, a, b;                    mul.ftz.f32 cd, c, d;
        mul.ftz.f32 q, ab, cd;
        rcp.approx.ftz.f32 q, q;
        mul.ftz.f32 cd, cd, q;                   mul.ftz.f32 ab, ab, q;
        mul.ftz.f32 $2, cd, b;                   mul.ftz.f32 $3, cd, a;
        mul.ftz.f32 $4, ab, d;                   mul.ftz.f32 $5, ab, c;
        cvt.rn.f16x2.f32 $0, $3, $2;             cvt.rn.f16x2.f32 $1, $5, $4;
        }""",
        "=r,=r,=f,=f,=f,=f,f,f,f,f,f,f,f,f",
        [s, c],
        (tl.float16, tl.float32),
        True,
        4,
    )


@triton.jit
def _ex2_of_minus_abs(x):
    """2^−|x|; both signs are free inside the instruction."""
    return tl.inline_asm_elementwise(
        "{ .reg .f32 t; abs.f32 t, $1; neg.f32 t, t; ex2.approx.ftz.f32 $0, t; }", "=f,f", [x], tl.float32, True, 1
    )


@triton.jit
def _rounded(p, DTYPE: tl.constexpr):
    """p as the matrix units take it; they would cut a float32 off, where rounding is on average right."""
    if DTYPE == tl.float32:  # noqa: SIM300  Triton compares a constexpr on the left
        bits = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,f", [p], tl.int32, True, 1)
        p = bits.to(tl.float32, bitcast=True)
    return p.to(DTYPE)


@triton.jit
def _join(p, q):
    """log1p of the result is the sum of both log1p."""
    return p + (q + p * q)


@triton.jit
def _log1p(p):
    """log₂(1 + p) for 0 ≤ p < 2¹²⁷, with its relative precision kept where p is small."""
    series = p * (1 + p * (-1 / 2 + p * (1 / 3 + p * (-1 / 4 + p * (1 / 5 + p * (-1 / 6 + p * (1 / 7)))))))
    return tl.where(p < 0.125, 1.4426950408889634 * series, _lg2(1 + p))


@triton.jit
def _cells(s, b, weights, DTYPE: tl.constexpr, VALUE: tl.constexpr, WEIGHTED: tl.constexpr, SHARE: tl.constexpr):
    """2¹⁵ σ(θ) of a tile, rounded and not, and Σ softplus(θ) along its rows; s = b − θ, all in units of log 2."""
    if VALUE:
        z = b - s
        e = _ex2_of_minus_abs(z)
        g = _rcp(e * TINY + TINY)
        p = tl.where(z < 0, e * g, g)
        if WEIGHTED:
            value = tl.sum(weights[None, :] * (_log1p(e) + tl.maximum(z, 0)), 1)
        else:
            value = _log1p(tl.reduce(e, 1, _join)) + tl.sum(tl.maximum(z, 0), 1)
        p_rounded = _rounded(p, DTYPE)
    else:
        value = tl.zeros([s.shape[0]], tl.float32)
        c = _ex2(-b - SHIFT)
        if SHARE == 4:
            p_rounded, p = _sigmoids_of_four(s, c)
        elif SHARE == 2:
            p_rounded, p = _sigmoids_of_two(s, c)
        else:
            p = _rcp(c * _ex2(s) + TINY)
            p_rounded = _rounded(p, DTYPE)
    if WEIGHTED:
        p = weights[None, :] * p
        p_rounded = _rounded(p, DTYPE)
    return p_rounded, p, value


@triton.jit(do_not_specialize=["n_x", "y_blocks", "height", "m"])
def _attend(
    x_tiles,  # (X, RANK) descriptor
    y_tiles,  # (Y, RANK) descriptor; x yᵀ is (b − θ) / log 2
    bias,  # (m,) b / log 2 of the relations that x, or else y, has rows of
    weights,  # (Y,) of the columns, at most 1, if WEIGHTED
    scales,  # (2,) of the output, and of x against its exact values
    exact,  # (X, RANK) x before it was rounded, if VALUE
    out,  # (splits, X, RANK), or (X / m, m, RANK) where x is sorted by relation
    sums,  # (X,) Σ σ along the row, if BY_X
    values,  # (splits, X) Σ softplus(θ) along the row if BY_X, less what rounding x has changed, if VALUE
    n_x,
    y_blocks,
    height,  # rows of one relation
    m,  # relations
    BM: tl.constexpr,
    BN: tl.constexpr,
    RANK: tl.constexpr,
    BY_X: tl.constexpr,  # x has the relations' rows: one bias a program, sums are wanted
    VALUE: tl.constexpr,
    WEIGHTED: tl.constexpr,
    SHARE: tl.constexpr,  # cells that share a reciprocal
    STAGES: tl.constexpr,
):
    """A block of σ(x yᵀ + b) y, summed over this split's share of y."""
    block, split = tl.program_id(0), tl.program_id(1)
    first, last = split * y_blocks // tl.num_programs(1), (split + 1) * y_blocks // tl.num_programs(1)
    x = x_tiles.load([block * BM, 0])
    acc = tl.zeros([BM, RANK], tl.float32)
    total = tl.zeros([BM], tl.float32)
    value = tl.zeros([BM], tl.float32)
    if BY_X:
        b = tl.load(bias + block * BM // height)
    per_relation = height // BN
    for j in tl.range(first, last, num_stages=STAGES):
        if not BY_X:
            b = tl.load(bias + j // per_relation)
        w = tl.load(weights + j * BN + tl.arange(0, BN)) if WEIGHTED else 0
        y = y_tiles.load([j * BN, 0])
        s = tl.dot(x, y.T)
        p_rounded, p, v = _cells(s, b, w, y.dtype, VALUE and BY_X, WEIGHTED, SHARE)
        if BY_X:
            total += tl.sum(p, 1)
            value += v
        acc = tl.dot(p_rounded, y, acc)
    acc *= tl.load(scales)
    rows = block * BM + tl.arange(0, BM)
    columns = tl.arange(0, RANK)
    if VALUE:
        error = x_tiles.load([block * BM, 0]) * tl.load(scales + 1)
        error -= tl.load(exact + rows.to(tl.int64)[:, None] * RANK + columns[None, :])
        tl.store(values + split * n_x + rows, 0.6931471805599453 * value - tl.sum(acc * error, 1))
    if BY_X:
        at = ((rows % height) * m + rows // height).to(tl.int64)
        tl.store(out + at[:, None] * RANK + columns[None, :], acc)
        tl.store(sums + rows, total * TINY)
    else:
        at = out + (split.to(tl.int64) * n_x + rows)[:, None] * RANK + columns[None, :]
        tl.store(at, tl.load(at) + acc)


@triton.jit(do_not_specialize=["n_x", "width"])
def _slopes(
    x_tiles,  # (X, RANK) descriptor, rows of one relation
    y_tiles,  # (Y, RANK) descriptor
    bias,  # (1,) b / log 2
    weights,  # (Y,), if WEIGHTED
    P,  # (X, Y) 2¹⁵ σ
    sums,  # (Y / BN, X) Σ σ along a row of the block
    values,  # (Y / BN, X) Σ softplus(θ), if VALUE
    n_x,
    width,
    BM: tl.constexpr,
    BN: tl.constexpr,
    RANK: tl.constexpr,
    BK: tl.constexpr,
    VALUE: tl.constexpr,
    WEIGHTED: tl.constexpr,
    STAGES: tl.constexpr,
):
    """A block of σ(x yᵀ + b), written down."""
    i, j = tl.program_id(0), tl.program_id(1)
    s = tl.zeros([BM, BN], tl.float32)
    for h in tl.range(0, RANK, BK, num_stages=STAGES):
        s = tl.dot(x_tiles.load([i * BM, h]), y_tiles.load([j * BN, h]).T, s)
    rows, columns = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    w = tl.load(weights + columns) if WEIGHTED else 0
    p_rounded, p, value = _cells(s, tl.load(bias), w, P.dtype.element_ty, VALUE, WEIGHTED, 1)
    tl.store(P + rows.to(tl.int64)[:, None] * width + columns[None, :], p_rounded)
    tl.store(sums + j * n_x + rows, tl.sum(p, 1) * TINY)
    if VALUE:
        tl.store(values + j * n_x + rows, 0.6931471805599453 * value)


@triton.jit
def _round(x, scale, out, n, BLOCK: tl.constexpr):
    """out = scale x, in one pass over memory."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    tl.store(out + at, _rounded(tl.load(scale) * tl.load(x + at, here, 0.0), out.dtype.element_ty), here)


def rounded(dtype: torch.dtype, x: Tensor, scale: Tensor) -> Tensor:
    """x times a scale, rounded to what the matrix units take."""
    out = torch.empty_like(x, dtype=dtype)
    _round[(triton.cdiv(x.numel(), 4096),)](x, scale, out, x.numel(), BLOCK=4096, num_warps=8)
    return out


@dataclass(frozen=True)
class Shape:
    """How `_attend` is cut into blocks."""

    rows: int
    columns: int
    warps: int
    stages: int
    share: int = 1
    registers: int | None = None


# The fastest found on one H200, by (rank, x has the relations' rows, with the value).
SHAPES = {
    (64, True, False): Shape(64, 128, 4, 3, 4),
    (64, False, False): Shape(64, 128, 4, 3, 4),
    (64, True, True): Shape(64, 64, 4, 3),
    (128, True, False): Shape(64, 128, 4, 3, 4),
    (128, False, False): Shape(64, 128, 4, 3, 4),
    (128, True, True): Shape(128, 64, 4, 3),
    (256, True, False): Shape(64, 128, 4, 1, 4),
    (256, False, False): Shape(64, 128, 4, 1, 4),
    (256, True, True): Shape(64, 64, 4, 2),
}


def shape_for(rank: int, dtype: torch.dtype, by_x: bool, value: bool) -> Shape:
    """How to cut: with the value 64 columns at most, one logarithm's worth."""
    if dtype == torch.float32:
        return Shape(64, 32, 4, 2) if rank > 128 else Shape(64, 64, 4, 2)
    return SHAPES[max(64, rank), by_x, value and by_x]


def attend(
    x: Tensor,
    y: Tensor,
    bias: Tensor,
    height: int,
    scales: Tensor,
    out: Tensor,
    sums: Tensor | None = None,
    values: Tensor | None = None,
    exact: Tensor | None = None,
    weights: Tensor | None = None,
    shape: Shape | None = None,
) -> None:
    """Fill out and sums where x has the relations' rows; add to out where y has (sums is None); fill values."""
    rank, by_x = x.shape[1], sums is not None
    shape = shape or shape_for(rank, x.dtype, by_x, values is not None)
    _attend[(len(x) // shape.rows, 1 if by_x else out.shape[0])](
        TensorDescriptor.from_tensor(x, [shape.rows, rank]),
        TensorDescriptor.from_tensor(y, [shape.columns, rank]),
        bias,
        weights,
        scales,
        exact,
        out,
        sums,
        values,
        len(x),
        len(y) // shape.columns,
        height,
        len(bias),
        BM=shape.rows,
        BN=shape.columns,
        RANK=rank,
        BY_X=by_x,
        VALUE=values is not None,
        WEIGHTED=weights is not None,
        SHARE=shape.share if x.dtype == torch.float16 else 1,
        STAGES=shape.stages,
        num_warps=shape.warps,
        num_stages=shape.stages,
        **({"maxnreg": shape.registers} if shape.registers else {}),
    )


def slopes(
    x: Tensor, y: Tensor, bias: Tensor, with_value: bool, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """2¹⁵ σ(x yᵀ + b) for the rows of one relation, Σ σ and Σ softplus along them."""
    BM, BN, BK = (128, 64, 64) if with_value else (128, 128, 64)
    P = torch.empty(len(x), len(y), dtype=x.dtype, device=x.device)
    sums = torch.empty(len(y) // BN, len(x), device=x.device)
    values = torch.empty_like(sums) if with_value else None
    _slopes[(len(x) // BM, len(y) // BN)](
        TensorDescriptor.from_tensor(x, [BM, BK]),
        TensorDescriptor.from_tensor(y, [BN, BK]),
        bias,
        weights,
        P,
        sums,
        values,
        len(x),
        len(y),
        BM=BM,
        BN=BN,
        RANK=x.shape[1],
        BK=BK,
        VALUE=with_value,
        WEIGHTED=weights is not None,
        STAGES=3,
        num_warps=8,
        num_stages=3,
    )
    return P, sums.sum(0), None if values is None else values.sum(0)


@triton.jit
def _listed_by_row(
    Q,
    A,
    bias,
    starts,
    rows,
    objects,
    w,  # weights of the facts, 0 for an unobserved cell
    c,  # how often the sum over all cells has counted each
    d,
    dQ,
    values,
    m,
    height,
    RANK: tl.constexpr,
    LANES: tl.constexpr,  # the next power of two
    BF: tl.constexpr,
):
    """For one row (k, i): slopes of its listed cells, what they add to dQ, to the bias and to the value."""
    g = tl.program_id(0)
    start, stop, row = tl.load(starts + g), tl.load(starts + g + 1), tl.load(rows + g)
    r = tl.arange(0, LANES)
    known = r < RANK
    k, i = row // height, row % height
    q = tl.load(Q + row.to(tl.int64) * RANK + r, known, 0.0)
    b = tl.load(bias + k)
    dq = tl.zeros([LANES], tl.float32)
    value, slope = tl.zeros([BF], tl.float32), tl.zeros([BF], tl.float32)
    for f in range(start, stop, BF):
        at = f + tl.arange(0, BF)
        here = at < stop
        o = tl.load(objects + at, here, 0)
        a = tl.load(A + o.to(tl.int64)[:, None] * RANK + r[None, :], here[:, None] & known[None, :], 0.0)
        weight, taken = tl.load(w + at, here, 0.0), tl.load(c + at, here, 0.0)
        t = tl.sum(q[None, :] * a, 1) + b
        e = tl.exp(-tl.abs(t))
        false = tl.where(t > 0, 1.0, e) / (1 + e)  # σ(θ)
        true = tl.where(t > 0, e, 1.0) / (1 + e)  # σ(−θ)
        slopes = -weight * true - taken * false
        log = tl.log(1 + e)
        value += weight * (tl.maximum(-t, 0) + log) - taken * (tl.maximum(t, 0) + log)
        slope += slopes
        dq += tl.sum(slopes[:, None] * a, 0)
        tl.store(d + at, slopes, here)
    at = dQ + (i * m + k).to(tl.int64) * RANK + r
    tl.store(at, tl.load(at, known) + dq, known)
    tl.store(values + g, tl.sum(value, 0))
    tl.store(values + tl.num_programs(0) + g, tl.sum(slope, 0))


@triton.jit
def _listed_by_object(
    Q, d, starts, objects, cells, rows, dA, RANK: tl.constexpr, LANES: tl.constexpr, BF: tl.constexpr
):
    """For one object: what its listed cells add to dA. Cells are met in a fixed order: the same sum at every call."""
    g = tl.program_id(0)
    start, stop, o = tl.load(starts + g), tl.load(starts + g + 1), tl.load(objects + g)
    r = tl.arange(0, LANES)
    known = r < RANK
    da = tl.zeros([LANES], tl.float32)
    for f in range(start, stop, BF):
        at = f + tl.arange(0, BF)
        here = at < stop
        slopes = tl.load(d + tl.load(cells + at, here, 0), here, 0.0)
        row = tl.load(rows + at, here, 0)
        q = tl.load(Q + row.to(tl.int64)[:, None] * RANK + r[None, :], here[:, None] & known[None, :], 0.0)
        da += tl.sum(slopes[:, None] * q, 0)
    at = dA + o.to(tl.int64) * RANK + r
    tl.store(at, tl.load(at, known) + da, known)


def correct_rows(
    Q: Tensor,
    A: Tensor,
    b: Tensor,
    starts: Tensor,
    rows: Tensor,
    objects: Tensor,
    w: Tensor,
    taken: Tensor,
    d: Tensor,
    dQ: Tensor,
    values: Tensor,
    height: int,
) -> None:
    """Fill the slopes d of listed cells and their sums by row, correct dQ."""
    _listed_by_row[(len(rows),)](
        Q, A, b, starts, rows, objects, w, taken, d, dQ, values, len(b), height, **_lanes(A.shape[1])
    )


def correct_objects(
    Q: Tensor, d: Tensor, starts: Tensor, objects: Tensor, cells: Tensor, rows: Tensor, dA: Tensor
) -> None:
    """Correct dA at the objects of listed cells."""
    _listed_by_object[(len(objects),)](Q, d, starts, objects, cells, rows, dA, **_lanes(Q.shape[1]))


def _lanes(rank: int) -> dict[str, Any]:
    """How a listed cell's products are spread."""
    lanes = triton.next_power_of_2(rank)
    return {
        "RANK": rank,
        "LANES": lanes,
        "BF": max(1, min(32, 4096 // lanes)),
        "num_warps": 4 if lanes >= 128 else 1,
    }

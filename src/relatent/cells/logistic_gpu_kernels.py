"""Triton kernels of the exact logistic sum on a GPU: sigmoid attention over all cells.

Why they look as they do:

- y arrives in units of −log 2, so that a cell takes one ex2, one fma that includes the bias, and one reciprocal.
- σ is stored as 2¹⁵ σ: float16 then keeps eleven bits of it down to θ ≈ −20 and loses it at −28.
- Rows and columns that pad a block are zero vectors: they add nothing to dQ and dA, and what they add to the sums is
  known, so that no cell is ever masked.
- Σ softplus takes one logarithm for 64 cells, by p ← p + e + p·e with e = exp(−|θ|).
- The value of rounded factors is off by <gradient, rounding error> to first order. Both are available at the end of a
  block, where the error is subtracted at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
    """2¹⁵ / (1 + c 2^s) in float16 and float32; two cells share a reciprocal, since 1/a = b · 1/(ab)."""
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
    """As `_sigmoids_of_two`, one reciprocal for four cells: factors above 2³¹ would make their product overflow."""
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
    """2^−|x|; the instruction takes both signs at no cost."""
    return tl.inline_asm_elementwise(
        "{ .reg .f32 t; abs.f32 t, $1; neg.f32 t, t; ex2.approx.ftz.f32 $0, t; }", "=f,f", [x], tl.float32, True, 1
    )


@triton.jit
def _rounded(p, DTYPE: tl.constexpr):
    """p in the type of the matrix units, which would truncate a float32; rounding has no bias."""
    if DTYPE == tl.float32:  # noqa: SIM300  Triton compares a constexpr on the left
        bits = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,f", [p], tl.int32, True, 1)
        p = bits.to(tl.float32, bitcast=True)
    return p.to(DTYPE)


@triton.jit
def _join(p, q):
    """The number whose log1p is log1p(p) + log1p(q)."""
    return p + (q + p * q)


@triton.jit
def _log1p(p):
    """log₂(1 + p) for 0 ≤ p < 2¹²⁷, also precise for small p."""
    series = p * (1 + p * (-1 / 2 + p * (1 / 3 + p * (-1 / 4 + p * (1 / 5 + p * (-1 / 6 + p * (1 / 7)))))))
    return tl.where(p < 0.125, 1.4426950408889634 * series, _lg2(1 + p))


@triton.jit
def _cells(s, b, DTYPE: tl.constexpr, VALUE: tl.constexpr, SHARE: tl.constexpr):
    """2¹⁵ σ(θ) of a tile, rounded and not, and Σ softplus(θ) along its rows; s = b − θ, all in units of log 2."""
    if VALUE:
        z = b - s
        e = _ex2_of_minus_abs(z)
        g = _rcp(e * TINY + TINY)
        p = tl.where(z < 0, e * g, g)
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
    return p_rounded, p, value


@triton.jit(do_not_specialize=["height"])
def _attend(
    x_tiles,  # (X, RANK) descriptor
    y_tiles,  # (Y, RANK) descriptor; x yᵀ is (b − θ) / log 2
    bias,  # (m,) b / log 2 of the relations that x, or else y, has rows of
    scales,  # (2,) of the output, and of x relative to its exact values
    exact,  # (X, RANK) x before it was rounded, if VALUE
    out,  # (splits, X, RANK), or (X / m, m, RANK) if x is sorted by relation
    totals,  # Totals; the values are less what rounding x has changed
    height,  # rows of one relation
    BM: tl.constexpr,
    BN: tl.constexpr,
    RANK: tl.constexpr,
    BY_X: tl.constexpr,  # x has the rows of the relations: one bias per program, and sums are wanted
    VALUE: tl.constexpr,
    SHARE: tl.constexpr,  # cells that share a reciprocal
    STAGES: tl.constexpr,
):
    """A block of σ(x yᵀ + b) y, summed over the part of y that belongs to this split."""
    block, split = tl.program_id(0), tl.program_id(1)
    n_x, y_blocks = x_tiles.shape[0], y_tiles.shape[0] // BN
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
        y = y_tiles.load([j * BN, 0])
        s = tl.dot(x, y.T)
        p_rounded, p, v = _cells(s, b, y.dtype, VALUE and BY_X, SHARE)
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
        tl.store(totals.softplus + split * n_x + rows, 0.6931471805599453 * value - tl.sum(acc * error, 1))
    if BY_X:
        at = ((rows % height) * (n_x // height) + rows // height).to(tl.int64)
        tl.store(out + at[:, None] * RANK + columns[None, :], acc)
        tl.store(totals.sigma + rows, total * TINY)
    else:
        at = out + (split.to(tl.int64) * n_x + rows)[:, None] * RANK + columns[None, :]
        tl.store(at, tl.load(at) + acc)


@triton.jit
def _slopes(
    x_tiles,  # (X, RANK) descriptor, rows of one relation
    y_tiles,  # (Y, RANK) descriptor
    bias,  # (1,) b / log 2
    P,  # (X, Y) 2¹⁵ σ
    sums,  # (Y / BN, X) Σ σ along a row of the block
    values,  # (Y / BN, X) Σ softplus(θ), if VALUE
    BM: tl.constexpr,
    BN: tl.constexpr,
    RANK: tl.constexpr,
    BK: tl.constexpr,
    VALUE: tl.constexpr,
    STAGES: tl.constexpr,
):
    """A block of σ(x yᵀ + b), written to memory."""
    i, j = tl.program_id(0), tl.program_id(1)
    n_x, width = x_tiles.shape[0], y_tiles.shape[0]
    s = tl.zeros([BM, BN], tl.float32)
    for h in tl.range(0, RANK, BK, num_stages=STAGES):
        s = tl.dot(x_tiles.load([i * BM, h]), y_tiles.load([j * BN, h]).T, s)
    rows, columns = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    p_rounded, p, value = _cells(s, tl.load(bias), P.dtype.element_ty, VALUE, 1)
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
    """x times a scale, rounded to the type of the matrix units."""
    out = torch.empty_like(x, dtype=dtype)
    _round[(triton.cdiv(x.numel(), 4096),)](x, scale, out, x.numel(), BLOCK=4096, num_warps=8)
    return out


class Totals(NamedTuple):
    """Sums along the rows of x."""

    sigma: Tensor | None  # (X,) Σ σ; None where y has the rows of the relations
    softplus: Tensor | None  # (splits, X) Σ softplus(θ); None if they are not wanted


@dataclass(frozen=True)
class BlockShape:
    """How `_attend` is divided into blocks."""

    rows: int
    columns: int
    warps: int
    stages: int
    share: int = 1


# The fastest ones measured on an H200, by (rank, x has the rows of the relations, with the value).
SHAPES = {
    (64, True, False): BlockShape(64, 128, 4, 3, 4),
    (64, False, False): BlockShape(64, 128, 4, 3, 4),
    (64, True, True): BlockShape(64, 64, 4, 3),
    (128, True, False): BlockShape(64, 128, 4, 3, 4),
    (128, False, False): BlockShape(64, 128, 4, 3, 4),
    (128, True, True): BlockShape(128, 64, 4, 3),
    (256, True, False): BlockShape(64, 128, 4, 1, 4),
    (256, False, False): BlockShape(64, 128, 4, 1, 4),
    (256, True, True): BlockShape(64, 64, 4, 2),
}


def shape_for(rank: int, dtype: torch.dtype, by_x: bool, value: bool) -> BlockShape:
    """The shape of blocks: with the value at most 64 columns, which share one logarithm."""
    if dtype == torch.float32:
        return BlockShape(64, 32, 4, 2) if rank > 128 else BlockShape(64, 64, 4, 2)
    return SHAPES[max(64, rank), by_x, value and by_x]


def attend(
    x: Tensor, y: Tensor, bias: Tensor, height: int, scales: Tensor, out: Tensor, totals: Totals, exact: Tensor | None
) -> None:
    """Fill `out` and the sums if x has the rows of the relations; add to `out` if y has them; fill the values."""
    rank, by_x, value = x.shape[1], totals.sigma is not None, totals.softplus is not None
    shape = shape_for(rank, x.dtype, by_x, value)
    _attend[(len(x) // shape.rows, 1 if by_x else out.shape[0])](
        TensorDescriptor.from_tensor(x, [shape.rows, rank]),
        TensorDescriptor.from_tensor(y, [shape.columns, rank]),
        bias,
        scales,
        exact,
        out,
        totals,
        height,
        BM=shape.rows,
        BN=shape.columns,
        RANK=rank,
        BY_X=by_x,
        VALUE=value,
        SHARE=shape.share if x.dtype == torch.float16 else 1,
        STAGES=shape.stages,
        num_warps=shape.warps,
        num_stages=shape.stages,
    )


def slopes(x: Tensor, y: Tensor, bias: Tensor, with_value: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """2¹⁵ σ(x yᵀ + b) for the rows of one relation, Σ σ and Σ softplus along them."""
    BM, BN, BK = (128, 64, 64) if with_value else (128, 128, 64)
    P = torch.empty(len(x), len(y), dtype=x.dtype, device=x.device)
    sums = torch.empty(len(y) // BN, len(x), device=x.device)
    values = torch.empty_like(sums) if with_value else None
    _slopes[(len(x) // BM, len(y) // BN)](
        TensorDescriptor.from_tensor(x, [BM, BK]),
        TensorDescriptor.from_tensor(y, [BN, BK]),
        bias,
        P,
        sums,
        values,
        BM=BM,
        BN=BN,
        RANK=x.shape[1],
        BK=BK,
        VALUE=with_value,
        STAGES=3,
        num_warps=8,
        num_stages=3,
    )
    return P, sums.sum(0), None if values is None else values.sum(0)

"""One pass over a tile of scores: θ becomes σ(θ) in place, and Σ softplus(θ) is summed on the way.

The loops are written so that LLVM vectorises them: the exponential is a polynomial with the exponent set by its
bits, and the logarithm is taken once for hundreds of cells. With e = exp(−|θ|),

    softplus(θ) = max(θ, 0) + log1p(e),        Σ log1p(e_c) = log1p(p),  p ← p + e + p·e

which keeps the digits that a product of (1 + e) loses near θ = −12, where most cells of a knowledge graph lie.

Everything here is inlined into its caller, so that each sum is compiled once: compiled twice, by itself and within a
cached caller, a sum might run in another order, and a fit would end with other numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

# All flags but `afn`, as approximate functions would make the loss inexact; the others let sums run in SIMD lanes.
FAST = {"contract", "arcp", "nsz", "nnan", "ninf", "reassoc"}
MASKED = -1e30  # the score of a cell that adds nothing: σ = 0, softplus = 0
FOLDS = 6  # 2⁶ = 64 factors (1 + e) ≤ 2 at most, so p stays far inside float32
LARGE = 1e250  # in float64, one more such fold cannot overflow
FOLD_LENGTH = 512  # cells collected before folding, so that narrow tiles do not take one log per few cells


@intrinsic
def _float32_from_bits(_: Any, bits: Any) -> Any:
    """Reinterpret an int32 as a float32."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


# exp on [−½ ln 2, ½ ln 2]: the minimax coefficients of Cephes' expf, error below 2⁻²⁴
_C = tuple(
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)
_C0, _C1, _C2, _C3, _C4, _C5 = _C
_LOG2_E = np.float32(math.log2(math.e))
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
_LEAST, _HALF, _ONE, _ZERO = np.float32(-87), np.float32(0.5), np.float32(1), np.float32(0)
_EXPONENT_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)


@njit(inline="always", fastmath=FAST)
def _exp32(x):  # type: ignore[no-untyped-def]
    """exp(x) for x ≤ 0, flushed at −87."""
    x = max(x, _LEAST)
    n = np.int32(x * _LOG2_E - _HALF)  # truncation rounds to nearest here, as x ≤ 0
    z = np.float32(n)
    f = x - z * _LN2_HIGH
    f = f - z * _LN2_LOW
    p = ((((_C0 * f + _C1) * f + _C2) * f + _C3) * f + _C4) * f + _C5
    p = p * f * f + f + _ONE
    return p * _float32_from_bits((n + _EXPONENT_BIAS) << _MANTISSA_BITS)  # type: ignore[call-arg]


@njit(inline="always", fastmath=FAST, error_model="numpy")
def sigmoid32(T, bias, row_sums):  # type: ignore[no-untyped-def]
    """T ← σ(T + bias of the row); row sums are added to `row_sums`."""
    n, m = T.shape
    for i in range(n):
        b = bias[i]
        total = _ZERO
        for j in range(m):
            t = T[i, j] + b
            e = _exp32(-abs(t))
            q = _ONE / (_ONE + e)
            s = q if t >= _ZERO else e * q
            T[i, j] = s
            total += s
        row_sums[i] += total


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _sum_log1p(E, m):  # type: ignore[no-untyped-def]
    """Σ log1p(E[:m]), folded 64 to one in float32, then in float64, whose range is 8 times wider; E is overwritten."""
    for _ in range(FOLDS):
        if m == 1:
            break
        half = (m + 1) // 2
        low, high = E[: m - half], E[half:m]
        for c in range(m - half):
            low[c] = low[c] + high[c] + low[c] * high[c]
        m = half
    total, p = 0.0, 0.0
    for c in range(m):
        e = np.float64(E[c])
        p = p + e + p * e
        if p > LARGE:
            total += math.log1p(p)
            p = 0.0
    return total + math.log1p(p)


@njit(inline="always", fastmath=FAST, error_model="numpy")
def sigmoid_softplus32(T, bias, row_sums, E):  # type: ignore[no-untyped-def]
    """As `sigmoid32`, and returns Σ softplus(T + bias). E: scratch, at least FOLD_LENGTH + columns long."""
    n, m = T.shape
    total = 0.0
    filled = 0
    for i in range(n):
        b = bias[i]
        row_total, positive = _ZERO, _ZERO
        e_row = E[filled : filled + m]
        for j in range(m):
            t = T[i, j] + b
            e = _exp32(-abs(t))
            q = _ONE / (_ONE + e)
            s = q if t >= _ZERO else e * q
            T[i, j] = s
            e_row[j] = e
            row_total += s
            positive += max(t, _ZERO)
        row_sums[i] += row_total
        total += np.float64(positive)
        filled += m
        if filled >= FOLD_LENGTH or i == n - 1:
            total += _sum_log1p(E, filled)
            filled = 0
    return total


@njit(inline="always", error_model="numpy")
def sigmoid_softplus64(T, bias, row_sums):  # type: ignore[no-untyped-def]
    """The same in float64, cell by cell with the library's functions."""
    n, m = T.shape
    total = 0.0
    for i in range(n):
        for j in range(m):
            t = T[i, j] + bias[i]
            e = math.exp(-abs(t))
            s = 1 / (1 + e) if t >= 0 else e / (1 + e)
            T[i, j] = s
            row_sums[i] += s
            total += max(t, 0.0) + math.log1p(e)
    return total


@njit(inline="always")
def prepare_facts(T, bias, facts, tile):  # type: ignore[no-untyped-def]
    """Σ over facts of [w softplus(−θ) − softplus(θ)] = Σ [(w − 1) softplus(θ) − w θ], before T becomes σ."""
    total = 0.0
    for c in range(facts.starts[tile], facts.starts[tile + 1]):
        row = facts.rows[c]
        t, w = np.float64(T[row, facts.columns[c]] + bias[row]), np.float64(facts.weights[c])
        total -= w * t
        if w != 1.0:
            total += (w - 1.0) * (max(t, 0.0) + math.log1p(math.exp(-abs(t))))
    return total


@njit(inline="always")
def mask_cells(T, cells, tile):  # type: ignore[no-untyped-def]
    """Take unobserved cells out of a tile of scores."""
    for c in range(cells.starts[tile], cells.starts[tile + 1]):
        T[cells.rows[c], cells.columns[c]] = MASKED


@njit(inline="always")
def finish_facts(T, row_sums, facts, tile):  # type: ignore[no-untyped-def]
    """For facts, σ(θ) becomes the derivative w σ(θ) − w."""
    for c in range(facts.starts[tile], facts.starts[tile + 1]):
        row, column, w = facts.rows[c], facts.columns[c], facts.weights[c]
        s = T[row, column]
        d = w * s - w
        T[row, column] = d
        row_sums[row] += d - s


# log1p(e) / e on [0, 1]: interpolated at the Chebyshev points, error below 3e-7
_D = tuple(
    np.float32(c)
    for c in (
        *(0.999999781, -0.499971745, 0.332719284, -0.244747742),
        *(0.176874767, -0.106850029, 0.0434938998, -0.00837115255),
    )
)
_D0, _D1, _D2, _D3, _D4, _D5, _D6, _D7 = _D


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _one_cell32(t):  # type: ignore[no-untyped-def]
    e = _exp32(-abs(t))
    q = _ONE / (_ONE + e)
    log = ((((((_D7 * e + _D6) * e + _D5) * e + _D4) * e + _D3) * e + _D2) * e + _D1) * e + _D0
    return (q if t >= _ZERO else e * q), max(t, _ZERO) + e * log


@njit(inline="always", error_model="numpy")
def _one_cell64(t):  # type: ignore[no-untyped-def]
    e = math.exp(-abs(t))
    return (1 / (1 + e) if t >= 0 else e / (1 + e)), max(t, 0.0) + math.log1p(e)


@njit(inline="always", fastmath=FAST, error_model="numpy")
def _weighted32(T, b, weights, sums, values):  # type: ignore[no-untyped-def]
    n, m = T.shape
    for i in range(n):
        slope, value = _ZERO, _ZERO
        for j in range(m):
            s, softplus = _one_cell32(T[i, j] + b)
            T[i, j] = s
            slope += weights[j] * s
            value += weights[j] * softplus
        sums[i] += slope
        values[i] += value


@njit(inline="always", error_model="numpy")
def _weighted64(T, b, weights, sums, values):  # type: ignore[no-untyped-def]
    n, m = T.shape
    for i in range(n):
        for j in range(m):
            s, softplus = _one_cell64(T[i, j] + b)
            T[i, j] = s
            sums[i] += weights[j] * s
            values[i] += weights[j] * softplus


def weighted_pass(T: Any, b: Any, weights: Any, sums: Any, values: Any) -> None:
    """T ← σ(T + b); Σ σ and Σ softplus of each row, columns weighted, are added to sums and values. Compiled only."""
    raise NotImplementedError


@overload(weighted_pass, inline="always")
def _weighted_by_precision(T, b, weights, sums, values):  # type: ignore[no-untyped-def]
    if T.dtype == types.float64:
        return lambda T, b, weights, sums, values: _weighted64(T, b, weights, sums, values)
    return lambda T, b, weights, sums, values: _weighted32(T, b, weights, sums, values)


def one_cell(t: Any) -> tuple[Any, Any]:
    """σ(t) and softplus(t). Compiled only."""
    raise NotImplementedError


@overload(one_cell, inline="always")
def _one_by_precision(t):  # type: ignore[no-untyped-def]
    if t == types.float64:
        return lambda t: _one_cell64(t)
    return lambda t: _one_cell32(t)

"""Triton's kernels on a CPU, in its interpreter, with plain operations where they use a GPU's own instructions."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from relatent.cells import logistic_gpu_kernels as attention


@triton.jit
def _ex2(x):
    return tl.exp2(x)


@triton.jit
def _lg2(x):
    return tl.log2(x)


@triton.jit
def _rcp(x):
    return 1.0 / x


@triton.jit
def _ex2_of_minus_abs(x):
    return tl.exp2(-tl.abs(x))


@triton.jit
def _rounded(p, DTYPE: tl.constexpr):
    return p.to(DTYPE)


@triton.jit
def _sigmoids(s, c):
    p = 1.0 / (2.0**-15 + c * tl.exp2(s))
    return p.to(tl.float16), p


if not torch.cuda.is_available():
    attention._ex2, attention._lg2, attention._rcp = _ex2, _lg2, _rcp
    attention._ex2_of_minus_abs, attention._rounded = _ex2_of_minus_abs, _rounded
    attention._sigmoids_of_two = attention._sigmoids_of_four = _sigmoids

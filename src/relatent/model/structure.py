"""The structure of the relation matrices: a linear map from parameters to R_k, and its transpose.

"full": R_k itself, r² numbers. "complex": r numbers (x, y) per relation, with

    R_k = [[diag x, diag y], [−diag y, diag x]]

which is ComplEx (Trouillon et al. 2016): a_i and a_j are vectors of r / 2 complex numbers, θ = Re Σ a_i p_k conj(a_j).
It expresses symmetric relations (y = 0) and antisymmetric ones (x = 0), and has far less to learn per relation.

Parameters of all relations are one array, (K, r, r) or (K, r): its number of dimensions tells the structure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix
from ..errors import InputError

FULL, COMPLEX = "full", "complex"
STRUCTURES = (FULL, COMPLEX)


def parameter_shape(structure: str, k: int, r: int) -> tuple[int, ...]:
    """The shape of the parameters of k relations."""
    return (k, r, r) if structure == FULL else (k, r)


def check_structure(structure: object, rank: int) -> None:
    """Refuse an unknown structure, and a rank that it cannot have."""
    if structure not in STRUCTURES:
        raise InputError(f"structure must be {' or '.join(map(repr, STRUCTURES))}, got {structure!r}")
    if structure == COMPLEX and rank % 2:
        raise InputError(f"structure='complex' needs an even rank, got {rank}; use rank={rank + 1}")


def expanded(P: Any, zeros: Any = None) -> Any:
    """R of these parameters; `zeros` makes an array of a shape on the device of P, by default with NumPy."""
    if P.ndim == 3:
        return P
    k, r = P.shape
    d, R = r // 2, np.zeros((k, r, r), P.dtype) if zeros is None else zeros((k, r, r))
    first, second = np.arange(d), np.arange(d, r)
    R[:, first, first] = R[:, second, second] = P[:, :d]
    R[:, first, second] = P[:, d:]
    R[:, second, first] = -P[:, d:]
    return R


def contracted(dR: Any, out: Any) -> Any:
    """The derivatives in the parameters, in `out`, from those in R."""
    d = out.shape[1] // 2
    first, second = np.arange(d), np.arange(d, 2 * d)
    out[:, :d] = dR[:, first, first] + dR[:, second, second]
    out[:, d:] = dR[:, first, second] - dR[:, second, first]
    return out


def nearest_parameters(R: Any) -> Any:
    """The parameters of the complex matrices that are closest to R."""
    return contracted(R, np.zeros(R.shape[:2], R.dtype)) / 2


def compact(R: Any) -> Any:
    """The parameters of matrices that all have the complex structure exactly; other matrices as they are."""
    r = R.shape[1]
    if R.ndim == 2 or r % 2 or not R.size or R[0, 0, 0] != R[0, r // 2, r // 2]:
        return R
    P = nearest_parameters(R)
    return P if np.array_equal(expanded(P), R) else R


def transposed(P: Any) -> Any:
    """The parameters of R_kᵀ."""
    if P.ndim == 3:
        return P.transpose(0, 2, 1)
    d = P.shape[1] // 2
    return np.concatenate([P[:, :d], -P[:, d:]], axis=1)


def times(X: Matrix, p: Any) -> Matrix:
    """The rows of X times R_k, for the parameters p of one relation."""
    if p.ndim == 2:
        return X @ p  # type: ignore[no-any-return]
    d = len(p) // 2
    a, b, x, y = X[:, :d], X[:, d:], p[:d], p[d:]
    return np.concatenate([a * x - b * y, a * y + b * x], axis=1)

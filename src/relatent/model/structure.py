"""The structure of the relation matrices: a map from parameters to R_k, and the way derivatives go back.

| structure | R_k | numbers per relation |
|---|---|---|
| "full" | any matrix, as in the paper | r² |
| "complex" | [[diag x, diag y], [−diag y, diag x]]: ComplEx (Trouillon et al. 2016) | r |
| "diagonal" | diag x: DistMult (Yang et al. 2015) | r |
| Blocks(b) | b × b blocks on the diagonal | r b |
| "symmetric" | R_k = R_kᵀ | r (r + 1) / 2 |
| Shared(m) | Σ_j c_kj B_j, m matrices for all: TuckER's form (Balažević et al. 2019) | m, and m r² in all |

"diagonal" and "symmetric" give (i, k, j) and (j, k, i) the same score: they cannot say who is whose parent. "complex"
and Blocks express symmetric relations and directed ones; a chain of two relations (R_k R_l) is again of their form.

Sums over cells take the parameters of the first four as they are (`backend.compact_matrices`). For the others, and for
an object of one's own, a fit computes whole matrices in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ..backend.compact_matrices import contracted, expanded, make_symmetric
from ..errors import InputError

Shape = tuple[int, ...]


@runtime_checkable
class Structure(Protocol):
    """What an object of one's own needs; a method `shape(k, r)` of the parameters is optional."""

    def matrices(self, P: Any) -> Any:
        """R, (K, r, r), from the parameters of all relations."""

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in the parameters, from those in R."""


@dataclass(frozen=True)
class _Compact:
    """A structure whose parameters sums over cells take as they are."""

    is_compact: ClassVar[bool] = True
    name: ClassVar[str]

    def shape(self, k: int, r: int) -> Shape:
        """The shape of the parameters of k relations."""
        raise NotImplementedError

    def matrices(self, P: Any) -> Any:
        """R from the parameters."""
        return expanded(P, None if isinstance(P, np.ndarray) else P.new_zeros)

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in the parameters."""
        return contracted(dR, 0 * P)


@dataclass(frozen=True)
class Full(_Compact):
    """R_k itself."""

    name: ClassVar[str] = "full"

    def shape(self, k: int, r: int) -> Shape:
        """Whole matrices."""
        return (k, r, r)


@dataclass(frozen=True)
class Complex(_Compact):
    """Vectors of r / 2 complex numbers, θ = Re Σ a_i p_k conj(a_j)."""

    name: ClassVar[str] = "complex"

    def shape(self, k: int, r: int) -> Shape:
        """Real and imaginary parts."""
        if r % 2:
            raise InputError(f"structure='complex' needs an even rank, got {r}; use rank={r + 1}")
        return (k, r)


@dataclass(frozen=True)
class Blocks(_Compact):
    """Dense blocks of `size` × `size` on the diagonal of R_k; the rank is a multiple of `size`.

    >>> Blocks(4).shape(10, 64)
    (10, 16, 4, 4)
    """

    size: int = 2
    name: ClassVar[str] = "blocks"

    def shape(self, k: int, r: int) -> Shape:
        """The blocks of each relation."""
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"the size of Blocks must be a whole number of at least 1, got {self.size!r}")
        if r % self.size:
            above = (r // self.size + 1) * self.size
            raise InputError(
                f"structure=Blocks({self.size}) needs a rank that is a multiple, got {r}; use rank={above}"
            )
        return (k, r // self.size, self.size, self.size)


@dataclass(frozen=True)
class Symmetric:
    """R_k = R_kᵀ by the numbers on and above the diagonal; those above are stored times √2, so that |p| = |R_k|."""

    name: ClassVar[str] = "symmetric"
    is_compact: ClassVar[bool] = False

    def shape(self, k: int, r: int) -> Shape:
        """The upper triangle of each relation."""
        return (k, r * (r + 1) // 2)

    def matrices(self, P: Any) -> Any:
        """R from its upper triangles."""
        k, r = len(P), int((2 * P.shape[1]) ** 0.5)
        i, j = np.triu_indices(r)
        R = np.zeros((k, r, r), P.dtype) if isinstance(P, np.ndarray) else P.new_zeros((k, r, r))
        R[:, i, j] = P
        return (R + R.swapaxes(1, 2)) * _like(np.where(np.eye(r, dtype=bool), 0.5, 0.5**0.5), P)

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in the upper triangles."""
        i, j = np.triu_indices(dR.shape[1])
        both = (dR[:, i, j] + dR[:, j, i]) * _like(np.where(i == j, 0.5, 0.5**0.5), dR)
        return both


@dataclass(frozen=True)
class Shared:
    """R_k = Σ_j c_kj B_j with `count` matrices B_j that all relations share.

    The parameters are one vector, the coefficients c of all relations and then the matrices. How many relations there
    are follows from its length and the rank, which the fit passes on in `of`.

    >>> import relatent
    >>> relatent.RescalLogit(rank=5, structure=relatent.Shared(4)).structure.count
    4
    """

    count: int = 8
    relations: int = 0  # of the fit; set by `of`
    rank: int = 0
    name: ClassVar[str] = "shared"
    is_compact: ClassVar[bool] = False

    def of(self, k: int, r: int) -> Shared:
        """This structure for k relations at rank r."""
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise InputError(f"the count of Shared must be a whole number of at least 1, got {self.count!r}")
        return Shared(self.count, k, r)

    def shape(self, k: int, r: int) -> Shape:
        """All coefficients and all matrices."""
        return (k * self.count + self.count * r * r,)

    def parts(self, P: Any) -> tuple[Any, Any]:
        """Coefficients (K, m) and matrices (m, r²), as views."""
        split = self.relations * self.count
        return P[:split].reshape(self.relations, self.count), P[split:].reshape(self.count, self.rank**2)

    def matrices(self, P: Any) -> Any:
        """R from coefficients and matrices."""
        c, B = self.parts(P)
        return (c @ B).reshape(self.relations, self.rank, self.rank)

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in coefficients and matrices."""
        (c, B), dP, flat = self.parts(P), 0 * P, dR.reshape(self.relations, -1)
        dc, dB = self.parts(dP)
        dc[:] = flat @ B.T
        dB[:] = c.T @ flat
        return dP

    def nearest(self, R: Any) -> Any:
        """The parameters whose matrices are closest to R: the leading singular vectors of its flattened matrices."""
        U, s, V = np.linalg.svd(R.reshape(len(R), -1), full_matrices=False)
        P, kept = np.zeros(self.shape(self.relations, self.rank), R.dtype), min(self.count, len(s))
        c, B = self.parts(P)
        c[:, :kept], B[:kept] = U[:, :kept] * np.sqrt(s[:kept]), np.sqrt(s[:kept])[:, None] * V[:kept]
        return P


@dataclass(frozen=True)
class PartlySymmetric:
    """Another structure, with (R_k + R_kᵀ) / 2 in place of some R_k."""

    structure: Any
    relations: tuple[int, ...]

    def shape(self, k: int, r: int) -> Shape:
        """The shape of its parameters."""
        return parameter_shape(self.structure, k, r)

    def matrices(self, P: Any) -> Any:
        """R from the parameters."""
        return make_symmetric(0 + self.structure.matrices(P), self.relations)

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in the parameters."""
        return self.structure.gradient(make_symmetric(0 + dR, self.relations), P)


FULL, COMPLEX, DIAGONAL, SYMMETRIC = Full(), Complex(), Blocks(1), Symmetric()
NAMED: dict[str, Any] = {"full": FULL, "complex": COMPLEX, "diagonal": DIAGONAL, "symmetric": SYMMETRIC}
STORED = {kind.name: kind for kind in (Complex, Blocks, Symmetric, Shared)}  # whose parameters a model file holds


def resolve(structure: object, k: int, r: int) -> Any:
    """The structure of this name, or the given one, for k relations at rank r; InputError if it does not fit."""
    if isinstance(structure, str) and structure in NAMED:
        found = NAMED[structure]
    elif isinstance(structure, Structure) and not isinstance(structure, type):
        found = structure.of(k, r) if isinstance(structure, Shared) else structure
    else:
        names = ", ".join(map(repr, NAMED))
        raise InputError(
            f"structure must be {names}, Blocks(b), Shared(m) or an object with matrices and gradient, "
            f"got {structure!r}"
        )
    parameter_shape(found, k, r)
    return found


def with_symmetric(structure: Any, relations: Sequence[int]) -> Any:
    """The structure in which these R_k are symmetric; one whose parameters sums take as they are does not change."""
    if not len(relations) or is_compact(structure) or isinstance(structure, Symmetric):
        return structure
    return PartlySymmetric(structure, tuple(relations))


def rank_multiple(structure: object) -> int:
    """The number that a rank must be a multiple of."""
    found = NAMED.get(structure, structure) if isinstance(structure, str) else structure
    size = found.size if isinstance(found, Blocks) else 2 if found == COMPLEX else 1
    return size if isinstance(size, int) and size > 0 else 1


def parameter_shape(structure: Any, k: int, r: int) -> Shape:
    """The shape of the parameters of k relations at rank r."""
    if hasattr(structure, "shape"):
        return tuple(structure.shape(k, r))
    return tuple(structure.gradient(np.zeros((k, r, r)), None).shape)


def is_compact(structure: Any) -> bool:
    """Whether sums over cells take the parameters as they are."""
    return bool(getattr(structure, "is_compact", False))


def nearest_parameters(structure: Any, R: Any) -> Any:
    """The parameters whose matrices are closest to R.

    Of a structure of one's own, the best multiple of the derivatives in the parameters: exact if R is a linear map of
    them whose columns are orthogonal and of one length.
    """
    if isinstance(structure, PartlySymmetric):
        return nearest_parameters(structure.structure, make_symmetric(0 + R, structure.relations))
    if isinstance(structure, Shared):
        return structure.nearest(R)
    P = structure.gradient(R, np.zeros(parameter_shape(structure, *R.shape[:2]), R.dtype))
    mapped = structure.matrices(P)
    scale = float(np.sum(mapped * mapped))
    return P * (float(np.sum(mapped * R)) / scale) if scale else P


def _like(numbers: Any, array: Any) -> Any:
    """Numbers as an array of the same kind."""
    return numbers.astype(array.dtype) if isinstance(array, np.ndarray) else array.new_tensor(numbers)

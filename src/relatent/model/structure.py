"""The structure of the relation matrices: a map from parameters to R_k, and the way derivatives go back.

| structure | R_k | numbers per relation |
|---|---|---|
| "full" | any matrix, as in the paper | r² |
| "complex" | [[diag x, diag y], [−diag y, diag x]]: ComplEx (Trouillon et al. 2016) | r |
| "diagonal" | diag x: DistMult (Yang et al. 2015) | r |
| Blocks(b) | b × b blocks on the diagonal | r b |
| "symmetric" | R_k = R_kᵀ | r (r + 1) / 2 |
| Shared(m) | Σ_j c_kj B_j, m matrices for all: TuckER's form (Balažević et al. 2019) | m, and m r² in all |
| DirectSum(parts) | the matrices of other structures, one after the other on the diagonal | those of the parts |

"diagonal" and "symmetric" give (i, k, j) and (j, k, i) the same score: they cannot say who is whose parent. "complex"
and Blocks express symmetric relations and directed ones; a chain of two relations (R_k R_l) is again of their form.
The scores of a direct sum are those of its parts, added: it is the structure of a sum of models (`relatent.combine`).

Sums over cells take the parameters of the first four as they are (`backend.compact_matrices`). For the others, and for
an object of one's own, a fit computes whole matrices in every step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
class DirectSum:
    """R_k with a matrix of each part on its diagonal, and zeros elsewhere; a part is a structure and its rank.

    The parameters are one vector, those of all relations in the first part, then those in the second, and so on.

    >>> DirectSum((("complex", 4), (Blocks(2), 6))).of(3, 10).shape(3, 10)
    (48,)
    """

    parts: tuple[tuple[Any, int], ...]
    relations: int = 0  # of the fit; set by `of`
    name: ClassVar[str] = "sum"
    is_compact: ClassVar[bool] = False

    def of(self, k: int, r: int) -> DirectSum:
        """This structure for k relations at rank r."""
        ranks = [rank for _, rank in self.parts]
        if not all(isinstance(rank, int) and not isinstance(rank, bool) and rank > 0 for rank in ranks):
            raise InputError(f"the ranks of a direct sum must be whole numbers of at least 1, got {ranks}")
        if sum(ranks) != r or not ranks:
            raise InputError(f"the ranks of a direct sum must add up to {r}, got {ranks}")
        return DirectSum(tuple((resolve(structure, k, rank), rank) for structure, rank in self.parts), k)

    def shape(self, k: int, r: int) -> Shape:
        """The parameters of all parts."""
        return (sum(math.prod(parameter_shape(structure, k, rank)) for structure, rank in self.parts),)

    def columns(self) -> list[slice]:
        """The components of each part."""
        ends = np.cumsum([0, *(rank for _, rank in self.parts)]).tolist()
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    def split(self, P: Any) -> list[Any]:
        """The parameters of each part, as views."""
        shapes = [parameter_shape(structure, self.relations, rank) for structure, rank in self.parts]
        ends = np.cumsum([0, *map(math.prod, shapes)]).tolist()
        return [P[slice(*pair)].reshape(shape) for pair, shape in zip(itertools.pairwise(ends), shapes, strict=True)]

    def matrices(self, P: Any) -> Any:
        """R from the matrices of the parts."""
        r = sum(rank for _, rank in self.parts)
        shape = (self.relations, r, r)
        R = np.zeros(shape, P.dtype) if isinstance(P, np.ndarray) else P.new_zeros(shape)
        for (structure, _), here, p in zip(self.parts, self.columns(), self.split(P), strict=True):
            R[:, here, here] = structure.matrices(p)
        return R

    def gradient(self, dR: Any, P: Any) -> Any:
        """The derivatives in the parameters of the parts."""
        dP = 0 * P
        for (structure, _), here, p, dp in zip(self.parts, self.columns(), self.split(P), self.split(dP), strict=True):
            dp[:] = structure.gradient(dR[:, here, here], p)
        return dP

    def nearest(self, R: Any) -> Any:
        """The parameters whose matrices are closest to R."""
        blocks = zip(self.parts, self.columns(), strict=True)
        found = [nearest_parameters(structure, R[:, here, here]).reshape(-1) for (structure, _), here in blocks]
        return np.concatenate(found)


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
# Structures whose parameters a model file holds
STORED = {kind.name: kind for kind in (Complex, Blocks, Symmetric, Shared, DirectSum)}


def resolve(structure: object, k: int, r: int) -> Any:
    """The structure of this name, or the given one, for k relations at rank r; InputError if it does not fit."""
    if isinstance(structure, str) and structure in NAMED:
        found = NAMED[structure]
    elif isinstance(structure, Structure) and not isinstance(structure, type):
        found = structure.of(k, r) if isinstance(structure, (Shared, DirectSum)) else structure
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
    if isinstance(structure, (Shared, DirectSum)):
        return structure.nearest(R)
    P = structure.gradient(R, np.zeros(parameter_shape(structure, *R.shape[:2]), R.dtype))
    mapped = structure.matrices(P)
    scale = float(np.sum(mapped * mapped))
    return P * (float(np.sum(mapped * R)) / scale) if scale else P


def to_document(structure: Any) -> dict[str, Any] | None:
    """A structure as JSON values; None: whole matrices."""
    if structure == FULL:
        return None
    if isinstance(structure, DirectSum):
        parts = [[to_document(part), rank] for part, rank in structure.parts]
        return {"name": structure.name, "parameters": {"parts": parts}}
    return {"name": structure.name, "parameters": asdict(structure)}


def from_document(given: Mapping[str, Any] | None, k: int, r: int) -> Any:
    """The structure that `to_document` wrote, for k relations at rank r; an error of some kind if it is none."""
    if given is None:
        return resolve(FULL, k, r)
    kind, parameters = STORED[given["name"]], given["parameters"]
    if kind is DirectSum:
        if any(part is not None and part["name"] == DirectSum.name for part, _ in parameters["parts"]):
            raise InputError("a direct sum has no direct sums as parts")
        parts = tuple((from_document(part, k, rank), rank) for part, rank in parameters["parts"])
        return resolve(DirectSum(parts), k, r)
    return resolve(kind(**parameters), k, r)


def _like(numbers: Any, array: Any) -> Any:
    """Numbers as an array of the same kind."""
    return numbers.astype(array.dtype) if isinstance(array, np.ndarray) else array.new_tensor(numbers)

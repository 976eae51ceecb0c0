"""Entities that the model scores alike.

Two entities are similar if the model gives the same scores to their cells. The scores of entity i form one row: as
subject and as object, for every relation and every other entity. The product of two such rows is

    Σ_k Σ_j (a_iᵀ R_k a_j)(a_i'ᵀ R_k a_j) + (a_jᵀ R_k a_i)(a_jᵀ R_k a_i')  =  a_iᵀ E a_i',
    E = Σ_k R_k G R_kᵀ + R_kᵀ G R_k,    G = AᵀA of the centred vectors

so the cosine between rows of A E^½ compares all scores with r numbers per entity. Distances in A itself would count
directions that no relation uses. The vectors are centred because scores that all entities share distinguish none.

The vector of an entity that was folded in is an average over what its few facts allow, so it is shorter than those of
the fit and near to all of them. Its similarities are smaller by that ratio; without it, such entities were half of the
entities most similar to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Mask, Matrix, Vector
from ..data.result_labels import row_labels
from ..errors import InputError
from ..model.factors import Factors
from ..model.patterns import check_has_vectors
from ..model.scores import best_first
from ..result_tables import ResultList, result_record

ROWS_PER_BLOCK = 1 << 12  # converted to float64 at a time
N_NEIGHBOURS = 100  # fitted entities whose profiles say how long one of their kind is


@result_record
class SimilarEntity(NamedTuple):
    """An entity and its similarity to the given one.

    >>> SimilarEntity("uk", 0.75).similarity
    0.75
    """

    name: str
    similarity: float  # cosine, at most 1


def similar(factors: Factors, entity: str | int, k: int = 10) -> ResultList[SimilarEntity]:
    """The k entities most similar to the given one, best first.

    >>> import relatent
    >>> model = relatent.RescalALS(rank=10).fit(relatent.load_dataset("kinships")).factors_
    >>> found = relatent.similar(model, "person0", k=3)
    >>> len(found), found[0].similarity >= found[1].similarity
    (3, True)
    """
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    i, B = int(factors.entities.ids(entity)), profiles(factors)
    return nearest(factors, B, B[i], k, exclude=i)


def nearest(
    factors: Factors, B: Matrix, profile: Vector, k: int, *, exclude: int | None = None
) -> ResultList[SimilarEntity]:
    """The k entities whose profiles B are nearest to a profile, best first, without the entity `exclude`."""
    similarity = B @ profile
    if exclude is not None:
        similarity[exclude] = -np.inf
    best = best_first(similarity, k).tolist()
    found = (SimilarEntity(factors.entities[j], float(similarity[j])) for j in best)
    return ResultList(found, row_labels(factors))


def profiles(factors: Factors) -> Matrix:
    """One row per entity, (N, r): the product of two rows is the similarity of the two entities.

    Of unit length, but shorter for entities that were folded in.
    """
    basis = profile_basis(factors)
    B = unit_rows(factors.A, basis)
    is_fitted = np.ones(len(B), bool)
    folded_in = [name for name in factors.about.folded_in if name in factors.entities]
    is_fitted[[factors.entities.id(name) for name in folded_in]] = False
    if not is_fitted.all() and is_fitted.any():
        lengths = np.linalg.norm(factors.A.astype(np.float64) @ basis, axis=1)
        B[~is_fitted] *= _relative_lengths(B, lengths, is_fitted)[:, None]
    return B


def _relative_lengths(B: Matrix, lengths: Vector, is_fitted: Mask) -> Vector:
    """The length of each other profile relative to the fitted ones most similar to it, at most 1."""
    fitted, usual = B[is_fitted], lengths[is_fitted]
    typical = [np.median(usual[best_first(fitted @ row, N_NEIGHBOURS)]) for row in B[~is_fitted]]
    return np.minimum(lengths[~is_fitted] / np.maximum(typical, np.finfo(np.float64).tiny), 1)


def profile_basis(factors: Factors) -> Matrix:
    """E^½, (r, r), which maps entity vectors to profiles."""
    check_has_vectors(factors.A)
    A, mean = factors.A, factors.A.mean(axis=0, dtype=np.float64)
    blocks = (A[low : low + ROWS_PER_BLOCK] - mean for low in range(0, len(A), ROWS_PER_BLOCK))
    G = sum((block.T @ block for block in blocks), np.zeros(2 * mean.shape))
    R = factors.relation_matrices.astype(np.float64)
    E = sum((part for k in range(len(R)) for part in R.quadratic(k, G)), np.zeros_like(G))
    eigenvalues, U = np.linalg.eigh(E)
    return U * np.sqrt(np.maximum(eigenvalues, 0))  # type: ignore[no-any-return]


def unit_rows(A: Matrix, basis: Matrix) -> Matrix:
    """The rows of A · basis, scaled to unit length."""
    B = A.astype(np.float64) @ basis
    return B / np.maximum(np.linalg.norm(B, axis=1, keepdims=True), np.finfo(np.float64).tiny)  # type: ignore[no-any-return]

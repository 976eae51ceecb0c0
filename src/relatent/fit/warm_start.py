"""Factors as the start of a fit to other facts: new entities get vectors, new relations get matrices.

The vector of a new entity is the mean over its facts of the vectors of the entities that have the same fact (are born
in the same city), or at least the same role in the same relation; if nobody has, the mean vector of the entities that
it has facts with. The matrix of a new relation explains its facts best in least squares, with all vectors held fixed.
Both are linear in the facts, for any loss and structure.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from ..arrays import Ids, Mask, Matrix, Slices, Vector
from ..backend import gram_matrix as gram
from ..data.facts import Facts
from ..model.factors import Factors
from ..model.relation_matrices import RelationMatrices
from ..model.structure import Shared, nearest_parameters
from .solvers.als import between, relation_inverse

L2_RELATIONS = 1.0  # of the regression of a new relation; A of a fit has columns far longer than 1


def grown(
    factors: Factors, facts: Facts, *, bias: Vector, steepness: float | Slices = 1.0, minimum: float | None = None
) -> Factors:
    """The factors over the entities and relations of the facts, which include those of the factors.

    `bias`: of the relations, (K,), where a new one starts; `steepness`: of the loss, by which the matrices of new
    relations are larger than those of least squares, (K, 1, 1) where relations have losses of their own; `minimum`: of
    the numbers of new entities and relations.
    """
    entity, relation = factors.entities.translate(facts.entities), factors.relations.translate(facts.relations)
    A = np.zeros((len(entity), factors.rank), factors.A.dtype)
    A[entity >= 0] = factors.A[entity[entity >= 0]]
    if (entity < 0).any():
        A[entity < 0] = _at_least(minimum, _entity_vectors(A, facts, entity < 0))
    R = _with_new_relations(factors.relation_matrices, relation, A, facts, steepness, minimum)
    b = bias.astype(factors.bias.dtype)
    b[relation >= 0] = factors.bias[relation[relation >= 0]]
    return Factors(A, R, b, facts.entities, facts.relations, loss=factors.loss)


def _at_least(minimum: float | None, numbers: Matrix) -> Matrix:
    return numbers if minimum is None else np.maximum(numbers, minimum)


def _entity_vectors(A: Matrix, facts: Facts, is_new: Mask) -> Matrix:
    """The vectors of the new entities; the rows of A of all others are known."""
    s, k, o = facts.triples.T.astype(np.int64)
    n = facts.n_entities
    owner, partner = np.concatenate([s, o]), np.concatenate([o, s])
    role = np.concatenate([2 * k, 2 * k + 1])
    of_new = is_new[owner]
    own = (np.cumsum(is_new) - 1)[owner[of_new]]  # the place of the owner among the new entities
    found = np.tile(A[~is_new].mean(axis=0), (int(is_new.sum()), 1))
    is_found = np.zeros(len(found), bool)
    for feature in (role * n + partner, role, partner):  # the same fact, or the same role
        features, column = np.unique(feature[of_new], return_inverse=True)
        if feature is partner:  # a role that nobody had: the vectors of its partners
            means, count = A[features], ~is_new[features]
        else:
            shared = ~of_new & np.isin(feature, features)
            means, count = _sums(np.searchsorted(features, feature[shared]), owner[shared], A, len(features))
            means /= np.maximum(count, 1)[:, None]
        has_mean = count[column] > 0
        sums, total = _sums(own[has_mean], column[has_mean], means, len(found))
        usable = (total > 0) & ~is_found
        found[usable] = sums[usable] / total[usable, None]
        is_found |= usable
    return found


def _sums(rows: Ids, columns: Ids, X: Matrix, n_rows: int) -> tuple[Matrix, Vector]:
    """For each row the sum of the vectors X of its columns, and their number."""
    pairs = sp.csr_matrix((np.ones(len(rows), X.dtype), (rows, columns)), shape=(n_rows, len(X)))
    return pairs @ X, np.bincount(rows, minlength=n_rows).astype(X.dtype)


def _with_new_relations(
    old: RelationMatrices, relation: Ids, A: Matrix, facts: Facts, steepness: float | Slices, minimum: float | None
) -> RelationMatrices:
    """The matrices of the relations of the facts: those known, at `relation`, and a regression for those at −1."""
    known = np.flatnonzero(relation >= 0)
    new = np.flatnonzero(relation < 0)
    shape = (len(relation), *old.shape[1:])
    of_new = np.broadcast_to(steepness, (len(relation), 1, 1))[new]
    R = _at_least(minimum, of_new * _regression(A, facts, new))
    if isinstance(old.structure, Shared):  # the fit finds the nearest shared matrices
        whole = np.empty(shape, old.dtype)
        whole[known], whole[new] = old.expanded()[relation[known]], R
        return RelationMatrices.of(whole)
    P = np.empty((len(relation), *old.parameters.shape[1:]), old.dtype)
    P[known] = old.parameters[relation[known]]
    if len(new):
        P[new] = nearest_parameters(old.structure, R)
    return dataclasses.replace(old, parameters=P, shape=shape)


def _regression(A: Matrix, facts: Facts, relations: Ids) -> Slices:
    """argmin Σ (x − a_iᵀ R_k a_j)² + λ ‖R_k‖² over all cells, for each of these relations."""
    M = np.zeros((len(relations), A.shape[1], A.shape[1]))
    for place, k in enumerate(relations.tolist()):
        M[place] = gram.product(A, facts.matrix(k, A.dtype) @ A)
    if not len(relations):
        return M
    g, U = np.linalg.eigh(gram.product(A, A))
    return between(U, between(U.T, M, U) * relation_inverse(np.maximum(g, 0), L2_RELATIONS), U.T)

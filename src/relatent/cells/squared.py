"""The exact squared loss over all cells, linear in the facts: a closed form in r × r matrices.

    Σ_ij (θ_ij + b)² = tr(R_kᵀ G R_k G) + 2 b sᵀ R_k s + N² b²,    G = AᵀA,  s = Aᵀ1

Facts and unobserved cells are then corrected one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Matrix, Slices, Vector
from ..backend import gram_matrix as gram
from ..data.facts import Facts
from ..data.shard import Shard
from .cell_sum import CellMemory, ModelSize, Reduction, n_listed_cells
from .sparse.grouped import MAX_GROUP_ELEMENTS, RelationGroup, relation_groups

LAYOUT_BYTES, SORTING_BYTES = 48, 34  # per listed cell: by subject and by object; more while a group is sorted


class SquaredSum:
    """Value and gradient of Σ w (x − θ)² over all observed cells of some facts.

    Each of several workers corrects its own facts, and the first one adds the sum over all cells.
    """

    def __init__(self, facts: Facts | Shard, dtype: Any = np.float32):
        shard = Shard.of(facts)
        self.facts = shard.facts
        self._all_cells = shard.workers.rank == 0
        self.dtype = np.dtype(dtype)
        self._groups: list[RelationGroup] = []
        self._rank = 0

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """The facts by subject and by object, four matrices of a group, two gradients, and R seven times in float64."""
        groups = 4 * size.itemsize * group_numbers(facts, size.rank)
        matrices = 7 * 8 * size.relation_numbers
        return CellMemory(0, layout_memory(facts, size.rank) + groups + 2 * size.gradient + matrices)

    def __call__(self, A: Matrix, R: Slices, b: Vector, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives; the value takes no extra time."""
        A = np.ascontiguousarray(A, self.dtype)
        if A.shape[1] != self._rank:  # the rank decides how large a group may be
            self._rank = A.shape[1]
            self._groups = relation_groups(self.facts, self._rank, self.dtype)
        R, b = np.asarray(R, np.float64), np.asarray(b, np.float64)
        n = len(A)
        G, s = gram.product(A, A), A.sum(axis=0, dtype=np.float64)
        R_t = R.transpose(0, 2, 1)
        sums = R @ s @ s  # Σ_ij θ without bias, (K,)
        GRG = G @ R @ G
        total = float(np.sum(GRG * R) + np.sum(b * (2 * sums + n * n * b)))
        dR = 2 * GRG + 2 * b[:, None, None] * np.outer(s, s)
        db = 2 * sums + 2 * n * n * b
        normal = (R @ G @ R_t + R_t @ G @ R).sum(axis=0)
        shift = np.tensordot(b, (R + R_t) @ s, axes=1)  # the same for every row of A
        dA = A @ (2 * normal).astype(self.dtype) + (2 * shift).astype(self.dtype)
        if not self._all_cells:
            total, dA, dR, db = 0.0, np.zeros_like(dA), np.zeros_like(dR), np.zeros_like(db)
        for group in self._groups:
            k = group.relations
            cells = group.by_subject
            t = cells.scores(A, R[k]).astype(np.float64)
            bias = b[k][cells.rows // n]
            t += bias
            total += float(np.sum(cells.weights * (cells.truth - t) ** 2) - np.sum(t * t))
            slope = 2 * (cells.weights * (t - cells.truth) - t)
            own, narrow = slope.astype(self.dtype), R[k].astype(self.dtype)
            Y = group.forward.times(A, own)
            dR[k] += gram.product(A, Y)
            db[k] += np.bincount(cells.rows // n, weights=slope, minlength=k.stop - k.start)
            dA += (Y @ narrow.transpose(0, 2, 1) + group.backward.times(A, own) @ narrow).sum(axis=0)
        return Reduction(total, dA, dR.astype(self.dtype), db.astype(self.dtype))


def layout_memory(facts: Facts, rank: int) -> int:
    """Bytes of the cells by subject and by object, while those of the largest group are sorted."""
    share = group_numbers(facts, rank) / max(1, facts.n_relations * facts.n_entities * rank)
    return int((LAYOUT_BYTES + SORTING_BYTES * share) * n_listed_cells(facts))


def group_numbers(facts: Facts, rank: int) -> int:
    """Numbers of X_k A that are held at once, at most: those of a group of relations."""
    per_relation = facts.n_entities * rank
    return min(max(MAX_GROUP_ELEMENTS, per_relation), facts.n_relations * per_relation)

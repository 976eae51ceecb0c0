"""A softmax over relations for every fact: which relation holds between its two entities.

    Σ over facts w [log Σ_k' exp θ_sk'o − θ_sko]

Z_s = a_s [R_1 … R_K] serves all facts of a subject, so that the cost is 6·N·K·r² and not 6·n·K·r². Subjects are worked
on in blocks; within a block all subjects are padded to as many facts as the one with the most. With compact matrices
θ_sko = φ(a_s, a_o) · p_k, and the cost is 6·n·K times the numbers of p_k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Ids, Matrix, Slices, Triples, Vector
from ..backend.protocol import Backend, SegmentSums
from ..data.facts import Facts
from .cell_sum import ModelSize
from .sparse.by_row import sorted_into_segments

MAX_NUMBERS = 1 << 28  # of Z that are held at once
MAX_BLOCK_FACTS = 1 << 16  # padding included


class SubjectBlock(NamedTuple):
    """Subjects (m,) and their facts (m, d); padding has weight 0."""

    subjects: Array
    objects: Array
    relations: Array
    weights: Array
    places: tuple[Array, Array]  # (m, 1) and (1, d): the index of all subjects and facts of the block
    unobserved: tuple[Array, ...]  # subject, fact and relation, inside the block, of cells that do not compete
    sum_by_object: SegmentSums  # sums of m · d rows by object: (N, r)


class FactPiece(NamedTuple):
    """Facts (m,) that are worked on at once."""

    subjects: Array
    relations: Array
    objects: Array
    weights: Array
    rows: Array  # 0 … m − 1
    unobserved: tuple[Array, ...]  # fact and relation, inside the piece, of cells that do not compete
    sum_by_subject: SegmentSums  # sums of m rows by subject: (N, r)
    sum_by_object: SegmentSums


class RelationSoftmax:
    """Value and gradient of the softmax over relations, with the arrays of a backend."""

    def __init__(self, facts: Facts, weight: float, backend: Backend):
        self.weight, self.backend, self.facts = weight, backend, facts
        self.blocks: dict[int, list[SubjectBlock]] = {}  # by rank
        self.pieces: dict[int, list[FactPiece]] = {}  # by the numbers of a compact matrix

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> int:
        """Bytes of the matrices of a block of subjects, or with compact matrices of a piece of the facts."""
        n_facts, per_relation = len(facts), size.relation_numbers // max(1, size.relations)
        if per_relation == size.rank**2:
            Z = min(MAX_NUMBERS, min(n_facts, size.entities) * size.relations * size.rank)
            return size.itemsize * (2 * Z + min(n_facts, MAX_BLOCK_FACTS) * 2 * (size.rank + size.relations))
        rows = min(n_facts, max(1, MAX_NUMBERS // (4 * per_relation)))
        return size.itemsize * rows * (3 * per_relation + 4 * size.rank + 2 * size.relations)

    def add(self, A: Matrix, R: Slices, dA: Matrix, dR: Slices) -> Any:
        """Add the derivatives to dA and dR, and return the value, as `Backend.deferred_dot` does."""
        if R.ndim != 3:
            return self._add_compact(A, R, dA, dR)
        (k, r), total = R.shape[:2], 0.0
        flat = R.swapaxes(0, 1).reshape(r, k * r)  # [R_1 … R_K]
        if r not in self.blocks:
            self.blocks = {r: _blocks(self.facts, max(1, MAX_NUMBERS // (k * r)), self.backend)}
        product = self.backend.matmul
        for block in self.blocks[r]:
            X, a = A[block.subjects], A[block.objects]  # (m, r), (m, d, r)
            m, d = block.weights.shape
            Z = product(X, flat).reshape(m, k, r)
            S = product(a, Z.swapaxes(1, 2))  # (m, d, K)
            if len(block.unobserved[0]):
                S[block.unobserved] = -np.inf
            places = (*block.places, block.relations)
            true = S[places]
            P, logs = self.backend.softmax(S)
            w = self.weight * block.weights
            total += (w * (logs - true)).sum()
            P[places] -= 1
            P *= w[:, :, None]
            dZ = product(P.swapaxes(1, 2), a).reshape(m, k * r)
            dA[block.subjects] += product(dZ, flat.T)  # each subject is in one block
            block.sum_by_object.add_to(dA, product(P, Z).reshape(m * d, r))
            dR += product(X.T, dZ).reshape(r, k, r).swapaxes(0, 1)
        return total

    def _add_compact(self, A: Matrix, P: Slices, dA: Matrix, dP: Slices) -> Any:
        """Facts in pieces; each has one product with the parameters of all relations.

        The relations are padded to a number that products are fast with; those do not compete.
        """
        k, total, product = len(P), 0.0, self.backend.matmul
        flat = self._padded(P.reshape(k, -1))
        size = flat.shape[1]
        if size not in self.pieces:
            self.pieces = {size: _pieces(self.facts, max(1, MAX_NUMBERS // (4 * size)), self.backend)}
        for piece in self.pieces[size]:
            X, Y = A[piece.subjects], A[piece.objects]
            phi = self.backend.row_products(X, Y, P[0]).reshape(-1, size)
            S = product(phi, flat.T)  # (m, K and padding)
            S[:, k:] = -np.inf
            if len(piece.unobserved[0]):
                S[piece.unobserved] = -np.inf
            places = (piece.rows, piece.relations)
            true = S[places]
            D, logs = self.backend.softmax(S)
            w = self.weight * piece.weights
            total += (w * (logs - true)).sum()
            D[places] -= 1
            D *= w[:, None]
            dP += product(D.T, phi)[:k].reshape(dP.shape)
            slopes = product(D, flat).reshape(-1, *P.shape[1:])  # Σ_k of the slope times p_k, per fact
            piece.sum_by_subject.add_to(dA, self.backend.rows_times(Y, slopes, back=True))
            piece.sum_by_object.add_to(dA, self.backend.rows_times(X, slopes))
        return total

    def _padded(self, flat: Matrix) -> Matrix:
        """Parameters (K, p) with rows of zeros up to a multiple that makes products fast."""
        k, size = flat.shape
        rows = -(-k // self.backend.column_multiple) * self.backend.column_multiple
        if rows == k:
            return flat
        padded = self.backend.zeros((rows, size), flat)
        padded[:k] = flat
        return padded


def _pieces(facts: Facts, max_facts: int, backend: Backend) -> list[FactPiece]:
    """The facts of weight above 0, in pieces."""
    observed = facts.confidences > 0
    triples, weights = facts.triples[observed].astype(np.int64), facts.confidences[observed]
    unobserved = np.concatenate([facts.unobserved, facts.triples[~observed]])
    result = []
    for low in range(0, len(triples), max_facts):
        part = triples[low : low + max_facts]
        rows, _, relations = _unobserved_in_block(part[:, None], unobserved, facts.n_entities)
        by_subject, by_object = (_sums_by(part[:, column], facts.n_entities, backend) for column in (0, 2))
        s, k, o = (backend.from_numpy(part[:, column]) for column in range(3))
        w, at = backend.from_numpy(weights[low : low + max_facts]), backend.from_numpy(np.arange(len(part)))
        masked = (backend.from_numpy(rows), backend.from_numpy(relations))
        result.append(FactPiece(s, k, o, w, at, masked, by_subject, by_object))
    return result


def _sums_by(entities: Ids, n: int, backend: Backend) -> SegmentSums:
    """Sums of rows by entity, (N, r)."""
    m = len(entities)
    return backend.segment_sums(*sorted_into_segments(entities, n, np.arange(m), np.ones(m)))


def _blocks(facts: Facts, max_subjects: int, backend: Backend) -> list[SubjectBlock]:
    """Subjects sorted by the number of their facts, in blocks."""
    observed = facts.confidences > 0
    s, k, o = facts.triples[observed].T.astype(np.int64)
    w = facts.confidences[observed]
    order = np.argsort(s, kind="stable")
    s, k, o, w = s[order], k[order], o[order], w[order]
    subjects, firsts, counts = np.unique(s, return_index=True, return_counts=True)
    by_count = np.argsort(counts, kind="stable")
    subjects, firsts, counts = subjects[by_count], firsts[by_count], counts[by_count]
    unobserved = np.concatenate([facts.unobserved, facts.triples[~observed]])
    blocks, high = [], len(subjects)
    while high:
        d = int(counts[high - 1])
        low = max(0, high - max(1, min(max_subjects, MAX_BLOCK_FACTS // d)))
        place = firsts[low:high, None] + np.arange(d)
        real = np.arange(d) < counts[low:high, None]
        place = np.where(real, place, firsts[low:high, None])  # padding repeats the first fact
        triples = np.stack(np.broadcast_arrays(subjects[low:high, None], k[place], o[place]), axis=-1)
        blocks.append(_block(triples, w[place] * real, unobserved, facts.n_entities, backend))
        high = low
    return blocks


def _block(triples: Ids, weights: Vector, unobserved: Triples, n: int, backend: Backend) -> SubjectBlock:
    """A block of the facts (m, d, 3) and their weights (m, d)."""
    objects = triples[..., 2]
    m, d = objects.shape
    return SubjectBlock(
        backend.from_numpy(triples[:, 0, 0]),
        backend.from_numpy(objects),
        backend.from_numpy(triples[..., 1]),
        backend.from_numpy(weights),
        (backend.from_numpy(np.arange(m)[:, None]), backend.from_numpy(np.arange(d)[None, :])),
        tuple(backend.from_numpy(ids) for ids in _unobserved_in_block(triples, unobserved, n)),
        _sums_by(objects.ravel(), n, backend),
    )


def _unobserved_in_block(triples: Ids, unobserved: Triples, n: int) -> tuple[Ids, Ids, Ids]:
    """Unobserved cells between the two entities of a fact: subject, fact and relation inside the block."""
    pairs = triples[..., 0] * n + triples[..., 2]
    cells = unobserved[np.isin(unobserved[:, 0].astype(np.int64) * n + unobserved[:, 2], pairs)]
    keys = cells[:, 0].astype(np.int64) * n + cells[:, 2]
    order = np.argsort(keys, kind="stable")
    keys, ks = keys[order], cells[order, 1].astype(np.int64)
    first, last = (np.searchsorted(keys, pairs.ravel(), side=side) for side in ("left", "right"))
    place = np.repeat(np.arange(pairs.size), last - first)
    within = np.arange(len(place)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    relation = ks[np.repeat(first, last - first) + within]
    own = relation == triples[..., 1].ravel()[place]  # padding repeats a fact, never an unobserved cell
    return place[~own] // pairs.shape[1], place[~own] % pairs.shape[1], relation[~own]

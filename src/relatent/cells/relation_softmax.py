"""Which relation holds between the two entities of a fact: a softmax over relations, for every fact.

    Σ over facts w [log Σ_k' exp θ_sk'o − θ_sko]

Z_s = a_s [R_1 … R_K] serves all facts of a subject, so the cost is 6·N·K·r² and not 6·n·K·r². Subjects are worked on in
blocks of about as many facts each, filled up to the largest of the block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Ids, Vector
from ..backend.protocol import Backend
from ..data.facts import Facts

ROOM = 1 << 28  # numbers of Z that are held at once
FACTS = 1 << 16  # facts of a block, filled up


class Block(NamedTuple):
    """Subjects and their facts, (m,) and (m, d); places that only fill up have weight 0."""

    subjects: Array
    objects: Array
    relations: Array
    weights: Array
    places: tuple[Array, Array]  # (m, 1) and (1, d): all subjects and facts of the block
    hidden: tuple[Array, ...]  # subject, fact and relation of the block that take no part
    by_object: Any  # sums of the m · d places, by object: (N, r)


class Contest:
    """Value and gradient of the softmax over relations; arrays are those of `backend`."""

    def __init__(self, facts: Facts, weight: float, backend: Backend):
        self.weight, self.backend, self.facts = weight, backend, facts
        self.blocks: dict[int, list[Block]] = {}

    def add(self, A: Any, R: Any, dA: Any, dR: Any) -> float:
        """Add the derivatives; the value."""
        (k, r), total = R.shape[:2], 0.0
        flat = R.swapaxes(0, 1).reshape(r, k * r)  # [R_1 … R_K]
        if r not in self.blocks:
            self.blocks = {r: _blocks(self.facts, max(1, ROOM // (k * r)), self.backend)}
        product = self.backend.matmul
        for block in self.blocks[r]:
            X, a = A[block.subjects], A[block.objects]  # (m, r), (m, d, r)
            m, d = block.weights.shape
            Z = product(X, flat).reshape(m, k, r)
            S = product(a, Z.swapaxes(1, 2))  # (m, d, K)
            if len(block.hidden[0]):
                S[block.hidden] = -np.inf
            places = (*block.places, block.relations)
            true = S[places]
            P, logs = self.backend.softmax(S)
            w = self.weight * block.weights
            total += float((w * (logs - true)).sum())
            P[places] -= 1
            P *= w[:, :, None]
            dZ = product(P.swapaxes(1, 2), a).reshape(m, k * r)
            dA[block.subjects] += product(dZ, flat.T)  # each subject is in one block
            dA += block.by_object(product(P, Z).reshape(m * d, r))
            dR += product(X.T, dZ).reshape(r, k, r).swapaxes(0, 1)
        return total


def _blocks(facts: Facts, most: int, backend: Backend) -> list[Block]:
    """Subjects by the number of their facts, at most so many in a block."""
    known = facts.confidences > 0
    s, k, o = facts.triples[known].T.astype(np.int64)
    w = facts.confidences[known]
    order = np.argsort(s, kind="stable")
    s, k, o, w = s[order], k[order], o[order], w[order]
    subjects, firsts, counts = np.unique(s, return_index=True, return_counts=True)
    by_count = np.argsort(counts, kind="stable")
    subjects, firsts, counts = subjects[by_count], firsts[by_count], counts[by_count]
    unknown = np.concatenate([facts.unobserved, facts.triples[~known]])
    found, high = [], len(subjects)
    while high:
        low = max(0, high - max(1, min(most, FACTS // int(counts[high - 1]))))
        d = int(counts[high - 1])
        place = firsts[low:high, None] + np.arange(d)
        filled = np.arange(d) < counts[low:high, None]
        place = np.where(filled, place, firsts[low:high, None])
        found.append(
            _block(subjects[low:high], o[place], k[place], w[place] * filled, unknown, facts.n_entities, backend)
        )
        high = low
    return found


def _block(
    subjects: Ids, objects: Ids, relations: Ids, weights: Vector, unknown: Ids, n: int, backend: Backend
) -> Block:
    order = np.argsort(objects.ravel(), kind="stable")
    starts = np.searchsorted(objects.ravel()[order], np.arange(n + 1))
    return Block(
        backend.from_numpy(subjects),
        backend.from_numpy(objects),
        backend.from_numpy(relations),
        backend.from_numpy(weights),
        (
            backend.from_numpy(np.arange(len(objects))[:, None]),
            backend.from_numpy(np.arange(objects.shape[1])[None, :]),
        ),
        tuple(backend.from_numpy(ids) for ids in _hidden(subjects, objects, relations, unknown, n)),
        backend.segment_sums(starts, order, np.ones(len(order))),
    )


def _hidden(subjects: Ids, objects: Ids, relations: Ids, unknown: Ids, n: int) -> tuple[Ids, Ids, Ids]:
    """Where a fact's two entities have a relation that is not known: subject, fact and relation inside a block."""
    pairs = subjects[:, None] * n + objects
    cells = unknown[np.isin(unknown[:, 0].astype(np.int64) * n + unknown[:, 2], pairs)]
    keys = cells[:, 0].astype(np.int64) * n + cells[:, 2]
    order = np.argsort(keys, kind="stable")
    keys, ks = keys[order], cells[order, 1].astype(np.int64)
    flat = pairs.ravel()
    first, last = np.searchsorted(keys, flat), np.searchsorted(keys, flat, side="right")
    place = np.repeat(np.arange(len(flat)), last - first)
    within = np.arange(len(place)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    relation = ks[np.repeat(first, last - first) + within]
    own = relation == relations.ravel()[place]  # filled-up places repeat a fact, never an unknown cell
    return place[~own] // objects.shape[1], place[~own] % objects.shape[1], relation[~own]

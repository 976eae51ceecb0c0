"""Known facts as steps from entity to entity, for rules of one or two steps: which pairs a body connects.

A body is a sequence of steps; step 2 k follows relation k forwards, 2 k + 1 backwards; an undirected relation has the
first only, as its facts are there in both directions. The variables of a rule stand for different entities: facts of an
entity with itself are no steps, and no body connects an entity with itself.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numba import njit

from ..arrays import Ids, Vector
from ..data.facts import Facts
from ..data.undirected import has_relation

MAX_SUBJECTS = 2000  # of a head, for which the body of a rule is counted
SAMPLED_FACTS = 100  # of a head, from which bodies are found
MAX_BODIES = 40  # counted per head
MAX_EDGES = 1000  # of an entity that are followed; of more, the first
MAX_STEPS = 4096  # whose paths are counted; of more, the most frequent
Body = tuple[int, ...]


class StepGraph:
    """Known facts as steps from entity to entity, without those of an entity with itself."""

    def __init__(self, facts: Facts):
        self.facts, self.n = facts, facts.n_entities
        self._matrices: dict[int, sp.csr_matrix] = {}

    @cached_property
    def _edges(self) -> tuple[Ids, Ids, Ids]:
        """Where the edges of each entity start, (N + 1,); the step and the end of each edge."""
        s, k, o = self.facts.triples[self.facts.subjects != self.facts.objects].T
        back = ~has_relation(self.facts.undirected, k)  # other facts are there in both directions
        sources = np.concatenate([s, o[back]])
        steps, ends = np.concatenate([2 * k, 2 * k[back] + 1]), np.concatenate([o, s[back]])
        order = np.lexsort((ends, sources))
        steps, ends = steps[order], ends[order]
        return np.searchsorted(sources[order], np.arange(self.n + 1)), steps, ends

    def edges(self, entity: int) -> tuple[Ids, Ids]:
        """The steps from an entity, and where they lead."""
        starts, steps, ends = self._edges
        own = slice(starts[entity], min(starts[entity + 1], starts[entity] + MAX_EDGES))
        return steps[own], ends[own]

    def matrix(self, step: int) -> sp.csr_matrix:
        """Which entities a step connects."""
        if step not in self._matrices:
            X = self.facts.matrix(step // 2)
            X = X - sp.diags(X.diagonal())
            X = sp.csr_matrix(X if step % 2 == 0 else X.T)
            X.eliminate_zeros()
            X.sort_indices()
            self._matrices[step] = X
        return self._matrices[step]

    def bodies(self, s: int, head: int, o: int) -> dict[Body, list[int]]:
        """The bodies that hold for a pair, each with the entities on the way."""
        steps, ends = self.edges(s)
        found: dict[Body, list[int]] = {(step,): [] for step in steps[ends == o].tolist() if step != 2 * head}
        back, middle = self.edges(o)
        here, there = np.isin(ends, middle), np.isin(middle, ends)
        second: dict[int, list[int]] = {}
        for step, z in zip(back[there].tolist(), middle[there].tolist(), strict=True):
            seen_from_z = step if step // 2 in self.facts.undirected else step ^ 1
            second.setdefault(z, []).append(seen_from_z)
        for first, z in zip(steps[here].tolist(), ends[here].tolist(), strict=True):
            for last in second[z]:
                found.setdefault((first, last), []).append(z)
        return found

    def candidates(self, head: int, rng: np.random.Generator) -> list[Body]:
        """Bodies that hold for most of some facts of a relation."""
        cells = self.facts.triples[self.facts.starts[head] : self.facts.starts[head + 1]]
        cells = cells[cells[:, 0] != cells[:, 2]]
        if len(cells) > SAMPLED_FACTS:
            cells = cells[rng.choice(len(cells), SAMPLED_FACTS, replace=False)]
        place, back = self._places
        frequent = np.flatnonzero(place >= 0)
        s, _, o = np.ascontiguousarray(cells.T)
        direct, paths = _count_bodies(self._edges, (s, o), 2 * head, (place, back), len(frequent), MAX_EDGES)
        counts = np.concatenate([direct, paths.ravel()])
        found, steps, n = np.flatnonzero(counts), frequent.tolist(), len(frequent)
        if len(found) > MAX_BODIES:
            found = found[counts[found] >= np.partition(counts[found], -MAX_BODIES)[-MAX_BODIES]]
        bodies = [(steps[i],) if i < n else (steps[i // n - 1], steps[i % n]) for i in found.tolist()]
        ranked = sorted(zip(-counts[found], bodies, strict=True))
        return [body for _, body in ranked[:MAX_BODIES]]

    @cached_property
    def _places(self) -> tuple[Ids, Ids]:
        """The place of each step among those whose paths are counted, −1 if it has none; the step back of each step."""
        number = np.bincount(self._edges[1], minlength=2 * self.facts.n_relations)
        frequent = np.argsort(-number, kind="stable")[:MAX_STEPS]
        place = np.full(len(number), -1)
        place[np.sort(frequent[number[frequent] > 0])] = np.arange(np.count_nonzero(number[frequent]))
        steps = np.arange(len(number))
        return place, np.where(has_relation(self.facts.undirected, steps // 2), steps, steps ^ 1)

    def count(self, body: Body, head: int, rng: np.random.Generator) -> tuple[float, float]:
        """How many facts of the head a body predicts, and how many pairs it has whose x has facts of the head."""
        X = self.matrix(2 * head)
        subjects = np.flatnonzero(np.diff(X.indptr))
        scale = max(1.0, len(subjects) / MAX_SUBJECTS)
        if scale > 1:
            subjects = np.sort(rng.choice(subjects, MAX_SUBJECTS, replace=False))
        P = self.paths_from(subjects, body)
        return scale * P.multiply(X[subjects]).nnz, scale * P.nnz

    def paths_from(self, subjects: Ids, body: Body) -> sp.csr_matrix:
        """How many paths lead from each of some entities to each entity, (m, N)."""
        P = self.matrix(body[0])[subjects]
        if len(body) == 2:
            P = P @ self.matrix(body[1])
            rows = np.repeat(np.arange(len(subjects)), np.diff(P.indptr))
            P.data[P.indices == subjects[rows]] = 0  # x is not its own y
            P.eliminate_zeros()
        return P

    def n_paths(self, body: Body, s: Ids, o: Ids) -> Vector:
        """How many paths lead from s[i] to o[i], (n,)."""
        if len(body) == 2:
            found = product_cells(self.matrix(body[0]), self.matrix(body[1] ^ 1), s, o)
        else:
            ends = (o, s) if body[0] % 2 else (s, o)
            cells = np.stack([ends[0], np.full(len(s), body[0] // 2), ends[1]], axis=1)
            found = self.facts.contains(cells).astype(np.float64)
        found[s == o] = 0.0
        return found


def product_cells(left: sp.csr_matrix, right_turned: sp.csr_matrix, s: Ids, o: Ids) -> Vector:
    """left @ right at some cells, of float64 matrices with sorted indices."""
    s, o = (np.ascontiguousarray(ids, np.int64) for ids in (s, o))
    return _product_cells(s, o, parts(left), parts(right_turned))  # type: ignore[no-any-return]


def parts(M: sp.csr_matrix) -> tuple[Ids, Ids, Vector]:
    """A sparse matrix as compiled loops read it."""
    return M.indptr, M.indices, M.data


@njit(cache=True, nogil=True)
def _count_bodies(edges, pairs, own, places, n, most):  # type: ignore[no-untyped-def]
    """For how many pairs each step (n,) and each path (n, n) holds; edges are sorted by their ends."""
    (starts, steps, ends), (s, o), (place, back) = edges, pairs, places
    direct, paths = np.zeros(n, np.int64), np.zeros((n, n), np.int64)
    seen, at = np.full((n, n), -1), np.zeros(most, np.int64)
    for i in range(len(s)):
        p, last = starts[s[i]], min(starts[s[i] + 1], starts[s[i]] + most)
        q, back_last = starts[o[i]], min(starts[o[i] + 1], starts[o[i]] + most)
        while p < last:
            z, first = ends[p], p
            while p < last and ends[p] == z:
                a = place[steps[p]]
                if z == o[i] and a >= 0 and steps[p] != own:
                    direct[a] += 1
                p += 1
            while q < back_last and ends[q] < z:
                q += 1
            m = 0
            while q < back_last and ends[q] == z:
                at[m] = place[back[steps[q]]]
                m += 1
                q += 1
            for r in range(first, p if m else first):
                a = place[steps[r]]
                for b in at[:m]:
                    if a >= 0 and b >= 0 and seen[a, b] != i:
                        seen[a, b] = i
                        paths[a, b] += 1
    return direct, paths


@njit(cache=True, nogil=True)
def _product_cells(s, o, left, right_turned):  # type: ignore[no-untyped-def]
    """left[s] · right[:, o] for each cell, the rows of both sorted; the shorter one is searched for in the longer."""
    starts, ends, values = left
    back_starts, back_ends, back_values = right_turned
    found = np.zeros(len(s))
    for i in range(len(s)):
        low, high = starts[s[i]], starts[s[i] + 1]
        back_low, back_high = back_starts[o[i]], back_starts[o[i] + 1]
        if high - low <= back_high - back_low:
            there = back_ends[back_low:back_high]
            for p in range(low, high):
                at = np.searchsorted(there, ends[p])
                if at < len(there) and there[at] == ends[p]:
                    found[i] += values[p] * back_values[back_low + at]
        else:
            here = ends[low:high]
            for p in range(back_low, back_high):
                at = np.searchsorted(here, back_ends[p])
                if at < len(here) and here[at] == back_ends[p]:
                    found[i] += values[low + at] * back_values[p]
    return found

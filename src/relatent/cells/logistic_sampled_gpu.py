"""The estimate of `logistic_sampled` on a GPU: the same cells are drawn and summed. Needs `relatent[gpu]`.

Listed cells are kept by their keys alone, 8 bytes each, in order; subjects, objects and the cells of a drawn subject
follow from a key by division and by binary search. Relations are worked on one after another. All sums over rows are
in a fixed order, so that a seed gives the same result every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..backend import compact_matrices as compact
from ..backend.torch_backend import TorchBackend
from ..data.cell_keys import cell_keys
from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model.entity_types import EntityTypes
from .cell_sum import CellKeys, CellMemory, ModelSize, Reduction
from .gpu_memory import MAX_BLOCK_CELLS, MAX_PIECE, sampled_logistic
from .logistic_sampled import MAX_ACTIVE_PER_FACT, MIN_LISTED_SCORE, RELIST_FRACTION, ZEROS_PER_FACT
from .logistic_sampled_cell_list import ACTIVE_ZERO
from .logistic_sampled_kernels import MIN_VARIANCE
from .logistic_sampled_zeros import SideSizes, sizes_for

MAX_FOUND_PER_CALL = 1 << 20


class ListedKeys(NamedTuple):
    """Cells that no drawn block may count, in order."""

    keys: Tensor  # (k · N + subject) · N + object
    weights: Tensor | None  # w of a fact, 0 of an unobserved cell, ACTIVE_ZERO of a zero; None: all are 1
    starts: list[int]  # (K + 1) of each relation


class SidePlan(NamedTuple):
    """One side of the facts, and the draws from it that are the same every time."""

    column: Tensor  # k · N + id of all facts, in order
    space: Tensor  # (K,) between two positions in the column of a relation; 1 if all its entities are drawn
    always: Tensor  # the entities of those relations
    by_degree: tuple[Tensor, Tensor]  # relation and number of each position in a column
    uniform: tuple[Tensor, Tensor]  # relation and number of each draw among all entities
    per_relation: Tensor  # (K,) draws among all entities


class DrawnRows(NamedTuple):
    """The entities of one side of every block, in order of relation and id."""

    keys: Tensor  # k · N + id
    weights: Tensor  # 1 / π
    starts: list[int]  # (K + 1) of each relation


class GpuSampledLogisticSum:
    """Estimates of the logistic loss and its gradient over all observed cells of some facts, on one GPU."""

    def __init__(
        self,
        facts: Facts | Shard,
        backend: TorchBackend,
        *,
        n_batches: int = 1,
        zeros_per_fact: float = ZEROS_PER_FACT,
        typed: bool = False,
        random_state: int = 0,
    ):
        shard = Shard.of(facts)
        if shard.workers.size > 1:
            raise InputError("method='sampled' on a GPU runs in one process; use device='cpu' with several workers")
        self.n, self.k, self.backend, self.typed = shard.n_entities, shard.n_relations, backend, typed
        self.n_batches, self.n_facts, self.random_state = n_batches, shard.n_facts, random_state
        self.relations = torch.arange(self.k + 1, device=backend.device)
        self._facts = self.listed = self._listed_facts(shard.facts)
        self.plans = self._plans(shard, zeros_per_fact / n_batches)
        self.allowed = self._allowed(shard.facts) if typed and shard.facts.types is not None else None
        self._active, self._found_keys = np.empty(0, np.int64), np.empty(0, np.int64)
        self._found: list[Tensor] = []
        self._batch, self._find = 0, False
        self.drawn: tuple[DrawnRows, DrawnRows] = (self._side(0, np.zeros((2, self.k))),) * 2

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """Bytes on the GPU."""
        return sampled_logistic(facts, size)

    # --- what stays the same

    def _listed_facts(self, facts: Facts) -> ListedKeys:
        keys = self.backend.from_numpy(facts.keys)
        if not len(facts.unobserved):
            weights = None if facts.weights is None else self.backend.from_numpy(facts.weights)
            return ListedKeys(keys, weights, self._starts(keys, self.n**2))
        listed = ListedKeys(keys, self.backend.from_numpy(facts.confidences), [])
        return self._with_cells(listed, self.backend.from_numpy(cell_keys(facts.unobserved, self.n)), 0.0)

    def _with_cells(self, listed: ListedKeys, keys: Tensor, weight: float) -> ListedKeys:
        """The list with these cells added, all of one weight."""
        weights = torch.ones_like(listed.keys, dtype=torch.float32) if listed.weights is None else listed.weights
        merged, order = torch.sort(torch.cat([listed.keys, keys]))
        weights = torch.cat([weights, torch.full_like(keys, weight, dtype=torch.float32)])[order]
        return ListedKeys(merged, weights, self._starts(merged, self.n**2))

    def _starts(self, keys: Tensor, per_relation: int) -> list[int]:
        """Where the sorted keys of each relation begin."""
        return torch.searchsorted(keys, self.relations * per_relation).tolist()  # type: ignore[no-any-return]

    def _allowed(self, facts: Facts) -> list[Tensor]:
        """For subjects and objects, which entities have the types of each relation, (K, N)."""
        assert facts.types is not None
        types = EntityTypes.of(facts, facts.types)
        found = [np.stack([types.allowed(k, place) for k in range(self.k)]) for place in (0, 2)]
        return [torch.from_numpy(mask).to(self.backend.device) for mask in found]

    def _plans(self, shard: Shard, zeros_per_fact: float) -> tuple[SidePlan, SidePlan]:
        rows = self.backend.from_numpy(shard.facts.keys) // self.n
        relations = rows // self.n
        by_object = torch.sort(relations * self.n + self.backend.from_numpy(shard.facts.objects)).values
        columns = (rows, by_object)
        entities = [torch.unique_consecutive(column) for column in columns]
        distinct = np.stack([np.diff(self._starts(keys, self.n)) for keys in entities])
        sizes = sizes_for(self.n, shard.facts_per_relation, distinct, zeros_per_fact)
        first, second = (
            self._plan(columns[side], entities[side], sizes.of(side), shard.facts_per_relation) for side in (0, 1)
        )
        return first, second

    def _plan(self, column: Tensor, entities: Tensor, sizes: SideSizes, n_facts: NDArray[np.int64]) -> SidePlan:
        all_drawn = sizes.by_degree >= sizes.distinct
        put = self.backend.from_numpy
        by_degree, uniform = (
            (put(np.repeat(np.arange(self.k), counts)), put(_numbers_within(counts)))
            for counts in (np.where(all_drawn, 0, sizes.by_degree), sizes.uniform)
        )
        space = np.where(all_drawn, 1.0, n_facts / np.maximum(sizes.by_degree, 1))
        return SidePlan(
            column,
            self.backend.from_numpy_float64(space),
            entities[put(all_drawn.astype(np.int64))[entities // self.n] > 0],
            by_degree,
            uniform,
            self.backend.from_numpy_float64(sizes.uniform),
        )

    # --- the sample

    def draw(self, number: int, *, find: bool = True) -> None:
        """Choose the cells that later calls sum; with `find`, they report zeros that are worth listing."""
        rng = np.random.default_rng([self.random_state, number])
        self.draw_by(number % self.n_batches, rng.random((2, 2, self.k)), find=find)

    def draw_by(self, batch: int, uniforms: NDArray[np.float64], *, find: bool = True) -> None:
        """Choose this batch of listed cells, and blocks by numbers in [0, 1): (2 sides, 2 strata, K)."""
        self._batch, self._find = batch, find
        self.drawn = (self._side(0, uniforms[0]), self._side(1, uniforms[1]))

    def _side(self, side: int, uniforms: NDArray[np.float64]) -> DrawnRows:
        plan, n = self.plans[side], self.n
        by_degree, uniform = self.backend.from_numpy_float64(uniforms)
        k, number = plan.by_degree
        starts = torch.searchsorted(plan.column, self.relations * n)
        at = starts[k] + ((by_degree[k] + number) * plan.space[k]).long()
        chosen = plan.column[torch.minimum(at, starts[k + 1] - 1)]
        k, number = plan.uniform
        anyone = k * n + ((uniform[k] + number) * (n / plan.per_relation[k])).long().clamp(max=n - 1)
        keys = torch.unique(torch.cat([chosen, plan.always, anyone]))
        degree = torch.searchsorted(plan.column, keys, right=True) - torch.searchsorted(plan.column, keys)
        if self.typed:
            kept = degree > 0 if self.allowed is None else self.allowed[side].view(-1)[keys]
            keys, degree = keys[kept], degree[kept]
        k = keys // n
        missed = (1 - (degree / plan.space[k]).clamp(max=1)) * (1 - (plan.per_relation[k] / n).clamp(max=1))
        return DrawnRows(keys, (1 / (1 - missed)).float(), self._starts(keys, n))

    def restore(self, listed: CellKeys, found: CellKeys) -> None:
        """Continue from these zeros."""
        if found is not self._found_keys:
            self._found, self._found_keys = [self.backend.from_numpy(found)], found
        if self._active is not listed:
            self._active = listed
            active = self.backend.from_numpy(listed)
            self.listed = self._with_cells(self._facts, active, ACTIVE_ZERO) if len(listed) else self._facts

    def update(self, A: Tensor, R: Tensor, b: Tensor) -> tuple[CellKeys, CellKeys]:
        """List found zeros if they are many, drop listed zeros that became unlikely; return listed and found zeros."""
        if not self._found:
            return self._active, self._found_keys
        found = torch.unique(torch.cat(self._found))
        if len(found) * RELIST_FRACTION > len(self.listed.keys):
            zeros = torch.unique(torch.cat([self.backend.from_numpy(self._active), found]))
            likely = self._likely(zeros, torch.cat([theta for *_, theta in self._scored(A, R, b, zeros)]))
            self.restore(self.backend.to_numpy(likely), np.empty(0, np.int64))
        else:
            self._found, self._found_keys = [found], self.backend.to_numpy(found)
        return self._active, self._found_keys

    def _likely(self, zeros: Tensor, theta: Tensor) -> Tensor:
        """The likely ones of these zeros, as many as are listed at most."""
        most, limit = int(MAX_ACTIVE_PER_FACT * self.n_facts), MIN_LISTED_SCORE
        if len(zeros) > most:
            limit = max(limit, float(torch.topk(theta, most + 1).values[-1]))
        return zeros[theta > limit]

    def _scored(
        self,
        A: Tensor,
        R: Tensor,
        b: Tensor,
        keys: Tensor,
        starts: list[int] | None = None,
        first: int = 0,
        step: int = 1,
    ) -> Iterator[tuple[int, slice, Tensor, Tensor, Tensor, Tensor, Tensor]]:
        """Every step-th of the sorted cells, in pieces of one relation: k, place, subjects, objects, x, x R_k and θ."""
        starts = self._starts(keys, self.n**2) if starts is None else starts
        for k, (low, high) in enumerate(pairwise(starts)):
            for at in range(low + (first - low) % step, high, step * MAX_PIECE):
                place = slice(at, min(at + step * MAX_PIECE, high), step)
                rows = keys[place] // self.n
                s, o = rows - k * self.n, keys[place] - rows * self.n
                X = A[s]
                Q = self._times(X, R[k])
                yield k, place, s, o, X, Q, (Q * A[o]).sum(1) + b[k]

    # --- the sum

    def __call__(self, A: Tensor, R: Tensor, b: Tensor, *, value: bool = True) -> Reduction:
        """An estimate from the batch and the blocks of the last draw; the value takes no extra time."""
        dA, dR = torch.zeros_like(A), torch.zeros_like(R)
        db, total = (torch.zeros(n, dtype=torch.float64, device=A.device) for n in (self.k, 1))
        self._add_listed((A, R, b), dA, dR, db, total)
        self._add_blocks((A, R, b), dA, dR, db, total)
        return Reduction(float(total), dA, dR, db)

    def _add_listed(
        self, model: tuple[Tensor, Tensor, Tensor], dA: Tensor, dR: Tensor, db: Tensor, total: Tensor
    ) -> None:
        """A batch of listed cells: every n_batches-th of all."""
        (A, R, _), (keys, weights, starts), scale = model, self.listed, self.n_batches
        for k, place, s, o, X, Q, theta in self._scored(*model, keys, starts, self._batch, scale):
            w = torch.ones_like(theta) if weights is None else weights[place]
            t = torch.where(w < 0, theta, -theta)  # the cell costs softplus(t)
            total += scale * (w.abs() * torch.nn.functional.softplus(t)).sum(dtype=torch.float64)
            slope = -scale * w * torch.sigmoid(t)
            db[k] += slope.sum(dtype=torch.float64)
            dQ = slope[:, None] * A[o]
            dR[k] += self._outer(X, dQ, R[k])
            self.backend.add_rows(dA, s, self._times(dQ, R[k], back=True))
            self.backend.add_rows(dA, o, slope[:, None] * Q)

    def _add_blocks(
        self, model: tuple[Tensor, Tensor, Tensor], dA: Tensor, dR: Tensor, db: Tensor, total: Tensor
    ) -> None:
        """The zeros of every drawn block that are not listed, cell (i, j) weighing u_i v_j."""
        A, R, b = model
        rows, columns = self.drawn
        ranges = torch.stack([torch.searchsorted(self.listed.keys, (rows.keys + more) * self.n) for more in (0, 1)])
        product, n_found = self.backend.matmul, 0
        for k in range(self.k):
            here, there = (slice(*side.starts[k : k + 2]) for side in self.drawn)
            I, J = rows.keys[here] - k * self.n, columns.keys[there] - k * self.n
            u, v = rows.weights[here], columns.weights[there]
            if not len(I) or not len(J):
                continue
            X, Y = A[I], A[J]
            Q = self._times(X, R[k])
            dQ, dY = torch.empty_like(Q), torch.zeros_like(Y)
            masked = self._listed_in_block(ranges[0, here], ranges[1, here], J)
            height = max(1, MAX_BLOCK_CELLS // len(J))
            for low in range(0, len(I), height):
                strip = slice(low, low + height)
                T = product(Q[strip], Y.T) + b[k]
                inside = (masked[0] >= low) & (masked[0] < low + height) if len(I) > height else slice(None)
                T[masked[0][inside] - low, masked[1][inside]] = -torch.inf
                u_I = u[strip, None]
                total += (u_I[:, 0] * (torch.nn.functional.softplus(T) @ v)).sum(dtype=torch.float64)
                S = torch.sigmoid_(T)
                if self._find and n_found < MAX_FOUND_PER_CALL:
                    i, j = torch.nonzero((u_I * v - 1) * S * S > MIN_VARIANCE, as_tuple=True)
                    found = (rows.keys[here][strip][i] * self.n + J[j])[: MAX_FOUND_PER_CALL - n_found]
                    self._found.append(found)
                    n_found += len(found)
                S *= u_I * v
                db[k] += S.sum(dtype=torch.float64)
                dQ[strip] = product(S, Y)
                dY += product(S.T, Q[strip])
            dR[k] += self._outer(X, dQ, R[k])
            dA[I] += self._times(dQ, R[k], back=True)  # the entities of a side are distinct
            dA[J] += dY

    def _listed_in_block(self, begin: Tensor, end: Tensor, J: Tensor) -> tuple[Tensor, Tensor]:
        """Row and column, inside the block, of listed cells; row i has the listed cells begin[i] to end[i]."""
        counts = end - begin
        row = torch.repeat_interleave(torch.arange(len(counts), device=J.device), counts)
        before = torch.cumsum(counts, 0) - counts
        objects = self.listed.keys[torch.arange(len(row), device=J.device) + (begin - before)[row]] % self.n
        column = torch.searchsorted(J, objects).clamp(max=len(J) - 1)
        inside = J[column] == objects
        return row[inside], column[inside]

    def _times(self, X: Tensor, R_k: Tensor, *, back: bool = False) -> Tensor:
        """The rows of X times R_k, or R_kᵀ."""
        p = compact.transposed(R_k[None])[0] if back else R_k
        return self.backend.matmul(X, p) if p.ndim == 2 else compact.times(X, p)

    def _outer(self, X: Tensor, Y: Tensor, R_k: Tensor) -> Tensor:
        """Σ x yᵀ over rows, as the derivatives in R_k."""
        return self.backend.matmul(X.T, Y) if R_k.ndim == 2 else compact.outer(X, Y, R_k)


def _numbers_within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 … count − 1 for each of the counts, one after another."""
    numbers: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers

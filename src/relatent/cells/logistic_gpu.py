"""The exact logistic sum over all cells on a GPU, with its gradient, and nothing N × N ever in memory.

    value = Σ over all cells softplus(θ) + Σ over facts [w softplus(−θ) − softplus(θ)] − Σ over unobserved softplus(θ)

With Q_k = A R_k and D = σ(Q_k Aᵀ + b_k) the gradient needs dQ = D A and dA = Dᵀ Q: sigmoid attention whose keys are
its values, and the same again with the roles swapped. One kernel (`attention`) does both: it holds a block of x,
streams y, and adds up σ(x yᵀ + b) y in registers. 8·N²·K·r flop. Rows (k, i) are worked on in pieces that fit the work
space.

Above rank 256 the sums no longer fit registers. Then σ of some rows is written down, and two library products read it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from itertools import product as pairs
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ..arrays import Ids, Triples, Vector
from ..backend.torch_backend import TorchBackend, product, tf32
from ..data.facts import Facts
from ..data.listed_cells import listed_cells
from . import logistic_gpu_kernels as attention
from .cell_sum import Reduction

UNIT = 128  # rows and columns come in multiples of this, the largest block
WIDEST = 256  # rank whose sums still fit registers
ROOM = 640 << 20  # bytes for Q, its rounded copy and dQ
SLOPES = 160 << 20  # bytes for σ of some rows, where the rank is larger
LOG2E = 1 / math.log(2)
STEEPEST = 60.0  # a bias beyond ±this is clipped: σ(±60) is 0 or 1 in any arithmetic used here


class Listed:
    """Facts and unobserved cells of one piece, sorted once by row and once by object."""

    def __init__(
        self,
        rows: Ids,
        relations: Ids,
        objects: Ids,
        w: Vector,
        taken: Vector,
        n_relations: int,
        device: torch.device,
    ):
        def put(array: NDArray[Any], dtype: type = np.int32) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype)).to(device)

        order = np.argsort(rows, kind="stable")
        rows, objects = rows[order], objects[order]
        distinct, firsts = np.unique(rows, return_index=True)
        by_object = np.argsort(objects, kind="stable")
        distinct_objects, object_firsts = np.unique(objects[by_object], return_index=True)
        self.n = len(rows)
        self.rows, self.starts = put(distinct), put(np.append(firsts, self.n))
        edges = np.searchsorted(relations[order][firsts], np.arange(n_relations + 1))
        self.relation_edges = put(edges, np.int64)
        self.objects, self.w, self.taken = put(objects), put(w[order], np.float32), put(taken[order], np.float32)
        self.distinct_objects, self.object_starts = put(distinct_objects), put(np.append(object_firsts, self.n))
        self.by_object, self.rows_by_object = put(by_object), put(rows[by_object])

    def add(
        self, Q: Tensor, A: Tensor, b: Tensor, height: int, dQ: Tensor, dA: Tensor, db: Tensor, value: Tensor
    ) -> None:
        """Correct dQ, dA, db and the value in place."""
        if not self.n:
            return
        d, values = torch.empty(self.n, device=A.device), torch.empty(2, len(self.rows), device=A.device)
        by_row = (self.starts, self.rows, self.objects, self.w, self.taken)
        attention.correct_rows(Q, A, b, *by_row, d, dQ, values, height)
        by_object = (self.object_starts, self.distinct_objects, self.by_object, self.rows_by_object)
        attention.correct_objects(Q, d, *by_object, dA)
        up_to = pad(values.double().cumsum(1), (1, 0))  # rows are sorted by relation
        db += up_to[1, self.relation_edges[1:]] - up_to[1, self.relation_edges[:-1]]
        value += up_to[0, -1]


@dataclass(frozen=True)
class Piece:
    """Relations low to high, and the subjects and objects whose cells they share."""

    low: int
    high: int
    subjects: slice | Tensor  # places in A, with zero vectors up to whole blocks
    n_subjects: int
    objects: Tensor | None  # None for all entities
    n_objects: int
    listed: Listed


class Fused:
    """Value and gradient of the logistic loss over all observed cells of some facts, on a GPU.

    typed: only entities that have facts as subjects of a relation, and as its objects, have cells in it.
    subject_weights, object_weights: (N,) from 0 to 1; a cell that is not listed counts their product.
    rows: from which subject to which, of a share of the cells; all of them if it is left out.
    """

    def __init__(
        self,
        facts: Facts,
        backend: TorchBackend,
        *,
        typed: bool = False,
        subject_weights: Vector | None = None,
        object_weights: Vector | None = None,
        rows: tuple[int, int] | None = None,
        room: int = ROOM,
    ):
        self.facts, self.device, self.room = facts, backend.device, room
        self.dtype = torch.float16 if backend.half else torch.float32
        self.n, self.k = facts.n_entities, facts.n_relations
        self.rows = (0, self.n) if rows is None else rows
        self.subjects, self.objects = (
            _types(facts, column, self.rows if not column else None, typed) for column in (0, 2)
        )
        self.height = _up(self.n + 1, UNIT)  # one row at least is a zero vector: it fills up lists of entities
        u, v = _weights(subject_weights, self.n), _weights(object_weights, self.n)
        self.u, self.v = (pad(w, (0, self.height - self.n)).to(self.device) for w in (u, v))
        self.weighted = subject_weights is not None or object_weights is not None
        self._taken = u.numpy(), v.numpy()
        self._plans: dict[int, list[Piece]] = {}

    def pieces(self, rank: int) -> list[Piece]:
        """What is worked on at once, for factors of this (padded) rank."""
        if rank not in self._plans:
            self._plans = {rank: list(self._cut(rank))}
        return self._plans[rank]

    def _cut(self, rank: int) -> Iterator[Piece]:
        facts = self.facts
        cells, _, w = listed_cells(facts)
        cells = cells.astype(np.int64)
        order = np.argsort(cells[:, 1], kind="stable")
        cells, w = cells[order], w[order]
        edges = np.searchsorted(cells[:, 1], np.arange(self.k + 1))
        limit = max(UNIT, self.room // (rank * (8 + self.dtype.itemsize)) // UNIT * UNIT)
        for low, high, start, stop in _cuts(self.rows, limit, self.subjects, self.objects):
            I, J = self.subjects[low], self.objects[low]
            rows = np.arange(start, stop) if I is None else np.asarray(I)[start:stop]
            mine = slice(edges[low], edges[high])
            whole = I is None and start % UNIT == 0 and (stop % UNIT == 0 or stop == self.n)  # what fills up is zero
            yield Piece(
                low,
                high,
                slice(start, start + _up(len(rows), UNIT)) if whole else self._ids(rows),
                len(rows),
                None if J is None else self._ids(np.asarray(J)),
                self.n if J is None else len(J),
                self._listed(cells[mine], w[mine], rows, low, high),
            )

    def _ids(self, entities: Ids) -> Tensor:
        """Entities on the device, filled up to whole blocks with the one that is a zero vector."""
        ids = np.full(_up(len(entities), UNIT), self.n)
        ids[: len(entities)] = entities
        return torch.from_numpy(ids).to(self.device)

    def _listed(self, cells: Triples, w: Vector, rows: Ids, low: int, high: int) -> Listed:
        """The listed cells of a piece's rows, with their place among them."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        within = place[cells[:, 0]] >= 0
        s, k, o = cells[within].T
        taken = self._taken[0][s] * self._taken[1][o]  # how often the sum over all cells has counted each
        return Listed(
            (k - low) * _up(len(rows), UNIT) + place[s], k - low, o, w[within], taken, high - low, self.device
        )

    def __call__(self, A: Tensor, R: Tensor, b: Tensor, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives, the same numbers at every call; without `value` the sum is NaN."""
        with tf32(True):
            work = _Work(self, A, R, b, value)
            for piece in self.pieces(work.rank):
                work.add(piece)
            return work.result(A.shape[1])


class _Task(NamedTuple):
    """A piece as the kernels over all cells take it."""

    piece: Piece
    Q: Tensor  # (m · height, rank)
    queries: Tensor  # Q, scaled and rounded
    columns: Tensor  # A of the objects, scaled and rounded
    bias: Tensor  # (m,) b / log 2
    u: Tensor | None  # weights of the subjects
    v: Tensor | None  # and of the objects


class _Work:
    """One evaluation: the factors as the kernels take them, and what the pieces add to."""

    def __init__(self, plan: Fused, A: Tensor, R: Tensor, b: Tensor, with_value: bool):
        self.plan, self.with_value = plan, with_value
        r = A.shape[1]
        self.rank = max(16, 1 << (r - 1).bit_length()) if r <= WIDEST else _up(r, 64)
        fill = self.rank - r
        self.A = pad(A.float(), (0, fill, 0, plan.height - plan.n))
        self.R = pad(R.float(), (0, fill, 0, fill))
        self.b = b.double().clamp(-STEEPEST, STEEPEST)
        # A power of two brings A and Q to the same size: both fit float16, and their product stays what it is.
        balance = self.R.square().mean().sqrt() * math.sqrt(r)  # of Q to A, about
        self.up = _power_of_two(balance.sqrt()) if plan.dtype == torch.float16 else self.A.new_ones(())
        self.keys = attention.rounded(plan.dtype, self.A, self.up)
        self.value = self.b.new_zeros(())
        self.dA, self.dR, self.db = torch.zeros_like(self.A), torch.zeros_like(self.R), torch.zeros_like(self.b)
        # Objects that any relation may have: their dA is added up by several programs, each in an own part.
        splits = _splits(plan.height, self.rank)
        own = splits > 1 or plan.weighted
        self.parts = self.A.new_zeros((splits, *self.A.shape)) if own else self.dA[None]

    def result(self, r: int) -> Reduction:
        """The sums, without what fills up."""
        plan = self.plan
        if self.parts.data_ptr() != self.dA.data_ptr():
            whole = self.parts.sum(0)
            self.dA += whole * plan.v[:, None] if plan.weighted else whole
        value = float(self.value) if self.with_value else math.nan
        return Reduction(value, self.dA[: plan.n, :r], self.dR[:, :r, :r], self.db)

    def add(self, piece: Piece) -> None:
        """Add one piece's part of everything."""
        k, I, J = slice(piece.low, piece.high), piece.subjects, piece.objects
        A_I, R_k, b_k = self.A[I], self.R[k], self.b[k]
        (height, rank), m = A_I.shape, piece.high - piece.low
        with tf32(not self.with_value):  # the value is good to 1e-6 only if Q is exact
            Q = torch.matmul(A_I, R_k).view(m * height, rank)
        queries = attention.rounded(self.plan.dtype, Q, -LOG2E / self.up)
        columns = self.keys if J is None else self.keys[J]
        u = self.plan.u[I] if self.plan.weighted else None
        v = (self.plan.v if J is None else self.plan.v[J]) if self.plan.weighted else None
        all_cells = self._attended if rank <= WIDEST else self._written_down
        dQ, slopes, values = all_cells(_Task(piece, Q, queries, columns, (b_k * LOG2E).float(), u, v))
        if u is not None:
            dQ *= u[:, None, None]
        filling = 0 if self.plan.weighted else (len(columns) - piece.n_objects) * piece.n_subjects
        self.db[k] += _over_rows(slopes, m, piece.n_subjects, u) - filling * torch.sigmoid(b_k)
        if values is not None:
            softplus = torch.nn.functional.softplus(b_k, threshold=1e3)
            self.value += (_over_rows(values, m, piece.n_subjects, u) - filling * softplus).sum()
        piece.listed.add(Q, self.A, b_k.float(), height, dQ, self.dA, self.db[k], self.value)
        wide = dQ.view(height, m * rank)
        self.dR[k] += torch.matmul(A_I.T, wide).view(rank, m, rank).transpose(0, 1)
        self._add_rows(I, piece.n_subjects, torch.matmul(wide, R_k.transpose(1, 2).reshape(m * rank, rank)))

    def _add_rows(self, chosen: slice | Tensor, n: int, x: Tensor) -> None:
        """Add rows to dA, those that only fill up left out."""
        if isinstance(chosen, slice):
            self.dA[chosen] += x
        else:
            self.dA.index_add_(0, chosen[:n], x[:n])

    def _attended(self, task: _Task) -> tuple[Tensor, Tensor, Tensor | None]:
        """dQ, Σ σ and Σ softplus of the rows; what the columns get is added where it belongs."""
        piece, Q, queries, columns, bias, u, v = task
        J, m = piece.objects, len(bias)
        height, rank = len(Q) // m, self.rank
        dQ, slopes = Q.new_empty(height, m, rank), Q.new_empty(len(Q))
        values = torch.empty_like(slopes) if self.with_value else None
        unit = attention.UNIT_OF_SIGMA
        scales = torch.stack([unit / self.up, -self.up / LOG2E])
        attention.attend(queries, columns, bias, height, scales, dQ, slopes, values, Q, v)
        out = self.parts if J is None else Q.new_zeros((_splits(len(columns), rank), *columns.shape))
        changes = Q.new_empty(out.shape[:2]) if self.with_value else None
        exact = (self.A if J is None else self.A[J]) if self.with_value else None
        scales = torch.stack([-unit / LOG2E * self.up, 1 / self.up])
        over = None if u is None else u.repeat(m)
        attention.attend(columns, queries, bias, height, scales, out, values=changes, exact=exact, weights=over)
        if changes is not None:
            self.value += (changes if v is None else changes * v).sum(dtype=torch.float64)
        if J is not None:
            whole = out.sum(0)
            self._add_rows(J, piece.n_objects, whole if v is None else whole * v[:, None])
        return dQ, slopes, values

    def _written_down(self, task: _Task) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `_attended`, σ of some rows in memory at a time."""
        piece, Q, queries, columns, bias, u, v = task
        J, m = piece.objects, len(bias)
        height, rank = len(Q) // m, self.rank
        dQ, sums = Q.new_empty(height, m, rank), Q.new_empty(len(Q))
        values = torch.empty_like(sums) if self.with_value else None
        dC = torch.zeros_like(columns, dtype=torch.float32)
        unit = attention.UNIT_OF_SIGMA
        step = max(UNIT, SLOPES // (len(columns) * columns.element_size()) // UNIT * UNIT)
        for k, start in pairs(range(m), range(0, height, step)):
            stop = min(start + step, height)
            rows = slice(k * height + start, k * height + stop)
            P, sums[rows], value = attention.slopes(queries[rows], columns, bias[k : k + 1], self.with_value, v)
            dq = product(P, columns) * (unit / self.up)
            dQ[start:stop, k] = dq
            x = queries[rows] if u is None else queries[rows] * u[start:stop, None].to(queries.dtype)
            dC += product(P.T, x)
            if values is not None:
                values[rows] = value - (dq * (queries[rows].float() * (-self.up / LOG2E) - Q[rows])).sum(1)
        dC *= -unit / LOG2E * self.up
        if values is not None:
            exact = self.A if J is None else self.A[J]
            self.value -= (dC * (columns.float() / self.up - exact)).sum(dtype=torch.float64)
        self._add_rows(slice(None) if J is None else J, piece.n_objects, dC)
        return dQ, sums, values


def _over_rows(x: Tensor, m: int, n: int, u: Tensor | None) -> Tensor:
    """The sum over each relation's first n rows in float64, weighted by u."""
    x = x.view(m, -1)[:, :n].double()
    return x.sum(1) if u is None else x @ u[:n].double()


def _types(facts: Facts, column: int, rows: tuple[int, int] | None, typed: bool) -> list[Ids | None]:
    """The entities that have facts in this place of each relation, or None for all of them."""
    if not typed:
        return [None] * facts.n_relations
    low, high = (0, facts.n_entities) if rows is None else rows
    found = [np.unique(facts.triples[facts.triples[:, 1] == k, column]) for k in range(facts.n_relations)]
    return [entities[(entities >= low) & (entities < high)] for entities in found]


def _cuts(
    rows: tuple[int, int], limit: int, subjects: Sequence[Ids | None], objects: Sequence[Ids | None]
) -> Iterator[tuple[int, int, int, int]]:
    """Relations low to high, rows start to stop of their subjects: `limit` rows at most in all.

    Untyped relations share their columns and are worked on together, in even groups.
    """
    low, K = 0, len(subjects)
    while low < K:
        typed = [i is not None or j is not None for i, j in zip(subjects[low:], objects[low:], strict=True)]
        run = 1 if typed[0] else (typed.index(True) if True in typed else K - low)
        I, J = subjects[low], objects[low]
        first, last = rows if I is None else (0, len(I))
        if last > first and (J is None or len(J)):
            groups = -(-run // max(1, limit // _up(last - first, UNIT)))
            edges = [low + run * group // groups for group in range(groups + 1)]
            for k_low, k_high in pairwise(edges):
                for start in range(first, last, limit):
                    yield k_low, k_high, start, min(last, start + limit)
        low += run


def _splits(length: int, rank: int, programs: int = 264, room: int = 128 << 20) -> int:
    """Into how many parts the rows go, so that about all processors end together; `programs` run at a time."""
    blocks = length // 64
    choices = range(1, max(1, min(16, room // (4 * length * rank))) + 1)
    return max(choices, key=lambda s: (round(s * blocks / programs / -(-s * blocks // programs), 2), -s))


def _weights(w: Vector | None, n: int) -> Tensor:
    """Weights of entities, ones where there are none; at most 1, or 2¹⁵ σ would leave the range of float16."""
    w = np.ones(n) if w is None else np.asarray(w)
    if w.shape != (n,) or not (w >= 0).all() or not (w <= 1).all():
        raise ValueError(f"weights must be {n} numbers from 0 to 1")
    return torch.from_numpy(w.astype(np.float32))


def _power_of_two(x: Tensor) -> Tensor:
    """The power of two next to x."""
    return torch.exp2(torch.log2(x.clamp(1e-12, 1e12)).round())


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit

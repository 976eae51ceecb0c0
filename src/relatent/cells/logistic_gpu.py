"""The exact logistic sum over all cells on a GPU, with its gradient; no N × N array is ever in memory.

    value = Σ over all cells softplus(θ) + Σ over facts [w softplus(−θ) − softplus(θ)] − Σ over unobserved softplus(θ)

With Q_k = A R_k and D = σ(Q_k Aᵀ + b_k) the gradient needs dQ = D A and dA = Dᵀ Q: sigmoid attention whose keys are
its values, and the same again with the roles swapped. One kernel (`logistic_gpu_kernels`) does both: it holds a block
of x, streams y, and sums σ(x yᵀ + b) y in registers. This takes 8·N²·K·r flop. Rows (k, i) are worked on in pieces that
fit the work space.

Above rank 256 the sums no longer fit registers. Then σ of some rows is written to memory, and two library products
read it.
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
from ..backend.compact_matrices import contracted, expanded
from ..backend.protocol import Backend
from ..backend.torch_backend import TorchBackend, product, tf32
from ..data.facts import Facts
from ..data.listed_cells import listed_cells
from ..data.shard import Shard
from ..model.entity_types import entities_in_place
from . import logistic_gpu_kernels as kernels
from .cell_sum import CellMemory, ModelSize, Reduction
from .gpu_memory import (
    MAX_REGISTER_RANK,
    SLOPE_BYTES,
    SPLIT_BYTES,
    UNIT,
    WORK_BYTES,
    exact_logistic,
    padded_rank,
    round_up,
)
from .logistic_gpu_corrections import (
    CellsByObject,
    CellsByRow,
    PieceFactors,
    RowCorrections,
    correct_objects,
    correct_rows,
)

PARALLEL_PROGRAMS = 264  # that run at the same time on the GPU
LOG2E = 1 / math.log(2)
MAX_BIAS = 60.0  # a larger bias is clipped: σ(±60) is 0 or 1 in any arithmetic used here


class PieceCells:
    """Facts and unobserved cells of one piece, sorted by row and by object."""

    def __init__(
        self, rows: Ids, relations: Ids, objects: Ids, weights: Vector, n_relations: int, device: torch.device
    ):
        def put(array: NDArray[Any], dtype: type = np.int32) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype)).to(device)

        order = np.argsort(rows, kind="stable")
        rows, objects = rows[order], objects[order]
        distinct, firsts = np.unique(rows, return_index=True)
        by_object = np.argsort(objects, kind="stable")
        distinct_objects, object_firsts = np.unique(objects[by_object], return_index=True)
        self.n = len(rows)
        edges = np.searchsorted(relations[order][firsts], np.arange(n_relations + 1))
        self.relation_edges = put(edges, np.int64)
        self.by_row = CellsByRow(
            put(np.append(firsts, self.n)), put(distinct), put(objects), put(weights[order], np.float32)
        )
        self.by_object = CellsByObject(
            put(np.append(object_firsts, self.n)), put(distinct_objects), put(by_object), put(rows[by_object])
        )

    def correct(self, factors: PieceFactors, height: int, dQ: Tensor, dA: Tensor, db: Tensor, value: Tensor) -> None:
        """Correct dQ, dA, db and the value in place."""
        if not self.n:
            return
        device = factors.A.device
        slopes, sums = torch.empty(self.n, device=device), torch.empty(2, len(self.by_row.rows), device=device)
        correct_rows(factors, self.by_row, RowCorrections(slopes, dQ, sums), height)
        correct_objects(factors.Q, slopes, self.by_object, dA)
        up_to = pad(sums.double().cumsum(1), (1, 0))  # rows are sorted by relation
        db += up_to[1, self.relation_edges[1:]] - up_to[1, self.relation_edges[:-1]]
        value += up_to[0, -1]


@dataclass(frozen=True)
class Piece:
    """Relations low to high, and the subjects and objects whose cells they share."""

    low: int
    high: int
    subjects: slice | Tensor  # positions in A, padded to whole blocks with zero vectors
    n_subjects: int
    objects: Tensor | None  # None for all entities
    n_objects: int
    cells: PieceCells


class GpuLogisticSum:
    """Value and gradient of the logistic loss over all observed cells of some facts, on a GPU.

    typed: a relation only has cells between entities of the types that its subjects and its objects have; without given
        types, between entities that have facts as its subjects and as its objects.
    rows: the range of subjects whose cells are summed; None is all of them.
    """

    def __init__(
        self,
        facts: Facts,
        backend: TorchBackend,
        *,
        typed: bool = False,
        rows: tuple[int, int] | None = None,
        work_bytes: int = WORK_BYTES,
    ):
        self.facts, self.device, self.work_bytes = facts, backend.device, work_bytes
        self.dtype = torch.float16 if backend.half else torch.float32
        self.n, self.k = facts.n_entities, facts.n_relations
        self.rows = (0, self.n) if rows is None else rows
        self.subjects, self.objects = (
            _types(facts, column, self.rows if not column else None, typed) for column in (0, 2)
        )
        self.height = round_up(self.n + 1, UNIT)  # at least one row is a zero vector, which pads lists of entities
        self._plans: dict[int, list[Piece]] = {}

    @classmethod
    def of_shard(cls, shard: Shard, backend: Backend, *, typed: bool = False) -> GpuLogisticSum:
        """The sum over the cells whose subject this worker owns."""
        assert isinstance(backend, TorchBackend)
        return cls(shard.facts, backend, typed=typed, rows=(shard.entity_range.start, shard.entity_range.stop))

    @classmethod
    def memory(cls, facts: Facts, size: ModelSize) -> CellMemory:
        """Bytes on the GPU."""
        return exact_logistic(facts, size)

    def pieces(self, rank: int) -> list[Piece]:
        """What is worked on at once, for factors of this (padded) rank."""
        if rank not in self._plans:
            self._plans = {rank: list(self._divide(rank))}
        return self._plans[rank]

    def _divide(self, rank: int) -> Iterator[Piece]:
        facts = self.facts
        cells, _, w = listed_cells(facts)
        cells = cells.astype(np.int64)
        order = np.argsort(cells[:, 1], kind="stable")
        cells, w = cells[order], w[order]
        edges = np.searchsorted(cells[:, 1], np.arange(self.k + 1))
        limit = max(UNIT, self.work_bytes // (rank * (8 + self.dtype.itemsize)) // UNIT * UNIT)
        for low, high, start, stop in _cuts(self.rows, limit, self.subjects, self.objects):
            I, J = self.subjects[low], self.objects[low]
            rows = np.arange(start, stop) if I is None else np.asarray(I)[start:stop]
            mine = slice(edges[low], edges[high])
            whole = I is None and start % UNIT == 0 and (stop % UNIT == 0 or stop == self.n)  # the padding is zero
            yield Piece(
                low,
                high,
                slice(start, start + round_up(len(rows), UNIT)) if whole else self._padded(rows),
                len(rows),
                None if J is None else self._padded(np.asarray(J)),
                self.n if J is None else len(J),
                self._cells(cells[mine], w[mine], rows, low, high),
            )

    def _padded(self, entities: Ids) -> Tensor:
        """Entities on the device, padded to whole blocks with the one that is a zero vector."""
        ids = np.full(round_up(len(entities), UNIT), self.n)
        ids[: len(entities)] = entities
        return torch.from_numpy(ids).to(self.device)

    def _cells(self, cells: Triples, w: Vector, rows: Ids, low: int, high: int) -> PieceCells:
        """The listed cells in the rows of a piece, with their position there."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        within = place[cells[:, 0]] >= 0
        s, k, o = cells[within].T
        row = (k - low) * round_up(len(rows), UNIT) + place[s]
        return PieceCells(row, k - low, o, w[within], high - low, self.device)

    def __call__(self, A: Any, R: Any, b: Any, *, value: bool = True) -> Reduction:
        """Σ of the loss and its derivatives, the same numbers at every call; without `value` the sum is NaN."""
        with tf32(True):
            evaluation = _Evaluation(self, A, R, b, value)
            for piece in self.pieces(evaluation.rank):
                evaluation.add(piece)
            return evaluation.result(A.shape[1])


class _PieceInputs(NamedTuple):
    """A piece as the kernels over all cells take it."""

    piece: Piece
    Q: Tensor  # (m · height, rank)
    queries: Tensor  # Q, scaled and rounded
    columns: Tensor  # A of the objects, scaled and rounded
    bias: Tensor  # (m,) b / log 2


class _Evaluation:
    """One evaluation: the factors as the kernels take them, and the sums that the pieces add to."""

    def __init__(self, plan: GpuLogisticSum, A: Tensor, R: Tensor, b: Tensor, with_value: bool):
        self.plan, self.with_value = plan, with_value
        r = A.shape[1]
        self.rank = padded_rank(r)
        padding = self.rank - r
        self.A = pad(A.float(), (0, padding, 0, plan.height - plan.n))
        self.R, self.padding = R.float(), (0, padding, 0, padding)
        self.b = b.double().clamp(-MAX_BIAS, MAX_BIAS)
        # A power of two brings A and Q to the same size: both fit float16, and their product stays the same.
        # Of Q to A, about: a column of R_k has r numbers, or those of a block.
        columns = r if R.ndim == 3 else R.shape[-1] if R.ndim == 4 else 2
        balance = self.R.square().mean().sqrt() * math.sqrt(columns)
        self.up = _power_of_two(balance.sqrt()) if plan.dtype == torch.float16 else self.A.new_ones(())
        self.keys = kernels.rounded(plan.dtype, self.A, self.up)
        self.value = self.b.new_zeros(())
        self.dA, self.dR, self.db = torch.zeros_like(self.A), torch.zeros_like(self.R), torch.zeros_like(self.b)
        # Objects that any relation may have: several programs sum their dA, each in its own part.
        splits = _splits(plan.height, self.rank)
        self.parts = self.A.new_zeros((splits, *self.A.shape)) if splits > 1 else self.dA[None]

    def result(self, r: int) -> Reduction:
        """The sums, without the padding."""
        n = self.plan.n
        if self.parts.data_ptr() != self.dA.data_ptr():
            self.dA += self.parts.sum(0)
        value = float(self.value) if self.with_value else math.nan
        return Reduction(value, self.dA[:n, :r], self.dR, self.db)

    def add(self, piece: Piece) -> None:
        """Add one piece to all sums."""
        k, I, J = slice(piece.low, piece.high), piece.subjects, piece.objects
        R_k = pad(expanded(self.R[k], self.R.new_zeros), self.padding)
        A_I, b_k = self.A[I], self.b[k]
        (height, rank), m = A_I.shape, piece.high - piece.low
        with tf32(not self.with_value):  # the value is exact to 1e-6 only if Q is exact
            Q = torch.matmul(A_I, R_k).view(m * height, rank)
        queries = kernels.rounded(self.plan.dtype, Q, -LOG2E / self.up)
        columns = self.keys if J is None else self.keys[J]
        all_cells = self._by_attention if rank <= MAX_REGISTER_RANK else self._by_written_slopes
        dQ, slopes, values = all_cells(_PieceInputs(piece, Q, queries, columns, (b_k * LOG2E).float()))
        padding = (len(columns) - piece.n_objects) * piece.n_subjects
        self.db[k] += _over_rows(slopes, m, piece.n_subjects) - padding * torch.sigmoid(b_k)
        if values is not None:
            softplus = torch.nn.functional.softplus(b_k, threshold=1e3)
            self.value += (_over_rows(values, m, piece.n_subjects) - padding * softplus).sum()
        piece.cells.correct(PieceFactors(Q, self.A, b_k.float()), height, dQ, self.dA, self.db[k], self.value)
        wide = dQ.view(height, m * rank)
        whole = torch.matmul(A_I.T, wide).view(rank, m, rank).transpose(0, 1)
        r = rank - self.padding[1]
        self.dR[k] += contracted(whole[:, :r, :r].contiguous(), torch.zeros_like(self.R[k]))
        self._add_rows(I, piece.n_subjects, torch.matmul(wide, R_k.transpose(1, 2).reshape(m * rank, rank)))

    def _add_rows(self, chosen: slice | Tensor, n: int, x: Tensor) -> None:
        """Add rows to dA, without the padding."""
        if isinstance(chosen, slice):
            self.dA[chosen] += x
        else:
            self.dA.index_add_(0, chosen[:n], x[:n])

    def _by_attention(self, inputs: _PieceInputs) -> tuple[Tensor, Tensor, Tensor | None]:
        """dQ, Σ σ and Σ softplus of the rows; adds the derivatives of the columns to dA."""
        piece, Q, queries, columns, bias = inputs
        J, m = piece.objects, len(bias)
        height, rank = len(Q) // m, self.rank
        dQ, slopes = Q.new_empty(height, m, rank), Q.new_empty(len(Q))
        values = torch.empty_like(slopes) if self.with_value else None
        unit = kernels.UNIT_OF_SIGMA
        scales = torch.stack([unit / self.up, -self.up / LOG2E])
        kernels.attend(queries, columns, bias, height, scales, dQ, kernels.Totals(slopes, values), Q)
        out = self.parts if J is None else Q.new_zeros((_splits(len(columns), rank), *columns.shape))
        changes = Q.new_empty(out.shape[:2]) if self.with_value else None
        exact = (self.A if J is None else self.A[J]) if self.with_value else None
        scales = torch.stack([-unit / LOG2E * self.up, 1 / self.up])
        kernels.attend(columns, queries, bias, height, scales, out, kernels.Totals(None, changes), exact)
        if changes is not None:
            self.value += changes.sum(dtype=torch.float64)
        if J is not None:
            self._add_rows(J, piece.n_objects, out.sum(0))
        return dQ, slopes, values

    def _by_written_slopes(self, inputs: _PieceInputs) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `_by_attention`, with σ of some rows in memory at a time."""
        piece, Q, queries, columns, bias = inputs
        J, m = piece.objects, len(bias)
        height, rank = len(Q) // m, self.rank
        dQ, sums = Q.new_empty(height, m, rank), Q.new_empty(len(Q))
        values = torch.empty_like(sums) if self.with_value else None
        dC = torch.zeros_like(columns, dtype=torch.float32)
        unit = kernels.UNIT_OF_SIGMA
        step = max(UNIT, SLOPE_BYTES // (len(columns) * columns.element_size()) // UNIT * UNIT)
        for k, start in pairs(range(m), range(0, height, step)):
            stop = min(start + step, height)
            rows = slice(k * height + start, k * height + stop)
            P, sums[rows], value = kernels.slopes(queries[rows], columns, bias[k : k + 1], self.with_value)
            dq = product(P, columns) * (unit / self.up)
            dQ[start:stop, k] = dq
            dC += product(P.T, queries[rows])
            if values is not None:
                values[rows] = value - (dq * (queries[rows].float() * (-self.up / LOG2E) - Q[rows])).sum(1)
        dC *= -unit / LOG2E * self.up
        if values is not None:
            exact = self.A if J is None else self.A[J]
            self.value -= (dC * (columns.float() / self.up - exact)).sum(dtype=torch.float64)
        self._add_rows(slice(None) if J is None else J, piece.n_objects, dC)
        return dQ, sums, values


def _over_rows(x: Tensor, m: int, n: int) -> Tensor:
    """The sum over the first n rows of each relation, in float64."""
    return x.view(m, -1)[:, :n].double().sum(1)


def _types(facts: Facts, column: int, rows: tuple[int, int] | None, typed: bool) -> list[Ids | None]:
    """The entities of the right types, without given types those that have facts in this place; None for all."""
    if not typed:
        return [None] * facts.n_relations
    low, high = (0, facts.n_entities) if rows is None else rows
    found = entities_in_place(facts, column)
    return [entities[(entities >= low) & (entities < high)] for entities in found]


def _cuts(
    rows: tuple[int, int], limit: int, subjects: Sequence[Ids | None], objects: Sequence[Ids | None]
) -> Iterator[tuple[int, int, int, int]]:
    """Relations low to high, rows start to stop of their subjects: at most `limit` rows in all.

    Untyped relations share their columns and are worked on together, in even groups.
    """
    low, K = 0, len(subjects)
    while low < K:
        typed = [i is not None or j is not None for i, j in zip(subjects[low:], objects[low:], strict=True)]
        run = 1 if typed[0] else (typed.index(True) if True in typed else K - low)
        I, J = subjects[low], objects[low]
        first, last = rows if I is None else (0, len(I))
        if last > first and (J is None or len(J)):
            groups = -(-run // max(1, limit // round_up(last - first, UNIT)))
            edges = [low + run * group // groups for group in range(groups + 1)]
            for k_low, k_high in pairwise(edges):
                for start in range(first, last, limit):
                    yield k_low, k_high, start, min(last, start + limit)
        low += run


def _splits(length: int, rank: int) -> int:
    """Into how many parts the rows are divided, so that all processors end at about the same time."""
    blocks = length // 64
    choices = range(1, max(1, min(16, SPLIT_BYTES // (4 * length * rank))) + 1)

    def used(splits: int) -> float:
        return round(splits * blocks / PARALLEL_PROGRAMS / -(-splits * blocks // PARALLEL_PROGRAMS), 2)

    return max(choices, key=lambda splits: (used(splits), -splits))


def _power_of_two(x: Tensor) -> Tensor:
    """The power of two nearest to x."""
    return torch.exp2(torch.log2(x.clamp(1e-12, 1e12)).round())

"""Bytes that sums over cells take on a GPU, estimated before anything is allocated: arithmetic, without PyTorch.

Unlike on a CPU, the facts themselves count: they are on the GPU as well. The arrays in which a sum works have limits,
given here, so that nothing grows with all N² K cells. Tests compare the estimates with the peaks of fits.
"""

from __future__ import annotations

import math

from ..backend.memory import MAX_SCORE_BYTES
from ..data.facts import Facts
from .cell_sum import CellMemory, ModelSize, n_listed_cells
from .logistic_sampled import ZEROS_PER_FACT, default_batches
from .sparse.by_row import max_rows

UNIT = 128  # rows and columns of the exact logistic sum come in multiples of this, the largest block
MAX_REGISTER_RANK = 256  # up to here its sums fit registers
WORK_BYTES = 640 << 20  # for Q, its rounded copy and dQ
SLOPE_BYTES = 160 << 20  # for σ of some rows, at larger ranks
SPLIT_BYTES = 128 << 20  # for separate sums of dA
MAX_PIECE = 1 << 20  # listed cells that the sampled logistic sum takes at once
MAX_BLOCK_CELLS = 1 << 25  # zeros that it takes at once
LIBRARY_BYTES = 64 << 20  # work space of cuBLAS


def exact_logistic(facts: Facts, size: ModelSize) -> CellMemory:
    """Padded A in two precisions, dA and its separate sums, and listed cells; work space and whole matrices in a call.

    A call takes so many relations at once that their rows fill the work space.
    """
    rank = padded_rank(size.rank)
    A = 4 * round_up(size.entities + 1, UNIT) * rank
    per_relation = 10 * round_up(size.entities, UNIT) * rank  # of Q and dQ in float32, and Q in float16
    at_once = min(size.relations, max(1, WORK_BYTES // per_relation))
    work, parts = min(WORK_BYTES, at_once * per_relation), min(SPLIT_BYTES, 16 * A)
    whole = 4 * at_once * rank * rank
    slopes = 0 if rank <= MAX_REGISTER_RANK else SLOPE_BYTES + 3 * A
    held = 28 * n_listed_cells(facts) + LIBRARY_BYTES
    gradient = A + 4 * size.relation_numbers
    return CellMemory(0, held + gradient, 2 * A + parts + work + 4 * whole + slopes + 40 * len(facts))


def sampled_logistic(facts: Facts, size: ModelSize) -> CellMemory:
    """Sorted keys of the listed cells, also by object, and as many zeros; pieces of the cells and a block in a call."""
    n_listed, n_batches = n_listed_cells(facts), default_batches(facts)
    most = int(facts.counts().max(initial=0))  # facts of a relation
    zeros = min(ZEROS_PER_FACT / n_batches * most, float(size.entities) ** 2)
    side = min(size.entities, 2 * math.isqrt(int(zeros)) + 1)
    block = 4 * (5 * min(int(zeros), MAX_BLOCK_CELLS) + 12 * side * size.rank)
    pieces = 4 * 7 * min(MAX_PIECE, 2 * most // n_batches + 1) * size.rank
    held = 60 * n_listed + LIBRARY_BYTES
    return CellMemory(80 * n_listed, held + size.gradient, max(block, pieces) + 2 * size.gradient)


def softmax(facts: Facts, size: ModelSize) -> CellMemory:
    """Indices of rows, and a gradient; rows in two precisions and scores in a call.

    `facts` are those of one step.
    """
    rows = _rows_at_once(facts, size)
    A, Q = 4 * size.entities * size.rank, 4 * rows * size.rank
    scores = min(MAX_SCORE_BYTES, 4 * rows * round_up(size.entities, 64)) * 3 // 2  # float32, then float16
    held = 130 * n_listed_cells(facts) + 32 * size.entities + LIBRARY_BYTES
    call = 6 * Q + max(scores, 2 * Q) + 4 * A
    return CellMemory(0, held + size.gradient, call)


def _rows_at_once(facts: Facts, size: ModelSize) -> int:
    return min(len(facts), size.entities * size.relations, max_rows(size.entities, size.rank))


def least_squares(facts: Facts, size: ModelSize) -> int:
    """Bytes of a sweep: indices of rows, five matrices of entities, three of rows, R in float64 and its products."""
    n_listed = n_listed_cells(facts)
    rows = min(n_listed, size.entities * size.relations)
    matrices = 4 * (5 * size.entities + 3 * rows) * size.rank
    return 120 * n_listed + matrices + 6 * 8 * size.relation_numbers + LIBRARY_BYTES


def padded_rank(rank: int) -> int:
    """The rank with the padding that the kernels of the exact logistic sum need."""
    return max(16, 1 << (rank - 1).bit_length()) if rank <= MAX_REGISTER_RANK else round_up(rank, 64)


def round_up(n: int, unit: int) -> int:
    """The least multiple of `unit` that is not less than n."""
    return -(-n // unit) * unit

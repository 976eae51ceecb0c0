"""How much memory a fit takes at its peak, beyond the facts, and how large its model file is: arithmetic, no arrays.

Each is the sum of what lives at the same time where most does; tests compare it with what fits really take. It counts
entities, relations and the cells listed (facts and unobserved ones), never all N² K cells: nothing is as large.
Least squares and the starts count for themselves (`layout_bytes`, `init.needs`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..backend.numpy_backend import MAX_SCORES
from ..cells.logistic_sampled import STRIP
from ..cells.logistic_tiled import COLUMNS, ROWS
from ..cells.sparse.grouped import MAX_GROUP_ELEMENTS
from ..data.facts import Facts
from .losses import Categorical, Logistic, Loss, Softmax, Squared
from .solvers.lbfgs import PAIRS
from .solvers.sampled_adam import ACTIVE_A_FACT

LAID_OUT, LAYING_OUT = 48, 34  # bytes a cell of the layout for products; more while that of a group is made
BY_TILE = 66  # bytes a cell while cells are sorted by tile
NAME = 40  # bytes of a name in a model file, with its offset; few are longer


def likelihood(loss: Loss, facts: Facts, rank: int, dtype: Any) -> int:
    """Rescal by L-BFGS: its 2m + 5 vectors, two more of a line search, and what the sum over cells works with."""
    item, n_threads, cells = _item(dtype), numba.get_num_threads(), _cells(facts)
    n, k = facts.n_entities, facts.n_relations
    vectors = item * (2 * PAIRS + 7 + n_threads) * (n * rank + k * rank * rank + k)
    tile = item * n_threads * ROWS * COLUMNS
    if type(loss) is Squared:
        return vectors + _laid_out(facts, rank) + 4 * item * _group(facts, rank)
    if type(loss) is Categorical:
        return vectors + max(80 * cells, 40 * cells + 3 * tile)
    if type(loss) is Softmax:
        return vectors + by_row(facts, rank, item)
    starts = 16 * k * -(-n // COLUMNS) * -(-n // ROWS)  # of every tile
    made, kept = BY_TILE * cells, (8 + 2 * item) * cells + (1 if type(loss) is Logistic else 6) * tile
    return max(made, vectors + kept) + starts


def by_row(facts: Facts, rank: int, item: int) -> int:
    """Sums along the rows of facts: indices of both sides, four matrices of a side's rows, and some rows of scores."""
    return 100 * _cells(facts) + 5 * item * len(facts) * rank + 3 * item * MAX_SCORES


def placed(facts: Facts, rank: int) -> int:
    """A fit on a GPU, in this machine's memory: the factors that go there and come back, and indices on their way."""
    numbers = facts.n_entities * rank + facts.n_relations * (rank * rank + 1)
    return 3 * 8 * numbers + 100 * _cells(facts)


def sampled(facts: Facts, rank: int, dtype: Any) -> int:
    """Logit by Adam: x twice, two memories, a gradient a thread; objects in order, the list, and zeros listed in it."""
    vectors = 4 + numba.get_num_threads()
    numbers = facts.n_entities * rank + facts.n_relations * rank * rank
    listed = (4 + 12 * (1 + ACTIVE_A_FACT) + 24 * ACTIVE_A_FACT) * _cells(facts)
    return _item(dtype) * (vectors * numbers + numba.get_num_threads() * STRIP * STRIP) + listed


def nonnegative(facts: Facts, rank: int, dtype: Any) -> int:
    """NonnegativeRescal: the layouts of the facts, A and both sides of its update, products of a group."""
    item, vector = _item(dtype), facts.n_entities * rank
    relations = 4 * 8 * facts.n_relations * rank * rank
    return _laid_out(facts, rank) + item * (9 * vector + 3 * _group(facts, rank)) + relations


def model_file(facts: Facts, rank: int, dtype: Any) -> int:
    """A, R, b and the names."""
    numbers = facts.n_entities * rank + facts.n_relations * (rank * rank + 1)
    names = sum(len(names) for names in (facts.entities, facts.relations) if not names.are_numbers)
    return _item(dtype) * numbers + NAME * names


def _item(dtype: Any) -> int:
    return int(np.dtype(dtype).itemsize)


def _cells(facts: Facts) -> int:
    """Cells that are listed: facts and unobserved ones."""
    return len(facts) + len(facts.unobserved)


def _laid_out(facts: Facts, rank: int) -> int:
    """The cells by subject and by object, while those of the largest group are sorted."""
    share = _group(facts, rank) / max(1, facts.n_relations * facts.n_entities * rank)
    return int((LAID_OUT + LAYING_OUT * share) * _cells(facts))


def _group(facts: Facts, rank: int) -> int:
    """Numbers of X_k A that are held at once, at most: those of a group of relations."""
    one = facts.n_entities * rank
    return min(max(MAX_GROUP_ELEMENTS, one), facts.n_relations * one)

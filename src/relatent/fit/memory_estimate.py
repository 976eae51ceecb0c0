"""How much memory a fit takes at its peak, beyond the facts, and how large its model file is: arithmetic, no arrays.

Every sum over cells, optimiser, penalty and start estimates its own memory; this module has what belongs to none of
them. Nothing grows with all N² K cells. Tests compare the estimates with what fits take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cells.cell_sum import n_listed_cells
from ..cells.squared import group_numbers, layout_memory
from ..data.facts import Facts

NAME_BYTES = 40  # of a name in a model file, with its offset; few are longer
CALIBRATION_BYTES = 500  # of a relation's curve, with some thirty knots


def gpu_fit_memory(facts: Facts, rank: int, relation_numbers: int) -> int:
    """Bytes in the memory of the host: the factors that are sent to a GPU and come back, and indices on their way."""
    numbers = facts.n_entities * rank + relation_numbers + facts.n_relations
    return 3 * 8 * numbers + 100 * n_listed_cells(facts)


def nonnegative_memory(facts: Facts, rank: int, dtype: Any) -> int:
    """Bytes of NonnegativeRescal: the layouts of the facts, A and both sides of its update, products of a group."""
    item, vector = np.dtype(dtype).itemsize, facts.n_entities * rank
    relations = 4 * 8 * facts.n_relations * rank * rank
    return int(layout_memory(facts, rank) + item * (9 * vector + 3 * group_numbers(facts, rank)) + relations)


def model_file_size(
    facts: Facts, rank: int, relation_numbers: int, dtype: Any, *, keep_facts: bool, calibrate: bool
) -> int:
    """Bytes of A, the numbers of R, b, the names, the facts and the calibration."""
    numbers = facts.n_entities * rank + relation_numbers + facts.n_relations
    names = sum(len(names) for names in (facts.entities, facts.relations) if not names.are_numbers)
    size = np.dtype(dtype).itemsize * numbers + NAME_BYTES * names
    if keep_facts:
        given = sum(values is not None for values in (facts.weights, facts.times))
        size += len(facts) * 8 * given + _listed_bytes(len(facts), facts.n_cells)
        size += _listed_bytes(len(facts.unobserved), facts.n_cells)
    return int(size + CALIBRATION_BYTES * facts.n_relations * calibrate)


def _listed_bytes(count: int, n_cells: int) -> float:
    """Bytes of so many cells: the gaps between their numbers, which are about exponential, seven bits per byte."""
    gap = n_cells / max(count, 1)
    return count * (1 + sum(float(np.exp(-(2.0 ** (7 * i)) / gap)) for i in range(1, 9)))

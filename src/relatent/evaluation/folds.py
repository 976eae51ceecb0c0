"""Dividing cells into folds: all cells of a small graph, or the facts and a sample of the zeros of a large one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Ids, Triples
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..data.heldout import ZEROS_PER_FACT, HeldOut, sample_zeros
from ..errors import InputError

MAX_FOLD_CELLS = 2_000_000  # up to this many cells each is put into a fold; beyond, zeros are sampled


def make_folds(
    facts: Facts,
    folds: int | Sequence[ArrayLike],
    random_state: int,
    *,
    leaky: bool = False,
    zeros_per_fact: int,
) -> list[HeldOut]:
    """The held-out cells of each fold, for a number of folds or for given sets of cells."""
    if not isinstance(folds, (int, np.integer)):
        if not len(folds):
            raise InputError("folds must be a number, or contain at least one set of cells")
        return [_with_truth(facts, _given_fold(facts, fold)) for fold in folds]
    if isinstance(folds, bool) or folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    if facts.n_cells > MAX_FOLD_CELLS:
        return sampled_folds(facts, int(folds), random_state, leaky, zeros_per_fact)
    n_observed = facts.n_cells - len(facts.unobserved)
    if n_observed < folds:
        raise InputError(f"folds must not exceed the {n_observed} observed cells, got {folds}")
    return [_with_truth(facts, cells) for cells in cell_folds(facts, int(folds), random_state, leaky=leaky)]


def _with_truth(facts: Facts, cells: Triples) -> HeldOut:
    return HeldOut(cells, facts.contains(cells))


def _given_fold(facts: Facts, fold: ArrayLike) -> Triples:
    cells = np.asarray(fold)
    if cells.ndim != 2 or cells.shape[1] != 3 or not len(cells):
        raise InputError(f"a fold must be a non-empty (m, 3) array of cells, got shape {cells.shape}")
    ids = np.stack(
        [facts.entities.ids(cells[:, 0]), facts.relations.ids(cells[:, 1]), facts.entities.ids(cells[:, 2])], axis=1
    )
    if facts.is_unobserved(ids).any():
        raise InputError("a fold contains unobserved cells; leave them out")
    return ids


def cell_folds(facts: Facts, folds: int, random_state: int = 0, *, leaky: bool = False) -> list[Triples]:
    """All observed cells in random folds, mirrored cells of a symmetric relation together unless `leaky`."""
    n = facts.n_entities
    keys = np.arange(facts.n_cells)
    keys = np.setdiff1d(keys, cell_keys(facts.unobserved, n), assume_unique=True)
    return [cells_of(fold, n) for fold in partition(facts, keys, folds, np.random.default_rng(random_state), leaky)]


def partition(facts: Facts, keys: Ids, folds: int, rng: np.random.Generator, leaky: bool) -> list[Ids]:
    """Cell numbers in random folds of equal size, mirrored cells of a symmetric relation together unless `leaky`."""
    units = keys if leaky else _mirror_units(facts, keys)
    distinct, unit = np.unique(units, return_inverse=True)
    fold_of_unit = rng.permutation(len(distinct)) % folds
    fold = fold_of_unit[unit]
    return [keys[fold == f] for f in range(folds)]


def _mirror_units(facts: Facts, keys: Ids) -> Ids:
    """Each cell's number, or its mirror's if that is smaller and the relation is symmetric."""
    if not facts.symmetric.any():
        return keys
    cells = cells_of(keys, facts.n_entities)
    mirrored = cell_keys(cells[:, ::-1], facts.n_entities)
    return np.where(facts.symmetric[cells[:, 1]], np.minimum(keys, mirrored), keys)


def splits_mirrors(facts: Facts, fold: HeldOut) -> bool:
    """Whether a held-out cell of a symmetric relation has its mirror among the cells that a fit sees."""
    mirrors = fold.cells[facts.symmetric[fold.cells[:, 1]]][:, ::-1]
    is_heldout = np.isin(cell_keys(mirrors, facts.n_entities), cell_keys(fold.cells, facts.n_entities))
    return not bool((is_heldout | facts.is_unobserved(mirrors)).all())


def sampled_folds(facts: Facts, folds: int, random_state: int, leaky: bool, zeros_per_fact: int) -> list[HeldOut]:
    """Facts in random folds, each with a sample of the zeros that is weighted to stand for a fold of all zeros."""
    if zeros_per_fact < 1:
        raise InputError(f"zeros_per_fact must be at least 1, got {zeros_per_fact}")
    rng = np.random.default_rng(random_state)
    sample, weight = sample_zeros([facts], zeros_per_fact * len(facts), rng)
    n = facts.n_entities
    found = []
    for ones, zeros in zip(
        partition(facts, facts.keys, folds, rng, leaky),
        partition(facts, cell_keys(sample, n), folds, rng, leaky),
        strict=True,
    ):
        sizes = [len(ones), len(zeros)]
        cells = np.concatenate([cells_of(ones, n), cells_of(zeros, n)])
        found.append(HeldOut(cells, np.repeat([True, False], sizes), np.repeat([1.0, weight], sizes)))
    return found


def stratified_folds(facts: Facts, max_folds: int, random_state: int, *, facts_only: bool) -> list[HeldOut]:
    """Up to `max_folds` folds with a fact each; none if there is only one fact.

    Facts and zeros are divided apart, so that every fold has its part of both; `facts_only`: no zeros.
    """
    n, rng = facts.n_entities, np.random.default_rng(random_state)
    folds = min(max_folds, len(facts))
    if folds < 2:
        return []
    if facts_only:
        parts = partition(facts, facts.keys, folds, rng, False)
        return [HeldOut(cells_of(keys, n), np.ones(len(keys), bool)) for keys in parts if len(keys)]
    if facts.n_cells > MAX_FOLD_CELLS:
        return sampled_folds(facts, folds, random_state, False, ZEROS_PER_FACT)
    zeros = np.setdiff1d(np.arange(facts.n_cells), facts.keys, assume_unique=True)
    zeros = np.setdiff1d(zeros, cell_keys(facts.unobserved, n), assume_unique=True)
    both = zip(partition(facts, facts.keys, folds, rng, False), partition(facts, zeros, folds, rng, False), strict=True)
    return [_with_truth(facts, cells_of(np.sort(np.concatenate(keys)), n)) for keys in both if len(keys[0])]

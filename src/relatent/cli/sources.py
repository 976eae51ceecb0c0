"""What a name on the command line stands for: a file of facts or a data set of the catalog."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..data.catalog import datasets, load_dataset, load_splits
from ..data.facts import Facts
from ..data.read.dispatch import read
from ..distributed.workers import Workers
from ..errors import DataError, DataWarning, InputError

SPLITS = ("train", "valid", "test")


def open_part(source: str, workers: Workers, *, split: str = "all") -> Facts:
    """One worker's part of the facts of a file or a catalog name."""
    if workers.any(Path(source).exists()):
        return read(source, progress=True, workers=workers)
    facts = open_whole(source, workers, split=split)
    return facts.subset(np.arange(len(facts)) % workers.size == workers.rank)


def open_whole(source: str, workers: Workers, *, split: str = "all") -> Facts:
    """The same facts for every worker; of those on a machine the first goes first, as it may have to download them."""
    for turn in (True, False):
        with workers.raise_together():
            if (workers.local_rank == 0) == turn:
                facts = open_facts(source, split=split)
    return facts


def open_facts(source: str, *, split: str = "all") -> Facts:
    """Facts of a file, or of a catalog name; NAME:train, NAME:valid, NAME:test and NAME:all pick a benchmark's split.

    `split` says which one a benchmark's bare name means.
    """
    if Path(source).exists():
        return read(source, progress=True)
    name, _, asked = source.partition(":")
    entry = {dataset.name: dataset for dataset in datasets()}.get(name)
    if entry is None:
        known = ", ".join(dataset.name for dataset in datasets())
        raise DataError(f"{source!r} is neither a file nor a data set of the catalog ({known})")
    if asked and (asked not in (*SPLITS, "all") or not entry.splits):
        choices = ", ".join((*SPLITS, "all")) if entry.splits else "no splits"
        raise DataError(f"{name} has {choices}, got {asked!r}")
    chosen = (asked or split) if entry.splits else "all"
    if chosen == "all":
        return load_dataset(name, progress=True)
    return load_splits(name, progress=True)[SPLITS.index(chosen)]


def over_vocabulary(facts: Facts, like: Facts) -> Facts:
    """The validation facts whose names the training facts know, with the ids they have there."""
    found = facts.over(like.entities, like.relations)
    if not len(found):
        raise InputError("no validation fact has all its names in the training facts")
    if left_out := len(facts) - len(found):
        text = f"{left_out} validation facts have names that no training fact has: left out"
        warnings.warn(text, DataWarning, stacklevel=2)
    return found

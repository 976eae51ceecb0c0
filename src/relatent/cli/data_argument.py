"""Facts named on the command line: files, a database, or a data set of the catalog."""

from __future__ import annotations

import contextlib
import difflib
import glob
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.catalog import datasets, load_dataset, load_negatives, load_splits
from ..data.facts import Facts
from ..data.facts_union import union
from ..data.read.annotations import INFER, NONE, annotated, warn_of_entities_without_facts
from ..data.read.lint import missing_markers, similar_names
from ..data.read.read import is_file_or_pattern, name_of, read_checked, read_plain
from ..data.read.reading import SKIPPING, Reading
from ..data.undirected_note import undirected_note
from ..distributed.workers import ALONE, Workers
from ..errors import DataError, DataWarning, InputError
from ..model.entity_types import EntityTypes
from ..model.factors import Factors
from ..progress import bar
from .reading_options import annotation_choices, as_options, reading_choices, undirected_choice

SPLITS = ("train", "valid", "test")
MAX_BAD_LINES = 5  # that `info` lists
MAX_FILES = 1000  # of a folder, among which a mistyped name is looked for
NEGATIVES = ("valid-negatives", "test-negatives")  # statements verified to be false


def names_of(sources: Sequence[str]) -> str:
    """The sources of a command, for messages and results: without passwords and options of URLs."""
    return ", ".join(map(name_of, sources))


def open_shard(sources: Sequence[str], workers: Workers, *, split: str = "all") -> Facts:
    """This worker's shard of the facts of files or of a catalog name."""
    is_query = "sql" in reading_choices()
    if len(sources) == 1 and not is_query and workers.any(Path(sources[0]).exists()):
        return _without_directions(_read_file(sources[0], workers))
    facts = open_whole(sources, workers, split=split)
    return facts.subset(np.arange(len(facts)) % workers.size == workers.rank)


def _read_file(source: str, workers: Workers = ALONE) -> Facts:
    facts = read_plain(source, reading_choices(), progress=True, workers=workers)
    return annotated(facts, NONE if workers.size > 1 else None)


def open_whole(source: str | Sequence[str], workers: Workers, *, split: str = "all") -> Facts:
    """The same facts for every worker; the first worker of each machine reads first, as it may download them."""
    for first_worker in (True, False):
        with workers.raise_together():
            if (workers.local_rank == 0) == first_worker:
                facts = open_facts(source, split=split)
    return facts


def annotate(facts: Facts, workers: Workers = ALONE) -> Facts:
    """The facts with the types, labels and attributes that the options of the command give."""
    given = annotation_choices()
    if workers.size > 1 and reading_choices().get("attributes"):
        raise InputError("--attributes needs a FILE if several processes read the facts")
    if workers.size > 1 and given.get("types", INFER) == INFER:  # each worker has a part of the facts only
        if "types" in given:
            raise InputError("--types infer needs all facts in one process; give a file of types, or leave it out")
        given["types"] = NONE
    if reading_choices().get("attributes"):  # of several files, whose facts are together only here
        warn_of_entities_without_facts(facts)
    with workers.raise_together():
        return annotated(facts, **given)


def with_labels(facts: Facts) -> Facts:
    """The facts with the labels that the options of the command give; types as they are."""
    given = annotation_choices()
    types = NONE if facts.types is None else None
    return facts if "labels" not in given else annotated(facts, types, given["labels"], given.get("language"))


def _files_beside(source: str) -> list[str]:
    """The files of the folder in which a file was expected, named as it was."""
    folder = Path(source).parent
    with contextlib.suppress(OSError, ValueError):
        return [str(folder / path.name) for path in itertools.islice(folder.iterdir(), MAX_FILES) if path.is_file()]
    return []


def open_facts(source: str | Sequence[str], *, split: str = "all") -> Facts:
    """Facts of files or of a catalog name; NAME:train, NAME:valid, NAME:test and NAME:all select a split.

    NAME:valid-negatives and NAME:test-negatives are false statements of a benchmark that has them.
    `split` is the split that the bare name of a benchmark means. Several sources are joined.
    """
    if isinstance(source, str):  # a further file, which may lack a relation of --undirected
        return _without_directions(_open_one(source, split), strict=False)
    return _without_directions(union([_open_one(one, split) for one in source]))


def _without_directions(facts: Facts, *, strict: bool = True) -> Facts:
    """The facts, with the relations undirected that --undirected names; strict: they must be among the facts."""
    chosen = undirected_choice()
    if isinstance(chosen, tuple) and not strict:
        chosen = tuple(name for name in chosen if name in facts.relations)
    return facts.with_undirected(chosen)


def _open_one(source: str, split: str) -> Facts:
    if is_file_or_pattern(source):
        return _read_file(source)
    name, _, asked = source.partition(":")
    entry = {dataset.name: dataset for dataset in datasets()}.get(name)
    if entry is None:
        known = ", ".join(dataset.name for dataset in datasets())
        nearby = [*(dataset.name for dataset in datasets()), *_files_beside(source)]
        close = difflib.get_close_matches(source, nearby, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise DataError(f"{source!r} is neither a file nor a data set of the catalog ({known}){hint}")
    if asked and not entry.splits:
        raise DataError(f"{name} has no splits, got {asked!r}")
    choices = (*SPLITS, "all", *(NEGATIVES if entry.negatives else ()))
    if asked and asked not in choices:
        raise DataError(f"the split of {name} must be one of {', '.join(choices)}, got {asked!r}")
    chosen = (asked or split) if entry.splits else "all"
    if chosen in NEGATIVES:
        return load_negatives(name, progress=True)[NEGATIVES.index(chosen)]
    if chosen == "all":
        return load_dataset(name, progress=True)
    return load_splits(name, progress=True)[SPLITS.index(chosen)]


def describe_reading(source: str) -> tuple[Facts, dict[str, Any]]:
    """The facts of a file, and how the file was understood; for a catalog name nothing about that."""
    if not is_file_or_pattern(source) or (glob.has_magic(source) and not Path(source).exists()):
        return open_facts([source]), {}
    choices = reading_choices()
    with bar(f"reading {names_of([source])}", in_bytes=True) as report:
        reading = Reading.of(**choices, report=report)
        try:
            facts = read_checked(source, reading)
        except DataError as problem:
            if SKIPPING not in str(problem):
                raise
            reading = Reading.of(**choices | {"skip_bad_rows": True, "headers": {}}, report=report)
            facts = _read_despite(problem, source, reading)
        lints = (missing_markers(facts), similar_names(facts), undirected_note(_without_directions(facts)))
        reading.lints.extend(filter(None, lints))
    notes = [as_options(note) for note in reading.all_notes("")]
    return _without_directions(facts), {**reading.understood, "notes": notes}


def _read_despite(problem: DataError, source: str, reading: Reading) -> Facts:
    """The facts without the bad rows, which a note counts; the error that they are if nothing else is left."""
    reading.max_skipped_lines = MAX_BAD_LINES
    try:
        facts = read_checked(source, reading)
    except DataError:
        raise problem from None
    n, lines = reading.n_skipped, ", ".join(map(str, reading.skipped_lines))
    where = f": line{'s' * (n > 1)} {lines}{', …' * (n > len(reading.skipped_lines))}" if lines else ""
    reading.understood["bad_rows"] = f"{n:,}{where}"
    reading.notes.insert(0, f"other commands refuse the file, and bad rows are left out here: {problem}")
    reading.n_skipped = 0  # said
    return facts


def warn_of_oddities(facts: Facts, sources: Sequence[str]) -> None:
    """Warn of names in files that may be one name, written in two ways, and of relations that may have no direction."""
    if any(map(is_file_or_pattern, sources)):
        for note in filter(None, (similar_names(facts), undirected_note(facts))):
            warnings.warn(f"{names_of(sources[:3])}: {note}", DataWarning, stacklevel=2)


def validation_sources(test: str) -> tuple[str, str] | None:
    """Validation facts and negatives of the benchmark whose test split is named; None if there are none."""
    name, _, split = test.partition(":")
    has_negatives = any(entry.name == name and entry.negatives for entry in datasets())
    if Path(test).exists() or split not in ("", "test") or not has_negatives:
        return None
    return f"{name}:valid", f"{name}:valid-negatives"


def with_names_of(facts: Facts, training: Facts) -> Facts:
    """The validation facts whose names all occur in the training facts, with the ids of the training facts."""
    found = facts.over(training.entities, training.relations)
    if not len(found):
        raise InputError("no validation fact has all its names in the training facts")
    if left_out := len(facts) - len(found):
        message = f"{left_out} validation facts are left out: they have names that occur in no training fact"
        warnings.warn(message, DataWarning, stacklevel=2)
    return found


def with_given_types(factors: Factors, known: Sequence[Facts]) -> Factors:
    """The model with the types that --types gives, where they occur in its facts; as it is without --types."""
    given = annotation_choices().get("types")
    if given is None:
        return factors
    if given == NONE:
        return factors.without_types()
    facts = annotated(factors.without_types().facts_with(known).with_types(None), types=given)
    assert facts.types is not None
    return replace(factors, R=factors.relation_matrices, types=EntityTypes.of(facts, facts.types))

"""The data of a model is read later as it was read in the fit, unless options say otherwise."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..model.about import READING_OPTIONS
from .output import say
from .reading_options import reading_choices, shown_options

if TYPE_CHECKING:
    from ..data.read.reading import Reading
    from ..model.factors import Factors

_MODEL = "relatent.readings of the model"
_READ = "relatent.readings of the command"


def load_model(path: Path) -> Factors:
    """Load a model; files that the command reads from now on are read like its data if they have the same columns."""
    from ..model.factors import load

    factors = load(path)
    context = click.get_current_context(silent=True)
    if context is not None:
        records = [{**record, "paths": _paths(record["source"], path)} for record in _stored_records(factors)]
        context.meta[_MODEL] = {"model": path, "relations": list(factors.relations[:2]), "records": records}
    return factors


def _stored_records(factors: Factors) -> list[dict[str, Any]]:
    """How each file of the model's data was read; a model may have one record, of its first file, in "reading"."""
    data = factors.about.get("data", {})
    if "reading" in data and "readings" not in data:
        return [{**data["reading"], "source": name} for name in data.get("sources", ())[:1]]
    return list(data.get("readings", ()))


def _paths(name: str, model: Path) -> set[str]:
    return {os.path.realpath(place / name) for place in (Path(), model.parent)}


class ModelReading(NamedTuple):
    """How a file is to be read by a command with a model."""

    choices: dict[str, Any]  # arguments of `relatent.read`
    model: Path | None = None
    default_relation: str | None = None  # of an edge list, in place of the name of the file
    accepted_notes: frozenset[str] = frozenset()  # that were said of the data of the model
    is_said: bool = False  # that the file is read like the data of the model


def choices_for(source: str, *, as_fitted: bool = False) -> ModelReading:
    """How to read a file: by the options of the command, and those of the model's data.

    `as_fitted`: options of the command that contradict those of the model's data are for other files.
    """
    given = reading_choices()
    context = click.get_current_context(silent=True)
    model = {} if context is None else context.meta.get(_MODEL, {})
    if as_fitted and model.get("records"):
        given = {name: value for name, value in given.items() if name not in READING_OPTIONS}
    relations = model.get("relations", [])
    found = ModelReading(given, model.get("model"), relations[0] if len(relations) == 1 else None)
    record = None if "sql" in given or not model else _record_for(source, model["records"])
    if record is None:
        return found
    added = {name: value for name, value in _options(source, record, model["relations"]).items() if name not in given}
    if "columns" in given:
        added.pop("relation", None)
    elif given.get("header") is False and any(isinstance(name, str) for name in added.get("columns", {}).values()):
        del added["columns"]
    if added:
        like = f"{source} is read as the data of {model['model']} was"
        say(f"note: {like}: {shown_options(added)}; options change that")
    notes = frozenset(record.get("notes", ()))
    return found._replace(choices={**given, **added}, accepted_notes=notes, is_said=bool(added))


def _options(source: str, record: dict[str, Any], relations: list[str]) -> dict[str, Any]:
    """The options of the record; an edge list has the relation of a model that knows one, whatever the file's name."""
    options = dict(record.get("options", {}))
    if relations == [record.get("relation")] and Path(source).name.split(".")[0] != record["relation"]:
        options["relation"] = record["relation"]
    return options


def _record_for(source: str, records: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The record of this file, or else of the first file that has the same columns."""
    from ..data.read.same_columns import has_columns_of

    path = os.path.realpath(source)
    if own := next((record for record in records if path in record["paths"]), None):
        return own
    found = [source] if os.path.exists(source) else sorted(glob.glob(source, recursive=True))[:1]
    return next((record for record in records if found and has_columns_of(record, found[0])), None)


def note_reading(source: str, reading: Reading, by_model: ModelReading) -> None:
    """Say in a line what was accepted in the fit, and that an edge list got the relation of the model."""
    notes = [*reading.all_notes(""), *reading.notes_of_other_files]
    if not by_model.is_said and not by_model.accepted_notes.isdisjoint(notes):
        say(f"note: {source} is read as the data of {by_model.model} was; `relatent info {source}` shows how")
    relation = by_model.default_relation
    is_default = reading.relation is None and reading.edge_relation is not None
    if relation and is_default and Path(source).name.split(".")[0] != relation:
        say(f"note: {source} has the relation of {by_model.model}, {relation!r}; --relation NAME gives it another")


def remember(source: str, reading: Reading, format_: str | None) -> None:
    """Keep how a file was read, for a model that the command makes of it."""
    from ..data.read.same_columns import reading_record

    context = click.get_current_context(silent=True)
    if context is not None:
        record = {"source": source, **reading_record(reading, format_)}
        context.meta.setdefault(_READ, {}).setdefault(source, record)


def records_of(sources: Sequence[str]) -> list[dict[str, Any]]:
    """How the command, or else an earlier one, read each of these files, to be stored with a model."""
    context = click.get_current_context(silent=True)
    if context is None:
        return []
    stored = context.meta.get(_MODEL, {}).get("records", [])
    records = {record["source"]: {k: v for k, v in record.items() if k != "paths"} for record in stored}
    records |= context.meta.get(_READ, {})
    return [records[source] for source in dict.fromkeys(sources) if source in records]

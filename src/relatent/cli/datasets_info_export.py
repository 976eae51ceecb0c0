"""Commands about data and model files: datasets, info, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from .output import print_result
from .reading_options import label_options, reading_options
from .shared_options import OutputPath, json_option, model_argument

if TYPE_CHECKING:
    from ..data.names import Names

VECTORS = OutputPath(("entities.parquet", "relations.parquet", "A.npy", "R.npy", "bias.npy"))


@click.command()
@json_option
def datasets(as_json: bool) -> None:
    """List the data sets of the catalog."""
    from ..data.catalog import datasets as catalog
    from . import tables

    print_result(as_json, {"datasets": catalog()}, lambda: [tables.datasets(catalog())])


@click.command()
@click.argument("file")
@reading_options()
@label_options
@click.option("--verify", is_flag=True, help="Verify the checksum of a model file.")
@json_option
def info(file: str, verify: bool, as_json: bool) -> None:
    """Describe a data file, a data set or a model file.

    Of a data file it shows how the file is understood: which column has which role, the first facts, and notes about
    what looks odd, with the options that change it. Rows that are no facts are counted and left out.

    Example: relatent info people.tsv
    """
    from . import tables
    from .data_argument import names_of

    found = _describe(file, verify)
    about = found.get("about", {})
    shown = dict(found)
    if about:
        shown["about"] = _readable(about)
    if "verified" in found and not verify:
        shown["verified"] = "not checked (--verify compares the checksum)"
    if labels := shown.pop("relation_labels", None):
        counts = shown["facts_of_relation"].items()
        shown["facts_of_relation"] = {labels[name] or name: count for name, count in counts}
    reading = shown.pop("reading", {})
    print_result(
        as_json,
        found,
        lambda: [
            *tables.reading(reading),
            tables.values(names_of([file]), tables.details(shown)),
            *tables.learned(_with_labels(file, about.get("learned", {}))),
        ],
    )


@click.command()
@model_argument
@click.argument("folder", type=VECTORS)
@json_option
def export(model: Path, folder: Path, as_json: bool) -> None:
    """Write entity and relation vectors as Parquet and NumPy files.

    Example: relatent export kinships.relatent vectors/
    """
    from ..model.export import export as write
    from ..model.factors import load
    from . import tables

    written = [str(path) for path in write(load(model), folder)]
    print_result(as_json, {"files": written}, lambda: [tables.values("written", [("", path) for path in written])])


def _readable(about: dict[str, Any]) -> dict[str, Any]:
    """How a model was made, without what it has learned, and with settings as one writes them in Python."""
    from ..model.provenance import shown_settings

    found = {name: value for name, value in about.items() if name != "learned"}
    if "settings" in found:
        found["settings"] = shown_settings(found["settings"])
    if "chosen" in found:
        found["chosen"] = {**found["chosen"], "settings": shown_settings(found["chosen"]["settings"])}
    return found


def _with_labels(file: str, learned: dict[str, Any]) -> dict[str, Any]:
    """What a model has learned, with names as a person should read them."""
    from ..data.result_labels import shown
    from ..model.factors import load

    return shown(learned, load(file, verify=False)) if learned else {}


def _describe(file: str, verify: bool) -> dict[str, Any]:
    from ..model.model_file import inspect, looks_like_a_model
    from .data_argument import describe_reading, with_labels

    if looks_like_a_model(file):
        return {"kind": "model", **inspect(file, verify=verify)}
    if verify:
        raise InputError(f"{file} is not a model file; --verify checks the checksum of a model")
    facts, reading = describe_reading(file)
    facts = with_labels(facts)
    return {
        "kind": "data",
        "facts": int(facts.once.sum()),
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "unobserved": len(facts.unobserved),
        "weighted": facts.weights is not None,
        "counted": facts.times is not None,
        "attributes": 0 if facts.attributes is None else int(facts.attributes.shape[1]),
        "density": len(facts) / max(facts.n_cells, 1),
        "facts_of_relation": {row.relation: row.facts for row in facts.describe()},
        **(
            {"undirected": undirected} if (undirected := [facts.relations[k] for k in sorted(facts.undirected)]) else {}
        ),
        **_relation_labels(facts.relations),
        "reading": reading,
    }


def _relation_labels(relations: Names) -> dict[str, Any]:
    labels = {name: relations.label(k) for k, name in enumerate(relations)}
    return {"relation_labels": labels} if any(labels.values()) else {}

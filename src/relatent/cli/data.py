"""Commands about data and model files: datasets, info, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import InputError
from .output import answer, json_option


@click.command()
@json_option
def datasets(as_json: bool) -> None:
    """List the data sets known by name."""
    from dataclasses import asdict

    from ..data.catalog import datasets as catalog
    from . import tables as show

    answer(as_json, {"datasets": [asdict(entry) for entry in catalog()]}, lambda: [show.datasets(catalog())])


@click.command()
@click.argument("file")
@click.option("--verify", is_flag=True, help="Compute a model file's checksum and compare.")
@json_option
def info(file: str, verify: bool, as_json: bool) -> None:
    """Say what a data file or a model file holds.

    Example: relatent info model.relatent --verify
    """
    from . import tables as show

    found = _describe(file, verify)
    about = found.get("about", {})
    shown = {**found, "about": {k: v for k, v in about.items() if k != "learned"}} if about else {**found}
    if "verified" in shown and not verify:
        shown["verified"] = "not checked (--verify compares the checksum)"
    answer(as_json, found, lambda: [show.values(file, show.details(shown)), *show.learned(about)])


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def export(model: Path, folder: Path, as_json: bool) -> None:
    """Write entity and relation vectors as Parquet and NumPy files.

    Example: relatent export kinships.relatent vectors/
    """
    from ..model.export import export as write
    from ..model.factors import load
    from . import tables as show

    written = [str(path) for path in write(load(model), folder)]
    answer(as_json, {"files": written}, lambda: [show.values("written", [("", path) for path in written])])


def _describe(file: str, verify: bool) -> dict[str, Any]:
    from ..model.storage import inspect, looks_like_a_model
    from .sources import open_facts

    if looks_like_a_model(file):
        return {"kind": "model", **inspect(file, verify=verify)}
    if verify:
        raise InputError(f"{file} is not a model file; --verify checks the checksum of a model")
    facts = open_facts(file)
    counts = facts.counts()
    return {
        "kind": "data",
        "facts": len(facts),
        "entities": facts.n_entities,
        "relations": facts.n_relations,
        "unobserved": len(facts.unobserved),
        "weighted": facts.weights is not None,
        "counted": facts.times is not None,
        "attributes": 0 if facts.attributes is None else int(facts.attributes.shape[1]),
        "density": len(facts) / max(facts.n_cells, 1),
        "facts_of_relation": {name: int(count) for name, count in zip(facts.relations, counts, strict=True)},
    }

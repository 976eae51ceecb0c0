"""`relatent split`: files of training, validation and test facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .output import print_result
from .reading_options import data_argument, label_options, reading_options
from .shared_options import OutputPath, json_option, seed_option
from .table_file import FORMATS, table_writer, write_table

if TYPE_CHECKING:
    from ..data.facts import Facts

PARTS = OutputPath(("train.{to}", "valid.{to}", "test.{to}", "labels.csv"))
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@data_argument
@click.option("--test", default=0.1, show_default=True, type=SHARE, help="Share of the facts in the test file.")
@click.option("--valid", type=SHARE, help="Share of the facts in a validation file.  [default: no such file]")
@click.option("-o", "--output", required=True, type=PARTS, help="Folder for the files; it is made if there is none.")
@click.option(
    "--to",
    type=click.Choice([suffix.removeprefix(".") for suffix in FORMATS]),
    default="tsv",
    show_default=True,
    help="Their format.",
)
@reading_options()
@label_options
@seed_option
@json_option
def split(
    data: tuple[str, ...], test: float, valid: float | None, output: Path, to: str, seed: int, as_json: bool
) -> None:
    """Divide facts at random into files of training, test and perhaps validation facts.

    Every entity and relation keeps a training fact, as far as the shares allow. Both directions of a fact of a
    symmetric relation are in one file.

    If names have labels, labels.csv has them, for --labels.

    Example: relatent split people.tsv --test 0.1 --valid 0.1 -o parts
    """
    from ..data.split import split as divide
    from ..errors import InputError
    from . import tables
    from .data_argument import open_facts, with_labels

    if valid is not None and test + valid >= 1:
        raise click.UsageError(f"--test {test} and --valid {valid} leave no training facts; give smaller shares")
    facts = with_labels(open_facts(data))
    train, held_out = divide(facts, test_size=test, random_state=seed)
    parts = {"train": train, "test": held_out}
    if valid is not None:
        train, held_out = divide(train, test_size=round(valid * len(facts)), random_state=seed)
        parts = {"train": train, "valid": held_out, "test": parts["test"]}
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output}: the folder cannot be made: {error.strerror or error}") from error
    for name, part in parts.items():
        _write(part, output / f"{name}.{to}")
    labels = [(name, names.label(i)) for names in (facts.entities, facts.relations) for i, name in enumerate(names)]
    if any(label for _, label in labels):
        rows = [{"id": name, "label": label} for name, label in labels if label]
        write_table(output / "labels.csv", {"id": str, "label": str}, rows)
    counts = {name: int(part.once.sum()) for name, part in parts.items()}
    print_result(
        as_json, {"folder": str(output), "facts": counts}, lambda: [tables.values(str(output), counts.items())]
    )


def _write(facts: Facts, path: Path) -> None:
    """Write facts with their weights or counts; a pair of an undirected relation once."""
    named = facts.named(facts.triples[facts.once])
    columns = dict(zip(("subject", "relation", "object"), zip(*named, strict=True), strict=True))
    kinds = dict.fromkeys(columns, str)
    numbers = {"weight": facts.weights, "count": facts.times}
    given = {name: values[facts.once] for name, values in numbers.items() if values is not None}
    if "count" in given:
        given = {"count": given["count"].astype(int)}
    with table_writer(path, kinds | {name: int if name == "count" else float for name in given}) as write:
        write({**columns, **given})

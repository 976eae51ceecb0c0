"""Printing results as JSON or as tables, and messages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UNPRINTABLE, printable
from .reading_options import as_options

if TYPE_CHECKING:
    from rich.table import Table

    from ..model.candidates import Candidates
    from ..model.factors import Factors


def say(message: str) -> None:
    """Print a message on standard error."""
    click.echo(printable(message), err=True)


def save_model(factors: Factors, output: Path) -> None:
    """Write a model; if that fails now, keep it in a temporary folder and say where."""
    from ..errors import ModelFileError

    try:
        factors.save(output)
    except ModelFileError as error:
        kept = Path(tempfile.mkdtemp(prefix="relatent-")) / "model.relatent"
        factors.save(kept)
        raise ModelFileError(f"{error}; the model is kept in {kept}: move it to where it should be") from error


def probability_note(factors: Factors) -> str:
    """What the probabilities of a model mean, with arguments written as options of the command line."""
    return as_options(factors.probability_note)


def say_if_nothing_is_known(asked: Candidates) -> None:
    """Say that known facts cannot be told from others, and what to give."""
    if not len(asked.known):
        say("note: the model does not hold its facts, so none counts as known; name them with --known DATA")


def calibration_summary(factors: Factors) -> dict[str, Any]:
    """What the probabilities of a calibrated model rest on, as JSON values."""
    found = factors.calibration
    assert found is not None
    return {
        "missing": found.missing,
        "missing_is_assumed": found.is_assumed,
        "heldout_facts": found.heldout_facts,
        "expected": found.expected,
    }


def print_json(document: Any) -> None:
    """Print JSON in which every character that could control a terminal is escaped."""
    from ..json_values import to_json

    text = json.dumps(to_json(document), ensure_ascii=False, allow_nan=False)
    click.echo(UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def print_result(as_json: bool, document: Mapping[str, Any], tables: Callable[[], Sequence[str | Table]]) -> None:
    """Print the document as JSON, or the tables and lines that show it."""
    if as_json:
        print_json(document)
        return
    from .tables import console

    out = console()
    for part in tables():
        out.print(printable(part), markup=False, highlight=False) if isinstance(part, str) else out.print(part)

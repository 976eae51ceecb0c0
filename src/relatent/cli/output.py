"""Printing results as JSON or as tables, and messages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UNPRINTABLE, printable

if TYPE_CHECKING:
    from rich.table import Table

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

"""Printing results as JSON or as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table


def print_result(as_json: bool, document: Mapping[str, Any], tables: Callable[[], Sequence[str | Table]]) -> None:
    """Print the document as JSON, or the tables and lines that show it."""
    if as_json:
        from ..json_values import to_json

        click.echo(json.dumps(to_json(document), ensure_ascii=False, allow_nan=False))
        return
    from .tables import console

    out = console()
    for part in tables():
        out.print(part, markup=False, highlight=False) if isinstance(part, str) else out.print(part)

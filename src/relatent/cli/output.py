"""What commands share: how they answer, by one JSON document or by tables for a person, and the options for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
seed_option = click.option("--seed", default=0, show_default=True, help="Seed of everything random.")


def answer(as_json: bool, document: dict[str, Any], tables: Callable[[], Sequence[Any]]) -> None:
    """Print the document, or the tables and lines made for it."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
        return
    from . import tables as show

    console = show.console()
    for part in tables():
        console.print(part, markup=False, highlight=False) if isinstance(part, str) else console.print(part)

"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

model_argument = click.argument("model", type=FILE)
model_output_option = click.option("-o", "--output", required=True, type=FILE, help="Model file to write.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
seed_option = click.option("--seed", default=0, show_default=True, help="Random seed.")


further_known_option = click.option(
    "--known",
    metavar="DATA",
    multiple=True,
    help="Further known facts, beside those in the model file (repeatable).",
)


def top_option(default: int, results: str) -> Callable[[C], C]:
    """`--top`: the number of results, passed on as `k`."""
    return click.option(
        "--top", "k", default=default, show_default=True, type=click.IntRange(min=1), help=f"Number of {results}."
    )

"""Options and arguments that several commands share, and old names of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from .output import say

C = TypeVar("C", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)

model_argument = click.argument("model", type=FILE)
model_output_option = click.option("-o", "--output", required=True, type=FILE, help="Model file to write.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
seed_option = click.option("--seed", default=0, show_default=True, help="Random seed.")


def top_option(default: int, results: str) -> Callable[[C], C]:
    """`--top`: the number of results, passed on as `k`."""
    return click.option(
        "--top", "k", default=default, show_default=True, type=click.IntRange(min=1), help=f"Number of {results}."
    )


class CommandWithRenamedOptions(click.Command):
    """A command that accepts old option names for one release, with a warning."""

    def __init__(self, *args: Any, renamed: Mapping[str, str], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.renamed = renamed

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace old option names, then parse."""
        return super().parse_args(ctx, [self._with_new_name(argument) for argument in args])

    def _with_new_name(self, argument: str) -> str:
        name, equals, value = argument.partition("=")
        if name not in self.renamed:
            return argument
        new = self.renamed[name]
        say(f"warning: {name} is now called {new}; the old name goes in the next release")
        return f"{new}{equals}{value}"

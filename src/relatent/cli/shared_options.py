"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


class OutputPath(click.Path):
    """A file that a command writes, or the folder of several.

    `names`: of the files in the folder; what is in braces is the value of another option.
    """

    def __init__(self, names: tuple[str, ...] = (), *, replaces: str | None = None):
        super().__init__(path_type=Path)
        self.names = names
        self.replaces = replaces  # the argument whose file may be replaced

    def files(self, value: Path, options: dict[str, Any]) -> list[Path]:
        """The files to be written."""
        return [value / name.format(**options) for name in self.names] or [value]


OUTPUT = OutputPath()

model_argument = click.argument("model", type=FILE)
model_output_option = click.option(
    "-o", "--output", required=True, type=OutputPath(replaces="model"), help="Model file to write."
)
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


def check_outputs(context: click.Context) -> None:
    """Refuse to write over a file that the command reads, by whatever path, or to write two results into one file."""
    written = list(_outputs(context))
    for (one, title, _), (other, other_title, _) in combinations(written, 2):
        if os.path.realpath(one) == os.path.realpath(other):
            raise click.UsageError(f"{title} and {other_title} must be different files")
    for output, title, replaced in written:
        if not output.exists():
            continue
        for source in _sources(context, without=replaced):
            if os.path.exists(source) and os.path.samefile(source, output):
                raise click.UsageError(f"{title} {output} would overwrite {source}, which is read; give another name")


def _outputs(context: click.Context) -> Iterator[tuple[Path, str, str | None]]:
    """The files that the command writes, with the option that says so and the argument that may be the same file."""
    for parameter in context.command.params:
        kind, value = parameter.type, context.params.get(str(parameter.name))
        if isinstance(kind, OutputPath) and value is not None and str(value) != "-":
            for path in kind.files(value, context.params):
                yield path, parameter.opts[-1], kind.replaces


def _sources(context: click.Context, without: str | None) -> Iterator[str]:
    """The files that the command may read."""
    from ..data.read.read import files_of
    from .reading_options import annotation_choices

    outputs = {parameter.name for parameter in context.command.params if isinstance(parameter.type, OutputPath)}
    given = {name: value for name, value in context.params.items() if name not in outputs and name != without}
    for value in (*given.values(), *annotation_choices().values()):
        for source in value if isinstance(value, tuple) else (value,):
            if isinstance(source, (str, Path)):
                yield from files_of(str(source))

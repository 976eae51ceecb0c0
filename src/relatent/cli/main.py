"""The entry point of the command line: the group of commands, errors and exit codes.

Command modules import the library inside their functions, so that `relatent --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from ..errors import RelatentError, RelatentWarning
from .analysis import duplicates, explain, groups, similar
from .data import datasets, export, info
from .evaluate import cross_validate, evaluate, table1
from .fit import fit
from .fold_in import fold_in
from .plot import plot
from .predict import predict
from .serve import serve
from .tune import tune

COMMANDS = (
    cross_validate,
    datasets,
    duplicates,
    evaluate,
    explain,
    export,
    fit,
    fold_in,
    groups,
    info,
    plot,
    predict,
    serve,
    similar,
    table1,
    tune,
)
WAIT = 2.0  # seconds that a worker leaves the first to speak


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="relatent")
def cli() -> None:
    """Learn from facts (subject, relation, object) and predict which others are true.

    DATA is a file (TSV, CSV, Parquet, N-Triples or Turtle; plain, .gz or .zst) or a name that `relatent datasets`
    lists; a benchmark's splits are NAME:train, NAME:valid and NAME:test.
    """


for command in COMMANDS:
    cli.add_command(command)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    click.echo(f"warning: {message}", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; errors are one line on standard error and exit code 1, wrong usage is 2."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RelatentWarning)
            warnings.showwarning = _show_warning
            cli.main(args=arguments, prog_name="relatent", standalone_mode=False)
    except click.ClickException as problem:
        if "--distributed" in (arguments or sys.argv) and os.environ.get("RANK", "0") != "0":
            time.sleep(WAIT)  # the first says what is wrong with the words of all, unless torchrun ends it before
        else:
            problem.show()
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except RelatentError as problem:
        _fail(str(problem))
    except MemoryError as problem:
        _fail(f"out of memory: {problem}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; say nothing
        sys.exit(1)
    except OSError as problem:
        _fail(f"{problem.filename or ''}: {problem.strerror or problem}".lstrip(": "))


def _fail(message: str) -> None:
    click.echo("error: " + " ".join(message.split()), err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()

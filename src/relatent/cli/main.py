"""The entry point of the command line: the group of commands, error messages and exit codes.

Command modules import the library inside their functions, so that `relatent --help` answers at once.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from ..errors import DataError, DataWarning, RelatentError, RelatentWarning, one_line
from .analysis import duplicates, explain, groups, similar
from .calibrate import calibrate
from .combine import combine
from .datasets_info_export import datasets, export, info
from .evaluate import cross_validate, evaluate, table1
from .fit import fit
from .fold_in import fold_in
from .missing import doubt, missing
from .output import say
from .plot import plot
from .predict import predict, score
from .reading_options import as_options
from .rules import rules
from .serve import serve
from .shared_options import check_outputs
from .split import split
from .tune import tune
from .update import update

MIN_ADDRESS_SPACE = 1 << 30  # bytes that the libraries take before any data is read
MAX_MESSAGE_CHARACTERS = 2000  # of an error; it may quote a file
OTHER_WORKERS_WAIT_SECONDS = 2.0  # worker 0 reports a usage error before torchrun ends the group


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="relatent")
def cli() -> None:
    """Learn from facts (subject, relation, object) and predict further facts.

    DATA is a file (TSV, CSV, Parquet, JSON lines, RDF, GraphML, SQLite, …; plain, .gz, .zst, .bz2 or .zip), several
    files, a pattern such as 'facts/*.tsv', the URL of a database, - for standard input, or the name of a data set
    that `relatent datasets` lists; the splits of a benchmark are NAME:train, NAME:valid and NAME:test. `relatent info
    FILE` shows how a file is understood.
    """


def _add(command: click.Command) -> None:
    """Add a command, which refuses to write over its input."""
    run = command.callback
    assert run is not None

    @functools.wraps(run)
    def checked(*arguments: Any, **options: Any) -> Any:
        check_outputs(click.get_current_context())
        return run(*arguments, **options)

    command.callback = checked
    cli.add_command(command)


for command in (
    calibrate,
    combine,
    cross_validate,
    datasets,
    doubt,
    duplicates,
    evaluate,
    explain,
    export,
    fit,
    fold_in,
):
    _add(command)
for command in (groups, info, missing, plot, predict, rules, score, serve, similar, split, table1, tune, update):
    _add(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is one line on standard error and exit code 1, wrong usage exit code 2."""
    _check_address_space()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RelatentWarning)
            warnings.showwarning = _show_warning
            cli.main(args=arguments, prog_name="relatent", standalone_mode=False)
    except click.ClickException as error:
        if "--distributed" in (arguments or sys.argv) and os.environ.get("RANK", "0") != "0":
            time.sleep(OTHER_WORKERS_WAIT_SECONDS)  # worker 0 prints the same message
        else:
            _show_usage(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        say("interrupted")
        sys.exit(130)
    except DataError as error:
        _fail(as_options(str(error)))
    except RelatentError as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"out of memory: {error}")
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads the output; say nothing
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "))


def _check_address_space() -> None:
    """Refuse a limit (ulimit -v) that the libraries alone exceed: loading them would hang or abort."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < MIN_ADDRESS_SPACE:
        _fail(f"the address space is limited to {limit >> 20} MiB (ulimit -v); relatent needs at least 1 GiB")


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    shown = as_options(str(message)) if issubclass(category, DataWarning) else message
    say(f"warning: {shown}")


def _show_usage(error: click.ClickException) -> None:
    """Usage and hint as click prints them, and the message as all errors are."""
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"{context.get_usage()}\nTry '{context.command_path} {context.help_option_names[-1]}' for help.\n")
    say(f"error: {one_line(error.format_message(), MAX_MESSAGE_CHARACTERS)}")


def _fail(message: str) -> None:
    say(f"error: {one_line(message, MAX_MESSAGE_CHARACTERS)}")
    sys.exit(1)


if __name__ == "__main__":
    main()

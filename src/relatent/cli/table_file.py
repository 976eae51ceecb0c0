"""Tables of results as CSV, TSV, Parquet or JSON lines, written block by block."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ..csv_rows import csv_writer
from ..errors import printable
from .output import say
from .shared_options import OUTPUT

if TYPE_CHECKING:
    import pyarrow as pa

    from ..data.result_labels import Vocabulary

FORMATS = (".csv", ".tsv", ".parquet", ".jsonl")
STANDARD_OUTPUT = "-"
WriteBlock = Callable[[Mapping[str, Any]], None]

table_output_option = click.option(
    "-o",
    "--output",
    type=OUTPUT,
    help=f"File to write the results to, in the format of its extension ({', '.join(FORMATS)}); - writes CSV to "
    "standard output.",
)


def check_table_target(output: Path) -> None:
    """Refuse an extension that says no format, and a place where no file can be written; before the work begins."""
    from ..atomic_write import check_writable

    if str(output) == STANDARD_OUTPUT:
        return
    if output.suffix.lower() not in FORMATS:
        raise click.UsageError(f"--output: {output} must end in one of {', '.join(FORMATS)}, or be -")
    check_writable(output)


def write_table(
    output: Path, kinds: Mapping[str, type], rows: Sequence[Mapping[str, Any]], vocabulary: Vocabulary | None = None
) -> None:
    """Write rows to a file or to standard output, with the labels of their names, and say how many."""
    with table_writer(output, kinds, vocabulary) as write:
        write({name: [row[name] for row in rows] for name in kinds})
    if str(output) != STANDARD_OUTPUT:
        say(f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'} written to {output}")


@contextmanager
def table_writer(output: Path, kinds: Mapping[str, type], vocabulary: Vocabulary | None = None) -> Iterator[WriteBlock]:
    """A function that appends a block of rows, given as equally long columns, to the table.

    `kinds`: the columns in order, each with the type of its values: str, int, float or bool; None is no value. If the
    names of the `vocabulary` have labels, columns such as subject_label follow. A file is written beside its target
    and renamed when all blocks are written.
    """
    import pyarrow as pa

    from ..atomic_write import replacing
    from ..data.result_labels import has_labels, label_columns
    from ..errors import InputError

    def labels(columns: Mapping[str, Any]) -> Mapping[str, Any]:
        return {} if vocabulary is None or not has_labels(vocabulary) else label_columns(columns, vocabulary)

    def with_labels(write: WriteBlock) -> WriteBlock:
        return lambda columns: write({**columns, **labels(columns)})

    kinds = {**kinds, **dict.fromkeys(labels(dict.fromkeys(kinds, ())), str)}
    arrow = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, arrow[kind]) for name, kind in kinds.items()])
    try:
        if str(output) == STANDARD_OUTPUT:
            out: BinaryIO = _Terminal(sys.stdout.buffer) if sys.stdout.isatty() else sys.stdout.buffer
            with _blocks(out, ".csv", schema) as write:
                yield with_labels(write)
            sys.stdout.buffer.flush()
        else:
            with (
                replacing(output) as part,
                part.open("wb") as file,
                _blocks(file, output.suffix.lower(), schema) as write,
            ):
                yield with_labels(write)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{output}: the table could not be written: {error.strerror or error}") from error


class _Terminal(io.BytesIO):
    """A terminal, which names must not control."""

    def __init__(self, terminal: BinaryIO):
        super().__init__()
        self._terminal = terminal

    def write(self, text: Any) -> int:
        return self._terminal.write(printable(bytes(text).decode()).encode())


@contextmanager
def _blocks(file: BinaryIO, suffix: str, schema: pa.Schema) -> Iterator[WriteBlock]:
    import pyarrow as pa

    def batch(columns: Mapping[str, Any]) -> pa.RecordBatch:
        return pa.record_batch(
            [pa.array(columns[field.name], field.type, from_pandas=True) for field in schema], schema
        )

    if suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, schema) as writer:
            yield lambda columns: writer.write_batch(batch(columns))
    elif suffix == ".jsonl":
        yield lambda columns: file.writelines(
            json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in batch(columns).to_pylist()
        )
    else:
        write = _text_rows(file, suffix)
        header = [[[name] for name in schema.names]]

        def write_block(columns: Mapping[str, Any]) -> None:
            rows = batch(columns).to_pydict().values()
            while header:  # with the first block: an error before it leaves nothing on standard output
                write(header.pop())
            write([_as_text(values) for values in rows])

        yield write_block
        while header:
            write(header.pop())


def _text_rows(file: BinaryIO, suffix: str) -> Callable[[list[list[Any]]], None]:
    """A function that writes columns as rows of text. In TSV, quotes are part of a name, as `relatent.read` has it."""
    from ..errors import InputError

    text = io.StringIO(newline="")
    tsv: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
    rows = csv_writer(text, **(tsv if suffix == ".tsv" else {}))

    def write(columns: list[list[Any]]) -> None:
        try:
            rows.writerows(zip(*columns, strict=True))
        except csv.Error:
            raise InputError("a name has a tab or a line break, which TSV cannot hold; write a .csv file") from None
        file.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()

    return write


def _as_text(values: list[Any]) -> list[Any]:
    is_bool = any(isinstance(value, bool) for value in values)
    return [None if value is None else str(value).lower() for value in values] if is_bool else values

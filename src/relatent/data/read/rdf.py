"""Facts from RDF: Turtle with pyoxigraph, N-Triples with the scanner of `ntriples` or, if need be, with pyoxigraph."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

import pyarrow as pa
import pyoxigraph

from ...errors import DataError, DataWarning, one_line
from ...progress import Progress
from ..facts import Facts
from .fact_builder import FactBuilder
from .file_content import File
from .ntriples import NotPlainError, scan
from .string_table import Spans

Term: TypeAlias = pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple

TRIPLES_PER_BLOCK = 10_000  # between two reports


def read_rdf(file: File, columns: Sequence[str] | None, report: Progress) -> Facts:
    """Facts between entities; triples with a literal as object are left out, with a warning that counts them."""
    check_no_columns(file, columns)
    facts, n_literals = (read_with_scanner if file.format == "ntriples" else read_with_pyoxigraph)(file, report)
    report_literals(file, n_literals, no_facts=facts is None)
    assert facts is not None
    return facts


def check_no_columns(file: File, columns: Sequence[str] | None) -> None:
    """Raise if the caller chose columns."""
    if columns is not None:
        raise DataError(f"{file.path}: RDF has no columns to choose from, got columns={columns!r}; leave it out")


def report_literals(file: File, n_literals: int, *, no_facts: bool) -> None:
    """Raise if there are no facts; warn if triples with a literal as object were left out."""
    if no_facts:
        reason = f"; every object is a literal (triples: {n_literals})" if n_literals else ""
        raise DataError(f"{file.path}: contains no facts{reason}")
    if n_literals:
        text = f"{file.path}: left out {n_literals} facts whose object is a literal; objects must be entities"
        warnings.warn(text, DataWarning, stacklevel=5)


def read_with_scanner(file: File, report: Progress) -> tuple[Facts | None, int]:
    """The facts of an N-Triples file, None if there are none, and the number of triples with a literal as object."""
    try:
        builder, n_literals = scan(file, report)
    except NotPlainError:
        return read_with_pyoxigraph(file, report)
    return builder.build(drop_unused_names=True) if builder.n_facts else None, n_literals


def read_with_pyoxigraph(file: File, report: Progress) -> tuple[Facts | None, int]:
    """The same for Turtle and N-Triples by pyoxigraph, triple by triple."""
    builder, n_literals = FactBuilder(), 0
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    subjects, relations, objects = columns
    name_of = _naming(file)
    syntax = pyoxigraph.RdfFormat.TURTLE if file.format == "turtle" else pyoxigraph.RdfFormat.N_TRIPLES
    stream, stored = file.streams()
    try:
        with stream:
            for number, quad in enumerate(pyoxigraph.parse(stream, format=syntax, without_named_graphs=True)):
                if number % TRIPLES_PER_BLOCK == 0:
                    _add_block(builder, columns)
                    report(stored.tell(), file.size, f"{builder.n_facts:,} facts")
                if type(quad.object) is pyoxigraph.Literal:
                    n_literals += 1
                    continue
                subjects.append(name_of(quad.subject))
                relations.append(name_of(quad.predicate))
                objects.append(name_of(quad.object))
    except SyntaxError as problem:
        _raise_syntax_error(file, problem)
    _add_block(builder, columns)
    report(file.size, file.size, f"{builder.n_facts:,} facts")
    return builder.build() if builder.n_facts else None, n_literals


def _add_block(builder: FactBuilder, columns: tuple[list[str], ...]) -> None:
    """Move the facts of a block to the builder."""
    builder.add([Spans.of(pa.array(names, pa.large_string())) for names in columns])
    for names in columns:
        names.clear()


def _naming(file: File) -> Callable[[Term], str]:
    """A function that names entities and relations; unnamed nodes of Turtle are numbered in the order of the file."""
    unnamed: dict[str, int] = {}
    is_random_label = re.compile("[0-9a-f]{24,32}").fullmatch

    def name_of(term: Term) -> str:
        if type(term) is pyoxigraph.NamedNode:
            return term.value
        if type(term) is not pyoxigraph.BlankNode:
            raise DataError(f"{file.path}: a triple about a triple is not a fact between entities, got {term}")
        if file.format == "turtle" and is_random_label(term.value):  # the parser gives every [] a random label
            return f"_:unnamed-{unnamed.setdefault(term.value, len(unnamed))}"
        return f"_:{term.value}"

    return name_of


def _raise_syntax_error(file: File, problem: SyntaxError) -> NoReturn:
    reason = re.sub(r"^Parser error at line .*?: ", "", one_line(problem.msg))
    raise DataError(f"{file.path}:{problem.lineno}: {reason}") from None

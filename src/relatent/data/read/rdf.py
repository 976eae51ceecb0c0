"""Facts from RDF by pyoxigraph; N-Triples by the scanner of `ntriples` where possible."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyoxigraph

from ...errors import DataError, one_line
from ...progress import Progress, silent
from ..facts import Facts
from .fact_builder import FactBuilder
from .file_content import File
from .ntriples import NotPlainError, scan
from .rdf_literals import Literals
from .rdf_nesting import CheckedNesting
from .reading import N_SHOWN_ROWS, Reading
from .stream_guards import BoundedXml
from .string_table import Spans

Term: TypeAlias = pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal | pyoxigraph.Triple

FORMAT_NAMES = {
    "ntriples": "N-Triples",
    "nquads": "N-Quads",
    "turtle": "Turtle",
    "trig": "TriG",
    "n3": "N3",
    "rdfxml": "RDF/XML",
    "jsonld": "JSON-LD",
}

TRIPLES_PER_BLOCK = 10_000  # between two reports


def read_rdf(file: File, reading: Reading) -> Facts:
    """Facts between entities, with the labels and attributes in the file; other literals are left out."""
    check_options(file, reading)
    reading.understood["format"] = FORMAT_NAMES[file.format]
    read = read_with_scanner if file.format == "ntriples" else read_with_pyoxigraph
    literals = Literals(reading.language, attributes=reading.attributes)
    facts, n_literals = read(file, reading.report, literals)
    note_literals(file, reading, n_literals - literals.n_labels, no_facts=facts is None, literals=literals)
    assert facts is not None
    facts = literals.attached_to(facts)
    if literals.n_labels:
        reading.understood["labels"] = f"{literals.n_labels:,} triples ({literals.language} preferred); not facts"
    reading.understood["first_rows"] = [list(fact) for fact in facts.named(facts.triples[:N_SHOWN_ROWS])]
    return facts


def check_options(file: File, reading: Reading) -> None:
    """Raise if the caller gave options that are for tables."""
    for name in ("columns", "header", "sep", "relation", "encoding"):
        if getattr(reading, name) is not None:
            raise DataError(f"{file.path}: RDF has no {name} to choose; leave {name}= out")


def note_literals(
    file: File, reading: Reading, n_literals: int, *, no_facts: bool, literals: Literals | None = None
) -> None:
    """Raise if there are no facts; note it if triples with a literal that is no label were left out."""
    if no_facts:
        reason = f"; every object is a literal (triples: {n_literals})" if n_literals else ""
        raise DataError(f"{file.path}: contains no facts{reason}")
    (literals or Literals()).describe(reading, n_literals)


def literals_of(file: File, language: str | None, *, attributes: bool = False) -> Literals:
    """The labels in an RDF file, and all other literals if attributes are asked for."""
    literals = Literals(language, attributes=attributes)
    read_with_pyoxigraph(file, silent, literals)
    return literals


def read_with_scanner(file: File, report: Progress, literals: Literals | None = None) -> tuple[Facts | None, int]:
    """The facts of an N-Triples file, None if there are none, and the number of triples with a literal as object.

    `literals` collects the literals.
    """
    try:
        builder, n_literals = scan(file, report, literals)
    except NotPlainError:
        if literals is not None:
            literals.clear()
        return read_with_pyoxigraph(file, report, literals)
    return builder.build(drop_unused_names=True) if builder.n_facts else None, n_literals


def read_with_pyoxigraph(file: File, report: Progress, literals: Literals | None = None) -> tuple[Facts | None, int]:
    """The same for every RDF format by pyoxigraph, triple by triple; graph names are left out."""
    builder, n_literals = FactBuilder(), 0
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    subjects, relations, objects = columns
    name_of = _naming(file)
    format_name = FORMAT_NAMES[file.format]
    syntax = getattr(pyoxigraph.RdfFormat, re.sub("[-/]", "_", format_name.upper()), None)
    if syntax is None:
        raise DataError(f"{file.path}: {format_name} needs a newer pyoxigraph: pip install -U pyoxigraph")
    stream, stored = file.streams()
    try:
        with stream:
            checked: Any = (
                BoundedXml(stream, str(file.path))
                if file.format == "rdfxml"
                else CheckedNesting(stream, str(file.path), is_json=file.format == "jsonld")
            )
            quads = pyoxigraph.parse(checked, format=syntax)
            for number, quad in enumerate(quads):
                if number % TRIPLES_PER_BLOCK == 0:
                    _add_block(builder, columns)
                    report(stored.tell(), file.size, f"{builder.n_facts:,} facts")
                if type(quad.object) is pyoxigraph.Literal:
                    n_literals += 1
                    if literals is not None and literals.wants(quad.predicate.value):
                        text, language = quad.object.value, quad.object.language
                        literals.add(name_of(quad.subject), quad.predicate.value, text, language)
                    continue
                subjects.append(name_of(quad.subject))
                relations.append(name_of(quad.predicate))
                objects.append(name_of(quad.object))
            if literals is not None:
                literals.prefixes = dict(getattr(quads, "prefixes", {}))
    except SyntaxError as problem:
        _raise_syntax_error(file, problem)
    except MemoryError as problem:
        if "buffer maximal size" not in str(problem):
            raise
        raise DataError(f"{file.path}: a name or a literal is longer than 16 MB; no name may be") from None
    _add_block(builder, columns)
    report(file.size, file.size, f"{builder.n_facts:,} facts")
    return builder.build() if builder.n_facts else None, n_literals


def _add_block(builder: FactBuilder, columns: tuple[list[str], ...]) -> None:
    """Move the facts of a block to the builder."""
    builder.add([Spans.of(pa.array(names, pa.large_string())) for names in columns])
    for names in columns:
        names.clear()


def _naming(file: File) -> Callable[[Term], str]:
    """A function that names entities and relations; unnamed nodes are numbered in the order of the file."""
    unnamed: dict[str, int] = {}
    is_random_label = re.compile("[0-9a-f]{24,32}").fullmatch
    is_like_ours = re.compile(r"(label-)*unnamed-\d+").fullmatch
    has_unnamed = file.format not in ("ntriples", "nquads")

    def name_of(term: Term) -> str:
        if type(term) is pyoxigraph.NamedNode:
            return term.value
        if type(term) is not pyoxigraph.BlankNode:
            raise DataError(f"{file.path}: a triple about a triple is not a fact between entities, got {term}")
        if has_unnamed and is_random_label(term.value):  # the parser gives every [] a random label
            return f"_:unnamed-{unnamed.setdefault(term.value, len(unnamed))}"
        if has_unnamed and is_like_ours(term.value):  # a label that is written in the file
            return f"_:label-{term.value}"
        return f"_:{term.value}"

    return name_of


def _raise_syntax_error(file: File, problem: SyntaxError) -> NoReturn:
    reason = re.sub(r"^Parser error at line .*?: ", "", one_line(problem.msg))
    line = "" if problem.lineno is None else f":{problem.lineno}"
    raise DataError(f"{file.path}{line}: {reason}") from None

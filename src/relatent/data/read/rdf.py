"""Triples of RDF by pyoxigraph; N-Triples by the scanner of `ntriples` where possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyoxigraph

from ...errors import DataError, one_line
from ..facts import Facts
from .files import File
from .guards import BoundedXml, CheckedNesting
from .ntriples import NotPlainError, scan
from .rdf_literals import Literals
from .reading import Reading
from .table import Table

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
MAX_BLOCK_CHARACTERS = 1 << 24
MAX_EXPANSION = 200  # characters of names per byte of the file: prefixes stand for tens of characters, not for pages
MIN_EXPANDED = 1 << 26  # characters from which on that is checked


def read_rdf(file: File, reading: Reading) -> Table:
    """The triples between entities; the facts get the labels and attributes, other literals are left out."""
    for name in ("columns", "header", "sep", "relation", "encoding"):
        if getattr(reading, name) is not None:
            raise DataError(f"{file.path}: RDF has no {name} to choose; leave {name}= out")
    reading.understood["format"] = FORMAT_NAMES[file.format]
    literals = Literals(reading.language, attributes=reading.attributes)

    def columns(positions: Sequence[int], n_names: int) -> Iterator[list[pa.Array]]:
        literals.clear()
        for block in _blocks(file, reading, literals):
            yield [pa.array(block[position], pa.large_string()) for position in positions]

    return literals.table(Table(str(file.path), [], [], columns, lambda row: f"{file.path}: triple {row + 1}"), reading)


def scanned_facts(file: File, reading: Reading) -> Facts | None:
    """The facts of an N-Triples file by the scanner; None if pyoxigraph has to read it."""
    literals = Literals(reading.language, attributes=reading.attributes)
    try:
        builder = scan(file, reading.report, literals)
    except NotPlainError:
        return None
    if not builder.n_facts:
        raise DataError(f"{file.path}: contains no facts{literals.why_empty()}")
    return literals.attached_to(builder.build(drop_unused_names=True), reading)


def literals_of(file: File, language: str | None, *, attributes: bool = False) -> Literals:
    """The labels in an RDF file, and all other literals if attributes are asked for."""
    literals = Literals(language, attributes=attributes)
    for _ in _blocks(file, Reading(), literals):
        pass
    return literals


def _blocks(file: File, reading: Reading, literals: Literals) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Subjects, relations and objects of every RDF format by pyoxigraph, block by block; graph names are left out."""
    name_of = _naming(file)
    syntax = getattr(pyoxigraph.RdfFormat, re.sub("[-/]", "_", FORMAT_NAMES[file.format].upper()), None)
    if syntax is None:
        raise DataError(f"{file.path}: {FORMAT_NAMES[file.format]} needs a newer pyoxigraph: pip install -U pyoxigraph")
    where, n_facts, n_characters, n_expanded = str(file.path), 0, 0, 0
    subjects, relations, objects = block = ([], [], [])  # type: ignore[var-annotated]
    with file.open() as stream:
        checked: Any = (
            BoundedXml(stream, where)
            if file.format == "rdfxml"
            else CheckedNesting(stream, where, is_json=file.format == "jsonld")
        )
        try:
            quads = pyoxigraph.parse(checked, format=syntax)
            for quad in quads:
                subject, relation = name_of(quad.subject), quad.predicate.value
                n_characters += len(subject) + len(relation)
                if type(quad.object) is pyoxigraph.Literal:
                    if literals.wants(relation):
                        literals.add(subject, relation, quad.object.value, quad.object.language)
                else:
                    subjects.append(subject)
                    relations.append(relation)
                    objects.append(name_of(quad.object))
                    n_characters += len(objects[-1])
                if len(subjects) == TRIPLES_PER_BLOCK or n_characters > MAX_BLOCK_CHARACTERS:
                    n_facts += len(subjects)
                    n_expanded += n_characters
                    if n_expanded > max(MIN_EXPANDED, MAX_EXPANSION * checked.n_read):
                        raise DataError(
                            f"{where}: names are {MAX_EXPANSION} times longer than the file; shorten its prefixes"
                        )
                    yield block
                    subjects, relations, objects = block = ([], [], [])
                    n_characters = 0
                    reading.report(stream.position, file.size, f"{n_facts:,} facts")
            literals.prefixes = dict(getattr(quads, "prefixes", {}))
        except SyntaxError as problem:
            _raise_syntax_error(file, problem)
        except MemoryError as problem:
            if "buffer maximal size" not in str(problem):
                raise
            raise DataError(f"{where}: a name or a literal is longer than 16 MB; no name may be") from None
        yield block
        reading.report(file.size, file.size, f"{n_facts + len(subjects):,} facts")


def _naming(file: File) -> Callable[[Term], str]:
    """A function that names entities; unnamed nodes are numbered in the order of the file."""
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

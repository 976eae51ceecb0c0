"""Triples of RDF by pyoxigraph; those with a literal as object are labels of names, or attributes if asked for."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyoxigraph

from ...errors import DataError, one_line
from ..attribute_table import AttributeTable
from ..facts import Facts
from ..labels import Labels
from ..names import Names
from .files import MAX_EXPANSION, MIN_EXPANDED, File
from .guards import BoundedXml, CheckedJsonLd, CheckedNesting, CheckedTurtle
from .reading import N_SHOWN_ROWS, Reading
from .roles import QUESTION, Roles
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

GUARDS: dict[str, type[Any]] = {
    "rdfxml": BoundedXml,
    "jsonld": CheckedJsonLd,
    **dict.fromkeys(("turtle", "trig", "n3"), CheckedTurtle),
}

LABEL_RELATIONS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")

MAX_SHOWN_RELATIONS = 10
TRIPLES_PER_BLOCK = 10_000  # between two reports
MAX_BLOCK_CHARACTERS = 1 << 24


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
        checked: Any = GUARDS.get(file.format, CheckedNesting)(stream, where)
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
            raise DataError(
                f"{file.path}: a triple about a triple is not a fact between entities, got {one_line(term, 200)}"
            )
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


class Literals:
    """The labels found so far, one per name: in the preferred language, else without a language, else in English.

    With `attributes` all other literals are kept too, as values of their subjects, except those in other languages.
    """

    def __init__(self, language: str | None = None, *, attributes: bool = False):
        self.language = (language or default_language()).lower()
        self.prefixes: Mapping[str, str] = {}
        self.attributes = attributes
        self.clear()

    def clear(self) -> None:
        """Forget all literals."""
        self.n_labels = 0  # triples that are labels, used or not
        self.counts: Counter[str] = Counter()  # literals that are no labels, by relation
        self.values: list[tuple[str, str, str]] = []  # subject, relation, text
        self._found: dict[str, tuple[int, str]] = {}

    def wants(self, relation: str, count: int = 1) -> bool:
        """Whether the literals of a relation are to be added; counts those that are no labels."""
        if relation in LABEL_RELATIONS:
            return True
        self.counts[relation] += count
        return self.attributes

    def add(self, subject: str, relation: str, text: str, language: str | None) -> None:
        """Add a value, or a label of a name; among equally good labels the first stays."""
        if relation not in LABEL_RELATIONS:
            if self._rank(language) < 2:
                self.values.append((subject, relation, text))
            return
        self.n_labels += 1
        rank = self._rank(language)
        if text and (subject not in self._found or rank < self._found[subject][0]):
            self._found[subject] = (rank, text)

    def _rank(self, language: str | None) -> int:
        if not language:
            return 1
        given = language.lower().split("-")[0]
        return 0 if given == self.language.split("-")[0] else 2 if given == "en" else 3

    @property
    def labels(self) -> dict[str, str]:
        """The labels by name."""
        return {name: text for name, (_, text) in self._found.items()}

    def table(self, table: Table, reading: Reading) -> Table:
        """The table of the triples between entities, whose facts get these labels, prefixes and attributes."""
        table.roles = Roles(QUESTION, (0, 1, 2))
        table.finish = lambda facts: self.attached_to(facts, reading)
        table.why_empty = self.why_empty
        return table

    def why_empty(self) -> str:
        """Why there are no facts."""
        n_literals = self.n_labels + self.counts.total()
        return f"; every object is a literal (triples: {n_literals})" if n_literals else ""

    def attached_to(self, facts: Facts, reading: Reading) -> Facts:
        """The facts with these labels, prefixes and attributes; notes which literals there are, and were left out."""
        if self.counts:
            shown = ", ".join(f"{relation} ({n:,})" for relation, n in self.counts.most_common(MAX_SHOWN_RELATIONS))
            n_more = len(self.counts) - MAX_SHOWN_RELATIONS
            reading.understood["literals"] = shown + (f" and {n_more} more relations" if n_more > 0 else "")
        if (n_literals := self.counts.total()) and not reading.attributes:
            reading.notes.append(
                f"left out {n_literals} facts whose object is a literal; objects must be entities, and attributes=True "
                "makes literals attributes of their subjects"
            )
        if self.n_labels:
            reading.understood["labels"] = f"{self.n_labels:,} triples ({self.language} preferred); not facts"
        reading.understood["first_rows"] = [list(fact) for fact in facts.named(facts.triples[:N_SHOWN_ROWS])]
        labels = self.labels
        entities, relations = (self._attached(names, labels) for names in (facts.entities, facts.relations))
        facts = replace(facts, entities=entities, relations=relations)
        return facts.with_attributes(AttributeTable.of_rows(self.values)) if self.attributes else facts

    def _attached(self, names: Names, labels: Mapping[str, str]) -> Names:
        known = names.with_labels(Labels((), dict(self.prefixes)))
        return known.with_labels(labels) if labels else known


def default_language() -> str:
    """The language of the environment, such as "de" for LANG=de_DE.UTF-8; English if it names none."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        found = os.environ.get(variable, "").partition(".")[0].partition("_")[0]
        if len(found) in (2, 3) and found.isalpha():
            return found.lower()
    return "en"

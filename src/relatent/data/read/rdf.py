"""Facts from RDF: Turtle with pyoxigraph, N-Triples with the scanner of `ntriples` or, if need be, with pyoxigraph."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ...arrays import Ids
from ...errors import DataError, DataWarning, one_line
from ...progress import Progress
from ..facts import Facts
from ..names import Names
from .files import File

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

TRIPLES_PER_REPORT = 10_000


class _IdsByName(dict[str, int]):
    """Gives each new name the next id."""

    def __missing__(self, name: str) -> int:
        new_id = self[name] = len(self)
        return new_id


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
    from .ntriples import NotPlainError, scan  # imports Numba, which is slow

    try:
        builder, n_literals = scan(file, report)
    except NotPlainError:
        return read_with_pyoxigraph(file, report)
    return builder.build(drop_unused_names=True) if builder.n_facts else None, n_literals


def read_with_pyoxigraph(file: File, report: Progress) -> tuple[Facts | None, int]:
    """The same by pyoxigraph, triple by triple."""
    import pyoxigraph

    entities, relations, ids, n_literals = _IdsByName(), _IdsByName(), array("i"), 0
    name_of = _naming(file)
    syntax = pyoxigraph.RdfFormat.TURTLE if file.format == "turtle" else pyoxigraph.RdfFormat.N_TRIPLES
    stream, stored = file.streams()
    try:
        with stream:
            for number, quad in enumerate(pyoxigraph.parse(stream, format=syntax, without_named_graphs=True)):
                if number % TRIPLES_PER_REPORT == 0:
                    report(stored.tell(), file.size, f"{len(ids) // 3:,} facts")
                if type(quad.object) is pyoxigraph.Literal:
                    n_literals += 1
                    continue
                ids.append(entities[name_of(quad.subject)])
                ids.append(relations[name_of(quad.predicate)])
                ids.append(entities[name_of(quad.object)])
    except SyntaxError as problem:
        _raise_syntax_error(file, problem)
    report(file.size, file.size, f"{len(ids) // 3:,} facts")
    triples = np.frombuffer(ids, dtype=np.int32).reshape(-1, 3)
    return _sorted_facts(triples, entities, relations) if len(triples) else None, n_literals


def _naming(file: File) -> Callable[[NamedNode | BlankNode | Literal | Triple], str]:
    import pyoxigraph

    unnamed = _IdsByName()
    is_random_label = re.compile("[0-9a-f]{24,32}").fullmatch

    def name_of(term: NamedNode | BlankNode | Literal | Triple) -> str:
        if type(term) is pyoxigraph.NamedNode:
            return term.value
        if type(term) is not pyoxigraph.BlankNode:
            raise DataError(f"{file.path}: a triple about a triple is not a fact between entities, got {term}")
        if file.format == "turtle" and is_random_label(term.value):  # the parser gives every [] a random label
            return f"_:unnamed-{unnamed[term.value]}"
        return f"_:{term.value}"

    return name_of


def _raise_syntax_error(file: File, problem: SyntaxError) -> NoReturn:
    reason = re.sub(r"^Parser error at line .*?: ", "", one_line(problem.msg))
    raise DataError(f"{file.path}:{problem.lineno}: {reason}") from None


def _sorted_facts(triples: Ids, entities: _IdsByName, relations: _IdsByName) -> Facts:
    """Facts with ids in the order of the sorted names."""
    names, ranks = [], []
    for id_of, what in ((entities, "entity"), (relations, "relation")):
        ordered = sorted(id_of)
        rank = np.empty(len(ordered), np.int32)
        rank[[id_of[name] for name in ordered]] = np.arange(len(ordered), dtype=np.int32)
        names.append(Names(ordered, what=what))
        ranks.append(rank)
    ranked = np.stack([ranks[0][triples[:, 0]], ranks[1][triples[:, 1]], ranks[0][triples[:, 2]]], axis=1)
    return Facts.from_ids(ranked, *names)

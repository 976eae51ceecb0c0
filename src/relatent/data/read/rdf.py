"""N-Triples by a compiled scanner, Turtle and what the scanner does not know by pyoxigraph."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...arrays import Ids
from ...errors import DataError, DataWarning, one_line
from ...progress import Progress
from ..facts import Facts
from ..names import Names
from .files import File

_AT_ONCE = 10_000  # triples between two reports


class _Numbering(dict[str, int]):
    """Numbers names as they are met."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


def read_rdf(file: File, columns: Sequence[str] | None, report: Progress) -> Facts:
    """Facts between entities; those about literals are left out, with a warning that counts them."""
    if columns is not None:
        raise DataError(f"{file.path}: RDF has no columns to choose from; leave columns out")
    facts, literals = (_scanned if file.kind == "nt" else _streamed)(file, report)
    tell_of_literals(file, literals, facts is None)
    assert facts is not None
    return facts


def tell_of_literals(file: File, literals: int, nothing_else: bool) -> None:
    """Refuse a file that has no other facts, and say how many are left out of one that has."""
    if nothing_else:
        raise DataError(f"{file.path}: holds no facts" + (f", only {literals} with literal objects" * bool(literals)))
    if literals:
        text = f"{file.path}: left out {literals} facts whose object is a literal; objects must be entities"
        warnings.warn(text, DataWarning, stacklevel=4)


def _scanned(file: File, report: Progress) -> tuple[Facts | None, int]:
    """N-Triples, fast; pyoxigraph has the last word on every file that is not plain."""
    from .ntriples import OddError, scan  # imports Numba, which takes a while

    try:
        gathering, literals = scan(file, report)
    except OddError:
        return _streamed(file, report)
    return gathering.facts(some_unused=True) if gathering.n_facts else None, literals


def _streamed(file: File, report: Progress) -> tuple[Facts | None, int]:
    """The facts, none if there are none, and how many have literals for objects, triple by triple."""
    import pyoxigraph

    entities, relations, ids, literals = _Numbering(), _Numbering(), array("i"), 0
    label = _labeller(file)
    syntax = pyoxigraph.RdfFormat.TURTLE if file.kind == "ttl" else pyoxigraph.RdfFormat.N_TRIPLES
    stream, raw = file.streams()
    try:
        with stream:
            for number, quad in enumerate(pyoxigraph.parse(stream, format=syntax, without_named_graphs=True)):
                if number % _AT_ONCE == 0:
                    report(raw.tell(), file.size, f"{len(ids) // 3:,} facts")
                if type(quad.object) is pyoxigraph.Literal:
                    literals += 1
                    continue
                ids.append(entities[label(quad.subject)])
                ids.append(relations[label(quad.predicate)])
                ids.append(entities[label(quad.object)])
    except SyntaxError as problem:
        _raise_syntax_error(file, problem)
    report(file.size, file.size, f"{len(ids) // 3:,} facts")
    met = np.frombuffer(ids, dtype=np.int32).reshape(-1, 3)
    return _sorted_facts(met, entities, relations) if len(met) else None, literals


def _labeller(file: File) -> Callable[[Any], str]:
    import pyoxigraph

    unnamed = _Numbering()
    random_label = re.compile("[0-9a-f]{24,32}").fullmatch

    def label(term: Any) -> str:
        if type(term) is pyoxigraph.NamedNode:
            return term.value
        if type(term) is not pyoxigraph.BlankNode:
            raise DataError(f"{file.path}: a triple about a triple is not a fact between entities, got {term}")
        if file.kind == "ttl" and random_label(term.value):  # drawn anew by the parser in each run for every []
            return f"_:unnamed-{unnamed[term.value]}"
        return f"_:{term.value}"

    return label


def _raise_syntax_error(file: File, problem: SyntaxError) -> NoReturn:
    reason = re.sub(r"^Parser error at line .*?: ", "", one_line(problem.msg))
    raise DataError(f"{file.path}:{problem.lineno}: {reason}") from None


def _sorted_facts(met: Ids, entities: _Numbering, relations: _Numbering) -> Facts:
    names, ranks = [], []
    for numbering, what in ((entities, "entity"), (relations, "relation")):
        ordered = sorted(numbering)
        rank = np.empty(len(ordered), np.int32)
        rank[[numbering[name] for name in ordered]] = np.arange(len(ordered), dtype=np.int32)
        names.append(Names(ordered, what=what))
        ranks.append(rank)
    triples = np.stack([ranks[0][met[:, 0]], ranks[1][met[:, 1]], ranks[0][met[:, 2]]], axis=1)
    return Facts.from_ids(triples, *names)

"""N-Triples by a compiled scanner, which knows the common lines and leaves every doubt to pyoxigraph.

A line of IRIs, blank nodes and literals without escapes is taken apart here; the other lines of a block are handed to
pyoxigraph together. Whether an IRI, a label or what follows a literal is sound does not depend on the line, so it is
looked at once for each name: the plain ones here, the others by pyoxigraph. Where pyoxigraph objects to anything, the
scanner gives up, and the whole file is read by pyoxigraph, which says what is wrong and where.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from numba import njit

from ...progress import Progress
from .files import File, ReadAhead
from .gathering import Gathering
from .string_table import Interner, Spans

_BLOCK = 16 << 20  # bytes scanned at a time

_FACT, _LITERAL, _ODD = np.uint8(0), np.uint8(1), np.uint8(2)
_SPACE, _TAB, _LINE, _RETURN = 32, 9, 10, 13
_OPEN, _CLOSE, _QUOTE, _ESCAPE = ord("<"), ord(">"), ord('"'), ord("\\")
_HASH, _DOT, _COLON, _LOW_LINE, _PERCENT, _SLASH, _QUESTION = (ord(letter) for letter in "#.:_%/?")


class OddError(Exception):
    """Something that pyoxigraph has to judge in its place."""


def scan(file: File, report: Progress) -> tuple[Gathering, int]:
    """The facts between entities, and how many have literals for objects."""
    gathering, endings, n_literals = Gathering(), Interner(), 0
    with file.read_ahead(_BLOCK) as stream:
        for block in _whole_lines(stream):
            n_literals += _add(block, gathering, endings)
            report(stream.position, file.size, f"{gathering.n_facts:,} facts")
    return gathering, n_literals


def _whole_lines(stream: ReadAhead) -> Iterator[bytes]:
    """Blocks that end with a line."""
    rest = b""
    while block := stream.read():
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            rest = block[end:]
        else:
            rest += block
    if rest:
        yield rest + b"\n"


def _add(block: bytes, gathering: Gathering, endings: Interner) -> int:
    """Add the facts of a block; returns how many lines have literals."""
    if not block.isascii():
        _check_utf8(block)
    data = np.frombuffer(block, np.uint8)
    kinds, spans = np.empty(block.count(b"\n"), np.uint8), np.empty((6, block.count(b"\n")), np.int64)
    n = _scan(data, kinds, spans)
    kinds, spans = kinds[:n], spans[:, :n]
    odd = spans[:, kinds == _ODD]
    n_literals = _add_odd([block[start:stop] for start, stop in odd[:2].T.tolist()], gathering)
    n_names = len(gathering.entities), len(gathering.relations), len(endings)
    literal = np.ascontiguousarray(spans[:, kinds == _LITERAL])
    gathering.entities.numbers(Spans(data, *literal[:2]))  # only to look at them: no fact uses these
    gathering.relations.numbers(Spans(data, *literal[2:4]))
    endings.numbers(Spans(data, *literal[4:]))
    fact = np.ascontiguousarray(spans[:, kinds == _FACT])
    gathering.add([Spans(data, *fact[first : first + 2]) for first in (0, 2, 4)])
    _check_terms(gathering.entities.spans(n_names[0]))
    _check_terms(gathering.relations.spans(n_names[1]))
    _check_endings(endings.spans(n_names[2]))
    return n_literals + len(literal[0])


def _check_utf8(block: bytes) -> None:
    try:
        block.decode()
    except UnicodeDecodeError as problem:
        raise OddError from problem


def _add_odd(lines: list[bytes], gathering: Gathering) -> int:
    """Add the facts of lines that the scanner does not know; returns how many have literals."""
    import pyoxigraph

    terms: list[bytes] = []
    n_literals = 0
    for quad in _parsed(b"".join(lines)):
        named = (quad.subject, quad.predicate, quad.object)
        if type(quad.object) is pyoxigraph.Literal:
            n_literals += 1
        elif all(type(term) in (pyoxigraph.NamedNode, pyoxigraph.BlankNode) for term in named):
            terms += [_name(term).encode() for term in named]
        else:
            raise OddError
    data = np.frombuffer(b"".join(terms), np.uint8)
    edges = np.cumsum([0, *map(len, terms)])
    gathering.add([Spans(data, edges[role:-1:3].copy(), edges[role + 1 :: 3].copy()) for role in range(3)])
    return n_literals


def _parsed(text: bytes):  # type: ignore[no-untyped-def]
    import pyoxigraph

    try:
        yield from pyoxigraph.parse(io.BytesIO(text), format=pyoxigraph.RdfFormat.N_TRIPLES, without_named_graphs=True)
    except SyntaxError as problem:
        raise OddError from problem


def _name(term) -> str:  # type: ignore[no-untyped-def]
    text: str = str(term)
    return text[1:-1] if text.startswith("<") else text


def _check_terms(names: Spans) -> None:
    """Have pyoxigraph read the names that are not plain."""
    odd = np.flatnonzero(~_are_plain(names.data, names.starts, names.stops))
    terms = [names.data[names.starts[i] : names.stops[i]].tobytes() for i in odd.tolist()]
    lines = [b"%b <x:p> <x:o> .\n" % (term if term.startswith(b"_:") else b"<%b>" % term) for term in terms]
    if [_name(quad.subject).encode() for quad in _parsed(b"".join(lines))] != terms:
        raise OddError


def _check_endings(endings: Spans) -> None:
    """Have pyoxigraph read what follows the literals: a language or a type."""
    pairs = zip(endings.starts.tolist(), endings.stops.tolist(), strict=True)
    lines = [b'<x:s> <x:p> ""%b .\n' % endings.data[start:stop].tobytes() for start, stop in pairs]
    if sum(1 for _ in _parsed(b"".join(lines))) != len(lines):
        raise OddError


# --- kernels


@njit(inline="always")
def _is_blank(letter):  # type: ignore[no-untyped-def]
    return letter in (_SPACE, _TAB)


@njit(inline="always")
def _is_word(letter):  # type: ignore[no-untyped-def]
    """A letter or a digit."""
    return 48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122


@njit(inline="always")
def _after_blanks(data, at):  # type: ignore[no-untyped-def]
    while _is_blank(data[at]):
        at += 1
    return at


@njit(inline="always")
def _after_iri(data, at):  # type: ignore[no-untyped-def]
    """The place behind <…>, or −1; also where its name would read as that of a blank node."""
    at += 1
    if data[at] == _LOW_LINE:
        return -1
    while True:
        letter = data[at]
        if letter == _CLOSE:
            return at + 1
        if letter <= _SPACE or letter in (_OPEN, _QUOTE, _ESCAPE):
            return -1
        at += 1


@njit(inline="always")
def _after_node(data, at):  # type: ignore[no-untyped-def]
    """The place behind an IRI or a blank node's label, or −1; every line ends with a line break, so no scan runs on."""
    if data[at] == _OPEN:
        return _after_iri(data, at)
    if data[at] != _LOW_LINE or data[at + 1] != _COLON:
        return -1
    at += 2
    while not _is_blank(data[at]):
        if data[at] < _SPACE or data[at] == _OPEN or data[at] == _QUOTE or data[at] == _HASH:
            return -1
        at += 1
    return at


@njit(inline="always")
def _after_quotes(data, at):  # type: ignore[no-untyped-def]
    """The place behind "…", or −1."""
    at += 1
    while True:
        letter = data[at]
        if letter == _QUOTE:
            return at + 1
        if letter in (_ESCAPE, _LINE, _RETURN):
            return -1
        at += 1


@njit(inline="always")
def _after_ending(data, at):  # type: ignore[no-untyped-def]
    """The place behind what says the language or the type of a literal."""
    while not _is_blank(data[at]) and data[at] >= _SPACE:
        if data[at] == _OPEN:
            return _after_iri(data, at)
        at += 1
    return at


@njit(inline="always")
def _ends_well(data, at):  # type: ignore[no-untyped-def]
    """Whether only a dot is left of the line."""
    at = _after_blanks(data, at)
    if data[at] != _DOT:
        return False
    at = _after_blanks(data, at + 1)
    return data[at] == _LINE or (data[at] == _RETURN and data[at + 1] == _LINE)


@njit(inline="always")
def _mark(spans, n, role, data, start, stop):  # type: ignore[no-untyped-def]
    """Note a name; the brackets of an IRI are no part of it."""
    bracket = 1 if data[start] == _OPEN else 0
    spans[2 * role, n] = start + bracket
    spans[2 * role + 1, n] = stop - bracket


@njit(inline="always")
def _kind_of_line(data, at, spans, n):  # type: ignore[no-untyped-def]
    """Note the names of the line that starts here with a term."""
    for role in range(2):
        stop = _after_node(data, at) if role == 0 or data[at] == _OPEN else -1
        if stop < 0:
            return _ODD
        _mark(spans, n, role, data, at, stop)
        at = _after_blanks(data, stop)
    if data[at] == _QUOTE:
        start = _after_quotes(data, at)
        if start < 0:
            return _ODD
        stop = _after_ending(data, start)
        spans[4, n], spans[5, n] = start, stop
        return _LITERAL if stop >= 0 and _ends_well(data, stop) else _ODD
    stop = _after_node(data, at)
    if stop < 0 or not _ends_well(data, stop):
        return _ODD
    _mark(spans, n, 2, data, at, stop)
    return _FACT


@njit(nogil=True, cache=True)
def _scan(data, kinds, spans):  # type: ignore[no-untyped-def]
    """For each line that is not empty its kind, and where its names or, if it is odd, its text stands."""
    n = 0
    at = 0
    while at < len(data):
        start = at
        first = _after_blanks(data, start)
        empty = data[first] == _LINE or (data[first] == _RETURN and data[first + 1] == _LINE)
        kinds[n] = _ODD if empty else _kind_of_line(data, first, spans, n)
        at = first
        while data[at] != _LINE:
            at += 1
        at += 1
        if kinds[n] == _ODD:
            spans[0, n], spans[1, n] = start, at
        if not empty:
            n += 1
    return n


@njit(nogil=True, cache=True)
def _are_plain(data, starts, stops):  # type: ignore[no-untyped-def]
    """Which names are sound beyond doubt: ASCII, a scheme, a simple host, no letter where it may not be."""
    plain = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        at, stop = starts[i], stops[i]
        if stop - at > 2 and data[at] == _LOW_LINE and data[at + 1] == _COLON:
            at += 2
            while at < stop and (_is_word(data[at]) or data[at] == _LOW_LINE):
                at += 1
            plain[i] = at == stop
            continue
        if at == stop or not _is_word(data[at]) or data[at] < 65:
            continue
        while at < stop and _is_word(data[at]):
            at += 1
        if at == stop or data[at] != _COLON:
            continue
        at += 1
        if at + 1 < stop and data[at] == _SLASH and data[at + 1] == _SLASH:
            at += 2
            while at < stop and (_is_word(data[at]) or data[at] == _DOT or data[at] == 45):
                at += 1
            if at < stop and data[at] != _SLASH:
                continue
        fragments = 0
        while at < stop:
            letter = data[at]
            if letter == _PERCENT:
                if at + 2 >= stop or not (_is_hex(data[at + 1]) and _is_hex(data[at + 2])):
                    break
            elif letter == _HASH:
                fragments += 1
                if fragments > 1:
                    break
            elif not (_is_word(letter) or _is_path(letter)):
                break
            at += 1
        plain[i] = at == stop
    return plain


@njit(inline="always")
def _is_hex(letter):  # type: ignore[no-untyped-def]
    return 48 <= letter <= 57 or 65 <= letter <= 70 or 97 <= letter <= 102


@njit(inline="always")
def _is_path(letter):  # type: ignore[no-untyped-def]
    """One of !$&'()*+,-./:;=?@_~"""
    return (
        letter == 33
        or letter == 36
        or 38 <= letter <= 47
        or 58 <= letter <= 59
        or letter == 61
        or 63 <= letter <= 64
        or letter == _LOW_LINE
        or letter == 126
    )

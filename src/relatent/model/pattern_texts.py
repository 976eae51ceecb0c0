"""Patterns in plain words: bought(x,y), or what is known of a certain pair."""

from __future__ import annotations

from collections.abc import Callable, Container

from ..data.names import Names
from .patterns import ALIKE, OF_SUBJECT, PATHS, Kind, Pattern, Patterns
from .provenance import PatternSummary, WeightedPattern
from .step_graph import Body

NameOf = Callable[[int], str]  # of a relation
N_STRONGEST = 10  # listed of a model


def body_text(name: NameOf, body: Body) -> str:
    """Steps from x to y: has_parent(x,z) ∧ has_parent(z,y)."""
    ends = ("x", "y") if len(body) == 1 else ("x", "z", "y")
    return " ∧ ".join(_atom(name, step, ends[i], ends[i + 1]) for i, step in enumerate(body))


def body_of(pattern: Pattern) -> Body:
    """The steps of a pattern that is a step or a path; () of any other."""
    return tuple(step for step in pattern[1:] if step >= 0) if pattern.kind in (Kind.STEP, *PATHS) else ()


def merged(pattern: Pattern) -> Pattern:
    """The pattern that says the same to a reader: the number of paths, or of facts of an end."""
    kind, a, b = pattern
    if kind in PATHS:
        return Pattern(Kind.N_PATHS, a, b)
    if kind in (Kind.SUBJECT_HAS, Kind.OBJECT_HAS):
        return Pattern(Kind.SUBJECT_DEGREE if kind == Kind.SUBJECT_HAS else Kind.OBJECT_DEGREE, a)
    return pattern


def general_text(name: NameOf, pattern: Pattern) -> str:
    """A pattern of any pair."""
    kind, a, _ = pattern
    if body := body_of(pattern):
        return body_text(name, body)
    if kind == Kind.SAME:
        return "x is y"
    if kind in ALIKE:
        return _alike(name, pattern, "x", "y", "how many")
    end, role = "x" if kind in OF_SUBJECT else "y", "object" if a % 2 else "subject"
    return f"how many facts of {name(a // 2)} have {end} as {role}"


def text(
    name: NameOf, pattern: Pattern, amount: float, x: str, y: str, relation: int, undirected: Container[int]
) -> str:
    """What a pattern says of a pair for which a relation is asked, given its number or share."""
    kind, a, _ = pattern
    if body := body_of(pattern):
        return ("" if amount else "no ") + body_text(name, body)
    if kind == Kind.SAME:
        return "both are one entity" if amount else "they are two entities"
    if kind in ALIKE:
        share = f"{amount:.0%}" if amount >= 0.1 else f"{amount:.1%}" if amount else "none"
        return _alike(name, pattern, x, y, share)
    role = "in" if a // 2 in undirected else "object of" if a % 2 else "subject of"
    number = f"{round(amount):,}" if amount else "no"
    what = f"{'other ' if a // 2 == relation else ''}{'fact' if round(amount) == 1 else 'facts'}"
    return f"{x if kind in OF_SUBJECT else y} is {role} {number} {what} of {name(a // 2)}"


def summary(patterns: Patterns, relations: Names) -> PatternSummary:
    """How many patterns there are and the strongest, by log-odds per standard deviation."""
    found: dict[tuple[str, str], float] = {}
    for k in range(len(relations)):
        deviations = patterns.usual(k).deviation.tolist()
        for (pattern, weight), deviation in zip(patterns.of(k), deviations, strict=True):
            key, value = (relations[k], general_text(relations.shown, merged(pattern))), weight * deviation
            found[key] = max(found.get(key, 0.0), value, key=abs)
    strongest = sorted(found.items(), key=lambda item: -abs(item[1]))[:N_STRONGEST]
    rows = tuple(WeightedPattern(relation, text, weight) for (relation, text), weight in strongest)
    return PatternSummary(len(patterns.codes) + len(patterns.pairs), rows)


def _alike(name: NameOf, pattern: Pattern, x: str, y: str, share: str) -> str:
    kind, a, _ = pattern
    if kind == Kind.ALIKE_SUBJECTS:
        return f"{share} of those that share {_atom(name, a, 'x', 'z')} with {x} have {y}"
    return f"{x} has {share} of those that share {_atom(name, a ^ 1, 'z', 'y')} with {y}"


def _atom(name: NameOf, step: int, x: str, y: str) -> str:
    ends = (y, x) if step % 2 else (x, y)
    return f"{name(step // 2)}({','.join(ends)})"

"""Patterns in plain words: bought(x,y), or what is known of a certain pair."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from itertools import pairwise

from ..data.names import Names
from ..errors import InputError
from .patterns import ALIKE, OF_SUBJECT, PATHS, Kind, Pattern, Patterns
from .provenance import PatternSummary, WeightedPattern
from .step_graph import Body

NameOf = Callable[[int], str]  # of a relation
N_STRONGEST = 10  # listed of a model
FIGURES = r"(?:\s+[-+]?[\d.,]+)*"  # support and confidence, or a weight, behind a rule that was printed
ATOM, HEAD = re.compile(r"(.+)\((\w+), ?(\w+)\)"), re.compile(rf"(.+)\(x, ?y\){FIGURES}")


def body_text(name: NameOf, body: Body) -> str:
    """Steps from x to y: has_parent(x,z) ∧ has_parent(z,y)."""
    ends = ("x", "y") if len(body) == 1 else ("x", "z", "y")
    return " ∧ ".join(_atom(name, step, ends[i], ends[i + 1]) for i, step in enumerate(body))


def rule_of(text: str, relations: Names, undirected: Container[int]) -> tuple[int, Pattern]:
    """The head of a rule, and the pattern that is its body: the inverse of `body_text`; & and => will do."""
    *body, head = re.split(r"\s*(?:⇒|=>)\s*", text.strip())
    found = HEAD.fullmatch(head)
    atoms = [ATOM.fullmatch(atom) for atom in re.split(r"(?<=\))\s*[∧&]\s*", body[0])] if len(body) == 1 else []
    steps: Body = ()
    if found is not None and all(atoms) and len(atoms) in (1, 2):
        names, ends = zip(*((atom[1], (atom[2], atom[3])) for atom in atoms if atom is not None), strict=True)
        steps = _steps(relations.ids(list(names)).tolist(), ends, undirected)
    if found is None or not steps:
        example = "born_in(x,z) ∧ located_in(z,y) ⇒ citizen_of(x,y)"
        raise InputError(f"a rule has one or two steps between x and y, as in {example!r}, got {text!r}")
    relation = int(relations.ids([found[1]])[0])
    if steps == (2 * relation,):
        raise InputError(f"a rule must say more than its head, got {text!r}")
    return relation, Pattern(Kind.STEP if len(steps) == 1 else Kind.ANY_PATH, *steps)


def _steps(relations: list[int], ends: tuple[tuple[str, str], ...], undirected: Container[int]) -> Body:
    """The steps from x to y that atoms are, in either order; () if they do not lead there."""
    between = sorted({end for pair in ends for end in pair} - {"x", "y"})
    found = [
        [
            2 * k + (pair[0] != start) * (k not in undirected)
            for k, pair in zip(relations, ends, strict=True)
            if {*pair} == {start, end}
        ]
        for start, end in pairwise(["x", *between, "y"])
    ]
    is_path = len(found) == len(ends) and all(len(steps) == 1 for steps in found)
    return tuple(steps[0] for steps in found) if is_path else ()


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

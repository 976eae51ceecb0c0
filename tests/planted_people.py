"""People with names and facts, some of whom have a second record: a graph with planted duplicates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from relatent import Facts

FIRST = [  # the commonest first
    "Anna", "Björn", "Jörg", "Jürgen", "Maria", "Peter", "Klaus", "Sabine", "Petra", "Thomas", "Stefan", "Martina",
    "Martin", "Ursula", "Karin", "Michael", "Andreas", "Monika", "Wolfgang", "Susanne", "Gabriele", "Frank",
    "Birgit", "Heike", "Uwe", "Dieter", "Renate", "Ralf", "Claudia", "Markus", "Jan", "Jana", "Lena", "Laura",
    "Tim", "Felix", "Sören", "Zoé", "Renée", "Günther", "Käthe", "Ingrid", "Horst", "Helga", "Erika", "Otto",
    "Emil", "Ida", "Frieda", "Konrad",
]  # fmt: skip
LAST = [  # the commonest first
    "Müller", "Schmidt", "Schneider", "Fischer", "Weber", "Meyer", "Wagner", "Becker", "Schulz", "Hoffmann",
    "Schäfer", "Koch", "Bauer", "Richter", "Klein", "Wolf", "Schröder", "Neumann", "Schwarz", "Zimmermann", "Braun",
    "Krüger", "Hofmann", "Hartmann", "Lange", "Schmitt", "Werner", "Krause", "Meier", "Lehmann", "Köhler",
    "Herrmann", "König", "Walter", "Huber", "Kaiser", "Fuchs", "Peters", "Lang", "Scholz", "Möller", "Weiß", "Jung",
    "Hahn", "Schubert", "Vogel", "Friedrich", "Keller", "Günter", "Frank", "Berger", "Winkler", "Roth", "Beck",
    "Lorenz", "Baumann", "Franke", "Albrecht", "Schuster", "Simon", "Ludwig", "Böhm", "Winter", "Kraus", "Martin",
    "Schumacher", "Krämer", "Vogt", "Stein", "Jäger", "Otto", "Sommer", "Groß", "Seidel", "Heinrich", "Brandt",
    "Haas", "Schreiber", "Graf", "Schulte", "Dietrich", "Ziegler", "Kuhn", "Kühn", "Pohl", "Engel", "Horn", "Busch",
    "Bergmann", "Thomas", "Voigt", "Sauer", "Arnold", "Wolff", "Pfeiffer",
]  # fmt: skip


def people(
    respelled: Callable[[str, np.random.Generator], str],
    n: int = 180,
    n_copies: int = 10,
    n_families: int = 10,
    shared: tuple[float, ...] = (0.0, 0.3),
    seed: int = 0,
) -> tuple[Facts, set[frozenset[str]]]:
    """A graph, and the pairs of names that denote one person.

    Families of three have one surname, one town and one firm. The second record of a
    person has the name `respelled`; a fact is in both records with a probability from `shared`, else in one of them.
    """
    rng = np.random.default_rng(seed)
    first, last = (1 / (5 + np.arange(len(pool))) for pool in (FIRST, LAST))
    names: list[str] = []
    family: list[int] = []  # of each person: the number of its first member
    while len(names) < n:
        surname, number = rng.choice(LAST, p=last / last.sum()), len(names)
        size = 3 if number < 3 * n_families else 1
        for given in rng.choice(FIRST, size, replace=False, p=first / first.sum()):
            if f"{surname}, {given}" not in names:
                names.append(f"{surname}, {given}")
                family.append(number)
    town = dict(zip(family, rng.integers(12, size=len(family)).tolist(), strict=True))
    firm = dict(zip(family, rng.integers(2, size=len(family)).tolist(), strict=True))
    rows: list[tuple[str, str, str]] = []
    for i, name in enumerate(names):
        home = town[family[i]]
        rows += [(name, "lives_in", f"Town {'ABCDEFGHIJKL'[home]}")]
        rows += [(name, "works_in", f"Firm {'ABCDEFGHIJKLMNOPQRSTUVWX'[2 * home + firm[family[i]]]}")]
        rows += [(name, "studied", f"Subject {'ABCDEFGHIJ'[rng.integers(10)]}")]
        rows += [(name, "speaks", f"Language {'ABCDEF'[k]}") for k in rng.choice(6, 2, replace=False)]
        near = [j for j in range(len(names)) if j != i and town[family[j]] == home]
        rows += [(name, "knows", names[j]) for j in rng.choice(near, min(4, len(near)), replace=False)]
        rows += [(name, "knows", names[j]) for j in rng.choice(len(names), 1) if j != i]
    truth: dict[str, str] = {}
    for i in rng.permutation(len(names)).tolist():
        copy = respelled(names[i], rng)
        if len(truth) < n_copies and copy not in names and copy not in truth.values():
            truth[names[i]] = copy
    fraction = dict(zip(truth, np.resize(shared, len(truth)), strict=True))
    for column in (0, 2):
        extra = []
        for at, row in enumerate(rows):
            if row[column] not in truth:
                continue
            u, fields = rng.random(), list(row)
            fields[column] = truth[row[column]]
            if u < fraction[row[column]]:
                extra.append(tuple(fields))
            elif u < (1 + fraction[row[column]]) / 2:
                rows[at] = tuple(fields)  # type: ignore[assignment]
        rows += extra  # type: ignore[arg-type]
    have = {name for row in rows for name in row}
    facts = Facts.from_arrays(*map(list, zip(*rows, strict=True)))
    return facts, {frozenset(pair) for pair in truth.items() if have.issuperset(pair)}

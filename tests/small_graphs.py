"""Small graphs whose answer is known, and plain ways to compute it."""

from __future__ import annotations

import numpy as np

from relatent.data.facts import Facts

NO_FACTS = ([], [], [])


def blocks(n: int = 24, groups: int = 3, n_relations: int = 2, seed: int = 0) -> Facts:
    """Entity i belongs to group i mod `groups`; whether a relation holds depends on the two groups alone.

    The tensor has rank `groups`: a model of that rank and no penalty reproduces every cell.
    """
    rng = np.random.default_rng(seed)
    holds = rng.random((n_relations, groups, groups)) < 0.4
    for k in range(n_relations):  # no two groups alike, none without facts, and every relation one-way
        holds[k][np.arange(groups), (np.arange(groups) + 1) % groups] = True
        holds[k][(np.arange(groups) + 1) % groups, np.arange(groups)] = False
    group = np.arange(n) % groups
    X = holds[:, group[:, None], group[None, :]]  # (K, N, N)
    return Facts.from_tensor(X.transpose(1, 2, 0).astype(float))


def chain(n: int = 12) -> Facts:
    """One relation, one way: 0 → 1 → 2 → …"""
    return Facts.from_arrays(np.arange(n - 1), np.zeros(n - 1, int), np.arange(1, n), relation_names=["next"])


def marriages(n: int = 20) -> Facts:
    """A symmetric relation: the first half is married to the second; and a one-way one, `adores`."""
    half = np.arange(n // 2)
    s = np.concatenate([half, half + n // 2, half])
    o = np.concatenate([half + n // 2, half, (half + 1) % (n // 2)])
    return Facts.from_arrays(s, np.repeat([1, 0], [n, n // 2]), o, relation_names=["adores", "married"])


def cliques(n: int = 24, groups: int = 4) -> Facts:
    """A symmetric relation that can be learned: everyone knows the members of his own group, and nobody else."""
    s, o = np.divmod(np.arange(n * n), n)
    known = (s % groups == o % groups) & (s != o)
    return Facts.from_arrays(s[known], np.zeros(known.sum(), int), o[known], relation_names=["knows"])


def two_camps(n: int = 20) -> Facts:
    """Within a camp all like each other, between camps nobody does: p0, p2, … are one camp, p1, p3, … the other."""
    camp = np.arange(n) % 2
    s, o = np.nonzero((camp[:, None] == camp) & ~np.eye(n, dtype=bool))
    return Facts.from_arrays([f"p{i}" for i in s], ["likes"] * len(s), [f"p{i}" for i in o])


def politics(n_presidents: int = 20, parties: tuple[str, ...] = ("Blue", "Red")) -> Facts:
    """The friend of my party: each president has two vice presidents, all three of one party."""
    facts = []
    for i in range(n_presidents):
        party = parties[i % len(parties)]
        facts.append((f"president {i}", "party", party))
        for j in range(2):
            vice = f"vice {(i + j * len(parties)) % n_presidents}"
            facts.append((f"president {i}", "vicePresident", vice))
            facts.append((vice, "party", party))
    return Facts.from_arrays(*zip(*facts, strict=True))


def random_facts(
    n: int = 20,
    n_relations: int = 3,
    count: int = 60,
    *,
    unobserved: int = 0,
    weighted: bool = False,
    attributes: int = 0,
    seed: int = 0,
) -> Facts:
    """Facts and unobserved cells anywhere; weights from 0 to above 1; attributes with gaps."""
    rng = np.random.default_rng(seed)
    keys = rng.choice(n * n * n_relations, count + unobserved, replace=False)
    k, s, o = np.unravel_index(keys, (n_relations, n, n))
    D = rng.normal(size=(n, attributes)) if attributes else None
    if D is not None:
        D[rng.random(D.shape) < 0.2] = np.nan
    return Facts.from_arrays(
        s[:count],
        k[:count],
        o[:count],
        n_entities=n,
        n_relations=n_relations,
        weights=rng.choice([0.0, 0.3, 1.0, 2.5], count) if weighted else None,
        unobserved=np.stack([s, k, o], axis=1)[count:] if unobserved else None,
        attributes=D,
    )


def with_types(facts: Facts) -> Facts:
    """The facts with three types by turns, one entity of two types, and one without a type."""
    names = list(facts.entities)
    types = {name: {"abc"[i % 3]} for i, name in enumerate(names[:-1])}
    types[names[0]].add("b")
    return facts.with_types(types)


def random_parameters(facts: Facts, rank: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, R and bias whose θ are a few units in size."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(facts.n_entities, rank)) / rank**0.5
    R = rng.normal(size=(facts.n_relations, rank, rank)) * 2
    return A, R, rng.normal(size=facts.n_relations)


def permuted(facts: Facts, order: np.ndarray) -> Facts:
    """The same facts, entity i under the new id order[i]."""
    s, k, o = facts.triples.T
    hs, hk, ho = facts.unobserved.T
    return Facts.from_arrays(
        order[s],
        k,
        order[o],
        n_entities=facts.n_entities,
        n_relations=facts.n_relations,
        weights=facts.weights,
        unobserved=np.stack([order[hs], hk, order[ho]], axis=1),
    )


def all_scores(A: np.ndarray, R: np.ndarray) -> np.ndarray:
    """θ without bias of every cell, (K, N, N)."""
    A = np.asarray(A, np.float64)
    return np.einsum("ip,kpq,jq->kij", A, np.asarray(R, np.float64), A, optimize=True)


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    """‖got − wanted‖ / ‖wanted‖."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    return float(np.linalg.norm(got - wanted) / max(np.linalg.norm(wanted), 1e-300))


def assert_same_sums(got, wanted, tolerance):
    """A sum over cells and its derivatives agree."""
    assert abs(got.value - wanted.value) <= tolerance * max(abs(wanted.value), 1)
    for name in ("dA", "dR", "db"):
        assert relative_error(getattr(got, name), getattr(wanted, name)) <= tolerance, name


Fact = tuple[str, str, str]


def exceptions_to_rules(seed: int = 0) -> tuple[Facts, tuple[Fact, Fact], tuple[Fact, Fact]]:
    """People, some married, who buy some of the items that they view; one mirror and one view are not listed.

    Returns the facts, the marriage that is not listed and its mirror, and the view that is not listed and its purchase.
    """
    rng = np.random.default_rng(seed)
    n_couples, n_items = 40, 40
    people = [f"person {i}" for i in rng.permutation(140)]
    couples = list(zip(people[:n_couples], people[n_couples : 2 * n_couples], strict=True))
    rows = [fact for a, b in couples for fact in ((a, "married to", b), (b, "married to", a))]
    liked = 0.7 * rng.dirichlet(np.full(n_items, 0.5)) + 0.3 / n_items
    for person in people:
        viewed = np.unique(rng.choice(n_items, size=rng.integers(1, 10), p=liked))
        bought = viewed[rng.random(len(viewed)) < 0.4]
        rows += [(person, what, f"item {i}") for what, items in (("viewed", viewed), ("bought", bought)) for i in items]
    purchase = [row for row in rows if row[1] == "bought"][7]
    marriage, view = (rows[1], rows[0]), ((purchase[0], "viewed", purchase[2]), purchase)
    rows = [row for row in rows if row not in (marriage[0], view[0])]
    return Facts.from_arrays(*zip(*rows, strict=True)), marriage, view

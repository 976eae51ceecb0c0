"""Sparse graphs as people have them: typed entities, planted rules, noise, and popular entities with many facts.

Each kind has about 2,000 entities, 8 relations and 9,000 facts. Some relations follow from others (who is born in a
city is a citizen of its country), some from hidden groups (who acts together), and some hardly at all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from relatent import Facts

Rows = list[tuple[str, str, str]]


class _Draw:
    """Random choices by one generator."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def names(self, kind: str, count: int) -> list[str]:
        return [f"{kind}_{i}" for i in range(count)]

    def popularity(self, count: int, exponent: float = 0.8) -> NDArray[np.float64]:
        """Shares that fall like a power of the place in a random order."""
        shares = (1.0 + self.rng.permutation(count)) ** -exponent
        return shares / shares.sum()

    def one(self, among: list[str], shares: NDArray[np.float64] | None = None) -> str:
        return among[self.rng.choice(len(among), p=shares)]

    def some(self, among: list[str], mean: float, shares: NDArray[np.float64] | None = None) -> list[str]:
        """A Poisson number of different ones."""
        count = min(int(self.rng.poisson(mean)), len(among) if shares is None else int((shares > 0).sum()))
        return [among[i] for i in self.rng.choice(len(among), count, replace=False, p=shares)]

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def groups(self, among: list[str], count: int) -> dict[str, int]:
        """A hidden group of each."""
        return dict(zip(among, self.rng.choice(count, len(among), p=self.popularity(count, 0.5)).tolist(), strict=True))


def _within(names: list[str], groups: dict[str, int], group: int, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shares of one group's members; of all if it has none."""
    inside = shares * np.array([groups[name] == group for name in names])
    return inside / inside.sum() if inside.sum() > 0 else shares


def films(seed: int) -> Rows:
    """People, films, cities, studios, countries and genres."""
    draw, rows = _Draw(seed), []
    people, works = draw.names("person", 1200), draw.names("film", 480)
    cities, studios = draw.names("city", 180), draw.names("studio", 60)
    countries, genres = draw.names("country", 25), draw.names("genre", 18)
    country_of = {city: draw.one(countries, draw.popularity(25)) for city in cities}
    rows += [(city, "located_in", country) for city, country in country_of.items()]
    seat = {studio: draw.one(cities) for studio in studios}
    rows += [(studio, "based_in", city) for studio, city in seat.items()]
    home: dict[str, str] = {}
    size = draw.popularity(len(cities))
    for person in people:
        home[person] = draw.one(cities, size)
        rows.append((person, "born_in", home[person]))
        nation = country_of[home[person]] if draw.happens(0.9) else draw.one(countries)
        rows.append((person, "citizen_of", nation))
    nations = {person: countries.index(country_of[home[person]]) for person in people}
    fame, taste = draw.popularity(len(people)), draw.popularity(len(genres), 0.5)
    for person in people[::2]:
        partner = draw.one(people, _within(people, nations, nations[person], fame))
        if draw.happens(0.6) and partner != person:
            rows += [(person, "married_to", partner), (partner, "married_to", person)]
    style = {studio: draw.some(genres, 2, taste) or [draw.one(genres)] for studio in studios}
    for film in works:
        studio = draw.one(studios, None)
        rows.append((film, "made_by", studio))
        rows += [(film, "has_genre", genre) for genre in sorted({draw.one(style[studio]), draw.one(genres, taste)})]
        nation = countries.index(country_of[seat[studio]])
        cast = _within(people, nations, nation, fame)
        shares = 0.75 * cast + 0.25 * fame
        rows += [(person, "acted_in", film) for person in draw.some(people, 6, shares)]
    return rows


def biology(seed: int) -> Rows:
    """Proteins, pathways, diseases, drugs, tissues and symptoms."""
    draw, rows = _Draw(seed), []
    proteins, pathways = draw.names("protein", 1100), draw.names("pathway", 90)
    diseases, drugs = draw.names("disease", 260), draw.names("drug", 320)
    tissues, symptoms = draw.names("tissue", 40), draw.names("symptom", 120)
    complex_of = draw.groups(proteins, 150)
    members = {g: [p for p in proteins if complex_of[p] == g] for g in range(150)}
    paths = {g: draw.some(pathways, 1.0, draw.popularity(90)) or [draw.one(pathways)] for g in range(150)}
    homes = {g: draw.some(tissues, 1.5, draw.popularity(40)) or [draw.one(tissues)] for g in range(150)}
    hub = draw.popularity(len(proteins), 0.6)
    in_path: dict[str, list[str]] = {p: [] for p in pathways}
    for protein in proteins:
        group = complex_of[protein]
        for path in paths[group]:
            if draw.happens(0.85):
                rows.append((protein, "part_of", path))
                in_path[path].append(protein)
        rows += [(protein, "expressed_in", t) for t in homes[group] if draw.happens(0.8)]
        near = draw.some(members[group], 1.2)
        for other in sorted({*near, *draw.some(proteins, 0.3, hub)} - {protein}):
            rows += [(protein, "interacts_with", other), (other, "interacts_with", protein)]
    signs: dict[str, list[str]] = {}
    causes: dict[str, set[str]] = {}
    common = draw.popularity(120)
    for disease in diseases:
        path = draw.one(pathways)
        causes[disease] = {*draw.some(in_path[path] or proteins, 3.5), *draw.some(proteins, 0.5, hub)}
        rows += [(protein, "associated_with", disease) for protein in sorted(causes[disease])]
        signs[path] = signs.get(path) or draw.some(symptoms, 3, common)
        rows += [(disease, "has_symptom", s) for s in sorted({*signs[path], *draw.some(symptoms, 1, common)})]
    for drug in drugs:
        goal = draw.one(diseases)
        targets = {*draw.some(sorted(causes[goal]) or proteins, 1.5), *draw.some(proteins, 0.4, hub)}
        rows += [(drug, "targets", protein) for protein in sorted(targets)]
        treated = [d for d in diseases if causes[d] & targets and draw.happens(0.7)]
        rows += [(drug, "treats", d) for d in sorted({*treated[:6], *draw.some(diseases, 0.2)})]
    return rows


def shopping(seed: int) -> Rows:
    """Customers, products, brands, categories, cities and shops."""
    draw, rows = _Draw(seed), []
    users, products = draw.names("user", 1000), draw.names("product", 650)
    brands, categories = draw.names("brand", 70), draw.names("category", 45)
    cities, shops = draw.names("city", 60), draw.names("shop", 150)
    group_of, taste_of = draw.groups(users, 40), draw.groups(categories, 12)
    selling = {b: draw.some(categories, 2, None) or [draw.one(categories)] for b in brands}
    category: dict[str, str] = {}
    for product in products:
        brand = draw.one(brands, None)
        category[product] = draw.one(selling[brand])
        rows += [(product, "made_by", brand), (product, "belongs_to", category[product])]
    product_taste = {p: taste_of[category[p]] for p in products}
    town = {g: draw.one(cities, draw.popularity(60)) for g in range(40)}
    liking = {g: draw.some([str(i) for i in range(12)], 2) or ["0"] for g in range(40)}
    popular, active = draw.popularity(650), draw.popularity(1000, 0.6)
    for user in users:
        group = group_of[user]
        rows.append((user, "lives_in", town[group] if draw.happens(0.8) else draw.one(cities)))
        taste = int(draw.one(liking[group]))
        shares = 0.7 * _within(products, product_taste, taste, popular) + 0.3 * popular
        rows += [(user, "bought", p) for p in draw.some(products, 2.5, shares)]
        friends = _within(users, group_of, group, active)
        for friend in sorted({*draw.some(users, 0.8, friends), *draw.some(users, 0.2, active)} - {user}):
            rows += [(user, "knows", friend), (friend, "knows", user)]
    for shop in shops:
        rows.append((shop, "located_in", draw.one(cities)))
        rows += [(shop, "sells", brand) for brand in draw.some(brands, 5)]
    return rows


def taxonomy(seed: int) -> Rows:
    """Terms in a tree, with parts, synonyms, topics and places; few facts per entity."""
    draw, rows = _Draw(seed), []
    terms, topics = draw.names("term", 1700), draw.names("topic", 60)
    regions, languages = draw.names("region", 120), draw.names("language", 30)
    parent: dict[int, int] = {}
    for i in range(1, len(terms)):
        parent[i] = int(draw.rng.integers(0, i)) if draw.happens(0.25) else int(draw.rng.integers(0, 1 + i // 6))
        rows.append((terms[i], "is_a", terms[parent[i]]))
    root = {i: i for i in range(12)}
    for i in range(12, len(terms)):
        root[i] = root[parent[i]]
    field = {i: draw.one(topics) for i in range(12)}
    speech = {region: draw.one(languages, draw.popularity(30)) for region in regions}
    rows += [(region, "speaks", language) for region, language in speech.items()]
    rows += [(regions[i], "within", regions[int(draw.rng.integers(0, 1 + i // 4))]) for i in range(1, 120)]
    for i, term in enumerate(terms):
        if draw.happens(0.6):
            rows.append((term, "has_topic", field[root[i]] if draw.happens(0.7) else draw.one(topics)))
        for _ in range(int(draw.rng.poisson(0.7))):
            other = terms[(i * 7 + int(draw.rng.integers(0, 5))) % len(terms)]
            if other != term:
                rows += [(term, "related_to", other), (other, "related_to", term)]
        if i and draw.happens(0.5):
            rows.append((terms[parent[i]], "has_part", term))
        if draw.happens(0.4):
            region = draw.one(regions)
            rows += [(term, "found_in", region)]
            if draw.happens(0.7):
                rows.append((term, "named_in", speech[region]))
    return rows


KINDS: dict[str, Callable[[int], Rows]] = {
    "films": films,
    "biology": biology,
    "shopping": shopping,
    "taxonomy": taxonomy,
}


def sparse_graph(kind: str, seed: int) -> Facts:
    """The facts of one kind of graph."""
    subjects, relations, objects = zip(*dict.fromkeys(KINDS[kind](seed)), strict=True)
    return Facts.from_arrays(subjects, relations, objects)

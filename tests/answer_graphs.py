"""Data as a new user brings it, with planted truth: each function returns all true facts of one kind of world.

Hidden structure (departments, pathways, tastes) decides a part of the facts and chance the rest, so that some withheld
facts can be foreseen, some can be narrowed down, and some cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from relatent import Facts

Shares = NDArray[np.float64]


def company(seed: int) -> Facts:
    """People of departments, which decide about offices, managers, projects and skills: 21,500 facts."""
    rng = np.random.default_rng(seed)
    n_people, n_departments, n_offices, n_projects, n_skills, n_cities = 2300, 60, 30, 300, 180, 15
    office_of = rng.integers(0, n_offices, n_departments)
    city_of = rng.choice(n_cities, n_offices, p=_popularity(rng, n_cities))
    size = _popularity(rng, n_departments, 0.6)
    department_of = rng.choice(n_departments, n_people, p=size)
    owner_of = rng.choice(n_departments, n_projects, p=size)
    skills, projects = _popularity(rng, n_skills), _popularity(rng, n_projects, 0.4)
    pools = [_mix(0.85, skills, rng.choice(n_skills, 10, replace=False)) for _ in range(n_departments)]
    rows = [(f"office_{i}", "located_in", f"city_{city_of[i]}") for i in range(n_offices)]
    for i in range(n_projects):
        rows.append((f"project_{i}", "run_by", f"department_{owner_of[i]}"))
        rows += [(f"project_{i}", "needs_skill", f"skill_{j}") for j in _some(rng, 3, pools[owner_of[i]])]
    for d in range(n_departments):
        staff = np.flatnonzero(department_of == d)
        leads = staff[: 1 + len(staff) // 9]
        rows += [(f"person_{i}", "reports_to", f"person_{leads[0]}") for i in leads[1:]]
        rows += [(f"person_{i}", "reports_to", f"person_{rng.choice(leads)}") for i in staff[len(leads) :]]
        own = _mix(0.85, projects, np.flatnonzero(owner_of == d))
        for i in staff:
            office = office_of[d] if rng.random() < 0.85 else rng.integers(n_offices)
            city = city_of[office] if rng.random() < 0.85 else rng.integers(n_cities)
            rows.append((f"person_{i}", "works_in", f"department_{d}"))
            rows.append((f"person_{i}", "based_at", f"office_{office}"))
            rows.append((f"person_{i}", "lives_in", f"city_{city}"))
            rows += [(f"person_{i}", "works_on", f"project_{j}") for j in _some(rng, 2, own)]
            rows += [(f"person_{i}", "has_skill", f"skill_{j}") for j in _some(rng, 2.9, pools[d])]
    return _facts(rows)


def medicine(seed: int) -> Facts:
    """Drugs, genes, diseases, pathways and symptoms with long tails; interactions of genes are mostly chance."""
    rng = np.random.default_rng(seed)
    n_genes, n_drugs, n_diseases, n_symptoms, n_pathways = 3000, 700, 600, 300, 200
    hubs, common, wide = _popularity(rng, n_genes, 0.8), _popularity(rng, n_symptoms), _popularity(rng, n_pathways)
    paths_of = [_some(rng, 1.2, wide, at_least=1) for _ in range(n_genes)]
    genes_of = [[g for g in range(n_genes) if p in paths_of[g]] for p in range(n_pathways)]
    signs = [_mix(0.8, common, rng.choice(n_symptoms, 6, replace=False)) for _ in range(n_pathways)]
    rows = [(f"gene_{g}", "takes_part_in", f"pathway_{p}") for g in range(n_genes) for p in paths_of[g]]
    for a in rng.choice(n_genes, 6400, p=hubs):
        alike = rng.random() < 0.25
        b = rng.choice(genes_of[rng.choice(paths_of[a])]) if alike else rng.choice(n_genes, p=hubs)
        if a != b:
            rows += [(f"gene_{a}", "interacts", f"gene_{b}"), (f"gene_{b}", "interacts", f"gene_{a}")]
    causes, diseases_of = [], [[] for _ in range(n_genes)]
    for d in range(n_diseases):
        path = rng.choice(n_pathways, p=wide)
        causes.append(_some(rng, rng.lognormal(2.0, 0.8), _mix(0.7, hubs, genes_of[path]), at_least=1))
        rows += [(f"gene_{g}", "associated_with", f"disease_{d}") for g in causes[d]]
        rows += [(f"disease_{d}", "has_symptom", f"symptom_{s}") for s in _some(rng, 4, signs[path], at_least=1)]
        for g in causes[d]:
            diseases_of[g].append(d)
    for d in range(n_drugs):
        goal, kind = rng.integers(n_diseases), rng.choice(n_pathways, p=wide)
        targets = _some(rng, rng.lognormal(1.0, 0.7), _mix(0.7, hubs, causes[goal]), at_least=1)
        treated = {goal, *(x for g in targets for x in diseases_of[g] if rng.random() < 0.02)}
        rows += [(f"drug_{d}", "targets", f"gene_{g}") for g in targets]
        rows += [(f"drug_{d}", "treats", f"disease_{x}") for x in sorted(treated)]
        rows += [(f"drug_{d}", "has_side_effect", f"symptom_{s}") for s in _some(rng, 6, signs[kind])]
    return _facts(rows)


def family(seed: int) -> Facts:
    """660 people of families: every fact follows from who is a parent or a spouse of whom, without exceptions."""
    rng = np.random.default_rng(seed)
    parents: dict[int, tuple[int, int]] = {}
    couples, count = [(2 * i, 2 * i + 1) for i in range(90)], 180
    spouses = list(couples)
    while count < 660:
        born: list[int] = []
        for couple in couples:
            children = list(range(count, min(count + int(rng.poisson(2.1)), 660)))
            parents |= dict.fromkeys(children, couple)
            count += len(children)
            born += children
        rng.shuffle(born)
        pairs = zip(born[::2], born[1::2], strict=False)
        couples = [(a, b) for a, b in pairs if parents[a] != parents[b] and rng.random() < 0.85]
        if not couples:  # two of the youngest meet people from elsewhere
            couples, count = [(born[-1], count)], count + 1
        spouses += couples
    rows = []
    for a, b in spouses:
        rows += [(f"person_{a}", "spouse", f"person_{b}"), (f"person_{b}", "spouse", f"person_{a}")]
    for child, both in parents.items():
        for parent in both:
            rows.append((f"person_{child}", "has_parent", f"person_{parent}"))
            rows.append((f"person_{parent}", "has_child", f"person_{child}"))
            rows += [(f"person_{child}", "has_grandparent", f"person_{g}") for g in parents.get(parent, ())]
        siblings = [other for other in parents if parents[other] == both and other != child]
        rows += [(f"person_{child}", "sibling", f"person_{other}") for other in siblings]
    return _facts(rows)


def shop(seed: int) -> Facts:
    """Customers of hidden tastes who look at products of a few categories and buy some of them: 29,000 facts."""
    rng = np.random.default_rng(seed)
    n_customers, n_products, n_categories, n_tastes = 1200, 860, 40, 15
    category_of = rng.choice(n_categories, n_products, p=_popularity(rng, n_categories, 0.4))
    fame = _popularity(rng, n_products, 0.7)
    tastes = []
    for _ in range(n_tastes):
        liked = rng.choice(n_categories, 4, replace=False)
        tastes.append(_mix(0.75, fame, np.flatnonzero(np.isin(category_of, liked))))
    rows = [(f"product_{i}", "category", f"category_{category_of[i]}") for i in range(n_products)]
    for i in range(n_customers):
        shares = tastes[rng.integers(n_tastes)]
        viewed = _some(rng, rng.lognormal(2.57, 0.75), shares, at_least=1)
        bought = {*viewed[rng.random(len(viewed)) < 0.3], *_some(rng, 0.7, shares)}
        rows += [(f"customer_{i}", "viewed", f"product_{j}") for j in viewed]
        rows += [(f"customer_{i}", "bought", f"product_{j}") for j in sorted(bought)]
    return _facts(rows)


def films(seed: int) -> Facts:
    """People, their cities and countries, and the films of their countries: a small sparse graph of 4,000 facts."""
    rng = np.random.default_rng(seed)
    n_people, n_films, n_cities, n_countries, n_genres = 700, 250, 80, 15, 15
    land = rng.choice(n_countries, n_cities, p=_popularity(rng, n_countries, 0.6))
    born_in = rng.choice(n_cities, n_people, p=_popularity(rng, n_cities, 0.7))
    moved, elsewhere = rng.random(n_people) < 0.1, rng.integers(0, n_countries, n_people)
    nation = np.where(moved, elsewhere, land[born_in])
    fame, taste = _popularity(rng, n_people, 0.7), _popularity(rng, n_genres, 0.6)
    compatriots = [_mix(0.85, fame, np.flatnonzero(nation == c)) for c in range(n_countries)]
    rows = [(f"city_{i}", "located_in", f"country_{land[i]}") for i in range(n_cities)]
    single = set(range(n_people))
    for i in range(n_people):
        rows.append((f"person_{i}", "born_in", f"city_{born_in[i]}"))
        rows.append((f"person_{i}", "citizen_of", f"country_{nation[i]}"))
        partner = int(rng.choice(n_people, p=compatriots[nation[i]]))
        if {i, partner} <= single and i != partner and rng.random() < 0.6:
            single -= {i, partner}
            rows += [(f"person_{i}", "spouse", f"person_{partner}"), (f"person_{partner}", "spouse", f"person_{i}")]
    for i in range(n_films):
        director = int(rng.choice(n_people, p=fame))
        country, style = nation[director], director % n_genres  # a director keeps to a genre
        rows.append((f"person_{director}", "directed", f"film_{i}"))
        rows.append((f"film_{i}", "film_country", f"country_{country}"))
        genres = {style if rng.random() < 0.7 else int(rng.choice(n_genres, p=taste)), *_some(rng, 0.7, taste)}
        rows += [(f"film_{i}", "film_genre", f"genre_{g}") for g in sorted(genres)]
        rows += [(f"person_{j}", "acted_in", f"film_{i}") for j in _some(rng, 4.5, compatriots[country])]
    return _facts(rows)


def survey(seed: int) -> Facts:
    """40 people asked 12 questions about each other: 17 % of all cells are true, by group, by person and by chance."""
    rng = np.random.default_rng(seed)
    questions = ["likes", "trusts", "knows", "asks", "helps", "admires"]
    questions += ["visits", "calls", "writes_to", "eats_with", "works_with", "lends_to"]
    n, group = 40, rng.integers(0, 4, 40)
    among_groups, outgoing, liked = rng.normal(size=(12, 4, 4)), rng.normal(size=(12, n)), rng.normal(size=n)
    theta = 1.6 * among_groups[:, group][:, :, group] + 0.7 * outgoing[:, :, None] + 0.7 * liked
    theta += rng.logistic(size=theta.shape)  # the answers of a person are not quite what he thinks
    theta[:, np.arange(n), np.arange(n)] = -np.inf
    k, s, o = np.nonzero(theta > np.quantile(theta, 0.83))
    return _facts((f"person_{i}", questions[q], f"person_{j}") for q, i, j in zip(k, s, o, strict=True))


def coauthors(seed: int) -> Facts:
    """1,500 people of communities who wrote papers together: 6,700 pairs, each listed once in a direction of chance."""
    rng = np.random.default_rng(seed)
    n, n_communities = 1500, 45
    community_of = rng.choice(n_communities, n, p=_popularity(rng, n_communities, 0.5))
    fame = _popularity(rng, n, 0.5)
    circle = [_mix(0.9, fame, np.flatnonzero(community_of == c)) for c in range(n_communities)]
    near: list[list[int]] = [[] for _ in range(n)]
    while sum(map(len, near)) < 13_400:
        a = int(rng.choice(n, p=fame)) if rng.random() < 0.8 else int(rng.integers(n))
        between = near[a][rng.integers(len(near[a]))] if near[a] and rng.random() < 0.6 else None
        b = int(rng.choice(n, p=circle[community_of[a]]) if between is None else rng.choice(near[between]))
        if a != b and b not in near[a]:
            near[a].append(b)
            near[b].append(a)
    pairs = [(a, b) if rng.random() < 0.5 else (b, a) for a in range(n) for b in near[a] if a < b]
    return _facts((f"person_{a}", "coauthor", f"person_{b}") for a, b in pairs)


def projects(seed: int) -> Facts:
    """A department: 120 people of 7 teams, their projects, skills and rooms; 200 entities and 850 facts."""
    rng = np.random.default_rng(seed)
    n_people, n_projects, n_skills, n_rooms, n_teams = 120, 28, 34, 18, 7
    team_of, owner_of = np.sort(rng.integers(0, n_teams, n_people)), rng.integers(0, n_teams, n_projects)
    home = rng.integers(0, n_teams, n_rooms)
    skills = [_mix(0.8, _popularity(rng, n_skills), rng.choice(n_skills, 6, replace=False)) for _ in range(n_teams)]
    rooms = [_mix(0.85, np.full(n_rooms, 1 / n_rooms), np.flatnonzero(home == t)) for t in range(n_teams)]
    work = [_mix(0.8, np.full(n_projects, 1 / n_projects), np.flatnonzero(owner_of == t)) for t in range(n_teams)]
    rows = []
    for i in range(n_projects):
        staff = np.flatnonzero(team_of == owner_of[i])
        rows.append((f"person_{rng.choice(staff)}", "leads", f"project_{i}"))
        rows.append((f"project_{i}", "meets_in", f"room_{rng.choice(n_rooms, p=rooms[owner_of[i]])}"))
        rows += [(f"project_{i}", "needs", f"skill_{j}") for j in _some(rng, 2, skills[owner_of[i]], at_least=1)]
    for i in range(n_people):
        t = team_of[i]
        boss = np.flatnonzero(team_of == t)[0]
        if i != boss:
            rows.append((f"person_{i}", "reports_to", f"person_{boss}"))
        rows.append((f"person_{i}", "sits_in", f"room_{rng.choice(n_rooms, p=rooms[t])}"))
        rows += [(f"person_{i}", "works_on", f"project_{j}") for j in _some(rng, 0.9, work[t], at_least=1)]
        rows += [(f"person_{i}", "knows", f"skill_{j}") for j in _some(rng, 1, skills[t], at_least=1)]
    return _facts(rows)


def catalogue(seed: int) -> Facts:
    """Articles of a tree of classes, which hand down features and materials; parts fit some classes: 10,300 facts."""
    rng = np.random.default_rng(seed)
    n_classes, n_articles, n_features, n_materials, n_makers = 150, 1000, 160, 25, 60
    above = [int(rng.integers(max(0, i // 4 - 2), max(1, i // 3))) for i in range(n_classes)]
    common, makers = _popularity(rng, n_features, 0.5), _popularity(rng, n_makers, 0.7)
    features: list[set[int]] = [set(range(2))]
    materials, offered = [rng.integers(0, n_materials, 2)], [rng.choice(n_makers, 8, replace=False)]
    for i in range(1, n_classes):
        features.append({*features[above[i]], *_some(rng, 1.2, common)})
        materials.append(np.where(rng.random(2) < 0.6, materials[above[i]], rng.integers(0, n_materials, 2)))
        offered.append(np.where(rng.random(8) < 0.7, offered[above[i]], rng.integers(0, n_makers, 8)))
    leaves = np.setdiff1d(np.arange(n_classes), above)
    class_of = rng.choice(leaves, n_articles, p=_popularity(rng, len(leaves), 0.4))
    fits = {c: np.flatnonzero(np.isin(class_of, rng.choice(leaves, 2, replace=False))) for c in leaves.tolist()}
    rows = [(f"class_{i}", "is_a", f"class_{above[i]}") for i in range(1, n_classes)]
    for i in range(1, n_classes):
        rows += [(f"class_{i}", "typical_feature", f"feature_{j}") for j in sorted(features[i] - features[above[i]])]
    for i in range(n_articles):
        c = int(class_of[i])
        rows.append((f"article_{i}", "in_class", f"class_{c}"))
        kept = [j for j in sorted(features[c]) if rng.random() < 0.85]
        rows += [(f"article_{i}", "has_feature", f"feature_{j}") for j in {*kept, *_some(rng, 0.5, common)}]
        material = rng.choice(materials[c]) if rng.random() < 0.85 else rng.integers(n_materials)
        rows.append((f"article_{i}", "made_of", f"material_{material}"))
        maker = rng.choice(offered[c]) if rng.random() < 0.8 else rng.choice(n_makers, p=makers)
        rows.append((f"article_{i}", "made_by", f"maker_{maker}"))
        wholes = _some(rng, 1.5, _mix(0.85, np.full(n_articles, 1 / n_articles), fits[c]))
        rows += [(f"article_{i}", "part_of", f"article_{j}") for j in wholes if j != i]
    return _facts(rows)


def trade(seed: int) -> Facts:
    """90 countries: who sells what to whom by size, distance and goods, and treaties both ways; a dense graph."""
    rng = np.random.default_rng(seed)
    goods = ["grain", "oil", "cars", "machines", "textiles", "timber", "medicines"]
    n, place, size = 90, rng.normal(size=(90, 2)), rng.normal(size=90)
    bloc = np.argmin(np.linalg.norm(place[:, None] - place[:6], axis=2) + 0.3 * rng.random((n, 6)), axis=1)
    far = np.linalg.norm(place[:, None] - place, axis=2)
    near = -1.2 * far + 0.8 * (bloc[:, None] == bloc)
    strength, need = rng.normal(size=(n, len(goods))), rng.normal(size=(n, len(goods)))
    scores = {
        f"exports_{good}": (near + 0.9 * size + size[:, None], strength[:, [k]], need[:, k])
        for k, good in enumerate(goods)
    }
    rows = []
    for k, (name, (base, sold, bought)) in enumerate(scores.items()):
        rows += _largest(rng, name, base + 1.3 * sold + 0.8 * bought, 0.05 + 0.02 * k)
    ties = rng.logistic(size=(n, n))
    rows += _largest(rng, "treaty_with", 1.5 * near + size + size[:, None] + ties + ties.T, 0.12, noise=0)
    rows += _largest(rng, "borders", -far, 0.05, noise=0)
    rows += _largest(rng, "embassy_in", 1.2 * size + 0.8 * size[:, None] + 0.5 * near, 0.35)
    return _facts(rows)


def _largest(
    rng: np.random.Generator, name: str, theta: Shares, share: float, noise: float = 1.0
) -> list[tuple[str, str, str]]:
    """The pairs of countries with the largest values, some of which are chance."""
    theta = theta + noise * rng.logistic(size=theta.shape)
    np.fill_diagonal(theta, -np.inf)
    s, o = np.nonzero(theta > np.quantile(theta, 1 - share))
    return [(f"country_{i}", name, f"country_{j}") for i, j in zip(s, o, strict=True)]


def _popularity(rng: np.random.Generator, count: int, exponent: float = 0.8) -> Shares:
    """Shares that fall like a power of the place in a random order."""
    shares = (1.0 + rng.permutation(count)) ** -exponent
    return shares / shares.sum()


def _mix(part: float, shares: Shares, chosen: Iterable[int]) -> Shares:
    """Shares of which the chosen ones together have this part more than their own."""
    inside = np.zeros(len(shares))
    inside[chosen] = shares[chosen]
    return part * inside / inside.sum() + (1 - part) * shares if inside.sum() > 0 else shares


def _some(rng: np.random.Generator, mean: float, shares: Shares, at_least: int = 0) -> NDArray[np.int64]:
    """A Poisson number of different ones, more by `at_least`."""
    return rng.choice(len(shares), min(at_least + int(rng.poisson(mean)), len(shares) // 2), replace=False, p=shares)


def _facts(rows: Iterable[tuple[str, str, str]]) -> Facts:
    subjects, relations, objects = zip(*dict.fromkeys(rows), strict=True)
    return Facts.from_arrays(subjects, relations, objects)


KINDS: dict[str, Callable[[int], Facts]] = {
    "company": company,
    "medicine": medicine,
    "family": family,
    "shop": shop,
    "films": films,
    "survey": survey,
    "coauthors": coauthors,
    "projects": projects,
    "catalogue": catalogue,
    "trade": trade,
}

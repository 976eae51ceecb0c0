import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import relatent
from relatent import Factors, Facts
from relatent.analysis import queries
from relatent.analysis.known_facts import Known
from relatent.data.names import Names
from relatent.errors import InputError, UnknownNameError
from relatent.model import fold_in as folding
from relatent.model import links
from worlds import random_facts


def random_factors(link, seed=0, n=9, r=3):
    rng = np.random.default_rng(seed)
    return Factors(
        rng.normal(size=(n, r)),
        rng.normal(size=(2, r, r)),
        np.array([-1.0, 0.5]),
        Names([f"e{i}" for i in range(n)]),
        Names(["likes", "knows"], what="relation"),
        link,
    )


CAMPS = [f"p{i}" for i in range(20)]  # even ones like each other, and so do odd ones


@pytest.fixture(scope="module")
def camps():
    camp = np.arange(20) % 2
    s, o = np.nonzero((camp[:, None] == camp) & ~np.eye(20, dtype=bool))
    facts = Facts.from_arrays([CAMPS[i] for i in s], ["likes"] * len(s), [CAMPS[i] for i in o])
    return facts, relatent.RescalLogit(4, 0.1, 0.1).fit(facts).factors_


# --- who is like whom


def test_profiles_compare_all_scores_of_two_entities():
    f = random_factors(links.Logistic())
    A = f.A - f.A.mean(axis=0)
    rows = np.concatenate([x for R in f.R for x in (f.A @ R @ A.T, f.A @ R.T @ A.T)], axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    B = queries.profiles(f)
    np.testing.assert_allclose(B @ B.T, rows @ rows.T, atol=1e-12)


def test_directions_no_relation_uses_do_not_count():
    f = random_factors(links.Logistic())
    wide = np.concatenate([f.A, 100 * np.random.default_rng(1).normal(size=(9, 1))], axis=1)
    R = np.zeros((2, 4, 4))
    R[:, :3, :3] = f.R
    wider = Factors(wide, R, f.bias, f.entities, f.relations)
    np.testing.assert_allclose(
        queries.profiles(wider) @ queries.profiles(wider).T, queries.profiles(f) @ queries.profiles(f).T, atol=1e-10
    )


def test_those_of_ones_own_camp_are_alike(camps):
    found = queries.similar(camps[1], "p4", k=9)
    assert {one.name for one in found} == set(CAMPS[::2]) - {"p4"}
    assert [one.similarity for one in found] == sorted((one.similarity for one in found), reverse=True)
    assert len(queries.similar(camps[1], 4, k=100)) == 19


# --- which belong together


@pytest.mark.parametrize("method", queries.GROUPINGS)
def test_camps_are_found_with_what_is_typical_of_them(camps, method):
    found = queries.groups(camps[1], method)
    assert sorted(sorted(group.names) for group in found) == sorted([sorted(CAMPS[::2]), sorted(CAMPS[1::2])])
    for group in found:
        for typical in group.typical:
            assert typical.relation == "likes"
            assert typical.neighbour in group.names
            assert typical.probability > typical.elsewhere + 0.2


def test_as_many_groups_as_asked_for_the_largest_first(camps):
    found = queries.groups(camps[1], "hierarchical", 5)
    assert [group.number for group in found] == [0, 1, 2, 3, 4]
    sizes = [len(group.names) for group in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == 20


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "magic"}, "method must be one of k-means, hierarchical, hdbscan, got 'magic'"),
        ({"n_groups": 0}, "n_groups must be between 1 and 20, the number of entities, got 0"),
        ({"method": "hdbscan", "n_groups": 3}, "hdbscan finds the number of groups itself"),
    ],
)
def test_groups_that_cannot_be_made_are_said_in_a_line(camps, options, text):
    with pytest.raises(InputError, match=text):
        queries.groups(camps[1], **options)


# --- why


def test_components_and_bias_add_up_to_the_score():
    f = random_factors(links.Logistic())
    why = queries.explain(f, "e1", "likes", "e2", Facts.from_arrays(["e1"], ["knows"], ["e3"]), count=3)
    total = sum(component.contribution for component in why.components) + why.bias
    assert total == pytest.approx(why.score) == pytest.approx(f.score("e1", "likes", "e2"))
    assert why.probability == pytest.approx(f.probability("e1", "likes", "e2"))


def born_in(seed):
    """Everyone is a citizen of the country their city of birth is in; some citizenships are not known. And gossip."""
    rng = np.random.default_rng(seed)
    n_people, n_cities, n_countries = 60, 12, 4
    city = rng.integers(n_cities, size=n_people)
    country = np.arange(n_cities) % n_countries
    people = [f"person {i}" for i in range(n_people)]
    facts = [(people[i], "born in", f"city {c}") for i, c in enumerate(city)]
    facts += [(f"city {c}", "lies in", f"country {country[c]}") for c in range(n_cities)]
    asked = set(rng.choice(n_people, 12, replace=False).tolist())
    facts += [(people[i], "citizen of", f"country {country[c]}") for i, c in enumerate(city) if i not in asked]
    gossip = {(people[rng.integers(n_people)], "knows", people[rng.integers(n_people)]) for _ in range(120)}
    cells = [((people[i], "citizen of", f"country {country[city[i]]}"), f"city {city[i]}") for i in sorted(asked)]
    unknown = [(people[i], "citizen of", f"country {c}") for i in asked for c in range(n_countries)]
    return Facts.from_arrays(*zip(*(facts + sorted(gossip)), strict=True), unobserved=unknown), cells


@pytest.mark.parametrize("model", [relatent.RescalALS(12, 0.5, 0.5), relatent.RescalLogit(12, 0.5, 0.5)])
def test_the_fact_that_carries_a_rule_is_the_first_reason(model):
    right = []
    for seed in range(3):
        facts, cells = born_in(seed)
        f = model.fit(facts).factors_
        for cell, city in cells:
            if f.probability(*cell) > 0.5:  # what is not predicted needs no reasons
                first = queries.explain(f, *cell, facts).reasons[0]
                right.append((first.subject, first.relation, first.object) == (cell[0], "born in", city))
    assert len(right) >= 12
    assert np.mean(right) >= 0.9


def test_the_first_reason_is_told_in_words(camps):
    facts = Facts.from_arrays(*zip(*[
        ("Ann", "born in", "Rome"), ("Bob", "born in", "Rome"), ("Bob", "citizen of", "Italy"),
        ("Cid", "born in", "Oslo"), ("Cid", "citizen of", "Norway"),
    ], strict=True), unobserved=[("Ann", "citizen of", "Italy"), ("Ann", "citizen of", "Norway")])  # fmt: skip
    f = relatent.RescalLogit(5, 0.02, 0.02).fit(facts).factors_
    why = queries.explain(f, "Ann", "citizen of", "Italy", facts)
    assert why.sentence == "Ann citizen of Italy, because Ann born in Rome; both are known of Bob as well."


def test_what_is_said_of_an_entity_is_found_as_by_a_look_at_all_facts():
    facts = random_facts(n=12, n_relations=3, count=90, unobserved=40, weighted=True)
    f = Factors(np.ones((12, 1)), np.ones((3, 1, 1)), np.zeros(3), facts.entities, facts.relations)
    for given in (facts, dataclasses.replace(facts, weights=None)):
        known = Known(given, f)
        for i, plain in enumerate(folding.listed_cells(given, np.arange(12))):
            for own, wanted in zip(known.listed(i), plain, strict=True):
                np.testing.assert_array_equal(own, wanted)
        for k in range(3):
            rows = given.triples[:, 1] == k
            for own, wanted in zip(known.ends(k), (given.subjects[rows], given.objects[rows]), strict=True):
                np.testing.assert_array_equal(own, np.unique(wanted))


@pytest.mark.parametrize("model", [relatent.RescalALS(4, 0.1, 0.1), relatent.RescalLogit(4, 0.1, 0.1)])
def test_reasons_are_found_without_a_look_at_all_facts(model):
    facts = random_facts(n=15, count=70, unobserved=5, weighted=True)
    f = model.fit(facts).factors_
    known = Known(facts, f)
    wanted = [queries.explain(f, s, k, o, facts) for s, k, o in ((0, 0, 1), (3, 2, 7), *facts.triples[:3].tolist())]
    known.facts = SimpleNamespace(starts=facts.starts, weights=facts.weights, unobserved=facts.unobserved)  # no triples
    for one in wanted:
        assert queries.explain(f, one.subject, one.relation, one.object, known) == one


def test_what_cannot_be_explained_is_said_in_a_line(camps):
    facts, f = camps
    with pytest.raises(UnknownNameError, match="unknown entity 'nobody'"):
        queries.explain(f, "nobody", "likes", "p1", facts)
    with pytest.raises(InputError, match="count must be at least 1, got 0"):
        queries.explain(f, "p1", "likes", "p3", facts, count=0)
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        queries.similar(f, "p1", k=0)

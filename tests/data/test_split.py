import numpy as np
import pytest

from relatent.data.catalog import load_dataset
from relatent.data.facts import Facts
from relatent.data.split import presidents_folds, split
from relatent.errors import DataError


def random_facts(n=2000, n_entities=100, n_relations=5, seed=0):
    rng = np.random.default_rng(seed)
    s, k, o = rng.integers(0, n_entities, n), rng.integers(0, n_relations, n), rng.integers(0, n_entities, n)
    return Facts.from_arrays(s, k, o, n_entities=n_entities, n_relations=n_relations)


def friendships(n_entities=30, seed=0):
    """A symmetric relation with some self-loops, and a one-way one."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, n_entities, (2, 100))
    s = np.concatenate([i, j, rng.integers(0, n_entities, 80)])
    o = np.concatenate([j, i, rng.integers(0, n_entities, 80)])
    return Facts.from_arrays(s, np.repeat([0, 0, 1], [100, 100, 80]), o, n_entities=n_entities)


# --- split


@pytest.mark.parametrize("facts", [random_facts(), friendships()], ids=["one-way", "symmetric"])
@pytest.mark.parametrize("test_size", [0.1, 0.5, 0.9, 1, 17])
def test_every_fact_lands_on_exactly_one_side(facts, test_size):
    train, test = split(facts, test_size=test_size)
    np.testing.assert_array_equal(np.sort(np.concatenate([train.keys, test.keys])), facts.keys)
    wanted = test_size if isinstance(test_size, int) else round(test_size * len(facts))
    assert abs(len(test) - wanted) <= 1


def test_without_mirrored_facts_the_test_size_is_exact():
    _, test = split(random_facts(), test_size=123)
    assert len(test) == 123


def test_both_sides_keep_the_vocabulary():
    facts = random_facts()
    train, test = split(facts)
    assert train.entities is facts.entities is test.entities
    assert train.relations is facts.relations is test.relations


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    facts = random_facts()
    first, again, other = (split(facts, random_state=seed)[1].keys for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_two_directions_of_a_symmetric_relation_stay_together():
    facts = friendships()
    for side in split(facts, test_size=0.3):
        mutual = side.triples[side.triples[:, 1] == 0]
        assert side.contains(mutual[:, ::-1]).all()


def test_the_two_directions_may_part_when_leaks_are_allowed():
    _, test = split(friendships(), test_size=0.3, leaky=True)
    mutual = test.triples[test.triples[:, 1] == 0]
    assert not test.contains(mutual[:, ::-1]).all()


def test_every_entity_and_relation_keeps_a_training_fact():
    facts = random_facts(n=200)
    train, _ = split(facts, test_size=0.3)
    assert set(train.triples[:, [0, 2]].ravel()) == set(facts.triples[:, [0, 2]].ravel())
    careless, _ = split(facts, test_size=0.3, keep_covered=False)
    assert set(careless.triples[:, [0, 2]].ravel()) != set(facts.triples[:, [0, 2]].ravel())


def test_a_rare_relation_keeps_its_only_fact():
    common = random_facts(n=60, n_entities=10, n_relations=1).triples
    facts = Facts.from_arrays(*np.vstack([common, (0, 1, 0)]).T)
    for seed in range(20):
        train, _ = split(facts, test_size=0.4, random_state=seed)
        assert train.counts()[1] == 1


def test_coverage_gives_way_to_the_test_size():
    chain = Facts.from_arrays(np.arange(10), np.zeros(10, int), np.arange(1, 11))
    assert len(split(chain, test_size=0.5)[1]) == 5


def test_each_fact_is_drawn_equally_often_where_coverage_does_not_interfere():
    facts = random_facts(n=300, n_entities=10, n_relations=2)
    drawn = np.zeros(len(facts))
    for seed in range(300):
        drawn += facts.contains(facts.triples) & np.isin(facts.keys, split(facts, random_state=seed)[1].keys)
    assert drawn.min() > 5
    assert drawn.max() < 60


def test_weights_attributes_and_unobserved_cells_go_where_they_belong():
    facts = Facts.from_arrays(
        [0, 1, 2, 3],
        [0, 0, 0, 0],
        [1, 2, 3, 0],
        weights=[0.1, 0.2, 0.3, 0.4],
        unobserved=[(0, 0, 0)],
        attributes=np.eye(4),
    )
    train, test = split(facts, test_size=2)
    assert sorted([*train.weights, *test.weights]) == [0.1, 0.2, 0.3, 0.4]
    for side in (train, test):
        np.testing.assert_allclose(side.weights, (side.subjects + 1) / 10)
        np.testing.assert_array_equal(side.attributes, np.eye(4))
    assert (len(train.unobserved), len(test.unobserved)) == (1, 0)


def test_what_is_split_stays_unchanged():
    facts = friendships()
    before = facts.fingerprint, facts.triples.copy()
    split(facts)
    np.testing.assert_array_equal(facts.triples, before[1])


@pytest.mark.parametrize(
    ("test_size", "message"),
    [
        (0.0, "test_size must be a fraction between 0 and 1, or a whole number, got 0.0"),
        (1.5, "test_size must be a fraction between 0 and 1, or a whole number, got 1.5"),
        (float("nan"), "test_size must be a fraction between 0 and 1, or a whole number, got nan"),
        (0, "test_size must be between 1 and 2 for 3 facts, got 0"),
        (3, "test_size must be between 1 and 2 for 3 facts, got 3"),
        (0.1, "test_size=0.1 of 3 facts leaves no test fact; give the number of test facts"),
        (0.9, "test_size=0.9 of 3 facts leaves no training fact; give the number of test facts"),
    ],
)
def test_a_size_that_leaves_a_side_empty_is_an_error(test_size, message):
    facts = Facts.from_arrays([0, 1, 2], [0, 0, 0], [1, 2, 0])
    with pytest.raises(DataError, match=f"^{message}$"):
        split(facts, test_size=test_size)


def test_a_single_mirrored_pair_cannot_be_split():
    pair = Facts.from_arrays([0, 1], [0, 0], [1, 0])
    with pytest.raises(DataError, match=r"^test_size=1 leaves no training fact, as mirrored facts stay together"):
        split(pair, test_size=1)
    assert len(split(pair, test_size=1, leaky=True)[1]) == 1


# --- the Presidents task


@pytest.mark.parametrize(("persons", "n_persons"), [("presidents", 39), ("vice presidents", 47)])
def test_presidents_folds_cover_each_person_and_party_once(persons, n_persons):
    facts = load_dataset("presidents")
    folds = presidents_folds(facts, persons=persons)
    cells = np.concatenate(folds)
    assert len(folds) == 10
    assert cells.shape == (n_persons * 14, 3)
    assert len(np.unique(cells, axis=0)) == len(cells)
    assert set(cells[:, 1]) == {facts.relations.id("party")}
    people = [set(fold[:, 0]) for fold in folds]
    assert sum(map(len, people)) == len(set().union(*people)) == n_persons


def test_holding_out_a_fold_removes_all_party_facts_of_its_persons():
    facts = load_dataset("presidents")
    fold = presidents_folds(facts)[0]
    left = facts.hold_out(fold, masked=False)
    party = left.triples[left.triples[:, 1] == facts.relations.id("party")]
    assert not set(party[:, 0]) & set(fold[:, 0])
    assert len(left) < len(facts)


def test_presidents_without_a_vice_president_are_never_held_out():
    facts = load_dataset("presidents")
    held_out = {facts.entities[person] for person in np.concatenate(presidents_folds(facts))[:, 0]}
    assert not held_out & {"John Tyler", "Millard Fillmore", "Andrew Johnson", "Chester A. Arthur"}


def test_presidents_folds_depend_on_the_seed_only():
    facts = load_dataset("presidents")
    first, again, other = (presidents_folds(facts, random_state=seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[:, 0], other[:, 0])


def test_wrong_questions_about_presidents_are_errors():
    facts = load_dataset("presidents")
    with pytest.raises(DataError, match="persons must be 'presidents' or 'vice presidents', got 'kings'"):
        presidents_folds(facts, persons="kings")
    with pytest.raises(DataError, match="folds must be between 2 and 39, the number of presidents, got 40"):
        presidents_folds(facts, folds=40)

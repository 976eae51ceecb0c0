"""The training facts are recognised by their fingerprint among the sets that the given facts make."""

import numpy as np
import pytest

from relatent import Facts, RescalALS, load_dataset, read, split
from relatent.evaluation.training_overlap import MAX_SOURCES, n_trained_on

FACTS = load_dataset("presidents")
REST, TEST = split(FACTS, test_size=0.2, random_state=1)
TRAIN, VALID = split(REST, test_size=0.2, random_state=1)


def by_name(facts: Facts) -> Facts:
    """The same facts with a vocabulary of their own, as another file has it."""
    return Facts.from_arrays(*zip(*facts.named(), strict=True))


def fitted(facts: Facts):
    return RescalALS(2, 0.01, 0.01).fit(facts).factors_


@pytest.mark.parametrize("own", [lambda facts: facts, by_name], ids=["one vocabulary", "several vocabularies"])
@pytest.mark.parametrize(
    ("training", "test", "known", "expected"),
    [
        (TRAIN, TEST, [TRAIN], 0),
        (TRAIN, TEST, [VALID, TRAIN], 0),
        (TRAIN, TEST, [FACTS], None),
        (REST, TEST, [FACTS], 0),
        (REST, TEST, [TRAIN, VALID], 0),
        (REST, VALID, [TRAIN], len(VALID)),
        (REST, FACTS, [REST], len(REST)),
        (FACTS, TEST, [TRAIN, VALID], len(TEST)),
        (FACTS, TEST, [REST], len(TEST)),
        (FACTS, TEST, [], None),
        (TRAIN, TRAIN, [], len(TRAIN)),
        (TRAIN, TEST, [], None),
        (TRAIN, TEST, [VALID], None),
    ],
)
def test_what_can_be_told_is_told(training, test, known, expected, own):
    assert n_trained_on(fitted(training), own(test), [own(facts) for facts in known]) == expected


def test_of_many_sources_each_and_all_together_are_tried():
    parts = [FACTS.subset(np.arange(len(FACTS)) % (MAX_SOURCES + 1) == i) for i in range(MAX_SOURCES + 1)]
    assert n_trained_on(fitted(FACTS), TEST, parts) == len(TEST)
    assert n_trained_on(fitted(parts[2]), parts[2], parts) == len(parts[2])


def test_weights_and_unobserved_cells_are_part_of_the_training_facts():
    s, k, o = TRAIN.triples.T
    names = {"entity_names": list(TRAIN.entities), "relation_names": list(TRAIN.relations)}
    weighted = Facts.from_arrays(s, k, o, weights=np.full(len(s), 2.0), unobserved=TEST.triples[:3], **names)
    assert n_trained_on(fitted(weighted), TEST, [weighted]) == 0
    assert n_trained_on(fitted(weighted), TEST, [TRAIN]) is None


def test_a_model_that_does_not_say_what_it_was_fitted_to_tells_nothing():
    from dataclasses import replace

    assert n_trained_on(replace(fitted(TRAIN), about={}), TRAIN, []) is None


def test_entities_that_were_folded_in_do_not_hide_the_training_facts():
    model = RescalALS(rank=5).fit(TRAIN).factors_
    grown = model.fold_in(read([("Eve", "party", "Democratic"), ("Zoe", "party", "Whig")]))
    assert n_trained_on(grown, TEST, [TRAIN]) == 0
    assert n_trained_on(grown, TRAIN, []) == len(TRAIN)
    assert n_trained_on(grown, TEST, [VALID]) is None

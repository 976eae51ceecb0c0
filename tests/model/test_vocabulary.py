"""Facts that were read in another way than those of a model are refused, with names of both."""

import numpy as np
import pytest

import relatent
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.model.vocabulary import check_shared

ENTITIES, RELATIONS = Names([f"p{i}" for i in range(200)]), Names(["likes", "knows"])


def facts(*rows):
    return relatent.read(list(rows))


def test_facts_that_share_a_relation_and_some_entities_are_taken():
    check_shared(ENTITIES, RELATIONS, facts(("p1", "likes", "p2")), "test facts")
    check_shared(ENTITIES, RELATIONS, facts(("p1", "likes", "new"), ("new", "hates", "newer")), "test facts")


def test_no_facts_are_about_nothing():
    none = facts(("x", "y", "z")).subset(np.zeros(1, bool))
    check_shared(ENTITIES, RELATIONS, none, "test facts")


def test_facts_without_a_known_relation_are_refused():
    message = r"the model knows no relation of the test facts: it has 'likes', 'knows', they have 'citation_test'; were"
    with pytest.raises(InputError, match=message):
        check_shared(ENTITIES, RELATIONS, facts(("p1", "citation_test", "p2")), "test facts")


def test_facts_of_other_entities_are_refused():
    others = facts(("7", "likes", "8"))
    with pytest.raises(
        InputError, match=r"the model knows no entity of the known facts: it has 'p0', 'p1', 'p2', they"
    ):
        check_shared(ENTITIES, RELATIONS, others, "known facts")


def test_a_chance_name_is_not_enough():
    rows = [(f"q{i}", "likes", f"q{i + 1}") for i in range(300)]
    with pytest.raises(InputError, match=r"the model knows 1 of 302 names of entities of the test facts"):
        check_shared(ENTITIES, RELATIONS, facts(*rows, ("p1", "likes", "q1")), "test facts")
    check_shared(ENTITIES, RELATIONS, facts(*rows, *((f"p{i}", "likes", "q1") for i in range(10))), "test facts")


def test_names_that_no_fact_uses_do_not_count():
    given = relatent.Facts.from_ids(np.array([[0, 1, 1]]), Names(["x", "y", "p1"]), Names(["likes", "q"]))
    with pytest.raises(InputError, match=r"no relation of the test facts: it has .*, they have 'q'; were"):
        check_shared(ENTITIES, RELATIONS, given, "test facts")


def test_every_way_to_give_facts_to_a_model_is_checked():
    known = facts(*((f"p{i}", "likes", f"p{(i + 1) % 12}") for i in range(12)))
    model = relatent.RescalALS(2, 0.1, 0.1).fit(known).factors_
    other = facts(("a", "file_name", "b"))
    for ask in (
        lambda: relatent.evaluate(model, other),
        lambda: model.top(subject="p1", relation="likes", exclude=other),
        lambda: model.facts_with(other),
        lambda: relatent.calibrate(model, validation=other),
        lambda: relatent.missing(model, known=other),
    ):
        with pytest.raises(InputError, match="were both read the same way"):
            ask()

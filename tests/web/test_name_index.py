import numpy as np
import pytest

from relatent.data.names import Names
from relatent.web.name_index import Finder, fold

NAMES = ["Adams County", "John Adams", "John Quincy Adams", "Madam", "Zürich", "New\nLine", "İzmir", "adam", "x" * 40]


def found(part, limit=10, weights=None):
    return [NAMES[i] for i in Finder(Names(NAMES), weights).find(part, limit)]


def test_equal_names_come_first_then_beginnings_then_words_then_parts():
    assert found("adam") == ["adam", "Adams County", "John Adams", "John Quincy Adams", "Madam"]


def test_of_equally_good_names_those_with_more_facts_come_first():
    weights = np.zeros(len(NAMES), np.int64)
    weights[2] = 5
    assert found("adams", weights=weights) == ["Adams County", "John Quincy Adams", "John Adams"]


@pytest.mark.parametrize(
    ("typed", "name"), [("zurich", "Zürich"), ("ZÜR", "Zürich"), ("izmir", "İzmir"), ("line", "New\nLine")]
)
def test_case_and_accents_do_not_matter(typed, name):
    assert found(typed) == [name]


def test_a_name_is_found_once_however_often_it_holds_the_part():
    assert found("x") == ["x" * 40]


def test_no_hit_spans_two_names():
    assert Finder(Names(["ab", "cd"])).find("bc", 5) == []


def test_nothing_is_found_for_nothing_or_for_what_is_not_there():
    assert found("") == found("  ") == found("quux") == []


def test_the_limit_is_kept():
    assert len(found("a", limit=2)) == 2


def test_search_agrees_with_looking_at_every_name():
    rng = np.random.default_rng(0)
    names = list(dict.fromkeys("".join(rng.choice(list("abC _ü"), rng.integers(1, 7))) for _ in range(300)))
    finder = Finder(Names(names))
    for part in ("a", "ab", "c", "_a", "u", "bb"):
        assert {names[i] for i in finder.find(part, 999)} == {name for name in names if part in fold(name)}


@pytest.mark.parametrize("typed", ["Jon Adams", "john adms", "John Quincy Addams"])
def test_a_misspelt_name_is_guessed(typed):
    assert {"John Adams", "John Quincy Adams"} & set(Finder(Names(NAMES)).close(typed))


def test_numbered_things_are_found_by_their_number():
    assert Finder(Names(1000)).find("99", 3) == [99, 990, 991]

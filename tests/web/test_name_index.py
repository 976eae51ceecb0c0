"""Search for names by a part of them."""

import numpy as np
import pytest

from relatent.data.names import Names
from relatent.web.name_index import NameIndex, fold

NAMES = ["Adams County", "John Adams", "John Quincy Adams", "Madam", "Zürich", "New\nLine", "İzmir", "adam", "x" * 40]


def find(part, k=10, weights=None):
    return [NAMES[i] for i in NameIndex(Names(NAMES), weights).find(part, k)]


def test_exact_matches_come_first_then_prefixes_then_words_then_parts():
    assert find("adam") == ["adam", "Adams County", "John Adams", "John Quincy Adams", "Madam"]


def test_among_equally_good_matches_larger_weights_come_first():
    weights = np.zeros(len(NAMES), np.int64)
    weights[2] = 5
    assert find("adams", weights=weights) == ["Adams County", "John Quincy Adams", "John Adams"]


@pytest.mark.parametrize(
    ("part", "name"), [("zurich", "Zürich"), ("ZÜR", "Zürich"), ("izmir", "İzmir"), ("line", "New\nLine")]
)
def test_case_and_accents_are_ignored(part, name):
    assert find(part) == [name]


def test_a_name_that_contains_the_part_several_times_is_found_once():
    assert find("x") == ["x" * 40]


def test_no_match_spans_two_names():
    assert NameIndex(Names(["ab", "cd"])).find("bc", 5) == []


def test_empty_and_absent_parts_find_nothing():
    assert find("") == find("  ") == find("quux") == []


def test_at_most_k_names_are_returned():
    assert len(find("a", k=2)) == 2


def test_the_index_agrees_with_a_scan_of_all_names():
    rng = np.random.default_rng(0)
    names = list(dict.fromkeys("".join(rng.choice(list("abC _ü"), rng.integers(1, 7))) for _ in range(300)))
    index = NameIndex(Names(names))
    for part in ("a", "ab", "c", "_a", "u", "bb"):
        assert {names[i] for i in index.find(part, 999)} == {name for name in names if part in fold(name)}


@pytest.mark.parametrize("misspelt", ["Jon Adams", "john adms", "John Quincy Addams"])
def test_similar_names_are_suggested_for_a_misspelt_one(misspelt):
    assert {"John Adams", "John Quincy Adams"} & set(NameIndex(Names(NAMES)).close(misspelt))


def test_entities_without_names_are_found_by_their_number():
    assert NameIndex(Names(1000)).find("99", 3) == [99, 990, 991]

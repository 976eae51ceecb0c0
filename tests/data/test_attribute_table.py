"""Attributes of entities: from texts to columns of zeros and ones."""

import time
import tracemalloc

import numpy as np
import pytest

import relatent
from relatent.data.attribute_table import MAX_WORD_COLUMNS, AttributeTable, number_of, words_of, year_of
from relatent.data.facts_union import union
from relatent.data.names import Names

NAMES = Names(["a", "b", "c", "d"])


def encoded(values, names=NAMES):
    table = AttributeTable.of(values)
    return table.columns(names), table.encoded_for(names)


def test_numbers_become_bins_and_missing_values_stay_unobserved():
    (columns,), matrix = encoded({"a": {"age": 1}, "b": {"age": "2.5"}, "c": {"age": "n/a"}, "d": {"age": None}})
    assert columns.kind == "number"
    np.testing.assert_array_equal(matrix, [[1, 0], [0, 1], [np.nan] * 2, [np.nan] * 2])


def test_bins_hold_equally_many():
    names = Names([str(i) for i in range(80)])
    _, matrix = encoded({name: {"x": float(name) ** 3} for name in names}, names)
    assert matrix.sum(axis=0).tolist() == [10.0] * 8
    assert (np.diff(matrix.argmax(axis=1)) >= 0).all()


def test_dates_are_ordered_in_time():
    (columns,), matrix = encoded({"a": {"born": "1990-02-01"}, "b": {"born": "-0044-03-15"}, "c": {"born": "1990-02"}})
    assert columns.kind == "date"
    assert matrix[:3].argmax(axis=1).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "year"),
    [("2000-01-01", 2000.0), ("2000-07-01T12:00:00Z", 2000.5), ("2000-13-01", None), ("May 2000", None)],
)
def test_year_of(text, year):
    assert year_of(text) == year


def test_a_number_is_finite():
    assert number_of("1e3") == 1000.0
    assert number_of("inf") is number_of("nan") is number_of("12 km") is None


def test_words_in_two_values_have_a_column_each():
    values = {"a": {"about": ["Likes chess", "Films!"]}, "b": {"about": "likes films"}, "c": {"about": "a cook"}}
    (columns,), matrix = encoded(values)
    assert (columns.kind, columns.words) == ("words", ("films", "likes"))
    np.testing.assert_array_equal(matrix, [[1, 1], [1, 1], [0, 0], [np.nan, np.nan]])
    assert words_of("Über-Film, 2") == ["über", "film", "2"]


def test_many_words_share_columns():
    names = Names([f"e{i}" for i in range(400)])
    (columns,), matrix = encoded({name: {"t": f"w{i // 2} both"} for i, name in enumerate(names)}, names)
    assert columns.width == matrix.shape[1] == MAX_WORD_COLUMNS
    np.testing.assert_array_equal(matrix[::2], matrix[1::2])
    assert np.isin(matrix.sum(axis=1), [1, 2]).all()


def test_attributes_that_do_not_differ_have_no_columns():
    assert encoded({"a": {"x": 1, "y": "z"}, "b": {"x": 1, "y": "z"}, "other": {"x": 2, "y": "u"}}) == ([], None)


def test_joined_facts_learn_bins_from_all_values_and_the_first_source_wins():
    first = relatent.read([("a", "r", "b")], attributes={"a": {"x": 1}, "b": {"x": 2}})
    with pytest.warns(relatent.DataWarning, match="1 of 3 entities with attributes have no facts"):
        second = relatent.read([("c", "r", "d")], attributes={"c": {"x": 3}, "d": {"x": 4}, "a": {"x": 99}})
    joined = union([first, second])
    assert joined.attributes.shape == (4, 4)
    assert joined.attributes.argmax(axis=1).tolist() == [0, 1, 2, 3]
    smaller = joined.over(Names(["d", "a"]), joined.relations)
    np.testing.assert_array_equal(smaller.attributes, [[0, 1], [1, 0]])
    assert smaller.without_attributes().attribute_table is None


def test_the_fingerprint_is_that_of_the_facts():
    plain = relatent.read([("a", "r", "b")])
    assert relatent.read(plain, attributes={"a": {"x": 1}, "b": {"x": 2}}).fingerprint == plain.fingerprint


def test_numbers_and_dates_without_end_are_words():
    assert number_of("1e999") is None
    assert number_of("1e300") is None
    for digits in (400, 5000):
        assert year_of("1" * digits + "-01-01") is None


def test_one_long_word_takes_its_own_memory_only():
    long, n = "x" * 1_000_000, 40
    names = Names([f"e{i}" for i in range(2 * n)])
    table = AttributeTable.of({name: {"w": f"w{i % n} {long if i < 2 else ''}"} for i, name in enumerate(names)})
    tracemalloc.start()
    assert table.encoded_for(names).sum() == 2 * n + 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_many_values_of_one_entity_take_time_in_proportion():
    n = 200_000
    seconds = []
    for count in (n // 10, n):
        start = time.process_time()
        AttributeTable.of_rows(("a", "x", str(i)) for i in range(count))
        seconds.append(time.process_time() - start)
    assert seconds[1] < 40 * seconds[0] + 0.1

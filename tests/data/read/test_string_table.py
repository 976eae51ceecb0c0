import numpy as np
import pyarrow as pa
import pytest

from relatent.data.read.string_table import Spans, StringTable


def spans(names):
    return Spans.of(pa.array(names, pa.large_string()))


class Plain(dict):
    """The slow twin: numbers names as they are met."""

    def __missing__(self, name):
        return self.setdefault(name, len(self))


def some_names(n, n_distinct, seed=0):
    """Names of no to 40 letters, many of which differ only in length or in their last letter."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_distinct, n)
    return ["é中x\U0001f600abcdefghijklmnopqrstuvwxyz"[: end % 31] + "0123456789"[: end // 31 % 11] for end in ends]


@pytest.mark.parametrize(("n", "n_distinct"), [(1, 1), (255, 3), (256, 40), (257, 300), (20_000, 341)])
def test_names_get_the_numbers_that_a_dictionary_gives(n, n_distinct):
    names, twin, table = some_names(n, n_distinct), Plain(), StringTable()
    for block in (names, names[::-1], names[: n // 2]):
        assert table.ids(spans(block)).tolist() == [twin[name] for name in block]
    assert len(table) == len(twin)


def test_the_table_grows_with_the_names():
    twin, table = Plain(), StringTable()
    for first in range(0, 30_000, 1_000):
        block = [f"name {i % 17_000}" for i in range(first, first + 2_000)]
        assert table.ids(spans(block)).tolist() == [twin[name] for name in block]


def test_names_with_the_same_hash_are_told_apart_by_their_bytes():
    table, other = StringTable(), StringTable()
    table.ids(spans(["name"]))
    other.ids(spans(["other"]))
    place = np.flatnonzero(other._slots)[0]
    table._slots[place] = other._slots[place]  # says that number 0, which is "name", has the hash of "other"
    assert table.ids(spans(["other", "name"])).tolist() == [1, 0]


def test_a_part_of_a_column_is_read_from_where_it_starts():
    column = pa.array(["a", "bb", "", "ccc", "bb"], pa.large_string())
    assert StringTable().ids(Spans.of(column[1:])).tolist() == [0, 1, 2, 0]
    assert StringTable().ids(Spans.of(column[:0])).tolist() == []


def test_ranks_follow_the_code_points():
    met = ["é", "Z", "a", "中", "\U0001f600", "￮", "ab", "", "a"]
    table = StringTable()
    numbers = table.ids(spans(met))
    names, rank = table.sorted_names("entity")
    assert list(names) == sorted(set(met))
    assert [names[i] for i in rank[numbers]] == met


@pytest.mark.parametrize("shared", ["", "http://x/", "é"])
def test_ranks_are_right_whatever_the_names_share(shared):
    rng = np.random.default_rng(1)
    met = [shared + "".join(rng.choice(list("ab\0中"), rng.integers(0, 14))) for _ in range(3000)]
    table = StringTable()
    numbers = table.ids(spans(met))
    names, rank = table.sorted_names("entity")
    assert list(names) == sorted(set(met))
    assert [names[i] for i in rank[numbers]] == met


def test_names_that_are_not_used_are_left_out_of_the_ranks():
    table = StringTable()
    numbers = table.ids(spans(["c", "b", "a", "d"]))
    names, rank = table.sorted_names("relation", np.array([True, False, False, True]))
    assert list(names) == ["c", "d"]
    assert rank[numbers[[0, 3]]].tolist() == [0, 1]
    assert names.what == "relation"

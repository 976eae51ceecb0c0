import copy
import pickle

import numpy as np
import pytest

from relatent.data import names as names_module
from relatent.data.names import Names
from relatent.errors import DataError, UnknownNameError


def test_a_name_is_found_by_its_id_and_back():
    names = Names(["Ann", "Bob", "Zoë"])
    assert list(names) == ["Ann", "Bob", "Zoë"]
    assert [names.id(name) for name in names] == [0, 1, 2]
    assert names[names.id("Zoë")] == "Zoë"
    assert names[-1] == "Zoë"
    assert names[1:] == ("Bob", "Zoë")
    assert "Bob" in names
    assert "Eve" not in names


def test_names_from_a_count_are_the_ids_as_text():
    names = Names(12)
    assert names.are_numbers
    assert len(names) == 12
    assert names[11] == "11"
    assert names.id("11") == 11
    assert list(names)[:3] == ["0", "1", "2"]


@pytest.mark.parametrize("count", [3, np.int64(3), np.int32(3)])
def test_any_whole_number_is_a_count(count):
    assert Names(count) == ["0", "1", "2"]


def test_names_may_come_from_a_numpy_array_and_are_plain_strings():
    names = Names(np.array(["a", "b"]))
    assert not names.are_numbers
    assert all(type(name) is str for name in names)


def test_names_equal_any_sequence_of_the_same_strings():
    assert Names(["a", "b"]) == ["a", "b"]
    assert Names(["a", "b"]) == Names(["a", "b"])
    assert Names(2) == Names(["0", "1"])
    assert Names(["a", "b"]) != ["b", "a"]
    assert Names(["a", "b"]) != ["a"]
    assert Names(["a", "b"]) != "ab"


def test_the_same_name_twice_is_refused():
    with pytest.raises(DataError, match="entity names must be distinct, got 'a' more than once"):
        Names(["a", "b", "a"])


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(DataError, match="relation names must be strings, got 3 at position 1"):
        Names(["a", 3], what="relation")


@pytest.mark.parametrize(("wrong", "near"), [("Barak Obama", "Barack Obama"), ("barack obama", "Barack Obama")])
def test_an_unknown_name_suggests_a_near_one(wrong, near):
    with pytest.raises(UnknownNameError, match=f"unknown entity '{wrong}'; did you mean '{near}'"):
        Names(["Barack Obama", "Joe Biden"]).id(wrong)


def test_a_part_of_names_suggests_the_shortest_that_contain_it():
    names = Names(
        ["Lee, Ann (P0782)", "P0783", "bed of P0782", "P0784", "visit of P0782 to Bob", "Joe", "the last P0782"]
    )
    with pytest.raises(UnknownNameError) as caught:
        names.id("p0782")
    wanted = "unknown entity 'p0782'; did you mean 'bed of P0782' or 'the last P0782' or 'Lee, Ann (P0782)'?"
    assert str(caught.value) == wanted
    with pytest.raises(UnknownNameError, match=r"^unknown entity 'xo'$"):
        Names(["a box of apples"]).id("xo")
    iri = "http://example.org/v#nationality"
    with pytest.raises(UnknownNameError, match=f"did you mean '{iri}'\\?$"):  # once
        Names([iri]).id("national")


def test_a_name_unlike_all_others_gets_no_suggestion():
    with pytest.raises(UnknownNameError) as caught:
        Names(["Barack Obama"], what="relation").id("xyz")
    assert str(caught.value) == "unknown relation 'xyz'"
    assert isinstance(caught.value, KeyError)


def test_ids_takes_names_or_ids_of_any_shape():
    names = Names(["a", "b", "c"])
    assert names.ids(["c", "a"]).tolist() == [2, 0]
    assert names.ids([["c", "a"], ["b", "b"]]).tolist() == [[2, 0], [1, 1]]
    assert names.ids(np.array([2, 1], np.uint8)).tolist() == [2, 1]
    assert names.ids("b").shape == ()
    assert int(names.ids("b")) == 1
    assert names.ids([]).dtype == np.int64


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_out_of_range_is_refused(wrong):
    with pytest.raises(UnknownNameError, match=f"unknown entity id {wrong}: ids run from 0 to 2"):
        Names(["a", "b", "c"]).ids([0, wrong])


def test_ids_of_a_kind_that_cannot_be_ids_are_refused():
    with pytest.raises(DataError, match="entity must be given by name or whole number, got values of type float64"):
        Names(3).ids([0.5])


def test_translate_finds_names_here_and_marks_the_others():
    here = Names(["a", "b", "c"])
    assert here.translate(Names(["c", "x", "a"])).tolist() == [2, -1, 0]
    assert here.translate(Names(["a", "b", "c"])).tolist() == [0, 1, 2]
    assert here.translate(Names(2)).tolist() == [-1, -1]


def test_a_long_vocabulary_shows_its_beginning():
    assert repr(Names(5)) == "Names(['0', '1', '2', …], 5 in all)"
    assert repr(Names(["a"])) == "Names(['a'], 1 in all)"


# --- names kept as bytes


MANY = sorted({f"{'é中ab'[i % 4]}{i * 7919 % 1009}" for i in range(300)})


def as_bytes(names, **options):
    encoded = [name.encode() for name in names]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    return Names.of_sorted(text, np.cumsum([0, *map(len, encoded)]), **options)


@pytest.fixture(params=["with a dictionary", "by search"])
def kept(request, monkeypatch):
    """Names as bytes, found through a dictionary, or as if there were too many for one."""
    if request.param == "by search":
        monkeypatch.setattr(names_module, "_MAX_NAMES_IN_DICT", 10)
    monkeypatch.setattr(names_module, "_NAMES_PER_BLOCK", 7)
    return as_bytes(MANY, what="relation")


def test_names_stored_as_bytes_behave_like_strings(kept):
    plain = Names(MANY, what="relation")
    assert list(kept) == MANY
    assert kept == plain
    assert plain == kept
    assert kept == as_bytes(MANY)
    assert kept != as_bytes(MANY[1:])
    assert kept != MANY[::-1]
    assert not kept.are_numbers
    assert repr(kept) == repr(plain)
    assert (kept[0], kept[-1], kept[np.int64(5)], kept[3:9:2]) == (MANY[0], MANY[-1], MANY[5], tuple(MANY[3:9:2]))
    with pytest.raises(IndexError):
        kept[len(MANY)]


def test_names_stored_as_bytes_are_found(kept):
    assert [kept.id(name) for name in MANY] == list(range(len(MANY)))
    assert MANY[7] in kept
    assert "nobody" not in kept
    assert 7 not in kept
    assert kept.ids([MANY[5], MANY[2]]).tolist() == [5, 2]
    assert kept.ids([[name] for name in MANY]).tolist() == [[i] for i in range(len(MANY))]
    assert kept.ids(np.array([MANY[3], 2], object)).tolist() == [3, 2]
    for unknown in ("nobody", "", "中~", "\udc80"):
        with pytest.raises(UnknownNameError, match="unknown relation"):
            kept.ids([*MANY, unknown])


def test_names_stored_as_bytes_translate(kept):
    others = sorted(["nobody", *MANY[::3]])
    expected = [MANY.index(name) if name in MANY else -1 for name in others]
    assert kept.translate(as_bytes(others)).tolist() == expected
    assert kept.translate(Names(others)).tolist() == expected
    assert kept.translate(Names(3)).tolist() == [-1, -1, -1]
    assert Names(others).translate(kept).tolist() == [others.index(name) if name in others else -1 for name in MANY]
    assert kept.translate(as_bytes(MANY)).tolist() == list(range(len(MANY)))


def test_names_stored_as_bytes_can_be_copied_and_pickled(kept):
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert other == kept
        assert other.id(MANY[4]) == 4
        assert other.what == "relation"


@pytest.mark.parametrize(
    "first",
    [Names(["b", "a"]), Names(2), Names.of_sorted(np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]))],
    ids=["names", "numbers", "bytes"],
)
def test_names_can_be_extended_without_a_copy(first):
    longer = first.extended(["x"]).extended(["y", "z"])
    assert list(longer) == [*first, "x", "y", "z"]
    assert len(longer) == 5
    assert longer[-1] == longer[4] == "z"
    assert longer[1:4] == (first[1], "x", "y")
    assert longer.ids([first[0], "y"]).tolist() == [0, 3]
    assert longer.translate(Names(["y", "nobody", first[1]])).tolist() == [3, -1, 1]
    assert "x" in longer
    assert "nobody" not in longer
    assert longer == Names([*first, "x", "y", "z"])
    assert list(first) == list(first[:2])
    with pytest.raises(UnknownNameError, match="unknown entity 'nobody'"):
        longer.id("nobody")
    with pytest.raises(DataError, match="got 'x' more than once"):
        longer.extended(["x"])


def test_the_last_part_of_an_iri_is_suggested() -> None:
    names = Names(["http://example.org/v#nationality", "http://example.org/v#born"])
    with pytest.raises(UnknownNameError, match=r"did you mean 'http.*#nationality'"):
        names.id("nationality")


def test_a_number_that_is_a_name_is_no_id():
    names = Names(["1003", "1004"])
    with pytest.raises(
        UnknownNameError, match="unknown entity id 1003: ids run from 0 to 1; write '1003' for the entity"
    ):
        names.ids(1003)

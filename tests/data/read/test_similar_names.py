import pytest

from relatent.data.facts import Facts
from relatent.data.read.lint import similar_names as similar_names_note
from relatent.data.read.read import read


def note(*names):
    return similar_names_note(read([(name, "likes", "jazz") for name in names]))


@pytest.mark.parametrize(
    "pair",
    [("VOGEL, FINN", "Vogel, Finn"), ("Größe", "GRÖSSE"), ("Zoë", "Zoe"), ("Ann Lee.", "Ann Lee"), ("(NL)", "NL")],
)
def test_names_that_may_be_one_are_named(pair):
    assert all(repr(name) in note(*pair, "Bob") for name in pair)
    assert "more" not in note(*pair, "Bob")


def test_groups_are_counted():
    assert ", and 2 more differ only by" in note("a", "A", "Bob", "BOB", "bob", "(c)", "c", "d")


@pytest.mark.parametrize("names", [("Ann", "Anna"), ("-1", "1"), ("C++", "C", "C#"), ("(1)", "1"), ("a b", "ab")])
def test_other_names_are_different(names):
    assert note(*names) is None


def test_relations_are_compared_with_relations():
    facts = read([("a", "likes", "b"), ("b", "Likes", "LIKES")])
    assert similar_names_note(facts).endswith("they are different relations; if they are not, write them in one way")


def test_numbered_entities_have_no_similar_names():
    assert similar_names_note(Facts.from_arrays([0], [0], [1])) is None

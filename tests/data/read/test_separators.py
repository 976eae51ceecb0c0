"""The separator of a text file is the one that gives rows of one length."""

import warnings

import pytest

from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning


def rows(name, n=40):
    return [(name.format(i % 5), "likes" if i % 2 else "knows", name.format(i % 7 + 1)) for i in range(n)]


def text(facts, sep):
    return "".join(sep.join(fact) + "\n" for fact in facts)


def read_with_notes(name, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DataWarning)
        return read(name, **options), " | ".join(str(one.message) for one in said)


@pytest.mark.parametrize("header", ["", "subject;relation;object\n", "person;verb;thing\n"])
@pytest.mark.parametrize("name", ["Doe, Ann {0}", "Doe,Ann {0}", "Doe, Ann, PhD {0}"])
@pytest.mark.parametrize("others", [[], [("no comma", "likes", "none here")]])
def test_semicolons_separate_names_with_commas(write, header, name, others):
    facts = [*rows(name), *others]
    if not header and not others and name == "Doe,Ann {0}":
        pytest.skip("three fields by either separator")
    found, said = read_with_notes(write("f.csv", header + text(facts, ";")), header=bool(header))
    assert set(found.named()) == set(facts)
    assert "read as semicolon-separated, as the commas are within fields; sep=';' says so" in said


def test_one_comma_per_row_does_not_make_an_edge_list(write):
    facts = [(s, r, "jazz") for s, r, _ in rows("Doe,Ann {0}")]
    assert set(read_with_notes(write("f.csv", text(facts, ";")))[0].named()) == set(facts)


@pytest.mark.parametrize("name", ["a;b {0}", "a; b {0}", "a|b;c {0}", "{0}"])
@pytest.mark.parametrize(("file", "sep"), [("f.csv", ","), ("f.tsv", "\t")])
def test_the_usual_separator_of_the_format_wins(write, name, file, sep):
    facts = rows(name)
    found, said = read_with_notes(write(file, text(facts, sep)), header=False)
    assert set(found.named()) == set(facts)
    assert "separated" not in said


@pytest.mark.parametrize("sep", [",", ";"])
def test_a_short_row_does_not_change_the_separator(write, sep):
    with pytest.raises(DataError, match=rf"f\.csv:41: expected 3 {'comma' if sep == ',' else 'semicolon'}-separated"):
        read_with_notes(write("f.csv", text([*rows("a {0}"), ("a", "b")], sep)))

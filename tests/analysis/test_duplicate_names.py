import numpy as np
import pytest

from relatent.analysis import duplicate_names as module
from relatent.data.names import Names

PEOPLE = [f"{first} {last}" for last in ("Meyer", "Vogt", "Krause") for first in ("Anna", "Jan", "Lena", "Otto")]
LONE = np.array([0]), np.array([1])


def evidence(*names):
    return module.NameEvidence(Names(names), np.zeros(len(names), np.int64))


def level(*names):
    (found,), _ = evidence(*names).judged(*LONE, np.array([0.1]))
    return module.LEVELS[found]


def log_ratio(*names):
    p = 1e-9  # too small to learn from
    _, (judged,) = evidence(*names).judged(*LONE, np.array([p]))
    return np.log(judged / p)


@pytest.mark.parametrize(
    ("name", "other", "wanted"),
    [
        ("VOGEL, JÜRGEN", "Vogel, Jürgen", "equal"),
        ("Jürgen Vogel", "Vogel, Jurgen", "equal"),
        ("http://example.org/Jurgen_Vogel", "Jürgen Vogel", "equal"),
        ("Jürgen Vogel", "Juergen Vogel", "equal"),
        ("The Münost", "TheMünost", "equal"),
        ("Los Bersta", "Los Bersta (live)", "contained"),
        ("Hans", "Hans (2)", "contained"),
        ("J. Vogel", "Vogel, Jürgen", "initials"),
        ("Jürgen Vogel", "Jürgen Vgel", "similar"),
        ("Rcihter, Jan", "Jan Richter", "similar"),
        ("Krüger, Björn", "Krüger, Jörg", "different"),
        ("Language C", "Language D", "different"),
        ("Henry I", "Henry IV", "different"),
        ("Anna", "Hans", "different"),
        ("Ann", "Ana", "different"),
        ("Q42", "Q43", ""),
        ("42", "42.", ""),
        ("Hans", "18", ""),
        ("…", "Hans", ""),
    ],
)
def test_levels_of_names(name, other, wanted):
    assert level(name, other) == level(other, name) == wanted


def test_a_numbered_series_is_made_of_ids():
    assert level("person 18", "person 19") == "different"
    assert level("person 18", "person 19", "person 20", "person_21") == ""


def test_words_that_other_names_have_too_are_not_misspelt():
    assert level("Jan Schmidt", "Jan Schmitt") == "similar"
    assert level("Jan Schmidt", "Jan Schmitt", "Eva Schmidt", "Eva Schmitt") == "different"


def test_agreement_is_stronger_the_rarer_the_words():
    rare = log_ratio("Ilka Wachs", "ILKA WACHS", *PEOPLE)
    common = log_ratio("Ilka Meyer", "ILKA MEYER", *PEOPLE)
    commonest = log_ratio("Anna Meyer", "ANNA MEYER", *PEOPLE[1:])
    assert rare > common > commonest > 0


def test_other_style_is_evidence_unless_it_is_common():
    lone = log_ratio("Ilka Meyer", "ILKA MEYER", *PEOPLE)
    usual = log_ratio("Ilka Meyer", "ILKA MEYER", *PEOPLE[:6], *map(str.upper, PEOPLE[6:]))
    assert lone > usual > 0


def test_a_word_of_many_names_is_hardly_their_short_form():
    few, many = (log_ratio("Rock", "Dark Rock", *others) for others in (PEOPLE, [*PEOPLE, "Folk Rock", "Hard Rock"]))
    assert few > 0.5
    assert many == 0


def test_names_that_differ_count_against_a_pair_even_with_a_rare_word_in_common():
    assert log_ratio("Ilka Wachs", "Jörg Wachs", *PEOPLE) == pytest.approx(np.log(0.2), abs=1e-6)
    assert log_ratio("Q42", "Q43", *PEOPLE) == 0


def test_how_duplicates_are_named_is_learned():
    names = [f"{first} {last}" for first in ("J.", "Jan") for last in ("Adler", "Bolz", "Cramm", "Dorn", "Ehlers")]
    (i, j), p = (np.arange(5), np.arange(5, 10)), np.full(5, 0.3)
    _, alone = evidence(names[0], names[5], *names[6:]).judged(*LONE, p[:1])
    levels, together = evidence(*names).judged(i, j, p)
    assert (levels == module.INITIALS).all()
    assert together.min() > alone[0]


def test_labels_are_compared_where_there_are_any():
    names = Names(["Q1", "Q2"]).with_labels({"Q1": "Oslo", "Q2": "OSLO"})
    i, j = module.NameEvidence(names, np.zeros(2, np.int64)).pairs()
    assert (i.tolist(), j.tolist()) == ([0], [1])


def test_names_that_many_entities_have_are_not_compared_with_each_other():
    assert len(evidence(*(f"Ann{'!' * i}" for i in range(module.MAX_BEARERS + 1))).pairs()[0]) == 0

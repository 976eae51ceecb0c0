import numpy as np
import pytest

from relatent.analysis import duplicate_names as module
from relatent.data.names import Names


def level(name, other, *further):
    names = module.compared_names(Names([name, other, *further]))
    (found,) = module.name_levels(names, module.pairs_by_name(names), np.array([0]), np.array([1]))
    return module.LEVELS[found]


@pytest.mark.parametrize(
    ("name", "other", "wanted"),
    [
        ("VOGEL, JÜRGEN", "Vogel, Jürgen", "equal"),
        ("Jürgen Vogel", "Vogel, Jurgen", "equal"),
        ("http://example.org/Jurgen_Vogel", "Jürgen Vogel", "equal"),
        ("Los Bersta", "Los Bersta (live)", "contained"),
        ("Hans", "Hans (2)", "contained"),
        ("Jürgen Vogel", "Juergen Vogel", "equal"),
        ("The Münost", "TheMünost", "similar"),
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
    assert level("person 18", "person 19") == "similar"
    assert level("person 18", "person 19", "person 20", "person_21") == ""


def test_a_word_of_many_names_is_not_their_short_form():
    assert level("Rock", "Dark Rock", "Folk Rock") == "contained"
    assert level("Rock", "Dark Rock", "Folk Rock", "Hard Rock") == "different"


def test_labels_are_compared_where_there_are_any():
    names = Names(["Q1", "Q2"]).with_labels({"Q1": "Oslo", "Q2": "OSLO"})
    assert module.pairs_by_name(module.compared_names(names)).level.tolist() == [module.EQUAL]


def test_names_that_many_entities_have_are_not_compared_with_each_other():
    names = Names([f"Ann{'!' * i}" for i in range(module.MAX_NAMESAKES + 1)])
    assert len(module.pairs_by_name(module.compared_names(names)).i) == 0


def test_ratios_are_the_assumed_shares_by_those_that_are_counted():
    levels = np.repeat(np.arange(5), [10, 955, 19, 9, 13])
    ratios = np.exp(module.log_name_ratios(levels, np.zeros(len(levels))))
    counted = np.array([956, 20, 10, 14]) / 1000
    np.testing.assert_allclose(ratios[[10, 970, 990, 1000]], module.DUPLICATE_SHARES / counted)
    assert (ratios[:10] == 1).all()


def test_common_agreement_counts_for_nothing_and_difference_never_for_a_pair():
    levels = np.repeat([module.SIMILAR, module.DIFFERENT], [900, 100])
    np.testing.assert_allclose(module.log_name_ratios(levels, np.zeros(1000)), 0)

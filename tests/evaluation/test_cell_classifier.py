import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import relatent
from relatent.errors import InputError, UnknownNameError
from relatent.evaluation import cell_classifier as classifier
from small_graphs import blocks

FACTS = blocks(18, groups=3)
CELLS = np.stack(np.unravel_index(np.arange(FACTS.n_cells), (18, 2, 18)), axis=1)
TRUTH = FACTS.contains(CELLS)


def als(**settings):
    return relatent.RescalALS(**{"rank": 3, "l2_entities": 0.01, "l2_relations": 0.01, "tol": 1e-3, **settings})


def model(estimator=None, **settings):
    return relatent.CellClassifier(estimator or als(), **{"n_entities": 18, "n_relations": 2, **settings})


def test_with_all_cells_the_fit_is_that_of_the_facts():
    wanted = als().set_params(patterns="none").fit(FACTS).factors_
    fitted = model().fit(CELLS, TRUTH)
    np.testing.assert_array_equal(fitted.estimator_.factors_.A, wanted.A)
    np.testing.assert_array_equal(fitted.decision_function(CELLS), wanted.score(*CELLS.T))
    assert (fitted.predict(CELLS) == TRUTH).all()


@pytest.mark.parametrize("estimator", [als(), relatent.RescalLogit(3, 0.1, 0.1, tol=1e-3)], ids=["als", "logit"])
def test_cells_that_are_not_in_X_are_unobserved(estimator):
    rng = np.random.default_rng(0)
    seen = rng.random(len(CELLS)) < 0.7
    fitted = model(estimator).fit(CELLS[seen], TRUTH[seen])
    wanted = clone(estimator).fit(FACTS.hold_out(CELLS[~seen], masked=True)).factors_
    np.testing.assert_array_equal(fitted.estimator_.factors_.A, wanted.A)


def test_cells_that_are_not_in_X_are_false_with_unlisted_zero():
    rng = np.random.default_rng(0)
    seen = rng.random(len(CELLS)) < 0.7
    fitted = model(unlisted="zero").fit(CELLS[seen], TRUTH[seen])
    wanted = als().fit(FACTS.hold_out(CELLS[~seen], masked=False)).factors_
    np.testing.assert_array_equal(fitted.estimator_.factors_.A, wanted.A)


def test_probabilities_of_false_and_true_add_up_to_one():
    fitted = model(relatent.RescalLogit(3, 0.1, 0.1, tol=1e-3)).fit(CELLS, TRUTH)
    p = fitted.predict_proba(CELLS)
    assert p.shape == (len(CELLS), 2)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.predict(CELLS), p[:, 1] > 0.5)


@pytest.mark.parametrize("kind", [bool, int, float])
def test_predictions_have_the_type_of_y(kind):
    fitted = model().fit(CELLS, TRUTH.astype(kind))
    assert fitted.predict(CELLS[:5]).dtype == np.array([kind()]).dtype
    assert fitted.score(CELLS, TRUTH.astype(kind)) == 1


def test_cross_val_score_holds_cells_out():
    scores = cross_val_score(model(), CELLS, TRUTH, cv=3, scoring="average_precision")
    assert scores.min() > 0.95


def test_grid_search_reaches_the_estimators_settings():
    search = GridSearchCV(model(), {"estimator__rank": [1, 3]}, cv=3, scoring="average_precision")
    assert search.fit(CELLS, TRUTH).best_params_ == {"estimator__rank": 3}


def test_a_clone_is_unfitted_and_has_the_same_settings():
    fitted = model(unlisted="zero").fit(CELLS, TRUTH)
    copy = clone(fitted)
    assert copy.n_entities == 18
    assert copy.unlisted == "zero"
    assert copy.estimator.rank == 3
    with pytest.raises(NotFittedError, match="not fitted yet"):
        copy.predict(CELLS)


def test_the_given_estimator_is_not_modified():
    estimator = als()
    model(estimator).fit(CELLS, TRUTH)
    assert not hasattr(estimator, "factors_")


def test_the_size_of_the_graph_follows_from_X_unless_given():
    few = np.array([[0, 0, 1], [1, 0, 4], [2, 1, 2]])
    shown = relatent.CellClassifier(als(rank=1)).fit(few, [1, 0, 1])
    assert shown.estimator_.factors_.A.shape == (5, 1)
    given = relatent.CellClassifier(als(rank=1), n_entities=9, n_relations=4).fit(few, [1, 0, 1])
    assert given.estimator_.factors_.A.shape == (9, 1)
    assert given.estimator_.factors_.R.shape == (4, 1, 1)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (CELLS[:, :2], TRUTH, r"X must be a non-empty \(n, 3\) array of cells, got shape \(648, 2\)"),
        (CELLS[:0], TRUTH[:0], r"X must be a non-empty \(n, 3\) array of cells, got shape \(0, 3\)"),
        (CELLS * 1.0, TRUTH, "X must contain names or ids, whole numbers from 0, got values of type float64"),
        (CELLS, TRUTH[1:], "X and y must be equally long, got 648 and 647"),
        (CELLS, TRUTH * 2, "y must contain the truth of each cell: 0 or 1, False or True"),
        (CELLS, TRUTH[:, None], "y must contain the truth of each cell"),
        (CELLS, TRUTH | True, "y must contain both true and false cells, got only one kind"),
    ],
)
def test_wrong_inputs_are_refused(X, y, message):
    with pytest.raises(InputError, match=message):
        model().fit(X, y)


def test_cells_by_name_give_the_fit_of_cells_by_id():
    """Names of a data frame, in an order of their own; a fold of X need not have all names."""
    entities, relations = [f"e{i:02}" for i in range(18)], ["likes", "knows"]
    named = pd.DataFrame({"s": CELLS[:, 0], "r": CELLS[:, 1], "o": CELLS[:, 2]})
    named = named.assign(s=[entities[i] for i in named.s], r=[relations[k] for k in named.r])
    named = named.assign(o=[entities[i] for i in named.o])
    by_name = relatent.CellClassifier(als(), entity_names=entities, relation_names=relations)
    np.testing.assert_array_equal(
        by_name.fit(named, TRUTH).predict_proba(named), model().fit(CELLS, TRUTH).predict_proba(CELLS)
    )
    assert cross_val_score(by_name, named, TRUTH, cv=3, scoring="average_precision").min() > 0.95
    with pytest.raises(UnknownNameError):
        by_name.predict(np.array([["nobody", "likes", "e00"]]))


def test_a_cell_cannot_be_both_true_and_false():
    with pytest.raises(InputError, match=r"a cell cannot be both true and false, got 3 \| 1 \| 2"):
        model().fit([[3, 1, 2], [0, 0, 1], [3, 1, 2]], [1, 0, 0])


@pytest.mark.parametrize("cell", [[18, 0, 1], [0, 2, 1], [-1, 0, 1]])
@pytest.mark.parametrize("truth", [0, 1])
def test_ids_out_of_range_are_refused_for_true_and_false_cells(cell, truth):
    with pytest.raises(InputError, match=r"id .*run from 0|ids? .*-1"):
        model().fit([cell, [1, 0, 1], [1, 0, 2]], [truth, 1, 0])
    fitted = model().fit(CELLS, TRUTH)
    with pytest.raises(UnknownNameError, match=r"unknown (entity|relation) id"):
        fitted.predict([cell])


def test_an_unknown_treatment_of_unlisted_cells_is_refused():
    with pytest.raises(InputError, match="unlisted must be 'unobserved' or 'zero', got 'one'"):
        model(unlisted="one").fit(CELLS, TRUTH)


def test_a_missing_estimator_is_refused():
    with pytest.raises(InputError, match=r"estimator must be given, for example CellClassifier\(RescalLogit"):
        relatent.CellClassifier().fit(CELLS, TRUTH)


def test_too_many_unlisted_cells_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(classifier, "MAX_CELLS_UNOBSERVED", 100)
    with pytest.raises(InputError, match=r"648 cells are too many to list .* use unlisted='zero'"):
        model().fit(CELLS, TRUTH)
    model(unlisted="zero").fit(CELLS, TRUTH)

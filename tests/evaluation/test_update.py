"""`update`: new facts, entities and relations in a model that exists."""

import dataclasses
import warnings

import numpy as np
import pytest
from test_unlisted_calibration import ALS, grouped_world, judged

import relatent
from relatent.data.facts_union import union
from relatent.errors import DataWarning, InputError
from relatent.evaluation.stored_estimator import stored_estimator
from small_graphs import politics, two_camps

LOGIT = relatent.RescalLogit(6, 0.05, 0.05)
ESTIMATORS = {
    "logit": LOGIT,
    "als": relatent.RescalALS(6, 0.05, 0.05),
    "nonnegative": relatent.NonnegativeRescal(6, 0.05, 0.05),
    "complex": relatent.RescalLogit(
        6, structure="complex", penalty=relatent.Dura(0.02), optimiser=relatent.Adam(0.1), init="small", max_iter=60
    ),
    "shared": relatent.RescalLogit(6, 0.05, 0.05, structure=relatent.Shared(2)),
    "softmax": relatent.Rescal(
        6, loss="softmax", penalty=relatent.Dura(0.02), optimiser=relatent.Adam(0.1), max_iter=40
    ),
}


def divided(facts, name):
    """The facts without an entity, and the facts of that entity, each over their own names."""
    rows = facts.named()
    own = [row for row in rows if name in row]
    return relatent.read([row for row in rows if row not in own]), relatent.read(own)


@pytest.fixture(scope="module")
def camps():
    return divided(two_camps(16), "p3")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_new_entity_is_learned_from_its_facts(camps, kind):
    old, new = camps
    is_given = np.arange(len(new)) % 2 == 0
    few = dataclasses.replace(new.subset(is_given), unobserved=np.asfortranarray(new.triples[~is_given]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        model = ESTIMATORS[kind].fit(old).factors_
    updated = relatent.update(model, few, old)
    assert list(updated.entities) == [*model.entities, "p3"]
    own, others = (updated.score("p3", "likes", [f"p{i}" for i in camp]) for camp in (range(5, 16, 2), range(0, 16, 2)))
    assert own.min() > others.max()
    assert updated.about["updates"][-1]["steps"] < max(11, model.about["fit"]["steps"] / 3)


def test_a_new_relation_is_learned_with_the_entities_that_are_known():
    facts = politics()
    of_party = [row for row in facts.named() if row[1] == "party"]
    old = relatent.read([row for row in facts.named() if row[1] != "party"])
    new = relatent.read(of_party)
    model = LOGIT.fit(old).factors_
    updated = relatent.update(model, new, old)
    assert list(updated.relations) == [*model.relations, "party"]
    known = [updated.score(*row) for row in of_party]
    swapped = [updated.score(s, r, "Red" if o == "Blue" else "Blue") for s, r, o in of_party]
    assert np.mean(np.array(known) > swapped) > 0.9


def test_settings_and_calibration_are_kept_and_an_update_can_follow_an_update(tmp_path):
    facts = grouped_world(n=60)
    rest, new = relatent.split(facts, test_size=0.05)
    train, test = relatent.split(rest, test_size=0.2, random_state=1)
    model = relatent.Calibrated(ALS, missing=0.2, heldout_folds=1).fit(train).factors_
    model.save(tmp_path / "m.relatent")
    once = relatent.update(relatent.load(tmp_path / "m.relatent"), new, train)
    listed = union([train, new], entities=train.entities, relations=train.relations)
    p, _, _ = judged(once, listed, test)
    assert p.sum() == pytest.approx(len(listed) * 0.2 / 0.8, rel=0.05)
    assert once.about["settings"] == model.about["settings"]
    assert once.about["calibration"]["expected"] > model.about["calibration"]["expected"]
    more = relatent.Facts.from_arrays(["0", "1"], ["5", "5"], ["1", "2"])
    twice = relatent.update(once, more, listed)
    assert [record["steps_of_fit"] for record in twice.about["updates"]] == [model.about["fit"]["steps"]] * 2
    assert len(twice.link.scores) == 4  # knots for the new relation, too
    twice.save(tmp_path / "m.relatent")
    assert relatent.load(tmp_path / "m.relatent").about == twice.about


def test_scales_of_relations_are_undone_for_the_fit_and_applied_again():
    facts = politics(60)
    estimator = dataclasses.replace(ESTIMATORS["complex"], rescale_relations=True)
    model = estimator.fit(facts).factors_
    again = relatent.update(model, facts, facts)
    record = again.about["rescaled"]
    assert record == model.about["rescaled"]
    difference = np.abs(again.score(*facts.triples.T) - model.score(*facts.triples.T))
    assert np.median(difference) < 0.5 * np.std(model.score(*facts.triples.T))


def test_the_same_call_gives_the_same_model(camps):
    old, new = camps
    model = ESTIMATORS["complex"].fit(old).factors_
    first, second = (relatent.update(model, new, old) for _ in range(2))
    np.testing.assert_array_equal(first.A, second.A)
    np.testing.assert_array_equal(first.R, second.R)


def test_other_known_facts_are_noticed(camps):
    old, new = camps
    model = LOGIT.fit(old).factors_
    with pytest.warns(DataWarning, match=r"known has 2 facts .* not the \d+ that the model was fitted to"):
        relatent.update(model, new, old.subset(np.arange(len(old)) < 2))


def test_models_that_cannot_be_updated_are_refused(camps):
    old, new = camps
    model = LOGIT.fit(old).factors_
    irm = dataclasses.replace(model, R=model.relation_matrices, about={"model": "IRM", "settings": {}})
    with pytest.raises(InputError, match="a model of IRM cannot be updated; fit it to all facts"):
        relatent.update(irm, new, old)
    with pytest.raises(InputError, match="new_facts must be Facts, got int"):
        relatent.update(model, 3, old)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_stored_estimator_has_the_settings_of_the_fit(camps, kind):
    estimator = ESTIMATORS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        model = dataclasses.replace(estimator, max_iter=2).fit(camps[0]).factors_
    stored = stored_estimator(model)
    assert type(stored) is type(estimator)
    given = {name: value for name, value in estimator.get_params().items() if value is not None and name != "max_iter"}
    found = stored.get_params()
    assert {name: found[name] for name in given if name != "method"} == {
        n: v for n, v in given.items() if n != "method"
    }


def test_settings_that_no_file_can_hold_are_refused(camps):
    model = LOGIT.fit(camps[0]).factors_
    settings = {**model.about["settings"], "penalty": "__import__('os').system('true')"}
    altered = dataclasses.replace(model, R=model.relation_matrices, about={**model.about, "settings": settings})
    with pytest.raises(InputError, match="was fitted with penalty="):
        stored_estimator(altered)
    with pytest.raises(InputError, match="does not say how it was fitted"):
        stored_estimator(dataclasses.replace(model, R=model.relation_matrices, about={}))

"""`update`: new facts, entities and relations in a model that exists."""

import dataclasses
import warnings

import numpy as np
import pytest
import sklearn.base

import relatent
from grouped_world import ALS, births, grouped_world, judged
from relatent.data.facts_union import union
from relatent.errors import InputError
from relatent.evaluation.model_names import stored_estimator
from relatent.model.provenance import Provenance
from small_graphs import politics, two_camps

LOGIT = relatent.RescalLogit(6, 0.05, 0.05, calibrate=False)
ESTIMATORS = {
    "logit": LOGIT,
    "als": relatent.RescalALS(6, 0.05, 0.05, calibrate=False),
    "nonnegative": relatent.NonnegativeRescal(6, 0.05, 0.05, calibrate=False),
    "complex": relatent.RescalLogit(
        6,
        structure="complex",
        penalty=relatent.Dura(0.02),
        optimiser=relatent.Adam(0.1),
        init="small",
        max_iter=60,
        calibrate=False,
    ),
    "shared": relatent.RescalLogit(6, 0.05, 0.05, structure=relatent.Shared(2), calibrate=False),
    "softmax": relatent.Rescal(
        6, loss="softmax", penalty=relatent.Dura(0.02), optimiser=relatent.Adam(0.1), max_iter=40, calibrate=False
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
    updated = relatent.update(model, few)
    assert list(updated.entities) == [*model.entities, "p3"]
    own, others = (updated.score("p3", "likes", [f"p{i}" for i in camp]) for camp in (range(5, 16, 2), range(0, 16, 2)))
    assert own.min() > others.max()
    assert updated.about.updates[-1].steps < max(11, model.about.fit.steps / 3)


def test_a_new_relation_is_learned_with_the_entities_that_are_known():
    facts = politics()
    of_party = [row for row in facts.named() if row[1] == "party"]
    old = relatent.read([row for row in facts.named() if row[1] != "party"])
    new = relatent.read(of_party)
    model = LOGIT.fit(old).factors_
    updated = relatent.update(model, new)
    assert list(updated.relations) == [*model.relations, "party"]
    known = [updated.score(*row) for row in of_party]
    swapped = [updated.score(s, r, "Red" if o == "Blue" else "Blue") for s, r, o in of_party]
    assert np.mean(np.array(known) > swapped) > 0.9


def test_settings_and_calibration_are_kept_and_an_update_can_follow_an_update(tmp_path):
    facts = grouped_world(n=60)
    rest, new = relatent.split(facts, test_size=0.05)
    train, test = relatent.split(rest, test_size=0.2, random_state=1)
    model = sklearn.base.clone(ALS).set_params(missing=0.2).fit(train).factors_
    model.save(tmp_path / "m.relatent")
    once = relatent.update(relatent.load(tmp_path / "m.relatent"), new)
    listed = union([train, new], entities=train.entities, relations=train.relations)
    assert once.facts.fingerprint == listed.fingerprint
    p, truth, _ = judged(once, listed, test)
    assert p.sum() == pytest.approx(len(listed) * 0.2 / 0.8, rel=0.05)
    assert p[truth].mean() > 5 * p[~truth].mean()
    assert once.about.settings == model.about.settings
    assert once.calibration.expected > model.calibration.expected
    assert (once.calibration.missing, once.calibration.is_assumed) == (0.2, False)
    assert once.calibration.heldout_facts == model.calibration.heldout_facts
    more = relatent.Facts.from_arrays(["0", "1"], ["5", "5"], ["1", "2"])
    twice = relatent.update(once, more)
    assert [record.steps_of_fit for record in twice.about.updates] == [model.about.fit.steps] * 2
    assert len(twice.calibration.scores) == 4  # knots for the new relation, too
    twice.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    assert again.about == twice.about
    np.testing.assert_array_equal(again.probability(0, 3, [1, 2]), twice.probability(0, 3, [1, 2]))


def test_what_another_answer_means_is_carried_over():
    train, _ = relatent.split(births(), test_size=0.1)
    model = ALS.fit(train).factors_
    larger = relatent.update(model, relatent.read([("new", "born in", "town1"), ("new", "knows", "p1")]))
    assert list(larger.relations) == [*train.relations, "knows"]
    assert larger.calibration.one_answer[:2].tolist() == model.calibration.one_answer.tolist()
    assert larger.calibration.one_answer[train.relations.id("born in"), 0]
    open_ = [f"town{i}" for i in range(12)]
    found, before = (f.probability(train.entities[0], "visited", open_) for f in (larger, model))
    np.testing.assert_allclose(found, before, atol=0.1)


def test_the_same_call_gives_the_same_model(camps):
    old, new = camps
    model = ESTIMATORS["complex"].fit(old).factors_
    first, second = (relatent.update(model, new) for _ in range(2))
    np.testing.assert_array_equal(first.A, second.A)
    np.testing.assert_array_equal(first.R, second.R)


def test_facts_that_the_model_holds_and_that_are_given_again_count_once():
    def calls(*rows):
        callers, called, times = zip(*rows, strict=True)
        return relatent.Facts.from_arrays(callers, ["calls"] * len(rows), called, times=np.array(times, float))

    old = calls("ab2", "bc1", "ca1")
    model = relatent.Rescal(2, "poisson", l2_entities=0.1, l2_relations=0.1, calibrate=False).fit(old).factors_
    updated = relatent.update(model, calls("cb1"), known=calls("ab2", "da3"))
    counted = {s + o: times for (s, _, o), times in zip(updated.facts.named(), updated.facts.times, strict=True)}
    assert counted == {"ab": 2, "bc": 1, "ca": 1, "cb": 1, "da": 3}


def test_a_model_without_facts_needs_them(camps):
    old, new = camps
    model = sklearn.base.clone(LOGIT).set_params(keep_facts=False).fit(old).factors_
    with pytest.raises(InputError, match=r"does not hold the facts .* as known= or --known"):
        relatent.update(model, new)
    updated = relatent.update(model, new, known=old)
    assert updated.facts is None
    np.testing.assert_array_equal(updated.A, relatent.update(LOGIT.fit(old).factors_, new).A)


def test_models_that_cannot_be_updated_are_refused(camps):
    old, new = camps
    model = LOGIT.fit(old).factors_
    irm = dataclasses.replace(model, R=model.relation_matrices, about=Provenance("IRM", {"chains": 2}))
    with pytest.raises(InputError, match="a model of IRM cannot be updated; fit it to all facts"):
        relatent.update(irm, new)
    with pytest.raises(InputError, match="new_facts must be Facts, got int"):
        relatent.update(model, 3)


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
    own = Provenance(model.about.model, {**model.about.settings, "penalty": {"type": "own.Loss"}})
    for about, message in ((own, "penalty of 'own.Loss'"), (Provenance(), "does not say how it was fitted")):
        with pytest.raises(InputError, match=message):
            stored_estimator(dataclasses.replace(model, R=model.relation_matrices, about=about))


@pytest.mark.parametrize(
    "model",
    [
        relatent.RescalLogit(3, relation_weights={"likes": 2.0}, max_iter=20, calibrate=False),
        relatent.Rescal(3, loss={"likes": "squared", "knows": "logistic"}, max_iter=20, calibrate=False),
    ],
    ids=["weights", "losses"],
)
@pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
def test_a_model_whose_relations_have_losses_of_their_own_is_updated(model):
    rows = [(f"e{i}", k, f"e{(i * step + 1) % 12}") for i in range(12) for k, step in (("likes", 5), ("knows", 7))]
    old = sklearn.base.clone(model).fit(relatent.read(rows)).factors_
    new = relatent.update(old, relatent.read([("e1", "likes", "new"), ("new", "knows", "e2")]))
    assert len(new.entities) == 13
    assert np.isfinite(new.A).all()
    assert list(new.relations) == ["knows", "likes"]


def test_new_facts_that_share_no_entity_with_the_model_are_refused():
    model = relatent.RescalALS(2, 0.1, 0.1, calibrate=False).fit(politics()).factors_
    relation = model.relations[0]
    with pytest.raises(InputError, match=r"the model knows no entity of the new facts: it has .*, they have 'x', 'y';"):
        relatent.update(model, relatent.read([("x", relation, "y")]))
    with pytest.raises(InputError, match="the model knows no entity of the facts"):
        model.fold_in(relatent.read([("x", relation, "y")]))

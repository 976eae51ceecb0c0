"""`combine`: the sum of models is one model, of the size of its parts, that does whatever they do."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
import sklearn.base

import relatent
from grouped_world import grouped_world, judged
from relatent.errors import InputError
from relatent.model.direct_sum import direct_sum
from relatent.model.links import LogisticLink, RankingLink, RelationLinks, SmoothLink, SummedLink
from relatent.web.explorer import Explorer
from small_graphs import politics, two_camps

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
FACTS = politics()
QUICK = {"l2_entities": 0.1, "l2_relations": 0.1, "max_iter": 20, "calibrate": False}
COMPLEX = {
    "structure": "complex",
    "penalty": relatent.N3(0.01),
    "optimiser": relatent.Adam(0.1),
    "init": "small",
    "max_iter": 20,
    "calibrate": False,
}


def fitted(*estimators, facts=FACTS):
    return [sklearn.base.clone(estimator).fit(facts).factors_ for estimator in estimators]


@pytest.fixture(scope="module")
def parts():
    """Models of different structures and losses on one scale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(relatent.RescalLogit(4, **QUICK), relatent.RescalLogit(6, **COMPLEX))


def all_cells(model):
    shape = (len(model.entities), len(model.relations), len(model.entities))
    return np.unravel_index(np.arange(np.prod(shape)), shape)


def test_scores_are_the_weighted_sums_of_scores(parts):
    cells = all_cells(parts[0])
    theta = [model.score(*cells) for model in parts]
    found = relatent.combine(parts)
    np.testing.assert_allclose(found.score(*cells), theta[0] + theta[1], atol=1e-5)
    assert (found.rank, found.calibration) == (10, None)
    weighted = relatent.combine(parts, weights=[2, 0.5])
    np.testing.assert_allclose(weighted.score(*cells), 2 * theta[0] + theta[1] / 2, atol=1e-5)
    every = np.arange(len(FACTS.entities))
    np.testing.assert_allclose(weighted.scores_of_all(every, 0), weighted.score(every[:, None], 0, every), atol=1e-5)
    nested = relatent.combine([weighted, parts[0]], weights=[2, 1])
    assert [part.weight for part in nested.summands] == [4, 1, 1]
    np.testing.assert_allclose(nested.score(*cells), 5 * theta[0] + theta[1], atol=1e-4)


def test_a_sum_has_the_parameters_of_its_parts_and_gives_them_back(parts, tmp_path):
    found = relatent.combine(parts, weights=[1, 0.5])
    for model in (found, _saved(found, tmp_path)):
        assert model.relation_matrices.parameters.size == sum(part.relation_matrices.parameters.size for part in parts)
        for part, before in zip(model.parts, parts, strict=True):
            np.testing.assert_allclose(part.R, before.R, rtol=1e-6)
            for name in ("A", "bias"):
                np.testing.assert_array_equal(getattr(part, name), getattr(before, name))
            for name in ("loss", "penalty", "link", "undirected"):
                assert getattr(part, name) == getattr(before, name)
            assert part.about.settings == before.about.settings
    header = relatent.model.model_file.inspect(tmp_path / "m.relatent")
    assert (header["structure"], [part["weight"] for part in header["summands"]]) == ("sum", [1.0, 0.5])


def test_a_file_of_a_sum_is_as_large_as_those_of_its_parts(tmp_path):
    facts, sizes = relatent.load_dataset("kinships"), []
    parts = fitted(
        *(relatent.RescalLogit(120, **COMPLEX | {"max_iter": 2, "random_state": s}) for s in (0, 1)), facts=facts
    )
    for name, model in (("a", parts[0]), ("b", parts[1]), ("sum", relatent.combine(parts))):
        model.save(tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[2] < sizes[0] + sizes[1] + 2000


def _saved(model, folder):
    model.save(folder / "m.relatent")
    return relatent.load(folder / "m.relatent")


def test_answers_and_the_best_facts_are_those_of_whole_matrices(parts):
    found = relatent.combine(parts)
    known = {name: getattr(found, name) for name in ("about", "facts", "undirected")}
    whole = relatent.Factors(
        found.A, found.R, found.bias, found.entities, found.relations, found.link, **known, loss=parts[0].loss
    )
    for place in ({"subject": 0, "relation": 0}, {"relation": 0, "object": 1}, {"subject": 0, "object": 1}):
        assert found.top(**place, k=3).names == whole.top(**place, k=3).names
    first, second = ([fact[:3] for fact in relatent.missing(model, 20).missing] for model in (found, whole))
    assert first == second
    near, same = (relatent.similar(model, 0, k=5) for model in (found, whole))
    assert [row.name for row in near] == [row.name for row in same]
    np.testing.assert_allclose([row.similarity for row in near], [row.similarity for row in same], rtol=1e-6)


def test_an_entity_is_folded_into_each_part(parts):
    newcomer = relatent.read([("Eve", "party", "Red"), ("Eve", "vice president", FACTS.entities[3])])
    newcomer = relatent.read([row for row in newcomer.named() if row[1] in FACTS.relations])
    found = relatent.combine(parts).fold_in(newcomer)
    for part, before in zip(found.parts, parts, strict=True):
        np.testing.assert_allclose(part.A, before.fold_in(newcomer).A, rtol=1e-5, atol=1e-7)
    assert found.about.folded_in == ("Eve",)


def test_reasons_add_the_influences_in_each_part(parts):
    found = relatent.combine(parts, weights=[2, 1])
    s, k, o = (names[0] for names in (found.entities, found.relations, found.entities))
    told = relatent.explain(found, s, k, o, k=50)
    assert told.bias + told.by_patterns + told.by_factors == pytest.approx(told.score, abs=1e-5)
    largest = [relatent.explain(part, s, k, o, k=1).components[0].contribution for part in parts]
    expected = max((2 * largest[0], largest[1]), key=abs)
    assert told.components[0].contribution == pytest.approx(expected, rel=1e-4)
    influences = [{row[:3]: row.influence for row in relatent.explain(part, s, k, o, k=50).reasons} for part in parts]
    shared = [row for row in told.reasons if all(row[:3] in given for given in influences)]
    assert shared
    for row in shared:
        assert row.influence == pytest.approx(2 * influences[0][row[:3]] + influences[1][row[:3]], rel=1e-3)


def test_doubt_of_a_fact_adds_the_changes_of_the_parts(parts):
    from relatent.model.leave_one_out import left_out_scores
    from relatent.progress import silent

    each = [left_out_scores(part, FACTS, silent) for part in parts]
    found = left_out_scores(relatent.combine(parts, weights=[1, 3]), FACTS, silent)
    np.testing.assert_allclose(found, each[0] + 3 * each[1], rtol=1e-4, atol=1e-4)
    assert len(relatent.doubt(relatent.combine(parts), k=3).doubtful) == 3


def test_names_may_have_another_order(parts):
    first, second = parts
    rows = np.random.default_rng(0).permutation(FACTS.named()).tolist()
    names = [sorted({row[place] for row in rows}, reverse=True) for place in (0, 1)]
    entities = sorted(FACTS.entities, reverse=True)
    turned = relatent.Facts.from_arrays(*np.array(rows).T, entity_names=entities, relation_names=names[1])
    for estimator in (relatent.RescalLogit(4, **QUICK), relatent.RescalLogit(4, structure=relatent.Shared(2), **QUICK)):
        [other] = fitted(estimator, facts=turned)
        found = relatent.combine([first, other, relatent.combine([other, other])])
        assert list(found.entities) == list(first.entities)
        for s, k, o in FACTS.named()[:5]:
            assert found.score(s, k, o) == pytest.approx(first.score(s, k, o) + 3 * other.score(s, k, o), rel=1e-4)
    assert second.rank == 6


def test_links_of_relations_follow_their_order():
    rows = [("a", "calls", "b"), ("b", "calls", "c"), ("a", "likes", "b"), ("c", "likes", "a")]
    loss = {"calls": "poisson", "likes": "logistic"}
    models = [
        relatent.Rescal(2, loss=loss, **QUICK).fit(relatent.Facts.from_arrays(*np.array(rows).T, relation_names=order))
        for order in (["calls", "likes"], ["likes", "calls"])
    ]
    assert [model.factors_.link.links[0] for model in models] == ["count", "logistic"]
    found = relatent.combine([model.factors_ for model in models], weights=[0.5, 0.5])
    assert found.link == models[0].factors_.link
    assert found.parts[1].link == models[0].factors_.link


def test_links_are_those_of_the_mean_score(parts):
    cells = all_cells(parts[0])
    found = relatent.combine(parts)
    assert found.link == SummedLink(("logistic",), 2.0)
    np.testing.assert_allclose(
        found.probability(*cells), LogisticLink().probability(found.score(*cells) / 2), atol=1e-6
    )
    assert relatent.combine(parts, weights=[0.5, 0.5]).link == LogisticLink()
    [softmax] = fitted(relatent.Rescal(4, loss="softmax", **COMPLEX | {"structure": "complex"}))
    mixed = relatent.combine([parts[0], softmax])
    assert (mixed.link, mixed.loss.name, mixed.has_probabilities) == (RankingLink(), "sum", False)
    assert "calibrate it" in mixed.probability_note
    each = RelationLinks(("logistic", "smooth"))
    np.testing.assert_allclose(
        SummedLink.of([each, each], 2.0).response(np.array([1.0, 1.0]), [0, 1]), [LogisticLink().response(0.5), 0.5]
    )
    assert SummedLink.of([SmoothLink(0.1), SmoothLink(0.1)], 2.0) == RankingLink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"facts": FACTS.subset(np.arange(len(FACTS)) > 0)}, "models of a sum must be fitted to the same facts"),
        ({"entities": [f"x{i}" for i in range(FACTS.n_entities)], "facts": None}, "must have the same entities"),
        ({"relations": [f"x{i}" for i in range(FACTS.n_relations)], "facts": None}, "must have the same relations"),
        ({"link": SmoothLink()}, "cannot be added, because their scores are not on one scale"),
    ],
)
def test_models_that_have_no_sum_are_refused(parts, change, message):
    other = dataclasses.replace(parts[1], R=parts[1].relation_matrices, **change)
    with pytest.raises(InputError, match=message):
        relatent.combine([parts[0], other])


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        (1, {}, "a sum needs at least two models, got 1"),
        (2, {"weights": [1]}, "a weight for each of 2 models, got 1"),
        (2, {"weights": [1, -1]}, "weights of models must be finite and above 0, got -1.0"),
        (2, {"missing": 2}, "missing must be a share"),
    ],
)
def test_impossible_arguments_are_refused(parts, models, options, message):
    with pytest.raises(InputError, match=message):
        relatent.combine(parts[:models], **options)
    with pytest.raises(InputError, match="combine takes Factors, got int"):
        relatent.combine([parts[0], 3])


# --- patterns and probabilities


@pytest.fixture(scope="module")
def world():
    train, test = relatent.split(grouped_world(n=60), test_size=0.2)
    estimators = [relatent.RescalALS(rank, 0.5, 0.5, tol=1e-2, missing=0.2) for rank in (8, 11)]
    return train, test, [estimator.fit(train).factors_ for estimator in estimators]


def test_a_sum_of_calibrated_models_is_calibrated_by_sums_without_some_facts(world):
    train, test, models = world
    found = relatent.combine(models)
    assert (found.calibration.missing, found.calibration.is_assumed) == (0.2, False)
    assert found.calibration.heldout_facts == models[0].calibration.heldout_facts
    p, truth, _ = judged(found, train, test)
    assert p.sum() == pytest.approx(len(train) * 0.2 / 0.8, rel=0.05)
    assert p[truth].mean() > 5 * p[~truth].mean()
    assert (found.patterns is None) == (models[0].patterns is None)
    assert relatent.combine(models, calibrate=False).calibration is None
    again = relatent.calibrate(found, missing=0.4)
    assert again.calibration.expected == pytest.approx(len(train) * 0.4 / 0.6, rel=0.05)


def test_patterns_are_weighed_beside_the_sum():
    facts = two_camps(16)
    estimators = [relatent.RescalLogit(rank, 0.5, 0.5, max_iter=20, random_state=rank) for rank in (3, 4)]
    models = [estimator.fit(facts).factors_ for estimator in estimators]
    found = relatent.combine(models)
    assert all(model.patterns is not None for model in models)
    assert found.patterns is not None
    cells = all_cells(found)
    by_factors = relatent.combine(models, calibrate=False).score(*cells)
    s, k, o = cells
    np.testing.assert_allclose(found.score(*cells), found.patterns.joined(by_factors, s, k, o), rtol=1e-4, atol=1e-4)
    assert found.about.learned.patterns is not None


def test_validation_facts_take_no_fit(world, monkeypatch):
    train, test, models = world
    monkeypatch.setattr("relatent.fit.estimators.als.RescalALS._fit", None)
    found = relatent.combine(models, validation=test)
    assert found.calibration.heldout_facts == len(test)
    with pytest.raises(InputError, match=r"none of the .* validation facts is new to the model"):
        relatent.combine(models, validation=train)


def test_facts_that_the_models_do_not_hold_are_asked_for(world):
    train, _, models = world
    without = [dataclasses.replace(model, R=model.relation_matrices, facts=None) for model in models]
    with pytest.raises(InputError, match=r"give them, as known= or --known"):
        relatent.combine(without)
    found = relatent.combine(without, known=train)
    assert found.facts is None
    assert found.calibration is not None
    with pytest.raises(
        InputError, match=r"shares of 0.1 and 0.2 of the facts are missing; say which, by missing= or --missing"
    ):
        relatent.combine([models[0], relatent.calibrate(models[1], missing=0.1)])


def test_an_update_continues_each_part(world, tmp_path):
    train, _, models = world
    found = _saved(relatent.combine(models), tmp_path)
    new = relatent.Facts.from_arrays(["new", "new"], ["0", "4"], ["1", "2"])
    larger = _saved(relatent.update(found, new), tmp_path)
    for part, model in zip(larger.parts, models, strict=True):
        np.testing.assert_array_equal(part.A, relatent.update(model, new).A)
    assert len(larger.facts) == len(train) + 2
    assert larger.calibration.missing == 0.2
    assert larger.about.updates[-1].entities == 1
    assert larger.about.settings == found.about.settings
    twice = relatent.update(larger, relatent.Facts.from_arrays(["newer"], ["0"], ["1"]))
    assert len(twice.about.updates) == len(twice.parts[1].about.updates) == 2


def test_attributes_say_something_about_each_part():
    rows = [(f"{kind}{i}", "likes", f"{kind}{(i + 1) % 6}") for kind in "ab" for i in range(6)]
    known = {f"{kind}{i}": {"club": "red" if kind == "a" else "blue"} for kind in "ab" for i in range(6)}
    facts = relatent.read(rows, attributes=known)
    models = fitted(
        *(relatent.RescalALS(rank, 0.1, 0.1, max_iter=5, tol=0.1, calibrate=False) for rank in (2, 3)), facts=facts
    )
    found = relatent.combine(models)
    given = {"c": {"club": "red"}}
    larger = found.fold_in(relatent.read([("c", "likes", "a0")]), attributes=given)
    for part, model in zip(larger.parts, models, strict=True):
        alone = model.fold_in(relatent.read([("c", "likes", "a0")]), attributes=given)
        np.testing.assert_allclose(part.A, alone.A, rtol=1e-5, atol=1e-6)


def test_relations_that_exclude_each_other_compete_in_the_sum():
    rows = [row for row in FACTS.named() if row[1] == "party"]
    facts = relatent.read([*rows, ("Red", "rival of", "Blue"), ("Blue", "rival of", "Red")])
    given = {"l2_entities": 0.1, "l2_relations": 0.1, "max_iter": 20, "calibrate": False}
    models = fitted(*(relatent.Rescal(rank, loss="categorical", **given) for rank in (2, 3)), facts=facts)
    found = direct_sum(models)
    assert found.exclusive
    s, k, o = all_cells(found)
    theta = sum(np.einsum("nr,nrs,ns->n", model.A[s], model.R[k], model.A[o]) + model.bias[k] for model in models)
    by_pair = theta.reshape(len(found.entities), len(found.relations), -1)
    others = [np.log1p(np.exp(np.delete(by_pair, r, axis=1)).sum(axis=1)) for r in range(len(found.relations))]
    wanted = by_pair - np.stack(others, axis=1)
    np.testing.assert_allclose(found.score(s, k, o), wanted.reshape(-1), atol=1e-4)
    with pytest.raises(InputError, match="not on one scale"):
        relatent.combine([models[0], *fitted(relatent.RescalLogit(2, **QUICK), facts=facts)])


def test_pairs_without_a_direction_have_one_score():
    pairs = [(f"p{i}", "married to", f"p{i + 1}") for i in range(0, 12, 2)]
    rows = [*pairs, ("p0", "likes", "p3"), ("p4", "likes", "p3")]
    facts = relatent.read(rows).with_undirected(["married to"])
    estimators = [relatent.RescalLogit(rank, structure="complex", **QUICK) for rank in (2, 4)]
    found = relatent.combine(fitted(*estimators, facts=facts))
    s, o = np.divmod(np.arange(facts.n_entities**2), facts.n_entities)
    relation = facts.relations.id("married to")
    np.testing.assert_allclose(found.score(s, relation, o), found.score(o, relation, s), rtol=1e-5, atol=1e-5)
    assert found.undirected == {relation}


def test_the_explorer_shows_a_sum(parts):
    page = Explorer(relatent.combine(parts)).model()
    assert (page.kind, page.sizes.rank, page.can_fold_in) == ("sum", 10, True)
    assert json.loads(json.dumps(page.settings)) == {
        "models": ["RescalLogit", "RescalLogit"],
        "ranks": [4, 6],
        "weights": [1.0, 1.0],
    }

"""Attributes that stay with a model: its file, fold-in, updates."""

import dataclasses
import warnings

import numpy as np
import pytest

import relatent
from attribute_graphs import customers
from relatent.data.attribute_table import AttributeTable
from relatent.errors import ModelFileError

NEWCOMERS = [f"user_{i}" for i in range(0, 150, 10)]


@pytest.fixture(scope="module")
def world():
    graph = customers(12, n_users=150, n_products=60)
    is_new = dict.fromkeys(NEWCOMERS, True)
    with pytest.warns(relatent.DataWarning, match="15 of 210 entities with attributes have no facts"):
        known = relatent.read([row for row in graph.rows if row[0] not in is_new], attributes=graph.table)
    new = relatent.read([row for row in graph.rows if row[0] in is_new])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {"logit": relatent.RescalLogit(max_iter=40).fit(known), "als": relatent.RescalALS(rank=20).fit(known)}
    return graph, known, new, {name: model.factors_ for name, model in models.items()}


@pytest.mark.parametrize("name", ["logit", "als"])
def test_a_file_keeps_the_attributes(world, tmp_path, name):
    graph, _, _, models = world
    models[name].save(tmp_path / "m.relatent")
    loaded = relatent.load(tmp_path / "m.relatent")
    assert loaded.attributes.names == ["about", "born", "income", "price"]
    table = AttributeTable.of(graph.table)
    for before, after in zip(
        *(model.attributes.priors(table, ["user_0", "nobody"]) for model in (models[name], loaded)), strict=True
    ):
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before.means, after.means)


def test_damaged_attributes_are_refused(world, tmp_path):
    factors = world[3]["als"]
    wrong = relatent.model.entity_attributes.EntityAttributes(
        factors.attributes.columns[:-1], factors.attributes.weights, factors.attributes.precision
    )
    broken = relatent.Factors(
        factors.A, factors.R, factors.bias, factors.entities, factors.relations, factors.link, attributes=wrong
    )
    broken.save(tmp_path / "m.relatent")
    with pytest.raises(ModelFileError, match="attribute_weights is float32 of shape"):
        relatent.load(tmp_path / "m.relatent")


@pytest.mark.parametrize("name", ["logit", "als"])
def test_newcomers_are_folded_in_by_their_attributes_alone(world, name):
    graph, known, new, models = world
    table = {entity: graph.table[entity] for entity in NEWCOMERS}
    larger = models[name].fold_in(known, attributes=table)
    assert set(larger.entities) - set(models[name].entities) == set(NEWCOMERS)
    bought = new.subset(new.triples[:, 1] == new.relations.id("bought"))
    permuted = dict(zip(NEWCOMERS, [table[entity] for entity in NEWCOMERS[::-1]], strict=True))
    own, others = (
        object_mrr(models[name].fold_in(known, attributes=given, others=0.0), bought) for given in (table, permuted)
    )
    assert own > 1.5 * others


def object_mrr(factors, test):
    ranking = relatent.evaluate(factors, test)
    return np.mean(2 / (ranking.optimistic[:, 1] + ranking.pessimistic[:, 1]))


@pytest.mark.filterwarnings("ignore::relatent.errors.ConvergenceWarning")
def test_a_model_without_attributes_refuses_them(world):
    graph, known, _, models = world
    plain = relatent.RescalALS(rank=2, max_iter=2, calibrate=False).fit(known.without_attributes()).factors_
    with pytest.raises(relatent.InputError, match="the model was fitted without attributes"):
        plain.fold_in(known, attributes={"user_0": graph.table["user_0"]})
    without = dataclasses.replace(models["als"], facts=None)
    with pytest.raises(relatent.InputError, match=r"fitted with attributes \(about, born, income, price\); give those"):
        relatent.update(without, known.without_attributes(), known=known.without_attributes())


def test_attributes_of_other_names_are_refused_or_warned_of(world):
    graph, known, _, models = world
    own = graph.table["user_0"]
    with pytest.raises(relatent.InputError, match="uses none of the attributes shoe size; it uses about, born, income"):
        models["als"].fold_in(known, attributes={"Eve": {"shoe size": 38}})
    with pytest.warns(relatent.DataWarning, match="attributes that the model does not use are ignored: shoe size;"):
        models["als"].fold_in(known, attributes={"Eve": {**own, "shoe size": 38}})


def test_a_data_frame_of_attributes_is_that_of_a_mapping(world):
    pandas = pytest.importorskip("pandas")
    graph, known, _, models = world
    own = {name: value for name, value in graph.table["user_0"].items() if isinstance(value, (int, float, str))}
    frame = pandas.DataFrame([{"entity": "Eve", **own}])
    placed = [models["als"].fold_in(known, attributes=given).A[-1] for given in (frame, {"Eve": own})]
    np.testing.assert_array_equal(*placed)


def test_an_update_learns_from_attributes_of_new_entities(world):
    graph, _, new, models = world
    new = relatent.read(new, attributes={name: graph.table[name] for name in NEWCOMERS})
    updated = relatent.update(models["als"], new)
    assert set(NEWCOMERS) <= set(updated.entities)
    assert updated.attributes.names == models["als"].attributes.names

"""A loss and a weight per relation: sums, derivatives, links, files, and a world where one loss for all is worse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import relatent
from relatent import Facts, Rescal
from relatent.backend.numpy_backend import NumpyBackend
from relatent.data.names import Names
from relatent.fit import losses, relation_losses
from relatent.model.links import CountLink, LogisticLink, RelationLinks, SmoothLink
from small_graphs import random_facts, random_parameters

FACTS = random_facts(12, 4, 80, unobserved=60, weighted=True)
BACKEND = NumpyBackend("float64")
MIXED = {"0": "poisson", "1": "squared", "3": "hinge"}


def test_the_sum_is_the_weighted_sum_of_the_relations_own_losses() -> None:
    weights = {"1": 2.0, "2": 0.5}
    A, R, b = random_parameters(FACTS, 3)
    R, b = R / 4, b / 4
    got = relation_losses.resolve(MIXED, weights, FACTS.relations).cell_sum(FACTS, BACKEND)(A, R, b)
    total, dA = 0.0, np.zeros_like(A)
    for k, name in enumerate(FACTS.relations):
        one = FACTS.over(FACTS.entities, type(FACTS.relations)([name], what="relation"))
        part = losses.resolve(MIXED.get(name, "logistic")).cell_sum(one, BACKEND)(A, R[[k]], b[[k]])
        w = weights.get(name, 1.0)
        total, dA = total + w * part.value, dA + w * part.dA
        assert np.allclose(got.dR[k], w * part.dR[0])
        assert got.db[k] == pytest.approx(w * part.db[0])
    assert got.value == pytest.approx(total)
    assert np.allclose(got.dA, dA)


def test_each_relation_has_the_link_of_its_loss() -> None:
    link = RelationLinks(("logistic", "count", "smooth"))
    theta = np.array([-1.0, 0.3, 0.9])
    for k, plain in enumerate((LogisticLink(), CountLink(), SmoothLink())):
        assert np.array_equal(link.probability(theta, k), plain.probability(theta))
        assert np.array_equal(link.response(theta, np.full(3, k)), plain.response(theta))
    with pytest.raises(relatent.InputError, match="needed"):
        link.probability(theta)
    with pytest.raises(relatent.InputError, match="plain ones, got 'ring'"):
        RelationLinks(("ring",))


def world(seed: int, n: int = 40) -> tuple[Any, Any]:
    """Mean counts of one relation, probabilities of another, both from the same vectors: (N, N) each."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 3))
    first, second = rng.normal(size=(2, 3, 3)) / 1.7
    return np.exp(np.clip(A @ first @ A.T, -4, 3)), expit(4 * (A @ second @ A.T))


def drawn(means: Any, chances: Any, seed: int) -> tuple[Facts, Any]:
    """Facts of 70 % of the cells, and which cells are hidden."""
    rng = np.random.default_rng(seed)
    counts, true = rng.poisson(means), rng.random(chances.shape) < chances
    hidden = rng.random((2, *means.shape)) < 0.3
    s, o = np.nonzero((counts > 0) & ~hidden[0])
    s2, o2 = np.nonzero(true & ~hidden[1])
    names = [f"e{i}" for i in range(len(means))]
    triples = np.concatenate([np.stack([s, np.zeros_like(s), o], axis=1), np.stack([s2, np.ones_like(s2), o2], axis=1)])
    times = np.concatenate([counts[s, o], np.ones(len(s2), int)])
    k, i, j = np.nonzero(hidden)
    facts = Facts.from_ids(
        triples,
        entities=Names(names),
        relations=Names(["calls", "likes"], what="relation"),
        times=times,
        unobserved=np.stack([i, k, j], axis=1),
    )
    return facts, hidden


def test_a_loss_per_relation_beats_one_loss_for_all() -> None:
    means, chances = world(1)
    facts, hidden = drawn(means, chances, 2)
    (i, j), (i2, j2) = np.nonzero(hidden[0]), np.nonzero(hidden[1])
    of_counts, of_truth = {}, {}
    for name, loss in (("own", {"calls": "poisson"}), ("logistic", "logistic"), ("poisson", "poisson")):
        model = Rescal(6, loss=loss, l2_entities=0.5, l2_relations=0.5, tol=1e-4, calibrate=False).fit(facts).factors_
        mean = np.maximum(model.link.response(model.score(i, 0, j), np.zeros(len(i), int)), 1e-3)
        of_counts[name] = float(np.mean(mean - means[i, j] * np.log(mean)))  # of a Poisson likelihood
        p = np.clip(model.probability(i2, 1, j2), 1e-6, 1 - 1e-6)
        of_truth[name] = float(-np.mean(chances[i2, j2] * np.log(p) + (1 - chances[i2, j2]) * np.log1p(-p)))
    assert of_counts["own"] < min(of_counts["logistic"], of_counts["poisson"]) - 0.05
    assert of_truth["own"] < min(of_truth["logistic"], of_truth["poisson"]) - 0.03


def test_weights_shift_the_fit_to_a_relation() -> None:
    means, chances = world(3)
    facts, _ = drawn(means, chances, 4)
    found = {}
    for weight in (0.1, 10.0):
        settings = {"l2_entities": 1.0, "l2_relations": 1.0, "tol": 1e-4, "calibrate": False}
        model = Rescal(3, relation_weights={"likes": weight}, **settings).fit(facts)
        f, likes = model.factors_, facts.triples[facts.triples[:, 1] == 1]
        found[weight] = float(f.probability(*likes.T).mean())
    assert found[10.0] > found[0.1] + 0.05


def test_a_model_with_losses_by_relation_survives_a_file(tmp_path: Path) -> None:
    facts, _ = drawn(*world(5), 6)
    loss = {"calls": "poisson"}
    model = Rescal(3, loss=loss, relation_weights={"calls": 0.5}, l2_entities=1.0, l2_relations=1.0, tol=1e-3)
    f = model.fit(facts).factors_
    f.save(tmp_path / "m.relatent")
    again = relatent.load(tmp_path / "m.relatent")
    assert again.link == f.link == RelationLinks(("count", "logistic"))
    assert again.loss is not None
    assert again.loss.parameters == {"losses": {"calls": "poisson"}, "other": "logistic", "weights": {"calls": 0.5}}
    assert again.has_probabilities
    assert np.array_equal(again.probability(*facts.triples.T), f.probability(*facts.triples.T))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": {"hates": "poisson"}}, "relation 'hates', which the facts do not have"),
        ({"loss": {"0": "softmax"}}, "losses of single cells, got 'softmax'"),
        ({"loss": {"0": "categorical"}}, "losses of single cells, got 'categorical'"),
        ({"loss": {"0": "ring"}}, "got 'ring'"),
        ({"relation_weights": {"0": -1.0}}, "the weight of relation '0'"),
        ({"loss": {"0": "poisson"}, "method": "sampled"}, "method='sampled'"),
    ],
)
def test_losses_and_weights_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(relatent.InputError, match=message):
        Rescal(3, **changes, calibrate=False).fit(FACTS)

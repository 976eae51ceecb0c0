import functools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from relatent.baselines import mrc, relational_clustering
from relatent.baselines.mrc import MRC
from relatent.data.dense_tensors import dense_tensors
from relatent.data.heldout import HeldOut
from relatent.errors import InputError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base
from small_graphs import all_scores, blocks, permuted, random_facts

SMALL = random_facts(12, 3, 60, unobserved=30, weighted=True)


def quick(**settings):
    return MRC(**{"n_clusterings": 12, "n_clusters": 4, "n_relation_clusters": 2, "calibrate": False, **settings})


def crossing(n=48, seed=0):
    """Two groupings that cut across each other: whom one knows depends on one, whom one likes on the other."""
    rng = np.random.default_rng(seed)
    first, second = rng.permutation(np.arange(n) % 4), rng.permutation(np.arange(n) % 3)
    knows = first[:, None] == (first[None, :] + 1) % 4
    likes = second[:, None] == (second[None, :] + 1) % 3
    return relatent.Facts.from_tensor(np.stack([knows, likes], axis=2).astype(float)), first, second


def plain_worth(cells, gh, z, q, smoothing):
    """Σ G² / (H + λ), block by block."""
    blocks_of = list(zip(q[cells.triples[:, 1]], z[cells.triples[:, 0]], z[cells.triples[:, 2]], strict=True))
    G, H = {}, {}
    for block, (g, h) in zip(blocks_of, gh, strict=True):
        G[block], H[block] = G.get(block, 0) + g, H.get(block, 0) + h
    return sum(G[block] ** 2 / (H[block] + smoothing) for block in G)


def solver(facts, **settings):
    defaults = {"n_clusterings": 5, "n_clusters": 3, "n_relation_clusters": 2}
    return mrc.Stagewise(facts, **{**defaults, "smoothing": 1.0, "learning_rate": 0.5, "random_state": 0, **settings})


def some_residuals(facts):
    cells = solver(facts).all_cells
    rng = np.random.default_rng(0)
    return cells, np.stack([rng.normal(size=len(cells.x)), rng.random(len(cells.x))], axis=1)


# --- the kernels and their plain twins


def test_every_observed_cell_is_listed_once_with_its_weight():
    cells = solver(SMALL).all_cells
    X, W = dense_tensors(SMALL)
    s, k, o = cells.triples.T
    seen = np.zeros_like(W)
    np.add.at(seen, (k, s, o), cells.w)
    np.testing.assert_array_equal(seen, W)
    np.testing.assert_array_equal(cells.x, X[k, s, o])
    assert len(np.unique(cells.triples, axis=0)) == len(cells.triples) == SMALL.n_cells - len(SMALL.unobserved)


def test_a_clustering_is_no_better_with_any_one_entity_or_relation_moved(monkeypatch):
    monkeypatch.setattr(relational_clustering, "MAX_SWEEPS", 100)
    facts = random_facts(9, 3, 60, unobserved=20)
    cells, gh = some_residuals(facts)
    z, q, sums = relational_clustering.cluster(cells, gh, 3, 2, 1.5, np.random.default_rng(1))
    best = plain_worth(cells, gh, z, q, 1.5)
    assert np.sum(sums[..., 0] ** 2 / (sums[..., 1] + 1.5)) == pytest.approx(best)
    for array, clusters in ((z, 3), (q, 2)):
        for i in range(len(array)):
            for c in range(clusters):
                moved = array.copy()
                moved[i] = c
                z_, q_ = (moved, q) if array is z else (z, moved)
                assert plain_worth(cells, gh, z_, q_, 1.5) <= best + 1e-7


def test_sums_kept_along_are_those_summed_anew():
    cells, gh = some_residuals(SMALL)
    rng = np.random.default_rng(2)
    z, q = rng.integers(0, 3, 12), np.array([0, 1, 0])
    sums = relational_clustering._by_cluster(relational_clustering._block_sums(cells.triples, gh, z, 3, 3), q, 2)
    before = plain_worth(cells, gh, z, q, 1.0)
    order = rng.permutation(12)
    rows, columns = cells.rows.with_values(gh), cells.columns.with_values(gh)
    moved = relational_clustering._move_entities(rows, columns, z, q, sums, order, 1.0)
    assert moved
    assert plain_worth(cells, gh, z, q, 1.0) > before
    anew = relational_clustering._by_cluster(relational_clustering._block_sums(cells.triples, gh, z, 3, 3), q, 2)
    np.testing.assert_allclose(sums, anew, atol=1e-10)


def test_scores_are_base_rates_and_the_weights_of_all_clusterings():
    model = quick(dtype="float64").fit(SMALL)
    f = model.factors_
    one = solver(SMALL, n_clusters=4, n_clusterings=12)
    state = one.start()
    expected = np.broadcast_to(one.bias[:, None, None], (3, 12, 12))
    for _ in range(12):
        state = one.step(state)
        z, q, W = state.z[-1], state.q[-1], state.W[-1]
        expected = expected + W[q][:, z[:, None], z[None, :]]
    np.testing.assert_allclose(all_scores(f.A, f.R) + f.bias[:, None, None], expected, atol=1e-9)
    X, weights = dense_tensors(SMALL)
    loss = np.sum(weights * (np.logaddexp(0, expected) - X * expected))
    assert model.trace_.objective[-1] == pytest.approx(loss)


# --- the model


def test_groupings_that_cut_across_each_other_are_both_found():
    facts, first, second = crossing()
    model = quick(n_clusterings=30, n_clusters=4).fit(facts)
    for group in (first, second):
        assert max(adjusted_rand_score(z, group) for z in model.clusterings_) > 0.98
    f = model.factors_
    X, _ = dense_tensors(facts)
    probability = f.link.probability(all_scores(f.A, f.R) + f.bias[:, None, None])
    assert ((probability > 0.5) == (X > 0.5)).all()


def test_what_is_masked_is_predicted():
    facts, _, _ = crossing(36)
    assert relatent.cross_validate(quick(n_clusterings=30), facts, folds=3, n_jobs=1).auc_pr > 0.98


def test_relations_that_are_alike_share_a_cluster():
    """Relations 0 and 1 hold for the same groups, 2 and 3 for others."""
    half = np.arange(20) < 10
    one = half[:, None] & ~half[None, :]
    X = np.stack([one, one, ~one, ~one], axis=2).astype(float)
    model = quick(n_clusters=2).fit(relatent.Facts.from_tensor(X))
    assert adjusted_rand_score(model.relation_clusterings_[0], [0, 0, 1, 1]) == 1
    assert adjusted_rand_score(model.clusters_, half) == 1


def test_each_clustering_raises_the_likelihood_of_a_plain_world():
    assert (np.diff(quick().fit(blocks(24)).trace_.objective) < 0).all()


def test_rare_facts_do_not_make_the_steps_too_long():
    """A clique of 20 among 150 entities: its log odds rise by many units, but not beyond what a step may."""
    s, o = np.divmod(np.arange(400), 20)
    facts = relatent.Facts.from_arrays(s, np.zeros(400, int), o, n_entities=150)
    model = quick(n_clusterings=20, n_clusters=2, learning_rate=0.5).fit(facts)
    assert (np.diff(model.trace_.objective) < 0).all()
    assert np.abs(model.factors_.R).max() <= 20 * 4 * 0.5


def test_with_too_many_cells_zeros_are_sampled(monkeypatch):
    facts, first, second = crossing(72)
    monkeypatch.setattr(mrc, "MAX_CELLS", 6000)  # of 10368
    model = quick(n_clusterings=30, n_clusters=4).fit(facts)
    for group in (first, second):
        assert max(adjusted_rand_score(z, group) for z in model.clusterings_) > 0.95
    assert_same(model, quick(n_clusterings=30, n_clusters=4).fit(facts))


def test_a_fact_of_weight_0_is_a_cell_not_observed():
    facts, _, _ = crossing(24)
    weights = np.ones(len(facts))
    weights[::5] = 0
    doubted = relatent.Facts.from_ids(facts.triples, facts.entities, facts.relations, weights=weights)
    masked = facts.hold_out(facts.triples[::5], masked=True)
    for name in ("A", "R", "bias"):
        got, wanted = (getattr(quick().fit(each).factors_, name) for each in (doubted, masked))
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_a_heavier_fact_is_believed_more():
    facts = random_facts(12, 1, 30)
    probabilities = []
    for heavy in (1.0, 40.0):
        weights = np.ones(len(facts))
        weights[0] = heavy
        weighed = relatent.Facts.from_ids(facts.triples, facts.entities, facts.relations, weights=weights)
        probabilities.append(quick().fit(weighed).factors_.probability(*facts.triples[0]))
    assert probabilities[1] > probabilities[0]


def test_the_same_seed_gives_the_same_result_and_another_seed_another():
    first, again, other = (quick(random_state=seed).fit(SMALL) for seed in (3, 3, 4))
    assert_same(first, again)
    assert first.trace_.objective.tolist() != other.trace_.objective.tolist()


def test_the_order_of_entities_does_not_matter():
    facts, first, second = crossing(seed=3)
    order = np.random.default_rng(0).permutation(48)
    model = quick(n_clusterings=30, n_clusters=4).fit(permuted(facts, order))
    for group in (first, second):
        assert max(adjusted_rand_score(z[order], group) for z in model.clusterings_) > 0.98


def test_with_validation_as_many_clusterings_are_kept_as_predict_it_best():
    facts = random_facts(20, 2, 200)
    cells = facts.triples[::4]
    heldout = HeldOut(np.concatenate([cells, cells[:, ::-1]]), np.repeat([True, False], len(cells)))
    train = facts.hold_out(heldout.cells, masked=True)
    model = quick(n_clusterings=60, patience=2).fit(train, heldout)
    losses = model.trace_.validation
    assert heldout.log_loss(model.factors_) == pytest.approx(np.nanmin(losses), rel=1e-5)
    assert len(model.clusterings_) == int(np.nanargmin(losses)) + 1 < 60


def test_settings_facts_and_factors_are_as_every_estimator_has_them(tmp_path):
    triples, weights = SMALL.triples.copy(), SMALL.weights.copy()
    model = quick(dtype="float64").fit(SMALL)
    np.testing.assert_array_equal(SMALL.triples, triples)
    np.testing.assert_array_equal(SMALL.weights, weights)
    assert model.factors_.A.dtype == model.factors_.R.dtype == np.float64
    assert model.trace_.converged
    assert model.trace_.verdict == "ended after 12 steps: all 12 clusterings are made"
    assert len(model.clusterings_) == len(model.relation_clusterings_) == model.n_iter_ == 12
    np.testing.assert_array_equal(model.clusters_, model.clusterings_[0])
    probability = model.factors_.probability(*SMALL.triples.T)
    assert ((probability > 0) & (probability < 1)).all()
    model.factors_.save(tmp_path / "model.relatent")
    loaded = relatent.load(tmp_path / "model.relatent")
    for name in ("A", "R", "bias"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model.factors_, name))


def test_the_smallest_worlds_are_taken():
    for n in (1, 2):
        facts = relatent.Facts.from_arrays([0], [0], [n - 1], n_entities=n)
        assert len(quick().fit(facts).clusters_) == n


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusterings": 0}, "n_clusterings must be a whole number of at least 1, got 0"),
        ({"n_clusters": True}, "n_clusters must be a whole number of at least 1, got True"),
        ({"n_relation_clusters": "all"}, "n_relation_clusters must be a whole number of at least 1, got 'all'"),
        ({"smoothing": 0.0}, "smoothing must be above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number of at least 0, got nan"),
        ({"patience": 0}, "patience must be a whole number of at least 1, got 0"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', got 'float16'"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, a numpy Generator or None, got -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        quick(**settings).fit(SMALL)


# --- checkpoints


def assert_same(first, second):
    assert_same_fit(first, second)
    np.testing.assert_array_equal(first.clusterings_, second.clusterings_)


@pytest.mark.parametrize("most_cells", [100, 10_000])
def test_an_interrupted_fit_goes_on_to_the_very_same_factors(monkeypatch, tmp_path, most_cells):
    monkeypatch.setattr(mrc, "MAX_CELLS", most_cells)
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        quick().fit(SMALL, checkpoint=path, progress=interrupt_at(7))
    assert path.exists()
    assert_same(quick().fit(SMALL, checkpoint=path), quick().fit(SMALL))

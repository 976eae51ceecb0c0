import functools
import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln
from sklearn.metrics import adjusted_rand_score

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from relatent.baselines import block_model, block_moves
from relatent.baselines.irm import IRM
from relatent.baselines.partitions import bilinear, by_size, n_components
from relatent.data.dense_tensors import dense_tensors
from relatent.errors import InputError
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base
from small_graphs import all_scores, permuted, random_facts
from small_graphs import blocks as block_world

SMALL = random_facts(12, 2, 60, unobserved=30, weighted=True)
NOBODY = np.empty(0, np.int64)


def quick(**settings):
    return IRM(**{"chains": 2, "burn_in": 8, "n_samples": 4, "calibrate": False, **settings})


def planted(n=60, groups=4, n_relations=2, seed=0):
    """Facts with probability .9 or .05, as the groups of subject and object say; and the groups."""
    rng = np.random.default_rng(seed)
    share = np.where(rng.random((n_relations, groups, groups)) < 0.5, 0.9, 0.05)
    group = rng.permutation(np.arange(n) % groups)
    X = rng.random((n_relations, n, n)) < share[:, group[:, None], group[None, :]]
    return relatent.Facts.from_tensor(X.transpose(1, 2, 0).astype(float)), group


def plain_counts(facts, z):
    """m¹ and m⁰ of each block, from dense tensors, (K, C, C)."""
    X, W = dense_tensors(facts)
    Z = np.eye(z.max() + 1)[z]
    return tuple(np.einsum("ia,kij,jb->kab", Z, T, Z) for T in (W * X, W * (1 - X)))


def plain_log_evidence(facts, z, beta_true, beta_false):
    true, false = plain_counts(facts, z)
    return float(np.sum(betaln(true + beta_true, false + beta_false) - betaln(beta_true, beta_false)))


def plain_log_partition(z, concentration):
    """The Chinese restaurant, seat by seat."""
    total = 0.0
    for i in range(len(z)):
        friends = np.sum(z[:i] == z[i])
        total += math.log((friends or concentration) / (i + concentration))
    return total


def counted(facts, z, beta_true=0.3, beta_false=1.2, slots=8):
    """What the kernels work on."""
    cells = block_model.block_cells(facts)
    counts = block_model.empty_counts(facts.n_entities, facts.n_relations, slots)
    counts.z[:] = z
    log_beta = block_model.log_beta(beta_true, beta_false, facts.n_entities**2)
    block_model.recount(cells, counts, log_beta, np.arange(slots))
    work = block_moves.move_workspace(cells, facts.n_relations, slots)
    return block_moves.BlockState(cells, counts, work, log_beta)


# --- the kernels and their plain twins


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_the_dense_tensor_without_unobserved_cells(weighted):
    facts = random_facts(15, 3, 120, unobserved=80, weighted=weighted)
    z = np.random.default_rng(0).integers(0, 4, 15)
    _, counts, _, log_beta = counted(facts, z)
    true, false = plain_counts(facts, z)
    np.testing.assert_allclose(counts.true[:, :4, :4], true, atol=1e-12)
    zeros = np.outer(counts.sizes, counts.sizes) - counts.listed
    np.testing.assert_array_equal(zeros[:, :4, :4], false)
    assert block_model.log_evidence(counts, log_beta) == pytest.approx(plain_log_evidence(facts, z, 0.3, 1.2))


def test_the_prior_of_a_partition_is_that_of_the_restaurant():
    z = np.array([0, 0, 1, 2, 1, 0])
    assert block_model.log_partition(np.bincount(z, minlength=9), 1.7) == pytest.approx(plain_log_partition(z, 1.7))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_draws_from_the_posterior_of_each_entity(weighted):
    """The log probabilities of the slots that one entity may join are differences of the plain log joint."""
    facts = random_facts(10, 2, 60, unobserved=30, weighted=weighted)
    z = np.array([0, 0, 1, 1, 1, 2, 2, 0, 1, 3])
    for i in (0, 4, 9):  # 9 is alone in its slot
        state = counted(facts, z)
        counts = state.counts
        block_moves.gibbs_pass(state, 1.7, np.array([i]), NOBODY, np.array([0.4]), NOBODY)
        joint = []
        for s in range(5 if i != 9 else 4):
            moved = z.copy()
            moved[i] = s
            moved = np.unique(moved, return_inverse=True)[1]
            joint.append(plain_log_evidence(facts, moved, 0.3, 1.2) + plain_log_partition(moved, 1.7))
        expected = np.array(joint) - np.logaddexp.reduce(joint)
        np.testing.assert_allclose(state.work.logs[: len(joint)], expected, atol=1e-8)
        assert np.searchsorted(np.cumsum(np.exp(expected)), 0.4) == counts.z[i]


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_kept_along_are_those_counted_anew(weighted):
    facts = random_facts(20, 3, 200, unobserved=100, weighted=weighted)
    rng = np.random.default_rng(1)
    state = counted(facts, rng.integers(0, 3, 20), slots=21)
    counts = state.counts
    for _ in range(3):
        block_moves.gibbs_pass(state, 2.0, rng.permutation(20), NOBODY, rng.random(20), NOBODY)
        block_moves.split_or_merge(state, 2.0, rng.random((6, 20)))
    _, anew, _, _ = counted(facts, counts.z, slots=21)
    for name in ("sizes", "true", "listed"):
        np.testing.assert_allclose(getattr(counts, name), getattr(anew, name), atol=1e-9, err_msg=name)
    used = np.flatnonzero(anew.sizes)
    np.testing.assert_allclose(counts.gain[np.ix_(used, used)], anew.gain[np.ix_(used, used)], atol=1e-9)
    np.testing.assert_allclose(counts.own_gain[used], anew.own_gain[used], atol=1e-9)


@pytest.mark.parametrize("move", ["pass", "split or merge"])
def test_either_move_alone_samples_the_exact_posterior(move):
    """Four entities have fifteen partitions; how often each is drawn is how probable it is."""
    facts = random_facts(4, 1, 6, unobserved=2, seed=3)
    partitions = [
        z for z in itertools.product(range(4), repeat=4) if all(z[i] <= max((-1, *z[:i])) + 1 for i in range(4))
    ]
    assert len(partitions) == 15
    logs = [
        plain_log_evidence(facts, np.array(z), 0.3, 1.2) + plain_log_partition(np.array(z), 1.5) for z in partitions
    ]
    exact = np.exp(logs - np.logaddexp.reduce(logs))
    state = counted(facts, np.zeros(4, int), slots=5)
    counts = state.counts
    rng = np.random.default_rng(0)
    seen = dict.fromkeys(partitions, 0)
    draws = 30_000
    for _ in range(draws):
        if move == "pass":
            block_moves.gibbs_pass(state, 1.5, np.arange(4), NOBODY, rng.random(4), NOBODY)
        else:
            block_moves.split_or_merge(state, 1.5, rng.random((4, 4)))
        first = list(dict.fromkeys(counts.z.tolist()))
        seen[tuple(first.index(s) for s in counts.z)] += 1
    np.testing.assert_allclose(np.array(list(seen.values())) / draws, exact, atol=0.015)


def test_clusters_are_numbered_by_size():
    assert by_size(np.array([5, 2, 2, 7, 5, 2])).tolist() == [1, 0, 0, 2, 1, 0]


@pytest.mark.parametrize("partitions", [2, 30])
def test_block_models_add_up_to_a_bilinear_form(partitions):
    """Few partitions stand side by side; of many, at most one component an entity is left."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, (partitions, 40))
    tables = rng.normal(size=(partitions, 2, 3, 3))
    A, R = bilinear(z, list(tables), np.float64)
    expected = sum(table[:, c[:, None], c[None, :]] for c, table in zip(z, tables, strict=True))
    np.testing.assert_allclose(all_scores(A, R), expected, atol=1e-10)
    assert A.shape[1] == n_components(z) <= 40


# --- the model


@pytest.mark.parametrize("seed", range(3))
def test_planted_clusters_are_found(seed):
    facts, group = planted(seed=seed)
    model = quick(random_state=seed).fit(facts)
    assert adjusted_rand_score(model.clusters_, group) > 0.98
    assert [len(names) for names in model.groups_] == np.bincount(model.clusters_).tolist()
    assert model.factors_.about.learned.n_clusters == (4,)


def test_clusters_are_found_from_half_of_the_cells():
    facts, group = planted(seed=5)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 7000) for size in (60, 2, 60)], axis=1)
    masked = facts.hold_out(cells, masked=True)
    model = quick().fit(masked)
    assert adjusted_rand_score(model.clusters_, group) > 0.95


def test_predictions_are_posterior_means_of_blocks():
    """One sample of one chain: what it predicts is (m¹ + β¹) / (m¹ + m⁰ + β¹ + β⁰) of its block_model."""
    model = quick(chains=1, n_samples=1, dtype="float64").fit(SMALL)
    z = model.clusters_
    true, false = plain_counts(SMALL, z)
    Z = np.eye(z.max() + 1)[z]
    eta = np.einsum(
        "ai,kij,bj->kab", np.linalg.pinv(Z), all_scores(model.factors_.A, model.factors_.R), np.linalg.pinv(Z)
    )
    # β¹ and β⁰ from the two unknowns of η (m¹ + m⁰ + β¹ + β⁰) = m¹ + β¹, which hold in every block
    unknown = np.stack([(eta - 1).ravel(), eta.ravel()], axis=1)
    known = (true - eta * (true + false)).ravel()
    beta = np.linalg.lstsq(unknown, known, rcond=None)[0]
    assert (beta > 0).all()
    np.testing.assert_allclose(unknown @ beta, known, atol=1e-8)


def test_probabilities_lie_between_0_and_1():
    f = quick().fit(SMALL).factors_
    theta = all_scores(f.A, f.R)
    assert theta.min() >= 0
    assert theta.max() <= 1
    assert f.link.name == "identity"


def test_a_fact_of_weight_0_is_a_cell_not_observed():
    facts, _ = planted(30, seed=1)
    cells = facts.triples[::7]
    weights = np.ones(len(facts))
    weights[::7] = 0
    doubted = relatent.Facts.from_ids(facts.triples, facts.entities, facts.relations, weights=weights)
    for name in ("A", "R"):
        np.testing.assert_array_equal(
            getattr(quick().fit(doubted).factors_, name),
            getattr(quick().fit(facts.hold_out(cells, masked=True)).factors_, name),
        )


def test_a_heavier_fact_is_believed_more():
    facts = random_facts(12, 1, 30)
    probabilities = []
    for heavy in (1.0, 40.0):
        weights = np.ones(len(facts))
        weights[0] = heavy
        weighed = relatent.Facts.from_ids(facts.triples, facts.entities, facts.relations, weights=weights)
        probabilities.append(quick().fit(weighed).factors_.probability(*facts.triples[0]))
    assert probabilities[1] > probabilities[0]


def test_the_same_seed_gives_the_same_result_and_another_seed_may_differ():
    first, again, other = (quick(random_state=seed).fit(SMALL) for seed in (3, 3, 4))
    assert_same(first, again)
    assert first.trace_.objective.tolist() != other.trace_.objective.tolist()


def test_the_order_of_entities_does_not_matter():
    facts, group = planted(seed=7)
    order = np.random.default_rng(0).permutation(60)
    model = quick().fit(permuted(facts, order))
    assert adjusted_rand_score(model.clusters_[order], group) > 0.98


def test_a_world_of_blocks_is_predicted_where_it_is_masked():
    report = relatent.cross_validate(quick(), block_world(24, groups=3), folds=3, n_jobs=1)
    assert report.auc_pr > 0.98


def test_settings_facts_and_factors_are_as_every_estimator_has_them(tmp_path):
    triples, weights = SMALL.triples.copy(), SMALL.weights.copy()
    model = quick(dtype="float64").fit(SMALL)
    np.testing.assert_array_equal(SMALL.triples, triples)
    np.testing.assert_array_equal(SMALL.weights, weights)
    assert model.factors_.A.dtype == model.factors_.R.dtype == np.float64
    assert model.trace_.converged
    assert model.trace_.verdict == "ended after 12 steps: all 12 sweeps are drawn"
    assert model.n_iter_ == 12
    model.factors_.save(tmp_path / "model.relatent")
    loaded = relatent.load(tmp_path / "model.relatent")
    for name in ("A", "R", "bias"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model.factors_, name))
    assert loaded.link == model.factors_.link
    assert loaded.about.learned.groups == tuple(map(tuple, model.groups_))


def test_the_smallest_worlds_are_taken():
    for n in (1, 2, 3):
        facts = relatent.Facts.from_arrays([0], [0], [n - 1], n_entities=n)
        assert len(quick().fit(facts).clusters_) == n


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chains": 0}, "chains must be a whole number of at least 1, got 0"),
        ({"burn_in": 2.5}, "burn_in must be a whole number of at least 1, got 2.5"),
        ({"n_samples": None}, "n_samples must be a whole number of at least 1, got None"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64', got 'float16'"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, a numpy Generator or None, got -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        quick(**settings).fit(SMALL)


def test_validation_cells_are_refused():
    with pytest.raises(InputError, match=r"IRM\.fit does not support validation"):
        quick().fit(SMALL, SMALL)


# --- checkpoints


def assert_same(first, second):
    assert_same_fit(first, second)
    np.testing.assert_array_equal(first.clusters_, second.clusters_)


@pytest.mark.parametrize("step", [2, 10])
def test_an_interrupted_fit_goes_on_to_the_very_same_factors(monkeypatch, tmp_path, step):
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        quick().fit(SMALL, checkpoint=path, progress=interrupt_at(step))
    assert path.exists()
    assert_same(quick().fit(SMALL, checkpoint=path), quick().fit(SMALL))

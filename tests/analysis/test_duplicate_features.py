import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal as normal

import relatent
from relatent import Facts
from relatent.analysis import duplicate_features as features
from relatent.model.entity_regression import EntityCells, least_squares_vectors

ALPHA = features.LIFT_PRIOR_COUNT


def crowd(n=30, per_entity=6, seed=0):
    """Every entity has a random choice of facts."""
    rng = np.random.default_rng(seed)
    s = np.repeat(np.arange(n), per_entity)
    o = (s + rng.integers(1, n, len(s))) % n
    return Facts.from_arrays(s, rng.integers(0, 3, len(s)), o, entity_names=[f"e{i:02d}" for i in range(n)])


def plain_lifts(X, i, j):
    """The four numbers of one pair by plain loops."""
    D, n = X.toarray(), X.shape[0]
    table = {}
    for f in np.flatnonzero(D[i]):
        for g in np.flatnonzero(D[j]):
            if f != g:
                expected = D[:, f].sum() * D[:, g].sum() / n
                table[f, g] = np.log(((D[:, f] * D[:, g]).sum() + ALPHA) / (expected + ALPHA))
    lines = [[v for key, v in table.items() if key[side] == f] for side in (0, 1) for f in {key[side] for key in table}]
    own = len({key[0] for key in table})

    def mean_of(choose):
        return np.mean([choose(line) for line in lines[:own]]) + np.mean([choose(line) for line in lines[own:]])

    values = list(table.values())
    return [np.mean(values), mean_of(max), min(values), mean_of(min)]


def test_lifts_are_those_of_plain_loops():
    X, _ = features.fact_table(crowd())
    i, j = np.array([2, 0, 11]), np.array([7, 1, 20])
    plain = [plain_lifts(X, a, b) for a, b in zip(i, j, strict=True)]
    np.testing.assert_allclose(features.pair_lifts(X, i, j), plain)


def test_of_many_facts_evenly_spaced_ones_are_compared(monkeypatch):
    X, _ = features.fact_table(crowd())
    i, j = np.array([2, 0]), np.array([7, 1])
    monkeypatch.setattr(features, "MAX_LIFT_FACTS", 3)
    thinned = X.copy().tolil()
    for row in (*i, *j):
        have = X.indices[X.indptr[row] : X.indptr[row + 1]]
        for column in np.setdiff1d(have, have[:: -(-len(have) // 3)]):
            thinned[row, column] = 0
    plain = plain_lifts_of(X, thinned.tocsr(), i, j)
    np.testing.assert_allclose(features.pair_lifts(X, i, j)[:, 0], plain)


def plain_lifts_of(X, thinned, i, j):
    """The mean lift of the facts that are left, counted among all."""
    D, some, n = X.toarray(), thinned.toarray(), X.shape[0]
    found = []
    for a, b in zip(i, j, strict=True):
        lifts = []
        for f in np.flatnonzero(some[a]):
            for g in np.flatnonzero(some[b]):
                expected = D[:, f].sum() * D[:, g].sum() / n
                lifts.append(np.log(((D[:, f] * D[:, g]).sum() + ALPHA) / (expected + ALPHA)))
        found.append(np.mean(lifts))
    return found


def test_entities_with_most_facts_are_left_out_of_the_counts(monkeypatch):
    degree = np.array([3, 1, 2, 50])
    assert features._max_counted_facts(degree) == 50
    monkeypatch.setattr(features, "MAX_COUNTED_PAIRS", 20)
    assert features._max_counted_facts(degree) == 50  # the first beyond still counts
    monkeypatch.setattr(features, "MAX_COUNTED_PAIRS", 10)
    assert features._max_counted_facts(degree) == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_the_halves_score_is_a_ratio_of_gaussian_likelihoods_also_for_negative_correlation(monkeypatch, sign):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4000, 2)) @ np.array([[2.0, 0.3], [0.0, 1.0]])
    U, V = y + rng.normal(size=y.shape), sign * y + rng.normal(size=y.shape)
    monkeypatch.setattr(features, "MIN_HALF_CORRELATION", -0.98)
    left, right = features.log_ratio(U, U, V)
    both = np.concatenate([U, V])
    mu, sd = both.mean(axis=0), both.std(axis=0)
    u, v = (U - mu) / sd, (V - mu) / sd
    S = (u.T @ u + v.T @ v) / (2 * len(u))
    S = S + 0.005 * np.trace(S) * np.eye(2)
    C = (u.T @ v + v.T @ u) / (2 * len(u))
    ratio = [
        normal.logpdf(np.concatenate([u[a], u[b]]), cov=np.block([[S, C], [C, S]]))
        - normal.logpdf(u[a], cov=S)
        - normal.logpdf(u[b], cov=S)
        for a, b in ((0, 1), (2, 3))
    ]
    ours = [left[0] @ right[1], left[2] @ right[3]]
    assert ours[0] - ours[1] == pytest.approx(ratio[0] - ratio[1])


def test_candidates_are_the_best_with_and_without_a_common_fact(monkeypatch):
    monkeypatch.setattr(features, "MAX_CANDIDATES", 1)
    facts = Facts.from_arrays(["a", "b", "c", "d"], ["r"] * 4, ["x", "x", "y", "z"])
    X, _ = features.fact_table(facts)
    T = X[:4]
    position = np.array([[0.0], [1.0], [2.0], [10.0]])
    likely = (
        np.hstack([position, -(position**2), np.ones((4, 1))]),
        np.hstack([2 * position, np.ones((4, 1)), -(position**2)]),
    )
    i, j = features.select_candidates(likely, T, np.ones(4, bool))
    found = set(zip(i.tolist(), j.tolist(), strict=True))
    assert (0, 1) in found  # share x
    assert (1, 2) in found  # nearest without a common fact
    assert (0, 3) not in found


def test_entities_without_facts_are_no_candidates():
    facts = crowd().over(crowd().entities.extended(["nobody"]), crowd().relations)
    factors = relatent.RescalALS(4, 1.0, 1.0, max_iter=5, tol=1.0, calibrate=False).fit(facts).factors_
    pairs = features.candidate_pairs(factors, facts)
    assert 30 not in pairs.i
    assert 30 not in pairs.j
    assert np.isfinite(pairs.features).all()
    assert pairs.features.shape[1] == len(features.FEATURE_SIGNS)


def test_a_pair_is_compared_with_the_other_pairs_of_both_entities():
    i, j = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2])
    score = np.array([9.0, 1.0, 0.5, 2.0])
    table = features.relative_to_other_pairs(i, j, score, np.zeros(4, bool), 4)
    assert table[0, 0] == table[:, 0].max()
    np.testing.assert_allclose(table[:, 1], np.log1p([0, 1, 0, 0]))  # 0 and 1 have their best in the first pair
    np.testing.assert_allclose(table[:, 2], np.log1p([0, 1, 2, 1]))


def test_one_common_fact_is_no_full_overlap():
    X = sp.csr_matrix(np.kron(np.eye(2), np.ones((2, 1))) @ np.repeat(np.eye(2), [1, 20], axis=1))
    T = features._unit_rows(X)  # two entities with one fact, the same one, and two with the same twenty facts
    one, twenty = features.row_products(T, T, np.array([0, 2]), np.array([1, 3]))
    assert one < 0.4 < 0.9 < twenty < 1


def test_pairs_with_equal_scores_have_equal_ranks():
    i, j = np.array([0, 0, 0]), np.array([1, 2, 3])
    table = features.relative_to_other_pairs(i, j, np.array([1.0, 1.0 + 1e-15, 0.5]), np.zeros(3, bool), 4)
    np.testing.assert_allclose(table[:, 2], np.log([2, 2, 3]))


def test_other_pairs_become_candidates(monkeypatch):
    monkeypatch.setattr(features, "MAX_CANDIDATES", 1)
    facts = crowd()
    factors = relatent.RescalALS(4, 1.0, 1.0, max_iter=5, tol=1.0, calibrate=False).fit(facts).factors_
    few = features.candidate_pairs(factors, facts)
    keys = set(zip(few.i.tolist(), few.j.tolist(), strict=True))
    new = next((a, b) for a in range(30) for b in range(a + 1, 30) if (a, b) not in keys)
    more = features.candidate_pairs(factors, facts, (np.array([new[0], few.i[0]]), np.array([new[1], few.j[0]])))
    assert set(zip(more.i.tolist(), more.j.tolist(), strict=True)) == keys | {new}
    assert len(more.i) == len(few.i) + 1


def test_pairs_with_and_without_a_common_fact_are_compared_apart():
    i, j = np.array([0, 0]), np.array([1, 2])
    table = features.relative_to_other_pairs(i, j, np.array([9.0, 1.0]), np.array([True, False]), 3)
    assert (table[:, 1:] == 0).all()  # each is the first of its kind


def test_row_products_in_blocks_are_the_same(monkeypatch):
    X = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    i, j = np.array([0, 4, 2]), np.array([1, 3, 3])
    plain = [X[a] @ X[b] for a, b in zip(i, j, strict=True)]
    for cells in (1 << 22, 3):
        monkeypatch.setattr(features, "BLOCK_CELLS", cells)
        np.testing.assert_allclose(features.row_products(X, X, i, j), plain)
        np.testing.assert_allclose(features.row_products(sp.csr_matrix(X), sp.csr_matrix(X), i, j), plain)


def test_vectors_by_squares_solve_their_normal_equations():
    factors = relatent.RescalALS(8, 1.0, 1.0, max_iter=5, tol=1.0, calibrate=False).fit(crowd()).factors_
    listed = EntityCells(np.array([0, 1]), np.array([2, 0]), np.array([5, 6]), np.ones(2), np.ones(2))
    (a,) = least_squares_vectors(factors, [listed], 0.0)
    V = np.stack([factors.R[2] @ factors.A[5], factors.R[0].T @ factors.A[6]]).astype(float)
    np.testing.assert_allclose((V.T @ V + np.eye(8)) @ a, V.sum(axis=0), atol=1e-6)

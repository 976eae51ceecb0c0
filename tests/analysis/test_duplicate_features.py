import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal as normal

import relatent
from relatent import Facts
from relatent.analysis import duplicate_features as evidence
from relatent.model.fold_in import Listed, by_squares


def crowd(n=30, per_entity=6, seed=0):
    """Everybody has some facts of his own choice."""
    rng = np.random.default_rng(seed)
    s = np.repeat(np.arange(n), per_entity)
    o = (s + rng.integers(1, n, len(s))) % n
    return Facts.from_arrays(s, rng.integers(0, 3, len(s)), o, entity_names=[f"e{i:02d}" for i in range(n)])


def plain_lifts(X, i, j):
    """The four numbers of one pair, written out."""
    D, n = X.toarray(), X.shape[0]
    table = {}
    for f in np.flatnonzero(D[i]):
        for g in np.flatnonzero(D[j]):
            if f != g:
                expected = D[:, f].sum() * D[:, g].sum() / n
                table[f, g] = np.log(((D[:, f] * D[:, g]).sum() + evidence.ALPHA) / (expected + evidence.ALPHA))
    lines = [[v for key, v in table.items() if key[side] == f] for side in (0, 1) for f in {key[side] for key in table}]
    own = len({key[0] for key in table})

    def mean_of(choose):
        return np.mean([choose(line) for line in lines[:own]]) + np.mean([choose(line) for line in lines[own:]])

    values = list(table.values())
    return [np.mean(values), mean_of(max), min(values), mean_of(min)]


def test_lifts_are_those_of_all_pairs_of_facts_written_out():
    X, _ = evidence.fact_table(crowd())
    i, j = np.array([2, 0, 11]), np.array([7, 1, 20])
    plain = [plain_lifts(X, a, b) for a, b in zip(i, j, strict=True)]
    np.testing.assert_allclose(evidence.pair_lifts(X, i, j), plain)


def test_of_very_many_facts_some_are_compared(monkeypatch):
    X, _ = evidence.fact_table(crowd())
    i, j = np.array([2, 0]), np.array([7, 1])
    monkeypatch.setattr(evidence, "LIFTED", 3)
    thinned = X.copy().tolil()
    for row in (*i, *j):
        have = X.indices[X.indptr[row] : X.indptr[row + 1]]
        for column in np.setdiff1d(have, have[:: -(-len(have) // 3)]):
            thinned[row, column] = 0
    plain = plain_lifts_of(X, thinned.tocsr(), i, j)
    np.testing.assert_allclose(evidence.pair_lifts(X, i, j)[:, 0], plain)


def plain_lifts_of(X, thinned, i, j):
    """The mean lift of the facts that are left, counted among all."""
    D, some, n = X.toarray(), thinned.toarray(), X.shape[0]
    found = []
    for a, b in zip(i, j, strict=True):
        lifts = []
        for f in np.flatnonzero(some[a]):
            for g in np.flatnonzero(some[b]):
                expected = D[:, f].sum() * D[:, g].sum() / n
                lifts.append(np.log(((D[:, f] * D[:, g]).sum() + evidence.ALPHA) / (expected + evidence.ALPHA)))
        found.append(np.mean(lifts))
    return found


def test_entities_with_most_facts_are_not_counted_where_that_would_be_too_many(monkeypatch):
    degree = np.array([3, 1, 2, 50])
    assert evidence._most_facts(degree) == 50
    monkeypatch.setattr(evidence, "COUNTED", 20)
    assert evidence._most_facts(degree) == 50  # the first beyond still counts
    monkeypatch.setattr(evidence, "COUNTED", 10)
    assert evidence._most_facts(degree) == 3


@pytest.mark.parametrize("sign", [1, -1])
def test_the_score_as_halves_is_the_ratio_of_gaussian_likelihoods_also_where_halves_are_opposed(monkeypatch, sign):
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4000, 2)) @ np.array([[2.0, 0.3], [0.0, 1.0]])
    U, V = y + rng.normal(size=y.shape), sign * y + rng.normal(size=y.shape)
    monkeypatch.setattr(evidence, "OPPOSED", 0.98)
    left, right = evidence.log_ratio(U, U, V)
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


def test_each_entity_brings_its_best_of_those_it_shares_a_fact_with_and_of_the_others(monkeypatch):
    monkeypatch.setattr(evidence, "CANDIDATES", 1)
    facts = Facts.from_arrays(["a", "b", "c", "d"], ["r"] * 4, ["x", "x", "y", "z"])
    X, _ = evidence.fact_table(facts)
    T = X[:4]
    position = np.array([[0.0], [1.0], [2.0], [10.0]])
    likely = (
        np.hstack([position, -(position**2), np.ones((4, 1))]),
        np.hstack([2 * position, np.ones((4, 1)), -(position**2)]),
    )
    i, j = evidence.candidates(likely, T, np.ones(4, bool))
    found = set(zip(i.tolist(), j.tolist(), strict=True))
    assert (0, 1) in found  # share x
    assert (1, 2) in found  # nearest without a common fact
    assert (0, 3) not in found


def test_entities_without_facts_come_into_question_for_nobody():
    facts = crowd().over(crowd().entities.extended(["nobody"]), crowd().relations)
    factors = relatent.RescalALS(4, 1.0, 1.0, max_iter=5, tol=1.0).fit(facts).factors_
    pairs = evidence.collect(factors, facts)
    assert 30 not in pairs.i
    assert 30 not in pairs.j
    assert np.isfinite(pairs.evidence).all()
    assert pairs.evidence.shape[1] == len(evidence.SIGNS)


def test_a_pair_stands_out_beside_the_others_of_both():
    i, j = np.array([0, 0, 0, 1]), np.array([1, 2, 3, 2])
    score = np.array([9.0, 1.0, 0.5, 2.0])
    table = evidence.standing_out(i, j, score, np.zeros(4, bool), 4)
    assert table[0, 0] == table[:, 0].max()
    np.testing.assert_allclose(table[:, 1], np.log1p([0, 1, 0, 0]))  # 0 and 1 have their best in the first pair
    np.testing.assert_allclose(table[:, 2], np.log1p([0, 1, 2, 1]))


def test_what_is_shared_is_told_beside_what_is_shared_only():
    i, j = np.array([0, 0]), np.array([1, 2])
    table = evidence.standing_out(i, j, np.array([9.0, 1.0]), np.array([True, False]), 3)
    assert (table[:, 1:] == 0).all()  # each is the first of its kind


def test_products_of_rows_are_the_same_some_at_a_time(monkeypatch):
    X = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    i, j = np.array([0, 4, 2]), np.array([1, 3, 3])
    plain = [X[a] @ X[b] for a, b in zip(i, j, strict=True)]
    for cells in (1 << 22, 3):
        monkeypatch.setattr(evidence, "CELLS", cells)
        np.testing.assert_allclose(evidence.row_products(X, X, i, j), plain)
        np.testing.assert_allclose(evidence.row_products(sp.csr_matrix(X), sp.csr_matrix(X), i, j), plain)


def test_vectors_by_squares_solve_their_normal_equations():
    factors = relatent.RescalALS(8, 1.0, 1.0, max_iter=5, tol=1.0).fit(crowd()).factors_
    listed = Listed(np.array([0, 1]), np.array([2, 0]), np.array([5, 6]), np.ones(2), np.ones(2))
    (a,) = by_squares(factors, [listed], 0.0)
    V = np.stack([factors.R[2] @ factors.A[5], factors.R[0].T @ factors.A[6]]).astype(float)
    np.testing.assert_allclose((V.T @ V + np.eye(8)) @ a, V.sum(axis=0), atol=1e-6)

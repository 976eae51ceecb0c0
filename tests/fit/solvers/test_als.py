import dataclasses
import gc
import tracemalloc

import numpy as np
import pytest

from reference_sums import squared
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.sparse import grouped, layout, streamed
from relatent.cells.sparse.by_row import RowLayout
from relatent.cells.sparse.grouped import GroupedLayout
from relatent.cells.sparse.streamed import StreamedLayout
from relatent.data.dense_tensors import dense_tensors
from relatent.data.facts import Facts
from relatent.data.shard import Shard
from relatent.fit.solvers.als import Als
from small_graphs import all_scores, blocks, permuted, random_facts, relative_error

VARIANTS = {
    "plain": {},
    "masked": {"unobserved": 90},
    "weighted": {"weighted": True},
    "attributes": {"attributes": 4},
    "everything": {"unobserved": 90, "weighted": True, "attributes": 4},
}
each_variant = pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
without_attributes = pytest.mark.parametrize("options", list(VARIANTS.values())[:3], ids=list(VARIANTS)[:3])


def solver_of(facts, rank, l2=(0.3, 0.2, 0.1), dtype="float64", layout=None):
    names = ("l2_entities", "l2_relations", "l2_attributes")
    return Als(facts, rank, backend=NumpyBackend(dtype), **dict(zip(names, l2, strict=True)), layout=layout)


def random_start(facts, rank, seed=1):
    return np.random.default_rng(seed).normal(size=(facts.n_entities, rank)) / 2


def objective(facts, A, R, V, l2=(0.3, 0.2, 0.1)):
    """As the docstring of als.py states it, over dense arrays."""
    value = squared(facts, A, R) + l2[0] * np.sum(A**2) + l2[1] * np.sum(R**2)
    if facts.attributes is not None:
        value += np.nansum((facts.attributes - A @ V) ** 2) + l2[2] * np.sum(V**2)
    return value


# --- the published updates, dense


def published_relations(X, A, l2):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    shrink = np.outer(s, s) / (np.outer(s, s) ** 2 + l2)
    return np.stack([Vt.T @ (shrink * (U.T @ X_k @ U)) @ Vt for X_k in X])


def published_attributes(D, A, l2):
    return np.linalg.solve(A.T @ A + l2 * np.eye(A.shape[1]), A.T @ D)


def published_sweeps(X, D, A, l2, sweeps):
    """Nickel, Tresp & Kriegel (2012): A from the old A and R, then R and V from the new A."""
    R, V = published_relations(X, A, l2[1]), published_attributes(D, A, l2[2])
    for _ in range(sweeps):
        G = A.T @ A
        F, E = D @ V.T, V @ V.T + l2[0] * np.eye(A.shape[1])
        for X_k, R_k in zip(X, R, strict=True):
            F = F + X_k @ A @ R_k.T + X_k.T @ A @ R_k
            E = E + R_k @ G @ R_k.T + R_k.T @ G @ R_k
        A = np.linalg.solve(E, F.T).T  # E is symmetric
        R, V = published_relations(X, A, l2[1]), published_attributes(D, A, l2[2])
    return A, R, V


@pytest.mark.parametrize("sweeps", [0, 1, 2, 10])
@pytest.mark.parametrize("n_attributes", [0, 3])
def test_sweeps_are_those_of_the_published_updates(sweeps, n_attributes):
    rng = np.random.default_rng(0)
    facts = random_facts(15, 3, 80)
    D = rng.normal(size=(15, n_attributes))
    facts = dataclasses.replace(facts, attributes=D if n_attributes else None)
    l2 = (0.3, 0.2, 0.1)
    start = random_start(facts, 4)
    solver = solver_of(facts, 4, l2)
    state = solver.start(start)
    for _ in range(sweeps):
        state = solver.step(state)
    A, R, V = published_sweeps(dense_tensors(facts)[0], D, start, l2, sweeps)
    assert relative_error(all_scores(state.A, state.R), all_scores(A, R)) < 1e-8
    if n_attributes:
        assert relative_error(state.A @ state.V, A @ V) < 1e-8


# --- the objective


@each_variant
def test_the_objective_of_every_sweep_is_the_exact_one(options):
    facts = random_facts(14, 3, 80, **options)
    solver = solver_of(facts, 4)
    state = solver.start(random_start(facts, 4))
    for _ in range(6):
        after = solver.step(state)
        assert after.objective == pytest.approx(objective(facts, after.A, after.R, after.V), rel=1e-10)
        state = after


@each_variant
def test_the_objective_in_single_precision_is_close_to_the_exact_one(options):
    facts = random_facts(14, 3, 80, **options)
    solver = solver_of(facts, 4, dtype="float32")
    state = solver.start(random_start(facts, 4))
    after = solver.step(solver.step(state))
    last = after
    assert last.objective == pytest.approx(objective(facts, last.A.astype(float), last.R, last.V), rel=1e-5)


@each_variant
@pytest.mark.parametrize("seed", range(5))
def test_the_relation_update_never_raises_the_objective(options, seed):
    facts = random_facts(10, 2, 60, **options, seed=seed)
    rng = np.random.default_rng(seed)
    solver = solver_of(facts, 3)
    A, R = random_start(facts, 3, seed), rng.normal(size=(2, 3, 3))
    V = np.zeros((3, 0 if facts.attributes is None else facts.attributes.shape[1]))
    before = objective(facts, A, R, V)
    for _ in range(5):
        state = solver.visit(A, R, np.eye(3), V)
        R, V = state.R, state.V
        assert state.objective <= before * (1 + 1e-12)
        before = state.objective


@each_variant
def test_a_fit_ends_where_the_gradient_of_the_stated_objective_is_zero(options):
    facts = random_facts(8, 2, 30, **options | ({"unobserved": 40} if "unobserved" in options else {}))
    l2 = (0.3, 0.2, 0.1)
    solver = solver_of(facts, 2, l2)
    state = solver.start(random_start(facts, 2))
    for _ in range(4000):
        state = solver.step(state)
    A, R, V = state.A, state.R, state.V
    assert np.abs(all_scores(A, R)).max() > 0.05, "the world must not be shrunk away"
    X, W = dense_tensors(facts)
    D = 2 * W * (all_scores(A, R) - X)
    dA = 2 * l2[0] * A
    for D_k, R_k in zip(D, R, strict=True):
        dA = dA + D_k @ A @ R_k.T + D_k.T @ A @ R_k
        np.testing.assert_allclose(A.T @ D_k @ A + 2 * l2[1] * R_k, 0, atol=1e-6)
    if facts.attributes is not None:
        residual = 2 * np.nan_to_num(A @ V - facts.attributes)
        dA = dA + residual @ V.T
        np.testing.assert_allclose(A.T @ residual + 2 * l2[2] * V, 0, atol=1e-6)
    np.testing.assert_allclose(dA, 0, atol=1e-6)


def test_weighted_relations_settle_at_weighted_least_squares():
    facts = random_facts(8, 2, 30, unobserved=20, weighted=True)
    solver = solver_of(facts, 2)
    state = solver.start(random_start(facts, 2))
    for _ in range(1000):
        state = solver.visit(*state[:4])  # A stands still
    X, W = dense_tensors(facts)
    pairs = np.einsum("ip,jq->ijpq", state.A, state.A).reshape(64, 4)
    for k in range(2):
        w = W[k].ravel()
        wanted = np.linalg.solve(pairs.T @ (w[:, None] * pairs) + 0.2 * np.eye(4), pairs.T @ (w * X[k].ravel()))
        np.testing.assert_allclose(state.R[k].ravel(), wanted, rtol=1e-8, atol=1e-10)


# --- what is not known must not count


def fitted(facts, rank=3, sweeps=15, dtype="float64", layout=None):
    solver = solver_of(facts, rank, dtype=dtype, layout=layout)
    state = solver.start(random_start(facts, rank))
    for _ in range(sweeps):
        state = solver.step(state)
    return state


@pytest.mark.parametrize("weighted", [False, True])
def test_an_unobserved_cell_was_neither_true_nor_false(weighted):
    facts = random_facts(12, 2, 60, weighted=weighted)
    hidden = np.concatenate([facts.triples[::5], [[0, 0, 0], [3, 1, 4], [5, 0, 5]]])
    others = facts.hold_out(facts.triples[::5], masked=False)  # the same world, those facts false
    first, second = (fitted(each.hold_out(hidden, masked=True)) for each in (facts, others))
    np.testing.assert_array_equal(first.A, second.A)
    np.testing.assert_array_equal(first.R, second.R)
    assert first.objective == second.objective


def test_a_fact_of_weight_zero_is_an_unobserved_cell():
    facts = random_facts(12, 2, 60)
    weights = np.ones(60)
    weights[::4] = 0
    doubted = dataclasses.replace(facts, weights=weights)
    hidden = facts.hold_out(facts.triples[::4], masked=True)
    assert relative_error(fitted(doubted).A, fitted(hidden).A) < 1e-10
    assert fitted(doubted).objective == pytest.approx(fitted(hidden).objective, rel=1e-12)


def test_weights_of_one_are_no_weights():
    facts = random_facts(12, 2, 60)
    assert relative_error(fitted(dataclasses.replace(facts, weights=np.ones(60))).A, fitted(facts).A) < 1e-10


def test_an_attribute_that_nobody_has_told_changes_nothing():
    facts = random_facts(12, 2, 60, attributes=3)
    silent = np.column_stack([facts.attributes, np.full(12, np.nan)])
    first, second = fitted(facts), fitted(dataclasses.replace(facts, attributes=silent))
    assert relative_error(second.A, first.A) < 1e-12
    assert second.objective == pytest.approx(first.objective, rel=1e-12)


def test_a_trusted_fact_is_fitted_better_than_a_doubted_one():
    facts = random_facts(12, 2, 40)
    weights = np.ones(40)
    weights[:20], weights[20:] = 5.0, 0.2
    state = fitted(dataclasses.replace(facts, weights=weights), sweeps=200)
    s, k, o = facts.triples.T
    theta = all_scores(state.A, state.R)[k, s, o]
    assert theta[:20].mean() > theta[20:].mean() + 0.2


# --- edges


def test_rank_may_equal_the_number_of_entities_and_then_everything_fits():
    facts = random_facts(8, 2, 30)
    solver = solver_of(facts, 8, (1e-9, 1e-9, 0))
    state = solver.step(solver.start(np.eye(8)))
    np.testing.assert_allclose(all_scores(state.A, state.R), dense_tensors(facts)[0], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_a_penalty_a_deficient_rank_is_taken_at_least_norm(dtype):
    facts = random_facts(10, 2, 40)
    A = random_start(facts, 4)
    A[:, 3] = A[:, 2]  # rank 3
    solver = solver_of(facts, 4, (0.0, 0.0, 0.0), dtype)
    found = solver.start(A)
    assert np.isfinite(found.R).all()
    assert np.abs(found.R).max() < 100
    X = dense_tensors(facts)[0]
    pairs = np.kron(found.A.astype(float), found.A.astype(float))
    for k in range(2):
        wanted = np.linalg.lstsq(pairs, X[k].ravel(), rcond=1e-6)[0]  # the one of least norm
        np.testing.assert_allclose(found.R[k].ravel(), wanted, atol=1e-3 if dtype == "float32" else 1e-8)
    assert np.isfinite(solver.step(found).A).all()


def test_a_vanished_entity_matrix_stays_finite():
    facts = random_facts(6, 1, 5)
    for l2 in ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
        solver = solver_of(facts, 2, l2)
        state = solver.step(solver.start(np.zeros((6, 2))))
        assert np.isfinite(state.A).all()
        assert np.isfinite(state.R).all()
        assert state.objective == pytest.approx(len(facts))


# --- worlds


def test_a_world_of_known_rank_is_recovered():
    facts = blocks(24, groups=3)
    solver = solver_of(facts, 3, (1e-6, 1e-6, 0))
    state = solver.start(random_start(facts, 3))
    for _ in range(100):
        state = solver.step(state)
    np.testing.assert_allclose(all_scores(state.A, state.R), dense_tensors(facts)[0], atol=1e-3)


def test_masked_cells_of_a_world_of_known_rank_are_filled_in():
    facts = blocks(24, groups=3)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, 24, 150), rng.integers(0, 2, 150), rng.integers(0, 24, 150)], axis=1)
    solver = solver_of(facts.hold_out(cells, masked=True), 3, (1e-3, 1e-3, 0))
    state = solver.start(random_start(facts, 3))
    for _ in range(300):
        state = solver.step(state)
    theta = all_scores(state.A, state.R)[cells[:, 1], cells[:, 0], cells[:, 2]]
    np.testing.assert_allclose(theta, facts.contains(cells), atol=0.1)


def test_attributes_pull_an_entity_without_facts_to_those_like_it():
    """Cats hunt mice. Nothing is told of the last animal but that it looks like a cat, or like a mouse."""
    n = 11
    cats, mice = np.arange(5), np.arange(5, 10)
    s, o = (grid.ravel() for grid in np.meshgrid(cats, mice, indexing="ij"))
    silence = [(10, 0, j) for j in range(n)] + [(j, 0, 10) for j in range(10)]
    looks = np.zeros((n, 2))
    looks[cats, 0] = looks[mice, 1] = 2.0
    for like, wanted in ((0, [1.0, 0.0]), (1, [0.0, 1.0])):
        looks[10] = np.eye(2)[like] * 2
        facts = Facts.from_arrays(s, np.zeros(25, int), o, n_entities=n, unobserved=silence, attributes=looks)
        solver = solver_of(facts, 2, (0.01, 0.01, 0.01))
        state = solver.start(random_start(facts, 2))
        for _ in range(300):
            state = solver.step(state)
        theta = all_scores(state.A, state.R)[0]
        np.testing.assert_allclose([theta[10, 7], theta[3, 10]], wanted, atol=0.15)


# --- invariances


@pytest.mark.parametrize("attributes", [0, 3])
def test_large_relations_are_visited_one_by_one_to_the_same_end(monkeypatch, attributes):
    facts = random_facts(30, 3, 400, attributes=attributes)
    wanted = fitted(facts)
    monkeypatch.setattr(streamed, "MAX_KEPT_PRODUCTS", 0)
    monkeypatch.setattr(streamed, "MIN_GROUP_ELEMENTS", 0)
    assert len(solver_of(facts, 3).layout.blocks) == 3
    got = fitted(facts)
    assert relative_error(all_scores(got.A, got.R), all_scores(wanted.A, wanted.R)) < 1e-9
    assert got.objective == pytest.approx(wanted.objective, rel=1e-12)


@each_variant
@pytest.mark.parametrize("elements", [1, 90, 120])
def test_how_many_relations_are_visited_together_does_not_matter(monkeypatch, options, elements):
    facts = random_facts(12, 5, 100, **options)
    wanted = fitted(facts)
    monkeypatch.setattr(grouped, "MAX_GROUP_ELEMENTS", elements)
    groups = GroupedLayout(Shard.of(facts), 3, "float64")
    assert len(groups.blocks) > 1
    got = fitted(facts, layout=groups)
    assert relative_error(all_scores(got.A, got.R), all_scores(wanted.A, wanted.R)) < 1e-9
    assert got.objective == pytest.approx(wanted.objective, rel=1e-12)


@each_variant
def test_single_precision_is_close_to_double(options):
    facts = random_facts(12, 3, 80, **options)
    single, double = fitted(facts, dtype="float32"), fitted(facts)
    assert single.A.dtype == np.float32
    assert relative_error(all_scores(single.A, single.R), all_scores(double.A, double.R)) < 1e-3


@without_attributes
def test_renaming_entities_renames_the_result(options):
    facts = random_facts(12, 3, 80, **options)
    order = np.random.default_rng(5).permutation(12)
    start = random_start(facts, 3)
    results = []
    for world, A in ((facts, start), (permuted(facts, order), start[np.argsort(order)])):
        solver = solver_of(world, 3)
        state = solver.start(A)
        for _ in range(10):
            state = solver.step(state)
        results.append(state)
    first, second = results
    assert second.objective == pytest.approx(first.objective, rel=1e-10)
    assert relative_error(second.A[order], first.A) < 1e-7


@each_variant
def test_a_relation_without_facts_is_zero(options):
    facts = random_facts(12, 2, 60, **{**options, "unobserved": 0})
    wider = Facts.from_arrays(*facts.triples.T, n_entities=12, n_relations=3, weights=facts.weights)
    assert np.abs(fitted(wider).R[2]).max() == 0


def test_a_sweep_leaves_the_state_it_started_from_alone():
    facts = random_facts(12, 2, 60, unobserved=20, weighted=True, attributes=2)
    solver = solver_of(facts, 3)
    state = solver.step(solver.start(random_start(facts, 3)))
    before = [np.array(part) for part in state]
    solver.step(state)
    solver.visit(*state[:4])
    for part, old in zip(state, before, strict=True):
        np.testing.assert_array_equal(part, old)


# --- memory


@pytest.mark.parametrize(
    ("large", "options"), [(True, {}), (False, {}), (False, {"unobserved": 20_000})], ids=["large", "small", "masked"]
)
@pytest.mark.parametrize("rank", [4, 20])
def test_a_fit_takes_the_memory_that_is_announced(monkeypatch, large, options, rank):
    facts = random_facts(40_000, 4, 100_000, **options)
    if large:
        monkeypatch.setattr(streamed, "MIN_GROUP_ELEMENTS", 0)
    start = random_start(facts, rank).astype(np.float32)
    solver_of(facts, rank, dtype="float32").start(start)  # compiled and loaded
    wanted = layout.layout_bytes(facts, rank, "float32")
    gc.collect()
    tracemalloc.start()
    try:
        solver = solver_of(facts, rank, dtype="float32")
        state = solver.start(start)
        for _ in range(2):
            state = solver.step(state)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken == pytest.approx(wanted, rel=0.25)


# --- layouts


def layouts(facts, rank, backend):
    shard = Shard.of(facts)
    found = [RowLayout(shard, backend), GroupedLayout(shard, rank, backend.dtype)]
    return [*found, StreamedLayout(shard, rank, backend.dtype)] if shard.has_uniform_weights else found


LAYOUT_VARIANTS = {**VARIANTS, "a relation without facts": None}


@pytest.mark.parametrize("variant", LAYOUT_VARIANTS)
def test_every_layout_gives_the_same_sweeps(variant):
    if variant == "a relation without facts":
        facts = dataclasses.replace(random_facts(30, 1, 90), relations=random_facts(9, 3, 9).relations)
    else:
        facts = random_facts(30, 4, 200, **LAYOUT_VARIANTS[variant])
    A, backend = random_start(facts, 5), NumpyBackend("float64")
    solvers = [solver_of(facts, 5, layout=layout) for layout in layouts(facts, 5, backend)]
    states = [solver.start(A) for solver in solvers]
    for _ in range(4):
        for state in states[1:]:
            for name in ("A", "R", "V", "E", "F"):
                assert relative_error(getattr(state, name), getattr(states[0], name)) < 1e-9, name
            assert state.objective == pytest.approx(states[0].objective, rel=1e-10)
        states = [solver.step(state) for solver, state in zip(solvers, states, strict=True)]


def test_scores_in_small_chunks_give_the_same_sums(monkeypatch):
    facts = random_facts(30, 4, 200, unobserved=300, weighted=True)
    shard, backend, A = Shard.of(facts), NumpyBackend("float64"), random_start(facts, 5)
    whole = solver_of(facts, 5, layout=RowLayout(shard, backend)).start(A)
    monkeypatch.setattr("relatent.cells.sparse.by_row.MAX_SCORED_CELLS", 7)
    chunks = solver_of(facts, 5, layout=RowLayout(shard, backend)).start(A)
    np.testing.assert_array_equal(whole.F, chunks.F)


def test_non_empty_rows_are_swept_alone_where_few_rows_have_cells():
    many_relations, dense = random_facts(30, 40, 200), random_facts(30, 2, 600)
    assert type(solver_of(many_relations, 3).layout) is RowLayout
    assert type(solver_of(dense, 3).layout) is StreamedLayout
    assert type(solver_of(random_facts(30, 2, 600, unobserved=9), 3).layout) is GroupedLayout

"""Settings that are not given are chosen from the data; those that are given are kept."""

from contextlib import nullcontext

import numpy as np
import pytest

import relatent
from relatent import N3, Adam, Dura, Facts, PoorFitWarning, RescalALS, RescalLogit, evaluate, load_dataset, split
from relatent.errors import InputError
from relatent.fit.automatic_settings import DataSummary, for_likelihood, l2_for, resolve_rank
from relatent.fit.losses import resolve as resolve_loss
from sparse_graphs import sparse_graph

QUICK = {"max_iter": 3, "calibrate": False}


@pytest.fixture(scope="module")
def films() -> Facts:
    return sparse_graph("films", 0)


def test_sparse_and_dense_data_get_different_settings(films: Facts) -> None:
    sparse, dense = (RescalLogit().choose_settings(facts) for facts in (films, load_dataset("kinships")))
    assert sparse is not None
    assert dense is not None
    assert sparse.values["structure"] == "complex"
    assert sparse.values["penalty"] == N3(0.09)
    assert sparse.values["rank"] == 256
    assert sparse.values["method"] == "sampled"
    assert dense.values["structure"] == "full"
    assert 1 < dense.values["l2_entities"] < 3
    assert dense.values["method"] == "exact"
    assert "sparse" in sparse.reason
    assert "dense" in dense.reason


def test_the_penalty_depends_on_the_facts_per_entity_and_the_number_of_relations() -> None:
    def penalty(entities: int, relations: int, facts: int) -> Dura | N3:
        given = RescalLogit().get_params(deep=False)
        data = DataSummary(entities, relations, facts)
        return for_likelihood(given, data, resolve_loss("logistic")).values["penalty"]  # type: ignore[no-any-return]

    assert penalty(2034, 42, 32_888) == Dura(0.037, frequency_power=0.75)
    assert penalty(14_541, 237, 272_115) == Dura(0.08, frequency_power=0.75)
    assert penalty(123_000, 37, 1_080_000) == Dura(0.1, frequency_power=0.75), "the largest under which few vanish"
    assert penalty(2034, 8, 32_888) == penalty(2034, 19, 32_888) == Dura(0.025)
    assert penalty(2034, 42, 8_000) == penalty(2034, 8, 8_000) == N3(0.089)
    assert penalty(40_559, 11, 86_835) == N3(0.15)  # the largest weight


def test_what_is_given_is_kept_and_the_rest_is_chosen(films: Facts) -> None:
    model = RescalLogit(rank=10, penalty=Dura(0.3), max_iter=2, calibrate=False).fit(films)
    assert (model.rank, model.penalty, model.max_iter) == (10, Dura(0.3), 2)
    assert model.structure is None  # parameters stay as they were given
    assert model.factors_.rank == 10
    assert model.settings_.values.keys() == {"structure", "optimiser", "method", "init", "bias"}
    assert model.factors_.about.settings["structure"] == "complex"
    assert model.factors_.about.chosen.reason == model.settings_.reason


def test_an_l2_penalty_alone_sets_both_weights(films: Facts) -> None:
    chosen = RescalLogit(l2_entities=0.2).choose_settings(films)
    assert chosen is not None
    assert chosen.values["l2_relations"] == 0.2
    assert chosen.values["structure"] == "full"
    assert "penalty" not in chosen.values


def test_the_number_of_steps_is_that_of_the_given_method() -> None:
    steps = {
        method: RescalLogit(method=method).choose_settings(load_dataset("kinships")).values["max_iter"]
        for method in ("auto", "exact", "sampled")
    }
    assert steps["auto"] == steps["exact"] > steps["sampled"]


def test_an_odd_rank_is_fitted_with_whole_matrices(films: Facts) -> None:
    chosen = RescalLogit(rank=7).choose_settings(films)
    assert chosen is not None
    assert chosen.values["structure"] == "full"


@pytest.mark.filterwarnings("ignore::relatent.RelatentWarning")
@pytest.mark.parametrize("n", [1, 2, 3, 5, 12, 40])
def test_the_smallest_data_can_be_fitted_without_options(n: int) -> None:
    ids = np.arange(n)
    facts = Facts.from_arrays(ids, np.zeros(n, int), (ids + 1) % n)
    for estimator in (RescalLogit(max_iter=3), RescalALS(max_iter=2)):
        with pytest.warns() if n == 1 else nullcontext():
            factors = estimator.fit(facts).factors_
        assert 1 <= factors.rank <= n
        assert np.isfinite(factors.A).all()


def test_the_penalty_grows_with_the_facts_per_entity() -> None:
    few, many = (l2_for(DataSummary(100, 1, facts)) for facts in (500, 5_000))
    assert few < many
    assert l2_for(DataSummary(100, 1, 10**9)) == l2_for(DataSummary(100, 1, 10**8))


def test_the_same_seed_gives_the_same_model(films: Facts) -> None:
    seeds = {"max_iter": 2, "calibrate": False}
    first, second, other = (RescalLogit(random_state=seed, **seeds).fit(films).factors_ for seed in (1, 1, 2))
    assert np.array_equal(first.A, second.A)
    assert not np.array_equal(first.A, other.A)


def test_without_options_a_sparse_graph_is_ranked_far_above_frequency() -> None:
    facts = sparse_graph("biology", 3)
    train, test = split(facts, test_size=0.1, random_state=3)
    ranking = evaluate(RescalLogit(max_iter=40, calibrate=False).fit(train).factors_, test)
    assert ranking.baseline is not None
    assert ranking.mrr > max(0.35, 3 * ranking.baseline.mrr)


def test_least_squares_on_a_sparse_graph_warns_and_is_above_frequency(films: Facts) -> None:
    train, test = split(films, test_size=0.1, random_state=0)
    with pytest.warns(PoorFitWarning, match="RescalLogit"):
        factors = RescalALS(calibrate=False).fit(train).factors_
    ranking = evaluate(factors, test)
    assert ranking.baseline is not None
    assert ranking.mrr > ranking.baseline.mrr


def test_a_structure_that_does_not_fit_is_refused(films: Facts) -> None:
    with pytest.raises(relatent.InputError, match="even rank, got 7; use rank=8"):
        RescalLogit(rank=7, structure="complex", calibrate=False).fit(films)
    with pytest.raises(relatent.InputError, match="got 'ring'"):
        RescalLogit(structure="ring", calibrate=False).fit(films)


@pytest.mark.filterwarnings("ignore::relatent.ConvergenceWarning")
def test_every_optimiser_and_penalty_takes_a_complex_structure(films: Facts) -> None:
    for penalty in (None, Dura(0.1), relatent.N3(0.1)):
        for optimiser in (Adam(0.1), relatent.Lbfgs()):
            model = RescalLogit(8, structure="complex", penalty=penalty, optimiser=optimiser, **QUICK)
            _, steps = model.fit(films).factors_, model.trace_.objective
            assert steps[-1] < steps[0]


@pytest.mark.parametrize(("asked", "n", "wanted"), [(None, 200, 50), (None, 14, 14), (3, 14, 3), (14, 14, 14)])
def test_the_rank_asked_for_or_a_stated_default(asked, n, wanted):
    assert resolve_rank(asked, n) == wanted


def test_a_numpy_integer_is_a_rank():
    rank = resolve_rank(np.int64(3), 14)
    assert rank == 3
    assert type(rank) is int


@pytest.mark.parametrize("bad", [0, -1, 2.0, "5", True])
def test_a_rank_below_one_or_not_whole_is_refused(bad):
    with pytest.raises(InputError, match="rank must be a whole number of at least 1, got"):
        resolve_rank(bad, 14)


def test_a_rank_above_the_entities_is_refused():
    with pytest.raises(InputError, match="rank must not exceed the 14 entities, got 15"):
        resolve_rank(15, 14)


@pytest.mark.filterwarnings("ignore::relatent.ConvergenceWarning")
def test_a_dense_graph_with_few_relations_is_not_learned_by_heart() -> None:
    rng = np.random.default_rng(0)
    A, R = rng.normal(size=(60, 4)), rng.normal(size=(2, 4, 4)) / 2
    theta = np.einsum("ia,kab,jb->kij", A, R, A)
    k, s, o = np.nonzero(rng.random(theta.shape) < 1 / (1 + np.exp(3 - 2 * theta)))
    known, hidden = relatent.split(Facts.from_arrays(s, k, o), test_size=0.1, random_state=0)
    mrr = {}
    for name, model in (("own", RescalLogit()), ("dense", RescalLogit(50, 0.5, 0.5, structure="full"))):
        model.set_params(patterns="none")
        mrr[name] = relatent.evaluate(model.fit(known).factors_, hidden).mrr
    assert RescalLogit().choose_settings(known).reason.startswith("there are few relations (2)")
    assert mrr["own"] > 1.1 * mrr["dense"]


def test_softmax_on_sparse_data_is_fitted_in_batches(films: Facts) -> None:
    chosen = relatent.Rescal(loss="softmax").choose_settings(films)
    assert chosen is not None
    expected = {"structure": "complex", "method": "sampled", "penalty": N3(0.09), "bias": False}
    assert {name: chosen.values[name] for name in expected} == expected
    few, many = (relatent.Rescal(loss=relatent.Softmax(batch_size=size)) for size in (1024, 16))
    rounds = [model.choose_settings(films).values["max_iter"] for model in (few, many)]  # type: ignore[union-attr]
    assert rounds == [50, 10 * len(films) // 64]
    whole = relatent.Rescal(loss="softmax", structure="full").choose_settings(films)
    assert whole is not None
    assert isinstance(whole.values["penalty"], Dura)
    exact = relatent.Rescal(loss="softmax", method="exact").choose_settings(films)
    assert exact is not None
    assert exact.values["max_iter"] == 100


def test_a_gpu_sums_all_cells_in_fewer_rounds_and_at_a_rank_that_takes_no_minutes() -> None:
    def chosen(device: str, relations: int) -> dict[str, object]:
        given = RescalLogit(device=device).get_params(deep=False)
        data = DataSummary(14_541, relations, 272_115)
        return for_likelihood(given, data, resolve_loss("logistic")).values

    here, there = chosen("cpu", 237), chosen("cuda", 237)
    assert (here["method"], here["rank"], here["max_iter"]) == ("sampled", 512, 100)
    assert (there["method"], there["rank"], there["max_iter"]) == ("exact", 256, 50)
    assert chosen("cuda", 50)["rank"] == 512

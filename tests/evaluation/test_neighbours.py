"""The neighbours of every kind of candidate differ from it in one setting, and can be fitted."""

import numpy as np
import pytest

import relatent
from relatent import N3, Adam, Blocks, Dura, Softmax
from relatent.evaluation.neighbours import Change, key_of, neighbours, resolved
from relatent.evaluation.search_space import Candidate, candidates
from relatent.fit.automatic_settings import DataSummary
from small_graphs import blocks, chain

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
SPARSE = chain(600)
COMPLEX = {"structure": "complex", "rank": 256, "penalty": N3(0.05), "optimiser": Adam(0.02), "max_iter": 150}
SAMPLED = COMPLEX | {"method": "sampled", "init": "small", "bias": False, "loss": Softmax(relation_weight=0.4)}
MANY = DataSummary(entities=5000, relations=20, facts=40_000)


def changes(settings, data=MANY, model="softmax", factor=1.6):
    """The settings in which each neighbour differs, by change."""
    found = neighbours(Candidate(model, settings), data, factor)
    return {
        (neighbour.change.setting, neighbour.change.direction): {
            name: value for name, value in neighbour.candidate.settings.items() if settings.get(name) != value
        }
        for neighbour in found
    }


def test_softmax_of_complex_matrices():
    assert changes(SAMPLED) == {
        ("rank", 1): {"rank": 512},
        ("max_iter", 1): {"max_iter": 300},
        ("penalty", -1): {"penalty": N3(0.0312)},
        ("penalty", 1): {"penalty": N3(0.08)},
        ("relation_weight", 1): {"loss": Softmax(relation_weight=0.8)},
        ("relation_weight", -1): {"loss": Softmax(relation_weight=0.2)},
        ("reciprocal", 1): {"loss": Softmax(relation_weight=0.4, reciprocal=True)},
        ("degree_weight", 1): {"loss": Softmax(relation_weight=0.4, degree_weight=0.9)},
        ("learning_rate", -1): {"optimiser": Adam(0.01)},
        ("learning_rate", 1): {"optimiser": Adam(0.04)},
        ("rank", -1): {"rank": 128},
    }


def test_the_order_is_that_of_the_expected_gain():
    names = [setting for setting, _ in changes(SAMPLED)]
    assert names[:6] == ["rank", "max_iter", "penalty", "penalty", "relation_weight", "relation_weight"]
    small = DataSummary(entities=100, relations=20, facts=4000)  # more components than entities: size gains little
    names = [setting for setting, _ in changes(SAMPLED, small)]
    assert names[:6] == ["penalty", "penalty", "relation_weight", "relation_weight", "rank", "max_iter"]


def test_whole_matrices_have_at_most_as_many_components_as_entities():
    settings = SAMPLED | {"structure": "full"}
    assert changes(settings, DataSummary(300, 2, 5000)).keys() & {("rank", 1)} == set()  # 300 is hardly more than 256
    assert changes(settings, DataSummary(400, 2, 5000))["rank", 1] == {"rank": 400}
    assert changes(SAMPLED, DataSummary(300, 2, 5000))["rank", 1] == {"rank": 512}


@pytest.mark.parametrize(("rank", "larger"), [(700, 1400), (1500, 2048), (2048, None)])
def test_the_rank_is_limited(rank, larger):
    assert changes(SAMPLED | {"rank": rank}).get(("rank", 1), {}).get("rank") == larger


def test_ranks_are_multiples_of_the_size_of_blocks():
    settings = SAMPLED | {"structure": Blocks(3), "rank": 9}
    found = changes(settings)
    assert (found["rank", 1], found["rank", -1]) == ({"rank": 18}, {"rank": 3})
    assert ("rank", -1) not in changes(settings | {"rank": 3})


def test_relation_weights_double_and_begin_at_one_half():
    def weights(weight, data=MANY):
        found = changes(SAMPLED | {"loss": Softmax(relation_weight=weight)}, data)
        return [found[key]["loss"].relation_weight for key in found if key[0] == "relation_weight"]

    assert weights(0.0) == [0.5]
    assert weights(4.0) == [8.0, 2.0]
    assert weights(0.06) == [0.12, 0.0]
    assert weights(0.0, DataSummary(5000, 1, 40_000)) == []


def test_dura_has_another_power_of_frequencies_at_a_similar_strength():
    def powers(penalty):
        found = changes(SAMPLED | {"penalty": penalty})
        return [found[key]["penalty"] for key in found if key[0] == "frequency_power"]

    assert powers(Dura(0.04)) == [Dura(0.12, 0.5)]
    assert powers(Dura(0.12, 0.5)) == [Dura(0.04, 1.0)]
    assert [penalty.frequency_power for penalty in powers(Dura(0.04, 0.75))] == [0.5, 1.0]


def test_options_of_the_softmax_are_taken_back():
    loss = Softmax(reciprocal=True, degree_weight=0.9)
    found = changes(SAMPLED | {"loss": loss})
    assert found["reciprocal", -1] == {"loss": Softmax(degree_weight=0.9)}
    assert found["degree_weight", -1] == {"loss": Softmax(reciprocal=True)}


def test_without_a_schedule_there_is_no_longer_fit_and_no_learning_rate():
    found = changes({"rank": 20, "l2_entities": 0.5, "l2_relations": 0.5}, model="als")
    assert found == {
        ("rank", 1): {"rank": 40},
        ("penalty", -1): {"l2_entities": 0.312, "l2_relations": 0.312},
        ("penalty", 1): {"l2_entities": 0.8, "l2_relations": 0.8},
        ("rank", -1): {"rank": 10},
    }


def test_the_cost_is_the_ratio_of_ranks_and_steps():
    found = {neighbour.change: neighbour.cost for neighbour in neighbours(Candidate("softmax", SAMPLED), MANY, 1.6)}
    assert found[Change("rank", 1)] == found[Change("max_iter", 1)] == 2.0
    assert found[Change("rank", -1)] == 0.5
    assert found[Change("penalty", 1)] == found[Change("reciprocal", 1)] == 1.0


@pytest.mark.parametrize("model", ["logit", "als", "softmax"])
@pytest.mark.parametrize("facts", [blocks(n_relations=20), SPARSE], ids=["dense", "sparse"])
def test_resolved_defaults_give_the_same_model(model, facts):
    default = Candidate(model, {"max_iter": 3})
    same = resolved(default, facts)
    assert {"rank", "max_iter"} <= same.settings.keys()
    assert "settings" not in str(same)
    first, second = (candidate.estimator(0).fit(facts).factors_ for candidate in (default, same))
    assert np.array_equal(first.A, second.A)
    assert resolved(same, facts) == same


@pytest.mark.parametrize(
    ("facts", "device"),
    [(blocks(n_relations=20), "cpu"), (SPARSE, "cpu"), (chain(1500), "cuda"), (SPARSE, "cuda")],
)
def test_every_neighbour_of_every_candidate_can_be_fitted_and_has_a_name_of_its_own(facts, device):
    made = candidates(facts, ["logit", "softmax"] + ["als"] * (device == "cpu"), 0, device)
    data = DataSummary.of(facts)
    for _ in range(20):
        centre = resolved(next(made), facts)
        found = neighbours(centre, data, 1.6)
        assert len({key_of(neighbour.candidate) for neighbour in found} | {key_of(centre)}) == len(found) + 1
        assert len({str(neighbour.candidate) for neighbour in found} | {str(centre)}) == len(found) + 1
        for neighbour in found:
            assert neighbour.candidate.settings.get("device", "cpu") == device
            estimator = neighbour.candidate.estimator(0)
            estimator._with_chosen_settings(facts)._check_settings(facts)


def test_candidates_are_compared_by_value():
    first, second = (Candidate("softmax", dict(items)) for items in (SAMPLED.items(), reversed(SAMPLED.items())))
    assert key_of(first) == key_of(second)
    assert key_of(first) != key_of(Candidate("softmax", SAMPLED | {"penalty": relatent.N3(0.051)}))
    assert key_of(first) != key_of(Candidate("logit", SAMPLED))

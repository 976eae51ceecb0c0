"""The local search climbs, never tries the same twice, and keeps to its time."""

import math

import pytest

from relatent import N3, Adam, Dura, Softmax
from relatent.evaluation import refinement
from relatent.evaluation.neighbours import Change, key_of
from relatent.evaluation.refinement import JudgedNeighbour, LocalSearch, climb, n_refined
from relatent.evaluation.search_space import Candidate
from relatent.fit.automatic_settings import DataSummary
from small_graphs import chain

START = Candidate(
    "softmax",
    {
        "structure": "complex",
        "rank": 256,
        "penalty": N3(0.05),
        "optimiser": Adam(0.02),
        "max_iter": 150,
        "method": "sampled",
        "loss": Softmax(),
    },
)
MANY = DataSummary(entities=5000, relations=20, facts=40_000)


def local_search(objective, start=START, **options):
    return LocalSearch(MANY, start, objective(start.settings), 10.0, {key_of(start)}, **options)


def run(objective, search, *, at_once=1, fits=1000):
    """Run a search to its end on a function of the settings; returns what it tried, in order."""
    tried = []

    def judge(batch):
        tried.extend(batch)
        return [JudgedNeighbour(near, objective(near.candidate.settings), search.seconds * near.cost) for near in batch]

    assert climb(search, judge, at_once, fits, None) == len(tried)
    return tried


def distance(value, best):
    return abs(math.log(value / best))


def smooth(settings):
    """Best at rank 1024, weight .01, relation weight 2, learning rate .01 and 300 steps, with both directions."""
    return -(
        distance(settings["rank"], 1024)
        + distance(settings["penalty"].weight, 0.01)
        + distance(settings["max_iter"], 300)
        + distance(settings["optimiser"].lr, 0.01)
        + distance(settings["loss"].relation_weight + 0.1, 2.1)
        + (not settings["loss"].reciprocal)
        + settings["loss"].degree_weight
    )


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_it_reaches_the_best_settings_and_ends(at_once):
    search = local_search(smooth)
    tried = run(smooth, search, at_once=at_once)
    found = search.centre.settings
    assert (found["rank"], found["max_iter"], found["optimiser"]) == (1024, 300, Adam(0.01))
    assert found["loss"] == Softmax(relation_weight=2.0, reciprocal=True)
    assert found["penalty"].weight == pytest.approx(0.01, rel=0.07)
    assert search.value == smooth(found)
    assert len(tried) < 80


def test_it_never_tries_the_same_twice_nor_what_was_tried_before():
    known = START._replace(settings=START.settings | {"rank": 512})
    search = local_search(smooth)
    search.tried.add(key_of(known))
    keys = [key_of(neighbour.candidate) for neighbour in run(smooth, search, at_once=2)]
    assert len(set(keys)) == len(keys)
    assert key_of(known) not in keys
    assert key_of(START) not in keys


def test_a_change_that_helped_is_made_again_and_one_that_did_not_is_left_out_for_two_moves():
    search = local_search(lambda settings: -settings["penalty"].weight)
    tried = [near.change for near in run(lambda settings: -settings["penalty"].weight, search, fits=8)]
    less = Change("penalty", -1)
    assert tried == [
        Change("rank", 1),
        Change("max_iter", 1),
        *[less] * 6,
    ]
    search = local_search(smooth)
    search.record([JudgedNeighbour(near, -9.0, 1.0) for near in search.proposals(2, None)])  # size does not help
    for expected in (False, True):
        (near,) = search.proposals(1, None)
        search.record([JudgedNeighbour(near, search.value + 1, 1.0)])
        may_grow = Change("rank", 1) in {n.change for n in search._untried(None)}
        assert may_grow is expected


def test_where_nothing_helps_weights_change_less_until_the_search_ends():
    tried = run(lambda _: 0.0, local_search(lambda _: 0.0))
    weights = [near.candidate.settings["penalty"].weight for near in tried if near.change.setting == "penalty"]
    assert weights == [0.0312, 0.08, 0.0395, 0.0632, 0.0445, 0.0562]
    assert len(tried) == len(weights) + 8  # every other neighbour once


def test_fits_that_fail_are_no_improvement():
    search = local_search(lambda _: 0.5)
    run(lambda _: float("nan"), search)
    assert (search.centre, search.value) == (START, 0.5)


def test_without_time_for_a_larger_fit_others_are_tried_and_without_any_time_none():
    def proposed(seconds_left):
        return {near.change for near in local_search(smooth).proposals(99, seconds_left)}

    everything = proposed(None)
    assert proposed(23.0) == everything  # 10 s per fit, times 2, and a margin
    assert proposed(11.5) == everything - {Change("rank", 1), Change("max_iter", 1)}
    assert proposed(6.0) == {Change("rank", -1)}
    assert proposed(5.0) == set()
    assert proposed(-1.0) == set()


def test_a_larger_or_longer_fit_is_shortened_if_most_of_it_fits():
    larger, longer = local_search(smooth).proposals(2, 15.0)
    share = 15.0 / 22.0
    assert larger.candidate.settings == START.settings | {"rank": 512, "max_iter": int(share * 150)}
    assert longer.candidate.settings == START.settings | {"max_iter": int(share * 300)}
    assert larger.cost == pytest.approx(2 * share)
    first = local_search(smooth).proposals(1, 13.0)[0]  # less than .6 of it
    assert first.change == Change("penalty", -1)


def test_a_fit_without_a_schedule_is_not_shortened():
    start = Candidate("als", {"rank": 20, "l2_entities": 0.5, "l2_relations": 0.5})
    search = LocalSearch(MANY, start, 0.5, 10.0, {key_of(start)})
    assert {near.change.setting for near in search.proposals(9, 15.0)} == {"penalty", "rank"}
    assert search.proposals(9, 15.0)[0].change.setting == "penalty"  # of a smaller factor


def test_the_default_settings_are_resolved_before_they_are_changed():
    facts = chain(600)
    search = LocalSearch.around(facts, Candidate("softmax", {}), 0.5, 1.0, [Candidate("softmax", {})])
    settings = search.centre.settings
    assert (settings["rank"], settings["loss"]) == (200, Softmax())
    near = search.proposals(9, None)
    assert near[0].candidate.settings == settings | {"rank": 400}
    weight = settings["penalty"].weight
    assert {n.candidate.settings["penalty"] for n in near} == {N3(weight), N3(0.0625), N3(0.16)}
    known = Candidate("logit", {"penalty": Dura(0.01)})  # leaves rank and structure open
    assert len(LocalSearch.around(facts, Candidate("logit", {}), 0.5, 1.0, [known]).tried) == 2


def test_the_number_of_fits_is_kept():
    assert len(run(smooth, local_search(smooth), at_once=2, fits=5)) == 5
    assert [n_refined(trials) for trials in (1, 2, 16, 40)] == [0, 4, 4, 10]


def test_fits_that_take_their_time_end_in_time(monkeypatch):
    now, begun = [100.0], []
    monkeypatch.setattr(refinement.clock, "monotonic", lambda: now[0])

    def judge(batch):
        begun.append(now[0])
        now[0] += max(10.0 * near.cost for near in batch)
        return []  # nothing is better

    climb(local_search(smooth), judge, 1, 100, 165.0)
    assert 150.0 < now[0] <= 165.0
    assert len(begun) > 3

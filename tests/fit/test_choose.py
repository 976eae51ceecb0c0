"""Settings compared by held-out facts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import relatent
from relatent.data.facts import Facts
from relatent.fit import choose
from relatent.fit.automatic_settings import ChosenSettings, DataSummary
from relatent.fit.calibration import HeldOutFit, heldout_facts
from relatent.fit.losses import resolve

USUAL = ChosenSettings({"structure": "full", "rank": 1, "l2_entities": 0.5}, "the usual")


def rival(rank: int) -> ChosenSettings:
    return ChosenSettings({"structure": "complex", "rank": rank, "penalty": relatent.N3(0.1)}, is_usual=False)


def facts_of(n: int = 60) -> Facts:
    rng = np.random.default_rng(0)
    return relatent.Facts.from_arrays(*(rng.integers(0, high, n) for high in (20, 2, 20)))


@cache
def kinships() -> Facts:
    facts = relatent.load_dataset("kinships")
    some = facts.subset((facts.triples[:, 1] < 3) & (facts.triples[:, [0, 2]] < 50).all(axis=1))
    return relatent.Facts.from_arrays(*some.triples.T)


class Judge:
    """Fits that are the rank, judged by a table; remembers what it was asked for."""

    def __init__(self, alone: dict[int, float], with_patterns: dict[int, float]):
        self.alone, self.with_patterns = alone, with_patterns
        self.fitted: list[tuple[int, int]] = []

    def fit(self, settings: ChosenSettings, heldout: Facts) -> HeldOutFit:
        self.fitted.append((settings.values["rank"], len(heldout)))
        return HeldOutFit(settings.values["rank"], heldout)

    def judge(self, fits: list[HeldOutFit], *, with_patterns: bool) -> tuple[list[HeldOutFit], float]:
        rank: Any = fits[0].model
        return fits, (self.with_patterns if with_patterns else self.alone)[rank]

    def best(self, *candidates: ChosenSettings) -> tuple[ChosenSettings, list[HeldOutFit]]:
        return choose.best(candidates, [facts_of(30), facts_of(40)], self.fit, self.judge)


def test_the_two_best_are_compared_to_the_end_and_nothing_is_fitted_twice() -> None:
    judge = Judge({1: -50, 2: -40, 3: -30, 4: -60}, {2: -20, 3: -25})
    chosen, fits = judge.best(USUAL, rival(2), rival(3), rival(4))
    assert chosen.values["rank"] == 2
    first, second = len(facts_of(30)), len(facts_of(40))
    assert judge.fitted == [*((rank, first) for rank in (1, 2, 3, 4)), (3, second), (2, second)]
    assert [len(fit.heldout) for fit in fits] == [first, second]
    ratio = np.exp(5 / (first + second))
    assert (
        f"of 4 compared by {first + second} held-out facts, each {ratio:.2f} times as likely, on average,"
        in chosen.reason
    )
    assert chosen.reason.endswith("as with structure complex, rank 3, N3(weight=0.1)")


@pytest.mark.parametrize(("gain", "rank"), [(np.log(20) - 0.1, 1), (np.log(20) + 0.1, 2)])
def test_other_settings_must_be_twenty_times_as_likely_as_the_usual_ones(gain: float, rank: int) -> None:
    chosen, _ = Judge({1: -30, 2: -30}, {1: -30, 2: -30 + gain}).best(USUAL, rival(2))
    assert chosen.values["rank"] == rank


def test_few_settings_compete_where_fits_take_long() -> None:
    usual = relatent.RescalLogit().choose_settings(facts_of())
    assert usual is not None
    counts = []
    for entities in (20, 500, 3000):
        data = DataSummary(entities, 5, 20 * entities)
        rivals = choose.rivals(usual, data, resolve("logistic"), "cpu")
        spent = sum(choose.operations(settings.values, data) for settings in (usual, *rivals))
        assert spent <= choose.MAX_OPERATIONS or not rivals
        counts.append(len(rivals))
    assert counts[0] > counts[1] > counts[2] == 0


def test_a_fit_takes_settings_that_make_held_out_facts_likelier() -> None:
    facts = kinships()
    model = relatent.RescalLogit(patterns="none").fit(facts)
    assert "compared by" in model.settings_.reason
    assert model.factors_.relation_matrices.parameters.ndim == 2  # complex
    assert model.factors_.rank == model.settings_.values["rank"]
    assert model.factors_.about.chosen is not None
    assert model.factors_.about.chosen.reason == model.settings_.reason
    again = relatent.RescalLogit(patterns="none").fit(facts)
    np.testing.assert_array_equal(again.factors_.A, model.factors_.A)
    usual = relatent.RescalLogit().choose_settings(facts)
    assert usual is not None
    as_usual = relatent.RescalLogit(patterns="none", **usual.values).fit(facts)
    assert "compared by" not in str(getattr(as_usual, "settings_", ""))
    assert model.factors_.calibration is not None
    assert model.factors_.calibration.heldout_facts == sum(map(len, heldout_facts(facts, 0)))


@pytest.mark.parametrize("given", [{"rank": 5}, {"structure": "full"}, {"penalty": relatent.N3(0.1)}, {"max_iter": 3}])
def test_what_is_given_is_kept_and_nothing_is_compared(given: dict[str, Any]) -> None:
    model = relatent.RescalLogit(**given, patterns="none").fit(kinships())
    assert "compared by" not in model.settings_.reason
    assert model.get_params()["random_state"] == 0
    assert not given.keys() & model.settings_.values.keys()

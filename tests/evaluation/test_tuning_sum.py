"""`tune` ends with the sum of its best fits where held-out data gains by more than noise, and says so."""

import json
import time

import numpy as np
import pytest

import relatent
from commands import run
from relatent.evaluation import tuning
from relatent.evaluation.search_space import Candidate
from relatent.evaluation.tuning_judge import Judge, Score
from relatent.evaluation.tuning_report import Trial
from relatent.evaluation.tuning_sum import best_sum
from small_graphs import blocks, cliques

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
FACTS = blocks(9)
NEVER = float("inf")


class Measured:
    """A judge that knows the value of each model by its rank; parts differ little if fits agree."""

    metric = "mrr"

    def __init__(self, values):
        self.values, self.seen = values, []

    def score(self, factors, fold):
        self.seen.append(factors.rank)
        value = self.values[factors.rank]
        return Score(value, tuple(value + 0.001 * np.sin(np.arange(20) + fold)))


def pool_of(values, judge, folds=(0,), link=None):
    """Fits of ranks 1, 10, 100, …, so that the rank of a sum says which ones are its parts."""
    found = []
    for number, value in enumerate(values):
        rank = 10**number
        factors = relatent.Factors(
            np.ones((9, rank)), np.ones((2, rank, rank)), np.zeros(2), FACTS.entities, FACTS.relations,
            **({} if link is None or number != len(values) - 1 else {"link": link}),
        )  # fmt: skip
        judge.values[rank] = value
        trial = Trial(Candidate("logit", {"rank": rank}), longest=1.0)
        for fold in folds:
            trial.record(2, fold, *judge.score(factors, fold))
        found.append((trial, dict.fromkeys(folds, factors)))
    return found


def always(_):
    return True


def test_members_are_those_that_the_sum_gains_by():
    judge = Measured({11: 0.52, 101: 0.55, 111: 0.58})
    pool = pool_of([0.5, 0.49, 0.4], judge)
    found = best_sum(pool, judge, always, NEVER)
    assert [trial.candidate.settings["rank"] for trial in found.members] == [1, 100, 10]
    assert found.trial.score == pytest.approx(0.58)
    assert str(found.trial.candidate) == "the sum of (logit, rank 1) and (logit, rank 100) and (logit, rank 10)"
    assert found.trial.longest == 3.0
    judge.values[111] = 0.54  # a third one does not help
    assert best_sum(pool, judge, always, NEVER).members == [pool[0][0], pool[2][0]]


@pytest.mark.parametrize("value", [0.49, 0.5, 0.50001])
def test_a_sum_that_is_not_better_by_more_than_noise_is_not_kept(value):
    judge = Measured({11: value})
    pool = pool_of([0.5, 0.49], judge)
    if value > 0.5:
        rng = np.random.default_rng(0)
        pool[0][0].parts[0] = tuple(0.5 + 0.01 * rng.normal(size=20))
    assert best_sum(pool, judge, always, NEVER) is None


def test_only_what_can_be_added_and_afforded_in_time_is_judged():
    judge = Measured({11: 0.6})
    assert best_sum(pool_of([0.5, 0.49], judge, link=relatent.model.links.SmoothLink()), judge, always, NEVER) is None
    pool = pool_of([0.5, 0.49], judge)
    judge.seen.clear()
    assert best_sum(pool, judge, lambda trials: len(trials) < 2, NEVER) is None
    assert best_sum(pool, judge, always, time.monotonic() - 1) is None
    assert best_sum([pool[0], (pool[1][0], {1: pool[1][1][0]})], judge, always, NEVER) is None  # of another fold
    assert judge.seen == []
    assert best_sum(pool, judge, always, NEVER) is not None


def test_smaller_is_better_for_a_loss():
    judge = Measured({11: 0.4})
    judge.metric = "log_loss"
    assert best_sum(pool_of([0.5, 0.51], judge), judge, always, NEVER) is not None
    judge.values[11] = 0.6
    assert best_sum(pool_of([0.5, 0.51], judge), judge, always, NEVER) is None


# --- in a search


def best_of_sums(monkeypatch, value):
    """Every sum has this value, every fit its own."""
    score = Judge.score

    def scored(judge, factors, fold):
        found = score(judge, factors, fold)
        return Score(value, tuple(value + 1e-4 * np.arange(len(found.parts)))) if factors.summands else found

    monkeypatch.setattr(Judge, "score", scored)


@pytest.mark.parametrize("by_validation", [True, False])
def test_the_sum_is_fitted_and_calibrated_and_the_report_says_so(monkeypatch, by_validation, tmp_path):
    best_of_sums(monkeypatch, 0.99)
    train, valid = relatent.split(cliques(60, 15), test_size=0.2)
    given = {"validation": valid} if by_validation else {}
    fits, fit = [], relatent.RescalALS._fit
    monkeypatch.setattr(relatent.RescalALS, "_fit", lambda self, given: fits.append(given.shard) or fit(self, given))
    report = relatent.tune(train, trials=3, models=["als"], metric="mrr", n_jobs=1, **given)
    assert report.chosen_candidate.model == "sum"
    assert "Chosen: the sum of (als" in report.sentence
    assert report.factors_.calibration.heldout_facts > 0
    parts = report.chosen_candidate.settings["parts"]
    ranks = [part.estimator(0)._with_chosen_settings(train).rank for part in parts]
    assert [part.rank for part in report.factors_.parts] == ranks
    assert [summand.weight for summand in report.factors_.summands] == [1 / len(parts)] * len(parts)
    to_all = [shard for shard in fits if shard.n_facts == len(train)]
    assert by_validation or len(to_all) == len(parts)
    report.factors_.save(tmp_path / "m.relatent")
    assert relatent.load(tmp_path / "m.relatent").rank == report.factors_.rank
    [row] = [trial for trial in json.loads(json.dumps(report.to_dict()))["trials"] if trial["model"] == "sum"]
    assert row["settings"]["parts"][0]["model"] == "als"
    alone = report.unfitted_estimator.fit(train).factors_
    np.testing.assert_allclose(alone.A, report.factors_.A, rtol=1e-4, atol=1e-5)


def test_without_time_to_fit_all_parts_no_sum_is_judged():
    trials = [Trial(Candidate("als", {})), Trial(Candidate("als", {"rank": 5}))]
    judge = Judge.of(FACTS, "auc_pr", None, 0)
    now = time.monotonic()
    search = tuning._TuningSearch(judge, trials, 0, 1, now, 100.0, lambda *_: None, refits=True, calibrates=False)
    for trial in trials:
        trial.longest = 60.0
    assert not search._can_be_fitted(trials)
    assert search._can_be_fitted(trials[:1])
    search.refits = False
    assert search._can_be_fitted(trials)


def test_parts_of_sums_are_of_several_kinds():
    trials = [Trial(Candidate(model, {"rank": rank})) for rank in range(2, 6) for model in ("als",)]
    trials += [Trial(Candidate("logit", {})), Trial(Candidate("logit", {"structure": "complex"}))]
    search = tuning._TuningSearch(
        Judge.of(FACTS, "auc_pr", None, 0), trials, 0, 1, 0.0, None, lambda *_: None, refits=True
    )
    for trial, score in zip(trials, (0.5, 0.9, 0.8, 0.7, 0.3, 0.2), strict=True):
        trial.record(2, 0, score, ())
    assert search._pool() == [trials[i] for i in (1, 2, 3, 4, 5)]


def test_the_command_writes_the_sum(monkeypatch, capsys, tmp_path):
    best_of_sums(monkeypatch, 0.99)
    path = tmp_path / "facts.tsv"
    path.write_text("\n".join("\t".join(row) for row in cliques(40, 10).named()))
    arguments = ("--trials", 2, "--model", "als", "--metric", "mrr")
    code, out, err = run(capsys, "tune", path, "-o", tmp_path / "m.relatent", *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["chosen"]["model"] == "sum"
    assert len(relatent.load(tmp_path / "m.relatent").parts) == 2

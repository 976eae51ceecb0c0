"""Settings are found by seed and within the time; the defaults are kept unless others are better."""

import itertools
import math
import signal
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numba
import numpy as np
import pytest

import relatent
from relatent.errors import FitError, InputError
from relatent.evaluation import folds as folds_module
from relatent.evaluation import trial_fit, tuning
from relatent.evaluation.neighbours import resolved
from relatent.evaluation.refinement import LocalSearch
from relatent.evaluation.search_space import SPACES, Candidate, candidates
from relatent.evaluation.tuning_judge import Judge
from relatent.evaluation.tuning_report import METRICS, Trial, Tuned
from relatent.evaluation.tuning_rounds import round_ends
from relatent.fit import calibration
from relatent.fit.optimisers import Adam
from relatent.fit.solvers.adam import AdamSearch
from relatent.fit.solvers.als import Als
from relatent.progress import silent
from small_graphs import NO_FACTS, blocks, chain, cliques, random_facts

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
SMALL = blocks(9)


@pytest.fixture(autouse=True)
def one_start(monkeypatch):
    """Fits of tiny data begin once: several starts, which tests/fit/test_multistart.py tests, take a second each."""
    monkeypatch.setattr("relatent.fit.multistart.RANDOM_STARTS", 0)
    monkeypatch.setattr("relatent.fit.multistart.TRIAL_STEPS", 1)


def search(*arguments, **options):
    return relatent.tune(*arguments, fit=False, **options)


def choices(report):
    return [(trial["settings"], trial["round"], trial["score"]) for trial in report.to_dict()["trials"]]


@pytest.fixture(scope="module")
def found():
    """A search, and its reports of progress."""
    reports = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.RelatentWarning)
        result = relatent.tune(
            blocks(36, groups=12), trials=12, models=["als"], n_jobs=1, progress=lambda *report: reports.append(report)
        )
    return result, reports


def test_the_chosen_settings_predict_a_plain_world_that_poor_settings_do_not(found):
    report, _ = found
    assert report.judged[0].score > 0.95
    assert report.factors_.rank >= 12  # the world has rank 12
    assert min(trial.score for trial in report.judged) < 0.9
    assert report.factors_.rank == (report.unfitted_estimator.rank or 36)
    assert not hasattr(report.unfitted_estimator, "factors_")


def test_the_best_trial_has_the_best_mean_score_in_the_last_round(found):
    report, _ = found
    assert [trial.round for trial in report.trials] == sorted((t.round for t in report.trials), reverse=True)
    # The defaults are in both rounds of complete fits, beside 4 of the 11 others and 2 of these 4.
    assert [sum(trial.round >= number for trial in report.trials) for number in (1, 2, 3)] == [12, 5, 3]
    first, second = report.trials[:2]
    assert len(first.scores) == len(second.scores) == 5
    assert first.score == pytest.approx(np.mean(list(first.scores.values())))
    assert first.score >= second.score
    assert report.default.candidate == Candidate("als", {})
    assert report.default.round == 3


def test_progress_counts_up_to_the_last_fit(found):
    _, reports = found
    trials = [report for report in reports if "best als" in report[2]]
    assert [done for done, _, _ in trials] == list(range(1, len(trials) + 1))
    assert trials[-1][0] == trials[-1][1] == 11 + 5 * 2 + 3 * 3
    notes = [note for _, _, note in reports]
    assert [kind for kind, _ in itertools.groupby(note.split(":")[0] for note in notes[len(trials) :])] == [
        "fitting to all facts",
        "learning probabilities",
    ]


def test_the_number_of_trials_and_the_seed_determine_the_result():
    first, second = (search(SMALL, trials=4, random_state=3, n_jobs=1) for _ in range(2))
    assert choices(first) == choices(second)
    assert choices(first) != choices(search(SMALL, trials=4, random_state=4, n_jobs=1))


def test_several_processes_give_the_same_result_as_one():
    first, second = (search(SMALL, trials=3, models=["als"], n_jobs=jobs) for jobs in (1, 2))
    assert choices(first) == choices(second)


def test_held_out_cells_are_unobserved_in_the_fit_and_for_ranking_held_out_facts_are_false():
    facts = random_facts()
    judge = Judge.of(facts, "auc_pr", None, 0)
    assert judge.training(0).is_unobserved(judge.folds[0].cells).all()
    judge = Judge.of(facts, "mrr", None, 0)
    assert judge.folds[0].truth.all()
    assert not judge.training(0).is_unobserved(judge.folds[0].cells).any()
    assert not judge.training(0).contains(judge.folds[0].cells).any()


@pytest.mark.parametrize("metric", METRICS)
def test_a_fold_is_scored_as_a_whole_and_in_parts_whose_mean_is_near(metric):
    facts = blocks()
    judge, factors = Judge.of(facts, metric, None, 0), relatent.RescalALS(rank=2).fit(facts).factors_
    score = judge.score(factors, 0)
    assert len(score.parts) == min(20, judge.folds[0].truth.sum())
    assert np.mean(score.parts) == pytest.approx(score.value, abs=0.05)


def test_the_metric_follows_the_data():
    assert tuning.default_metric(chain(200)) == "mrr"  # sparse
    assert tuning.default_metric(blocks()) == "auc_pr"
    assert search(blocks(), 1e-9).metric == "auc_pr"


def test_zeros_are_sampled_where_there_are_many_cells(monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 50)
    report = search(SMALL, trials=1, models=["als"])
    assert "zeros sampled" in report.protocol
    assert report.judged


@pytest.mark.parametrize(("metric", "better"), [("log_loss", min), ("auc_pr", max), ("mrr", max)])
def test_every_metric_is_compared_in_its_own_direction(metric, better):
    report = search(SMALL, trials=3, models=["als"], metric=metric, n_jobs=1)
    last = [trial.score for trial in report.judged if trial.round == report.trials[0].round]
    assert len(last) > 1
    assert report.trials[0].score == better(last)


def test_softmax_on_small_data_is_searched_with_more_components_than_entities_and_with_whole_matrices():
    made = candidates(blocks(), ["softmax"], 0)
    default, *wide, whole = (next(made) for _ in range(5))
    assert default == ("softmax", {})
    assert len({candidate.settings["penalty"].weight for candidate in wide}) == 3
    for candidate in wide:
        assert candidate.settings["rank"] > blocks().n_entities
        assert ("N3" in str(candidate), candidate.settings["structure"]) == (True, "complex")
    assert "DURA" in str(whole)
    assert whole.settings["rank"] <= blocks().n_entities
    task = trial_fit.TrialTask(wide[0], 0, complete=False, random_state=0, threads=1, ends=None)
    _, _, outcome = trial_fit.run_trial(0, task, Judge.of(SMALL, "mrr", None, 0))
    assert (outcome.score.value > 0.2, outcome.note) == (True, "")


def test_validation_facts_replace_held_out_cells():
    train, valid = relatent.split(blocks(12), test_size=0.1)
    report = search(train, trials=4, models=["als"], validation=valid, n_jobs=1)
    assert report.protocol == "measured on validation data"
    assert [len(trial.scores) for trial in report.judged] == [1] * len(report.judged)
    assert sum(trial.round >= 2 for trial in report.trials) == 2 + 4
    assert np.isnan(report.trials[0].spread)


# --- the local search on validation data

FAMILIES = relatent.split(cliques(300, 75), test_size=0.2)  # sparse, of rank 75


def refined(facts_and_validation=FAMILIES, *arguments, **options):
    train, valid = facts_and_validation
    return relatent.tune(
        train, *arguments, **{"models": ["als"], "metric": "mrr", "validation": valid, "n_jobs": 1, **options}
    )


@pytest.fixture(scope="module")
def families():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.RelatentWarning)
        return refined(trials=2)


def test_settings_near_the_best_are_chosen_if_they_are_better(families):
    assert (families.default.round, families.chosen_trial.round) == (2, 3)
    assert families.chosen_trial is families.trials[0]
    assert families.chosen_trial.score > 2 * families.default.score
    assert families.factors_.rank == families.chosen_candidate.settings["rank"] >= 75
    assert families.estimator_.max_iter == 500  # a complete fit
    assert [trial["round"] for trial in families.to_dict()["trials"]].count(3) == 4


def test_complete_fits_of_both_rounds_are_ranked_together_by_score(families):
    complete = [trial for trial in families.trials if trial.round > 1]
    assert [trial.score for trial in complete] == sorted((trial.score for trial in complete), reverse=True)
    assert [trial.round for trial in complete] != sorted((trial.round for trial in complete), reverse=True)
    assert f"next is {complete[1].candidate} with" in families.sentence


def test_the_local_search_is_reproducible_whatever_the_number_of_processes(families):
    assert choices(refined(trials=2)) == choices(families)
    beside = choices(refined(trials=2, n_jobs=2))  # other numbers of threads, whose sums round otherwise
    assert [settings for settings, *_ in beside] == [settings for settings, *_ in choices(families)]
    for mine, theirs in zip(beside, choices(families), strict=True):
        assert mine[2] == pytest.approx(theirs[2], abs=0.02)


def test_no_setting_is_tried_twice(families):
    tried = [resolved(trial.candidate, FAMILIES[0]) for trial in families.trials]
    assert all(tried.count(candidate) == 1 for candidate in tried)


def test_progress_counts_up_to_the_last_fit_around_the_best():
    reports = []
    refined(trials=4, fit=False, progress=lambda *report: reports.append(report))
    assert [done for done, _, _ in reports] == list(range(1, len(reports) + 1))
    assert reports[-1][0] == reports[-1][1] == 3 + 2 + 4


def test_one_trial_is_a_fit_of_the_defaults():
    assert [trial.round for trial in refined(trials=1).trials] == [2]


@pytest.mark.parametrize("seconds", [150.0, 400.0, 1000.0])
def test_the_local_search_keeps_the_time(now, seconds):
    report = refined(FAMILIES, seconds)
    assert now[0] <= seconds + 1  # one step
    assert any(trial.round == 3 and trial is not report.default for trial in report.trials)
    assert report.estimator_.rank == report.chosen_candidate.settings["rank"]
    assert not report.fallback


def test_complete_fits_have_half_of_the_time_and_those_around_the_best_the_rest(now):
    began = {1: [], 2: [], 3: []}

    def recorded(state, trial, number, fold, outcome, record=tuning._TuningSearch._record):
        began[number].append(now[0] - outcome.seconds)
        record(state, trial, number, fold, outcome)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning._TuningSearch, "_record", recorded)
        refined(FAMILIES, 2000.0)
    default_fit = began[3].pop(0)
    assert default_fit == 0.0
    assert max(began[1]) <= 0.3 * 2000
    assert 0.2 * 2000 <= min(began[2]) <= max(began[2]) <= 0.55 * 2000
    assert max(began[2]) < min(began[3])
    assert len(began[3]) > 3


def test_a_fit_that_is_slower_than_predicted_is_planned_anew_or_given_up(now):
    train, valid = relatent.split(chain(200), test_size=0.1)
    judge = Judge.of(train, "mrr", valid, 0)
    settings = {"structure": "complex", "rank": 8, "optimiser": Adam(0.1), "max_iter": 50}
    task = trial_fit.TrialTask(Candidate("logit", settings), 0, True, 0, threads=1, ends=45.0, min_share=0.6)
    _, _, outcome = trial_fit.run_trial(0, task, judge)
    assert (outcome.max_iter, outcome.steps) == (34, None)  # .85 of the 41 s that are left after four steps
    assert outcome.estimator.n_iter_ == 34
    assert now[0] == 4 + 34
    now[0] = 20.0
    assert trial_fit.run_trial(0, task, judge)[2] is None
    assert now[0] == 24.0
    assert trial_fit.run_trial(0, task._replace(ends=200.0), judge)[2].max_iter is None


def test_a_trial_has_the_steps_that_it_was_planned_anew_with(now):
    trials = [Trial(Candidate("logit", {})), Trial(Candidate("logit", {"max_iter": 50}))]
    state = tuning._TuningSearch(
        Judge.of(FAMILIES[0], "mrr", FAMILIES[1], 0), trials, 0, 1, 0.0, 9.0, silent, refits=True
    )
    state._record(trials[1], 1, 0, trial_fit.TrialOutcome(trial_fit.Score(0.4, ()), 1.0, steps=7))
    assert trials[1].steps == 7
    state._record(trials[1], 2, 0, trial_fit.TrialOutcome(trial_fit.Score(0.5, ()), 1.0, max_iter=39))
    assert (trials[1].candidate.settings["max_iter"], trials[1].steps) == (39, None)


def test_ctrl_c_in_the_local_search_keeps_the_best_so_far(monkeypatch):
    fits, fit = [], relatent.RescalALS.fit

    def pressed(self, *arguments, **options):
        fits.append(self)
        if len(fits) == 1 + 2 + 3:  # one short, two complete, the third around the best
            signal.raise_signal(signal.SIGINT)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", pressed)
    report = refined(trials=2)
    assert report.stopped
    assert sum(trial.round == 3 for trial in report.trials) == 2
    assert report.chosen_trial.round == 3
    assert report.estimator_ in fits[3:5]


def test_the_model_of_a_choice_that_folds_in_is_kept(monkeypatch):
    monkeypatch.setattr(tuning, "MAX_POOL", 0)  # parts of sums are kept, too
    default, logit, softmax, other = (Trial(Candidate(model, {})) for model in ("als", "logit", "softmax", "softmax"))
    train, valid = FAMILIES
    judge = Judge.of(train, "mrr", valid, 0)
    state = tuning._TuningSearch(judge, [default, logit, softmax, other], 0, 1, 0.0, 9.0, silent, refits=True)
    for trial, score in ((default, 0.3), (other, 0.45), (logit, 0.5), (softmax, 0.51)):
        outcome = trial_fit.TrialOutcome(trial_fit.Score(score, (score, score)), 1.0, estimator=object())
        state._record(trial, 2, 0, outcome)
    assert state.models.keys() == {id(default), id(logit), id(softmax)}


def test_where_nothing_is_left_to_try_the_best_of_another_kind_is_refined(monkeypatch):
    monkeypatch.setattr(LocalSearch, "proposals", lambda *_: [])
    centres, around = [], LocalSearch.around
    monkeypatch.setattr(LocalSearch, "around", lambda *given: centres.append(given[1]) or around(*given))
    trials = [
        Trial(Candidate(model, settings))
        for model, settings in (("als", {}), ("als", {"rank": 6}), ("logit", {}), ("logit", {"structure": "diagonal"}))
    ]
    judge = Judge.of(FAMILIES[0], "mrr", FAMILIES[1], 0)
    state = tuning._TuningSearch(judge, trials, 0, 1, 0.0, None, silent, refits=True)
    for trial, score in zip(trials, (0.3, 0.2, 0.4, 0.1), strict=True):
        trial.record(2, 0, score, ())
    state._refine(None)
    assert centres == [trials[i].candidate for i in (2, 0, 3)]


def search_on_validation(*trials, seconds):
    judge = Judge.of(FAMILIES[0], "mrr", FAMILIES[1], 0)
    return tuning._TuningSearch(judge, list(trials), 0, 1, 0.0, seconds, silent, refits=True)


def test_short_fits_like_slow_defaults_come_last(now):
    default, like, other = (
        Trial(Candidate(model, {"rank": r})) for model, r in (("logit", 1), ("logit", 2), ("als", 3))
    )
    state = search_on_validation(default, like, other, seconds=100.0)
    assert state._entered(1, 25.0) == [like, other]
    state.whole_seconds = 30.0
    assert state._entered(1, 25.0) == [other, like]


def test_a_fit_that_would_outlast_the_second_round_gives_its_place_to_the_next(now):
    default = Trial(Candidate("logit", {}))
    slow, quick, poor = (
        Trial(Candidate("softmax", {"max_iter": 400, "rank": rank, "device": "cuda"})) for rank in (2, 4, 6)
    )
    for trial, score, seconds in ((slow, 0.5, 8.0), (quick, 0.4, 5.0), (poor, 0.3, 1.0)):
        trial.record(1, 0, score, ())
        trial.longest = seconds
    state = search_on_validation(default, slow, quick, poor, seconds=100.0)
    assert slow.complete_seconds == 32.0
    assert state._entered(2, 50.0) == [default, slow]
    assert state._entered(2, 25.0) == [default, quick]
    assert state._entered(2, 3.0) == [default, slow], "the best if there is no time for any"


def test_rounds_end_in_order_and_leave_time_to_compare_complete_fits():
    assert round_ends(10.0, 110.0, 5.0, validation=True) == [35.0, 60.0, 110.0]
    assert round_ends(10.0, 110.0, 5.0, validation=False) == [45.0, 85.0, 110.0]
    first, second, third = round_ends(0.0, 50.0, 40.0, validation=True)
    assert (first, second, third) == pytest.approx((6.0, 50.0, 50.0))
    assert round_ends(0.0, 40.0, 40.0, validation=True) == []


def test_held_out_tenths_are_not_refined():
    report = search(FAMILIES[0], trials=2, models=["als"], metric="mrr", n_jobs=1)
    assert sum(trial.candidate.model != "sum" for trial in report.trials) == 2


# --- little data, little time, failures


@pytest.mark.parametrize(
    "facts",
    [
        relatent.Facts.from_arrays(["Ann", "Bob", "Ann"], ["parent", "parent", "likes"], ["Bob", "Cid", "Cid"]),
        chain(4),
        relatent.Facts.from_arrays([0], [0], [1]),
        relatent.Facts.from_arrays([0], [0], [0]),
    ],
    ids=["three facts", "one relation", "one fact", "one cell"],
)
@pytest.mark.parametrize("metric", METRICS)
def test_tiny_data_give_a_model_and_a_sentence(facts, metric):
    report = relatent.tune(facts, trials=3, metric=metric, n_jobs=1)
    assert np.isfinite(report.factors_.A).all()
    assert report.sentence.startswith("Chosen: ")
    if len(facts) == 1:
        assert "too few facts to hold any out" in report.sentence


@pytest.fixture
def now(monkeypatch):
    """A clock, [seconds], on which a step of least squares or of Adam takes one."""
    now = [0.0]

    def slow(solver):
        step = solver.step

        def slow_step(self, state):
            now[0] += 1.0
            return step(self, state)

        monkeypatch.setattr(solver, "step", slow_step)

    slow(Als)
    slow(AdamSearch)
    monkeypatch.setattr(tuning.clock, "monotonic", lambda: now[0])
    return now


def test_time_for_a_part_of_one_fit_gives_the_default_settings_with_fewer_steps(now):
    facts = chain(200)  # sparse: 100 rounds of Adam without options
    report = relatent.tune(facts, 40.0, calibrate=False)
    assert report.factors_.calibration is None
    assert report.chosen_candidate == Candidate("logit", {})
    assert 20 <= report.estimator_.n_iter_ < 40
    assert "the schedule of the learning rate is complete" in report.estimator_.trace_.verdict
    assert now[0] <= 40
    assert f"there was time for {report.estimator_.n_iter_} steps of a single fit only" in report.sentence


def test_compiling_does_not_count(now, monkeypatch):
    monkeypatch.setattr(tuning, "compile_time", lambda: nullcontext(lambda: 90.0))
    now[0] = 0.0
    step = Als.step

    def compiled_first(self, state):
        now[0] += 0.0 if now[0] else 90.0
        return step(self, state)

    monkeypatch.setattr(Als, "step", compiled_first)
    report = relatent.tune(SMALL, 60.0, models=["als"], n_jobs=1)
    assert report.estimator_.trace_.converged
    assert 90.0 < now[0] <= 150.0 + 1


def test_numba_tells_when_it_compiles():
    with trial_fit.compile_time() as compiled:
        assert compiled() == 0.0
        numba.njit(lambda x: x + 1)(1)
        assert compiled() > 0.0


def test_a_fit_without_a_schedule_is_stopped_and_its_model_used(now):
    report = relatent.tune(SMALL, 3.0, models=["als"], n_jobs=1, calibrate=False)
    assert report.estimator_.n_iter_ == 3
    assert report.estimator_.trace_.verdict == "stopped after 3 steps: the time is over"
    assert np.isfinite(report.factors_.A).all()


@pytest.mark.parametrize(("seconds", "calibrate"), [(20.0, False), (100.0, False), (100.0, True), (400.0, True)])
def test_the_time_is_kept_and_the_defaults_are_fitted_first_and_to_the_end(now, monkeypatch, seconds, calibrate):
    fits, fit = [], relatent.RescalALS.fit

    def recorded(self, facts, **options):
        fits.append((len(facts), self.rank, self.max_iter))
        return fit(self, facts, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", recorded)
    report = relatent.tune(SMALL, seconds, models=["als"], n_jobs=1, calibrate=calibrate)
    assert now[0] <= seconds + 1  # one step
    assert fits[0] == (len(SMALL), None, 500)
    assert report.estimator_.trace_.converged
    assert (report.factors_.calibration is not None) == calibrate
    if seconds == 400.0:
        assert report.default.round >= 2
        assert report.default.steps is None
        assert any(trial.round >= 2 for trial in report.judged if trial is not report.default)


def test_without_time_to_compare_complete_fits_there_is_no_search(now):
    plain = {"models": ["als"], "n_jobs": 1, "calibrate": False}
    relatent.RescalALS(calibrate=False).fit(SMALL)
    alone, now[0] = now[0], 0.0
    report = relatent.tune(SMALL, 3.0 * alone, **plain)
    assert now[0] == alone
    assert not report.judged
    assert report.sentence.endswith(f"other settings; about {math.ceil(5 * report.seconds)} s would be enough.")
    enough = relatent.tune(SMALL, 5.0 * alone + 1, **plain)
    assert enough.judged


# --- probabilities of the choice


def test_the_choice_has_the_probabilities_of_a_fit_with_its_settings(found):
    report, _ = found
    alone = report.unfitted_estimator.set_params(calibrate=True).fit(blocks(36, groups=12)).factors_
    s, o = np.divmod(np.arange(100), 10)
    np.testing.assert_allclose(report.factors_.probability(s, 0, o), alone.probability(s, 0, o), rtol=1e-3)
    again = search(SMALL, trials=1, models=["als"]).fit(SMALL)
    assert again.factors_.calibration is not None


def test_fits_of_the_search_are_not_calibrated_and_validation_facts_take_no_further_fit(monkeypatch):
    learned, learn = [], calibration.learn
    monkeypatch.setattr(calibration, "learn", lambda *a, **o: learned.append(a[2]) or learn(*a, **o))
    train, valid = relatent.split(blocks(12), test_size=0.1)
    report = relatent.tune(train, trials=3, models=["als"], validation=valid, n_jobs=1)
    assert [[len(trial.heldout) for trial in trials] for trials in learned] == [[len(valid)]]
    assert report.factors_.calibration.heldout_facts == len(valid)


@pytest.mark.parametrize("seconds", [4.0, 12.0, 30.0, 50.0, 90.0])
@pytest.mark.parametrize("facts", [SMALL, random_facts(150, 3, 300)], ids=["least squares", "a schedule"])
def test_probabilities_are_learned_within_the_time(now, facts, seconds):
    model = "als" if facts is SMALL else "logit"
    report = relatent.tune(facts, seconds, models=[model], n_jobs=1)
    assert now[0] <= seconds + 3  # a step of each fit
    found = report.factors_.calibration
    assert found.expected == pytest.approx(len(facts) / 9, rel=0.05)
    # the further fits, up to four, take as long each
    assert report.estimator_.n_iter_ > 0.15 * seconds or report.estimator_.trace_.converged


def test_without_time_for_half_of_the_further_fits_nothing_is_learned_from_facts(now, monkeypatch):
    monkeypatch.setattr(tuning._TuningSearch, "run_rounds", lambda self: now.__setitem__(0, 70.0))
    report = relatent.tune(SMALL, 75.0, models=["als"], n_jobs=1)
    assert now[0] == 70.0
    assert report.estimator_.trace_.converged
    assert report.factors_.calibration.heldout_facts == 0


def test_ctrl_c_while_probabilities_are_learned_keeps_the_model(monkeypatch):
    def pressed(self, *_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(relatent.RescalALS, "completed", pressed)
    report = relatent.tune(SMALL, trials=1, models=["als"], n_jobs=1)
    assert report.stopped
    assert report.factors_.calibration is None


def search_that_finds(monkeypatch, now, *, seconds, longest=5.0):
    """Replace the rounds by one that takes some time and finds rank 2 better than the defaults."""

    def run_rounds(self):
        for trial, score in ((self.default, 0.5), (self.trials[1], 0.9)):
            trial.candidate.settings.update({"rank": 2} if trial is not self.default else {})
            trial.record(2, 0, score, (score, score + 0.001))
            trial.longest = longest
        now[0] += seconds

    monkeypatch.setattr(tuning._TuningSearch, "run_rounds", run_rounds)


def test_the_last_round_leaves_time_to_fit_the_two_settings_that_take_longest(now, monkeypatch):
    ends = []
    monkeypatch.setattr(
        tuning, "run_tasks", lambda _, calls, *__, **___: ends.extend(t.ends for _, t, _ in calls) or ()
    )
    trials = [Trial(Candidate("als", {})), Trial(Candidate("als", {"rank": 5}))]
    judge = Judge.of(SMALL, "auc_pr", None, 0)
    state = tuning._TuningSearch(judge, trials, 0, 1, 0.0, 100.0, silent, refits=True, calibrates=False)
    for trial, seconds in zip(trials, (4.0, 20.0), strict=True):
        trial.record(2, 0, 0.5, (0.5, 0.5))
        trial.longest = seconds
    state._run_round(3, 95.0)
    assert set(ends) == {70.0}
    ends.clear()
    state.calibrates, state.further = True, 1.0  # another fit without held-out facts
    state._run_round(3, 95.0)
    assert set(ends) == {40.0}


def test_better_settings_are_fitted_to_all_facts_if_there_is_time(now, monkeypatch):
    search_that_finds(monkeypatch, now, seconds=100.0)
    report = relatent.tune(SMALL, 1000.0, models=["als"], n_jobs=1)
    assert report.factors_.rank == 2
    assert report.chosen_candidate.settings["rank"] == 2


@pytest.mark.parametrize("expected", [5.0, 1.0])  # the fit is not begun; it is begun, and stopped
def test_without_time_to_fit_better_settings_the_defaults_are_the_result(now, monkeypatch, expected):
    search_that_finds(monkeypatch, now, seconds=100.0, longest=expected)
    default_fit = relatent.RescalALS(calibrate=False).fit(SMALL)
    steps, now[0] = now[0], 0.0
    report = relatent.tune(SMALL, steps + 100.0 + 3.0, models=["als"], n_jobs=1, calibrate=False)
    assert now[0] == steps + 100.0 + (0.0 if expected == 5.0 else 3.0)
    assert np.array_equal(report.factors_.A, default_fit.factors_.A)
    assert report.chosen_candidate == Candidate("als", {})
    assert "the time left did not suffice to fit als, " in report.sentence


def test_on_validation_data_an_unfinished_fit_is_used_if_it_is_best(now, monkeypatch):
    train, valid = relatent.split(blocks(12), test_size=0.1)
    judge = Judge.of(train, "auc_pr", valid, 0)
    task = trial_fit.TrialTask(Candidate("als", {"rank": 6}), 0, True, 0, threads=1, ends=3.0)
    _, _, outcome = trial_fit.run_trial(0, task, judge)
    assert (outcome.steps, outcome.estimator.n_iter_, outcome.note) == (3, 3, "")
    assert outcome.score.value > 0.5
    assert trial_fit.run_trial(0, task._replace(ends=9.0, last_start=3.0), judge)[2] is None  # too late


def test_models_fitted_for_validation_data_are_not_fitted_again(monkeypatch):
    train, valid = relatent.split(blocks(12), test_size=0.1)
    fits, fit = [], relatent.RescalALS.fit
    monkeypatch.setattr(relatent.RescalALS, "fit", lambda self, *a, **o: fits.append(self) or fit(self, *a, **o))
    report = relatent.tune(train, trials=4, models=["als"], validation=valid, n_jobs=1)
    assert report.estimator_ in fits
    assert len(fits) == 3 + 2 + 4  # three short ones; the defaults and the best complete; those around the best


def test_a_constant_is_not_chosen_for_its_ties(monkeypatch):
    strong = {"l2_entities": 10.0, "l2_relations": 10.0}  # leaves nothing of so few facts
    monkeypatch.setitem(SPACES, "als", replace(SPACES["als"], fixed=strong))
    report = search(cliques(12), trials=4, models=["als"], n_jobs=1)
    default = report.default
    assert default.note == trial_fit.VANISHED
    assert not default.judged
    assert report.trials[0].judged


def test_a_setting_that_diverges_is_not_chosen(monkeypatch):
    fit = relatent.RescalALS.fit

    def diverging(self, *arguments, **options):
        if self.rank is None:
            raise FitError("the objective became nan at step 1; raise the penalties")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", diverging)
    report = search(SMALL, trials=4, models=["als"], n_jobs=1)
    assert report.chosen_candidate.settings
    assert report.default.note.startswith("the objective became nan")
    assert report.default.to_dict()["score"] is None


def test_if_all_fits_diverge_the_sentence_says_so(monkeypatch):
    def diverging(self, *_, **__):
        raise FitError("the objective became nan")

    monkeypatch.setattr(relatent.RescalALS, "fit", diverging)
    report = search(SMALL, trials=2, models=["als"], n_jobs=1)
    assert "no other setting has a score (the objective became nan)" in report.sentence


def test_ctrl_c_keeps_the_best_so_far(monkeypatch):
    fits, fit = [], relatent.RescalALS.fit

    def pressed(self, *arguments, **options):
        fits.append(None)
        if len(fits) == 3:
            signal.raise_signal(signal.SIGINT)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", pressed)
    report = relatent.tune(blocks(), trials=9, models=["als"], n_jobs=1)
    assert report.stopped
    assert len(report.judged) == 2
    assert report.factors_.rank


def test_factors_need_a_fit():
    report = search(SMALL, trials=1, models=["als"])
    with pytest.raises(InputError, match="call fit"):
        report.factors_
    assert report.fit(SMALL).factors_.rank


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "f1"}, "metric must be one of auc_pr, log_loss, mrr, got 'f1'"),
        ({"time": 0}, "time must be a number of seconds above 0, got 0"),
        ({"time": float("nan")}, "time must be a number of seconds above 0, got nan"),
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"models": ["irm"]}, "models must be among logit, als, categorical, softmax, got 'irm'"),
        ({"models": ["softmax"]}, "softmax gives no probabilities; use metric='mrr'"),
        ({"models": ["categorical"]}, "some pairs of entities have several relations"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        relatent.tune(blocks(), **options)


def test_anything_but_facts_is_refused():
    with pytest.raises(InputError, match="tune takes Facts, got list"):
        relatent.tune([])
    with pytest.raises(InputError, match="no facts to learn from"):
        relatent.tune(relatent.Facts.from_arrays(*NO_FACTS, n_entities=3, n_relations=1))


def test_progress_of_a_timed_search_is_in_seconds(now):
    reports = []
    search(blocks(6), 60.0, models=["als"], n_jobs=1, progress=lambda *report: reports.append((now[0], *report)))
    assert len(reports) > 1
    assert [(done, total) for _, done, total, _ in reports] == [(min(int(at), 60), 60) for at, *_ in reports]
    assert 0 < reports[0][1] < reports[-1][1]


def test_spread_is_over_folds_and_nan_for_one():
    trial = Trial(Candidate("als", {}), 2, {0: 0.5, 1: 0.7, 2: float("nan")})
    assert (trial.score, trial.spread) == (pytest.approx(0.6), pytest.approx(0.1))
    assert np.isnan(Trial(Candidate("als", {}), 1, {0: 0.5}).spread)


def test_a_rival_within_the_fold_to_fold_spread_is_mentioned():
    near = [Trial(Candidate("als", {"rank": r}), 3, {0: v, 1: v + 0.02}) for r, v in ((5, 0.9), (6, 0.895))]
    report = Tuned(near, "auc_pr", "", 0, 1.0)
    assert report.sentence == (
        "Chosen: als, rank 5, because its AUC-PR on held-out data, 0.9100 ± 0.0100, is the best of 2 settings; "
        "next is als, rank 6 with 0.9050, within the fold-to-fold spread."
    )


def trial_of(model, value, folds=5, round=3, **settings):
    """A trial whose scores differ by ± 0.01 from fold to fold."""
    scores = {fold: value + 0.01 * (-1) ** fold for fold in range(folds)}
    return Trial(Candidate(model, settings), round, scores)


def tuned(*trials, metric="auc_pr"):
    return Tuned(list(trials), metric, "", 0, 1.0)


def test_of_equally_good_models_one_that_folds_in_is_chosen_and_the_sentence_says_so():
    report = tuned(
        trial_of("categorical", 0.91, 4), trial_of("categorical", 0.906, 4, rank=5), trial_of("logit", 0.905, 4)
    )
    assert report.chosen_candidate == Candidate("logit", {})
    assert report.sentence == (
        "Chosen: logit, default settings, because its AUC-PR on held-out data, 0.9050 ± 0.0100, is within the "
        "fold-to-fold spread of categorical, default settings with 0.9100, the best of 3 settings, and logit can "
        "explain predictions and fold in new entities, which categorical cannot."
    )
    assert report.caveat is None
    found = report.to_dict()
    assert (found["chosen"]["model"], found["why"], found["caveat"]) == ("logit", report.sentence, None)
    assert [trial["model"] for trial in found["trials"]] == ["categorical", "categorical", "logit"]  # best first


def test_a_clearly_better_model_is_chosen_although_it_cannot_fold_in_and_the_caveat_says_so():
    report = tuned(trial_of("categorical", 0.95), trial_of("logit", 0.9))
    assert report.chosen_candidate.model == "categorical"
    assert report.caveat == (
        "categorical cannot explain predictions or fold in new entities; to do so use --model logit --model als"
    )
    assert report.to_dict()["caveat"] == report.caveat


@pytest.mark.parametrize(("apart", "model"), [(0.005, "als"), (0.05, "categorical")])
def test_the_spread_is_compared_in_the_direction_of_the_metric(apart, model):
    assert (
        tuned(trial_of("categorical", 0.1), trial_of("als", 0.1 + apart), metric="log_loss").chosen_candidate.model
        == model
    )


def test_complete_fits_of_different_rounds_are_compared_on_common_folds():
    first = Trial(Candidate("categorical", {}), 3, {0: 0.80, 1: 0.82, 2: 0.95, 3: 0.95, 4: 0.95})
    logit = Trial(Candidate("logit", {}), 2, {0: 0.79, 1: 0.81})
    assert tuned(first, logit).chosen_candidate.model == "logit"
    logit.round = 1  # few steps
    assert tuned(first, logit).chosen_candidate.model == "categorical"


def test_with_one_fold_only_a_tie_is_within_the_spread():
    first = trial_of("categorical", 0.9, 1, 1)
    assert tuned(first, trial_of("als", 0.9, 1, 1)).chosen_candidate.model == "als"
    assert tuned(first, trial_of("als", 0.8999, 1, 1)).chosen_candidate.model == "categorical"


def test_among_models_that_fold_in_the_best_is_chosen():
    assert tuned(trial_of("als", 0.91), trial_of("logit", 0.909)).chosen_candidate.model == "als"


def compared(gain, noise, n_others=1, metric="auc_pr", round=2):
    """The choice between the defaults and settings whose score on each of ten parts is higher by gain ± noise."""
    default, better = (Trial(Candidate("als", settings)) for settings in ({}, {"rank": 5}))
    default.record(2, 0, 0.5, (0.5,) * 10)
    better.record(round, 0, 0.5 + gain, tuple(0.5 + gain + noise * (-1) ** part for part in range(10)))
    others = [trial_of("als", 0.1, 1, 1, rank=6) for _ in range(n_others)]
    return Tuned([better, default, *others], metric, "", 0, 1.0, default=default)


def test_the_defaults_are_kept_unless_other_settings_are_better_by_more_than_noise():
    assert compared(0.02, 0.01).chosen_candidate.settings == {"rank": 5}
    report = compared(0.002, 0.01)
    assert report.chosen_candidate.settings == {}
    assert report.sentence == (
        "Chosen: als, default settings, because none of 3 settings is better by more than noise: its AUC-PR on "
        "held-out data is 0.5000, that of als, rank 5 is 0.5020."
    )
    report.default.record(2, 1, 0.9, (0.9,) * 10)  # a part that the other setting does not have
    assert report.default.score == pytest.approx(0.7)
    assert (
        "its AUC-PR on the 1 held-out part that both have is 0.5000, that of als, rank 5 is 0.5020" in report.sentence
    )


def test_the_more_settings_were_compared_the_clearer_one_must_be():
    assert compared(0.008, 0.01).chosen_candidate.settings == {"rank": 5}
    assert compared(0.008, 0.01, n_others=100).chosen_candidate.settings == {}


def test_given_validation_data_is_taken_at_its_word():
    report = replace(compared(0.008, 0.01, n_others=100), by_validation=True)
    assert report.chosen_candidate.settings == {"rank": 5}
    assert replace(compared(0.002, 0.01), by_validation=True).chosen_candidate.settings == {}


def test_on_validation_data_a_model_that_folds_in_is_chosen_within_the_standard_error():
    def chosen(gain):
        default, logit, softmax = (Trial(Candidate(model, {})) for model in ("als", "logit", "softmax"))
        for trial, score in ((default, 0.3), (logit, 0.5), (softmax, 0.5 + gain)):
            trial.record(2, 0, score, tuple(score + 0.03 * (trial is softmax) * (-1) ** part for part in range(10)))
        return Tuned([softmax, logit, default], "mrr", "", 0, 1.0, default=default, by_validation=True)

    assert chosen(0.005).chosen_candidate.model == "logit"
    assert "within the standard error of softmax" in chosen(0.005).sentence
    assert chosen(0.02).chosen_candidate.model == "softmax"


def test_a_search_without_time_for_other_settings_says_so():
    default = Trial(Candidate("logit", {}), round=3, scores={0: 0.5}, steps=12)
    text = Tuned([default], "mrr", "", 0, 1.0, default=default, by_validation=True).sentence
    assert text == (
        "Chosen: logit, default settings, because there was no time to compare other settings; its filtered MRR on "
        "held-out data after 12 steps, for which there was time, is 0.5000."
    )
    default.steps, default.longest = None, 20.0
    text = Tuned([default], "mrr", "", 0, 1.0, default=default, by_validation=True).sentence
    assert "no time to compare other settings (about 100 s would be enough); its filtered MRR" in text


def test_a_gain_is_compared_in_the_direction_of_the_metric():
    assert compared(0.1, 0.01, metric="log_loss").chosen_candidate.settings == {}
    assert compared(-0.1, 0.01, metric="log_loss").chosen_candidate.settings == {"rank": 5}


def test_complete_fits_compete_with_complete_fits():
    short = compared(0.1, 0.01, round=1)
    assert short.chosen_candidate.settings == {}
    assert "no other setting was compared with it in a complete fit" in short.sentence
    unfinished = compared(0.1, 0.01)
    unfinished.default.steps = 7
    assert unfinished.chosen_candidate.settings == {}


def test_a_default_that_failed_is_replaced_by_the_best():
    report = compared(-0.1, 0.01)
    report.default.note = "the objective became nan"
    assert report.chosen_candidate.settings == {"rank": 5}


def test_an_unfinished_fit_does_not_count_beside_complete_ones(now):
    facts = blocks(12)
    trials = [Trial(Candidate("als", {})), Trial(Candidate("als", {"rank": 5}))]
    judge = Judge.of(facts, "auc_pr", None, 0)
    state = tuning._TuningSearch(judge, trials, 0, 1, 0.0, 100.0, silent, refits=True)
    unfinished = trial_fit.TrialOutcome(trial_fit.Score(0.4, (0.4, 0.4)), 1.0, steps=3)
    for trial in trials:
        state._record(trial, 2, 0, unfinished)
    assert [trial.scores for trial in trials] == [{}, {0: 0.4}]  # the defaults are compared by complete fits only
    state._record(trials[1], 2, 1, unfinished)
    assert trials[1].scores == {0: 0.4}


def test_a_round_that_only_the_defaults_completed_does_not_make_them_the_best(now):
    trials = [Trial(Candidate("als", {})), Trial(Candidate("als", {"rank": 5})), Trial(Candidate("als", {"rank": 6}))]
    state = tuning._TuningSearch(Judge.of(SMALL, "auc_pr", None, 0), trials, 0, 1, 0.0, 9.0, silent, refits=True)
    for fold in range(5):
        trials[0].record(3 if fold > 1 else 2, fold, 0.5, (0.5, 0.5))
    for fold in range(2):
        trials[1].record(2, fold, 0.7, (0.7, 0.71))
    trials[2].record(1, 0, 0.9, (0.9, 0.9))
    assert state.ranked() == [trials[1], trials[0], trials[2]]


def test_trials_without_a_score_are_counted_with_the_reason():
    nothing = [Trial(Candidate("als", {"rank": r}), 1, {0: float("nan")}, note=trial_fit.VANISHED) for r in (2, 3)]
    text = tuned(trial_of("als", 0.9), trial_of("logit", 0.8), *nothing).sentence
    assert "the best of 2 settings (2 more were tried without a score: the factors shrank to zero)" in text
    odd = Trial(Candidate("als", {"rank": 4}), 1, {0: float("nan")}, note="the objective became nan")
    text = tuned(trial_of("als", 0.9), *nothing, odd).sentence
    assert "the best of 1 setting (3 more were tried without a score: mostly because the factors shrank" in text


def test_the_protocol_names_the_folds_that_were_used():
    judge = Judge.of(blocks(), "auc_pr", None, 0)
    assert judge.protocol(0) == "no setting was tried to the end"
    assert judge.protocol(1) == "1 of 10 folds of the cells held out, masked"
    assert judge.protocol(5) == "up to 5 of 10 folds of the cells held out, masked"
    assert search(blocks(), 1e-9).protocol == judge.protocol(0)


def test_trials_become_rows_of_a_data_frame():
    report = tuned(trial_of("als", 0.9, rank=3), trial_of("logit", 0.8))
    table = report.to_pandas()
    assert table.model.tolist() == ["als", "logit"]
    assert table.score.tolist() == [trial.score for trial in report.trials]
    assert table.folds.tolist() == [5, 5]


def test_known_facts_do_not_compete_with_held_out_ones():
    train, rest = relatent.split(blocks(12), test_size=0.3, random_state=0)
    valid, test = relatent.split(rest, test_size=0.5, random_state=0)
    model = relatent.RescalALS(8).fit(train).factors_
    alone, filtered = (Judge.of(train, "mrr", valid, 0, known).score(model, 0).value for known in ([], [test]))
    assert filtered == pytest.approx(relatent.evaluate(model, valid, known=[train, test]).mrr)
    assert filtered > alone
    report = search(train, trials=2, models=["als"], metric="mrr", validation=valid, known=test, n_jobs=1)
    assert report.protocol == "measured on validation data, without other known facts as rivals"

"""Settings are found by seed and within the time; without scores the defaults are taken."""

import signal
from dataclasses import replace

import numpy as np
import pytest

import relatent
from relatent.errors import FitError, InputError
from relatent.evaluation import folds as folds_module
from relatent.evaluation import tuning
from relatent.evaluation.search_space import SPACES, Candidate, candidates
from relatent.evaluation.tuning_report import METRICS, Trial, Tuned
from relatent.fit.solvers.als import Als
from small_graphs import NO_FACTS, blocks, chain, cliques, random_facts

pytestmark = pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")


def search(*arguments, **options):
    return relatent.tune(*arguments, fit=False, **options)


def choices(report):
    return [(trial.to_dict()["settings"], trial.round, trial.score) for trial in report.trials]


def test_the_chosen_settings_predict_a_plain_world_that_poor_settings_do_not():
    report = relatent.tune(blocks(48, groups=12), trials=12, models=["als"])  # of rank 12
    assert report.judged[0].score > 0.95
    assert report.factors_.rank >= 12
    assert min(trial.score for trial in report.judged) < 0.9
    assert report.factors_.rank == (report.unfitted_estimator.rank or 48)
    assert not hasattr(report.unfitted_estimator, "factors_")


def test_the_best_trial_has_the_best_mean_score_in_the_last_round():
    report = search(blocks(), trials=12, models=["als"])
    assert [trial.round for trial in report.trials] == sorted((t.round for t in report.trials), reverse=True)
    assert [sum(trial.round >= number for trial in report.trials) for number in (1, 2, 3)] == [12, 4, 2]
    first, second = report.trials[:2]
    assert len(first.scores) == len(second.scores) == 5
    assert first.score == pytest.approx(np.mean(list(first.scores.values())))
    assert first.score >= second.score


def test_the_number_of_trials_and_the_seed_determine_the_result():
    first, second = (search(blocks(), trials=5, random_state=3) for _ in range(2))
    assert choices(first) == choices(second)
    assert choices(first) != choices(search(blocks(), trials=5, random_state=4))


def test_several_processes_give_the_same_result_as_one():
    first, second = (search(blocks(), trials=3, models=["als"], n_jobs=jobs) for jobs in (1, 2))
    assert choices(first) == choices(second)


def test_held_out_cells_are_unobserved_in_the_fit_and_for_ranking_held_out_facts_are_false():
    facts = random_facts()
    judge = tuning._make_judge(facts, "auc_pr", None, 0)
    assert judge.training(0).is_unobserved(judge.folds[0].cells).all()
    judge = tuning._make_judge(facts, "mrr", None, 0)
    assert judge.folds[0].truth.all()
    assert not judge.training(0).is_unobserved(judge.folds[0].cells).any()
    assert not judge.training(0).contains(judge.folds[0].cells).any()


def test_zeros_are_sampled_where_there_are_many_cells(monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_FOLD_CELLS", 100)
    report = search(blocks(), trials=1, models=["als"])
    assert "zeros sampled" in report.protocol
    assert report.judged


@pytest.mark.parametrize(("metric", "better"), [("log_loss", min), ("auc_pr", max), ("mrr", max)])
def test_every_metric_is_compared_in_its_own_direction(metric, better):
    report = search(blocks(), trials=6, models=["als"], metric=metric)
    last = [trial.score for trial in report.judged if trial.round == report.trials[0].round]
    assert report.trials[0].score == better(last)


def test_softmax_is_searched_with_dura():
    made = candidates(blocks(), ["softmax"], 0)
    tried = [next(made) for _ in range(3)]
    assert len({candidate.settings["penalty"].weight for candidate in tried}) == 3
    assert all("DURA" in str(candidate) for candidate in tried)
    judge = tuning._make_judge(blocks(9), "mrr", None, 0)
    _, _, outcome = tuning._try(0, 0, tried[0], False, judge, 0, None)
    assert (outcome.score > 0.2, outcome.note) == (True, "")


def test_validation_facts_replace_held_out_cells():
    train, valid = relatent.split(blocks(), test_size=0.1)
    report = search(train, trials=4, models=["als"], validation=valid)
    assert report.protocol == "measured on validation data"
    assert [len(trial.scores) for trial in report.judged] == [1] * len(report.judged)
    assert report.trials[0].round == 2
    assert np.isnan(report.trials[0].spread)


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
    report = relatent.tune(facts, trials=4, metric=metric)
    assert np.isfinite(report.factors_.A).all()
    assert report.sentence.startswith("Chosen: ")
    if len(facts) == 1:
        assert "too few facts to hold any out" in report.sentence


def test_a_time_too_short_for_one_trial_gives_the_defaults_and_says_so():
    report = relatent.tune(blocks(), 1e-9)
    assert report.chosen_candidate == Candidate("logit", {})
    assert "no time to try a single setting" in report.sentence
    assert report.factors_.rank == 24


@pytest.fixture
def now(monkeypatch):
    """A clock, [seconds], on which a step of least squares takes one."""
    now, step = [0.0], Als.step

    def slow(self, state):
        now[0] += 1.0
        return step(self, state)

    monkeypatch.setattr(Als, "step", slow)
    monkeypatch.setattr(tuning.clock, "time", lambda: now[0])
    return now


def test_a_fit_ends_when_its_time_is_over(now):
    report = search(blocks(), 100.0, models=["als"], n_jobs=1)
    assert report.judged
    assert report.seconds <= 100.0 + 1  # one step
    assert any(trial.round == 0 for trial in report.trials)


def test_a_constant_is_not_chosen_for_its_ties(monkeypatch):
    strong = {"l2_entities": 10.0, "l2_relations": 10.0}  # leaves nothing of so few facts
    monkeypatch.setitem(SPACES, "als", replace(SPACES["als"], fixed=strong))
    report = search(cliques(12), trials=4, models=["als"], n_jobs=1)
    default = next(trial for trial in report.trials if "rank" not in trial.candidate.settings)
    assert default.note == tuning.VANISHED
    assert not default.judged
    assert report.trials[0].judged


def test_a_setting_that_diverges_is_not_chosen(monkeypatch):
    fit = relatent.RescalALS.fit

    def diverging(self, *arguments, **options):
        if self.rank is None:
            raise FitError("the objective became nan at step 1; raise the penalties")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", diverging)
    report = search(blocks(), trials=4, models=["als"], n_jobs=1)
    assert report.chosen_candidate.settings
    assert report.trials[-1].note.startswith("the objective became nan")
    assert report.trials[-1].to_dict()["score"] is None


def test_if_all_fits_diverge_the_sentence_says_so(monkeypatch):
    def diverging(self, *_, **__):
        raise FitError("the objective became nan")

    monkeypatch.setattr(relatent.RescalALS, "fit", diverging)
    report = search(blocks(), trials=2, models=["als"], n_jobs=1)
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
    report = search(blocks(), trials=1, models=["als"])
    with pytest.raises(InputError, match="call fit"):
        report.factors_
    assert report.fit(blocks()).factors_.rank


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


def test_progress_counts_up_to_the_last_fit():
    reports = []
    search(blocks(), trials=9, models=["als"], progress=lambda *report: reports.append(report))
    assert [done for done, _, _ in reports] == list(range(1, len(reports) + 1))
    assert reports[-1][0] <= reports[-1][1] == 9 + 3 * 2 + 3
    assert "best als" in reports[-1][2]


def test_progress_of_a_timed_search_is_in_seconds(now):
    reports = []
    search(chain(5), 60.0, models=["als"], n_jobs=1, progress=lambda *report: reports.append((now[0], *report)))
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


def test_trials_without_a_score_are_counted_with_the_reason():
    nothing = [Trial(Candidate("als", {"rank": r}), 1, {0: float("nan")}, note=tuning.VANISHED) for r in (2, 3)]
    text = tuned(trial_of("als", 0.9), trial_of("logit", 0.8), *nothing).sentence
    assert "the best of 2 settings (2 more were tried without a score: the factors shrank to zero)" in text
    odd = Trial(Candidate("als", {"rank": 4}), 1, {0: float("nan")}, note="the objective became nan")
    text = tuned(trial_of("als", 0.9), *nothing, odd).sentence
    assert "the best of 1 setting (3 more were tried without a score: mostly because the factors shrank" in text


def test_the_protocol_names_the_folds_that_were_used():
    judge = tuning._make_judge(blocks(), "auc_pr", None, 0)
    assert judge.protocol(0) == "no setting was tried to the end"
    assert judge.protocol(1) == "1 of 10 folds of the cells held out, masked"
    assert judge.protocol(5) == "up to 5 of 10 folds of the cells held out, masked"
    assert search(blocks(), 1e-9).protocol == judge.protocol(0)


@pytest.mark.parametrize(
    ("old", "new"), [("choice", "chosen_trial"), ("chosen", "chosen_candidate"), ("best", "unfitted_estimator")]
)
def test_old_names_of_the_choice_warn(old, new):
    report = tuned(trial_of("als", 0.9))
    with pytest.warns(DeprecationWarning, match=f"Tuned.{old} is now called {new}"):
        assert str(getattr(report, old)) == str(getattr(report, new))


def test_trials_become_rows_of_a_data_frame():
    report = tuned(trial_of("als", 0.9, rank=3), trial_of("logit", 0.8))
    table = report.to_pandas()
    assert table.model.tolist() == ["als", "logit"]
    assert table.score.tolist() == [trial.score for trial in report.trials]
    assert table.folds.tolist() == [5, 5]
    assert report.to_dict()["trials"][0]["parts"] == 5  # the old name of folds

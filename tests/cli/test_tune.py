"""`relatent tune`: the search, its report, and the model that it writes."""

import json
import signal

import pytest

import relatent
from commands import press_ctrl_c_in_step, run
from relatent.cli.data_argument import open_facts
from relatent.cli.tune import _tables, _test_split, _validation
from relatent.errors import InputError
from relatent.evaluation.search_space import Candidate
from relatent.evaluation.tuning_report import Trial, Tuned
from relatent.fit.solvers.als import Als
from small_graphs import politics


@pytest.fixture(autouse=True)
def one_start(monkeypatch):
    """Fits of tiny data begin once: several starts, which tests/fit/test_multistart.py tests, take a second each."""
    monkeypatch.setattr("relatent.fit.multistart.RANDOM_STARTS", 0)
    monkeypatch.setattr("relatent.fit.multistart.TRIAL_STEPS", 1)


@pytest.fixture
def party(tmp_path):
    """A file of 60 facts."""
    facts = politics()
    path = tmp_path / "party.tsv"
    rows = ((facts.entities[s], facts.relations[k], facts.entities[o]) for s, k, o in facts.triples.tolist())
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def test_the_model_is_written_and_the_choice_reported_in_json(capsys, family, tmp_path):
    output = tmp_path / "m.relatent"
    code, out, _ = run(capsys, "tune", family, "-o", output, "--trials", 3, "--metric", "log_loss", "--json")
    found = json.loads(out)
    assert code == 0
    assert len(found["trials"]) == 3
    assert found["chosen"] in found["trials"]
    assert found["why"].startswith("Chosen: ")
    assert relatent.load(output).about.settings["random_state"] == 0


def test_the_choice_is_reported_in_a_table_and_a_sentence(capsys, party, tmp_path):
    arguments = ("tune", party, "-o", tmp_path / "m.relatent", "--trials", 2, "--model", "als", "--metric", "auc_pr")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "2 settings tried on" in out
    assert "best first" in " ".join(out.split())
    assert "shown" not in out
    assert out.index("seconds") < out.index("note") < out.index("chosen")
    assert "Chosen: als" in out
    assert "folds of the cells held out, masked" in " ".join(out.split())


def test_the_table_shows_15_trials_including_the_chosen_one():
    trials = [Trial(Candidate("categorical", {"rank": r}), 2, {0: 0.9, 1: 0.8}) for r in range(1, 20)]
    trials.append(Trial(Candidate("als", {"rank": 20}), 2, {0: 0.9, 1: 0.8}))
    table, *_ = _tables("data", "m.relatent", Tuned(trials, "auc_pr", "", 0, 1.0))
    assert str(table.title) == "20 settings tried on data, best first (15 shown, all with --json)"
    assert table.row_count == 15
    last = [str(list(column.cells)[-1]) for column in table.columns]
    assert (last[0], last[-1]) == ("als, rank 20", "chosen")


def test_the_table_shows_the_chosen_settings_if_only_others_were_judged():
    default, other = Trial(Candidate("logit", {})), Trial(Candidate("categorical", {}), 1, {0: 0.2})
    table, *_ = _tables("data", "m.relatent", Tuned([other, default], "mrr", "", 0, 1.0, default=default))
    rows = list(zip(*(map(str, column.cells) for column in table.columns), strict=True))
    assert [(row[0], row[-1]) for row in rows] == [
        ("logit, default settings", "chosen"),
        ("categorical, default settings", "short fit"),
    ]


def test_a_choice_without_explanations_is_reported_with_a_caveat(capsys, family, tmp_path):
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 1, "--model", "categorical")
    line = "categorical cannot explain predictions or fold in new entities; to do so use --model logit --model als"
    assert line in " ".join(run(capsys, *arguments)[1].split())
    assert json.loads(run(capsys, *arguments, "--json")[1])["caveat"] == line


def test_the_same_number_of_trials_gives_the_same_choice(capsys, family, tmp_path):
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 2, "--metric", "log_loss", "--json")
    first, second = (json.loads(run(capsys, *arguments)[1])["chosen"] for _ in range(2))
    for trial in (first, second):
        del trial["seconds"]
    assert first == second


def test_without_time_for_a_search_the_default_settings_are_fitted(capsys, family, tmp_path):
    code, out, _ = run(capsys, "tune", family, "-o", tmp_path / "m.relatent", "--time", 1e-6)
    assert code == 0
    assert "because there was time for 1 step of a single fit only" in " ".join(out.split())
    assert "held out" not in out
    assert relatent.load(tmp_path / "m.relatent").about.model == "RescalLogit"


def test_reading_counts_as_part_of_the_time(capsys, family, tmp_path, monkeypatch):
    given, now = [], [0.0]

    def slow_read(*_, **__):
        now[0] += 7.0
        return open_facts(str(family))

    def tune(facts, seconds, **_):
        given.append(seconds)
        raise InputError("enough")

    monkeypatch.setattr("relatent.cli.tune.time.monotonic", lambda: now[0])
    monkeypatch.setattr("relatent.cli.data_argument.open_facts", slow_read)
    monkeypatch.setattr("relatent.evaluation.tuning.tune", tune)
    for seconds in (30, 5):
        run(capsys, "tune", family, "-o", tmp_path / "m.relatent", "--time", seconds)
    assert given == [23.0, 1e-3]


def test_validation_facts_can_be_given(capsys, family, tmp_path):
    (tmp_path / "valid.tsv").write_text("Bob\tlikes\tCid\n")
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 1, "--json")
    _, out, _ = run(capsys, *arguments, "--validation", tmp_path / "valid.tsv")
    assert json.loads(out)["protocol"] == "measured on validation data"
    known = ("--metric", "mrr", "--model", "als", "--known", family)
    _, out, _ = run(capsys, *arguments, "--validation", tmp_path / "valid.tsv", *known)
    assert json.loads(out)["protocol"] == "measured on validation data, without other known facts as rivals"


def test_the_validation_split_of_a_benchmark_is_the_default(monkeypatch):
    asked = []
    facts = open_facts("presidents")
    monkeypatch.setattr("relatent.cli.data_argument.open_facts", lambda name, **_: asked.append(name) or facts)
    assert _validation(["codex-s"], None, facts) is not None
    assert _validation(["codex-s:train"], None, facts) is not None
    assert _validation(["codex-s:all"], None, facts) is None
    assert _validation(["presidents"], None, facts) is None
    assert _test_split(["codex-s"], None) == ["codex-s:test"]
    assert _test_split(["codex-s"], "mine.tsv") == _test_split(["presidents"], None) == []
    assert asked == ["codex-s:valid", "codex-s:valid"]


@pytest.mark.parametrize(("interrupted_fit", "tried"), [(3, 2), (1, 0)])
def test_ctrl_c_fits_the_best_settings_so_far_and_exits_with_130(
    capsys, party, tmp_path, monkeypatch, interrupted_fit, tried
):
    fits, fit = [], relatent.RescalALS.fit

    def fit_with_ctrl_c(self, *arguments, **options):
        fits.append(None)
        if len(fits) == interrupted_fit:
            signal.raise_signal(signal.SIGINT)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", fit_with_ctrl_c)
    output = tmp_path / "m.relatent"
    code, out, err = run(capsys, "tune", party, "-o", output, "--trials", 9, "--model", "als", "--json")
    assert code == 130
    assert f"interrupted before the end; the best model so far is in {output}" in " ".join(err.split())
    assert json.loads(out)["stopped"] is True
    assert sum(trial["round"] > 0 for trial in json.loads(out)["trials"]) == tried
    assert relatent.load(output).about.model == "RescalALS"


@pytest.mark.parametrize("limit", [("--trials", 1), ("--time", 1000)])
def test_ctrl_c_in_the_fit_to_all_facts_writes_the_model_so_far(capsys, party, tmp_path, monkeypatch, limit):
    monkeypatch.setattr("relatent.evaluation.tuning.ROUNDS", ())  # no search: straight to the fit
    press_ctrl_c_in_step(monkeypatch, 2, Als)
    code, _, err = run(capsys, "tune", party, "-o", tmp_path / "m.relatent", "--model", "als", *limit)
    assert code == 130
    assert "interrupted before the end" in err
    assert relatent.load(tmp_path / "m.relatent").about.fit.steps == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--metric", "f1"), 2, "'f1' is not one of"),
        (("--time", 0), 2, "0.0 is not in the range"),
        (("--model", "softmax"), 1, "softmax gives no probabilities"),
        (("--validation", "nowhere.tsv"), 1, "neither a file nor a data set"),
    ],
)
def test_wrong_values_are_refused_and_nothing_is_written(capsys, family, tmp_path, arguments, code, message):
    got, _, err = run(capsys, "tune", family, "-o", tmp_path / "m.relatent", *arguments)
    assert got == code
    assert message in err
    assert not (tmp_path / "m.relatent").exists()

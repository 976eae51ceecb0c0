"""`relatent tune`: settings are searched, told, and the best are fitted and written."""

import json
import signal

import pytest

import relatent
from commands import run
from relatent.cli import tune as choosing
from relatent.cli.sources import open_facts
from relatent.evaluation.search_space import Candidate
from relatent.evaluation.tuning_report import Trial, Tuned

FAMILY = "Ann\tparent\tBob\nBob\tparent\tCid\nAnn\tlikes\tCid\nCid\tlikes\tAnn\n"


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "family.tsv"
    path.write_text(FAMILY)
    return path


def test_the_model_is_written_and_the_choice_told_in_json(capsys, family, tmp_path):
    output = tmp_path / "m.relatent"
    code, out, _ = run(capsys, "tune", family, "-o", output, "--trials", 3, "--metric", "log_loss", "--json")
    found = json.loads(out)
    assert code == 0
    assert len(found["trials"]) == 3
    assert found["chosen"] == found["trials"][0]
    assert found["why"].startswith("Chosen: ")
    assert relatent.load(output).about["settings"]["random_state"] == 0


def test_the_choice_is_told_by_a_table_and_a_sentence(capsys, tmp_path):
    arguments = ("tune", "presidents", "-o", tmp_path / "m.relatent", "--trials", 2, "--model", "als")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "2 settings tried on presidents, the best first" in out
    assert "shown" not in out
    assert out.index("seconds") < out.index("note") < out.index("chosen")
    assert "Chosen: als" in out
    assert "folds of the cells held out, masked" in " ".join(out.split())


def test_where_more_was_tried_than_is_shown_both_counts_are_told_and_the_choice_is_shown():
    trials = [Trial(Candidate("categorical", {"rank": r}), 2, {0: 0.9, 1: 0.8}) for r in range(1, 20)]
    trials.append(Trial(Candidate("als", {"rank": 20}), 2, {0: 0.9, 1: 0.8}))
    table, *_ = choosing._tables("data", "m.relatent", Tuned(trials, "auc_pr", "", 0, 1.0))
    assert str(table.title) == "20 settings tried on data, the best first (15 shown, all with --json)"
    assert table.row_count == 15
    last = [str(list(column.cells)[-1]) for column in table.columns]
    assert (last[0], last[-1]) == ("als, rank 20", "chosen")


def test_a_choice_that_gives_no_reasons_is_told_in_a_line_and_in_json(capsys, family, tmp_path):
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 1, "--model", "categorical")
    line = "categorical cannot explain predictions or fold in new entities; to do so use --model logit --model als"
    assert line in " ".join(run(capsys, *arguments)[1].split())
    assert json.loads(run(capsys, *arguments, "--json")[1])["caveat"] == line


def test_the_same_number_of_trials_gives_the_same_choice(capsys, family, tmp_path):
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 2, "--metric", "log_loss", "--json")
    first, second = (json.loads(run(capsys, *arguments)[1])["chosen"] for _ in range(2))
    for one in (first, second):
        del one["seconds"]
    assert first == second


def test_no_time_gives_the_defaults(capsys, family, tmp_path):
    code, out, _ = run(capsys, "tune", family, "-o", tmp_path / "m.relatent", "--time", 1e-6)
    assert code == 0
    assert "there was no time to try a single setting" in " ".join(out.split())
    assert "held out" not in out
    assert relatent.load(tmp_path / "m.relatent").about["model"] == "RescalLogit"


def test_a_file_judges_if_given(capsys, family, tmp_path):
    (tmp_path / "valid.tsv").write_text("Bob\tlikes\tAnn\n")
    arguments = ("tune", family, "-o", tmp_path / "m.relatent", "--trials", 1, "--json")
    _, out, _ = run(capsys, *arguments, "--validation", tmp_path / "valid.tsv")
    assert json.loads(out)["protocol"] == "measured on validation data"


def test_a_benchmark_is_judged_by_its_own_validation_split(monkeypatch):
    asked = []
    facts = open_facts("presidents")
    monkeypatch.setattr("relatent.cli.sources.open_facts", lambda name, **_: asked.append(name) or facts)
    assert choosing._validation("codex-s", None, facts) is not None
    assert choosing._validation("codex-s:train", None, facts) is not None
    assert choosing._validation("codex-s:all", None, facts) is None
    assert choosing._validation("presidents", None, facts) is None
    assert asked == ["codex-s:valid", "codex-s:valid"]


@pytest.mark.parametrize(("press", "judged"), [(3, 2), (1, 0)])
def test_ctrl_c_writes_the_best_so_far_and_ends_as_ctrl_c_does(capsys, tmp_path, monkeypatch, press, judged):
    fits, fit = [], relatent.RescalALS.fit

    def pressed(self, *arguments, **options):
        fits.append(None)
        if len(fits) == press:
            signal.raise_signal(signal.SIGINT)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(relatent.RescalALS, "fit", pressed)
    output = tmp_path / "m.relatent"
    code, out, err = run(capsys, "tune", "presidents", "-o", output, "--trials", 9, "--model", "als", "--json")
    assert code == 130
    assert "fitting the best so far" in err
    assert sum(trial["round"] > 0 for trial in json.loads(out)["trials"]) == judged
    assert relatent.load(output).about["model"] == "RescalALS"


def test_a_second_ctrl_c_keeps_the_steps_so_far(capsys, tmp_path, monkeypatch):
    from test_main import LbfgsSearch, press_in_step

    monkeypatch.setattr("relatent.evaluation.tuning.ROUNDS", ())  # no search: straight to the fit
    press_in_step(monkeypatch, 2, LbfgsSearch)
    code, _, err = run(capsys, "tune", "presidents", "-o", tmp_path / "m.relatent", "--trials", 1)
    assert code == 130
    assert "stopped before the end" in err
    assert relatent.load(tmp_path / "m.relatent").about["fit"]["steps"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--metric", "f1"), 2, "'f1' is not one of"),
        (("--time", 0), 2, "0.0 is not in the range"),
        (("--model", "softmax"), 1, "softmax gives no probabilities"),
        (("--validation", "nowhere.tsv"), 1, "neither a file nor a data set"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, family, tmp_path, arguments, code, told):
    got, _, err = run(capsys, "tune", family, "-o", tmp_path / "m.relatent", *arguments)
    assert got == code
    assert told in err
    assert not (tmp_path / "m.relatent").exists()

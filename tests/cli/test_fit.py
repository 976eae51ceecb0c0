"""`relatent fit`: results, messages and refusals."""

import json
import os
import re
import shutil

import numpy as np
import pytest

import relatent
from commands import run
from relatent.backend import memory
from relatent.errors import FitError
from relatent.fit.solvers.lbfgs import LbfgsSearch


def shown(out):
    """The text of a table, whose cells have several lines."""
    return " ".join(re.sub("[│┌┐]", " ", out).split())


@pytest.mark.parametrize("name", ["als", "logit", "rescal", "nonnegative", "irm", "mrc", "mln"])
def test_every_model_can_be_fitted_described_and_queried(capsys, family, tmp_path, name):
    path = tmp_path / "model.relatent"
    code, _, err = run(capsys, "fit", family, "-o", path, "--model", name)
    assert code == 0, err
    code, out, err = run(capsys, "info", path, "--json")
    assert code == 0, err
    assert json.loads(out)["about"]["model"] in relatent.__all__
    code, out, err = run(capsys, "predict", path, "--subject", "Ann", "--relation", "parent", "--json")
    assert code == 0, err
    assert all(0 <= answer["probability"] <= 1 for answer in json.loads(out)["predictions"])


def test_fit_summarises_the_fit_in_json(capsys, family, tmp_path):
    code, out, _ = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--model", "als", "--rank", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["data"] == {"facts": 5, "entities": 3, "relations": 2}
    assert found["settings"]["l2_entities"] == found["chosen"]["settings"]["l2_entities"] > 0
    assert "facts per entity" in found["chosen"]["reason"]
    assert found["converged"] is True


def test_a_fit_that_did_not_converge_warns_in_one_line_and_is_written(capsys, tmp_path):
    output = tmp_path / "k.relatent"
    code, _, err = run(capsys, "fit", "kinships", "-o", output, "--rank", 5, "--max-iter", 3)
    assert code == 0
    assert "warning: stopped at max_iter=3" in err
    assert output.exists()


def test_the_same_seed_gives_the_same_model(capsys, family, tmp_path):
    for name in ("a", "b"):
        run(capsys, "fit", family, "-o", tmp_path / f"{name}.relatent", "--rank", 2, "--init", "random", "--seed", 7)
    a, b = (relatent.load(tmp_path / f"{name}.relatent") for name in ("a", "b"))
    np.testing.assert_array_equal(a.A, b.A)
    np.testing.assert_array_equal(a.R, b.R)


def test_probabilities_are_calibrated_unless_told_not_to(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    for options, missing in (((), (0.1, True)), (("--missing", 0.2), (0.2, False)), (("--no-calibrate",), None)):
        code, out, err = run(capsys, "fit", family, "-o", path, "--rank", 2, *options, "--json")
        assert code == 0, err
        found, calibration = json.loads(out).get("calibration"), relatent.load(path).calibration
        if missing is None:
            assert found is calibration is None
            continue
        assert (found["missing"], found["missing_is_assumed"]) == missing
        assert (calibration.missing, calibration.is_assumed) == missing


def test_fit_states_what_the_probabilities_assume_once(capsys, family, tmp_path):
    arguments = ("fit", family, "-o", tmp_path / "m.relatent", "--rank", 2)
    out = shown(run(capsys, *arguments)[1])
    assert out.count("10 % of all true facts") == 1
    assert "it is assumed that 10 % of all true facts, about 1, are missing in it; if you know better" in out
    out = shown(run(capsys, *arguments, "--missing", 0.3)[1])
    assert "as --missing says, 30 % of all true facts, about 2, are missing in it" in out


def test_a_table_of_true_cells_only_can_be_fitted(capsys, tmp_path):
    data = tmp_path / "dense.tsv"
    data.write_text("".join(f"a{i}\tr\ta{j}\n" for i in range(5) for j in range(5)))
    code, out, err = run(capsys, "fit", data, "-o", tmp_path / "m.relatent")
    assert code == 0, err
    assert "the data lists every possible fact, so there is none to give a probability to" in shown(out)


def test_the_file_holds_the_facts_unless_told_not_to_and_fit_says_so(capsys, family, tmp_path):
    path = tmp_path / "m.relatent"
    arguments = ("fit", family, "-o", path, "--rank", 2, "--no-calibrate")
    out = shown(run(capsys, *arguments)[1])
    assert "facts in the model file: no later command needs the data, and who has the file can read them" in out
    assert set(relatent.load(path).facts.named()) == set(relatent.read(family).named())
    out = shown(run(capsys, *arguments, "--without-facts")[1])
    assert "facts not in the model file: later commands need them with --known" in out
    assert relatent.load(path).facts is None


@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_scores_that_are_no_probabilities_are_calibrated_unless_told_not_to(capsys, family, tmp_path, loss):
    path = tmp_path / "model.relatent"
    settings = ("--model", "rescal", "--loss", loss, "--l2-entities", 0.1, "--l2-relations", 0.1, "--max-iter", 5)
    assert run(capsys, "fit", family, "-o", path, *settings)[0] == 0
    assert relatent.load(path).has_probabilities
    assert relatent.load(path).calibration.is_assumed
    code, out, _ = run(capsys, "fit", family, "-o", path, *settings, "--no-calibrate")
    assert code == 0
    assert "are not probabilities; fit it with --calibrate" in shown(out)
    assert not relatent.load(path).has_probabilities
    code, _, err = run(capsys, "fit", family, "-o", path, *settings, "--no-calibrate", "--missing", 0.2)
    assert code == 2
    assert "--no-calibrate contradicts --missing" in err


def test_clauses_and_groups_are_printed(capsys, family, tmp_path):
    for name, title in (("mln", "Clauses"), ("irm", "Groups")):
        code, out, _ = run(capsys, "fit", family, "-o", tmp_path / f"{name}.relatent", "--model", name)
        assert code == 0
        assert title in out
        assert title in run(capsys, "info", tmp_path / f"{name}.relatent")[1]


def test_validation_facts_with_unknown_names_are_counted_in_a_warning(capsys, family, tmp_path):
    heldout = tmp_path / "heldout.tsv"
    heldout.write_text("Ann\tparent\tCid\nEve\tlikes\tAnn\n")
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--validation", heldout)
    assert code == 0
    assert "warning: 1 validation facts are left out: they have names that occur in no training fact" in err


def test_a_malformed_file_is_a_one_line_error_with_the_line_number(capsys, tmp_path):
    path, output = tmp_path / "broken.tsv", tmp_path / "broken.relatent"
    path.write_text("Ann\tlikes\tBob\nAnn\tlikes\n")
    code, out, err = run(capsys, "fit", path, "-o", output)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "broken.tsv:2" in err
    assert not output.exists()


def test_an_unknown_data_set_is_a_one_line_error(capsys, tmp_path):
    code, _, err = run(capsys, "fit", "no-such-data", "-o", tmp_path / "m.relatent")
    assert code == 1
    assert "neither a file nor a data set of the catalog (presidents, kinships" in err


def test_a_mistyped_name_gets_the_nearest_data_set_or_file(capsys, family, tmp_path, monkeypatch):
    monkeypatch.chdir(family.parent)
    for given, wanted in (("kinship", "kinships"), (family.name[:-1], family.name)):
        code, _, err = run(capsys, "fit", given, "-o", tmp_path / "m.relatent")
        assert code == 1
        assert f"; did you mean '{wanted}'?" in err


def test_a_model_is_no_data(capsys, tmp_path):
    (tmp_path / "m.relatent").write_bytes(b"anything")
    code, _, err = run(capsys, "fit", tmp_path / "m.relatent", "-o", tmp_path / "n.relatent")
    assert code == 1
    assert err.endswith("m.relatent: a relatent model, expected facts; give the data that it was fitted to\n")


def test_a_rank_above_the_number_of_entities_is_refused(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 4)
    assert code == 1
    assert "rank must not exceed the 3 entities, got 4" in err


def test_a_file_that_is_not_a_model_is_not_overwritten(capsys, family):
    other = family.with_name("other.tsv")
    other.write_text("no model")
    code, _, err = run(capsys, "fit", family, "-o", other)
    assert code == 1
    assert "exists and is not a model; give another name" in err
    assert other.read_text() == "no model"


def test_a_missing_output_folder_is_refused_before_the_fit(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "none" / "m.relatent")
    assert code == 1
    assert "does not exist; create it first" in err


def test_the_checkpoint_must_not_be_the_output_file(capsys, family, tmp_path):
    both = tmp_path / "m.relatent"
    code, _, err = run(capsys, "fit", family, "-o", both, "--rank", 2, "--checkpoint", both)
    assert code == 2
    assert "--output and --checkpoint must be different files" in err


def test_checkpoint_steps_need_a_checkpoint(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--checkpoint-steps", 5)
    assert code == 2
    assert "--checkpoint-steps needs --checkpoint FILE" in err


def test_the_checkpoint_is_removed_after_the_model_is_written(capsys, family, tmp_path):
    state = tmp_path / "state"
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--checkpoint", state)
    assert code == 0, err
    assert not state.exists()


def test_a_failed_fit_writes_no_file(capsys, family, tmp_path, monkeypatch):
    def diverge(*_):
        raise FitError("the objective became nan at step 1; raise the penalties")

    monkeypatch.setattr(LbfgsSearch, "step", diverge)
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2)
    assert (code, err) == (1, "error: the objective became nan at step 1; raise the penalties\n")
    assert os.listdir(tmp_path) == ["family.tsv"]


def test_a_fit_that_needs_too_much_memory_is_refused_in_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    code, _, err = run(capsys, "fit", "kinships", "-o", tmp_path / "m.relatent", "--rank", 50)
    assert code == 1
    assert err.startswith("error: RescalLogit of rank 50 on 104 entities needs about ")
    assert err.endswith("are free: lower the rank\n")


def test_a_large_fit_reports_the_memory_it_needs(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setattr("relatent.cli.fit.REPORTED_MEMORY_BYTES", 0)
    monkeypatch.setattr(memory, "available", lambda: 24 * 10**9)
    for more in ((), ("--no-calibrate",)):
        code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, *more)
        assert code == 0
        assert err.splitlines()[0].startswith("needs about ")
        assert err.splitlines()[0].endswith(" MB of memory, 24 GB are free")


def test_a_model_too_large_for_the_disk_is_refused_before_the_fit(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (10**9, 10**9, 50))
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2)
    assert code == 1
    assert err.startswith("error: the model m.relatent needs about ")
    assert err.endswith("are free: free some space first\n")


def test_fit_says_which_settings_were_chosen_and_why(tmp_path, capsys):
    arguments = ("fit", "presidents", "-o", tmp_path / "m.relatent", "--max-iter", 2)
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["chosen"]["settings"]["structure"] == found["settings"]["structure"] == "complex"
    assert "max_iter" not in found["chosen"]["settings"]
    code, out, _ = run(capsys, *arguments)
    assert "the data is sparse: 209 facts" in shown(out)


def test_torchrun_without_distributed_is_wrong_usage(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent")
    assert code == 2
    assert "add --distributed" in err

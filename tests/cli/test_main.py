"""The command line: what it prints, what it writes, how it fails."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import relatent
from commands import run
from relatent.backend import memory as room
from relatent.cli.main import cli, main
from relatent.errors import FitError
from relatent.fit.solvers.lbfgs import LbfgsSearch

FAMILY = "Ann\tparent\tBob\nBob\tparent\tCid\nAnn\tlikes\tCid\nCid\tlikes\tAnn\nBob\tlikes\tAnn\n"


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "family.tsv"
    path.write_text(FAMILY)
    return path


@pytest.fixture
def model(tmp_path, family, capsys):
    path = tmp_path / "family.relatent"
    code, _, err = run(capsys, "fit", family, "-o", path, "--rank", 3, "--l2-entities", 0.05, "--l2-relations", 0.05)
    assert code == 0, err
    return path


def test_help_answers_well_under_half_a_second():
    def once():
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "relatent.cli.main", "--help"], check=True, capture_output=True)
        return time.perf_counter() - started

    assert min(once() for _ in range(5)) < 0.5


def test_help_does_not_import_the_heavy_libraries():
    heavy = ("numpy", "scipy", "sklearn", "numba", "pyarrow")
    code = f"import sys, relatent.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_every_command_has_help_with_an_example_or_lists(capsys):
    for name in cli.commands:
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert "--json" in out
        assert "Example:" in out or name == "datasets"


def test_the_documentation_of_the_commands_is_what_they_say():
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, root / "tools" / "build_cli_docs.py", "--print"], check=True, capture_output=True, text=True
    ).stdout
    assert (root / "docs" / "cli.md").read_text() == made


def test_a_fit_predicts_what_it_was_taught(capsys, model, family):
    code, out, _ = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent", "--top", 1, "--json")
    assert code == 0
    [found] = json.loads(out)["predictions"]
    assert (found["subject"], found["relation"], found["object"]) == ("Ann", "parent", "Bob")
    assert set(found) == {"subject", "relation", "object", "score", "probability"}
    assert found["probability"] > 0.5


def test_known_facts_are_left_out(capsys, model, family):
    code, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "--known", family, "--json")
    assert code == 0
    assert "Bob" not in [found["object"] for found in json.loads(out)["predictions"]]


def test_each_place_may_be_asked_for(capsys, model):
    for left_out in ("subject", "relation", "object"):
        given = {"subject": "Ann", "relation": "parent", "object": "Bob"}
        truth = given.pop(left_out)
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        _, out, _ = run(capsys, "predict", model, *options, "--json", "--top", 1)
        assert json.loads(out)["predictions"][0][left_out] == truth


def test_all_three_places_give_the_probability_of_one_fact(capsys, model):
    _, out, _ = run(capsys, "predict", model, "-s", "Ann", "-r", "parent", "-t", "Bob", "--json")
    [found] = json.loads(out)["predictions"]
    expected = relatent.load(model).probability("Ann", "parent", "Bob")
    assert found["probability"] == pytest.approx(float(expected))


def test_one_given_place_is_wrong_usage(capsys, model):
    code, out, err = run(capsys, "predict", model, "--subject", "Ann")
    assert (code, out) == (2, "")
    assert "give two of --subject, --relation and --object" in err


def test_an_unknown_name_is_one_line_with_a_suggestion(capsys, model):
    code, out, err = run(capsys, "predict", model, "--subject", "Anne", "--relation", "parent")
    assert (code, out) == (1, "")
    assert err == "error: unknown entity 'Anne'; did you mean 'Ann'?\n"


def test_a_broken_file_is_one_line_that_names_the_line_and_nothing_is_written(capsys, tmp_path):
    path, output = tmp_path / "broken.tsv", tmp_path / "broken.relatent"
    path.write_text("Ann\tlikes\tBob\nAnn\tlikes\n")
    code, out, err = run(capsys, "fit", path, "-o", output)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "broken.tsv:2" in err
    assert not output.exists()


def test_neither_file_nor_data_set_is_one_line(capsys, tmp_path):
    code, _, err = run(capsys, "fit", "no-such-data", "-o", tmp_path / "m.relatent")
    assert code == 1
    assert "neither a file nor a data set of the catalog (presidents, kinships" in err


def test_a_rank_above_the_number_of_entities_is_refused(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 4)
    assert code == 1
    assert "rank must not exceed the 3 entities, got 4" in err


def test_a_model_does_not_replace_a_file_that_is_no_model(capsys, family):
    code, _, err = run(capsys, "fit", family, "-o", family)
    assert code == 1
    assert "is not a model: it is left alone" in err
    assert family.read_text() == FAMILY


def test_a_missing_folder_is_told_before_the_fit(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "none" / "m.relatent")
    assert code == 1
    assert "does not exist; create it first" in err


def test_a_setting_of_the_other_model_is_wrong_usage(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--model", "als", "--no-bias")
    assert code == 2
    assert "--bias does not apply to --model als" in err


def test_fit_says_what_it_did_in_json(capsys, family, tmp_path):
    code, out, _ = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--model", "als", "--rank", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["data"] == {"facts": 5, "entities": 3, "relations": 2}
    assert found["settings"]["l2_entities"] == 10.0
    assert found["converged"] is True


def test_an_unfinished_fit_warns_in_one_line_and_is_kept(capsys, tmp_path):
    output = tmp_path / "k.relatent"
    code, _, err = run(capsys, "fit", "kinships", "-o", output, "--rank", 5, "--max-iter", 3)
    assert code == 0
    assert "warning: stopped at max_iter=3" in err
    assert output.exists()


def test_the_same_seed_gives_the_same_file(capsys, family, tmp_path):
    for name in ("a", "b"):
        run(capsys, "fit", family, "-o", tmp_path / f"{name}.relatent", "--rank", 2, "--init", "random", "--seed", 7)
    a, b = (relatent.load(tmp_path / f"{name}.relatent") for name in ("a", "b"))
    np.testing.assert_array_equal(a.A, b.A)
    np.testing.assert_array_equal(a.R, b.R)


def test_info_tells_of_data_and_models(capsys, family, model):
    _, out, _ = run(capsys, "info", family, "--json")
    assert json.loads(out)["facts_of_relation"] == {"likes": 3, "parent": 2}
    code, out, _ = run(capsys, "info", model, "--verify", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["kind"], found["rank"], found["verified"]) == ("model", 3, True)
    assert "not checked (--verify" in run(capsys, "info", model)[1]
    assert "not checked" not in run(capsys, "info", model, "--verify")[1]
    code, out, _ = run(capsys, "info", model)
    assert "RescalLogit" in out


def test_a_tampered_model_is_refused(capsys, model):
    content = bytearray(model.read_bytes())
    content[-3] ^= 1
    model.write_bytes(content)
    for arguments in (("info", model, "--verify"), ("predict", model, "-s", "Ann", "-r", "parent")):
        code, _, err = run(capsys, *arguments)
        assert code == 1
        assert err.count("\n") == 1
        assert "checksum does not match" in err


def test_cross_validate_reports_folds_relations_baselines_and_protocol(capsys, family):
    arguments = ("--rank", 2, "--folds", 3, "--heldout", "zero", "--search", "l2=0.1,1", "--json")
    code, out, err = run(capsys, "cross-validate", family, *arguments)
    assert code == 0, err
    found = json.loads(out)
    assert len(found["folds"]) == 3
    assert set(found["per_relation"]) == {"likes", "parent"}
    assert "base rate" in found["baselines"]
    assert "held-out cells set to zero" in found["protocol"]
    assert "best of 2 settings by auc_pr" in found["protocol"]
    assert {fold["settings"]["l2_relations"] for fold in found["folds"]} <= {0.1, 1}


def test_cross_validate_shows_a_table(capsys, family):
    code, out, _ = run(capsys, "cross-validate", family, "--rank", 2, "--folds", 2, "--model", "als")
    assert code == 0
    assert "average precision" in out
    assert "2 folds, held-out cells masked, raw scores, seed 0" in out


def test_evaluate_ranks_by_name(capsys, model, family, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("Ann\tparent\tCid\nEve\tlikes\tAnn\n")
    code, out, _ = run(capsys, "evaluate", model, test, "--known", family, "--json")
    found = json.loads(out)
    assert code == 0
    assert 0 < found["mrr"] <= 1
    assert set(found["hits"]) == {"1", "3", "10"}
    assert found["n_unseen"] == 1


def test_export_writes_vectors_that_other_programs_read(capsys, model, tmp_path):
    import pyarrow.parquet as pq

    code, out, _ = run(capsys, "export", model, tmp_path / "out", "--json")
    assert code == 0
    assert len(json.loads(out)["files"]) == 5
    factors = relatent.load(model)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "A.npy"), factors.A)
    entities = pq.read_table(tmp_path / "out" / "entities.parquet")
    assert entities["name"].to_pylist() == list(factors.entities)
    np.testing.assert_array_equal(np.array(entities["vector"].to_pylist(), np.float32), factors.A)
    relations = pq.read_table(tmp_path / "out" / "relations.parquet")
    np.testing.assert_array_equal(
        np.array(relations["matrix"].to_pylist(), np.float32).reshape(factors.R.shape), factors.R
    )
    assert sorted(os.listdir(tmp_path / "out")) == [
        "A.npy",
        "R.npy",
        "bias.npy",
        "entities.parquet",
        "relations.parquet",
    ]


def test_table1_has_the_promised_fields(capsys):
    code, out, _ = run(capsys, "table1", "--dataset", "presidents", "--model", "vote", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 2
    promised = {
        "dataset",
        "model",
        "heldout",
        "scores",
        "auc_pr",
        "auc_pr_std",
        "average_precision",
        "folds",
        "paper",
        "seconds",
    }
    assert promised <= set(rows[0])


def test_table1_refuses_names_it_does_not_have(capsys):
    code, _, err = run(capsys, "table1", "--dataset", "bacteriome")
    assert code == 1
    assert "table1 has no dataset 'bacteriome'; it has kinships, nations, presidents, ecoli-ppi" in err


def test_datasets_lists_the_catalog(capsys):
    _, out, _ = run(capsys, "datasets", "--json")
    assert {"presidents", "kinships", "nations", "fb15k-237", "wn18rr", "codex-s"} <= {
        entry["name"] for entry in json.loads(out)["datasets"]
    }


def test_wrong_usage_exits_with_2(capsys):
    for arguments in (
        ("fit",),
        ("nothing",),
        ("predict", "x", "--top", "0"),
        ("cross-validate", "kinships", "--folds", "1"),
    ):
        assert run(capsys, *arguments)[0] == 2


def test_a_validation_file_stops_a_fit_and_strangers_in_it_are_counted(capsys, family, tmp_path):
    held = tmp_path / "held.tsv"
    held.write_text("Ann\tparent\tCid\nEve\tlikes\tAnn\n")
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--validation", held)
    assert code == 0
    assert "warning: 1 validation facts have names that no training fact has: left out" in err


def test_a_checkpoint_in_the_place_of_the_model_is_wrong_usage(capsys, family, tmp_path):
    both = tmp_path / "m.relatent"
    code, _, err = run(capsys, "fit", family, "-o", both, "--rank", 2, "--checkpoint", both)
    assert code == 2
    assert "--checkpoint and --output must be different files" in err


def test_names_that_look_like_markup_are_shown_as_they_are(capsys, tmp_path):
    data, model = tmp_path / "iron.tsv", tmp_path / "iron.relatent"
    data.write_text("[Fe]\tbinds\t[/x]\n[/x]\tbinds\t[red]c\n[red]c\tbinds\t[Fe]\n")
    run(capsys, "fit", data, "-o", model, "--l2-entities", 0.01, "--l2-relations", 0.01)
    code, out, err = run(capsys, "predict", model, "-s", "[Fe]", "-r", "binds")
    assert code == 0, err
    assert all(name in out for name in ("[Fe]", "[/x]", "[red]c"))


def test_an_unknown_setting_to_search_is_one_line(capsys, family):
    code, _, err = run(capsys, "cross-validate", family, "--folds", 3, "--search", "bogus=1,2")
    assert code == 1
    assert err.startswith("error: search: RescalLogit has no setting 'bogus'; it has ")


def test_a_checkpoint_is_gone_once_the_model_is_written(capsys, family, tmp_path):
    kept = tmp_path / "state"
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--checkpoint", kept)
    assert code == 0, err
    assert not kept.exists()


# --- every model


@pytest.mark.parametrize("name", ["als", "logit", "rescal", "nonnegative", "irm", "mrc", "mln"])
def test_every_model_is_fitted_described_and_asked_the_same_way(capsys, family, tmp_path, name):
    path = tmp_path / "model.relatent"
    code, _, err = run(capsys, "fit", family, "-o", path, "--model", name)
    assert code == 0, err
    code, out, err = run(capsys, "info", path, "--json")
    assert code == 0, err
    assert json.loads(out)["about"]["model"] in relatent.__all__
    code, out, err = run(capsys, "predict", path, "--subject", "Ann", "--relation", "parent", "--json")
    assert code == 0, err
    assert all(0 <= one["probability"] <= 1 for one in json.loads(out)["predictions"])


def test_any_setting_of_a_model_can_be_set(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    code, out, err = run(capsys, "fit", family, "-o", path, "--model", "irm", "--set", "n-samples=7", "--json")
    assert code == 0, err
    assert json.loads(out)["settings"]["n_samples"] == 7


@pytest.mark.parametrize(
    ("option", "message"),
    [("colour=red", "--model irm has no setting 'colour'; it has "), ("n_samples", "--set takes NAME=VALUE, got ")],
)
def test_a_setting_that_is_not_there_is_wrong_usage(capsys, family, tmp_path, option, message):
    arguments = ("fit", family, "-o", tmp_path / "m.relatent", "--model", "irm", "--set", option)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err


def test_a_loss_can_be_chosen(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    code, out, _ = run(capsys, "fit", family, "-o", path, "--model", "rescal", "--loss", "categorical", "--json")
    assert code == 0
    assert json.loads(out)["settings"]["loss"] == "categorical"
    assert relatent.load(path).exclusive


def test_clauses_and_groups_are_shown(capsys, family, tmp_path):
    for name, title in (("mln", "Clauses"), ("irm", "Groups")):
        code, out, _ = run(capsys, "fit", family, "-o", tmp_path / f"{name}.relatent", "--model", name)
        assert code == 0
        assert title in out
        assert title in run(capsys, "info", tmp_path / f"{name}.relatent")[1]


def test_probabilities_are_calibrated_on_request(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    code, out, err = run(capsys, "fit", family, "-o", path, "--rank", 2, "--calibrate", "platt", "--json")
    assert code == 0, err
    assert json.loads(out)["calibration"]["method"] == "platt"
    assert relatent.load(path).link.name == "platt"


def test_cross_validation_draws_its_reliability_and_searches_through_the_calibration(capsys, tmp_path):
    picture = tmp_path / "reliability.svg"
    arguments = ("--folds", 3, "--rank", 2, "--calibrate", "platt", "--search", "l2=0.1,1", "--reliability", picture)
    code, out, err = run(capsys, "cross-validate", "presidents", *arguments, "--json")
    assert code == 0, err
    assert picture.read_text().lstrip().startswith("<?xml")
    found = json.loads(out)
    assert {"ece", "reliability"} <= set(found)
    assert set(found["folds"][0]["settings"]) == {"estimator__l2_entities", "estimator__l2_relations"}


def test_a_picture_that_cannot_be_written_is_told_before_the_work(capsys, family, tmp_path):
    code, _, err = run(capsys, "cross-validate", family, "--reliability", tmp_path / "picture.doc")
    assert code == 1
    assert "the file name of a figure must end in .png or .svg" in err


def test_a_setting_given_twice_is_wrong_usage(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--set", "rank=3")
    assert code == 2
    assert "rank is given twice" in err


def test_a_table_without_rows_is_refused(capsys):
    code, _, err = run(capsys, "table1", "--dataset", "presidents", "--model", "irm")
    assert code == 1
    assert "table1 has no row of irm on presidents; it has als, logit, vote" in err


# --- runs that are stopped, and room


LONG = ("fit", "kinships", "--rank", 5, "--tol", 0, "--max-iter", 300)


def press_in_step(monkeypatch, number, solver):
    """Ctrl-C in one of the steps of a solver."""
    steps, step = [], solver.step

    def pressed(self, state):
        steps.append(None)
        if len(steps) == number:
            signal.raise_signal(signal.SIGINT)
        return step(self, state)

    monkeypatch.setattr(solver, "step", pressed)


def test_ctrl_c_leaves_a_usable_model_and_the_same_command_goes_on(capsys, tmp_path, monkeypatch):
    output, state, whole = (tmp_path / name for name in ("m.relatent", "m.state", "whole.relatent"))
    arguments = ("fit", "kinships", "--rank", 5)
    assert run(capsys, *arguments, "-o", whole)[0] == 0
    with monkeypatch.context() as patch:
        press_in_step(patch, 4, LbfgsSearch)
        code, out, err = run(capsys, *arguments, "-o", output, "--checkpoint", state)
    assert (code, out) == (130, "")
    assert err.splitlines()[1:] == [
        f"stopped after 4 steps, the model so far is in {output}; the same command goes on from {state}"
    ]
    model = relatent.load(output)
    assert model.about["fit"]["verdict"].startswith("stopped by you after 4 steps")
    assert np.isfinite(model.score("person0", "term4", "person1"))
    assert run(capsys, *arguments, "-o", output, "--checkpoint", state)[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["m.relatent", "whole.relatent"]
    np.testing.assert_array_equal(relatent.load(output).A, relatent.load(whole).A)


def test_ctrl_c_without_a_checkpoint_says_how_to_be_able_to_go_on(capsys, tmp_path, monkeypatch):
    press_in_step(monkeypatch, 2, LbfgsSearch)
    code, _, err = run(capsys, *LONG, "-o", tmp_path / "m.relatent")
    assert code == 130
    assert "give --checkpoint next time to be able to go on" in err
    assert (tmp_path / "m.relatent").exists()


def test_ctrl_c_before_the_first_step_writes_nothing(capsys, tmp_path, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LbfgsSearch, "start", pressed)
    code, out, err = run(capsys, *LONG, "-o", tmp_path / "m.relatent", "--checkpoint", tmp_path / "state")
    assert (code, out, err.split("\n")[0]) == (130, "", "there is no model to keep yet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["irm", "mrc", "mln"])
def test_where_half_the_work_is_no_model_ctrl_c_writes_none(capsys, tmp_path, monkeypatch, model):
    from relatent.baselines.irm import Gibbs
    from relatent.baselines.mln import Search
    from relatent.baselines.mrc import Stagewise

    press_in_step(monkeypatch, 1, {"irm": Gibbs, "mrc": Stagewise, "mln": Search}[model])
    arguments = ("fit", "presidents", "--model", model, "--checkpoint", tmp_path / "state")
    code, out, err = run(capsys, *arguments, "-o", tmp_path / "m.relatent")
    assert (code, out) == (130, "")
    assert err.endswith("stopped\n")
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("cross-validate", "presidents", "--rank", 3, "--folds", 3, "--jobs", 1),
        ("fit", "presidents", "--rank", 3, "--calibrate", "platt", "-o", "m.relatent"),
        ("table1", "--dataset", "presidents", "--model", "logit", "--jobs", 1),
    ],
    ids=lambda arguments: arguments[0],
)
def test_ctrl_c_in_one_of_many_fits_ends_them_all(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    press_in_step(monkeypatch, 3, LbfgsSearch)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (130, "")
    assert err.endswith("stopped\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_real_run_that_is_stopped_or_killed_leaves_whole_files_and_goes_on(capsys, tmp_path, kill):
    output, state = tmp_path / "m.relatent", tmp_path / "state"
    arguments = [*LONG, "-o", output, "--checkpoint", state, "--checkpoint-steps", 1]
    process = subprocess.Popen(
        [sys.executable, "-m", "relatent.cli.main", *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(kill)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if kill == signal.SIGINT else -kill), err
    if kill == signal.SIGINT:
        assert relatent.load(output).rank == 5
        assert sorted(os.listdir(tmp_path)) == ["m.relatent", "state"]
        return
    assert not output.exists()
    code, out, err = run(capsys, *arguments[:-2], "--json")
    assert code == 0, err
    assert json.loads(out)["steps"] >= 20
    # Killed in the middle of a write, a process leaves what it had of it under a hidden name.
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["m.relatent"]


def test_a_failed_fit_leaves_no_file(capsys, family, tmp_path, monkeypatch):
    def broken(*_):
        raise FitError("the objective became nan at step 1; raise the penalties")

    monkeypatch.setattr(LbfgsSearch, "step", broken)
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2)
    assert (code, err) == (1, "error: the objective became nan at step 1; raise the penalties\n")
    assert os.listdir(tmp_path) == ["family.tsv"]


def test_steps_of_a_checkpoint_need_a_checkpoint(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--checkpoint-steps", 5)
    assert code == 2
    assert "--checkpoint-steps needs --checkpoint FILE" in err


def test_a_fit_without_enough_memory_is_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MIN_CHECKED_BYTES", 0)
    monkeypatch.setattr(room, "available", lambda: 1000)
    code, _, err = run(capsys, "fit", "kinships", "-o", tmp_path / "m.relatent", "--rank", 50)
    assert code == 1
    assert err.startswith("error: RescalLogit of rank 50 on 104 entities needs about ")
    assert err.endswith("are free: lower the rank\n")


def test_a_large_fit_says_what_it_needs(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setattr("relatent.cli.fit.TELL", 0)
    monkeypatch.setattr(room, "available", lambda: 24 * 10**9)
    for more in ((), ("--calibrate", "platt")):
        code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, *more)
        assert code == 0
        assert err.splitlines()[0].startswith("needs about ")
        assert err.splitlines()[0].endswith(" MB of memory, 24 GB are free")


def test_a_model_the_disk_has_no_room_for_is_refused_before_the_fit(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (10**9, 10**9, 50))
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2)
    assert code == 1
    assert err.startswith("error: the model m.relatent needs about ")
    assert err.endswith("are free: free some space first\n")


def test_where_zeros_are_sampled_fit_says_so(tmp_path, monkeypatch, capsys):
    from relatent.fit.estimators import rescal as estimators

    monkeypatch.setattr(estimators, "EXACT_FLOP", 1.0)
    arguments = [
        "fit",
        "kinships",
        "-o",
        str(tmp_path / "m.relatent"),
        "--model",
        "logit",
        "--rank",
        "2",
        "--max-iter",
        "2",
    ]
    with contextlib.suppress(SystemExit):
        main([*arguments, "--json"])
    told = capsys.readouterr()
    assert json.loads(told.out)["method"] == "sampled"
    assert "zeros are sampled: there are 2.8e+05 cells" in told.err


def test_a_preset_gives_the_settings_and_options_change_them(capsys, tmp_path):
    changes = ("--device", "cpu", "--rank", 5, "--max-iter", 2)
    arguments = ("fit", "kinships", "-o", tmp_path / "k.relatent", "--preset", "wn18rr-softmax", *changes, "--json")
    code, out, _ = run(capsys, *arguments)
    settings = json.loads(out)["settings"]
    assert code == 0
    assert settings["loss"] == "Softmax(relations=0.0, hubs=0.9)"
    assert settings["penalty"] == "Dura(weight=0.2)"
    assert (settings["rank"], settings["max_iter"], settings["init"]) == (5, 2, "small")


def test_an_unknown_preset_is_told_with_those_there_are(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", "--preset", "best")
    assert code == 1
    assert "preset must be one of fb15k-237-softmax, " in err
    assert err.rstrip().endswith("got 'best'")


def test_penalty_and_optimiser_are_given_by_name_and_number(capsys, family, tmp_path):
    chosen = ("--penalty", "n3=0.01", "--optimiser", "adam=0.05", "--max-iter", 2)
    code, out, _ = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *chosen, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["settings"]["penalty"] == "N3(weight=0.01)"
    assert found["settings"]["optimiser"].startswith("Adam(lr=0.05")
    assert found["method"] == "exact"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--penalty", "l7=1"), "must be one of dura, n3, got 'l7'"),
        (("--penalty", "dura=much"), "dura takes a number, got 'much'"),
        (("--optimiser", "newton"), "must be one of adam, lbfgs, got 'newton'"),
    ],
)
def test_a_penalty_or_optimiser_that_is_none_is_wrong_usage(capsys, family, tmp_path, option, told):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *option)
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--preset", "codex-s-softmax", "--model", "als"), "--preset chooses the model itself; leave --model out"),
        (("--penalty", "dura=0.1", "--l2-entities", "3"), "--penalty takes the place of --l2-entities"),
        (("--optimiser", "lbfgs=3"), "lbfgs takes no number, got '3'"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(capsys, family, tmp_path, options, told):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *options)
    assert code == 2
    assert told in " ".join(err.split())


def test_processes_that_do_not_know_of_each_other_are_refused(capsys, family, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent")
    assert code == 2
    assert "add --distributed" in err


def test_scores_of_a_softmax_model_are_not_passed_off_as_probabilities(capsys, family, tmp_path):
    model = tmp_path / "s.relatent"
    settings = ("--model", "rescal", "--loss", "softmax", "--l2-entities", 0.1, "--l2-relations", 0.1)
    assert run(capsys, "fit", family, "-o", model, *settings)[0] == 0
    code, _, err = run(capsys, "predict", model, "--subject", "Ann", "--relation", "parent")
    assert code == 0
    assert "they are no probabilities unless it is fitted with --calibrate" in err

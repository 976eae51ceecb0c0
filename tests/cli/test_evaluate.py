"""Commands that measure models: cross-validate, evaluate, table1."""

import json

from commands import run


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


def test_cross_validate_prints_a_table(capsys, family):
    code, out, _ = run(capsys, "cross-validate", family, "--rank", 2, "--folds", 2, "--model", "als")
    assert code == 0
    assert "average precision" in out
    assert "2 folds, held-out cells masked, raw scores, seed 0" in out


def test_an_unknown_setting_in_a_search_is_a_one_line_error(capsys, family):
    code, _, err = run(capsys, "cross-validate", family, "--folds", 3, "--search", "bogus=1,2")
    assert code == 1
    assert err.startswith("error: search: RescalLogit has no setting 'bogus'; it has ")


def test_cross_validate_draws_the_reliability_diagram_and_searches_settings_of_a_calibrated_model(capsys, tmp_path):
    figure = tmp_path / "reliability.svg"
    arguments = ("--folds", 3, "--rank", 2, "--calibrate", "platt", "--search", "l2=0.1,1", "--reliability", figure)
    code, out, err = run(capsys, "cross-validate", "presidents", *arguments, "--json")
    assert code == 0, err
    assert figure.read_text().lstrip().startswith("<?xml")
    found = json.loads(out)
    assert {"ece", "reliability"} <= set(found)
    assert set(found["folds"][0]["settings"]) == {"estimator__l2_entities", "estimator__l2_relations"}


def test_a_figure_path_that_cannot_be_written_is_refused_before_the_fits(capsys, family, tmp_path):
    code, _, err = run(capsys, "cross-validate", family, "--reliability", tmp_path / "figure.doc")
    assert code == 1
    assert "the file name of a figure must end in .png or .svg" in err


def test_evaluate_matches_entities_by_name(capsys, model, family, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("Ann\tparent\tCid\nEve\tlikes\tAnn\n")
    code, out, _ = run(capsys, "evaluate", model, test, "--known", family, "--json")
    found = json.loads(out)
    assert code == 0
    assert 0 < found["mrr"] <= 1
    assert set(found["hits"]) == {"1", "3", "10"}
    assert found["n_unseen"] == 1


def test_evaluate_prints_the_baseline_and_rows_per_relation(capsys, model, family, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("Ann\tparent\tCid\nBob\tlikes\tCid\nCid\tlikes\tBob\n")
    code, out, err = run(capsys, "evaluate", model, test, "--known", family)
    assert code == 0
    assert "warning" not in err
    assert "both, frequency baseline" in out
    assert out.index("│ likes    │     2 │") < out.index("│ parent   │     1 │")
    assert "may be training facts" not in out
    found = json.loads(run(capsys, "evaluate", model, test, "--known", family, "--json")[1])
    assert list(found["by_relation"]) == ["likes", "parent"]
    assert 0 < found["baseline"]["by_relation"]["likes"]["mrr"] <= 1
    assert found["n_trained_on"] == 0
    assert found["n_known"] == 5


def test_evaluate_warns_of_training_facts_and_of_a_ranking_that_is_not_filtered(capsys, model, family):
    code, out, err = run(capsys, "evaluate", model, family)
    assert code == 0
    assert err.splitlines() == [
        "warning: the model was fitted to 5 of the 5 test facts; evaluate it on other facts",
        "warning: nothing but the test facts is filtered: other true facts count as errors; name them with --known",
    ]
    assert "no frequency baseline" in out
    found = json.loads(run(capsys, "evaluate", model, family, "--json")[1])
    assert (found["n_trained_on"], found["n_known"], found["baseline"]) == (5, 0, None)


def test_evaluate_says_if_it_cannot_tell_what_was_trained_on(capsys, model, family, tmp_path):
    (tmp_path / "some.tsv").write_text("Ann\tlikes\tCid\n")
    (tmp_path / "test.tsv").write_text("Ann\tlikes\tBob\n")
    _, out, _ = run(capsys, "evaluate", model, tmp_path / "test.tsv", "--known", tmp_path / "some.tsv")
    assert "some test facts may be training facts" in " ".join(out.split())


def test_table1_has_the_documented_fields(capsys):
    code, out, _ = run(capsys, "table1", "--dataset", "presidents", "--model", "vote", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert len(rows) == 2
    documented = {
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
    assert documented <= set(rows[0])


def test_table1_refuses_unknown_data_sets(capsys):
    code, _, err = run(capsys, "table1", "--dataset", "bacteriome")
    assert code == 1
    assert "table1 has no dataset 'bacteriome'; it has kinships, nations, presidents, ecoli-ppi" in err


def test_table1_refuses_combinations_without_rows(capsys):
    code, _, err = run(capsys, "table1", "--dataset", "presidents", "--model", "irm")
    assert code == 1
    assert "table1 has no row of irm on presidents; it has als, logit, vote" in err

"""Commands that measure models: cross-validate, evaluate, table1."""

import json
from pathlib import Path

import numpy as np
import pytest

from commands import run
from relatent import Factors, Facts, load_splits, read
from relatent.cli.data_argument import validation_sources

MIRROR = Path(__file__).resolve().parents[3] / "shared" / "mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs the downloaded data sets in ../shared/mirror")


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


def test_cross_validate_draws_the_reliability_diagram_and_searches_settings_of_calibrated_fits(capsys, tmp_path):
    figure = tmp_path / "reliability.svg"
    arguments = ("--folds", 3, "--rank", 2, "--tol", 0.01, "--probabilities")
    arguments += ("--search", "l2=0.1,1", "--reliability", figure)
    code, out, err = run(capsys, "cross-validate", "presidents", *arguments, "--json")
    assert code == 0, err
    assert figure.read_text().lstrip().startswith("<?xml")
    found = json.loads(out)
    assert {"ece", "reliability"} <= set(found)
    assert set(found["folds"][0]["settings"]) == {"l2_entities", "l2_relations"}


def test_a_figure_path_that_cannot_be_written_is_refused_before_the_fits(capsys, family, tmp_path):
    code, _, err = run(capsys, "cross-validate", family, "--reliability", tmp_path / "figure.doc")
    assert code == 1
    assert "the file name of a figure must end in .png or .svg" in err


def test_evaluate_matches_entities_by_name(capsys, model, family, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("Ann\tparent\tCid\nEve\tlikes\tAnn\n")
    code, out, _ = run(capsys, "evaluate", model, test, "--json")
    found = json.loads(out)
    assert code == 0
    assert 0 < found["mrr"] <= 1
    assert set(found["hits"]) == {"1", "3", "10"}
    assert found["n_unseen"] == 1


def test_evaluate_prints_the_baseline_and_rows_per_relation(capsys, model, family, tmp_path):
    test = tmp_path / "test.tsv"
    test.write_text("Ann\tparent\tCid\nBob\tlikes\tCid\nCid\tlikes\tBob\n")
    code, out, err = run(capsys, "evaluate", model, test)
    assert (code, err) == (0, "note: filtered by 5 known facts of the model\n")
    assert "both, frequency baseline" in out
    assert out.index("│ likes    │     2 │") < out.index("│ parent   │     1 │")
    assert "may be training facts" not in out
    found = json.loads(run(capsys, "evaluate", model, test, "--json")[1])
    assert list(found["by_relation"]) == ["likes", "parent"]
    assert 0 < found["baseline"]["by_relation"]["likes"]["mrr"] <= 1
    assert found["n_trained_on"] == 0
    assert found["n_known"] == 5


def test_evaluate_warns_of_training_facts(capsys, model, family):
    code, out, err = run(capsys, "evaluate", model, family)
    assert code == 0
    assert err.splitlines() == [
        "warning: the model was fitted to 5 of the 5 test facts; evaluate it on other facts",
        "note: filtered by the test facts only: the model has no others",
    ]
    assert "no frequency baseline: it counts answers in known facts beside the test facts" in " ".join(out.split())
    found = json.loads(run(capsys, "evaluate", model, family, "--json")[1])
    assert (found["n_trained_on"], found["n_known"], found["baseline"]) == (5, 0, None)


def test_known_facts_are_further_ones_beside_those_of_the_model(capsys, model, tmp_path):
    test, further = tmp_path / "test.tsv", tmp_path / "further.tsv"
    test.write_text("Ann\tparent\tCid\n")
    further.write_text("Ann\tlikes\tBob\nAnn\tparent\tBob\n")  # the second is a fact of the model
    code, out, err = run(capsys, "evaluate", model, test, "--known", further, "--json")
    assert (code, err) == (0, f"note: filtered by 6 known facts of the model and {further}\n")
    assert json.loads(out)["n_known"] == 6


def test_evaluate_of_a_model_without_facts_says_what_it_cannot_tell(capsys, model_without_facts, family, tmp_path):
    (tmp_path / "test.tsv").write_text("Ann\tlikes\tBob\n")
    arguments = ("evaluate", model_without_facts, tmp_path / "test.tsv")
    _, out, err = run(capsys, *arguments)
    wanted = "the model does not hold its facts, so other true answers count as errors; name them with --known"
    assert err == f"warning: {wanted}\n"
    assert "the model holds no facts, so some test facts may be training facts" in " ".join(out.split())
    _, out, err = run(capsys, *arguments, "--known", family, "--json")
    assert err == f"note: filtered by 5 known facts of {family}\n"
    assert (json.loads(out)["n_known"], json.loads(out)["n_trained_on"]) == (5, None)


def test_an_entity_is_no_candidate_for_itself_unless_the_protocol_is_that_of_benchmarks(capsys, tmp_path):
    data, test, path = (tmp_path / name for name in ("f.tsv", "test.tsv", "m.relatent"))
    data.write_text("a\tlinks\tb\nb\tlinks\tc\nc\tlinks\td\n")
    test.write_text("a\tlinks\td\n")
    facts, R = read(data), np.eye(4)[None]  # the entity itself has the best score
    Factors(np.eye(4), R, np.zeros(1), facts.entities, facts.relations, facts=facts).save(path)
    mean_ranks = []
    for protocol in ((), ("--protocol", "benchmark")):
        code, out, err = run(capsys, "evaluate", path, test, *protocol)
        assert code == 0, err
        assert ("all entities are candidates" if protocol else "candidates as in `predict`") in " ".join(out.split())
        mean_ranks.append(json.loads(run(capsys, "evaluate", path, test, *protocol, "--json")[1])["mean_rank"])
    assert mean_ranks == [1.5, 2.5]


@pytest.fixture
def statements(tmp_path):
    """A model of two relations in which truth begins at 2 and at −2, and files of true and false statements."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 30, 30)) * 3
    shift = np.array([2.0, -2.0])[:, None, None]
    names = {"n_entities": 30, "relation_names": ["over", "under"]}
    empty = Facts.from_arrays([], [], [], **names)
    Factors(np.eye(30), scores, np.zeros(2), empty.entities, empty.relations).save(tmp_path / "model.relatent")
    chosen = rng.integers(0, 8, scores.shape)
    files = {"test": scores > shift, "negatives": scores <= shift}
    paths = {"model": tmp_path / "model.relatent"}
    for number, prefix in enumerate(("", "validation-")):
        for name, truth in files.items():
            paths[prefix + name] = tmp_path / f"{prefix}{name}.tsv"
            k, i, j = np.nonzero(truth & (chosen == number))
            rows = "".join(f"{s}\t{names['relation_names'][r]}\t{o}\n" for s, r, o in zip(i, k, j, strict=True))
            paths[prefix + name].write_text(rows)
    return paths


def test_evaluate_tells_facts_from_negatives_by_thresholds_from_validation(capsys, statements):
    arguments = ["evaluate", statements["model"], statements["test"], "--negatives", statements["negatives"]]
    validation = ["--validation", statements["validation-test"]]
    validation += ["--validation-negatives", statements["validation-negatives"]]
    code, out, err = run(capsys, *arguments, *validation, "--json")
    assert code == 0, err
    found = json.loads(out)["truth_test"]
    assert found["accuracy"] > 0.95 > 0.85 > found["uncalibrated"]["accuracy"]
    assert {"accuracy", "f1", "auc_roc", "ece", "n", "n_true", "n_validation", "protocol"} <= set(found)
    assert found["by_relation"]["over"]["threshold"] == pytest.approx(2, abs=0.5)
    _, out, _ = run(capsys, *arguments, *validation)
    assert "thresholds per relation from the validation statements" in out
    assert all(column in out for column in ("accuracy", "F1", "ROC AUC", "calibration error"))


def test_evaluate_without_validation_statements_says_what_it_does_instead(capsys, statements):
    arguments = ("evaluate", statements["model"], statements["test"], "--negatives", statements["negatives"])
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "each half of the statements judged by thresholds per relation from the other half" in out
    assert json.loads(run(capsys, *arguments, "--json")[1])["truth_test"]["n_validation"] == 0


def test_without_negatives_there_is_no_truth_test(capsys, statements):
    code, out, _ = run(capsys, "evaluate", statements["model"], statements["test"], "--json")
    assert code == 0
    assert "truth_test" not in json.loads(out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--validation", "kinships"], "--validation and --validation-negatives must be given together"),
        (["--validation-negatives", "kinships"], "--validation and --validation-negatives must be given together"),
        (["--validation", "a", "--validation-negatives", "b"], "--validation needs --negatives FILE"),
    ],
)
def test_options_of_the_truth_test_need_each_other(capsys, statements, options, message):
    code, _, err = run(capsys, "evaluate", statements["model"], statements["test"], *options)
    assert code == 2
    assert message in err


def test_a_benchmark_with_negatives_has_its_own_validation(tmp_path):
    assert validation_sources("codex-s") == ("codex-s:valid", "codex-s:valid-negatives")
    assert validation_sources("codex-s:test") == ("codex-s:valid", "codex-s:valid-negatives")
    assert validation_sources("codex-s:valid") is None
    assert validation_sources("wn18rr") is None
    assert validation_sources(str(tmp_path)) is None


@needs_mirror
def test_negatives_of_a_benchmark_are_found_by_name(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("RELATENT_DATA_HOME", str(MIRROR))
    train, _, _ = load_splits("codex-s")
    rng = np.random.default_rng(0)
    A, R = rng.normal(size=(train.n_entities, 2)), rng.normal(size=(train.n_relations, 2, 2))
    Factors(A, R, np.zeros(len(R)), train.entities, train.relations).save(tmp_path / "random.relatent")
    code, out, err = run(
        capsys, "evaluate", tmp_path / "random.relatent", "codex-s", "--negatives", "codex-s", "--json"
    )
    assert code == 0, err
    found = json.loads(out)["truth_test"]
    assert (found["n"], found["n_true"], found["n_validation"]) == (3_656, 1_828, 3_654)
    assert found["accuracy"] == pytest.approx(found["baseline"]["accuracy"], abs=0.02)  # a random model adds nothing


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


def test_test_facts_of_other_relations_are_refused(capsys, tmp_path):
    (tmp_path / "calls.csv").write_text("source,target\na,b\nb,c\nc,a\n")
    (tmp_path / "withheld.csv").write_text("source,relation,target\na,writes,c\n")
    fitted = ("fit", tmp_path / "calls.csv", "-o", tmp_path / "m.relatent", "--rank", 2, "--model", "als")
    assert run(capsys, *fitted)[0] == 0
    code, _, err = run(capsys, "evaluate", tmp_path / "m.relatent", tmp_path / "withheld.csv")
    assert code == 1
    assert "the model knows no relation of the test facts: it has 'linked', they have 'writes'" in err
    assert err.count("\n") == 1
    (tmp_path / "withheld.csv").write_text("source,target\na,c\n")
    code, _, err = run(capsys, "evaluate", tmp_path / "m.relatent", tmp_path / "withheld.csv")
    assert code == 0

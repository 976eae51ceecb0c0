"""`relatent split` and `relatent calibrate`."""

import json

import pytest

import relatent
from commands import run


@pytest.mark.parametrize("to", ["tsv", "jsonl"])
def test_split_writes_files_that_together_are_the_data(capsys, tmp_path, people, to):
    folder = tmp_path / "new" / "parts"
    code, out, err = run(
        capsys, "split", people, "--test", 0.25, "--valid", 0.125, "-o", folder, "--to", to, "--json", "--seed", 3
    )
    assert code == 0, err
    assert json.loads(out) == {"folder": str(folder), "facts": {"train": 5, "valid": 1, "test": 2}}
    parts = {name: relatent.read(folder / f"{name}.{to}") for name in ("train", "valid", "test")}
    rows = [row for part in parts.values() for row in part.named()]
    assert sorted(rows) == sorted(relatent.read(people).named())


def test_split_keeps_weights_and_refuses_shares_that_leave_nothing(capsys, tmp_path, people):
    weighted = tmp_path / "weighted.csv"
    weighted.write_text("subject,relation,object,weight\na,r,b,0.5\nb,r,c,2\nc,r,a,3\na,r,c,1\n")
    assert run(capsys, "split", weighted, "--test", 0.25, "-o", tmp_path / "parts")[0] == 0
    parts = [relatent.read(tmp_path / "parts" / f"{name}.tsv") for name in ("train", "test")]
    assert sorted(weight for part in parts for weight in part.weights) == [0.5, 1, 2, 3]
    code, _, err = run(capsys, "split", people, "--test", 0.5, "--valid", 0.5, "-o", tmp_path)
    assert code == 2
    assert "leave no training facts" in err


def test_calibrate_writes_a_model_that_says_what_its_probabilities_mean(capsys, tmp_path, people, people_model):
    valid = tmp_path / "valid.tsv"
    valid.write_text("Eve\tborn in\tOslo\nAnn\tborn in\tOslo\nBob\tcitizen of\tNorway\n")
    before, command = relatent.load(people_model), ("calibrate", people_model, "--missing", 0.2, "-o", people_model)
    code, out, err = run(capsys, *command, "--validation", valid, "--json")
    assert code == 0, err
    found = json.loads(out)["calibration"]
    assert (found["heldout_facts"], found["missing"]) == (2, 0.2)  # Eve is not in the model
    model = relatent.load(people_model)
    assert model.calibration.missing == 0.2
    assert not model.calibration.is_assumed
    assert model.score("Ann", "born in", "Oslo") == before.score("Ann", "born in", "Oslo")
    assert model.facts is not None
    assert model.probability_note in " ".join(run(capsys, *command)[1].replace("│", " ").split())


def test_calibrate_gives_probabilities_to_a_model_of_scores(capsys, tmp_path):
    path = tmp_path / "m.relatent"
    settings = ("--model", "rescal", "--loss", "hinge", "--rank", 3, "--max-iter", 5)
    assert run(capsys, "fit", "presidents", "-o", path, *settings, "--no-calibrate")[0] == 0
    assert not relatent.load(path).has_probabilities
    code, _, err = run(capsys, "calibrate", path, "-o", path)
    assert code == 0, err
    assert relatent.load(path).has_probabilities


def test_calibrate_of_a_model_without_facts_needs_them(capsys, family, model_without_facts):
    command = ("calibrate", model_without_facts, "-o", model_without_facts)
    code, _, err = run(capsys, *command)
    assert (code, err.count("\n")) == (1, 1)
    assert "give them, as known= or --known" in err
    code, _, err = run(capsys, *command, "--known", family)
    assert code == 0, err
    assert relatent.load(model_without_facts).calibration is not None
    assert relatent.load(model_without_facts).facts is None


def test_the_data_that_is_divided_is_not_overwritten(capsys, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"a{i}\tknows\ta{i + 1}\n" for i in range(30)))
    before = path.read_bytes()
    code, _, err = run(capsys, "split", path, "--test", 0.1, "-o", tmp_path)
    assert code == 2
    assert f"error: --output {path} would overwrite {path}, which is read; give another name" in err
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["train.tsv"]

"""`relatent combine`."""

import json

import numpy as np
import pytest

import relatent
from commands import run


@pytest.fixture
def models(people, tmp_path, capsys):
    """Two models of the people."""
    paths = [tmp_path / f"{rank}.relatent" for rank in (3, 4)]
    for rank, path in zip((3, 4), paths, strict=True):
        settings = ("--rank", rank, "--l2-entities", 0.05, "--l2-relations", 0.05)
        assert run(capsys, "fit", people, "-o", path, *settings)[0] == 0
    return paths


def test_the_sum_is_written_and_used_as_any_other_model(capsys, models, tmp_path):
    path = tmp_path / "both.relatent"
    code, out, err = run(capsys, "combine", *models, "-o", path, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["rank"] == 7
    assert [(part["model"], part["rank"], part["weight"]) for part in found["parts"]] == [
        ("RescalLogit", 3, 1.0),
        ("RescalLogit", 4, 1.0),
    ]
    assert found["bytes"] == path.stat().st_size
    sum_of_two = relatent.load(path)
    assert sum_of_two.calibration is not None
    assert found["probabilities"] == sum_of_two.probability_note
    again = relatent.combine([relatent.load(model) for model in models])
    np.testing.assert_array_equal(again.calibration.values, sum_of_two.calibration.values)
    for command in (
        ("predict", path, "--subject", "Ann", "--relation", "born in"),
        ("explain", path, "-s", "Ann", "-r", "citizen of", "-t", "Italy"),
        ("similar", path, "Ann"),
        ("missing", path, "--top", 3),
        ("doubt", path, "--top", 3),
        ("groups", path),
        ("info", path, "--verify"),
        ("calibrate", path, "--missing", 0.3, "-o", path),
        ("export", path, tmp_path / "folder"),
    ):
        code, _, err = run(capsys, *command)
        assert code == 0, err
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\nEve\tcitizen of\tNorway\n")
    for command in ("update", "fold-in"):
        code, _, err = run(capsys, command, path, new, "-o", tmp_path / "more.relatent")
        assert code == 0, err
        assert len(relatent.load(tmp_path / "more.relatent").parts) == 2


def test_weights_and_scores_only(capsys, models, tmp_path):
    path = tmp_path / "both.relatent"
    code, out, err = run(capsys, "combine", *models, "-o", path, "--weight", 0.25, "--weight", 0.75, "--no-calibrate")
    assert code == 0, err
    assert "RescalLogit of rank 3 times 0.25, RescalLogit of rank 4 times 0.75" in " ".join(
        out.replace("│", " ").split()
    )
    parts, found = [relatent.load(model) for model in models], relatent.load(path)
    weighted = relatent.combine(parts, weights=[0.25, 0.75], calibrate=False)
    cell = ("Ann", "born in", "Oslo")
    assert found.score(*cell) == pytest.approx(weighted.score(*cell))
    assert found.calibration is None


def test_one_model_and_models_of_other_facts_are_refused(capsys, models, tmp_path):
    other = tmp_path / "other.relatent"
    assert run(capsys, "fit", "presidents", "-o", other, "--rank", 2, "--max-iter", 2)[0] == 0
    for given, message in ((models[:1], "a sum needs at least two models"), ([models[0], other], "the same entities")):
        code, _, err = run(capsys, "combine", *given, "-o", tmp_path / "both.relatent")
        assert code == 1
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "both.relatent").exists()

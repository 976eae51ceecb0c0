"""The notebook for newcomers runs as it stands, and says what its text promises."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "walkthrough.ipynb"


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
def test_the_cells_of_the_walkthrough_run_in_order(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec("".join(cell["source"]), names)
    for subject, relation in names["questions"]:
        answers = names["model"].top(subject=subject, relation=relation, k=1)
        assert answers.names == [names["right"][subject, relation]]
        assert answers.probabilities[0] > 0.6
    assert names["measured"].average_precision > 0.9
    told = {("Bo", "lives in", "Oslo"), ("Bo", "went to", "Oslo School"), ("Bo", "works at", "Fjord Bank")}
    assert {reason[:3] for reason in names["why"].reasons[:3]} == told
    assert names["larger"].top(subject="Eve", relation="speaks", k=1).names == ["Italian"]
    towns = names["towns"]
    of_towns = {frozenset(street.split()) for _, _, street in towns.values()}
    others = {*towns, *(f"{town} School" for town in towns), *(name for town in towns.values() for name in town[:2])}
    assert {frozenset(group.names) for group in names["found"]} == {*of_towns, frozenset(others)}
    assert (tmp_path / "people.relatent").exists()
    assert all(cell["outputs"] for cell in cells)

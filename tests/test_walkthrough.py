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
    assert names["why"].reasons[0][:3] == ("Bo", "lives in", "Oslo")
    assert names["larger"].top(subject="Eve", relation="speaks", k=1).names == ["Italian"]
    assert (tmp_path / "people.relatent").exists()
    assert all(cell["outputs"] for cell in cells)

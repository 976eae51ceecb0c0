"""Progress and results in a real Jupyter kernel; needs nbclient and ipykernel, from the extra `docs`."""

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs relatent[docs]")
nbformat = pytest.importorskip("nbformat", reason="needs relatent[docs]")
pytest.importorskip("ipykernel", reason="needs relatent[docs]")

CELLS = [
    "import relatent; facts = relatent.load_dataset('kinships'); facts",
    "model = relatent.RescalALS(5).fit(facts, progress=True).factors_; model",
    "relatent.answers(model, facts, subject='person0', relation='term4')",
    "relatent.load('missing')",
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_kernel_shows_bars_and_tables():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
    facts, fit, answers, missing = (cell.outputs for cell in notebook.cells)
    assert "<table" in facts[-1]["data"]["text/html"]
    bar = next(output for output in fit if output.output_type == "display_data")
    assert bar["data"]["text/html"].startswith("<progress value=")
    assert "fitting RescalALS" in bar["data"]["text/plain"]
    assert "<table" in fit[-1]["data"]["text/html"]
    assert "<td>" in answers[-1]["data"]["text/html"]
    assert missing[0].ename == "ModelFileError"
    assert "During handling" not in "\n".join(missing[0].traceback)

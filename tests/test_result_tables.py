"""Every result a user receives is a table in a notebook and a data frame, and every public name has an example."""

import doctest
import inspect
import json
import sys
import types

import numpy as np
import pandas as pd
import pytest

import relatent
from relatent.fit.loop import Step, Trace
from relatent.progress import bar
from relatent.result_tables import MAX_ROWS, ResultList, html_table
from small_graphs import blocks

# fmt: off
ARGUMENTS = {  # classes that a user creates to pass them on: not results
    "RescalALS", "RescalLogit", "Rescal", "NonnegativeRescal", "IRM", "MRC", "MarkovLogic", "CellClassifier",
    "Softmax", "Dura", "N3", "L2", "Adam", "Lbfgs", "Workers", "Checkpoint", "Blocks", "Shared",
}
# fmt: on
TOP = relatent.Top(["Bob"], np.array([3.0]), np.array([0.95]), np.array([1]), np.array([9.5]))
RESULTS = [
    name
    for name in relatent.__all__
    if inspect.isclass(getattr(relatent, name))
    and not issubclass(getattr(relatent, name), BaseException)
    and name not in ARGUMENTS
]
METHODS_WITH_EXAMPLES = {
    "Facts": "from_arrays from_tensor named head describe to_pandas",
    "Factors": "score probability top fold_in save to_pandas",
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_type_has_html_and_a_data_frame(name):
    kind = getattr(relatent, name)
    for method in ("_repr_html_", "to_pandas"):
        assert callable(getattr(kind, method, None)), f"{name} needs {method}: see relatent.result_tables"


@pytest.mark.parametrize("name", relatent.__all__)
def test_every_public_name_has_an_example(name):
    public = getattr(relatent, name)
    assert doctest.DocTestParser().get_examples(inspect.getdoc(public) or ""), name
    for method in METHODS_WITH_EXAMPLES.get(name, "").split():
        assert ">>> " in inspect.getdoc(getattr(public, method)), f"{name}.{method}"


@pytest.fixture(scope="module")
def world():
    """Results of all kinds about a small graph."""
    facts = blocks(18, groups=3)
    model = relatent.RescalLogit(rank=3, l2_entities=0.1, l2_relations=0.1, max_iter=20, tol=1e-2).fit(facts)
    factors, (s, k, o) = model.factors_, facts.triples[0].tolist()
    names = factors.entities[s], factors.relations[k], factors.entities[o]
    als = relatent.RescalALS(3, 0.1, 0.1, max_iter=5, tol=0.1)
    report = relatent.cross_validate(als, facts, folds=2, n_jobs=1)
    swapped = relatent.Facts.from_ids(facts.triples[:, ::-1], facts.entities, facts.relations)
    trial = relatent.Trial(relatent.Candidate("als", {"rank": 5}), round=2, scores={0: 0.5, 1: 0.75})
    pair = relatent.DuplicatePair("e1", "e2", 0.9, shared=3, joined=False)
    return [
        facts,
        facts.head(3),
        facts.describe(),
        factors,
        model.trace_,
        factors.top(subject=0, relation=0),
        relatent.answers(factors, subject=names[0], relation=names[1]),
        relatent.similar(factors, 0, 3),
        relatent.groups(factors, n_groups=2),
        relatent.groups(factors, n_groups=2)[0],
        relatent.explain(factors, *names),
        relatent.Duplicates([pair], [relatent.Merge("e2", "e1", 0.9, 2)]),
        report,
        report.folds[0],
        report.folds[0].heldout,
        report.folds[0].metrics,
        report.reliability,
        relatent.evaluate(factors, facts),
        relatent.evaluate(factors, facts).overall,
        relatent.truth_test(factors, facts, swapped.subset(~facts.contains(swapped.triples))),
        relatent.Tuned([trial], "auc_pr", "2 folds", random_state=0, seconds=1.0),
        trial,
        trial.candidate,
        relatent.datasets(),
    ]


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
def test_results_are_short_text_short_html_and_data_frames(world):
    for result in world:
        kind = type(result).__name__
        table = result._repr_html_()
        assert 1 <= table.count("<tr>") <= MAX_ROWS + 1, kind
        assert len(table) < 8000, kind
        assert table.count("<td>") % (table.count("<tr>") - 1) == 0, f"{kind}: rows of different length"
        assert isinstance(result.to_pandas(), pd.DataFrame), kind
        assert len(result.to_pandas()) >= 1, kind
        assert len(repr(result)) < 3000, kind


def test_data_frames_hold_what_the_results_hold(world):
    facts, head, counts = world[:3]
    frame = facts.to_pandas()
    assert list(frame.itertuples(index=False, name=None)) == facts.named()
    assert [tuple(row) for row in head] == facts.named()[:3]
    assert counts.to_pandas().facts.sum() == len(facts)
    assert counts.to_pandas().symmetric.tolist() == [
        bool(facts.symmetric[facts.relations.id(row[0])]) for row in counts
    ]
    weighted = relatent.Facts.from_arrays(["a", "b"], ["r", "r"], ["b", "a"], weights=[0.5, 1], times=[2, 7])
    assert weighted.to_pandas().columns.tolist() == ["subject", "relation", "object", "weight", "count"]
    factors = world[3]
    np.testing.assert_array_equal(factors.to_pandas().loc[factors.entities[4]], factors.A[4])


def test_names_from_a_file_cannot_write_html():
    facts = relatent.Facts.from_arrays(["<script>"], ["<img src=x onerror=1>"], ["&"])
    for text in (facts._repr_html_(), facts.describe()._repr_html_()):
        assert "<script" not in text
        assert "<img" not in text
    assert "&lt;b&gt;" in html_table("<b>", [{"<i>": ["<u>"]}])
    assert "<u>" not in html_table("", [{"<i>": ["<u>"]}])


def test_long_results_end_with_a_count():
    rows = ResultList({"n": n} for n in range(1234))
    assert rows._repr_html_().endswith("</table><p>… 1,224 more rows</p>")
    assert repr(rows).endswith("… 1,224 more items]")
    assert json.dumps(rows[:2]) == '[{"n": 0}, {"n": 1}]'
    assert len(rows.to_pandas()) == 1234


def test_an_empty_result_has_the_columns_of_its_rows():
    assert relatent.Answers("object", 0, []).to_pandas().columns.tolist() == list(relatent.Answer._fields)
    assert relatent.Answers("object", 0, [])._repr_html_() == "<p><b>Answers(0 for the object, 0 known)</b></p>"
    assert repr(Trace()) == "Trace(0 steps, not run)"
    assert Trace([Step(2.0, 0.1)]).to_pandas().objective.tolist() == [2.0]


def test_a_missing_model_is_one_error_without_a_chain():
    with pytest.raises(relatent.ModelFileError, match=r"missing does not exist; check the path") as caught:
        relatent.load("missing")
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_a_bar_in_a_notebook_is_part_of_the_output(monkeypatch):
    """With IPython's `display` as a list of what it shows."""
    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data))
    display = types.SimpleNamespace(display=lambda data, raw, display_id: shown.append(data) or handle)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    console = types.SimpleNamespace(is_terminal=False, is_jupyter=True)
    with bar("fitting <als>", at_most=True, console=console) as report:
        report(3, 500, "objective 7")
    assert "value" not in shown[0]["text/html"]
    assert shown[-1]["text/html"].startswith(
        "<progress value=3 max=500></progress> fitting &lt;als&gt;: 3 of at most 500"
    )
    assert shown[-1]["text/plain"].startswith("fitting <als>: 3 of at most 500, objective 7")


@pytest.mark.parametrize("result", [relatent.datasets(), blocks(), TOP], ids=type)
def test_without_pandas_to_pandas_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(relatent.InputError, match=r"^to_pandas\(\) needs pandas; install it with: pip install pandas$"):
        result.to_pandas()

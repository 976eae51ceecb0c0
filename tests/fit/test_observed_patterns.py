"""Observed patterns as a fit learns them: rules of one's own, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import relatent
from commands import run
from relatent.errors import InputError
from relatent.evaluation.model_names import stored_estimator
from relatent.model.pattern_texts import general_text, rule_of
from relatent.model.patterns import Kind, Pattern

RULE = "parent(x,z) ∧ parent(z,y) ⇒ grandparent(x,y)"


@pytest.fixture(scope="module")
def facts() -> relatent.Facts:
    """People of several generations: who is a grandparent follows from who is a parent."""
    rows = []
    for child in range(3, 90):
        rows.append((f"p{child // 3}", "parent", f"p{child}"))
        if child // 9:
            rows.append((f"p{child // 9}", "grandparent", f"p{child}"))
    return relatent.read(rows)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (RULE, Pattern(Kind.ANY_PATH, 2, 2)),
        ("parent(z,y) & parent(x,z) => grandparent(x,y)", Pattern(Kind.ANY_PATH, 2, 2)),
        ("parent(z, x) ∧ parent(z, y) ⇒ grandparent(x, y)  12  0.75", Pattern(Kind.ANY_PATH, 3, 2)),
        ("parent(y,x) ⇒ grandparent(x,y)  -2.31", Pattern(Kind.STEP, 3)),
    ],
)
def test_a_rule_is_read_as_it_is_printed(facts, text, wanted):
    relations = relatent.Facts.from_arrays(["a", "a"], ["grandparent", "parent"], ["b", "b"]).relations
    assert rule_of(text, relations, frozenset()) == (0, wanted)
    again = f"{general_text(relations.shown, wanted)} ⇒ grandparent(x,y)"
    assert rule_of(again, relations, frozenset()) == (0, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "grandparent(x,y)",
        "parent(x,y)",
        "parent(x,z) ⇒ grandparent(x,y)",
        "parent(x,z) ∧ parent(x,z) ⇒ grandparent(x,y)",
        "parent(x,z) ∧ parent(w,y) ⇒ grandparent(x,y)",
        "parent(x,x) ⇒ grandparent(x,y)",
        "parent(x,y) ⇒ grandparent(x,z)",
        "parent(x,y) ⇒ parent(x,y)",
        "aunt(x,y) ⇒ parent(x,y)",
        "",
    ],
)
def test_what_is_no_rule_is_refused(facts, text):
    with pytest.raises(InputError, match=r"rule|aunt"):
        relatent.RescalLogit(patterns=[text]).fit(facts)


@pytest.mark.parametrize("patterns", ["all", [], [3], 3])
def test_other_patterns_are_refused(facts, patterns):
    with pytest.raises(InputError, match="patterns must be 'auto', 'none', 'mirror', 'paths', or a list of rules, got"):
        relatent.RescalLogit(patterns=patterns).fit(facts)


def test_rules_of_ones_own_are_what_is_observed(facts):
    found = [rule for rule in relatent.rules(facts) if rule.text == RULE]
    estimator = relatent.RescalLogit(rank=4, max_iter=20, patterns=found)
    by_rule, by_text = (clone(estimator).set_params(patterns=rules).fit(facts).factors_ for rules in (found, [RULE]))
    ((pattern, weight),) = by_rule.patterns.of(facts.relations.ids(["grandparent"])[0])
    assert general_text(facts.relations.shown, pattern) == RULE.partition(" ⇒ ")[0]
    assert weight > 1
    np.testing.assert_array_equal(by_rule.patterns.weights, by_text.patterns.weights)
    assert len(by_rule.patterns.codes) == 1
    assert stored_estimator(by_rule).patterns == [RULE]


def test_rules_are_read_from_files(capsys, tmp_path, facts):
    data = tmp_path / "facts.tsv"
    data.write_text("".join("\t".join(row) + "\n" for row in facts.named()), encoding="utf-8")
    lines, table = tmp_path / "rules.txt", tmp_path / "rules.csv"
    lines.write_text(f"{RULE}\n\nparent(y,x) => grandparent(x,y)\n", encoding="utf-8")
    assert run(capsys, "rules", data, "--head", "grandparent", "-o", table)[0] == 0
    for path, count in ((lines, 2), (table, len(table.read_text(encoding="utf-8").splitlines()) - 1)):
        model = tmp_path / f"{path.stem}{path.suffix}.model"
        code, _, err = run(capsys, "fit", data, "--patterns", path, "--rank", 2, "--max-iter", 5, "-o", model)
        assert code == 0, err
        assert len(relatent.load(model).patterns.codes) == count
    code, _, err = run(capsys, "fit", data, "--patterns", tmp_path / "none.txt")
    assert code == 2
    assert "or a file of rules" in err
    table.write_text("rule\nx\n")
    assert "the columns body and head" in run(capsys, "fit", data, "--patterns", table)[2]

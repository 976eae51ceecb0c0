"""Commands that ask a model about its entities and facts: similar, groups, explain, duplicates."""

import json

import numpy as np
import pytest

import relatent
from commands import run
from small_graphs import exceptions_to_rules


def test_similar_lists_an_entity_with_the_same_facts_first(capsys, people_model):
    code, out, err = run(capsys, "similar", people_model, "Ann", "--top", 2, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["entity"] == "Ann"
    assert found["similar"][0]["name"] == "Bob"
    assert "Bob" in run(capsys, "similar", people_model, "Ann")[1]


def test_groups_are_listed_with_their_typical_facts(capsys, people_model):
    code, out, err = run(capsys, "groups", people_model, "--groups", 3, "--json")
    assert code == 0, err
    groups = json.loads(out)["groups"]
    assert sorted(name for group in groups for name in group["names"]) == sorted(
        ["Ann", "Bob", "Cid", "Dot", "Italy", "Norway", "Oslo", "Rome"]
    )
    assert {"relation", "role", "neighbour", "probability", "elsewhere"} == set(groups[0]["typical"][0])
    assert "elsewhere" in run(capsys, "groups", people_model, "--groups", 3)[1]


def test_explain_lists_the_most_influential_fact_first(capsys, people_model):
    cell = ("-s", "Ann", "-r", "citizen of", "-t", "Italy")
    code, out, err = run(capsys, "explain", people_model, *cell, "--json")
    assert code == 0, err
    found, model = json.loads(out), relatent.load(people_model)
    others = [name for name in model.entities if name != "Italy"]
    assert found["probability"] == pytest.approx(model.probability("Ann", "citizen of", "Italy"), abs=1e-9)
    assert found["probability"] > 5 * model.probability("Ann", "citizen of", others).max()
    first = found["reasons"][0]
    assert (first["subject"], first["relation"], first["object"]) == ("Ann", "born in", "Rome")
    shown = run(capsys, "explain", people_model, *cell)[1]
    assert "Ann citizen of Italy is known; besides itself, the strongest support is Ann born in Rome" in " ".join(
        shown.split()
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("similar", "MODEL", "Anne"), "error: unknown entity 'Anne'; did you mean 'Ann'"),
        (
            ("groups", "MODEL", "--groups", 99),
            "error: n_groups must be between 1 and 8, the number of entities, got 99",
        ),
        (("explain", "MODEL", "-s", "Ann", "-r", "hates", "-t", "Bob"), "unknown relation 'hates'"),
    ],
)
def test_an_impossible_question_is_a_one_line_error(capsys, people_model, arguments, text):
    code, out, err = run(capsys, *(people_model if argument == "MODEL" else argument for argument in arguments))
    assert code == 1
    assert out == ""
    assert text in err
    assert err.count("\n") == 1


@pytest.fixture
def model_with_a_duplicate(tmp_path):
    """A model of facts of 40 entities and of Ann, who has the same facts as e0."""
    rng = np.random.default_rng(0)
    facts = {f"e{i}": [(f"r{rng.integers(3)}", f"v{rng.integers(40)}") for _ in range(10)] for i in range(40)}
    facts["Ann"] = facts["e0"]
    rows = [(name, r, value) for name, pairs in facts.items() for r, value in pairs]
    path = tmp_path / "d.relatent"
    relatent.RescalALS(6, 1.0, 1.0, calibrate=False).fit(relatent.read(rows)).factors_.save(path)
    return path


def test_duplicates_are_listed_and_proposed_merges_are_written(capsys, tmp_path, model_with_a_duplicate):
    path, table = model_with_a_duplicate, tmp_path / "merges.tsv"
    code, out, err = run(capsys, "duplicates", path, "--top", 3, "--json", "-o", table)
    assert code == 0, err
    found = json.loads(out)
    assert {found["pairs"][0]["name"], found["pairs"][0]["other"]} == {"Ann", "e0"}
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0] == ["name", "into", "probability", "facts"]
    assert {"Ann", "e0"} in [set(row[:2]) for row in rows[1:]]
    assert "e0" in run(capsys, "duplicates", path, "--entity", "Ann", "--top", 1)[1]
    assert "1 row written to" in err
    code, _, err = run(capsys, "duplicates", path, "-o", tmp_path / "merges.csv")
    assert (tmp_path / "merges.csv").read_text().splitlines() == [",".join(row) for row in rows]
    code, out, err = run(capsys, "duplicates", path, "-o", "-")
    assert out.splitlines() == [",".join(row) for row in rows]
    code, _, err = run(capsys, "duplicates", path, "-o", tmp_path / "merges.txt")
    assert (code, "must end in one of .csv, .tsv, .parquet, .jsonl" in err) == (2, True)


def test_top_limits_the_typical_facts_of_a_group(capsys, people_model):
    _, out, _ = run(capsys, "groups", people_model, "--groups", 2, "--top", 1, "--json")
    assert [len(group["typical"]) for group in json.loads(out)["groups"]] == [1, 1]


def test_an_entity_as_its_own_answer_is_explained_as_such(capsys, people_model):
    _, out, _ = run(capsys, "explain", people_model, "-s", "Ann", "-r", "born in", "-t", "Ann")
    wanted = "is not offered as an answer: no known fact of this relation joins an entity with itself."
    assert f"Ann born in Ann {wanted}" in " ".join(out.split())


def test_the_table_of_duplicates_has_a_column_of_notes_only_for_notes():
    from relatent.analysis.duplicates import DuplicatePair, Duplicates
    from relatent.cli import tables

    for joined, n_columns in ((False, 4), (True, 5)):
        pair = DuplicatePair("a", "b", 0.9, shared=3, joined=joined)
        assert len(tables.duplicates(Duplicates([pair], merges=[]))[0].columns) == n_columns
        named = pair._replace(name_match="equal")
        assert len(tables.duplicates(Duplicates([named], merges=[]))[0].columns) == n_columns + 1


def test_names_can_be_left_out(capsys, model_with_a_duplicate):
    for option in ("--names", "--no-names"):
        code, out, err = run(capsys, "duplicates", model_with_a_duplicate, "--top", 1, "--json", option)
        assert code == 0, err
        assert json.loads(out)["names"] is (option == "--names")


def test_groups_say_how_many_entities_are_in_none(capsys, tmp_path):
    rng = np.random.default_rng(1)
    camps = [(f"p{i}", "likes", f"p{j}") for i in range(40) for j in range(40) if i != j and (i < 15) == (j < 15)]
    noise = [(f"p{i}", "likes", f"p{j}") for i, j in rng.integers(0, 60, (400, 2)) if i != j]
    path = tmp_path / "m.relatent"
    facts = relatent.read(sorted({*camps, *noise}))
    relatent.RescalALS(6, 1.0, 1.0, calibrate=False).fit(facts).factors_.save(path)
    code, out, _ = run(capsys, "groups", path, "--method", "hdbscan", "--json")
    found = json.loads(out)
    assert found["n_without_group"] == 60 - sum(len(group["names"]) for group in found["groups"]) > 0
    code, out, _ = run(capsys, "groups", path, "--method", "hdbscan")
    assert (code, f"{found['n_without_group']} of 60 in no group" in " ".join(out.split())) == (0, True)


def test_patterns_of_a_model_are_seen_in_info_explain_and_predict(capsys, tmp_path):
    facts, _, (view, purchase) = exceptions_to_rules()
    path, new = tmp_path / "shop.relatent", tmp_path / "new.tsv"
    relatent.RescalLogit().fit(facts).factors_.save(path)
    code, out, err = run(capsys, "explain", path, "-s", view[0], "-r", view[1], "-t", view[2])
    assert code == 0, err
    assert "patterns +" in out
    tables, rule = " ".join(out.split()).split("Observed patterns")[1], "bought(x,y)"
    assert tables.count(rule) == 1  # not again among the rules
    assert " ".join(purchase) in tables
    code, out, err = run(capsys, "info", path, "--json")
    found = json.loads(out)["about"]["learned"]["patterns"]
    assert found["count"] >= len(found["strongest"]) == 10
    assert ("viewed", rule) in [(row["relation"], row["pattern"]) for row in found["strongest"]]
    assert f"Observed patterns (10 of {found['count']})" in run(capsys, "info", path)[1]
    known = {o for s, k, o in facts.named() if (s, k) == ("person 5", "viewed")}
    item = next(name for name in ("item 1", "item 2", "item 4", "item 5") if name not in known)
    new.write_text(f"person 5\tbought\t{item}\n")
    asked = ("predict", path, "-s", "person 5", "-r", "viewed", "--json")
    first = [json.loads(run(capsys, *asked, *more)[1])["predictions"][0] for more in ((), ("--known", new))]
    assert first[1]["object"] == item
    assert first[1]["probability"] > 0.9
    assert first[0]["object"] != item or first[0]["probability"] < 0.5

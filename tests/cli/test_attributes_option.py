"""`--attributes`: of fit, fold-in, update and info."""

import json

import pytest

import relatent
from attribute_graphs import customers
from commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attributes")
    graph = customers(3, n_users=40, n_products=20)
    (folder / "f.csv").write_text("subject,relation,object\n" + "".join(",".join(row) + "\n" for row in graph.rows))
    lines = [f"{name},{values.get('born', '')},{values['about']}\n" for name, values in graph.table.items()]
    (folder / "a.csv").write_text("entity,born,about\n" + "".join(lines))
    triples = [f":{s} :{r} :{o} .\n" for s, r, o in graph.rows]
    literals = [f':{name} :{a} "{v}" .\n' for name, values in graph.table.items() for a, v in values.items()]
    (folder / "f.ttl").write_text("@prefix : <x:> .\n" + "".join(triples + literals))
    (folder / "new.csv").write_text("entity,born,about\neve,1950-01-01,chess film\n")
    return folder


ALS = ("--model", "als", "--rank", 3, "--max-iter", 5, "--json")


def fitted(capsys, *arguments):
    code, out, err = run(capsys, "fit", *arguments, *ALS)
    assert code == 0, err
    return json.loads(out)["data"]


def test_fit_learns_from_a_file_and_from_literals(capsys, folder):
    assert (
        fitted(capsys, folder / "f.csv", "--attributes", folder / "a.csv", "-o", folder / "m.relatent")["attributes"]
        == 2
    )
    assert fitted(capsys, folder / "f.ttl", "-o", folder / "l.relatent", "--attributes")["attributes"] == 4
    assert "attributes" not in fitted(capsys, folder / "f.csv", "-o", folder / "p.relatent")
    _, out, _ = run(capsys, "info", folder / "m.relatent", "--json")
    assert json.loads(out)["attributes"] == {"about": "words", "born": "date"}


def test_fold_in_takes_a_newcomer_without_facts(capsys, folder):
    fitted(capsys, folder / "f.csv", "--attributes", folder / "a.csv", "-o", folder / "m.relatent")
    arguments = (folder / "m.relatent", folder / "f.csv", "-o", folder / "n.relatent")
    code, out, err = run(capsys, "fold-in", *arguments, "--attributes", folder / "new.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["folded_in"] == ["eve"]


def test_update_takes_the_attributes_from_the_model(capsys, folder):
    fitted(capsys, folder / "f.csv", "--attributes", folder / "a.csv", "-o", folder / "m.relatent")
    (folder / "more.csv").write_text("subject,relation,object\neve,bought,product_1\n")
    code, _, err = run(capsys, "update", folder / "m.relatent", folder / "more.csv", "-o", folder / "u.relatent")
    assert code == 0, err
    before, after = (relatent.load(folder / name).facts.attribute_table for name in ("m.relatent", "u.relatent"))
    assert after.values == before.values
    assert relatent.load(folder / "u.relatent").attributes.names == ["about", "born"]


def test_update_of_a_model_without_facts_needs_the_attributes(capsys, folder):
    given = ("--attributes", folder / "a.csv", "-o", folder / "m.relatent", "--without-facts")
    fitted(capsys, folder / "f.csv", *given)
    (folder / "more.csv").write_text("subject,relation,object\neve,bought,product_1\n")
    arguments = (folder / "m.relatent", folder / "more.csv", "--known", folder / "f.csv", "-o", folder / "u.relatent")
    code, _, err = run(capsys, "update", *arguments)
    assert code == 1
    assert "error: the model was fitted with attributes (about, born)" in err
    code, _, err = run(capsys, "update", *arguments, "--attributes", folder / "a.csv")
    assert code == 0, err


def test_info_says_what_literals_there_are(capsys, folder):
    _, out, _ = run(capsys, "info", folder / "f.ttl", "--json")
    reading = json.loads(out)["reading"]
    assert reading["literals"].startswith("x:about (60), ")
    assert "--attributes makes literals attributes of their subjects" in reading["notes"][0]


def test_cross_validate_takes_attributes(capsys, folder):
    arguments = (folder / "f.csv", "--attributes", folder / "a.csv", "--folds", 2, "--jobs", 1, *ALS)
    code, out, err = run(capsys, "cross-validate", *arguments)
    assert code == 0, err
    assert 0 < json.loads(out)["auc_pr"] < 1


def test_entities_with_attributes_and_without_facts_are_counted_once(capsys, folder):
    (folder / "more.csv").write_text((folder / "a.csv").read_text() + "eve,1950-01-01,chess film\n")
    (folder / "eve.ttl").write_text('@prefix : <x:> .\n:user_1 :knows :user_2 .\n:eve :about "chess" .\n')
    file = ("fit", folder / "f.csv", "-o", folder / "m.relatent", "--attributes", folder / "more.csv")
    literals = ("fit", folder / "f.ttl", folder / "eve.ttl", "-o", folder / "m.relatent", "--attributes")
    for arguments in (file, literals):
        _, _, err = run(capsys, *arguments, *ALS)
        assert err.count("1 of 61 entities with attributes have no facts, so a fit leaves them out; fold_in") == 1


def test_commands_without_the_option_name_the_one_that_has_it(capsys, folder):
    fitted(capsys, folder / "f.ttl", "-o", folder / "l.relatent", "--attributes")
    _, _, err = run(capsys, "missing", folder / "l.relatent", "--known", folder / "f.ttl", "--top", 1)
    assert "relatent fit --attributes makes literals attributes" in err
    _, _, err = run(capsys, "fit", folder / "f.ttl", "-o", folder / "p.relatent", *ALS)
    assert "and --attributes makes literals attributes" in err

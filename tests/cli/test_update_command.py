"""`relatent update`."""

import json

import relatent
from commands import run


def test_update_writes_a_model_with_the_new_facts_over_the_old_one(capsys, tmp_path, people, people_model):
    new = tmp_path / "new.tsv"
    new.write_text("Eve\tborn in\tOslo\nEve\tfriend of\tAnn\n")
    code, out, err = run(capsys, "update", people_model, new, "--known", people, "-o", people_model, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {name: found[name] for name in ("new_facts", "new_entities", "new_relations")} == {
        "new_facts": 2,
        "new_entities": 1,
        "new_relations": 1,
    }
    f = relatent.load(people_model)
    assert f.probability("Eve", "citizen of", "Norway") > f.probability("Eve", "citizen of", "Italy")


def test_update_needs_the_known_facts(capsys, people, people_model):
    code, _, err = run(capsys, "update", people_model, people, "-o", people_model)
    assert code == 2
    assert "--known" in err

"""`relatent rules`."""

import json

from commands import run


def test_rules_are_printed_and_written(capsys, tmp_path, people):
    with people.open("a") as file:
        file.write("Rome\tin\tItaly\nOslo\tin\tNorway\n")
    code, out, err = run(capsys, "rules", people, "--head", "citizen of", "--min-support", 2, "--json")
    assert code == 0, err
    best = json.loads(out)["rules"][0]
    assert (best["body"], best["support"], best["confidence"]) == ("born in(x,z) ∧ in(z,y)", 4, 1.0)
    assert "⇒ citizen of(x,y)" in run(capsys, "rules", people, "--min-support", 2)[1]
    target = tmp_path / "rules.csv"
    assert run(capsys, "rules", people, "--min-support", 2, "-o", target)[0] == 0
    assert target.read_text(encoding="utf-8").startswith("body,head,support,confidence\n")


def test_the_rules_of_a_model_are_those_of_its_facts(tmp_path, capsys):
    fitted = tmp_path / "people.relatent"
    code, _, err = run(capsys, "fit", "people", "-o", fitted, "--model", "als", "--no-calibrate", "--rank", 2)
    assert code == 0, err
    outputs = [json.loads(run(capsys, "rules", source, "--json", "--top", 5)[1]) for source in ("people", fitted)]
    assert outputs[0] == outputs[1]
    assert outputs[0]["rules"]

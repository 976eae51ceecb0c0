"""Every command asks the model for its facts; without them it works, or says in one line what to give."""

import re

import pytest

import relatent
from commands import run

QUESTION = ("--subject", "Ann", "--relation", "parent")
FACT = (*QUESTION, "--object", "Bob")
NEEDS_FACTS = {
    "missing": ("missing", "MODEL"),
    "doubt": ("doubt", "MODEL", "--no-refit"),
    "explain": ("explain", "MODEL", *FACT),
    "duplicates": ("duplicates", "MODEL"),
    "update": ("update", "MODEL", "new.tsv", "-o", "updated.relatent"),
    "calibrate": ("calibrate", "MODEL", "-o", "calibrated.relatent"),
    "calibrate-validation": ("calibrate", "MODEL", "--validation", "test.tsv", "-o", "calibrated.relatent"),
    "predict-types": ("predict", "MODEL", *QUESTION, "--types", "infer"),
}
NEEDS_NONE = {
    "predict": ("predict", "MODEL", *QUESTION),
    "predict-fact": ("predict", "MODEL", *FACT),
    "predict-questions": ("predict", "MODEL", "--questions", "questions.csv"),
    "score": ("score", "MODEL", "claims.csv", "-o", "scored.csv"),
    "evaluate": ("evaluate", "MODEL", "test.tsv"),
    "plot": ("plot", "MODEL", "precision-recall", "--test", "test.tsv", "-o", "figure.svg"),
}
HAS_NO_USE_FOR_THEM = {
    "similar": ("similar", "MODEL", "Ann"),
    "groups": ("groups", "MODEL"),
    "fold-in": ("fold-in", "MODEL", "new.tsv", "-o", "folded.relatent"),
    "info": ("info", "MODEL", "--verify"),
    "export": ("export", "MODEL", "vectors"),
}
ALL = NEEDS_FACTS | NEEDS_NONE | HAS_NO_USE_FOR_THEM


def cases(commands):
    return pytest.mark.parametrize("arguments", commands.values(), ids=commands)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Further files beside the model, in the working directory."""
    (tmp_path / "new.tsv").write_text("Eve\tparent\tAnn\nEve\tlikes\tBob\n")
    (tmp_path / "test.tsv").write_text("Ann\tparent\tCid\nBob\tlikes\tCid\n")
    (tmp_path / "questions.csv").write_text("subject,relation\nAnn,parent\n")
    (tmp_path / "claims.csv").write_text("subject,relation,object\nAnn,parent,Bob\n")
    monkeypatch.chdir(tmp_path)


def command(arguments, model):
    return [model if argument == "MODEL" else argument for argument in arguments]


def needs_matplotlib(arguments):
    if arguments[0] == "plot":
        pytest.importorskip("matplotlib", reason="needs relatent[plot]")


@cases(ALL)
def test_no_command_needs_the_data_again(capsys, model, family, arguments):
    needs_matplotlib(arguments)
    family.unlink()  # the model file is enough
    code, _, err = run(capsys, *command(arguments, model))
    assert code == 0, err
    assert "--known" not in err
    assert "does not hold" not in err


@cases(NEEDS_FACTS)
def test_without_facts_a_command_that_needs_them_says_so_in_one_line(capsys, model_without_facts, family, arguments):
    given = command(arguments, model_without_facts)
    code, out, err = run(capsys, *given)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: the model does not hold ")
    assert re.search("give them,? as known(= or --known| facts)$", err.strip())
    code, _, err = run(capsys, *given, "--known", family)
    assert code == 0, err


@cases(NEEDS_NONE)
def test_without_facts_an_answer_says_that_nothing_counts_as_known(capsys, model_without_facts, family, arguments):
    needs_matplotlib(arguments)
    given = command(arguments, model_without_facts)
    code, _, err = run(capsys, *given)
    assert code == 0, err
    assert len([line for line in err.splitlines() if "the model does not hold its facts" in line]) == 1
    assert "name them with --known" in err
    code, _, err = run(capsys, *given, "--known", family)
    assert code == 0, err
    assert "does not hold" not in err


@cases(HAS_NO_USE_FOR_THEM)
def test_without_facts_other_commands_work_as_with_them(capsys, model_without_facts, arguments):
    code, _, err = run(capsys, *command(arguments, model_without_facts))
    assert code == 0, err


def test_facts_given_again_change_nothing(capsys, model, family):
    for arguments in (NEEDS_NONE["predict"], NEEDS_FACTS["missing"], NEEDS_FACTS["explain"]):
        plain = run(capsys, *command(arguments, model), "--json")
        assert run(capsys, *command(arguments, model), "--json", "--known", family) == plain


def test_facts_learned_by_fold_in_and_update_are_known_as_well(capsys, model):
    for name in ("fold-in", "update"):
        larger = f"{name}.relatent"
        assert run(capsys, name, model, "new.tsv", "-o", larger)[0] == 0
        assert ("Eve", "parent", "Ann") in set(relatent.load(larger).facts.named())
        _, out, _ = run(capsys, "predict", larger, "-s", "Eve", "-r", "parent", "-t", "Ann")
        assert "known" in out

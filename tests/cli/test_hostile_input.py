"""Names, settings, files and folders that try to break the command line."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relatent
from commands import run
from relatent.cli.main import cli
from relatent.cli.shared_options import OutputPath
from relatent.data.read.sql import shown_url

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
NAMES = [f"{ESCAPE}{i}" for i in range(6)]
RELATION = f"$x^${ESCAPE}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A data file whose names control terminals and are no formulas, and a model of it."""
    folder = tmp_path_factory.mktemp("hostile")
    data, model, new = folder / "data.tsv", folder / "model.relatent", folder / "new.tsv"
    new.write_text(f"{ESCAPE}new\t{RELATION}\t{NAMES[0]}\n")
    facts = [(NAMES[i], RELATION, NAMES[(i + 1) % 6]) for i in range(6)]
    data.write_text("".join("\t".join(fact) + "\n" for fact in facts))
    relatent.RescalLogit(2, 0.1, 0.1).fit(relatent.read(data)).factors_.save(model)
    return data, model, new


@pytest.mark.parametrize(
    "arguments",
    [
        ("info", "MODEL"),
        ("info", "DATA"),
        ("predict", "MODEL", "-s", NAMES[0], "-r", RELATION),
        ("predict", "MODEL", "-s", NAMES[0], "-r", "other" + ESCAPE),
        ("similar", "MODEL", NAMES[0]),
        ("groups", "MODEL"),
        ("explain", "MODEL", "-s", NAMES[0], "-r", RELATION, "-t", NAMES[1], "--known", "DATA"),
        ("evaluate", "MODEL", "DATA"),
        ("missing", "MODEL", "--known", "DATA", "--reasons"),
        ("doubt", "MODEL", "--known", "DATA"),
        ("fold-in", "MODEL", "NEW", "-o", "larger.relatent"),
        ("rules", "DATA", "--min-support", "1"),
        ("split", "DATA", "-o", "parts"),
        ("plot", "MODEL", "map", "-o", "map.svg"),
        ("plot", "MODEL", "relation", "-o", "relation.png"),
        ("cross-validate", "DATA", "--model", "als", "--rank", "1", "--folds", "2"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
@pytest.mark.parametrize("as_json", [False, True], ids=["table", "json"])
def test_names_do_not_control_the_terminal(capsys, hostile, tmp_path, monkeypatch, arguments, as_json):
    monkeypatch.chdir(tmp_path)
    places = dict(zip(("DATA", "MODEL", "NEW"), hostile, strict=True))
    given = [places.get(argument, argument) for argument in arguments]
    code, out, err = run(capsys, *given, *(["--json"] if as_json else []))
    assert code == (1 if given[-1] == "other" + ESCAPE else 0), err
    assert not set(out + err) & set(ESCAPE) - set("]0;owned[2J31m")
    if as_json and code == 0:
        json.loads(out)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_tables_are_escaped_on_a_terminal_only(hostile, tmp_path, is_terminal):
    arguments = [sys.executable, "-m", "relatent.cli.main", "missing", hostile[1], "--known", hostile[0], "-o", "-"]
    ours, theirs = os.openpty() if is_terminal else os.pipe()
    done = subprocess.run(arguments, stdout=theirs, stderr=subprocess.DEVNULL, timeout=100)
    os.close(theirs)
    assert done.returncode == 0
    printed = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"subject,relation,object" in printed
    assert (ESCAPE.encode() in printed) is not is_terminal
    assert (rb"\x1b]0;owned\x07" in printed) is is_terminal


def test_a_model_that_cannot_be_written_at_the_end_is_kept_elsewhere(capsys, hostile, tmp_path, monkeypatch):
    output, replace = tmp_path / "model.relatent", os.replace

    def refuse(source, target):
        if target == output:
            raise PermissionError(1, "Operation not permitted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, err = run(capsys, "fit", hostile[0], "-o", output, "--model", "als", "--rank", 1)
    assert code == 1
    assert err.count("\n") == 1
    [kept] = tmp_path.glob("relatent-*/model.relatent")
    assert f"Operation not permitted; the model is kept in {kept}: move it" in err
    assert relatent.load(kept).rank == 1


def files_of_each_kind(hostile):
    """A folder with files that are read, and other paths that lead to them."""
    shutil.copy(hostile[0], "data.tsv")
    shutil.copy(hostile[1], "model.relatent")
    Path("q.csv").write_text("subject,relation,object\na,r,\n")
    os.symlink("q.csv", "link.csv")
    os.link("q.csv", "hard.csv")
    os.symlink(".", "here")
    Path("parts").mkdir()
    shutil.copy("data.tsv", "parts/train.tsv")
    Path("types.csv").write_text("id,type\na,t\n")
    with contextlib.closing(sqlite3.connect("f.db", isolation_level=None)) as made:
        made.execute("CREATE TABLE t (s, p, o)")
    Path("q.rq").write_text("SELECT * WHERE { ?s ?p ?o }")


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "model.relatent", "--questions", "q.csv", "-o", "q.csv"),
        ("predict", "model.relatent", "--questions", "q.csv", "-o", "link.csv"),
        ("predict", "model.relatent", "--questions", "link.csv", "-o", "hard.csv"),
        ("predict", "model.relatent", "--questions", "here/q.csv", "-o", "q.csv"),
        ("score", "model.relatent", "q.csv", "-o", "here/here/q.csv"),
        ("missing", "model.relatent", "--known", "*.csv", "-o", "q.csv"),
        ("missing", "model.relatent", "--reviewed", "q.csv", "-o", "q.csv"),
        ("duplicates", "model.relatent", "--known", "q.csv", "-o", "q.csv"),
        ("rules", "data.tsv", "-o", "data.tsv"),
        ("fit", "data.tsv", "-o", "data.tsv"),
        ("fit", "data.tsv", "-o", "m.relatent", "--checkpoint", "data.tsv"),
        ("fit", "data.tsv", "-o", "types.csv", "--types", "types.csv"),
        ("fit", "sqlite:///f.db?table=t", "-o", "f.db"),
        ("fit", "sparql+http://localhost:1/x?query-file=q.rq", "-o", "q.rq"),
        ("split", "parts/*.tsv", "-o", "parts"),
        ("update", "model.relatent", "data.tsv", "-o", "data.tsv"),
        ("tune", "data.tsv", "-o", "data.tsv"),
        ("cross-validate", "data.tsv", "--reliability", "data.tsv"),
    ],
    ids=" ".join,
)
def test_an_output_that_is_an_input_is_refused(capsys, hostile, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    files_of_each_kind(hostile)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert " would overwrite " in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_option_that_writes_says_so():
    """An option named --output that were no OutputPath would not be compared with the inputs."""
    for command in cli.commands.values():
        for parameter in command.params:
            is_output = parameter.name in ("output", "checkpoint", "reliability", "folder")
            assert isinstance(parameter.type, OutputPath) == is_output, (command.name, parameter.name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "loop"), "loop is a symbolic link that leads back to itself"),
        (("-o", "loop", "--checkpoint", "state"), "loop is a symbolic link that leads back to itself"),
        (("-o", "x" * 300), "File name too long"),
        (("-o", "m.relatent", "--set", "l2_entities=" + "[" * 100_000), "l2_entities"),
    ],
)
def test_odd_outputs_and_settings_are_one_line_errors(capsys, hostile, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    os.symlink("loop", "loop")
    code, _, err = run(capsys, "fit", hostile[0], "--model", "als", *arguments)
    assert code in (1, 2)
    assert message in err
    assert "Traceback" not in err
    assert len(err) < 2100


@pytest.mark.parametrize("init", [np.zeros((3, 2)), 5, ["als"]])
def test_a_start_that_is_no_name_is_refused(hostile, init):
    for model in (relatent.RescalALS(init=init), relatent.RescalLogit(init=init), relatent.RescalLogit(2, init=init)):
        with pytest.raises(relatent.InputError, match="init must be a name or Factors, got"):
            model.fit(relatent.read(hostile[0]))


@pytest.mark.parametrize(
    "model", [relatent.RescalALS, relatent.RescalLogit, relatent.Rescal, relatent.NonnegativeRescal]
)
def test_a_setting_of_any_type_is_accepted_or_refused_in_one_line(model):
    facts = relatent.load_dataset("presidents")
    for name in model().get_params():
        for value in (np.zeros(3), np.array(["a"]), 10**400, object(), b"x"):
            with pytest.raises(relatent.InputError) as refused:
                model(**{"rank": 2, "max_iter": 1, name: value}).fit(facts)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("scale", [1e10, 1e30])
def test_factors_whose_scores_overflow_are_not_saved(hostile, tmp_path, scale):
    from dataclasses import replace

    factors = relatent.load(hostile[1])
    with pytest.raises(relatent.FitError, match=r"scores may reach .*, too much for a model; did the fit diverge"):
        replace(factors, A=factors.A * np.float32(scale)).save(tmp_path / "model.relatent")


@pytest.mark.parametrize("password", ["s3cret", "s3/cret", "s3?cret", "s3#cret", "s3@cret", "s3:cret"])
def test_no_command_prints_the_password_of_a_url(capsys, hostile, tmp_path, monkeypatch, password):
    """Whether the source can be read or not: here a database that stands for a server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("relatent.data.read.sql._sqlalchemy", lambda *_: (sqlite3.connect("f.db"), open_it))
    connection = sqlite3.connect("f.db", isolation_level=None)

    def open_it(statement):
        return connection.execute(statement)

    connection.execute("CREATE TABLE t (subject, relation, object)")
    rows = [(f"e{i}", "r", f"e{(i * 7 + 1) % 30}") for i in range(30)]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    url = f"postgresql://me:{password}@host/db?query=SELECT * FROM t"
    als = ("--model", "als", "--rank", 1)
    for arguments in (
        ("fit", url, "-o", "m.relatent", *als),
        ("info", url),
        ("cross-validate", url, "--folds", 2, *als),
        ("evaluate", hostile[1], url, "--known", url),
        ("missing", hostile[1], "--known", url),
        ("fit", f"sparql+http://me:{password}@localhost:1/x", "-o", "m.relatent", "--sql", "no query"),
    ):
        monkeypatch.setattr("relatent.data.read.sparql.MAX_TRIES", 1)
        _, out, err = run(capsys, *arguments)
        assert out + err
        assert "cret" not in out + err, arguments
    connection.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///folder@x/f.db?table=t", "sqlite:///folder@x/f.db"),
        ("http://host:8080/a@b?query=x@y", "http://host:8080/a@b"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
        ("https://me:x@host:1/db?a=b", "https://host:1/db"),
        ("me.db?table=t", "me.db"),
    ],
)
def test_the_rest_of_a_url_is_shown(url, shown):
    assert shown_url(url) == shown

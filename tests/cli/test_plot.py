"""`relatent plot`: every kind of figure, and how the command fails."""

import json

import pytest

import relatent
import small_graphs
from commands import run
from relatent.cli.plot import KINDS, MEASURED
from relatent.plots import figures

pytest.importorskip("matplotlib", reason="needs relatent[plot]")


@pytest.fixture(scope="module")
def world():
    facts = small_graphs.politics()
    train, test = relatent.split(facts, test_size=0.2)
    return relatent.RescalLogit(8, 0.1, 0.1).fit(train).factors_, train, test


@pytest.fixture
def saved(tmp_path, world):
    factors, train, test = world
    factors.save(tmp_path / "model.relatent")
    for name, facts in (("train", train), ("test", test)):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts.named()))
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_kind_is_drawn_with_reproducible_bytes(saved, capsys, kind, ending):
    files = [saved / f"{number}.{ending}" for number in (1, 2)]
    data = ("--test", saved / "test.tsv", "--known", saved / "train.tsv") if kind in MEASURED else ()
    for file in files:
        code, out, err = run(capsys, "plot", saved / "model.relatent", kind, "-o", file, *data, "--json")
        assert code == 0, err
        assert json.loads(out) == {"file": str(file), "kind": kind}
    assert files[0].read_bytes() == files[1].read_bytes()
    start = b"\x89PNG" if ending == "png" else b"<?xml"
    assert files[0].read_bytes().startswith(start)


def test_labels_in_an_svg_are_text(saved, capsys, world):
    code, _, err = run(capsys, "plot", saved / "model.relatent", "map", "-o", saved / "map.svg")
    assert code == 0, err
    drawn = (saved / "map.svg").read_text()
    shown = [text.get_text() for text in figures.entity_map(world[0]).axes[0].texts]
    assert all(f">{name}</text>" in drawn for name in shown)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["reliability", "-o", "a.png"], 2, "reliability needs --test DATA"),
        (["reliability", "-o", "a.png", "--test", "kinships"], 1, "knows no relation of the facts of kinships"),
        (["map", "-o", "a.jpg"], 1, "must end in .png or .svg"),
        (["relation", "-o", "a.png", "-r", "prty"], 1, "unknown relation 'prty'; did you mean 'party'?"),
        (["map", "-o", "a.png", "-r", "party"], 2, "map takes no --relation; that is for relation"),
        (
            ["relation", "-o", "a.png", "--test", "kinships"],
            2,
            "relation takes no --test; that is for precision-recall",
        ),
        (["map", "-o", "a.png", "--known", "kinships"], 2, "map takes no --known; that is for precision-recall"),
        (["portrait", "-o", "a.png"], 2, "'portrait' is not one of"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_message(saved, capsys, monkeypatch, arguments, code, message):
    monkeypatch.chdir(saved)
    got, _, err = run(capsys, "plot", "model.relatent", *arguments)
    assert got == code
    assert message in err
    assert not list(saved.glob("a.*"))

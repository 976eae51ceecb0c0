"""`relatent plot`: what the pictures show, and how the command fails."""

import json

import numpy as np
import pytest

import relatent
import worlds
from commands import run
from relatent.errors import InputError
from relatent.serve import pictures
from relatent.serve.known import Known

pytest.importorskip("matplotlib", reason="needs relatent[plot]")


@pytest.fixture(scope="module")
def world():
    facts = worlds.politics()
    train, test = relatent.split(facts, test_size=0.2)
    return relatent.RescalLogit(8, 0.1, 0.1).fit(train).factors_, train, test


@pytest.fixture
def saved(tmp_path, world):
    factors, train, test = world
    factors.save(tmp_path / "model.relatent")
    for name, facts in (("train", train), ("test", test)):
        (tmp_path / f"{name}.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts.named()))
    return tmp_path


@pytest.mark.parametrize("kind", pictures.KINDS)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_kind_is_drawn_and_the_same_twice(saved, capsys, kind, ending):
    files = [saved / f"{number}.{ending}" for number in (1, 2)]
    data = ("--test", saved / "test.tsv", "--known", saved / "train.tsv")
    for file in files:
        code, out, err = run(capsys, "plot", saved / "model.relatent", kind, "-o", file, *data, "--json")
        assert code == 0, err
        assert json.loads(out) == {"file": str(file), "kind": kind}
    assert files[0].read_bytes() == files[1].read_bytes()
    start = b"\x89PNG" if ending == "png" else b"<?xml"
    assert files[0].read_bytes().startswith(start)


def test_the_objective_is_that_of_the_fit(world):
    (line,) = pictures.objective(world[0]).axes[0].lines
    assert line.get_ydata().tolist() == world[0].about["fit"]["objectives"]


def test_the_heat_map_is_the_relations_matrix(world):
    factors = world[0]
    (image,) = pictures.heat_map(factors, "party").axes[0].images
    np.testing.assert_array_equal(image.get_array(), factors.R[factors.relations.id("party")])


def test_precision_and_recall_are_those_of_the_cells(world):
    factors, train, test = world
    lines = pictures.precision_recall(factors, Known(test, factors), Known(train, factors)).axes[0].lines
    assert [line.get_label().split(":")[0] for line in lines] == ["all", "party", "vicePresident"]
    assert all(line.get_xdata().max() == 1 for line in lines)


def test_the_map_has_a_point_and_a_name_for_every_entity(world):
    axes = pictures.entity_map(world[0]).axes[0]
    assert len(axes.collections[0].get_offsets()) == 42
    assert [text.get_text() for text in axes.texts] == list(world[0].entities)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["reliability", "-o", "a.png"], 2, "reliability needs --test DATA"),
        (["reliability", "-o", "a.png", "--test", "kinships"], 1, "names of no fact of kinships"),
        (["map", "-o", "a.jpg"], 1, "must end in .png or .svg"),
        (["relation", "-o", "a.png", "-r", "prty"], 1, "unknown relation 'prty'; did you mean 'party'?"),
        (["portrait", "-o", "a.png"], 2, "'portrait' is not one of"),
    ],
)
def test_what_cannot_be_drawn_is_said(saved, capsys, monkeypatch, arguments, code, message):
    monkeypatch.chdir(saved)
    got, _, err = run(capsys, "plot", "model.relatent", *arguments)
    assert got == code
    assert message in err
    assert not list(saved.glob("a.*"))


def test_a_model_without_a_trace_says_so(world):
    factors = relatent.Factors(*(getattr(world[0], name) for name in ("A", "R", "bias", "entities", "relations")))
    with pytest.raises(InputError, match="does not say how its fit went"):
        pictures.objective(factors)

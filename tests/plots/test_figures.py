"""`relatent plot`: what the pictures show, and how the command fails."""

import json

import numpy as np
import pytest

import relatent
import worlds
from commands import run
from relatent.analysis.known_facts import KnownFacts
from relatent.cli.plot import KINDS, MEASURED
from relatent.errors import InputError
from relatent.plots import figures as pictures

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_kind_is_drawn_and_the_same_twice(saved, capsys, kind, ending):
    files = [saved / f"{number}.{ending}" for number in (1, 2)]
    data = ("--test", saved / "test.tsv", "--known", saved / "train.tsv") if kind in MEASURED else ()
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
    lines = pictures.precision_recall(factors, KnownFacts(test, factors), KnownFacts(train, factors)).axes[0].lines
    assert [line.get_label().split(":")[0] for line in lines] == ["all", "party", "vicePresident"]
    assert all(line.get_xdata().max() == 1 for line in lines)


def crowd(n):
    """n entities whose names are long: half of them alike, the others of no kind."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, 4)) * (1 + (np.arange(n) % 2))[:, None]
    names = [f"a rather long name, number {i}" for i in range(n)]
    return relatent.Factors(A, rng.normal(size=(2, 4, 4)), np.zeros(2), names, ["likes", "knows"])


def boxes(axes):
    return [text.get_window_extent() for text in axes.texts]


def test_the_map_has_a_point_for_every_entity_and_names_of_its_own(world):
    axes = pictures.entity_map(world[0]).axes[0]
    assert sum(len(group.get_offsets()) for group in axes.collections) == 42
    names = [text.get_text() for text in axes.texts]
    assert len(names) == len(set(names)) > 0
    assert set(names) <= set(world[0].entities)


@pytest.mark.parametrize("n", [2, 5, 300])
def test_no_two_names_on_the_map_overlap_and_all_are_inside(n):
    figure = pictures.entity_map(crowd(n))
    axes = figure.axes[0]
    found = boxes(axes)
    assert 0 < len(found) < 300
    assert not any(one.overlaps(other) for i, one in enumerate(found) for other in found[:i])
    assert all(pictures._inside(box, figure.bbox) for box in found)


def test_names_of_points_on_one_spot_stand_on_its_sides():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot(xlim=(-1, 1), ylim=(-1, 1))
    pictures._name_points(axes, np.zeros((6, 2), np.float32), range(6), ["Ida", "Dora", "Siv", "Nils", "Tor", "Eve"], 0)
    assert [text.get_text() for text in axes.texts] == ["Ida", "Dora", "Siv", "Nils"]  # a side for each of four
    found = boxes(axes)
    assert not any(one.overlaps(other) for i, one in enumerate(found) for other in found[:i])


def test_only_sure_names_cover_a_point_on_every_side():
    from matplotlib.figure import Figure

    rows = np.linspace(-1, 1, 41, dtype=np.float32)
    points = np.stack(np.meshgrid(rows, rows), -1).reshape(-1, 2)
    middle = len(points) // 2
    for sure, named in ((0, 0), (1, 1)):
        axes = Figure().add_subplot(xlim=(-1, 1), ylim=(-1, 1))
        pictures._name_points(axes, points, [middle], ["Ida"] * len(points), sure)
        assert len(axes.texts) == named


def test_every_name_is_drawn_where_there_is_room():
    axes = pictures.entity_map(crowd(5)).axes[0]
    assert len(axes.texts) == 5


def test_twenty_groups_look_different():
    assert len({pictures._look(number) for number in range(20)}) == 20


def test_the_map_says_what_it_shows_and_lists_its_groups(world):
    figure = pictures.entity_map(world[0], "a title")
    says = "a title\nt-SNE of what the model says of each entity; colours: groups by k-means"
    assert figure.get_suptitle() == says
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    groups = relatent.groups(world[0])
    assert listed[:12] == [f"{one.number}: {len(one.names)}, {one.names[0]}" for one in groups][:12]
    assert not figure.axes[0].axison


def test_many_groups_are_listed_in_part():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    for number in range(14):
        axes.scatter([0], [0], label=f"{number}: 1, Ida")
    pictures._list_groups(figure, axes)
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert listed == [*(f"{number}: 1, Ida" for number in range(12)), "… 2 more groups"]


def test_a_map_of_three_entities_says_principal_components():
    assert pictures.entity_map(crowd(3)).get_suptitle().startswith("principal components of")


def test_names_in_an_svg_are_text(saved, capsys, world):
    code, _, err = run(capsys, "plot", saved / "model.relatent", "map", "-o", saved / "map.svg")
    assert code == 0, err
    drawn = (saved / "map.svg").read_text()
    shown = [text.get_text() for text in pictures.entity_map(world[0]).axes[0].texts]
    assert all(f">{name}</text>" in drawn for name in shown)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["reliability", "-o", "a.png"], 2, "reliability needs --test DATA"),
        (["reliability", "-o", "a.png", "--test", "kinships"], 1, "names of no fact of kinships"),
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

"""What the figures show."""

import numpy as np
import pytest

import relatent
import small_graphs
from relatent.errors import InputError
from relatent.evaluation.reliability import Reliability
from relatent.plots import figures

pytest.importorskip("matplotlib", reason="needs relatent[plot]")


@pytest.fixture(scope="module")
def world():
    facts = small_graphs.politics()
    train, test = relatent.split(facts, test_size=0.2)
    return relatent.RescalLogit(8, 0.1, 0.1, calibrate=False).fit(train).factors_, train, test


def test_the_objective_figure_shows_the_objective_of_each_step(world):
    (line,) = figures.objective(world[0]).axes[0].lines
    assert line.get_ydata().tolist() == list(world[0].about.fit.objectives)


def test_the_heat_map_shows_the_matrix_of_the_relation(world):
    factors = world[0]
    (image,) = figures.heat_map(factors, "party").axes[0].images
    np.testing.assert_array_equal(image.get_array(), factors.R[factors.relations.id("party")])


def test_precision_recall_has_a_curve_for_all_facts_and_one_per_relation(world):
    factors, _, test = world
    lines = figures.precision_recall(factors, test).axes[0].lines
    assert [line.get_label().split(":")[0] for line in lines] == ["all", "party", "vicePresident"]
    assert all(line.get_xdata().max() == 1 for line in lines)


def random_model(n):
    """n entities with long names and random factors."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, 4)) * (1 + (np.arange(n) % 2))[:, None]
    names = [f"a rather long name, number {i}" for i in range(n)]
    return relatent.Factors(A, rng.normal(size=(2, 4, 4)), np.zeros(2), names, ["likes", "knows"])


def boxes(axes):
    return [text.get_window_extent() for text in axes.texts]


def test_the_map_has_a_point_per_entity_and_each_label_once(world):
    axes = figures.entity_map(world[0]).axes[0]
    assert sum(len(group.get_offsets()) for group in axes.collections) == 42
    names = [text.get_text() for text in axes.texts]
    assert len(names) == len(set(names)) > 0
    assert set(names) <= set(world[0].entities)


@pytest.mark.parametrize("n", [2, 5, 300])
def test_labels_of_the_map_do_not_overlap_and_lie_inside(n):
    figure = figures.entity_map(random_model(n))
    axes = figure.axes[0]
    found = boxes(axes)
    assert 0 < len(found) < 300
    assert not any(box.overlaps(other) for i, box in enumerate(found) for other in found[:i])
    assert all(figures._inside(box, figure.bbox) for box in found)


def test_four_points_at_one_place_are_labelled_on_its_four_sides():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot(xlim=(-1, 1), ylim=(-1, 1))
    names = dict(enumerate(["Ida", "Dora", "Siv", "Nils", "Tor", "Eve"]))
    figures._label_points(axes, np.zeros((6, 2), np.float32), names, 0)
    assert [text.get_text() for text in axes.texts] == ["Ida", "Dora", "Siv", "Nils"]
    found = boxes(axes)
    assert not any(box.overlaps(other) for i, box in enumerate(found) for other in found[:i])


def test_only_the_first_labels_may_cover_points():
    from matplotlib.figure import Figure

    rows = np.linspace(-1, 1, 41, dtype=np.float32)
    points = np.stack(np.meshgrid(rows, rows), -1).reshape(-1, 2)
    middle = len(points) // 2
    for may_cover_points, n_labels in ((0, 0), (1, 1)):
        axes = Figure().add_subplot(xlim=(-1, 1), ylim=(-1, 1))
        figures._label_points(axes, points, {middle: "Ida"}, may_cover_points)
        assert len(axes.texts) == n_labels


def test_every_entity_is_labelled_where_there_is_space():
    axes = figures.entity_map(random_model(5)).axes[0]
    assert len(axes.texts) == 5


def test_twenty_groups_have_different_styles():
    assert len({figures._group_style(number) for number in range(20)}) == 20


def test_entities_in_no_group_are_on_the_map(world, monkeypatch):
    monkeypatch.setattr(figures, "group_labels", lambda factors, B: np.where(np.arange(len(B)) < 30, 0, -1))
    drawn = figures.entity_map(world[0]).axes[0].collections
    assert sorted(len(points.get_offsets()) for points in drawn) == [12, 30]


def test_the_map_has_a_caption_and_a_legend_of_its_groups(world):
    figure = figures.entity_map(world[0], "a title")
    caption = "a title\nt-SNE of the scores of each entity; colours: groups"
    assert figure.get_suptitle() == caption
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    groups = relatent.groups(world[0])
    assert listed[:12] == [f"{group.number}: {len(group.names)}, {group.names[0]}" for group in groups][:12]
    assert not figure.axes[0].axison


def test_the_legend_lists_at_most_twelve_groups():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    for number in range(14):
        axes.scatter([0], [0], label=f"{number}: 1, Ida")
    figures._add_group_legend(figure, axes)
    listed = [text.get_text() for text in figure.legends[0].get_texts()]
    assert listed == [*(f"{number}: 1, Ida" for number in range(12)), "… 2 more groups"]


def test_a_map_of_three_entities_uses_principal_components():
    assert figures.entity_map(random_model(3)).get_suptitle().startswith("principal components of")


def test_a_model_without_objective_values_is_refused(world):
    factors = relatent.Factors(*(getattr(world[0], name) for name in ("A", "R", "bias", "entities", "relations")))
    with pytest.raises(InputError, match="holds no objective values; fit the model again"):
        figures.objective(factors)


CURVES = {
    "overconfident": Reliability(np.array([0.1, 0.9]), np.array([0.3, 0.7]), np.array([50.0, 50.0])),
    "calibrated": Reliability(np.array([0.2, 0.8]), np.array([0.2, 0.8]), np.array([10.0, 90.0])),
}


def test_the_reliability_diagram_has_a_line_per_curve_with_its_calibration_error():
    axes = figures.reliability_diagram(CURVES, "4 folds").axes[0]
    diagonal, *lines = axes.lines
    assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
    for line, (name, curve) in zip(lines, CURVES.items(), strict=True):
        assert line.get_ydata().tolist() == curve.observed.tolist()
        assert line.get_label() == f"{name}: calibration error {curve.error:.3f}"
    assert axes.get_title(loc="left") == "4 folds"


def test_a_curve_without_cells_is_drawn_as_an_empty_line():
    axes = figures.reliability_diagram({"nothing": Reliability(*np.empty((3, 0)))}).axes[0]
    assert [len(line.get_xdata()) for line in axes.lines] == [2, 0]
    assert len(figures.reliability_diagram({}).axes[0].lines) == 1


def test_plot_reliability_writes_named_curves_and_reports(tmp_path):
    relatent.plot_reliability(CURVES, tmp_path / "curves.svg", title="4 folds")
    drawn = (tmp_path / "curves.svg").read_text()
    assert all(text in drawn for text in ("4 folds", "overconfident: calibration error 0.200"))
    report = relatent.cross_validate(relatent.RescalALS(2, 0.1, 0.1), small_graphs.politics(), folds=2)
    relatent.plot_reliability(report, tmp_path / "report.svg")
    assert "2 folds, held-out cells masked, raw scores" in (tmp_path / "report.svg").read_text()

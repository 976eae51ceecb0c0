"""Figures of models and of cross-validation reports, drawn with Matplotlib; needs relatent[plot]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.entity_map import Points, default_method, project
from ..analysis.groups import group_labels, group_members
from ..analysis.quality import score_rows
from ..analysis.similarity import profiles
from ..errors import InputError, printable
from ..evaluation.reliability import ABOVE, Reliability
from ..evaluation.reliability import reliability as reliability_curve
from ..evaluation.report import Report
from .style import COLOURS, INK, PALE, style_axes, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

    from ..data.facts import Facts
    from ..model.factors import Factors

PROJECTIONS = {"tsne": "t-SNE", "pca": "principal components"}
MAX_LABEL_CANDIDATES = 1000  # entities of a map that are considered for a label
MAX_LISTED_GROUPS = 12  # groups in the legend of a map
LabelSide = tuple[tuple[int, int], str, str]  # offset from the point, horizontal and vertical alignment
LABEL_SIDES: tuple[LabelSide, ...] = (
    ((5, 0), "left", "center"),
    ((-5, 0), "right", "center"),
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
)


def _axes(title: str, x: str, y: str, **options: Any) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), layout="constrained", facecolor="white")
    axes = figure.add_subplot(**options)
    style_axes(axes, x, y, title)
    return figure, axes


def objective(factors: Factors, title: str = "") -> Figure:
    """The objective at each step of the fit."""
    values = factors.about.fit and factors.about.fit.objectives
    if not values:
        raise InputError("the model file holds no objective values; fit the model again")
    figure, axes = _axes(title, "step", "objective")
    axes.plot(range(1, len(values) + 1), values, color=COLOURS[0], linewidth=1.5)
    if min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
    return figure


def precision_recall(factors: Factors, test: Facts, known: Sequence[Facts] = (), title: str = "") -> Figure:
    """Precision against recall on the test facts, and per relation if there are only a few relations."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    cells = score_rows(factors, test, factors.asked(known), np.random.default_rng(0))
    figure, axes = _axes(title, "recall", "precision", xlim=(0, 1), ylim=(0, 1.02))
    curves = {"all": np.ones(len(cells.truth), bool)}
    relations = np.unique(cells.relation[cells.truth]).tolist()
    if 1 < len(relations) < len(COLOURS):
        curves |= {factors.relations[k]: cells.relation == k for k in relations}
    for (name, rows), colour in zip(curves.items(), (INK, *COLOURS), strict=False):
        truth, theta, weights = cells.truth[rows], cells.theta[rows], cells.weights[rows]
        precision, recall, _ = precision_recall_curve(truth, theta, sample_weight=weights)
        average = average_precision_score(truth, theta, sample_weight=weights)
        axes.plot(recall, precision, color=colour, linewidth=1.5, label=f"{name}: average {average:.3f}")
    axes.legend(frameon=False, labelcolor=INK)
    return figure


def reliability(factors: Factors, test: Facts, known: Sequence[Facts] = (), title: str = "") -> Figure:
    """Reliability diagram of a model on the test facts."""
    cells = score_rows(factors, test, factors.asked(known), np.random.default_rng(0))
    curve = reliability_curve(cells.truth, cells.probability, cells.weights, above=ABOVE)
    return reliability_diagram({f"cells above {ABOVE:.0%}": curve}, title)


def reliability_diagram(curves: Mapping[str, Reliability], title: str = "") -> Figure:
    """Share of true cells against predicted probability; calibrated probabilities lie on the diagonal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.8), layout="constrained", facecolor="white")
    axes = figure.add_subplot(aspect="equal", xlim=(0, 1), ylim=(0, 1), facecolor="white")
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle=(0, (4, 4)), zorder=1)
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        label = f"{name}: calibration error {curve.error:.3f}"
        axes.plot(curve.predicted, curve.observed, color=colour, linewidth=1.5, label=label, zorder=2)
        area = 400 * curve.mass / max(curve.mass.sum(), np.finfo(float).tiny)
        axes.scatter(curve.predicted, curve.observed, area, color=colour, edgecolor="white", zorder=3, clip_on=False)
    style_axes(axes, "predicted probability", "share of true cells", title)
    if curves:
        axes.legend(loc="upper left", frameon=False, labelcolor=INK)
    return figure


def plot_reliability(report: Report | Mapping[str, Reliability], path: str | Path, *, title: str = "") -> None:
    """Write the reliability diagram of a report, or of several named curves, to a PNG or SVG file.

    The diagram of a report has its protocol as the title unless `title` is given. Needs relatent[plot].

    >>> import numpy as np, relatent
    >>> curve = relatent.Reliability(np.array([0.2, 0.8]), np.array([0.25, 0.75]), np.array([10, 10]))
    >>> relatent.plot_reliability({"a model": curve}, "reliability.svg")
    """
    curves = {"held-out cells": report.reliability} if isinstance(report, Report) else report
    if isinstance(report, Report):
        title = title or f"{report.protocol}; cells with p > {ABOVE}"
    write_figure(path, lambda: reliability_diagram(curves, title))


def heat_map(factors: Factors, relation: str, title: str = "") -> Figure:
    """R_k: how the components of the subject interact with those of the object."""
    R_k = factors.relation_matrices[factors.relations.id(relation)]
    largest = float(np.abs(R_k).max()) or 1.0
    name = factors.relations.shown(factors.relations.id(relation))
    figure, axes = _axes(f"{title}\n{name}", "component of the object", "component of the subject")
    axes.grid(visible=False)
    image = axes.imshow(R_k, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
    figure.colorbar(image, ax=axes)
    return figure


def entity_map(factors: Factors, title: str = "") -> Figure:
    """Entities in two dimensions, coloured by type, if there are types, or by group; labels do not overlap."""
    from matplotlib.figure import Figure

    B = profiles(factors)
    method = default_method(len(B))
    types = factors.types
    points, labels = project(B, method), group_labels(factors, B) if types is None else types.main_types()
    groups = group_members(B, labels)
    figure = Figure(figsize=(8, 8.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot(aspect="equal", adjustable="datalim")
    axes.set_axis_off()
    axes.margins(0.1, 0.05)
    size = max(2, 60 - 12 * math.log10(len(points)))
    x, y = points[labels < 0].T
    axes.scatter(x, y, s=size, color=PALE, linewidths=0)  # entities in no group
    for number, members in enumerate(groups):
        colour, marker = _group_style(number)
        first = int(members[0])
        name = factors.entities.shown(first) if types is None else types.names.shown(int(labels[first]))
        label = f"{number}: {len(members):,}, {_shorten(name, 20)}"
        x, y = points[members].T
        axes.scatter(x, y, s=size, color=colour, marker=marker, alpha=0.8, linewidths=0, label=label)
    _add_group_legend(figure, axes)
    caption = f"{PROJECTIONS[method]} of the scores of each entity; colours: {'groups' if types is None else 'types'}"
    text = f"{title}\n{caption}".strip()
    figure.suptitle(text, x=0.01, ha="left", fontsize=9, color=INK, wrap=True, parse_math=False)
    figure.draw_without_rendering()  # fixes the layout: labels are measured in it
    figure.set_layout_engine("none")
    most_central_first = [int(i) for rank in zip_longest(*groups) for i in rank if i is not None]
    candidates = most_central_first[:MAX_LABEL_CANDIDATES]
    names = {i: factors.entities.shown(i) for i in candidates}
    _label_points(axes, points, names, may_cover_points=len(groups))
    return figure


def _group_style(number: int) -> tuple[Any, str]:
    """Colour and marker of a group: ten dark colours with circles, then ten pale ones with squares."""
    from matplotlib import colormaps

    number %= 20
    return colormaps["tab20"](2 * number % 20 + number // 10), "os"[number // 10]


def _add_group_legend(figure: Figure, axes: Axes) -> None:
    """List number, size and most central entity of the largest groups below the map."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > MAX_LISTED_GROUPS:
        handles = [*handles[:MAX_LISTED_GROUPS], Line2D([], [], linestyle="")]
        labels = [*labels[:MAX_LISTED_GROUPS], f"… {len(labels) - MAX_LISTED_GROUPS} more groups"]
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=3,
        title="group: number of entities, most central entity",
        alignment="left",
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        labelcolor=INK,
    )
    legend.get_title().set_color(INK)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name with two dollar signs is not a formula


def _label_points(axes: Axes, points: Points, names: Mapping[int, str], may_cover_points: int) -> None:
    """Label points in the order of `names`; a label that finds no free place inside the axes is left out.

    A place is free if it overlaps no other label and covers no point; the first `may_cover_points` labels may cover
    points.
    """
    pixels = axes.transData.transform(points)
    taken: list[Bbox] = []
    for rank, (i, name) in enumerate(names.items()):
        text = axes.annotate(_shorten(name, 40), points[i], (0, 0), textcoords="offset points", parse_math=False)
        text.set(fontsize=7, color=INK)
        places = [(*_try_side(text, side, pixels), side) for side in LABEL_SIDES]
        free = [
            (covered, side, box)
            for covered, box, side in places
            if (rank < may_cover_points or not covered) and _inside(box, axes.bbox) and not box.count_overlaps(taken)
        ]
        if not free:
            text.remove()
            continue
        _, side, box = min(free, key=lambda place: place[0])
        _move_to_side(text, side)
        taken.append(box)


def _move_to_side(text: Annotation, side: LabelSide) -> None:
    position, horizontal, vertical = side
    text.set(position=position, ha=horizontal, va=vertical)


def _try_side(text: Annotation, side: LabelSide, pixels: Any) -> tuple[int, Bbox]:
    """The number of points that the label would cover on this side, and its box."""
    _move_to_side(text, side)
    box = text.get_window_extent().padded(1)
    return box.padded(3).count_contains(pixels), box


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)


def _shorten(name: str, max_length: int) -> str:
    name = printable(name)
    return name if len(name) <= max_length else name[: max_length - 1] + "…"

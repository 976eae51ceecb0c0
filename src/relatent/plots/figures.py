"""Figures of a model, as PNG or SVG; needs relatent[plot]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..analysis.known_facts import KnownFacts
    from ..analysis.projection import Points
    from ..model.factors import Factors

PROJECTIONS = {"tsne": "t-SNE", "pca": "principal components"}
MOST_TRIED, MOST_LISTED = 1000, 12  # entities to name and groups to list on a map
Side = tuple[tuple[int, int], str, str]
SIDES: tuple[Side, ...] = (  # where a name may stand from its point, and by which of its edges
    ((5, 0), "left", "center"),
    ((-5, 0), "right", "center"),
    ((0, 7), "center", "bottom"),
    ((0, -7), "center", "top"),
)


def _axes(title: str, x: str, y: str, **how: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    from ..evaluation.reliability import dress

    figure = Figure(figsize=(6.4, 4.8), layout="constrained", facecolor="white")
    axes = figure.add_subplot(**how)
    dress(axes, x, y, title)
    return figure, axes


def objective(factors: Factors, title: str = "") -> Figure:
    """The objective at each step of the fit."""
    from ..evaluation.reliability import COLOURS

    values = factors.about.get("fit", {}).get("objectives", [])
    if not values:
        raise InputError("the model does not say how its fit went; fit it again with this version")
    figure, axes = _axes(title, "step", "objective")
    axes.plot(range(1, len(values) + 1), values, color=COLOURS[0], linewidth=1.5)
    if min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
    return figure


def precision_recall(factors: Factors, test: KnownFacts, known: KnownFacts | None = None, title: str = "") -> Figure:
    """Precision against recall on the test facts, and on those of each relation where there are few."""
    import numpy as np
    from sklearn.metrics import average_precision_score, precision_recall_curve

    from ..analysis.quality import score_rows
    from ..evaluation.reliability import COLOURS, INK

    cells = score_rows(factors, test, known, np.random.default_rng(0))
    figure, axes = _axes(title, "recall", "precision", xlim=(0, 1), ylim=(0, 1.02))
    parts = {"all": np.ones(len(cells.truth), bool)}
    if 1 < len(np.unique(cells.relation[cells.truth])) < len(COLOURS):
        parts |= {factors.relations[k]: cells.relation == k for k in np.unique(cells.relation[cells.truth]).tolist()}
    for (name, rows), colour in zip(parts.items(), (INK, *COLOURS), strict=False):
        truth, theta, weights = cells.truth[rows], cells.theta[rows], cells.weights[rows]
        precision, recall, _ = precision_recall_curve(truth, theta, sample_weight=weights)
        average = average_precision_score(truth, theta, sample_weight=weights)
        axes.plot(recall, precision, color=colour, linewidth=1.5, label=f"{name}: average {average:.3f}")
    axes.legend(frameon=False, labelcolor=INK)
    return figure


def reliability(factors: Factors, test: KnownFacts, known: KnownFacts | None = None, title: str = "") -> Figure:
    """Share of true cells against predicted probability."""
    import numpy as np

    from ..analysis.quality import score_rows
    from ..evaluation.reliability import ABOVE, figure_of
    from ..evaluation.reliability import reliability as binned

    cells = score_rows(factors, test, known, np.random.default_rng(0))
    p = np.asarray(factors.link.probability(cells.theta), np.float64)
    return figure_of({f"cells above {ABOVE:.0%}": binned(cells.truth, p, cells.weights, above=ABOVE)}, title)


def heat_map(factors: Factors, relation: str, title: str = "") -> Figure:
    """R_k: which components of the subject go with which of the object."""
    import numpy as np

    R_k = factors.R[factors.relations.id(relation)]
    most = float(np.abs(R_k).max()) or 1.0
    figure, axes = _axes(f"{title}\n{relation}", "component of the object", "component of the subject")
    axes.grid(visible=False)
    drawn = axes.imshow(R_k, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    figure.colorbar(drawn, ax=axes)
    return figure


def entity_map(factors: Factors, title: str = "") -> Figure:
    """Entities on a plane, coloured by group, the middle of each group named first; no two names overlap."""
    from matplotlib.figure import Figure

    from ..analysis.groups import cluster, group_members
    from ..analysis.projection import MAX_ENTITIES_TSNE, project
    from ..analysis.similarity import profiles
    from ..evaluation.reliability import INK

    B = profiles(factors)
    method = "tsne" if 3 < len(B) <= MAX_ENTITIES_TSNE else "pca"
    points, groups = project(B, method), group_members(B, cluster(B))
    figure = Figure(figsize=(8, 8.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot(aspect="equal", adjustable="datalim")
    axes.set_axis_off()
    axes.margins(0.1, 0.05)
    size = max(2, 60 - 12 * math.log10(len(points)))
    for number, members in enumerate(groups):
        colour, marker = _look(number)
        label = f"{number}: {len(members):,}, {_short(factors.entities[int(members[0])], 20)}"
        x, y = points[members].T
        axes.scatter(x, y, s=size, color=colour, marker=marker, alpha=0.8, linewidths=0, label=label)
    _list_groups(figure, axes)
    says = f"{PROJECTIONS[method]} of what the model says of each entity; colours: groups by k-means"
    figure.suptitle(f"{title}\n{says}".strip(), x=0.01, ha="left", fontsize=9, color=INK, wrap=True, parse_math=False)
    figure.draw_without_rendering()  # the layout settles, then stays: names are measured in it
    figure.set_layout_engine("none")
    by_rank = [int(i) for rank in zip_longest(*groups) for i in rank if i is not None]
    _name_points(axes, points, by_rank[:MOST_TRIED], factors.entities, sure=len(groups))
    return figure


def _look(number: int) -> tuple[Any, str]:
    """Colour and shape of a group: ten dark colours as circles, then their pale sisters as squares."""
    from matplotlib import colormaps

    number %= 20
    return colormaps["tab20"](2 * number % 20 + number // 10), "os"[number // 10]


def _list_groups(figure: Figure, axes: Any) -> None:
    """Below the map: number, size and most central entity of the largest groups."""
    from matplotlib.lines import Line2D

    from ..evaluation.reliability import INK

    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > MOST_LISTED:
        handles = [*handles[:MOST_LISTED], Line2D([], [], linestyle="")]
        labels = [*labels[:MOST_LISTED], f"… {len(labels) - MOST_LISTED} more groups"]
    drawn = figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=3,
        title="group: entities, the most central of them",
        alignment="left",
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        labelcolor=INK,
    )
    drawn.get_title().set_color(INK)
    for text in drawn.get_texts():
        text.set_parse_math(False)  # a name with two dollars is no formula


def _name_points(axes: Any, points: Points, order: Sequence[int], names: Sequence[str], sure: int) -> None:
    """Names beside their points, in this order; one that finds no free place inside the picture is left out.

    A place is free if no other name is there, and no point; of the first `sure` names it may cover some points.
    """
    from ..evaluation.reliability import INK

    dots, taken = axes.transData.transform(points), []  # type: Any, list[Any]
    for rank, i in enumerate(order):
        text = axes.annotate(_short(names[i], 40), points[i], (0, 0), textcoords="offset points", parse_math=False)
        text.set(fontsize=7, color=INK)
        places = [(*_place(text, side, dots), side) for side in SIDES]
        free = [
            (covered, side, box)
            for covered, box, side in places
            if (rank < sure or not covered) and _inside(box, axes.bbox) and not box.count_overlaps(taken)
        ]
        if not free:
            text.remove()
            continue
        _, side, box = min(free, key=lambda place: place[0])
        _put(text, side)
        taken.append(box)


def _put(text: Any, side: Side) -> None:
    position, ha, va = side
    text.set(position=position, ha=ha, va=va)


def _place(text: Any, side: Side, dots: Any) -> tuple[int, Any]:
    """How many points the name would cover on that side, and its box."""
    _put(text, side)
    box = text.get_window_extent().padded(1)
    return box.padded(3).count_contains(dots), box


def _inside(box: Any, room: Any) -> bool:
    return bool(room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1)


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"

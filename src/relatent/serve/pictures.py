"""`relatent plot`: a model in pictures, PNG or SVG; needs relatent[plot]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from .answer import answer, json_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..model.factors import Factors
    from .known import Known

KINDS = ("objective", "precision-recall", "reliability", "relation", "map")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="FILE.png or FILE.svg.")
@click.option("--test", help="Facts to measure by: for precision-recall and reliability.")
@click.option("--known", multiple=True, help="Facts that are known otherwise, neither right nor wrong (repeatable).")
@click.option("--relation", "-r", help="Whose matrix: for relation.  [default: the first]")
@json_option
def plot(
    model: Path, kind: str, output: Path, test: str | None, known: tuple[str, ...], relation: str | None, as_json: bool
) -> None:
    """Draw how the fit went, how good the model is, a relation's matrix, or a map of the entities.

    Example: relatent plot kinships.relatent map -o map.svg
    """
    from ..evaluation.reliability import check_picture, write_picture
    from ..model.storage import load
    from . import show

    check_picture(output)
    factors = load(model)
    measured = kind in ("precision-recall", "reliability")
    if measured and test is None:
        raise click.UsageError(f"{kind} needs --test DATA, facts to measure by")
    facts = _facts(factors, test, known) if measured else None
    title = f"{factors.about.get('model', 'model')}, rank {factors.rank}: {model.name}"
    draw: dict[str, Callable[[], Figure]] = {
        "objective": lambda: objective(factors, title),
        "precision-recall": lambda: precision_recall(factors, *facts, title=title),  # type: ignore[misc]
        "reliability": lambda: reliability(factors, *facts, title=title),  # type: ignore[misc]
        "relation": lambda: heat_map(factors, relation or factors.relations[0], title),
        "map": lambda: entity_map(factors, title),
    }
    write_picture(output, draw[kind])
    answer(as_json, {"file": str(output), "kind": kind}, lambda: [show.values("drawn", [(kind, output)])])


def _facts(factors: Factors, test: str | None, known: tuple[str, ...]) -> tuple[Known, Known | None]:
    from .known import Known
    from .sources import open_facts

    assert test is not None
    found = Known(open_facts(test, split="test"), factors)
    if not len(found):
        raise InputError(f"the model knows the names of no fact of {test}; give facts of the same data")
    return found, Known([open_facts(source, split="train") for source in known], factors) if known else None


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


def precision_recall(factors: Factors, test: Known, known: Known | None = None, title: str = "") -> Figure:
    """Precision against recall on the test facts, and on those of each relation where there are few."""
    import numpy as np
    from sklearn.metrics import average_precision_score, precision_recall_curve

    from ..evaluation.reliability import COLOURS, INK
    from .quality import whole_rows

    cells = whole_rows(factors, test, known, np.random.default_rng(0))
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


def reliability(factors: Factors, test: Known, known: Known | None = None, title: str = "") -> Figure:
    """Share of true cells against predicted probability."""
    import numpy as np

    from ..evaluation.reliability import ABOVE, figure_of
    from ..evaluation.reliability import reliability as binned
    from .quality import whole_rows

    cells = whole_rows(factors, test, known, np.random.default_rng(0))
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
    """Entities on a plane, coloured by group; named where there are few."""
    import numpy as np

    from ..evaluation.reliability import COLOURS
    from . import queries
    from .projection import MOST_TSNE, plane

    B = queries.profiles(factors)
    points, labels = plane(B, "tsne" if len(B) <= MOST_TSNE else "pca"), queries.labels_of(B)
    figure, axes = _axes(title, "", "", aspect="equal", xticks=[], yticks=[])
    figure.set_size_inches(8, 8)
    axes.grid(visible=False)
    colours = np.array(COLOURS)[labels % len(COLOURS)]
    axes.scatter(*points.T, s=max(1, 60 - 12 * np.log10(len(points))), c=colours, alpha=0.8, linewidths=0)
    if len(points) <= 150:
        for name, (x, y) in zip(factors.entities, points.tolist(), strict=True):
            axes.annotate(name, (x, y), xytext=(4, 2), textcoords="offset points", fontsize=6)
    return figure

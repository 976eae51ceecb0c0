"""Whether probabilities mean what they say: of cells given 70 %, are 70 % true?"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..arrays import Mask, Vector
from ..atomic_write import check_writable, replacing
from ..errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOVE = 0.05  # reports tell the calibration of cells more likely than that: of the others nearly all are false
KINDS = ("png", "svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito: told apart by all eyes
INK, PALE = "#333333", "#b0b0b0"


class Reliability(NamedTuple):
    """Cells in bins of about equal mass, from the least to the most likely."""

    predicted: Vector  # (bins,) mean probability
    observed: Vector  # (bins,) share of true cells
    mass: Vector  # (bins,) cells, or the sum of their weights

    @property
    def error(self) -> float:
        """Expected calibration error: Σ mass · |predicted − observed| / Σ mass; NaN without cells."""
        gap = np.abs(self.predicted - self.observed)
        return float(np.average(gap, weights=self.mass)) if len(gap) else float("nan")


def reliability(
    truth: Mask, probabilities: Vector, weights: Vector | None = None, bins: int = 10, above: float = 0.0
) -> Reliability:
    """Mean probability beside the share of true cells, over cells with a probability above `above`.

    Cells of the same probability share a bin, the one their middle falls into, so that the order of cells does not
    matter; where many are alike there are fewer bins than asked for.
    """
    _check(truth, probabilities, weights, bins)
    keep = np.asarray(probabilities) > above
    p, t = np.asarray(probabilities, np.float64)[keep], np.asarray(truth, bool)[keep]
    w = np.ones(len(p)) if weights is None else np.asarray(weights, np.float64)[keep]
    values, same = np.unique(p, return_inverse=True)
    mass = np.bincount(same, w, len(values))
    middle = np.cumsum(mass) - mass / 2
    place = np.minimum(bins * middle / max(mass.sum(), np.finfo(float).tiny), bins - 1).astype(np.int64)
    total = np.bincount(place, mass, bins).astype(np.float64)  # without cells, NumPy counts in integers
    filled = total > 0
    predicted = np.bincount(place, mass * values, bins)[filled] / total[filled]
    observed = np.bincount(place[same], w * t, bins)[filled] / total[filled]
    return Reliability(predicted, observed, total[filled])


def expected_calibration_error(
    truth: Mask, probabilities: Vector, weights: Vector | None = None, bins: int = 10, above: float = 0.0
) -> float:
    """Mean gap between probability and share of true cells, over bins of equal mass; see `reliability`."""
    return reliability(truth, probabilities, weights, bins, above).error


def _check(truth: Mask, probabilities: Vector, weights: Vector | None, bins: int) -> None:
    lengths = {len(values) for values in (truth, probabilities, weights) if values is not None}
    if len(lengths) > 1:
        raise InputError(f"truth, probabilities and weights must be equally long, got {sorted(lengths)}")
    wrong = ~((np.asarray(probabilities) >= 0) & (np.asarray(probabilities) <= 1))
    if wrong.any():
        raise InputError(f"probabilities must be within 0 and 1, got {np.asarray(probabilities)[wrong][0]}")
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise InputError(f"bins must be a whole number of at least 1, got {bins!r}")


# --- the picture


def check_picture(path: str | Path) -> Path:
    """Where the picture goes; a place where none can be written is refused, before the work that it is to show."""
    target = Path(os.path.realpath(path))
    if target.suffix.lower().removeprefix(".") not in KINDS:
        raise InputError(f"{target}: a picture must end in .png or .svg")
    check_writable(target)
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError("pictures need matplotlib; install it with: pip install 'relatent[plot]'")
    return target


def draw_reliability(curves: Mapping[str, Reliability], path: str | Path, *, title: str = "") -> None:
    """Draw reliability curves into one PNG or SVG file; on the diagonal probabilities mean what they say."""
    write_picture(path, lambda: figure_of(curves, title))


def write_picture(path: str | Path, draw: Callable[[], Figure]) -> None:
    """Write a figure to a PNG or SVG file, whole or not at all; the same figure gives the same bytes."""
    target = check_picture(path)
    import matplotlib

    kind = target.suffix.lower().removeprefix(".")
    stamp = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        # fonttype: text stays text, so that names can be searched
        with matplotlib.rc_context({"svg.hashsalt": "relatent", "svg.fonttype": "none"}), replacing(target) as part:
            draw().savefig(part, format=kind, dpi=150, metadata=stamp)
    except OSError as error:
        raise InputError(f"{target}: the picture could not be written: {error}") from error


def figure_of(curves: Mapping[str, Reliability], title: str) -> Figure:
    """The reliability curves as a figure."""
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
    dress(axes, "predicted probability", "share of true cells", title)
    if curves:
        axes.legend(loc="upper left", frameon=False, labelcolor=INK)
    return figure


def dress(axes: Any, x: str, y: str, title: str = "") -> None:
    """The look of our plots: pale lines, dark words."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    if title:
        axes.set_title(title, fontsize=9, color=INK, loc="left", wrap=True)

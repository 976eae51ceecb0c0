"""The look of all figures, and writing them to PNG or SVG files; needs relatent[plot]."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_write import check_writable, replacing
from ..errors import InputError, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito's colour-blind safe set
INK, PALE = "#333333", "#b0b0b0"


def check_figure_path(path: str | Path) -> Path:
    """The resolved path; raises InputError if no figure can be written there or Matplotlib is missing."""
    target = Path(os.path.realpath(path))
    if target.suffix.lower().removeprefix(".") not in FORMATS:
        raise InputError(f"{target}: the file name of a figure must end in .png or .svg")
    check_writable(target)
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(
            "figures need Matplotlib; install it with: pip install 'relatent[plot]' (in a clone: '.[plot]')"
        )
    return target


def write_figure(path: str | Path, draw: Callable[[], Figure]) -> None:
    """Write a figure to a PNG or SVG file atomically; equal figures give equal bytes."""
    target = check_figure_path(path)
    import matplotlib
    from matplotlib.text import Text

    file_format = target.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if file_format == "svg" else {"Software": None}
    try:
        # fonttype none: text stays text in an SVG, so that names can be searched; parse_math: a name is no formula
        settings: Any = {"svg.hashsalt": "relatent", "svg.fonttype": "none", "text.parse_math": False}
        with matplotlib.rc_context(settings), replacing(target) as part:
            figure = draw()
            for text in figure.findobj(Text):
                text.set_text(printable(text.get_text()))
            figure.savefig(part, format=file_format, dpi=150, metadata=metadata)
    except OSError as error:
        raise InputError(f"{target}: the figure could not be written: {error.strerror or error}") from error


def style_axes(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes and apply the common style: pale lines, dark text."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.tick_params(colors=INK)
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALE)
    if title:
        axes.set_title(title, fontsize=9, color=INK, loc="left", wrap=True)

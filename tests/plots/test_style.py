"""Writing figures: file formats, reproducible bytes, refused paths."""

import os
import sys

import pytest

from relatent.errors import InputError
from relatent.plots.style import check_figure_path, style_axes, write_figure

pytest.importorskip("matplotlib", reason="needs relatent[plot]")


def draw():
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1])
    style_axes(axes, "step", "objective", "a title")
    return figure


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("SVG", b"<?xml")])
def test_the_file_name_decides_the_format(tmp_path, ending, start):
    path = tmp_path / f"figure.{ending}"
    write_figure(path, draw)
    assert path.read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_equal_figures_give_equal_bytes(tmp_path, ending):
    paths = [tmp_path / f"{number}.{ending}" for number in (1, 2)]
    for path in paths:
        write_figure(path, draw)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_labels_and_title_are_text_in_an_svg(tmp_path):
    write_figure(tmp_path / "figure.svg", draw)
    drawn = (tmp_path / "figure.svg").read_text()
    assert all(f">{text}</text>" in drawn for text in ("step", "objective", "a title"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("figure.gif", r"figure.gif: the file name of a figure must end in \.png or \.svg"),
        ("figure", r"the file name of a figure must end in \.png or \.svg"),
        ("missing/figure.svg", "does not exist; create it first"),
        ("folder.svg", "is a folder; give the name of a file in it"),
    ],
)
def test_a_path_that_cannot_hold_a_figure_is_refused(tmp_path, name, message):
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=message):
        check_figure_path(tmp_path / name)
    with pytest.raises(InputError, match=message):
        write_figure(tmp_path / name, draw)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "figure.svg"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="the figure could not be written: no space left"):
        write_figure(path, draw)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["figure.svg"]


def test_without_matplotlib_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"figures need Matplotlib; install it with: pip install 'relatent\[plot\]'"):
        check_figure_path(tmp_path / "figure.svg")

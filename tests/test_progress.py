"""Bars read well."""

import io

import pytest
from rich.console import Console

from relatent.progress import bar


def shown(reports, **settings):
    """The last state of a bar after some reports (done, total, note)."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with bar("fitting [als]", console=console, **settings) as progress:
        for report in reports:
            progress(*report)
    return out.getvalue()


def test_a_bar_tells_steps_and_what_there_is_to_say():
    text = shown([(3, 500, "objective 7 [x]")])
    assert all(part in text for part in ("fitting [als]", "3/500", "objective 7 [x]", "about", "left"))


def test_a_fit_that_may_converge_says_at_most():
    assert "at most" in shown([(3, 500, "")], at_most=True)


def test_before_the_first_step_a_bar_says_what_is_going_on():
    assert "looking for a start" in shown([], note="looking for a start")


def test_bytes_are_shown_as_bytes():
    assert "0.5/2.0 GB" in shown([(500_000_000, 2_000_000_000, "7 facts")], in_bytes=True)


@pytest.mark.parametrize("seconds_a_step", [0.5, 300.0])
def test_the_time_left_is_known_however_long_a_step_takes(seconds_a_step):
    now = [0.0]
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None, get_time=lambda: now[0])
    with bar("fitting", console=console) as progress:
        for done in range(1, 5):
            now[0] += seconds_a_step
            progress(done, 24, "")
    left = {0.5: "0:00:10 left", 300.0: "1:40:00 left"}[seconds_a_step]
    assert left in out.getvalue()


def test_nothing_is_drawn_where_nobody_looks():
    out = io.StringIO()
    with bar("fitting", console=Console(file=out)) as progress:
        progress(1, 2, "")
    assert out.getvalue() == ""

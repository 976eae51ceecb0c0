"""Bars and lines read well."""

import io
import json
import re
import threading
import time

import pytest
from rich.console import Console

from commands import run
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


# --- without a terminal


class Clock:
    """Simulated time, for `time.monotonic` and `threading.Event`; it starts when the work has reported everything."""

    Thread = threading.Thread

    def __init__(self, seconds):
        self.now, self.end, self._reported = 0.0, seconds, threading.Event()

    def monotonic(self):
        return self.now

    def Event(self):
        return self

    def set(self):
        self._reported.set()

    def wait(self, pause):
        self._reported.wait()
        self.now += pause
        return self.now > self.end


def written(reports, seconds, monkeypatch, **settings):
    """The lines of work without a terminal that reports, then takes some seconds."""
    out, clock = io.StringIO(), Clock(seconds)
    for module in ("time", "threading"):
        monkeypatch.setattr(f"relatent.progress.{module}", clock)
    with bar("fitting [als]", console=Console(file=out), **settings) as progress:
        for report in reports:
            progress(*report)
    return out.getvalue().splitlines()


def test_without_a_terminal_work_that_ends_soon_writes_nothing():
    out = io.StringIO()
    with bar("fitting", console=Console(file=out)) as progress:
        progress(1, 2, "")
    assert out.getvalue() == ""


def test_without_a_terminal_a_line_now_and_then_tells_what_is_done(monkeypatch):
    lines = written([(1, 5000, "objective 9"), (1200, 5000, "objective 7 [x]")], 35, monkeypatch)
    assert len(lines) == 3  # a line every ten seconds, also while nothing is reported
    assert lines[-1] == "fitting [als]: 1,200 of 5,000, objective 7 [x], 0:00:30 elapsed"


def test_lines_say_at_most_count_bytes_and_tell_what_goes_on_before_the_first_report(monkeypatch):
    assert "3 of at most 500" in written([(3, 500, "")], 12, monkeypatch, at_most=True)[-1]
    reading = written([(500_000_000, 2_000_000_000, "7 facts")], 12, monkeypatch, in_bytes=True)
    assert "500 MB of 2,000 MB, 7 facts" in reading[-1]
    starting = written([], 12, monkeypatch, note="computing the start")
    assert starting[-1] == "fitting [als]: computing the start, 0:00:10 elapsed"


def test_lines_become_rarer_the_longer_the_work_takes(monkeypatch):
    monkeypatch.setattr("relatent.progress.MAX_LINE_RATE", 1.0)
    assert len(written([], 150, monkeypatch)) == 4  # after 10, 20, 40 and 80 seconds


def test_the_writer_ends_with_the_work_and_when_nobody_reads(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("relatent.progress.SECONDS_BETWEEN_LINES", 0.01)
    with bar("fitting", console=Console(file=Closed())):
        time.sleep(0.1)
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]


@pytest.mark.parametrize("command", ["fit", "cross-validate", "tune"])
def test_long_commands_write_lines_on_standard_error_only(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr("relatent.progress.SECONDS_BETWEEN_LINES", 0.02)
    arguments = {
        "fit": ("-o", tmp_path / "model.relatent", "--rank", 20, "--max-iter", 30),
        "cross-validate": ("--rank", 5, "--folds", 2, "--model", "als", "--jobs", 1),
        "tune": ("-o", tmp_path / "model.relatent", "--trials", 1, "--model", "als"),
    }[command]
    code, out, err = run(capsys, command, "kinships", *arguments, "--json")
    assert code == 0, err
    json.loads(out)
    title = {"fit": "fitting logit", "cross-validate": "cross-validating als", "tune": "searching"}[command]
    lines = [line for line in err.splitlines() if line.startswith(f"{title}: ")]
    assert any(re.fullmatch(rf"{title}: \d+ of (at most )?\d+, .*\d:\d\d:\d\d elapsed", line) for line in lines), err

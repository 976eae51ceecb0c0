"""The section and the plot of `time-to-quality` in docs/benchmarks.md."""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

DOCS = Path(__file__).resolve().parents[1] / "docs"
Run = dict[str, Any]
OURS = "relatent"
PAGE_WIDTH = 100


def section(results: dict[str, Any]) -> str:
    """MRR against seconds of training, and the settings of every competitor."""
    if "time-to-quality" not in results:
        return ""
    report = results["time-to-quality"]
    found = report["results"]
    machine = report["machine"]
    best = {graph: best_runs(list(runs)) for graph, runs in _by_data(found["runs"])}
    _plot(best)
    page = [
        "## Time to quality\n\n### time-to-quality\n",
        "![test MRR against seconds of training](benchmarks-time.svg)\n",
        textwrap.fill(
            f"{machine['cpu']}, {found['cores_per_competitor']} cores per competitor, side by side; "
            f"{_commits(found['runs'])}, "
            f"seed {report['seed']}. Ranks: {found['protocol']}. Seconds are those of "
            "training, without imports, compilation and evaluation. Ours are `RescalLogit(calibrate=False)` and "
            '`Rescal(loss="softmax", calibrate=False)` without other options; their points are whole fits, and the '
            "table has the default length. Peers have several settings, guided by published ones "
            "(`benchmarks/time_to_quality_settings.py` has all): the table shows the setting "
            "and the moment with the best validation MRR, as early stopping would. Budgets are 60 s (CoDEx-S), 150 s "
            "(WN18RR) and 380 s (FB15k-237) of training; a run that the end of the whole run cut short ends earlier. "
            "The commands, each as of its commit:",
            PAGE_WIDTH,
        ),
        "",
        f"    {report['command']}\n",
        "| data | competitor | seconds | validation MRR | test MRR | other settings, validation | setting |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for graph, runs in best.items():
        page += [_row(graph, name, run, others) for name, (run, others) in runs.items()]
    page.append("")
    page += [line for graph, runs in best.items() if (line := _comparison(graph, runs))]
    return "\n".join(page) + "\n"


def _commits(runs: list[Run]) -> str:
    """Of ours, by data set; peers do not depend on it."""
    return ", ".join(
        f"{run['competitor']} on {run['data']} commit `{run['commit'][:7]}`"
        + (" with changes" if run["commit"].endswith("-dirty") else "")
        for run in runs
        if _is_ours(run["competitor"])
    )


def _is_ours(competitor: str) -> bool:
    return competitor.startswith(OURS)


def _by_data(runs: list[Run]) -> Any:
    order = ["codex-s", "wn18rr", "fb15k-237"]
    kept = sorted((run for run in runs if run["points"]), key=lambda run: order.index(run["data"]))
    return groupby(kept, key=lambda run: run["data"])


def best_runs(runs: list[Run]) -> dict[str, tuple[Run, list[Run]]]:
    """The run of each competitor with the best validation MRR, and its other runs."""
    best: dict[str, tuple[Run, list[Run]]] = {}
    for name in sorted({run["competitor"] for run in runs}, key=lambda name: (not _is_ours(name), name)):
        first, *others = sorted((run for run in runs if run["competitor"] == name), key=lambda run: -max(_quality(run)))
        best[name] = first, others
    return best


def _row(graph: str, name: str, run: Run, others: list[Run]) -> str:
    shown = _default(run) if _is_ours(name) else _best(run)
    of_others = ", ".join(f"{max(_quality(other)):.4f}" for other in others)
    settings = "no options" if name == OURS else 'loss="softmax"' if _is_ours(name) else _setting(run["settings"])
    figures = f"{shown['seconds']:.0f} | {shown['valid_mrr']:.4f} | {shown['test_mrr']:.4f}"
    return f"| {graph} | {name} | {figures} | {of_others} | {settings} |"


def _default(run: Run) -> Run:
    """The point of the default length, which is the first one that is run."""
    default = run["settings"]["rounds"][0]
    return next((point for point in run["points"] if point["max_iter"] == default), run["points"][-1])


def _best(run: Run) -> Run:
    """The point at which early stopping on validation facts would end."""
    return max(run["points"], key=lambda point: point["valid_mrr"])


def _setting(settings: Run) -> str:
    shown = {key: value for key, value in settings.items() if key != "model" and value not in (None, 0.0, [0.0, 0.0])}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())


def _comparison(graph: str, runs: dict[str, tuple[Run, list[Run]]]) -> str:
    """When ours and the best peer reach the validation MRR that both reach."""
    quality = {name: max(_quality(run)) for name, (run, _) in runs.items()}
    pair = [
        max((name for name in runs if _is_ours(name) is ours), key=quality.get, default="") for ours in (True, False)
    ]
    if not all(pair):
        return ""
    level = min(quality[name] for name in pair)
    seconds = [
        next(point["seconds"] for point in runs[name][0]["points"] if point["valid_mrr"] >= level) for name in pair
    ]
    return textwrap.fill(
        f"- {graph}: validation MRR {level:.4f} is reached by {pair[0]} in {seconds[0]:.0f} s, "
        f"by the best peer here, {pair[1]}, in {seconds[1]:.0f} s.",
        PAGE_WIDTH,
        subsequent_indent="  ",
    )


def _quality(run: Run) -> list[float]:
    return [point["valid_mrr"] for point in run["points"]]


def _plot(best: dict[str, dict[str, tuple[Run, list[Run]]]]) -> None:
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same numbers give the same file
    figure, axes = plt.subplots(1, len(best), figsize=(4.5 * len(best), 4), layout="constrained", squeeze=False)
    names = sorted({name for runs in best.values() for name in runs}, key=lambda name: (not _is_ours(name), name))
    colours = {name: f"C{number}" for number, name in enumerate(names)}  # the same in all panels
    for axis, (graph, runs) in zip(axes[0], best.items(), strict=True):
        for name, (run, _) in runs.items():
            seconds, quality = ([point[key] for point in run["points"]] for key in ("seconds", "test_mrr"))
            axis.semilogx(seconds, quality, "o-", color=colours[name], label=name, lw=2.5 if _is_ours(name) else 1.2)
        axis.set(xlabel="seconds of training, 2 cores", title=graph)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0][0].set_ylabel("filtered test MRR")
    axes[0][0].legend(fontsize=8)
    figure.savefig(DOCS / "benchmarks-time.svg", metadata={"Date": None})
    plt.close(figure)

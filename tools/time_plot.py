"""The section and the plot of `time-to-quality` in docs/benchmarks.md."""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

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
            f"{machine['cpu']}, {found['cores_per_competitor']} cores per competitor, side by side; commit "
            f"`{report['commit'][:7]}`, seed {report['seed']}. Ranks: {found['protocol']}. Seconds are those of "
            "training, without imports, compilation and evaluation. Ours is `RescalLogit()` without options; its "
            "points are whole fits with a `max_iter` of their own, 100 being the default. Each peer had two settings, "
            "guided by published ones; that with the better last validation MRR is shown "
            "(`benchmarks/time_to_quality_settings.py` has all).",
            PAGE_WIDTH,
        ),
        "",
        f"    {report['command']}\n",
        "| data | competitor | seconds | validation MRR | test MRR | other setting, validation | setting |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for graph, runs in best.items():
        page += [_row(graph, name, run, others) for name, (run, others) in runs.items()]
    page.append("")
    page += [line for graph, runs in best.items() if (line := _comparison(graph, runs))]
    return "\n".join(page) + "\n"


def _by_data(runs: list[Run]) -> Any:
    order = ["codex-s", "wn18rr", "fb15k-237"]
    kept = sorted((run for run in runs if run["points"]), key=lambda run: order.index(run["data"]))
    return groupby(kept, key=lambda run: run["data"])


def best_runs(runs: list[Run]) -> dict[str, tuple[Run, list[Run]]]:
    """The run of each competitor with the best last validation MRR, and its other runs."""
    best: dict[str, tuple[Run, list[Run]]] = {}
    for name in sorted({run["competitor"] for run in runs}, key=lambda name: (name != OURS, name)):
        first, *others = sorted(
            (run for run in runs if run["competitor"] == name), key=lambda run: -run["points"][-1]["valid_mrr"]
        )
        best[name] = first, others
    return best


def _row(graph: str, name: str, run: Run, others: list[Run]) -> str:
    last = _default(run) if name == OURS else run["points"][-1]
    of_others = ", ".join(f"{other['points'][-1]['valid_mrr']:.4f}" for other in others)
    settings = "no options" if name == OURS else _setting(run["settings"])
    figures = f"{last['seconds']:.0f} | {last['valid_mrr']:.4f} | {last['test_mrr']:.4f}"
    return f"| {graph} | {name} | {figures} | {of_others} | {settings} |"


def _default(run: Run) -> Run:
    """The point of the default length."""
    return next((point for point in run["points"] if point["max_iter"] == 100), run["points"][-1])


def _setting(settings: Run) -> str:
    shown = {key: value for key, value in settings.items() if key != "model" and value not in (None, 0.0, [0.0, 0.0])}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())


def _comparison(graph: str, runs: dict[str, tuple[Run, list[Run]]]) -> str:
    """When ours and the best peer reach the validation MRR that both reach."""
    if OURS not in runs or len(runs) < 2:
        return ""
    peer = max((name for name in runs if name != OURS), key=lambda name: max(_quality(runs[name][0])))
    level = min(max(_quality(runs[name][0])) for name in (OURS, peer))
    seconds = [
        next(point["seconds"] for point in runs[name][0]["points"] if point["valid_mrr"] >= level)
        for name in (OURS, peer)
    ]
    return textwrap.fill(
        f"- {graph}: validation MRR {level:.4f} is reached by ours in {seconds[0]:.0f} s, "
        f"by the best peer here, {peer}, in {seconds[1]:.0f} s.",
        PAGE_WIDTH,
        subsequent_indent="  ",
    )


def _quality(run: Run) -> list[float]:
    return [point["valid_mrr"] for point in run["points"]]


def _plot(best: dict[str, dict[str, tuple[Run, list[Run]]]]) -> None:
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same numbers give the same file
    figure, axes = plt.subplots(1, len(best), figsize=(4.5 * len(best), 4), layout="constrained", squeeze=False)
    for axis, (graph, runs) in zip(axes[0], best.items(), strict=True):
        for name, (run, _) in runs.items():
            seconds, quality = ([point[key] for point in run["points"]] for key in ("seconds", "test_mrr"))
            axis.semilogx(seconds, quality, "o-", label=name, linewidth=2.5 if name == OURS else 1.2)
        axis.set(xlabel="seconds of training, 2 cores", title=graph)
    axes[0][0].set_ylabel("filtered test MRR")
    axes[0][0].legend(fontsize=8)
    figure.savefig(DOCS / "benchmarks-time.svg", metadata={"Date": None})
    plt.close(figure)

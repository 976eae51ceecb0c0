"""Write docs/benchmarks.md and its plots from the measurements in benchmarks/results/*.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import time_plot
from matplotlib import pyplot as plt

from relatent.atomic_write import replacing

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
Result = dict[str, Any]
Points = tuple[list[float], list[float]]

INTRODUCTION = """\
# Benchmarks

Each section is one run of `python benchmarks/run.py NAME --save`, which writes
`benchmarks/results/NAME.json` with everything it measured, the machine, the commit and the load.
`python tools/build_benchmarks.py` makes this page from those files; no number is typed by hand.

- Memory is the peak of a process that ran the measurement alone.
- Peers work on the same facts, from the same start if they accept one, on the same machine, in turns
  or each on cores of its own; their results are compared as well as their times (those that
  optimise another objective by the ranks of test facts).
- *Others* is the CPU time that other processes used meanwhile, as a share of the whole machine: the
  larger it is, the slower all times beside it are.
"""


def main() -> None:
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in _files()}
    measured = {name: result for name, result in results.items() if "machine" in result and "results" in result}
    about = _about()
    plots = [_on_a_gpu(measured), time_plot.section(measured), _growth(measured), _ranks(measured)]
    page = [INTRODUCTION, _machine(measured), _at_a_glance(measured, about), *filter(None, plots), "## Each run\n"]
    page += [_details(name, measured[name], about) for name in about if name in measured and name not in TABLES]
    with replacing(DOCS / "benchmarks.md") as file:
        file.write_text("\n".join(page), encoding="utf-8")


def _files() -> list[Path]:
    return sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def _about() -> dict[str, str]:
    """What each benchmark measures, in the order of `run.py --list`."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import run

    return {name: about for name, (_, _, about) in run.BENCHMARKS.items()}


# --- tables


def _machine(results: dict[str, Result]) -> str:
    kinds = sorted({_kind(result["machine"]) for result in results.values()})
    return f"Measured on: {'; '.join(kinds)}.\n"


def _kind(machine: Result) -> str:
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB"


def _at_a_glance(results: dict[str, Result], about: dict[str, str]) -> str:
    lines = ["## At a glance\n", "| run | commit | what | measured | asked for | |", "|---|---|---|---:|---:|---|"]
    for name in about:
        commit = results.get(name, {}).get("commit", "")[:7]
        for path, bar in _bars(results.get(name, {}).get("results", {})):
            asked = f"≥ {_number(bar['at_least'])}" if "at_least" in bar else f"≤ {_number(bar['at_most'])}"
            met = "yes" if bar["met"] else "**no**"
            figures = f"{_number(bar['measured'])} | {asked} | {met}"
            lines.append(f"| [{name}](#{name}) | `{commit}` | {_words(path)} | {figures} |")
    return "\n".join(lines) + "\n"


def _bars(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Result]]:
    """Every measured number that has a bar to meet."""
    if isinstance(value, dict) and "measured" in value and "met" in value:
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _bars(inner, (*path, key))


def _details(name: str, result: Result, about: dict[str, str]) -> str:
    m = result["machine"]
    facts = f"{result['date'][:10]}, commit `{result['commit'][:7]}`" + (
        " with changes" if result["commit"].endswith("-dirty") else ""
    )
    load = f"load before {m['load_average_before'][0]:g}, others {_others(m)}"
    rows = [f"| {_words(path)} | {_number(value)} |" for path, value in _leaves(result["results"])]
    head = [f"### {name}\n", f"{about[name][0].upper()}{about[name][1:]}.", f"{facts}; {load}.\n"]
    return "\n".join([*head, f"    {result['command']}\n", "| | |", "|---|---:|", *rows]) + "\n"


def _others(machine: Result) -> str:
    if machine["other_cpu_seconds"] is None:
        return "unknown"
    return f"{machine['other_cpu_seconds'] / (machine['wall_seconds'] * machine['cores']):.0%}"


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Numbers and lists of numbers; the best of repeated times, and the share of CPU time that other processes used."""
    if not isinstance(value, dict):
        yield path, value
    elif "measured" in value:
        yield path, value["measured"]
    elif set(value) == {"best", "median", "n"}:
        yield (*path, f"best of {value['n']}"), value["best"]
    elif "other_cpu_seconds" in value and "wall_seconds" in value:
        if "cores" in value:
            yield (*path, "others"), _others(value)
    else:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))


def _words(path: tuple[str, ...]) -> str:
    return ": ".join(part.replace("_", " ") for part in path if part != "bars")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " · ".join(_number(each) for each in value)
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


GPU_TABLES = ("gpu-exact", "gpu-presets")
TABLES = (*GPU_TABLES, "time-to-quality")  # runs with their own tables


def _on_a_gpu(results: dict[str, Result]) -> str:
    """Ranking quality of the presets, and time and memory of exact sums."""
    if not all(name in results for name in GPU_TABLES):
        return ""
    sums, presets = (results[name]["results"] for name in GPU_TABLES)
    commit = results["gpu-presets"]["commit"][:7]
    page = [
        f"## On a GPU\n\n{presets['device']}, commit `{commit}`.\n\n### gpu-presets\n",
        f"Ranks of the test facts: {presets['protocol']}. Settings were chosen on the validation facts",
        "(`fit/presets.py`); seconds are those of the whole fit, without compiling (once on a machine, some seconds).",
        "Published: LibKGE's RESCAL, and RESCAL with DURA. `relatent fit DATA --preset NAME -o FILE`.\n",
        "| preset | seconds | validation MRR | **test MRR** | hits@1 | hits@3 | hits@10 | published |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in presets.items():
        if isinstance(found, dict):
            test = found["test"]
            ranks = " | ".join(f"{test[key]:.3f}" for key in ("hits@1", "hits@3", "hits@10"))
            known = ", ".join(f"{value:.3f}" for value in found["published"].values() if value is not None)
            page.append(
                f"| {name} | {found['seconds']:.1f} | {found['validation']['mrr']:.4f} | **{test['mrr']:.4f}** "
                f"| {ranks} | {known} |"
            )
    moment, kept_up = (sums[f"matrix_tflops_{which}"] for which in ("for_a_moment", "kept_up"))
    page += [
        "\n### gpu-exact\n",
        "One exact sum over all N²K cells, with its gradient. The card multiplies float16 matrices at",
        f"{moment:.0f} TFLOP/s for a moment and keeps up {kept_up:.0f}; the share is of what it keeps up, for",
        "8·N²·K·r flop. Memory is beyond the factors and facts.\n",
        "| entities | relations | rank | cells | gradient s | with objective s | TFLOP/s | share | memory GB |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in sums["sizes"]:
        both, cells = row["objective_and_gradient_seconds"], row["entities"] ** 2 * row["relations"]
        page.append(
            f"| {row['entities']:,} | {row['relations']} | {row['rank']} | {cells:.1e} "
            f"| {row['gradient_seconds']:.4g} | {'' if both is None else f'{both:.4g}'} | {row['tflops']:.0f} "
            f"| {row['of_rate_kept_up']:.0%} | {row['extra_gb']:.2f} |"
        )
    page.append("\nErrors against float64 at FB15k-237's size, fresh random inputs:\n")
    page += ["| | objective | dA | dR | dA, gradient alone | two calls equal |", "|---|---:|---:|---:|---:|---|"]
    for rank, off in sums["errors"].items():
        page.append(
            f"| {rank} | {off['objective']:.1e} | {off['dA']:.1e} | {off['dR']:.1e} | "
            f"{off['dA without the objective']:.1e} | {'yes' if off['two calls give the same bits'] else 'no'} |"
        )
    return "\n".join(page) + "\n"


# --- plots


def _growth(results: dict[str, Result]) -> str:
    """Seconds and memory against the number of facts."""
    als, logit = (results.get(name, {}).get("results", {}) for name in ("als-growth", "logit-growth"))
    lines = [
        ("RescalALS, rank 10, a sweep", als.get("ours"), "seconds_a_sweep", "exponent"),
        ("rescal.py, rank 10, a sweep", als.get("rescal"), "seconds_a_sweep", "exponent_of_rescal"),
        ("RescalLogit sampled, rank 32, a pass", logit.get("by size"), "seconds_a_pass", "exponent"),
    ]
    lines = [line for line in lines if line[1]]
    if not lines:
        return ""
    figure, (left, right) = _panels()
    for label, found, what, exponent in lines:
        power = (logit if what == "seconds_a_pass" else als)[exponent]
        power = power["measured"] if isinstance(power, dict) else power
        left.loglog(*_points(found, what), "o-", label=f"{label}: slope {power:.2f}")
        right.loglog(*_points(found, "peak_mb"), "o-", label=label)
    for axis, title in ((left, "seconds"), (right, "peak memory, MB")):
        axis.set(xlabel="facts (entities grow alike)", title=title)
    left.legend(fontsize=8)
    _save(figure, "benchmarks-growth.svg")
    text = "Entities and facts grow together; a slope of 1 is cost in proportion to the facts."
    return f"## Against size\n\n![seconds and memory against facts](benchmarks-growth.svg)\n\n{text}\n"


def _ranks(results: dict[str, Result]) -> str:
    """Seconds and memory against the rank."""
    als, logit = (results.get(name, {}).get("results", {}) for name in ("als-growth", "logit-growth"))
    lines = [
        ("RescalALS, a sweep", als.get("ours by rank"), "seconds_a_sweep"),
        ("RescalLogit sampled, a pass", logit.get("by rank"), "seconds_a_pass"),
    ]
    lines = [line for line in lines if line[1]]
    if not lines:
        return ""
    figure, (left, right) = _panels()
    for label, found, what in lines:
        left.loglog(*_points(found, what), "o-", label=label)
        right.loglog(*_points(found, "peak_mb"), "o-", label=label)
    for axis, title in ((left, "seconds"), (right, "peak memory, MB")):
        axis.set(xlabel="rank", title=title)
    left.legend(fontsize=8)
    _save(figure, "benchmarks-rank.svg")
    return "## Against rank\n\n![seconds and memory against rank](benchmarks-rank.svg)\n"


def _points(found: Result, what: str) -> Points:
    """The number in each key, and the value measured for it."""
    numbers = [float("".join(letter for letter in key if letter.isdigit())) for key in found]
    values = [row[what]["best"] if isinstance(row[what], dict) else row[what] for row in found.values()]
    return numbers, values


def _panels() -> Any:
    mpl.rcParams["svg.hashsalt"] = "benchmarks"  # the same numbers give the same file
    return plt.subplots(1, 2, figsize=(10, 4), layout="constrained")


def _save(figure: Any, name: str) -> None:
    figure.savefig(DOCS / name, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()

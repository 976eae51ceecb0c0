"""Run a benchmark and write down what it ran on: `python benchmarks/run.py NAME --json`.

Every benchmark measures ours and a peer side by side in one run, in turns, and checks that the results agree.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import machine

from relatent.atomic_write import replacing

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))  # the generator of planted graphs lives there
BENCHMARKS = {  # name: (module, function, what it measures)
    "exact-kinships": (
        "exact_likelihood",
        "kinships",
        "exact objective and gradient of Kinships, r = 50, and dense NumPy",
    ),
    "exact-large": (
        "exact_likelihood",
        "large",
        "the same for 8·10⁸ cells, r = 64, as a share of the matrix rate; memory",
    ),
    "logit-kinships": ("exact_fits", "logit_kinships", "a fit of 150 steps, and dense NumPy with SciPy's L-BFGS-B"),
    "lbfgs": ("exact_fits", "lbfgs", "our L-BFGS and SciPy's on the same objective"),
    "exact-optimisers": ("exact_fits", "exact_optimisers", "L-BFGS and Adam on the exact sum of CoDEx-S (10 min)"),
    "als-rescal": ("als_sweeps", "als_rescal", "an ALS sweep, and one of the PyPI package rescal 0.4"),
    "als-yago": (
        "als_sweeps",
        "als_yago",
        "the same for 3 M entities and 70 M facts: seconds, memory, gathers (15 min)",
    ),
    "als-growth": ("als_sweeps", "als_growth", "seconds per sweep by size, up to 70 M facts (10 min)"),
    "logit-yago": (
        "sampled_likelihood",
        "logit_yago",
        "the sampled likelihood for 3 M entities and 70 M facts: seconds, memory",
    ),
    "logit-growth": ("sampled_likelihood", "logit_growth", "seconds per pass by size, up to 70 M facts, and by rank"),
    "planted": (
        "sampled_likelihood",
        "planted_truth",
        "precision on 7 M facts of planted groups: the planted factors, ALS, the likelihood (12 min)",
    ),
    "planted-fine": ("sampled_likelihood", "planted_fine", "the same where only log-odds are of low rank (25 min)"),
    "sampled-exact": (
        "sampled_likelihood",
        "sampled_exact",
        "the sampled and the exact fit on CoDEx-S and arXiv (20 min)",
    ),
    "time-to-quality": (
        "time_to_quality",
        "time_to_quality",
        "MRR against seconds of training on two cores: ours, PyKEEN, a plain ComplEx (20 min on 14 cores)",
    ),
    "gpu-exact": ("gpu", "exact", "exact objective and gradient on a GPU: seconds, rate, accuracy, memory (2 min)"),
    "gpu-structures": ("gpu", "structures", "presets with structured relations, and one larger, on a GPU (4 min)"),
    "gpu-sampled": (
        "gpu_sampled",
        "sampled",
        "the sampled likelihood on a GPU: 3 M entities, 70 M facts; a planted graph beside the CPU (3 min)",
    ),
    "gpu-presets": ("gpu", "presets", "ranking quality and time of every preset on a GPU (4 min)"),
    "gpu-als": ("gpu", "als", "ALS sweeps of FB15k-237 at rank 128: on a GPU, and on the CPU over all rows"),
    "ranking": ("ranking_and_help", "ranking", "filtered ranks of the test facts of WN18RR, rank 64"),
    "fold-in": ("fold_in", "fold_in", "fold-in of new entities and a refit; fold-in among a million entities"),
    "duplicates": ("duplicates", "duplicates", "duplicates of split entities found, CoDEx-S and Kinships (3 min)"),
    "missing": (
        "lists",
        "missing",
        "the likeliest missing facts: equal to sorting all cells, precision on withheld facts, 10¹² cells (3 min)",
    ),
    "doubt": ("lists", "doubt", "planted errors among the most doubtful facts of six graphs (20 min)"),
    "reading": ("reading", "reading", "70 M named facts from TSV.gz to sorted ids; other formats, polars, each step"),
    "ntriples": (
        "reading",
        "ntriples",
        "2 M triples from N-Triples: our scanner beside pyoxigraph, equal facts (5 min)",
    ),
    "several": (
        "several_processes",
        "several",
        "1, 2 and 4 Gloo processes: objective, bytes sent, seconds per step (2 min)",
    ),
    "without-options": (
        "without_options",
        "without_options",
        "quality and time of fits without options on 4 kinds of sparse graphs and 6 data sets (15 min)",
    ),
    "one-matrix": ("one_matrix", "one_matrix", "one relation: scikit-learn's NMF and RESCAL by the same folds (3 min)"),
    "attributes": ("attributes", "attributes", "MRR with and without attributes, and with wrong ones (2 min)"),
    "update": (
        "update",
        "update",
        "`relatent.update` with 5 % new facts beside a new fit: time and MRR on 6 data sets (6 min)",
    ),
    "tune": ("tuning", "tune", "settings found in two minutes on Kinships, judged on other folds (9 min)"),
    "tune-time": (
        "tuning",
        "in_time",
        "`relatent tune --time` on five data sets: wall time, and test MRR beside a fit without options (15 min)",
    ),
    "groups": (
        "groups",
        "groups",
        "groups of Kinships and Nations and their true groups: adjusted Rand index",
    ),
    "types": ("entity_types", "types", "CoDEx-S with types of a file and inferred ones: ranks, answers lost (1 min)"),
    "answers": (
        "answers",
        "answers",
        "whether probabilities of unlisted cells are true on worlds with planted truth and 3 data sets (15 min)",
    ),
    "opponents": (
        "opponents",
        "opponents",
        "MRR and average precision on worlds with planted truth, beside what a data scientist would try first",
    ),
    "serving": (
        "serving",
        "serving",
        "the server: latency at 100 questions per second, 10,000 mixed requests, memory, search",
    ),
    "help": ("ranking_and_help", "help_text", "time of `relatent --help`"),
}


class CannotRunError(Exception):
    """A benchmark cannot run here; the message says what is missing and how to get it."""


def main() -> int:
    arguments = _arguments()
    if arguments.task is not None:  # of a benchmark that runs each side in its own process
        task = json.loads(arguments.task)
        print(json.dumps(import_module(task.get("module", "als_sweeps")).do(task)))
        return 0
    if arguments.list or arguments.name is None:
        for name, (_, _, about) in BENCHMARKS.items():
            print(f"{name:16} {about}")
        return 0
    module, function, _ = BENCHMARKS[arguments.name]
    benchmark: Callable[..., dict[str, Any]] = getattr(import_module(module), function)
    options = {option: getattr(arguments, option) for option in _options(arguments.name)}
    watch = machine.Watch()
    try:
        results = benchmark(seed=arguments.seed, **options)
    except CannotRunError as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return 1
    report = {
        "name": arguments.name,
        "machine": machine.describe() | watch.stop(),
        "commit": machine.commit(HERE.parent),
        "command": _command(arguments),
        "seed": arguments.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "results": results,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False)
    if arguments.save:
        with replacing(HERE / "results" / f"{arguments.name}.json") as file:
            file.write_text(text + "\n", encoding="utf-8")
    print(text if arguments.json else _readable(report))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, help="which benchmark (see --list)")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--save", action="store_true", help="also write benchmarks/results/NAME.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rescal", metavar="PATH", help="folder that holds the package rescal (als-…)")
    parser.add_argument("--arxiv", metavar="FILE", help="edges of the arXiv collaboration graph (sampled-exact)")
    parser.add_argument("--model", metavar="FILE", help="a model of wn18rr to serve, in place of fitting one (serving)")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    return parser.parse_args()


def _options(name: str) -> list[str]:
    """The options of a benchmark, beside the seed."""
    if name.startswith("als-"):
        return ["rescal"]
    return {"sampled-exact": ["arxiv"], "serving": ["model"]}.get(name, [])


def _command(arguments: argparse.Namespace) -> str:
    flags = {
        "--json": arguments.json,
        "--save": arguments.save,
        "--rescal PATH": arguments.rescal,
        "--arxiv FILE": arguments.arxiv,
        "--model FILE": arguments.model,
    }
    given = [flag for flag, value in flags.items() if value]
    return " ".join(["python benchmarks/run.py", arguments.name, f"--seed {arguments.seed}", *given])


def _readable(report: dict[str, Any]) -> str:
    m = report["machine"]
    busy = f"others used {m['other_cpu_seconds']} of {m['cores']} × {m['wall_seconds']} CPU s"
    lines = [f"{report['name']} at {report['commit'][:7]}, {m['cpu']}, {busy}"]
    return "\n".join(lines + list(_lines(report["results"], "  ")))


def _lines(value: dict[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            lines += [f"{indent}{key}", *_lines(inner, indent + "  ")]
        else:
            lines.append(f"{indent}{key:28} {inner:.6g}" if isinstance(inner, float) else f"{indent}{key:28} {inner}")
    return lines


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]  # benchmarks import CannotRunError from here
    sys.exit(main())

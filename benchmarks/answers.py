"""Are the probabilities of a fit without options true? `python benchmarks/answers.py company 0`.

A tenth of the facts of worlds with planted truth is withheld; every cell that is not listed is then asked for.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the worlds are made there

from scipy.special import expit

import relatent
from answer_graphs import KINDS

SHARE = 0.1  # withheld
EDGES = (0, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1)
MIN_EXPECTED = 50  # facts in a bin, for its ratio to count
MIN_OF_RELATION = 10  # of the first 100, for the relation to count
MIN_FUNCTIONAL = 20  # facts of a relation, for it to be called functional
MAX_RATIO, MAX_TOTAL, MAX_FIRST, MAX_RELATION, MAX_SUM = 1.3, 0.15, 0.10, 0.15, 1.02  # the bars
FLOOR = 1e-5  # less likely cells do not count in the average precision
ROWS = 512  # subjects at once
DATA_SETS = ("kinships", "nations", "codex-s")
MODELS: dict[str, Callable[[], Any]] = {
    "calibrated": relatent.RescalLogit,
    "plain": lambda: relatent.RescalLogit(calibrate=False),
}

Probability = Callable[[relatent.Factors, relatent.Facts, int], NDArray[np.float64]]


def answers(seed: int) -> dict[str, Any]:
    """Each kind of world with one seed, and the bars that were missed."""
    results = {kind: run_kind(kind, seed) for kind in (*KINDS, *DATA_SETS)}
    return {**results, "summary": {kind: found["missed"] or "all bars kept" for kind, found in results.items()}}


def run_kind(kind: str, seed: int, model: str = "calibrated") -> dict[str, Any]:
    """Withhold, fit and judge."""
    train, test = relatent.split(facts_of(kind, seed), test_size=SHARE, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.RelatentWarning)
        relatent.RescalLogit(max_iter=1).fit(train)  # compiles
        started = time.perf_counter()
        factors = MODELS[model]().fit(train).factors_
        seconds = time.perf_counter() - started
    found = judge(train, test, factors)
    return {"seconds of the fit": seconds, **found, "missed": missed(found)}


def facts_of(kind: str, seed: int) -> relatent.Facts:
    """A world with planted truth, or a data set."""
    if kind in KINDS:
        return KINDS[kind](seed)
    if kind != "codex-s":
        return relatent.load_dataset(kind)
    parts = relatent.load_splits(kind)
    s, k, o = np.concatenate([part.triples for part in parts]).T
    names = {"entity_names": list(parts[0].entities), "relation_names": list(parts[0].relations)}
    return relatent.Facts.from_arrays(s, k, o, **names)


def probabilities_of(factors: relatent.Factors, train: relatent.Facts, relation: int) -> NDArray[np.float64]:
    """The probabilities of all cells of one relation, (N, N), by fast products."""
    n, asked = train.n_entities, factors.candidates
    everyone, found = np.arange(n), np.empty((n, n))
    for low in range(0, n, ROWS):
        rows = everyone[low : low + ROWS]
        theta = factors.scores_of_all(rows, relation).astype(np.float64)
        questions = np.stack([rows, np.full(len(rows), relation), np.full(len(rows), -1)], axis=1)
        if factors.calibration is None:
            found[rows] = factors.link.probability(theta, relation)
        else:
            found[rows] = expit(asked.all_log_odds(questions, 2, theta))
    return found


# --- the judgement


class _Likely(NamedTuple):
    """Cells above `FLOOR`: their relations, probabilities, and whether they were withheld."""

    relation: NDArray[np.int64]
    p: NDArray[np.float64]
    truth: NDArray[np.bool_]


def judge(
    train: relatent.Facts,
    test: relatent.Facts,
    factors: relatent.Factors,
    probability: Probability = probabilities_of,
) -> dict[str, Any]:
    """What the model says of all unlisted cells, and what is true of them; unobserved cells are left out."""
    said, true, total = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1), 0.0
    parts, by_relation, functional = [], {}, {}
    for k, name in enumerate(train.relations):
        p = probability(factors, train, k)
        is_true, asked = np.zeros(p.shape, bool), np.ones(p.shape, bool)
        for facts, mask, value in ((test, is_true, True), (train, asked, False)):
            s, _, o = facts.triples[slice(*facts.starts[k : k + 2])].T
            mask[s, o] = value
        if not is_true.diagonal().any() and asked.diagonal().all():  # nothing relates to itself
            np.fill_diagonal(asked, False)
        s, _, o = train.unobserved[train.unobserved[:, 1] == k].T
        asked[s, o] = False  # nobody knows what is true there
        if _is_functional(train, k):
            functional[name] = _questions(np.where(asked, p, 0.0), is_true, train, k)
        p, is_true = p[asked], is_true[asked]
        here = np.histogram(p, EDGES, weights=p)[0]
        said, total = said + here, total + float(p.sum())
        true += np.histogram(p[is_true], EDGES)[0]
        by_relation[name] = {"said": float(p.sum()), "true": int(is_true.sum())}
        likely = p >= FLOOR
        parts.append(_Likely(np.full(int(likely.sum()), k), p[likely], is_true[likely]))
    cells = _Likely(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return {
        "facts": {"listed": len(train), "withheld": len(test), "in relations": by_relation},
        "bins": _bins(said, true),
        "total": {"said": total, "true": int(true.sum()), "ratio": total / max(true.sum(), 0.5)},
        "first 20": _first(cells, 20)[0],
        "first 100": _first(cells, 100)[0],
        "relations of the first 100": _relations(cells, train),
        "functional": functional,
        "average precision": _average_precision(cells, len(test)),
        "filtered MRR": relatent.evaluate(factors, test, known=[train]).mrr,
    }


def _bins(said: NDArray[np.float64], true: NDArray[np.float64]) -> list[dict[str, Any]]:
    return [
        {
            "from": EDGES[i],
            "to": EDGES[i + 1],
            "said": float(said[i]),
            "true": int(true[i]),
            "ratio": float(said[i] / max(true[i], 0.5)) if said[i] >= MIN_EXPECTED else None,
        }
        for i in range(len(said))
    ]


def _first(cells: _Likely, count: int) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Of the likeliest cells: mean said and share true; and how much each cell counts: ties for the last places share.

    `chance`: the standard deviation of the share that is true, if what was said is true and cells are independent.
    """
    count = min(count, len(cells.p))
    least = np.partition(cells.p, -count)[-count]
    above, tied = cells.p > least, cells.p == least
    counts = above + tied * ((count - above.sum()) / tied.sum())
    return _said_and_true(counts, cells), counts


def _said_and_true(counts: NDArray[np.float64], cells: _Likely) -> dict[str, float]:
    n = float(counts.sum())
    return {
        "cells": n,
        "said": float(counts @ cells.p) / n,
        "true": float(counts @ cells.truth) / n,
        "chance": float(np.sqrt(counts @ (cells.p * (1 - cells.p)))) / n,
    }


def _relations(cells: _Likely, train: relatent.Facts) -> dict[str, dict[str, float]]:
    """The relations with at least 10 of the first 100 cells."""
    counts = _first(cells, 100)[1]
    sizes = np.bincount(cells.relation, weights=counts, minlength=train.n_relations)
    large = np.flatnonzero(sizes >= MIN_OF_RELATION).tolist()
    return {train.relations[k]: _said_and_true(counts * (cells.relation == k), cells) for k in large}


def _is_functional(train: relatent.Facts, k: int) -> bool:
    """Whether no subject has two objects."""
    subjects = train.subjects[slice(*train.starts[k : k + 2])]
    return len(subjects) >= MIN_FUNCTIONAL and len(np.unique(subjects)) == len(subjects)


def _questions(
    p: NDArray[np.float64], is_true: NDArray[np.bool_], train: relatent.Facts, k: int
) -> dict[str, float | int]:
    """(s, r, ?) of the subjects without a known answer: sums of probabilities, and the log-loss of what is true.

    "None of them" has what the sum leaves to 1. Each question counts once, and the loss is also given per question that
    has an answer.
    """
    without = np.ones(len(p), bool)
    without[train.subjects[slice(*train.starts[k : k + 2])]] = False
    p, is_true = p[without], is_true[without]
    sums, n_true = p.sum(axis=1), is_true.sum(axis=1)
    nothing = np.maximum(1 - sums, 1e-6)
    outcome = np.where(n_true > 0, (p * is_true).sum(axis=1) / np.maximum(n_true, 1), nothing)
    loss = -np.log(np.maximum(outcome, 1e-12) / (sums + nothing))
    return {
        "questions": len(p),
        "with an answer": int((n_true > 0).sum()),
        "expected answers": float(sums.sum()),
        "maximum sum": float(sums.max(initial=0.0)),
        "log-loss": float(loss.mean()) if len(p) else 0.0,
        "log-loss per answer": float(loss.sum() / max((n_true > 0).sum(), 1)),
    }


def _average_precision(cells: _Likely, n_true: int) -> float:
    """Of the withheld facts among all unlisted cells; equally likely ones stand at the same place."""
    order = np.argsort(-cells.p, kind="stable")
    p, hits = cells.p[order], np.cumsum(cells.truth[order])
    last = np.flatnonzero(np.append(p[1:] != p[:-1], True))  # of each group of equally likely ones
    gained = np.diff(hits[last], prepend=0)
    return float((gained * hits[last] / (last + 1)).sum() / n_true)


# --- the bars


def missed(found: dict[str, Any]) -> list[str]:
    """What does not keep its bar, in words."""
    counted = [part for part in found["bins"] if part["ratio"] is not None]
    result = [
        f"bin {part['from']:g}–{part['to']:g}: said / true {part['ratio']:.2f}"
        for part in counted
        if not 1 / MAX_RATIO <= part["ratio"] <= MAX_RATIO
    ]
    if abs(found["total"]["ratio"] - 1) > MAX_TOTAL:
        result.append(f"total: said / true {found['total']['ratio']:.2f}")
    firsts = [(name, found[name], MAX_FIRST) for name in ("first 20", "first 100")]
    firsts += [
        (f"{name} of first 100", part, MAX_RELATION) for name, part in found["relations of the first 100"].items()
    ]
    result += [
        f"{name}: said {part['said']:.2f}, true {part['true']:.2f}"
        for name, part, bar in firsts
        if abs(part["said"] - part["true"]) > bar
    ]
    result += [
        f"{name}: a sum of {part['maximum sum']:.2f}"
        for name, part in found["functional"].items()
        if part["maximum sum"] > MAX_SUM
    ]
    return result


def _report(title: str, found: dict[str, Any]) -> str:
    """A few lines to read."""
    total, ranks = found["total"], f"AP {found['average precision']:.3f}, MRR {found['filtered MRR']:.3f}"
    lines = [
        f"{title}: {found['facts']['listed']} listed, {total['true']} withheld; "
        f"fit {found['seconds of the fit']:.1f} s; {ranks}"
    ]
    counted = [part for part in found["bins"] if part["ratio"] is not None]
    bins = ", ".join(f"{part['from']:g}–{part['to']:g}: {part['ratio']:.2f} (of {part['true']})" for part in counted)
    lines += [f"  bins: {bins}", f"  total: said {total['said']:.0f}, true {total['true']}, ratio {total['ratio']:.2f}"]
    parts = {name: found[name] for name in ("first 20", "first 100")}
    parts |= {f"of them {name}": part for name, part in found["relations of the first 100"].items()}
    lines += [
        f"  {name}: said {part['said']:.2f}, true {part['true']:.2f} ± {part['chance']:.2f} of {part['cells']:.0f}"
        for name, part in list(parts.items())[:8]
    ]
    lines += [
        f"  {name}, functional: sum ≤ {part['maximum sum']:.2f}, answers said {part['expected answers']:.0f}, "
        f"true {part['with an answer']}, log-loss {part['log-loss']:.4f}, per answer {part['log-loss per answer']:.2f}"
        for name, part in sorted(found["functional"].items(), key=lambda item: -item[1]["maximum sum"])[:8]
    ]
    lines.append(f"  missed: {len(found['missed'])} bars" + "".join(f"; {text}" for text in found["missed"]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS, *DATA_SETS])
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--model", choices=MODELS, default="calibrated")
    arguments = parser.parse_args()
    found = run_kind(arguments.kind, arguments.seed, arguments.model)
    print(_report(f"{arguments.kind}, seed {arguments.seed}, {arguments.model}", found))


if __name__ == "__main__":
    main()

"""`relatent.tune`: on Kinships beside Optuna if it is installed; and whether `relatent tune` keeps the time given."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import relatent
from relatent.evaluation.folds import cell_folds
from relatent.evaluation.parallel import fit_threads
from relatent.evaluation.search_space import SPACES, Candidate
from relatent.evaluation.tuning_judge import Judge
from sparse_graphs import sparse_graph

SECONDS = 120.0
OUTER = 2  # of ten folds: no search sees them
LOGIT = 0.941  # Table 1: ten folds, masked, raw
GRAPH_SEED = 11
TIMES = {
    "films": (30, 60),
    "shopping": (30, 60),
    "codex-s": (30, 60, 120),
    "kinships": (30, 60, 120),
    "nations": (30, 60),
}


def tune(seed: int) -> dict[str, Any]:
    """Each search has the cells outside of two folds, and its choice is judged by these two."""
    facts = relatent.load_dataset("kinships")
    outer = cell_folds(facts, 10, seed + 1000)[:OUTER]
    train = facts.hold_out(np.concatenate(outer), masked=True)
    relatent.RescalLogit(5, tol=0.1, calibrate=False).fit(facts)  # compiles
    results: dict[str, Any] = {"seconds_allowed": SECONDS, "table1_logit": LOGIT}
    for name, models in (("logit", ["logit"]), ("all models", None)):
        found = relatent.tune(train, SECONDS, models=models, random_state=seed, fit=False)
        results[name] = {
            "chosen": str(found.chosen_candidate),
            "why": found.sentence,
            "settings_tried": len(found.judged),
            "seconds": found.seconds,
            "searched_auc_pr": found.chosen_trial.score,
            **_judged(found.unfitted_estimator, facts, outer),
        }
    results["logit"]["within_005_of_table1"] = results["logit"]["unseen_auc_pr"] >= LOGIT - 0.005
    results["defaults"] = _judged(relatent.RescalLogit(random_state=seed), facts, outer)
    results["optuna"] = _beside_optuna(train, facts, outer, seed)
    return results


def _judged(estimator: Any, facts: relatent.Facts, outer: list[Any]) -> dict[str, Any]:
    """On the folds that no search saw; and on ten others, most of whose cells were seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.ConvergenceWarning)
        unseen = relatent.cross_validate(estimator, facts, folds=outer, n_jobs=2)
        ten = relatent.cross_validate(estimator, facts, folds=10, n_jobs=2)
    return {
        "unseen_auc_pr": unseen.auc_pr,
        "unseen_log_loss": unseen.log_loss,
        "ten_folds_auc_pr": ten.auc_pr,
        "ten_folds_std": ten.auc_pr_std,
    }


def _beside_optuna(train: relatent.Facts, facts: relatent.Facts, outer: list[Any], seed: int) -> dict[str, Any]:
    """The same space for logit, searched by TPE with a median pruner over held-out parts, in two threads."""
    try:
        import optuna
    except ImportError:
        return {"left_out": "optuna is not installed"}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    judge = Judge.of(train, "auc_pr", None, seed)
    space = SPACES["logit"]

    def objective(trial: Any) -> float:
        weight = trial.suggest_float("l2", *space.penalty, log=True)
        settings = {
            "rank": trial.suggest_int("rank", *space.rank, log=True),
            "bias": trial.suggest_categorical("bias", [True, False]),
            "l2_entities": weight,
            "l2_relations": weight,
        }
        scores = []
        for part in range(3):
            with fit_threads(1):
                fitted = Candidate("logit", settings).estimator(seed).fit(judge.training(part))
            scores.append(judge.score(fitted.factors_, part).value)
            trial.report(float(np.mean(scores)), part)
            if part < 2 and trial.should_prune():
                raise optuna.TrialPruned
        return float(np.mean(scores))

    started = time.time()
    sampler, pruner = optuna.samplers.TPESampler(seed=seed), optuna.pruners.MedianPruner(n_startup_trials=5)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(objective, timeout=SECONDS - 10, n_jobs=2)  # a fit under way is not broken off
    best = dict(study.best_params)
    weight = best.pop("l2")
    chosen = Candidate("logit", {**best, "l2_entities": weight, "l2_relations": weight})
    value = study.best_value
    return {
        "chosen": str(chosen),
        "settings_tried": len(study.trials),
        "seconds": time.time() - started,
        "searched_auc_pr": value if math.isfinite(value) else None,
        **_judged(chosen.estimator(seed), facts, outer),
    }


# --- the command within the time, and the fit without options


def in_time(seed: int) -> dict[str, Any]:
    """Wall time of the command, and test MRR of its model beside that of the fit without options.

    A tenth of the facts is withheld as the test set; CoDEx-S has one. No search sees it.
    """
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, times in TIMES.items():
            data, train, valid, test = _written(name, Path(folder), seed)
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", relatent.RelatentWarning)
                default = relatent.RescalLogit(random_state=seed).fit(train)
            seconds = time.perf_counter() - started
            mrr = relatent.evaluate(default.factors_, test, known=valid).mrr
            found[name] = {"default": {"mrr": mrr, "seconds": seconds}}
            for limit in times:
                found[name][f"{limit} s"] = _command(data, Path(folder) / "tuned.relatent", limit, seed, valid, test)
    return found


def _written(name: str, folder: Path, seed: int) -> tuple[str, relatent.Facts, list[relatent.Facts], relatent.Facts]:
    """The data as the command takes it, training facts, validation facts if there are any, and test facts."""
    if name == "codex-s":
        train, valid, test = relatent.load_splits(name)
        return name, train, [valid], test
    is_graph = name in ("films", "shopping")
    facts = sparse_graph(name, GRAPH_SEED) if is_graph else relatent.load_dataset(name)
    train, test = relatent.split(facts, test_size=0.1, random_state=seed + GRAPH_SEED)
    file = folder / f"{name}.tsv"
    rows = ((facts.entities[s], facts.relations[k], facts.entities[o]) for s, k, o in train.triples.tolist())
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    train = relatent.read(file)
    return str(file), train, [], test.over(train.entities, train.relations)


def _command(
    data: str, output: Path, limit: int, seed: int, valid: list[relatent.Facts], test: relatent.Facts
) -> dict[str, Any]:
    command = [sys.executable, "-m", "relatent", "tune", data, "-o", str(output), "--time", str(limit), "--json"]
    started = time.perf_counter()
    done = subprocess.run([*command, "--seed", str(seed)], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    result, factors = json.loads(done.stdout), relatent.load(output)
    return {
        "wall_seconds": seconds,
        "in_time": seconds <= 1.1 * limit + 5,
        "mrr": relatent.evaluate(factors, test, known=valid).mrr,
        "settings_judged": sum(trial["score"] is not None for trial in result["trials"]),
        "steps": factors.about.fit and factors.about.fit.steps,
        "why": result["why"],
    }

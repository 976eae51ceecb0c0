"""Settings found in two minutes: `relatent.tune` on Kinships, beside Optuna if it is installed."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

import relatent
from relatent.evaluation import tuning
from relatent.evaluation.folds import cell_folds
from relatent.evaluation.parallel import fit_threads
from relatent.evaluation.search_space import SPACES, Candidate

SECONDS = 120.0
OUTER = 2  # of ten folds: no search sees them
LOGIT = 0.941  # Table 1: ten folds, masked, raw


def tune(seed: int) -> dict[str, Any]:
    """Each search has the cells outside of two folds, and its choice is judged by these two."""
    facts = relatent.load_dataset("kinships")
    outer = cell_folds(facts, 10, seed + 1000)[:OUTER]
    train = facts.hold_out(np.concatenate(outer), masked=True)
    relatent.RescalLogit(5, tol=0.1).fit(facts)  # compiles
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
    judge = tuning._make_judge(train, "auc_pr", None, seed)
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
            scores.append(judge.score(fitted.factors_, part))
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

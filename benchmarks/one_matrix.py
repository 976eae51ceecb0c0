"""One relation, which is one matrix: scikit-learn's NMF beside RESCAL, by the same folds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import NMF

import relatent
from relatent.fit.estimators.base import Estimator
from relatent.fit.loop import Trace


@dataclass(eq=False, repr=False)
class MatrixNmf(Estimator):
    """X ≈ W H by scikit-learn, as factors: θ_ij = w_i · h_j, which is a_iᵀ R a_j with a_i = (w_i, h_i)."""

    rank: int = 10
    alpha: float = 0.0
    random_state: int = 0

    def fit(self, facts: relatent.Facts, *_: Any, **__: Any) -> MatrixNmf:
        """Facts are ones, all other cells zeros; NMF has no unobserved cells."""
        s, _, o = facts.triples.T
        n, r = facts.n_entities, self.rank
        X = csr_array((np.ones(len(s), np.float32), (s, o)), shape=(n, n))
        nmf = NMF(r, init="nndsvda", alpha_W=self.alpha, max_iter=500, random_state=self.random_state)
        W = nmf.fit_transform(X)
        R = np.zeros((1, 2 * r, 2 * r), np.float32)
        R[0, :r, r:] = np.eye(r)
        A = np.concatenate([W, nmf.components_.T], axis=1).astype(np.float32)
        self.trace_ = Trace(converged=nmf.n_iter_ < nmf.max_iter)
        self.factors_ = relatent.Factors(A, R, np.zeros(1), facts.entities, facts.relations)
        return self


def one_matrix(seed: int) -> dict[str, Any]:
    """AUC-PR and average precision on held-out thirds of the cells, which count as zeros in the fit, as NMF needs it.

    Settings of each are chosen inside the training folds, from six.
    """
    facts = relatent.load_dataset("ecoli-ppi")
    weak, strong = (
        [{"l2_entities": w, "l2_relations": w} for w in three] for three in ((0.3, 1.0, 3.0), (3.0, 10.0, 20.0))
    )
    candidates: dict[str, tuple[Any, list[dict[str, Any]]]] = {
        "scikit-learn's NMF": (MatrixNmf(), [{"rank": r, "alpha": a} for r, a in product((10, 20, 50), (1e-3, 3e-3))]),
        "RescalALS": (relatent.RescalALS(), [{"rank": r, **w} for r, w in product((20, 100), strong)]),
        "NonnegativeRescal": (relatent.NonnegativeRescal(), [{"rank": r, **w} for r, w in product((20, 50), weak)]),
    }
    return {
        "entities": facts.n_entities,
        "facts": len(facts),
        "models": {name: _judge(model, facts, grid, seed) for name, (model, grid) in candidates.items()},
    }


def _judge(model: Any, facts: relatent.Facts, grid: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    report = relatent.cross_validate(model, facts, 3, "zero", random_state=seed, search=grid, n_jobs=1)
    return {
        "auc_pr": report.auc_pr,
        "auc_pr_std": report.auc_pr_std,
        "average_precision": report.average_precision,
        "seconds": time.perf_counter() - started,
        "settings by fold": [
            " ".join(f"{key}={value:g}" for key, value in fold.settings.items()) for fold in report.folds
        ],
    }

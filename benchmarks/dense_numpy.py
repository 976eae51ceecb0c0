"""Logistic RESCAL as one would write it in a few lines of dense NumPy: what our kernels are measured against."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize

Array = np.ndarray[Any, Any]


def dense_logistic(X: Array, A: Array, R: Array, b: Array) -> tuple[float, Array, Array, Array]:
    """Σ softplus(θ) − x θ over all cells, and its derivatives, all K relations at once.

    X: (K, N, N), A: (N, r), R: (K, r, r), b: (K,), all of the type to compute in.
    """
    Q = A @ R  # (K, N, r)
    T = Q @ A.T + b[:, None, None]
    e = np.exp(-np.abs(T))
    value = float(np.sum(np.maximum(T, 0) + np.log1p(e) - X * T, dtype=np.float64))
    D = np.where(T >= 0, 1, e) / (1 + e) - X
    dQ = D @ A
    dA = np.sum(dQ @ R.transpose(0, 2, 1), axis=0) + np.tensordot(D, Q, axes=([0, 1], [0, 1]))
    return value, dA, A.T @ dQ, D.sum(axis=(1, 2))


def blockwise_logistic(triples: Array, A: Array, R: Array, b: Array, rows: int = 500) -> tuple[float, Array, Array]:
    """The same sum, dA and dR in float64 for many entities: `rows` rows of one relation at a time."""
    A, R, b = (np.asarray(array, np.float64) for array in (A, R, b))
    value, dA, dR = 0.0, np.zeros_like(A), np.zeros_like(R)
    for k in range(len(R)):
        s, o = triples[triples[:, 1] == k][:, [0, 2]].T
        for low in range(0, len(A), rows):
            block = slice(low, low + rows)
            here = (s >= low) & (s < low + rows)
            Q = A[block] @ R[k]
            T = Q @ A.T + b[k]
            e = np.exp(-np.abs(T))
            value += float(np.sum(np.maximum(T, 0) + np.log1p(e))) - float(np.sum(T[s[here] - low, o[here]]))
            D = np.where(T >= 0, 1, e) / (1 + e)
            D[s[here] - low, o[here]] -= 1
            dQ = D @ A
            dA += D.T @ Q
            dA[block] += dQ @ R[k].T
            dR[k] += A[block].T @ dQ
    return value, dA, dR


def fit_by_scipy(X: Array, A: Array, R: Array, *, l2: float, max_iter: int) -> scipy.optimize.OptimizeResult:
    """Logistic RESCAL without bias in float64: the dense objective above and SciPy's L-BFGS-B."""
    n, k, r = len(A), len(R), A.shape[1]
    b = np.zeros(k)

    def objective(x: Array) -> tuple[float, Array]:
        A, R = x[: n * r].reshape(n, r), x[n * r :].reshape(k, r, r)
        value, dA, dR, _ = dense_logistic(X, A, R, b)
        gradient = np.concatenate([(dA + 2 * l2 * A).ravel(), (dR + 2 * l2 * R).ravel()])
        return value + l2 * float(x @ x), gradient

    start = np.concatenate([A.ravel(), R.ravel()]).astype(np.float64)
    options = {"maxiter": max_iter, "maxfun": 10 * max_iter, "ftol": 0, "gtol": 0}
    return scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)


def main(folder: Path) -> None:
    """In a process of its own, so that the environment can set its threads: X, A, R from files, the result to one."""
    given = np.load(folder / "start.npz")
    settings = json.loads((folder / "settings.json").read_text())
    started = time.perf_counter()
    found = fit_by_scipy(given["X"], given["A"], given["R"], **settings)
    seconds = time.perf_counter() - started
    np.save(folder / "found.npy", found.x)
    answer = {"seconds": seconds, "steps": found.nit, "evaluations": found.nfev, "objective": float(found.fun)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

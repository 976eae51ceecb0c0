"""Entities on a plane, from the same rows that `similar` compares.

Two ways, as neither does all (figures in docs/design.md): principal components are there at once at any size, and
t-SNE keeps who is near to whom, but takes seconds to a minute and so is for some thousands of entities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix
from ..backend.blas_threads import one_thread
from ..errors import InputError

METHODS = ("pca", "tsne")
MOST_TSNE = 5000  # entities
TSNE_SECONDS = 0.006  # an entity, measured on one thread of an idle 2.8 GHz core from 1,000 to 4,000 of them
Plane = NDArray[np.float32]  # (N, 2), within −1 and 1


def plane(B: Matrix, method: str = "pca", *, random_state: int = 0) -> Plane:
    """A point for each row."""
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "pca":
        return _within(_principal(B))
    if len(B) > MOST_TSNE:
        raise InputError(f"tsne is for at most {MOST_TSNE} entities, there are {len(B)}; take method='pca'")
    return _within(_neighbourly(B, random_state)) if len(B) > 3 else _within(_principal(B))


def tsne_told(n: int) -> str:
    """What t-SNE is doing and about how long that takes, as scikit-learn's tells of no steps between."""
    return f"arranging neighbours of {n:,} entities (t-SNE), about {max(1, round(n * TSNE_SECONDS)):,} s"


def _principal(B: Matrix) -> Matrix:
    """The two directions of greatest variance; the largest entry of each is positive, so that a sign is no chance."""
    C = B - B.mean(axis=0)
    _, U = np.linalg.eigh(C.T @ C)
    two = np.zeros((B.shape[1], 2), B.dtype)
    two[:, : min(2, B.shape[1])] = U[:, ::-1][:, :2]
    signs = np.sign(two[np.abs(two).argmax(axis=0), [0, 1]])
    found: Matrix = C @ (two * np.where(signs == 0, 1, signs))
    return found


def _neighbourly(B: Matrix, random_state: int) -> Matrix:
    from sklearn.manifold import TSNE

    made: Any = TSNE(perplexity=min(30.0, (len(B) - 1) / 3), init=_start(B), random_state=random_state, n_jobs=1)
    with one_thread():  # beside other work its many short loops wait for each other: 14 s for 0.5 s with 100 entities
        found: Matrix = made.fit_transform(B.astype(np.float32))
    return found


def _start(B: Matrix) -> Plane:
    """Principal components, small: as TSNE's own init="pca", but without its random solver."""
    start = _principal(B).astype(np.float32)
    spread = float(start[:, 0].std())
    return start * np.float32(1e-4 / spread) if spread else start


def _within(points: Matrix) -> Plane:
    """Centred and scaled as one, to fill a square from −1 to 1."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high - low).max()) or 1.0
    return np.ascontiguousarray(2 * (points - (low + high) / 2) / size, np.float32)

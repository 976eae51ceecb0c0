"""Entities as points on a plane, computed from the profiles that `similar` compares.

Two methods (figures in docs/design.md): principal components take no time at any size; t-SNE keeps neighbours
together, but takes seconds to a minute and is limited to some thousands of entities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix
from ..backend.blas_threads import one_thread
from ..errors import InputError

METHODS = ("pca", "tsne")
MAX_ENTITIES_TSNE = 5000
MAX_ENTITIES_TSNE_DEFAULT = 2500  # maps open on t-SNE up to this size, a few seconds
TSNE_STEPS = 500  # twice as many place neighbours no better
TSNE_SECONDS_PER_ENTITY = 0.003  # on one thread of an idle 2.8 GHz core with 1,000 to 4,000 entities
Points = NDArray[np.float32]  # (N, 2), between −1 and 1


def project(B: Matrix, method: str = "pca", *, random_state: int = 0) -> Points:
    """One point per row of B, by "pca" or "tsne".

    >>> import relatent
    >>> from relatent.analysis.entity_map import project
    >>> from relatent.analysis.similarity import profiles
    >>> model = relatent.RescalALS(rank=5).fit(relatent.load_dataset("kinships")).factors_
    >>> project(profiles(model)).shape
    (104, 2)
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method == "pca":
        return _scale(_principal_components(B))
    if len(B) > MAX_ENTITIES_TSNE:
        raise InputError(f"method='tsne' takes at most {MAX_ENTITIES_TSNE} entities, got {len(B)}; use method='pca'")
    return _scale(_tsne(B, random_state)) if len(B) > 3 else _scale(_principal_components(B))


def default_method(n_entities: int) -> str:
    """The method that a map opens on: t-SNE if it takes a few seconds at most."""
    return "tsne" if 3 < n_entities <= MAX_ENTITIES_TSNE_DEFAULT else "pca"


def tsne_note(n_entities: int) -> str:
    """A progress note with the expected duration: scikit-learn's t-SNE reports no intermediate steps."""
    seconds = max(1, round(n_entities * TSNE_SECONDS_PER_ENTITY))
    return f"computing t-SNE of {n_entities:,} entities, about {seconds:,} s"


def _principal_components(B: Matrix) -> Matrix:
    """The two directions of greatest variance, with the sign that makes the largest entry of each positive."""
    centred = B - B.mean(axis=0)
    _, U = np.linalg.eigh(centred.T @ centred)
    directions = np.zeros((B.shape[1], 2), B.dtype)
    directions[:, : min(2, B.shape[1])] = U[:, ::-1][:, :2]
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    points: Matrix = centred @ (directions * np.where(signs == 0, 1, signs))
    return points


def _tsne(B: Matrix, random_state: int) -> Matrix:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(B) - 1) / 3)
    model: Any = TSNE(
        perplexity=perplexity, init=_tsne_start(B), max_iter=TSNE_STEPS, random_state=random_state, n_jobs=1
    )
    with one_thread():  # on busy cores its many short loops wait for each other: 14 s, not 0.5 s, for 100 entities
        points: Matrix = model.fit_transform(B.astype(np.float32))
    return points


def _tsne_start(B: Matrix) -> Points:
    """Small principal components: as TSNE's own init="pca", but without its randomised solver."""
    start = _principal_components(B).astype(np.float32)
    spread = float(start[:, 0].std())
    return start * np.float32(1e-4 / spread) if spread else start


def _scale(points: Matrix) -> Points:
    """Centre the points and scale both axes alike to fill the square from −1 to 1."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = float((high - low).max()) or 1.0
    return np.ascontiguousarray(2 * (points - (low + high) / 2) / size, np.float32)

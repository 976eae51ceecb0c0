"""Types of entities by the roles they play: subject or object of which relations, as the model predicts.

A person is born somewhere and acts in films; a city has people born in it and lies in a country. The facts predicted
of entity i as subject and as object of each relation, Σ_j p(i, k, j)^1.5 and Σ_j p(j, k, i)^1.5, divided by their sum,
are a distribution over 2 K roles; entities of different types hardly share a role. The exponent is above 1 because the
many small probabilities of all other cells would add up to as much as the facts. Square roots of the shares are unit
vectors, whose product is the Bhattacharyya coefficient of two distributions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Matrix
from ..model.factors import Factors

MAX_PARTNERS = 2048  # entities that the facts of a role are summed over, a random sample
MIN_PARTNERS = 16
MAX_CELLS = 1 << 29  # scores computed in all, about two seconds; above, fewer partners
CELLS_PER_BLOCK = 1 << 22
MIN_DISTANCE = 0.6  # mean distance of two types, 1 − product; genders in Kinships have .4, types of sparse graphs .8
MIN_MEMBERS = 5  # of a type, in the sample that is clustered
MAX_TYPES = 20
MAX_ENTITIES_CLUSTERED = 2000  # a random sample; all other entities go to the nearest type


def types_by_role(factors: Factors, random_state: int = 0) -> NDArray[np.int64] | None:
    """The type of each entity, (N,); None if all play the same roles.

    Average linkage, cut where the distances of merged clusters fall most. Merges of fewer than MIN_MEMBERS entities do
    not count, and entities outside all types go to the nearest.

    >>> import relatent
    >>> from relatent.analysis.types_by_role import types_by_role
    >>> types_by_role(relatent.RescalALS(rank=10).fit(relatent.load_dataset("kinships")).factors_) is None
    True
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    H = role_profiles(factors, random_state)
    rows = np.arange(len(H))
    if len(H) > MAX_ENTITIES_CLUSTERED:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, MAX_ENTITIES_CLUSTERED, replace=False))
    if len(rows) < 2 * MIN_MEMBERS:
        return None
    tree = linkage(H[rows], "average", metric="cosine")
    distance = _cut(tree)
    if distance is None:
        return None
    clusters = fcluster(tree, distance, "distance")
    numbers, sizes = np.unique(clusters, return_counts=True)
    centres = np.stack([H[rows[clusters == number]].mean(axis=0) for number in numbers[sizes >= MIN_MEMBERS]])
    labels: NDArray[np.int64] = (H @ (centres / np.linalg.norm(centres, axis=1, keepdims=True)).T).argmax(axis=1)
    return labels


def role_profiles(factors: Factors, random_state: int = 0) -> Matrix:
    """Square roots of the shares of each entity's predicted facts in every role, (N, 2 K)."""
    A, n = factors.A, len(factors.A)
    n_partners = int(np.clip(MAX_CELLS // (2 * len(factors.relations) * n), MIN_PARTNERS, MAX_PARTNERS))
    partners = A
    if n > n_partners:
        partners = A[np.sort(np.random.default_rng(random_state).choice(n, n_partners, replace=False))]
    expected = np.empty((n, 2 * len(factors.relations)))
    rows_per_block = max(1, CELLS_PER_BLOCK // len(partners))
    for role in range(expected.shape[1]):
        bias = factors.bias[role // 2]
        columns = factors.relation_matrices.times(partners, role // 2, back=role % 2 == 0).T
        for low in range(0, n, rows_per_block):
            theta = A[low : low + rows_per_block] @ columns + bias
            predicted = np.clip(factors.link.response(theta, role // 2), 0, 1)
            expected[low : low + rows_per_block, role] = (predicted**1.5).mean(axis=1)
    expected = np.maximum(expected, np.finfo(np.float32).tiny)
    return np.sqrt(expected / expected.sum(axis=1, keepdims=True))  # type: ignore[no-any-return]


def _cut(tree: Matrix) -> float | None:
    """The distance at which to cut: below the last of the merges of two types, if there is one."""
    n = len(tree) + 1
    sizes = np.concatenate([np.ones(n), tree[:, 3]])
    proper = sizes[tree[:, :2].astype(np.int64)].min(axis=1) >= MIN_MEMBERS
    heights = np.append(tree[proper, 2][::-1], 0.0)[:MAX_TYPES]
    n_apart = int((heights >= MIN_DISTANCE).sum())
    if not n_apart:
        return None
    last = int(np.argmax((heights[:-1] - heights[1:])[:n_apart]))
    return float(heights[last : last + 2].mean())

"""The k best cells of all relations that are not left out, without an array of all cells.

Cells are ordered by probability, then by score, then by ids, all of which `Candidates.judge` says. Only blocks of
scores are in memory. The k-th best cell so far is a threshold for θ in every relation, because log-odds rise with θ and
what a cell competes with only takes from them. Scores of a block are a matrix product in the precision of the model;
cells that reach the threshold, within the rounding error of the product, are judged.

Blocks are skipped by the inequality of Cauchy and Schwarz: with q_i = R_kᵀ a_i and m the mean vector of the objects,
q_i · a_j ≤ q_i · m + |q_i| |a_j − m|. Subjects are visited in the order of their bounds, objects in the order of their
distances from the mean, so what can be skipped is at the end of both.

Under the categorical loss, a score is at most θ, because other relations only take from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ..arrays import Ids, Matrix, Vector
from ..progress import Progress
from .candidates import Candidates, Judgeable, Judged, best_first

CELLS_PER_BLOCK = 1 << 20  # scores computed at a time: 4 MB in single precision
MIN_CHUNK = 1024  # candidates scored again at a time
LIMIT = 1e9  # scores beyond do not occur
GRID, REFINEMENTS = 1024, 7  # of the threshold: 2 LIMIT / 1024⁷ is below the rounding error of any score


class Region(NamedTuple):
    """Cells of one relation: some subjects × some objects, without those left out."""

    relation: int
    subjects: Ids  # distinct
    objects: Ids  # distinct
    left_out: Ids  # (m, 2) pairs of subject and object; those outside of the region are ignored
    kind: int = 0  # of all its cells: 2 · (subject has other answers) + (object has), for a calibrated model


class BestCells(NamedTuple):
    """The best cells, best first, and how much work it was to find them."""

    judged: Judged  # (k,)
    n_cells: int  # in all regions
    n_scored: int  # not skipped


def best_cells(asked: Candidates, regions: Sequence[Region], k: int, progress: Progress) -> BestCells:
    """The k best cells of disjoint regions."""
    search = _BestSoFar(asked, k)
    order = sorted(regions, key=search.bound, reverse=True)
    done, total = 0, sum(len(region.subjects) * len(region.objects) for region in order)
    for region in order:
        for share in search.add(region):
            progress(int(done + share * len(region.subjects) * len(region.objects)), total, "")
        done += len(region.subjects) * len(region.objects)
        progress(done, total, "")
    return BestCells(search.best, total, search.n_scored)


class _BestSoFar:
    """The best cells so far."""

    def __init__(self, asked: Candidates, k: int):
        self.asked, self.model, self.k, self.n_scored = asked, asked.model, k, 0
        self.norms = np.array([self.model.relation_matrices.norm(k) for k in range(len(self.model.bias))])
        self.lengths = np.linalg.norm(self.model.A, axis=1)
        self.best = asked.judge(np.empty((0, 3), np.int64))
        self._limits: dict[tuple[int, int], float] = {}  # by relation and kind of cells

    def bound(self, region: Region) -> tuple[float, float]:
        """What probability and score no cell of the region exceeds: where there is more, the search begins."""
        ends = [float(self.lengths[ids].max(initial=0)) for ids in (region.subjects, region.objects)]
        score = float(self.model.bias[region.relation] + self.norms[region.relation] * ends[0] * ends[1])
        score = min(LIMIT, _with_patterns(self.model, region.relation, score))
        return float(self._most_likely(np.array([score]), region)[0]), score

    def add(self, region: Region) -> Iterator[float]:
        """Take in the best cells of a region; yields the share of the work that is done."""
        if not len(region.subjects) or not len(region.objects):
            return
        tiles = _Tiles(self.model, region, self.norms[region.relation], self.lengths)
        low = 0
        while low < len(tiles.subjects):
            limit = self._limit(region)
            block = tiles.next(low, limit)
            if block is None:
                return
            rows, n_columns = block
            theta = tiles.scores(low, rows, n_columns)
            self.n_scored += theta.size
            self._take(theta, tiles, low, limit)
            low += rows
            yield low / len(tiles.subjects)

    def _take(self, theta: Matrix, tiles: _Tiles, low: int, limit: float) -> None:
        """Take in the cells of a block that may be among the best, the most promising first."""
        flat = theta.reshape(-1)
        found = (
            np.flatnonzero(flat >= flat.dtype.type(limit - tiles.rounding)) if limit > -LIMIT else np.arange(flat.size)
        )
        found = found[flat[found] > -np.inf]
        chunk = max(4 * self.k, MIN_CHUNK)
        while len(found):
            values, rest = flat[found], found[:0]
            if len(found) > chunk:
                order = np.argpartition(-values, chunk)
                found, rest = found[order[:chunk]], found[order[chunk:]]
            rows, columns = np.divmod(found, theta.shape[1])
            self._merge(tiles.region, tiles.subjects[low + rows], tiles.objects[columns])
            found = rest[flat[rest] >= flat.dtype.type(self._limit(tiles.region) - tiles.rounding)]
            chunk *= 2  # many equal scores are taken in few steps

    def _merge(self, region: Region, s: Ids, o: Ids) -> None:
        judged = self.asked.judge(np.stack([s, np.full(len(s), region.relation), o], axis=1))
        both = Judged(*(np.concatenate(columns) for columns in zip(self.best, judged, strict=True)))
        self.best = both.at(best_first(both)[: self.k])
        self._limits.clear()

    def _most_likely(self, theta: Vector, region: Region) -> Vector:
        """What cells are compared by first, at most; the same for all if the model has no probabilities."""
        if not self.model.has_probabilities:
            return np.zeros(len(theta))
        theta = theta.astype(np.float64)
        calibration = self.asked.calibration
        if calibration is None:
            return self.model.link.probability(theta, np.full(len(theta), region.relation))
        log_odds = calibration.log_odds(theta, region.relation, np.full(len(theta), region.kind))
        if len(self.asked.known.facts.unobserved):
            unobserved = self.asked.unobserved_log_odds(log_odds, theta, region.relation)
            log_odds = np.maximum(log_odds, unobserved)
        found: Vector = expit(log_odds)
        return found

    def _limit(self, region: Region) -> float:
        """A θ below which no cell of the region is as good as the k-th best so far; infinite if none can be."""
        if len(self.best.cells) < self.k:
            return -np.inf
        kind = (region.relation, region.kind)
        if kind not in self._limits:
            worst = 0.0 if not self.model.has_probabilities else float(self.best.probability[-1])
            self._limits[kind] = self._least_score(region, worst, float(self.best.score[-1]))
        return self._limits[kind]

    def _least_score(self, region: Region, worst: float, worst_score: float) -> float:
        low, high = -LIMIT, LIMIT
        by_theta = self.asked.calibration is None  # then θ decides between equal probabilities
        for _ in range(REFINEMENTS):
            theta = np.linspace(low, high, GRID)
            p = self._most_likely(theta, region)
            is_better = (p > worst) | ((p == worst) & ((not by_theta) | (theta >= worst_score)))
            if not is_better[-1]:  # calibrated probabilities of some cells have a limit below 1
                return np.inf
            first = int(np.argmax(is_better))
            low, high = float(theta[max(first - 1, 0)]), float(theta[first])
        return low


def _with_patterns(model: Judgeable, relation: int, score: float) -> float:
    """The largest score of cells whose score by factors is at most this one."""
    patterns = model.patterns
    return score if patterns is None else float(patterns.scale[relation]) * score + patterns.largest(relation)


class _Tiles:
    """The cells of a region in the order in which they are visited, and bounds of their scores."""

    def __init__(self, model: Judgeable, region: Region, norm: float, lengths: Vector):
        self.region, self.patterns, A, k = region, model.patterns, model.A, region.relation
        scale = 1.0 if self.patterns is None else float(self.patterns.scale[k])
        bias, o = scale * float(model.bias[k]), region.objects
        mean = A[o].mean(axis=0, dtype=np.float64)
        distances = np.linalg.norm(A[o] - mean.astype(A.dtype), axis=1)
        order = np.argsort(-distances, kind="stable")
        self.objects, self.distances = o[order], distances[order]
        Q = model.relation_matrices.times(A[region.subjects], k)
        Q *= Q.dtype.type(scale)
        at_mean, sizes = Q @ mean + bias, np.linalg.norm(Q, axis=1)
        if self.patterns is not None:
            at_mean += min(LIMIT, self.patterns.largest(k))
        by_bound = np.argsort(-(at_mean + sizes * self.distances[0]), kind="stable")
        self.subjects, self.at_mean, self.sizes = region.subjects[by_bound], at_mean[by_bound], sizes[by_bound]
        self.Q, self.columns, self.bias = Q[by_bound], A[self.objects], A.dtype.type(bias)
        longest = float(lengths[region.subjects].max()) * norm * float(lengths[o].max())
        precision = max(np.finfo(np.result_type(A, Q)).eps, np.finfo(np.float32).eps)
        self.rounding = float(4 * (A.shape[1] + 2) * precision * (longest + abs(bias)))
        if self.patterns is not None:
            self.rounding = self.patterns.rounding(k, self.rounding)
        self._space = np.empty(max(CELLS_PER_BLOCK, len(o)), np.result_type(Q, self.columns))  # pages are kept
        self._left_out = self._positions(region.left_out, len(lengths))

    def _positions(self, pairs: Ids, n: int) -> Ids:
        """Row and column of the cells to leave out, by row, (m, 2)."""
        row, column = np.full(n, -1), np.full(n, -1)
        row[self.subjects], column[self.objects] = np.arange(len(self.subjects)), np.arange(len(self.objects))
        found = np.stack([row[pairs[:, 0]], column[pairs[:, 1]]], axis=1)
        found = found[(found >= 0).all(axis=1)]
        return found[np.argsort(found[:, 0], kind="stable")]

    def next(self, low: int, limit: float) -> tuple[int, int] | None:
        """How many rows from `low` on, and how many of the first columns, may reach the limit; None: no more do."""
        least = limit - self.rounding
        if self.at_mean[low] + self.sizes[low] * self.distances[0] < least:
            return None
        rows = min(max(1, CELLS_PER_BLOCK // len(self.objects)), len(self.subjects) - low)
        if least == -np.inf:
            return rows, len(self.objects)
        part = slice(low, low + rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.nan_to_num((least - self.at_mean[part]) / self.sizes[part], nan=0.0)
        n_columns = int(np.searchsorted(-self.distances, -needed.min(), side="right"))
        return rows, max(n_columns, 1)

    def scores(self, low: int, rows: int, n_columns: int) -> Matrix:
        """θ of a block; −∞ for the cells that are left out."""
        theta: Matrix = self._space[: rows * n_columns].reshape(rows, n_columns)
        np.matmul(self.Q[low : low + rows], self.columns[:n_columns].T, out=theta)
        theta += self.bias
        if self.patterns is not None:
            added = self.patterns.rows(self.subjects[low : low + rows], self.region.relation)
            theta += added[:, self.objects[:n_columns]]
        part = self._left_out[slice(*np.searchsorted(self._left_out[:, 0], [low, low + rows]))]
        part = part[part[:, 1] < n_columns]
        theta[part[:, 0] - low, part[:, 1]] = -np.inf
        return theta

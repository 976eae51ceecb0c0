"""What a data scientist would try first, beside ours: `python benchmarks/opponents.py company 0 --only LR GB ours`.

A tenth of the facts of a world with planted truth is withheld, and every opponent gives all unlisted cells a
probability: filtered ranks of the withheld facts, and their average precision among all unlisted cells.

The opponents that learn from features withhold a quarter of the training facts from themselves: what connects their
subjects and objects in the other three quarters is compared with that of sampled cells. All training facts then make
up the graph that the features of unlisted cells are computed from.
"""

from __future__ import annotations

import argparse
import json
import operator
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import answers
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent
from answer_graphs import KINDS

UNDIRECTED = ("coauthors",)  # kinds whose pairs are listed once, in either direction
HIDDEN = 0.25  # of the training facts, to learn from
MIN_ROLE = 0.01  # of the ends of a relation; whoever has a role that so many have may be an end, too
N_PATHS = 24
FOLDS = 4  # of the cross-validation; a relation with fewer facts to learn from is answered by frequency
RANK = 16  # of a factorised relation
SAMPLED, PER_FACT = 20_000, 20  # zeros that are learned from, at least and per fact
CELLS = 200_000  # whose features are computed at once
ROWS = 512  # withheld facts at once
PLACES = 10_000  # of the likeliest cells, per withheld fact: those behind change no average precision by 10⁻⁴
MLN_SECONDS = 120

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Cells = Callable[[int], Array]  # relation → probabilities of all cells, (N, N)


# --- features


class _Feature(NamedTuple):
    """left @ right, one value for each pair: log(1 + scale · value), or the value itself without a scale."""

    left: Any  # (N, m)
    right: Any  # (m, N)
    scale: float | None = None


class PairFeatures:
    """Features of the pairs of one relation in a graph, to predict a fact that is not in the graph.

    Logarithms of the degrees of both ends in every role; other relations of the pair, in both directions; two-step
    paths; collaborative filtering: which share of those who resemble the subject (they share neighbours in a relation)
    have the object, and which share of those like the object the subject has; and a truncated SVD of the relation.
    """

    def __init__(self, graph: Graph, relation: int, paths: Sequence[tuple[int, int]]):
        X, n = graph.steps[2 * relation], graph.n
        ones = np.ones((n, 1), np.float32)
        features: list[_Feature] = []
        for step, A in enumerate(graph.steps):
            degree = np.log1p(A.sum(axis=1))[:, None].astype(np.float32)
            features.append(_Feature(degree, ones.T))
            features.append(_Feature(ones, degree.T))
            if step != 2 * relation:
                features.append(_Feature(A, graph.identity, 1.0))
            there, back = graph.shares[step], graph.shares[step ^ 1]
            features.append(_Feature(there, back @ X, 1000.0))
            features.append(_Feature(X @ back.T, there.T.tocsr(), 1000.0))
        features += [_Feature(graph.steps[a], graph.steps[b], 1.0) for a, b in paths]
        self.features = [*features, svd(graph, relation)]

    def at(self, s: Ids, o: Ids) -> NDArray[np.float32]:
        """The features of single pairs, (pairs, features)."""
        rows, row = np.unique(s, return_inverse=True)
        columns, column = np.unique(o, return_inverse=True)
        return np.stack([block[row, column] for block in self._blocks(rows, columns)], axis=1)

    def grid(self, rows: Ids, columns: Ids) -> NDArray[np.float32]:
        """The features of all pairs of some subjects with some objects, (rows · columns, features)."""
        return np.stack([block.ravel() for block in self._blocks(rows, columns)], axis=1)

    def _blocks(self, rows: Ids, columns: Ids) -> Iterator[NDArray[np.float32]]:
        """Each feature of all pairs of some subjects with some objects."""
        for feature in self.features:
            product = feature.left[rows] @ feature.right[:, columns]
            block = product.toarray() if sp.issparse(product) else product
            yield block if feature.scale is None else np.log1p(feature.scale * block)


def svd(graph: Graph, relation: int) -> _Feature:
    """A truncated SVD of a relation."""
    X = graph.steps[2 * relation]
    model = TruncatedSVD(min(RANK, graph.n - 1), random_state=0)
    return _Feature(model.fit_transform(X), model.components_)


def telling_paths(graph: Graph, s: Ids, o: Ids, y: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The two steps that connect facts and other pairs most differently often."""
    rows, row = np.unique(s, return_inverse=True)
    columns, column = np.unique(o, return_inverse=True)
    difference = {}
    for b, second in enumerate(graph.steps):
        there = second[:, columns]
        for a, first in enumerate(graph.steps):
            block = first[rows] @ there
            if block.nnz:
                value = np.log1p(block.toarray()[row, column])
                spread = np.sqrt(value[y].var() + value[~y].var()) + 1e-3
                difference[a, b] = abs(value[y].mean() - value[~y].mean()) / spread
    return sorted(difference, key=lambda path: -difference[path])[:N_PATHS]


class Graph:
    """Facts as steps: relation k leads from subjects to objects in step 2k, and back in step 2k + 1."""

    def __init__(self, facts: relatent.Facts):
        self.n = facts.n_entities
        forth = [sp.csr_array(facts.matrix(k), dtype=np.float32) for k in range(facts.n_relations)]
        self.steps = [A for X in forth for A in (X, X.T.tocsr())]
        self.shares = [sp.diags_array(1 / np.maximum(A.sum(axis=1), 1)).tocsr() @ A for A in self.steps]
        self.identity = sp.eye_array(self.n, dtype=np.float32).tocsr()
        self.roles = np.stack([A.sum(axis=1) > 0 for A in self.steps], axis=1)  # (N, steps)

    def ends(self, step: int) -> Ids:
        """Who may take this step: whoever has a role in common with those who do."""
        usual = self.roles[self.roles[:, step]].mean(axis=0) >= MIN_ROLE
        return np.flatnonzero(self.roles[:, usual].any(axis=1))


# --- opponents


def by_features(train: relatent.Facts, seed: int, classifier: Pipeline) -> Cells:
    """A classifier of each relation, which learns from the hidden facts what the others have to do with them."""
    others, hidden = relatent.split(train, test_size=HIDDEN, random_state=seed)
    known, graph, rng = Graph(others), Graph(train), np.random.default_rng(seed)

    def probabilities(k: int) -> Array:
        s, _, o = hidden.triples[slice(*hidden.starts[k : k + 2])].T.astype(np.int64)
        zeros, n_zeros = _zeros(train, known, k, max(SAMPLED, PER_FACT * len(s)), rng)
        if len(s) < FOLDS or n_zeros < FOLDS:
            return frequency(train, seed)(k)
        s, o = np.concatenate([s, zeros[0]]), np.concatenate([o, zeros[1]])
        y = np.arange(len(s)) < len(s) - len(zeros[0])
        paths = telling_paths(known, s, o, y)
        model = clone(classifier).fit(PairFeatures(known, k, paths).at(s, o), y)
        return _predict(model, PairFeatures(graph, k, paths), graph, k, np.log(n_zeros / len(zeros[0])))

    return probabilities


def _zeros(
    train: relatent.Facts, graph: Graph, k: int, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Unlisted cells of plausible ends, (2, n): at most `count`, drawn from all; and how many there are."""
    unlisted = train.matrix(k).toarray() == 0
    if (train.subjects != train.objects)[slice(*train.starts[k : k + 2])].all():  # nothing relates to itself
        np.fill_diagonal(unlisted, False)
    subjects, objects = graph.ends(2 * k), graph.ends(2 * k + 1)
    row, column = np.nonzero(unlisted[np.ix_(subjects, objects)])
    chosen = rng.choice(len(row), min(count, len(row)), replace=False)
    return np.stack([subjects[row[chosen]], objects[column[chosen]]]), len(row)


def _predict(model: Pipeline, features: PairFeatures, graph: Graph, k: int, log_rate: float) -> Array:
    """Probabilities of the cells of plausible ends, zeros being as frequent as they are; others are 0."""
    subjects, objects = graph.ends(2 * k), graph.ends(2 * k + 1)
    found, at_once = np.zeros((graph.n, graph.n)), max(1, CELLS // max(1, len(objects)))
    for low in range(0, len(subjects), at_once):
        rows = subjects[low : low + at_once]
        theta = model.decision_function(features.grid(rows, objects)).reshape(len(rows), -1)
        found[np.ix_(rows, objects)] = expit(theta - log_rate)
    return found


def truncated_svd(train: relatent.Facts, seed: int) -> Cells:
    """A truncated SVD of each relation."""
    graph = Graph(train)
    return lambda k: np.asarray(operator.matmul(*svd(graph, k)[:2]), np.float64)


def nmf(train: relatent.Facts, seed: int) -> Cells:
    """A non-negative factorisation of each relation."""
    model = NMF(RANK, init="nndsvda", max_iter=300, random_state=seed)
    return lambda k: np.asarray(model.fit_transform(train.matrix(k)) @ model.components_)


def frequency(train: relatent.Facts, seed: int) -> Cells:
    """How often the subject is one and the object is one, as if they were independent."""
    matrices = [train.matrix(k) for k in range(train.n_relations)]
    return lambda k: np.asarray(matrices[k].sum(axis=1) @ matrices[k].sum(axis=0)) / max(matrices[k].nnz, 1)


def markov_logic(train: relatent.Facts, seed: int) -> Cells:
    """A Markov logic network, if it can be learned in time."""
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(MLN_SECONDS)
    try:
        return partial(answers.probabilities_of, relatent.MarkovLogic().fit(train).factors_, train)
    finally:
        signal.alarm(0)


def _out_of_time(*_: object) -> None:
    raise TimeoutError(f"over {MLN_SECONDS} s")


def without_options(name: str, train: relatent.Facts, seed: int) -> Cells:
    """Ours; the seed is that of the split alone."""
    return partial(answers.probabilities_of, OURS[name]().fit(train).factors_, train)


PENALTIES = {"C": [0.003, 0.01, 0.03, 0.1, 0.3, 1]}
LR = make_pipeline(
    StandardScaler(), GridSearchCV(LogisticRegression(max_iter=1000), PENALTIES, scoring="neg_log_loss", cv=FOLDS)
)
GB = make_pipeline(  # 31 leaves, the default, are too many for a few facts
    HistGradientBoostingClassifier(max_leaf_nodes=8, learning_rate=0.05, l2_regularization=1.0, random_state=0)
)
TOLD = "ours, told"  # that the pairs have no direction; others of OURS get them as they are listed
OURS = {"ours": relatent.RescalLogit, TOLD: relatent.RescalLogit, "rescal": relatent.Rescal}
OPPONENTS: dict[str, Callable[[relatent.Facts, int], Cells]] = {
    "LR": partial(by_features, classifier=LR),
    "GB": partial(by_features, classifier=GB),
    "SVD": truncated_svd,
    "NMF": nmf,
    "frequency": frequency,
    "mln": markov_logic,
    "ours": partial(without_options, "ours"),
    TOLD: partial(without_options, TOLD),
    "rescal": partial(without_options, "rescal"),
}


# --- the judgement


class _Judged(NamedTuple):
    """One relation: ranks of the withheld facts on both sides, their scores, and those of all unlisted cells."""

    ranks: Array  # (withheld facts, 2)
    withheld: Array
    cells: Array


def judge_scores(
    train: relatent.Facts, test: relatent.Facts, score_of_relation: Cells, undirected: bool = False
) -> dict[str, Any]:
    """Filtered ranks of the withheld facts on both sides, and their average precision among all unlisted cells.

    The scores of a relation, (N, N), are asked for once; for the average precision, those of all relations have to be
    comparable. `undirected`: whoever lists one direction of a pair lists both, and the larger score of the two counts.
    """
    likeliest, judged, by_relation, seconds = np.empty(0), [], {}, 0.0
    for k, name in enumerate(train.relations):
        started = time.perf_counter()
        scores = score_of_relation(k)
        seconds += time.perf_counter() - started
        found = _judge_relation(train, test, scores, k, undirected)
        likeliest = _largest(np.concatenate([likeliest, found.cells]), PLACES * len(test))
        if len(found.withheld):
            by_relation[name] = _summary(found.ranks, found.withheld, found.cells)
        judged.append(found._replace(cells=likeliest[:0]))
    ranks, withheld, _ = (np.concatenate(columns) for columns in zip(*judged, strict=True))
    return {**_summary(ranks, withheld, likeliest), "relations": by_relation, "seconds of scores": seconds}


def _judge_relation(train: relatent.Facts, test: relatent.Facts, scores: Array, k: int, undirected: bool) -> _Judged:
    listed, true = (facts.matrix(k).toarray() > 0 for facts in (train, test))
    s, _, o = train.unobserved[train.unobserved[:, 1] == k].T
    listed[s, o] = True  # nobody knows what is true there
    if undirected:
        listed, true, scores = listed | listed.T, true | true.T, np.maximum(scores, scores.T)
    if not (listed | true).diagonal().any():  # nothing relates to itself
        np.fill_diagonal(listed, True)
    if np.isnan(scores[~listed]).any():
        raise ValueError(f"{train.relations[k]} has scores that are no numbers")
    s, o = np.nonzero(true)
    rivals = np.where(listed | true, np.nan, scores)  # a comparison with NaN is false
    ranks = np.stack([_ranks(rivals.T, o, scores[s, o]), _ranks(rivals, s, scores[s, o])], axis=1)
    if undirected:
        listed, true = listed | np.tri(len(listed), dtype=bool), np.triu(true)
    return _Judged(ranks, scores[true], scores[~listed])


def _ranks(rivals: Array, rows: Ids, scores: Array) -> Array:
    """The rank of each score in its row, in the middle of equal ones."""
    found = np.empty(len(rows))
    for low in range(0, len(rows), ROWS):
        part = slice(low, low + ROWS)
        others, own = rivals[rows[part]], scores[part, None]
        found[part] = 1 + (others > own).sum(axis=1) + 0.5 * (others == own).sum(axis=1)
    return found


def _largest(values: Array, count: int) -> Array:
    return values if len(values) <= count else np.partition(values, len(values) - count)[-count:]


def _summary(ranks: Array, withheld: Array, cells: Array) -> dict[str, float]:
    return {
        "withheld": len(withheld),
        "MRR": float((1 / ranks).mean()),
        "hits@10": float((ranks <= 10).mean()),
        "average precision": _average_precision(withheld, cells),
    }


def _average_precision(withheld: Array, cells: Array) -> float:
    """Of the withheld facts among cells; those of equal scores stand at the same place, the last one."""
    scores, gained = np.unique(withheld, return_counts=True)
    hits = np.cumsum(gained[::-1])[::-1]
    places = len(cells) - np.searchsorted(np.sort(cells), scores)
    return float((gained * hits / np.maximum(places, hits)).sum() / len(withheld))


# --- runs


def opponents(seed: int) -> dict[str, Any]:
    """Every opponent on every kind of world."""
    return {kind: run_kind(kind, seed) for kind in KINDS}


def run_kind(kind: str, seed: int, names: Iterable[str] = tuple(OPPONENTS)) -> dict[str, Any]:
    """Withhold, and judge each opponent."""
    train, test = relatent.split(answers.facts_of(kind, seed), test_size=answers.SHARE, random_state=seed)
    with warnings.catch_warnings():
        for category in (relatent.RelatentWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        return {name: run(name, train, test, seed, kind in UNDIRECTED) for name in names}


def run(name: str, train: relatent.Facts, test: relatent.Facts, seed: int, undirected: bool) -> dict[str, Any]:
    """One opponent; the seconds are those of learning and of the scores of all cells."""
    if name == TOLD and not undirected:
        return {"left out": "the facts have directions"}
    given = train if name in OURS and name != TOLD else train.with_undirected(undirected)
    if name in OURS:
        OURS[name](max_iter=1).fit(given)  # compiles
    started = time.perf_counter()
    try:
        scores = OPPONENTS[name](given, seed)
    except TimeoutError as limit:
        return {"left out": str(limit)}
    seconds = time.perf_counter() - started
    found = judge_scores(train, test, scores, undirected)
    return {**found, "seconds": seconds + found["seconds of scores"]}


def _report(title: str, found: dict[str, Any]) -> str:
    """A table to read."""
    columns = ("MRR", "hits@10", "average precision", "seconds")
    lines = [f"{title:24}" + "".join(f"{column:>19}" for column in columns)]
    for name, result in found.items():
        figures = [f"{result[column]:19.4f}" for column in columns if column in result]
        lines.append(f"  {name:22}" + ("".join(figures) or f"left out: {result['left out']}"))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*KINDS, *answers.DATA_SETS])
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--only", nargs="+", choices=OPPONENTS, default=list(OPPONENTS), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    found = run_kind(arguments.kind, arguments.seed, arguments.only)
    if arguments.json:
        print(json.dumps({"kind": arguments.kind, "seed": arguments.seed, "results": found}, indent=2))
    else:
        print(_report(f"{arguments.kind}, seed {arguments.seed}", found))


if __name__ == "__main__":
    main()

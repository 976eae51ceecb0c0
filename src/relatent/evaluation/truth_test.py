"""Truth test (triple classification): can a model tell true statements from false ones that look plausible?

A score says how far a statement is from others of its relation, not where truth begins: that differs between
relations. So each relation gets its own map from scores to probabilities, σ(slope·θ + intercept), learned from
validation statements, and a statement is called true from probability 1/2 on, which is one threshold of θ per
relation. The maps are drawn towards their mean, so that a relation with few validation statements hardly differs
from it, and one without any has it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.metrics import f1_score

from ..arrays import Ids, Mask, Vector
from ..data.cell_keys import cell_keys, cells_of
from ..data.facts import Facts
from ..data.names import Names
from ..errors import DataWarning, InputError
from ..fit.pooled_logistic import CoefficientPrior, pooled_logistic
from ..json_values import to_json
from ..model.factors import Factors
from ..random_state import RandomState, to_generator
from ..result_tables import Result, html_table, result_record
from .metrics import measure
from .ranking_questions import translated
from .reliability import expected_calibration_error

MAP_PRIOR = CoefficientPrior(  # slope and intercept, on scores of unit variance
    centre=np.array([0.0, 0.0]),
    mean_precision=np.array([0.1, 0.1]),  # keeps them finite where scores separate perfectly
    precision=np.array([1.0, 1.0]),
    nonnegative=np.array([True, False]),
)
OWN_HALVES = "each half of the statements judged by thresholds per relation from the other half"
FROM_VALIDATION = "thresholds per relation from the validation statements"


@result_record
class TruthFigures(NamedTuple):
    """How well probabilities tell true statements from false ones; a statement is called true from 1/2 on.

    >>> TruthFigures(n=10, accuracy=0.9, f1=0.9, auc_roc=0.95, ece=0.1).accuracy
    0.9
    """

    n: int
    accuracy: float
    f1: float
    auc_roc: float  # NaN without both true and false statements
    ece: float  # expected calibration error


@dataclass(frozen=True, eq=False, repr=False)
class TruthTest(Result):
    """Statements with their truth and probability; the result of `truth_test`. `to_pandas` has one row per relation.

    >>> import numpy as np, relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> train, test = relatent.split(facts, test_size=0.1)
    >>> s, k, o = test.triples.T
    >>> swapped = relatent.Facts.from_ids(np.stack([o, k, s], 1), facts.entities, facts.relations)
    >>> negatives = swapped.subset(~facts.contains(swapped.triples))
    >>> found = relatent.truth_test(relatent.RescalALS(rank=20).fit(train).factors_, test, negatives)
    >>> found.accuracy > 0.8, found.overall.n == len(test) + len(negatives)
    (True, True)
    """

    truth: Mask  # (n,)
    scores: Vector  # (n,) θ
    probabilities: Vector  # (n,) by the map of the statement's relation
    model_probabilities: Vector | None  # (n,) of the model itself, if it has any: those of a cell, not of a statement
    baseline_probabilities: Vector  # (n,) the share of true statements of the relation, without scores
    relation_ids: Ids  # (n,)
    relations: Names
    thresholds: Vector  # (K,) θ from which a statement is called true; NaN where there is none
    n_validation: int  # statements that the maps were learned from; 0 if halves of the statements judge each other
    n_unseen: int = 0  # statements left out because the model lacks a name

    @property
    def protocol(self) -> str:
        """Where the thresholds come from, in words."""
        return FROM_VALIDATION if self.n_validation else OWN_HALVES

    @cached_property
    def overall(self) -> TruthFigures:
        """The figures of all statements."""
        return _figures(self.truth, self.probabilities)

    @property
    def accuracy(self) -> float:
        """The fraction of statements that are called right."""
        return self.overall.accuracy

    @cached_property
    def uncalibrated(self) -> TruthFigures | None:
        """The figures of the model's own probabilities, with threshold 1/2; None if it has no probabilities."""
        return None if self.model_probabilities is None else _figures(self.truth, self.model_probabilities)

    @cached_property
    def baseline(self) -> TruthFigures:
        """The figures of the share of true statements of each relation, which needs no model."""
        return _figures(self.truth, self.baseline_probabilities)

    @cached_property
    def by_relation(self) -> dict[str, TruthFigures]:
        """The figures of each relation, most statements first."""
        ids, sizes = np.unique(self.relation_ids, return_counts=True)
        return {
            self.relations[k]: _figures(self.truth[self.relation_ids == k], self.probabilities[self.relation_ids == k])
            for k in ids[np.argsort(-sizes, kind="stable")].tolist()
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single statements, as JSON values."""
        return {
            **to_json(self.overall),
            "n_true": int(self.truth.sum()),
            "n_validation": self.n_validation,
            "n_unseen": self.n_unseen,
            "protocol": self.protocol,
            "uncalibrated": to_json(self.uncalibrated),
            "baseline": to_json(self.baseline),
            "by_relation": {
                name: {**to_json(row), "threshold": to_json(self.thresholds[self.relations.id(name)])}
                for name, row in self.by_relation.items()
            },
        }

    def _table(self) -> list[dict[str, Any]]:
        """The figures of each relation."""
        return [{"relation": name, **row._asdict()} for name, row in self.by_relation.items()]

    def _repr_html_(self) -> str:
        """The figures of all statements beside those that need no model."""
        shown = {"model": self.overall, "share of true statements": self.baseline}
        return html_table(repr(self), [{"": name, **row._asdict()} for name, row in shown.items()])

    def __repr__(self) -> str:
        found = self.overall
        return f"TruthTest({found.n} statements, accuracy {found.accuracy:.3f}, ROC AUC {found.auc_roc:.3f})"


def truth_test(
    factors: Factors,
    facts: Facts,
    negatives: Facts,
    *,
    validation: Facts | None = None,
    validation_negatives: Facts | None = None,
    random_state: RandomState = 0,
) -> TruthTest:
    """Tell true statements from false ones: accuracy, F1, ROC AUC and calibration error.

    Each relation has a threshold of its own, learned from validation statements; see `relatent.evaluation.truth_test`.
    Names are matched; statements with names that the model lacks are left out.

    Parameters
    ----------
    facts, negatives : true and false statements
    validation, validation_negatives : other true and false statements, of the same kind, to learn the thresholds from;
        without them, two random halves of the statements judge each other
    random_state : seed of the halves

    >>> import relatent
    >>> facts = relatent.load_dataset("kinships")
    >>> swapped = relatent.Facts.from_ids(facts.triples[:, ::-1], facts.entities, facts.relations)
    >>> false = swapped.subset(~facts.contains(swapped.triples))
    >>> relatent.truth_test(relatent.RescalALS(rank=20).fit(facts).factors_, facts, false).accuracy > 0.7
    True
    """
    if not isinstance(factors, Factors):
        raise InputError(f"truth_test takes Factors, got {type(factors).__name__}; pass estimator.factors_")
    if (validation is None) != (validation_negatives is None):
        given, missing = ("validation", "validation_negatives")[:: 1 if validation_negatives is None else -1]
        raise InputError(f"{given} needs {missing}: thresholds separate true from false statements; pass both")
    tested = _statements(factors, facts, negatives)
    if tested.n_unseen:
        message = f"{tested.n_unseen} statements are left out: they have names that the model does not know"
        warnings.warn(message, DataWarning, stacklevel=2)
    n_validation, thresholds = 0, np.full(len(factors.relations), np.nan)
    if validation is None or validation_negatives is None:
        half = _random_half(tested, to_generator(random_state))
        judges = [(half, tested.chosen(~half)), (~half, tested.chosen(half))]
    else:
        others = _statements(factors, validation, validation_negatives).without(tested)
        judges, n_validation = [(np.ones(len(tested.truth), bool), others)], len(others.truth)
    of_model = None
    if factors.has_probabilities:
        of_model = factors.candidates.judge(cells_of(tested.keys, len(factors.entities))).probability
    probabilities, baseline = np.empty((2, len(tested.truth)))
    for judged, others in judges:
        statements, maps = tested.chosen(judged), _fit_maps(others)
        probabilities[judged] = maps.probabilities(statements)
        baseline[judged] = _fit_maps(others.without_scores()).probabilities(statements.without_scores())
        if n_validation:
            np.divide(-maps.intercepts, maps.slopes, where=maps.slopes > 0, out=thresholds)
    return TruthTest(
        tested.truth,
        tested.scores,
        probabilities,
        None if of_model is None else np.asarray(of_model, np.float64),
        baseline,
        tested.relations,
        factors.relations,
        thresholds,
        n_validation,
        tested.n_unseen,
    )


def _figures(truth: Mask, probabilities: Vector) -> TruthFigures:
    called = probabilities >= 0.5
    return TruthFigures(
        len(truth),
        float(np.mean(called == truth)),
        float(f1_score(truth, called, zero_division=0.0)),
        measure(truth, probabilities, probabilities).auc_roc,
        expected_calibration_error(truth, probabilities),
    )


# --- statements


class _Statements(NamedTuple):
    """True and false statements with names that the model has."""

    keys: Ids  # (n,) cell keys
    relations: Ids
    truth: Mask
    scores: Vector
    n_relations: int
    n_unseen: int

    def chosen(self, mask: Mask) -> _Statements:
        """Only these statements."""
        return self._replace(
            keys=self.keys[mask], relations=self.relations[mask], truth=self.truth[mask], scores=self.scores[mask]
        )

    def without_scores(self) -> _Statements:
        """The same statements, all with score 0."""
        return self._replace(scores=np.zeros_like(self.scores))

    def without(self, tested: _Statements) -> _Statements:
        """The statements that are not tested, with a warning if there are others."""
        shared = np.isin(self.keys, tested.keys)
        if shared.any():
            message = f"{np.sum(shared)} validation statements are test statements as well and are left out"
            warnings.warn(message, DataWarning, stacklevel=3)
        kept = self.chosen(~shared)
        if kept.truth.all() or not kept.truth.any():
            raise InputError(
                f"validation needs true and false statements, got {kept.truth.sum()} of {len(kept.truth)} true"
            )
        return kept


def _statements(factors: Factors, facts: Facts, negatives: Facts) -> _Statements:
    parts = [translated(source, factors.entities, factors.relations) for source in (facts, negatives)]
    for what, part in zip(("true", "false"), parts, strict=True):
        if not part.shape[1]:
            raise InputError(f"the model knows the names of no {what} statement; pass statements from the same data")
    cells = np.concatenate(parts, axis=1)
    keys = cell_keys(cells.T, len(factors.entities))
    if n_both := len(keys) - len(np.unique(keys)):
        raise InputError(f"a statement must be either true or false, got {n_both} that are both; list each once")
    return _Statements(
        keys,
        cells[1],
        np.repeat([True, False], [part.shape[1] for part in parts]),
        np.asarray(factors.score(*cells), np.float64),
        len(factors.relations),
        len(facts) + len(negatives) - len(keys),
    )


# --- one map per relation


class _Maps(NamedTuple):
    """p = σ(slope·θ + intercept), one map per relation."""

    slopes: Vector  # (K,)
    intercepts: Vector

    def probabilities(self, statements: _Statements) -> Vector:
        """The probability of each statement."""
        k = statements.relations
        return np.asarray(expit(self.slopes[k] * statements.scores + self.intercepts[k]))


def _fit_maps(statements: _Statements) -> _Maps:
    """The map of each relation, on scores of unit variance, drawn towards the mean map."""
    centre, spread = statements.scores.mean(), statements.scores.std() or 1.0
    z, k, n = (statements.scores - centre) / spread, statements.relations, statements.n_relations
    true, false = statements.truth.astype(np.float64), (~statements.truth).astype(np.float64)
    found = pooled_logistic(np.stack([z, np.ones(len(z))], axis=1), k, n, true, false, MAP_PRIOR).of_group
    slopes, intercepts = found.T
    return _Maps(slopes / spread, intercepts - slopes * centre / spread)


def _random_half(statements: _Statements, rng: np.random.Generator) -> Mask:
    """Half of the statements of each relation, true or false: equal shares of true ones would give the truth away."""
    shuffled = rng.permutation(len(statements.truth))
    half = np.empty(len(shuffled), bool)
    half[shuffled[np.argsort(statements.relations[shuffled], kind="stable")]] = np.arange(len(shuffled)) % 2 == 0
    return half

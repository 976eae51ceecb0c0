"""The settings that `tune` searches: models, their hyperparameter ranges, and an even sequence of candidates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from ..data.facts import Facts
from ..fit.automatic_settings import DataSummary
from ..fit.estimators.als import RescalALS
from ..fit.estimators.base import Estimator
from ..fit.estimators.rescal import Rescal, RescalLogit
from ..fit.optimisers import Adam
from ..fit.penalties import Dura
from ..model.entity_regression import FOLD_IN_LOSSES
from .folds import MAX_FOLD_CELLS


@dataclass(frozen=True)
class SearchSpace:
    """One model and the range of its settings; penalties and ranks are drawn evenly on a logarithmic scale."""

    loss: str
    penalty: tuple[float, float]  # smallest and largest λ, or weight of DURA
    rank: tuple[int, int] = (4, 100)
    bias: bool = True  # whether to search with and without
    dura: bool = False  # the penalty is DURA
    fixed: Mapping[str, Any] = field(default_factory=dict)  # settings that are not searched
    first_round_steps: int = 40  # iterations of the fits in the first round
    ranking_only: bool = False  # the model gives no probabilities
    even_rank: bool = False

    @property
    def folds_in(self) -> bool:
        """Whether models of this kind explain predictions and fold in new entities."""
        return self.loss in FOLD_IN_LOSSES

    def settings(self, point: Sequence[float], n_entities: int) -> dict[str, Any]:
        """The settings at a point of the unit cube."""
        u_rank, u_penalty, u_bias = point
        max_rank = min(self.rank[1], n_entities)
        rank = round(_log_interpolate(min(self.rank[0], max_rank), max_rank, u_rank))
        rank -= rank % 2 if self.even_rank and rank > 1 else 0
        weight = float(f"{_log_interpolate(*self.penalty, u_penalty):.2g}")
        penalty = {"penalty": Dura(weight)} if self.dura else {"l2_entities": weight, "l2_relations": weight}
        return {**self.fixed, "rank": rank, **penalty, **({"bias": u_bias < 0.5} if self.bias else {})}


SPACES = {
    "logit": SearchSpace("logistic", (0.05, 12.0)),
    "als": SearchSpace("squared", (0.1, 30.0), bias=False, first_round_steps=15),
    "categorical": SearchSpace("categorical", (0.05, 12.0), (4, 60)),
    "softmax": SearchSpace(
        "softmax",
        (0.005, 0.5),
        (16, 128),
        bias=False,
        dura=True,  # softmax ranks well with DURA and Adam (docs/guide.md), not with λ
        fixed={"penalty": Dura(0.05), "optimiser": Adam(0.03), "init": "small", "max_iter": 60, "bias": False},
        ranking_only=True,
    ),
}
# On sparse data logit chooses a complex structure, Adam and samples by itself; the rest is searched.
SPARSE_LOGIT = SearchSpace("logistic", (0.01, 0.4), (32, 256), bias=False, dura=True, even_rank=True)
ESTIMATORS = {"logit": RescalLogit, "als": RescalALS}  # the others are Rescal with their loss
FOLD_IN_MODELS = tuple(model for model, space in SPACES.items() if space.folds_in)


class Candidate(NamedTuple):
    """A model and settings to try.

    >>> print(Candidate("logit", {"rank": 20, "l2_entities": 0.5, "l2_relations": 0.5}))
    logit, λ 0.5, rank 20
    """

    model: str
    settings: dict[str, Any]

    def estimator(self, random_state: int) -> Estimator:
        """An unfitted estimator with these settings."""
        made: Estimator = ESTIMATORS[self.model]() if self.model in ESTIMATORS else Rescal(loss=SPACES[self.model].loss)
        made.set_params(random_state=random_state, **self.settings)
        return made

    @property
    def folds_in(self) -> bool:
        """Whether the model explains predictions and folds in new entities."""
        return SPACES[self.model].folds_in

    def __str__(self) -> str:
        labels = {"l2_entities": "λ", "rank": "rank", "penalty": "DURA"}
        values = {**self.settings, "penalty": getattr(self.settings.get("penalty"), "weight", None)}
        parts = [f"{label} {values[name]:g}" for name, label in labels.items() if values.get(name) is not None]
        if "bias" in self.settings:
            parts.append("bias" if self.settings["bias"] else "no bias")
        return ", ".join([self.model, *(parts or ["default settings"])])


def candidates(facts: Facts, models: Sequence[str], random_state: int) -> Iterator[Candidate]:
    """Endless candidates, the models in turn: first the defaults of each, then a Halton sequence of its space."""
    for model in models:
        yield Candidate(model, dict(SPACES[model].fixed))
    sequences = [_halton_sequence(model, facts, random_state) for model in models]
    yield from itertools.chain.from_iterable(zip(*sequences, strict=True))


def _halton_sequence(model: str, facts: Facts, random_state: int) -> Iterator[Candidate]:
    space = SPARSE_LOGIT if model == "logit" and DataSummary.of(facts).is_sparse else SPACES[model]
    halton = qmc.Halton(3, rng=np.random.default_rng([random_state, list(SPACES).index(model)]))
    while True:
        yield Candidate(model, space.settings(halton.random(1)[0].tolist(), facts.n_entities))


def _log_interpolate(low: float, high: float, u: float) -> float:
    """The point a fraction u of the way from low to high, on a logarithmic scale."""
    return float(low * (high / low) ** u)


def why_unsuitable(model: str, facts: Facts, metric: str, *, requested: bool) -> str:
    """Why a model is not tried on these facts, or "" if it is; `requested`: the user asked for it by name."""
    if SPACES[model].ranking_only and metric != "mrr":
        return f"{model} gives no probabilities; use metric='mrr'"
    if SPACES[model].loss == "categorical":
        if not has_exclusive_relations(facts):
            return "some pairs of entities have several relations"
        if not requested and (facts.n_relations == 1 or facts.n_cells > MAX_FOLD_CELLS):
            return "it would equal logit, or take long"
    return ""


def has_exclusive_relations(facts: Facts) -> bool:
    """Whether no two facts have both subject and object in common."""
    pairs = facts.subjects.astype(np.int64) * facts.n_entities + facts.objects
    return len(np.unique(pairs)) == len(pairs)

"""The settings that `tune` searches: models, their hyperparameter ranges, and an even sequence of candidates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import qmc

from ..data.facts import Facts
from ..fit.automatic_settings import (
    CPU_BATCHES,
    GPU_BATCHES,
    GPU_ROUNDS,
    LARGE_DATA,
    SPARSE_ROUNDS,
    DataSummary,
    for_likelihood,
)
from ..fit.estimators.als import RescalALS
from ..fit.estimators.base import Estimator
from ..fit.estimators.rescal import Rescal
from ..fit.estimators.rescal_logit import RescalLogit
from ..fit.estimators.summed import Summed, equal_weights
from ..fit.losses import Softmax, resolve
from ..fit.optimisers import Adam
from ..fit.penalties import N3, Dura
from ..fit.settings import to_json
from ..model.entity_regression import FOLD_IN_LOSSES
from ..model.structure import Blocks, rank_multiple
from ..result_tables import result_record
from .folds import MAX_FOLD_CELLS


@dataclass(frozen=True)
class SearchSpace:
    """One model and the range of its settings; penalties, ranks and rates are drawn evenly on a logarithmic scale."""

    loss: str
    penalty: tuple[float, float]  # smallest and largest λ, or weight of the penalty per fact
    rank: tuple[int, int] = (4, 100)
    bias: bool = True  # whether to search with and without
    per_fact: Dura | N3 | None = None  # the penalty in place of λ, but for its weight
    rate: tuple[float, float] | None = None  # smallest and largest learning rate of Adam; None: not searched
    losses: tuple[Softmax, ...] = ()  # to choose among
    fixed: Mapping[str, Any] = field(default_factory=dict)  # settings that are not searched
    first_round_steps: int = 40  # iterations of the fits in the first round
    ranking_only: bool = False  # the model gives no probabilities
    wide: bool = False  # the rank may exceed the number of entities

    @property
    def folds_in(self) -> bool:
        """Whether models of this kind explain predictions and fold in new entities."""
        return self.loss in FOLD_IN_LOSSES

    def settings(self, point: Sequence[float], n_entities: int) -> dict[str, Any]:
        """The settings at a point of the unit cube."""
        u_rank, u_penalty, u_other = point
        max_rank = self.rank[1] if self.wide else min(self.rank[1], n_entities)
        rank = round(_log_interpolate(min(self.rank[0], max_rank), max_rank, u_rank))
        multiple = rank_multiple(self.fixed.get("structure", "full"))
        rank = max(rank - rank % multiple, multiple if multiple <= n_entities else 1)
        weight = _two_digits(_log_interpolate(*self.penalty, u_penalty))
        penalty = (
            {"penalty": replace(self.per_fact, weight=weight)}
            if self.per_fact
            else {"l2_entities": weight, "l2_relations": weight}
        )
        rate = {"optimiser": Adam(_two_digits(_log_interpolate(*self.rate, u_other)))} if self.rate else {}
        loss = {"loss": self.losses[int(u_other * len(self.losses))]} if self.losses else {}
        return {**self.fixed, "rank": rank, **penalty, **rate, **loss, **({"bias": u_other < 0.5} if self.bias else {})}

    def centre(self, n_entities: int) -> dict[str, Any]:
        """The settings in the middle of the space, with its last loss."""
        return self.settings((0.5, 0.5, 0.999), n_entities)

    def around(self, rank: int, weight: float) -> SearchSpace:
        """The same space near a rank and a weight of the penalty."""
        ranks = max(2, rank // RANK_FACTOR), max(rank, min(RANK_FACTOR * rank, self.rank[1]))
        weights = max(self.penalty[0], weight / WEIGHT_FACTOR), min(self.penalty[1], weight * WEIGHT_FACTOR)
        return replace(self, rank=ranks, penalty=weights)


RELATION_WEIGHTS = (0.0, 0.5, 4.0)  # of the softmax over relations; the last one where there are many of them
MANY_RELATIONS = 100
SMALL_RELATION_WEIGHTS = (0.1, 2.0, 0.4)  # of small data; the last one is tried first
SMALL_ENTITIES = 1000  # with no more, complex matrices express more by more components than entities
MEDIUM_ENTITIES, MEDIUM_EPOCHS = 5000, 60  # with no more, complex matrices rank best after more passes (CoDEx-S)
SMALL_BATCHES = 20  # per pass over the facts of small data
MIN_SMALL_BATCH = 64  # facts
RANK_FACTOR, WEIGHT_FACTOR = 2, 6  # between the choice of a fit without options and the ends of the space around it
SPACES = {
    "logit": SearchSpace("logistic", (0.02, 12.0)),
    "als": SearchSpace("squared", (0.1, 30.0), bias=False, first_round_steps=15),
    "categorical": SearchSpace("categorical", (0.05, 12.0), (4, 60)),
    "softmax": SearchSpace(
        "softmax",
        (0.005, 0.5),
        (16, 128),
        bias=False,
        per_fact=Dura(),  # softmax ranks well with DURA and Adam (docs/guide.md), not with λ
        fixed={"penalty": Dura(0.05), "optimiser": Adam(0.03), "init": "small", "max_iter": 60, "bias": False},
        ranking_only=True,
    ),
}
# What a fit without options chooses on sparse data; `tune` tries it on dense data, too.
COMPLEX_LOGIT = SearchSpace(
    "logistic",
    (0.001, 0.6),
    (16, 512),
    bias=False,
    per_fact=N3(),
    rate=(0.03, 0.2),
    fixed={"structure": "complex", "init": "small", "max_iter": SPARSE_ROUNDS, "bias": True},
)
ESTIMATORS = {"logit": RescalLogit, "als": RescalALS}  # the others are Rescal with their loss
SUM = "sum"
FOLD_IN_MODELS = tuple(model for model, space in SPACES.items() if space.folds_in)


@result_record
class Candidate(NamedTuple):
    """A model and settings to try.

    >>> print(Candidate("logit", {"rank": 20, "l2_entities": 0.5, "l2_relations": 0.5}))
    logit, λ 0.5, rank 20
    """

    model: str  # "sum": of the settings' parts
    settings: dict[str, Any]

    @classmethod
    def sum_of(cls, parts: Sequence[Candidate]) -> Candidate:
        """Several candidates, whose models are added.

        >>> print(Candidate.sum_of([Candidate("als", {"rank": 5}), Candidate("als", {"rank": 8})]))
        the sum of (als, rank 5) and (als, rank 8)
        """
        return cls(SUM, {"parts": tuple(parts)})

    def estimator(self, random_state: int) -> Estimator:
        """An unfitted estimator with these settings; of its probabilities `tune` takes care in the end."""
        if self.model == SUM:
            parts = [part.estimator(random_state) for part in self.settings["parts"]]
            return Summed(parts, equal_weights(len(parts)), random_state, calibrate=False)
        made: Estimator = ESTIMATORS[self.model]() if self.model in ESTIMATORS else Rescal(loss=SPACES[self.model].loss)
        made.set_params(random_state=random_state, calibrate=False, **self.settings)
        return made

    def changed(self, **settings: Any) -> Candidate:
        """The same candidate with other values of some settings."""
        return self._replace(settings={**self.settings, **settings})

    def to_dict(self) -> dict[str, Any]:
        """The model and the settings as JSON values."""
        if self.model == SUM:
            return {"model": SUM, "settings": {"parts": [part.to_dict() for part in self.settings["parts"]]}}
        return {"model": self.model, "settings": to_json(self.settings)}

    @property
    def folds_in(self) -> bool:
        """Whether the model explains predictions and folds in new entities."""
        parts: Sequence[Candidate] = self.settings["parts"] if self.model == SUM else ()
        return all(part.folds_in for part in parts) if parts else SPACES[self.model].folds_in

    @property
    def first_round_steps(self) -> int:
        """The steps of a fit in the first round: those of the space, or a quarter of the steps of a complete fit."""
        complete: int = self.settings.get("max_iter", 0)
        usual, quarter = SPACES[self.model].first_round_steps, complete // 4
        if complete and "device" in self.settings:  # the steps of the spaces are for a CPU
            return max(quarter, 1)
        return min(complete or usual, max(usual, quarter))

    def __str__(self) -> str:
        if self.model == SUM:
            return "the sum of " + " and ".join(f"({part})" for part in self.settings["parts"])
        penalty = self.settings.get("penalty")
        labels = {"l2_entities": "λ", "rank": "rank", "penalty": type(penalty).__name__.upper()}
        values = {**self.settings, "penalty": getattr(penalty, "weight", None)}
        parts = [f"{label} {values[name]:g}" for name, label in labels.items() if values.get(name) is not None]
        if (power := getattr(penalty, "frequency_power", 1.0)) != 1:
            parts.append(f"frequency power {power:g}")
        structure, rate = self.settings.get("structure"), getattr(self.settings.get("optimiser"), "lr", None)
        if structure is not None and (rate is not None or structure != "full"):
            parts.append(str(structure))
        if rate is not None:
            parts += [f"Adam {rate:g}", f"{self.settings['max_iter']} steps"]
        if "loss" in self.settings:
            parts += _changes(self.settings["loss"])
        if "bias" in self.settings and rate is None:
            parts.append("bias" if self.settings["bias"] else "no bias")
        return ", ".join([self.model, *(parts or ["default settings"])])


def _changes(loss: Softmax) -> list[str]:
    """The settings of a loss that are not its defaults, but for its batches."""
    changed = {name: value for name, value in vars(loss).items() if name not in ("batch_size", "group_size") and value}
    words = {name: name.replace("_", " ") for name in changed}
    return [words[name] if value is True else f"{words[name]} {value:g}" for name, value in changed.items()]


def candidates(facts: Facts, models: Sequence[str], random_state: int, device: str = "cpu") -> Iterator[Candidate]:
    """Endless candidates: first the defaults of each model, then the models in turn, by a Halton sequence."""
    everywhere = {} if device == "cpu" else {"device": device}
    data = DataSummary.of(facts)
    for model in models:
        for settings in _first_settings(model, data, device):
            yield Candidate(model, everywhere | settings)
    sequences = [
        _halton_sequence(model, spaces_of(model, data, device), data.entities, random_state) for model in models
    ]
    for model, settings in itertools.chain.from_iterable(zip(*sequences, strict=True)):
        yield Candidate(model, everywhere | settings)


def _halton_sequence(
    model: str, spaces: Sequence[SearchSpace], n_entities: int, random_state: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    halton = qmc.Halton(3, rng=np.random.default_rng([random_state, list(SPACES).index(model)]))
    for space in itertools.cycle(spaces):
        yield model, space.settings(halton.random(1)[0].tolist(), n_entities)


def _first_settings(model: str, data: DataSummary, device: str) -> list[dict[str, Any]]:
    """The defaults of a model; for softmax also settings that are best on one benchmark or another."""
    if model != "softmax":
        return [dict(SPACES[model].fixed)]
    spaces = softmax_spaces(data, device)
    if data.entities <= SMALL_ENTITIES:
        return [{}, spaces[0].centre(data.entities)]
    return [{}] if device == "cpu" else [space.centre(data.entities) for space in spaces]


def spaces_of(model: str, data: DataSummary, device: str = "cpu") -> list[SearchSpace]:
    """The spaces of a model, in turn: for logit two near the choice of a fit without options, one of the other kind.

    For small data with complex matrices, one of the two has more components, and N3.
    """
    if model == "softmax":
        return softmax_spaces(data, device)
    if model != "logit":
        return [SPACES[model]]
    given = RescalLogit(device=device).get_params(deep=False)
    chosen = for_likelihood(given, data, resolve("logistic")).values
    is_complex = chosen["structure"] == "complex"
    own, other = (COMPLEX_LOGIT, SPACES[model]) if is_complex else (SPACES[model], COMPLEX_LOGIT)
    near = own.around(chosen["rank"], chosen["penalty"].weight if is_complex else chosen["l2_entities"])
    near = replace(near, per_fact=chosen.get("penalty"))
    if is_complex:
        near = replace(near, fixed={**near.fixed, "max_iter": chosen["max_iter"]})
    if is_complex and data.entities <= SMALL_ENTITIES:
        ranks = max(2, data.entities // 2), min(2 * data.entities, COMPLEX_LOGIT.rank[1])
        return [near, replace(COMPLEX_LOGIT, rank=ranks, penalty=(0.002, 0.05), rate=(0.03, 0.1), wide=True), other]
    return [near, near, other]


def softmax_spaces(data: DataSummary, device: str) -> list[SearchSpace]:
    """Softmax on sparse data: near the fit without options, and on a GPU other structures; on small data a wide one."""
    if data.entities <= SMALL_ENTITIES:
        return [_small_softmax_space(data), _small_softmax_space(data), SPACES["softmax"]]
    given = Rescal(loss="softmax", device=device).get_params(deep=False)
    chosen = for_likelihood(given, data, resolve("softmax")).values
    if chosen["structure"] != "complex":
        return [SPACES["softmax"]]
    on_gpu = device != "cpu"
    batch = 4096 if on_gpu and data.facts >= LARGE_DATA else Softmax().batch_size
    fit = GPU_BATCHES if on_gpu else CPU_BATCHES
    fixed = {name: chosen[name] for name in ("structure", "optimiser", "init", "method", "bias")}
    fixed["max_iter"] = fit.rounds(data.facts, batch)
    weights = RELATION_WEIGHTS if data.relations >= MANY_RELATIONS else RELATION_WEIGHTS[:-1]
    group = 1 if on_gpu else Softmax().group_size
    one_way = tuple(Softmax(relation_weight=weight, batch_size=batch, group_size=group) for weight in weights)
    near = replace(SPACES["softmax"], per_fact=N3(), rank=(32, 2048), losses=one_way, fixed=fixed)
    near = near.around(chosen["rank"], chosen["penalty"].weight)
    if not on_gpu:
        return [near]
    if data.entities <= MEDIUM_ENTITIES:
        rounds = GPU_BATCHES._replace(epochs=MEDIUM_EPOCHS).rounds(data.facts, batch)
        wide = replace(near, rank=(1024, 2048), wide=True, fixed={**fixed, "max_iter": rounds})
        return [wide, *_gpu_spaces(near)]
    return [near, *_gpu_spaces(near)]


def _small_softmax_space(data: DataSummary) -> SearchSpace:
    """Complex matrices of a large rank, in small batches: best on UMLS, Kinships and Nations; docs/design.md."""
    batch = int(np.clip(data.facts // SMALL_BATCHES, MIN_SMALL_BATCH, Softmax().batch_size))
    losses = tuple(Softmax(relation_weight=w, batch_size=batch, group_size=1) for w in SMALL_RELATION_WEIGHTS)
    fixed = {"structure": "complex", "optimiser": Adam(0.02), "init": "small", "method": "sampled", "bias": False}
    return replace(
        SPACES["softmax"],
        per_fact=N3(),
        rank=(256, 2048),
        penalty=(0.002, 0.08),
        losses=losses,
        fixed=fixed | {"max_iter": 150},
        wide=True,
    )


def _gpu_spaces(near: SearchSpace) -> list[SearchSpace]:
    """Blocks, best on many relations (FB15k-237), and whole matrices, best on a sparse graph (WN18RR); docs/design.md.

    The middle of each space is what was measured there.
    """
    pairs = tuple(replace(loss, reciprocal=True) for loss in near.losses)
    blocks = replace(near, per_fact=Dura(), rank=(512, 2048), penalty=(0.01, 0.16), losses=pairs)
    blocks = replace(blocks, fixed={**near.fixed, "structure": Blocks(4)})
    whole = {"structure": "full", "method": "exact", "optimiser": Adam(0.04), "max_iter": GPU_ROUNDS}
    by_degree = (Softmax(relation_weight=2.0, reciprocal=True), Softmax(degree_weight=0.9, reciprocal=True))
    full = replace(near, per_fact=Dura(frequency_power=0.5), rank=(128, 512), penalty=(0.03, 0.5), losses=by_degree)
    return [blocks, replace(full, fixed={**near.fixed, **whole})]


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _log_interpolate(low: float, high: float, u: float) -> float:
    """The point a fraction u of the way from low to high, on a logarithmic scale."""
    return float(low * (high / low) ** u)


def why_unsuitable(model: str, facts: Facts, metric: str, *, requested: bool, device: str = "cpu") -> str:
    """Why a model is not tried on these facts, or "" if it is; `requested`: the user asked for it by name."""
    if device != "cpu" and SPACES[model].loss == "categorical":
        return "it does not run on a GPU"
    if SPACES[model].ranking_only and metric != "mrr":
        return f"{model} gives no probabilities; use metric='mrr'"
    if model == "als" and not requested and DataSummary.of(facts).is_sparse:
        return "least squares ranks sparse data poorly"
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

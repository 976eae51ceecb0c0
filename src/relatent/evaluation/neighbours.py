"""The candidates near another one: one change each, in the order of the gain that can be expected."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ..data.facts import Facts
from ..fit.automatic_settings import DataSummary
from ..fit.estimators.rescal_base import RescalBase
from ..fit.losses import Softmax
from ..fit.optimisers import SAMPLED_ADAM, Adam
from ..fit.penalties import Dura
from ..model.structure import FULL, NAMED, is_compact, rank_multiple
from .search_space import Candidate

MAX_RANK = 2048
MIN_RANK_GAIN = 1.2  # a rank that the limit keeps closer to the present one is not tried
MAX_STEPS = 2000  # rounds of Adam
FIRST_RELATION_WEIGHT = 0.5  # tried where the weight is 0
MIN_RELATION_WEIGHT = 0.05  # a smaller one is taken for 0
DEGREE_WEIGHT = 0.9
LOW_POWER = 0.5  # of the frequencies in DURA
LOW_POWER_WEIGHT = 3.0  # how much larger the weight of DURA is at the low power than at 1, for a similar sum
SIZES = ("rank", "max_iter")

Settings = dict[str, Any]


class Change(NamedTuple):
    """What a neighbour differs in."""

    setting: str
    direction: int  # 1: more, −1: less

    @property
    def reverse(self) -> Change:
        """The change that undoes this one."""
        return Change(self.setting, -self.direction)


class Neighbour(NamedTuple):
    """A candidate that differs from the centre in one setting."""

    change: Change
    candidate: Candidate
    cost: float  # the duration of its fit, relative to that of the centre


def resolved(candidate: Candidate, facts: Facts) -> Candidate:
    """The same candidate with the settings that a fit of these facts chooses for those that it leaves open."""
    estimator = candidate.estimator(0)
    chosen = estimator.choose_settings(facts) if isinstance(estimator, RescalBase) else None
    settings = {**(chosen.values if chosen else {}), **candidate.settings}
    if settings.get("penalty") is not None:  # λ has no effect beside it
        settings = {name: value for name, value in settings.items() if not name.startswith("l2_")}
    if candidate.model == "softmax":
        settings = {"loss": Softmax(), **settings}
    return candidate._replace(settings=settings)


def key_of(candidate: Candidate) -> Hashable:
    """Equal for candidates of equal settings."""
    return candidate.model, tuple(sorted(candidate.settings.items(), key=lambda item: item[0]))


def kind_of(candidate: Candidate, facts: Facts) -> Hashable:
    """Equal for candidates that lead to each other by changes: those of one model and structure."""
    return candidate.model, resolved(candidate, facts).settings.get("structure", "full")


def has_schedule(settings: Settings) -> bool:
    """Whether the learning rate falls over the whole fit, so that its number of steps matters."""
    sampled = SAMPLED_ADAM if settings.get("method") == "sampled" else None
    return isinstance(settings.get("optimiser") or sampled, Adam)


def neighbours(centre: Candidate, data: DataSummary, factor: float) -> list[Neighbour]:
    """The neighbours of a candidate whose settings are resolved; `factor`: between weights of the penalty.

    More components and a longer schedule come first, unless there are as many components as entities already.
    """
    settings = centre.settings
    larger = [*_more_components(settings, data), *_longer_schedule(settings)]
    weights = [*_penalty_weights(settings, factor), *_relation_weights(settings, data)]
    first = [*weights, *larger] if settings["rank"] >= data.entities else [*larger, *weights]
    rest = [
        *_other_losses(settings),
        *_other_powers(settings),
        *_learning_rates(settings),
        *_fewer_components(settings),
    ]
    return [
        Neighbour(change, centre.changed(**changed), _cost(settings, changed)) for change, changed in [*first, *rest]
    ]


Changed = Iterator[tuple[Change, Settings]]


def _cost(settings: Settings, changed: Settings) -> float:
    ratio = 1.0
    for name in SIZES:
        ratio *= changed[name] / settings[name] if name in changed else 1.0
    return ratio


def _more_components(settings: Settings, data: DataSummary) -> Changed:
    structure, rank = settings.get("structure", "full"), settings["rank"]
    found = NAMED.get(structure, structure) if isinstance(structure, str) else structure
    limit = MAX_RANK if is_compact(found) and found != FULL else min(MAX_RANK, data.entities)
    multiple = rank_multiple(structure)
    larger = min(2 * rank, limit) // multiple * multiple
    if larger >= MIN_RANK_GAIN * rank:
        yield Change("rank", 1), {"rank": larger}


def _fewer_components(settings: Settings) -> Changed:
    rank, multiple = settings["rank"], rank_multiple(settings.get("structure", "full"))
    smaller = rank // 2 // multiple * multiple
    if smaller:
        yield Change("rank", -1), {"rank": smaller}


def _longer_schedule(settings: Settings) -> Changed:
    if has_schedule(settings) and 2 * settings["max_iter"] <= MAX_STEPS:
        yield Change("max_iter", 1), {"max_iter": 2 * settings["max_iter"]}


def _penalty_weights(settings: Settings, factor: float) -> Changed:
    penalty = settings.get("penalty")
    for direction in (-1, 1):
        if penalty is not None:
            changed: Settings = {"penalty": replace(penalty, weight=_rounded(penalty.weight * factor**direction))}
        else:
            both = ("l2_entities", "l2_relations")
            changed = {name: _rounded(settings[name] * factor**direction) for name in both}
        yield Change("penalty", direction), changed


def _relation_weights(settings: Settings, data: DataSummary) -> Changed:
    loss = settings.get("loss")
    if loss is None or data.relations == 1:
        return
    weight = loss.relation_weight
    yield Change("relation_weight", 1), {"loss": replace(loss, relation_weight=2 * weight or FIRST_RELATION_WEIGHT)}
    if weight:
        half = weight / 2 if weight / 2 >= MIN_RELATION_WEIGHT else 0.0
        yield Change("relation_weight", -1), {"loss": replace(loss, relation_weight=half)}


def _other_losses(settings: Settings) -> Changed:
    """The softmax with a matrix per direction or without, and with weights by degree or without."""
    loss = settings.get("loss")
    if loss is None:
        return
    yield Change("reciprocal", -1 if loss.reciprocal else 1), {"loss": replace(loss, reciprocal=not loss.reciprocal)}
    weight = 0.0 if loss.degree_weight else DEGREE_WEIGHT
    yield Change("degree_weight", 1 if weight else -1), {"loss": replace(loss, degree_weight=weight)}


def _other_powers(settings: Settings) -> Changed:
    """DURA with frequencies to another power, and a weight at which it is of similar strength."""
    penalty = settings.get("penalty")
    if not isinstance(penalty, Dura):
        return
    for power in (LOW_POWER, 1.0):
        apart = (penalty.frequency_power - power) / (1 - LOW_POWER)
        if apart:
            changed = Dura(_rounded(penalty.weight * LOW_POWER_WEIGHT**apart), frequency_power=power)
            yield Change("frequency_power", -1 if apart > 0 else 1), {"penalty": changed}


def _learning_rates(settings: Settings) -> Changed:
    optimiser = settings.get("optimiser")
    if isinstance(optimiser, Adam) and optimiser.lr is not None:
        for direction in (-1, 1):
            changed = replace(optimiser, lr=_rounded(optimiser.lr * 2.0**direction))
            yield Change("learning_rate", direction), {"optimiser": changed}


def _rounded(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")

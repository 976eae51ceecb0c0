"""Settings that are not given, chosen from the data alone: its density, its facts per entity and its size.

docs/design.md compares the rules with searches on data of very different kinds. A choice costs nothing and is the same
on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..data.facts import Facts
from ..data.shard import Shard
from ..errors import InputError
from ..model.structure import rank_multiple
from .loss_protocol import ResolvedLoss
from .optimisers import Adam
from .penalties import N3, Dura

MIN_DENSITY = 0.01  # share of cells that are facts, from which on data is dense
MIN_DENSE_RELATIONS = 20  # with fewer, whole matrices and an L2 penalty learn the zeros by heart
SAMPLED_CELLS_PER_FACT = 80.0  # the cost of a sampled pass, in cells per fact: 64 zeros, and the fact itself
MAX_EXACT_CELLS = 2e6  # a sum over so few cells costs less than the overhead of a sample
MAX_GPU_CELLS = 2e11  # a sum over so many takes about a second on a GPU
MAX_BIAS_DENSITY = 0.1  # beyond, no background level is left to a bias, and a free number per relation overfits
EXACT_STEPS, SAMPLED_STEPS = 500, 200  # of dense data
L2_PER_FACT = 0.012  # λ per fact of an entity
L2_LIMITS = (0.05, 3.0)
ALS_L2_PER_FACT = 0.05
ALS_L2_LIMITS = (0.1, 10.0)
DENSE_RANK = 50
MAX_NETWORK_RELATIONS = 2  # of dense data, up to which least squares of a large rank learn the zeros by heart
NETWORK_ENTITIES_PER_COMPONENT, MIN_NETWORK_RANK = 10, 4
SPARSE_RANKS = (1024, 512, 256, 128, 64, 32)
SPARSE_ROUNDS = 100
GPU_ROUNDS = 50  # of exact sums over the cells of sparse data, which on a CPU would be samples
MAX_CELLS_RANK_512 = 2e10  # with more, a fit of rank 512 takes minutes on a GPU
BATCH_N3_LIMITS = (0.02, 0.1)  # of softmax in batches
ENTITIES_PER_COMPONENT = 3  # at least
N3_PER_DEGREE = 0.7  # the weight of N3 times the facts per entity
N3_LIMITS = (0.005, 0.15)  # from .2 on, factors of some graphs vanish
DURA_PER_DEGREE, LARGE_DURA_PER_DEGREE = 0.8, 1.5  # likewise of DURA
DURA_LIMITS = (0.005, 0.1)
LARGE_DATA = 100_000  # facts
HIGH_DEGREE = 16  # facts per entity, from which on DURA is better than N3
TEMPERED_DURA, LARGE_TEMPERED_DURA = 1.5, 2.0  # times the weight, with frequencies to the power of .75
FREQUENCY_POWER = 0.75
MAX_TEMPERED_DURA = 0.1  # beyond, factors of some graphs vanish
COMPLEX_RATE, LARGE_RATE, FULL_RATE = 0.1, 0.05, 0.05  # learning rates of Adam; at rank 512, .1 diverges
HELDOUT_ROUNDS = 0.5  # rounds of the fit without held-out facts, per round of the fit: a budget
FEWEST_SPARSE_FACTS = 30  # of fewer, whole matrices are fitted
MAX_TRIED_FACTS = 10_000_000  # with more, a short fit that tries a penalty takes too long
MIN_RANKED_FACTS = 500  # with fewer, softmax fits whole matrices to dense data; others were not compared
MAX_ENTITY_NUMBERS = 4e7  # of A
MAX_RELATION_NUMBERS = 1e8  # of R


class BatchedFit(NamedTuple):
    """A softmax fit in batches."""

    rank: int
    rate: float  # of Adam
    epochs: int  # passes over the facts

    def rounds(self, n_facts: int, batch_size: int) -> int:
        """Rounds of Adam, of four batches each; more passes where a pass has few batches."""
        return max(SPARSE_ROUNDS // 2, self.epochs * n_facts // (4 * batch_size))


CPU_BATCHES, GPU_BATCHES = BatchedFit(256, 0.04, 10), BatchedFit(1024, 0.01, 20)


@dataclass(frozen=True)
class DataSummary:
    """What the rules look at."""

    entities: int
    relations: int
    facts: int  # a pair of an undirected relation is one
    mirrors: int = 0  # its other cell

    @classmethod
    def of(cls, facts: Facts | Shard) -> DataSummary:
        """The summary of some facts, of all workers."""
        shard = Shard.of(facts)
        return cls(shard.n_entities, shard.n_relations, shard.n_facts - shard.n_mirrors, shard.n_mirrors)

    @property
    def cells(self) -> float:
        """The number of cells."""
        return float(self.entities) ** 2 * self.relations

    @property
    def density(self) -> float:
        """The share of cells that are facts."""
        return (self.facts + self.mirrors) / max(self.cells, 1.0)

    @property
    def degree(self) -> float:
        """Facts per entity, as subject or object."""
        return 2 * self.facts / max(self.entities, 1)

    @property
    def is_sparse(self) -> bool:
        """Whether nearly all cells are false, and most of those never considered."""
        return self.density < MIN_DENSITY


@dataclass(frozen=True)
class ChosenSettings:
    """The settings of a fit that were not given, and why they were chosen."""

    values: dict[str, Any]
    reason: str = ""
    is_usual: bool = True  # as the rules have them for data of this kind

    def __str__(self) -> str:
        return f"{self.shown} ({self.reason})" if self.values else "all settings were given"

    @property
    def shown(self) -> str:
        """The values as keyword arguments."""
        return ", ".join(f"{name}={value!r}" for name, value in self.values.items() if value is not None)

    def with_penalty(self, penalty: object) -> ChosenSettings:
        """The same settings with a weaker penalty, and why."""
        why = f"with {self.values['penalty']!r} all factors of a short fit shrank to zero"
        return replace(self, values={**self.values, "penalty": penalty}, reason=f"{self.reason}; {why}")


def for_likelihood(given: dict[str, Any], data: DataSummary, loss: ResolvedLoss) -> ChosenSettings:
    """The settings that `Rescal` was not given."""
    by_l2 = given["l2_entities"] is not None or given["l2_relations"] is not None
    fewest_facts = MIN_RANKED_FACTS if loss.ranks_only else FEWEST_SPARSE_FACTS
    few_relations = data.relations < MIN_DENSE_RELATIONS and data.facts >= fewest_facts
    if (data.is_sparse or few_relations) and not by_l2 and (loss.can_be_sampled or loss.ranks_only):
        chosen = _sparse(given, data, loss)
        why = "the data is sparse" if data.is_sparse else f"there are few relations ({data.relations})"
    else:
        chosen, why = _dense(given, data, loss), "the data is dense"
        if by_l2:  # the model of the paper, with a bias
            chosen["bias"], why = not loss.ranks_only, "an L2 penalty was given"
    multiple = rank_multiple(given["structure"] or chosen["structure"])
    chosen["rank"] = min(max(chosen["rank"] // multiple, 1) * multiple, data.entities)
    values = _not_given(given, chosen)
    numbers = f"{data.facts:,} facts are {_percent(data.density)} of the cells, {data.degree:.3g} per entity"
    return ChosenSettings(values, f"{why}: {numbers}")


def _not_given(given: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if _is_open(given[name])}


def _is_open(value: object) -> bool:
    return value is None or (isinstance(value, str) and value == "auto")


def _l2_pair(given: dict[str, Any], l2: float) -> dict[str, float]:
    """λ_A and λ_R: where one is given, the other is the same."""
    entities, relations = given["l2_entities"], given["l2_relations"]
    return {
        "l2_entities": l2 if relations is None else relations,
        "l2_relations": l2 if entities is None else entities,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _sparse(given: dict[str, Any], data: DataSummary, loss: ResolvedLoss) -> dict[str, Any]:
    """Few facts per entity: relations with few parameters, and a penalty in proportion to the facts."""
    structure = given["structure"] or ("complex" if _may_be_complex(given, loss) else "full")
    if loss.batch_size and structure == "complex" and given["method"] != "exact":
        return _in_batches(given, data, loss.batch_size)
    complex_rate = LARGE_RATE if data.facts >= LARGE_DATA else COMPLEX_RATE
    on_gpu = given["device"] != "cpu"
    return {
        "structure": structure,
        "rank": _sparse_rank(data, structure, on_gpu=on_gpu),
        "penalty": _sparse_penalty(data, structure, loss),
        "optimiser": Adam(FULL_RATE if structure == "full" else complex_rate),
        "method": method_for(data, given, loss),
        "init": "small",
        "max_iter": GPU_ROUNDS if on_gpu and method_for(data, given, loss) == "exact" else SPARSE_ROUNDS,
        "bias": not loss.ranks_only,
    }


def _in_batches(given: dict[str, Any], data: DataSummary, batch_size: int) -> dict[str, Any]:
    """Softmax over all entities: a step sees a batch of facts, so that few passes over the facts suffice."""
    fit = CPU_BATCHES if given["device"] == "cpu" else GPU_BATCHES
    return {
        "structure": "complex",
        "rank": _limited_rank(data, fit.rank),
        "penalty": N3(_rounded(np.clip(N3_PER_DEGREE / data.degree, *BATCH_N3_LIMITS))),
        "optimiser": Adam(fit.rate),
        "method": "sampled",
        "init": "small",
        "max_iter": fit.rounds(data.facts, batch_size),
        "bias": False,
    }


def _sparse_penalty(data: DataSummary, structure: Any, loss: ResolvedLoss) -> N3 | Dura:
    """A penalty per fact, of a weight that falls with the facts per entity."""
    if data.degree < HIGH_DEGREE and structure == "complex":
        return N3(_rounded(np.clip(N3_PER_DEGREE / data.degree, *N3_LIMITS)))
    is_large = data.facts >= LARGE_DATA
    weight = np.clip((LARGE_DURA_PER_DEGREE if is_large else DURA_PER_DEGREE) / data.degree, *DURA_LIMITS)
    if data.degree >= HIGH_DEGREE and data.relations >= MIN_DENSE_RELATIONS and loss.can_be_sampled:
        weight = min(weight * (LARGE_TEMPERED_DURA if is_large else TEMPERED_DURA), MAX_TEMPERED_DURA)
        return Dura(_rounded(weight), frequency_power=FREQUENCY_POWER)
    return Dura(_rounded(weight))


def _may_be_complex(given: dict[str, Any], loss: ResolvedLoss) -> bool:
    """Whether nothing that was given needs whole matrices R_k."""
    even = given["rank"] is None or (isinstance(given["rank"], int) and given["rank"] % 2 == 0)
    return even and (loss.can_be_sampled or bool(loss.batch_size)) and given["init"] in (None, "small", "random")


def _sparse_rank(data: DataSummary, structure: Any, *, on_gpu: bool) -> int:
    """More components where entities have many facts, or relations few numbers."""
    many_facts = data.degree >= HIGH_DEGREE
    high = many_facts and data.facts >= LARGE_DATA and not (on_gpu and data.cells > MAX_CELLS_RANK_512)
    return _limited_rank(data, 512 if high else 256 if many_facts or structure == "complex" else 128)


def _limited_rank(data: DataSummary, wanted: int) -> int:
    """The rank wanted, or less: even, of factors that fit into memory, and far fewer than entities."""
    room = min(MAX_ENTITY_NUMBERS / data.entities, np.sqrt(MAX_RELATION_NUMBERS / max(data.relations, 1)))
    rank = next((rank for rank in SPARSE_RANKS if rank <= min(wanted, room)), SPARSE_RANKS[-1])
    limit = data.entities // ENTITIES_PER_COMPONENT
    return int(min(rank, max(limit - limit % 2, 2, min(10, data.entities // 2 * 2)), data.entities))


def _dense(given: dict[str, Any], data: DataSummary, loss: ResolvedLoss) -> dict[str, Any]:
    """Many facts per entity: whole relation matrices, and the penalty of the paper."""
    method = method_for(data, given, loss) if _is_open(given["method"]) else given["method"]
    return {
        "structure": "full",
        "rank": resolve_rank(None, data.entities),
        **_l2_pair(given, l2_for(data)),
        "method": method,
        "init": "als" if (given["rank"] or 0) <= data.entities else "small",
        "max_iter": SAMPLED_STEPS if method == "sampled" else EXACT_STEPS,
        "bias": not loss.ranks_only and data.density < MAX_BIAS_DENSITY,
    }


def l2_for(data: DataSummary, per_fact: float = L2_PER_FACT, limits: tuple[float, float] = L2_LIMITS) -> float:
    """λ in proportion to the cells that are facts per entity: the loss of an entity's cells grows with them."""
    degree = data.degree * (1 + data.mirrors / max(data.facts, 1))
    return _rounded(np.clip(per_fact * degree, *limits))


def for_least_squares(given: dict[str, Any], data: DataSummary) -> ChosenSettings:
    """The settings that `RescalALS` was not given."""
    l2 = l2_for(data, ALS_L2_PER_FACT, ALS_L2_LIMITS)
    rank, why = resolve_rank(None, data.entities), f"{data.degree:.3g} facts per entity"
    if data.relations <= MAX_NETWORK_RELATIONS and not data.is_sparse:
        network_rank = max(data.entities // NETWORK_ENTITIES_PER_COMPONENT, MIN_NETWORK_RANK)
        rank, why = min(rank, network_rank), f"{why}, few relations ({data.relations})"
    return ChosenSettings(_not_given(given, {"rank": rank, **_l2_pair(given, l2)}), why)


def method_for(data: DataSummary, given: dict[str, Any], loss: ResolvedLoss) -> str:
    """Whether all cells are summed: always if a sample of them would cost as much."""
    if not loss.can_be_sampled:
        return "exact"
    if given["device"] != "cpu":
        return "exact" if data.cells <= MAX_GPU_CELLS else "sampled"
    return (
        "exact"
        if data.cells <= max(MAX_EXACT_CELLS, SAMPLED_CELLS_PER_FACT * (data.facts + data.mirrors))
        else "sampled"
    )


def _rounded(value: float) -> float:
    """Two significant digits."""
    return float(f"{value:.2g}")


def resolve_rank(rank: int | None, n_entities: int, *, limited: bool = True) -> int:
    """The given rank, checked; by default 50, or the number of entities if that is less.

    `limited`: a rank above the number of entities is refused, since whole matrices R_k gain nothing by it.
    """
    if rank is None:
        return min(DENSE_RANK, n_entities)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise InputError(f"rank must be a whole number of at least 1, got {rank!r}")
    if limited and rank > n_entities:
        raise InputError(
            f"rank must not exceed the {n_entities} entities, got {rank}, "
            "unless a structure is given that is complex, diagonal or of blocks"
        )
    return int(rank)

"""The sum of models as one model: vectors side by side, relation matrices on one diagonal, scores added."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Ids
from ..data.names import Names
from ..errors import InputError
from .entity_attributes import EntityAttributes
from .factors import Factors
from .links import Link, RelationLinks, SummedLink
from .patterns import check_has_vectors
from .provenance import FitRecord, Provenance
from .relation_matrices import RelationMatrices
from .summand import Summand, SummedTerms, on_one_scale


def direct_sum(models: Sequence[Factors], weights: Sequence[float] | None = None) -> Factors:
    """The model whose score by factors is the weighted sum of those of some models, in the order of the first's names.

    Models that are sums themselves give their parts. The sum has neither patterns nor probabilities: those of the parts
    are on the scales of the parts.
    """
    given = checked_weights(weights, len(models))
    for model in models:
        check_has_vectors(model.A)
    models = [models[0], *(_in_order_of(models[0], model, number) for number, model in enumerate(models[1:], 2))]
    _check_facts(models)
    parts = [(part, weight * own) for model, weight in zip(models, given, strict=True) for part, own in _parts(model)]
    summands = tuple(
        Summand(weight, part.bias, part.link, part.about, part.loss, part.penalty) for part, weight in parts
    )
    _check_scales(summands)
    K, dtype = len(models[0].relations), np.result_type(*(part.A for part, _ in parts))
    matrices = [part.relation_matrices.scaled(np.full(K, weight)).astype(dtype) for part, weight in parts]
    terms, first = SummedTerms.of(summands), models[0]
    return Factors(
        np.hstack([part.A for part, _ in parts]).astype(dtype, copy=False),
        RelationMatrices.direct_sum(matrices),
        sum((weight * part.bias for part, weight in parts), np.zeros(K)).astype(dtype),
        first.entities,
        first.relations,
        terms.link,
        _about(models, parts),
        loss=terms.loss,
        penalty=terms.penalty,
        types=next((model.types for model in models if model.types is not None), None),
        attributes=_attributes([part.attributes for part, _ in parts]),
        facts=next((model.facts for model in models if model.facts is not None), None),
        undirected=first.undirected,
        summands=summands,
    )


def checked_weights(weights: Sequence[float] | None, n: int) -> list[float]:
    """The weight of each of n models; 1 if none are given."""
    found = [1.0] * n if weights is None else [float(weight) for weight in weights]
    if len(found) != n:
        raise InputError(f"there must be a weight for each of {n} models, got {len(found)}")
    if wrong := [weight for weight in found if not (0 < weight < np.inf)]:
        raise InputError(f"weights of models must be finite and above 0, got {wrong[0]}")
    return found


def _parts(model: Factors) -> list[tuple[Factors, float]]:
    weights = [summand.weight for summand in model.summands] or [1.0]
    return list(zip(model.parts, weights, strict=True))


def _in_order_of(first: Factors, model: Factors, number: int) -> Factors:
    """The same model with its entities and relations in the order of the first; InputError if it has others."""
    orders = []
    for what, names, own in (
        ("entities", first.entities, model.entities),
        ("relations", first.relations, model.relations),
    ):
        order = own.translate(names)
        if len(own) != len(names) or (order < 0).any():
            raise InputError(
                f"models of a sum must have the same {what}; model {number} has {_difference(names, own, order)}: fit "
                "both to the same facts, or `update` the older one"
            )
        orders.append(order)
    if all((order == np.arange(len(order))).all() for order in orders):
        return model
    return _reordered(first, model, *orders)


def _difference(names: Names, own: Names, order: Ids) -> str:
    missing = np.flatnonzero(order < 0)
    if len(missing):
        return f"no {names[int(missing[0])]!r}"
    return f"{len(own):,} of them, the first {len(names):,}"


def _reordered(first: Factors, model: Factors, entity: Ids, relation: Ids) -> Factors:
    """`entity` and `relation`: the ids in the model of each name of the first."""
    place: dict[int, int] = {int(own): new for new, own in enumerate(relation.tolist())}
    summands = (
        dataclasses.replace(part, bias=part.bias[relation], link=_link_at(part.link, relation))
        for part in model.summands
    )
    known: dict[str, Any] = {"loss": model.loss, "penalty": model.penalty, "attributes": model.attributes}
    return Factors(
        model.A[entity],
        model.relation_matrices.at(relation),
        model.bias[relation],
        first.entities,
        first.relations,
        _link_at(model.link, relation),
        model.about,
        facts=model.facts,
        undirected=frozenset(place[k] for k in model.undirected),
        summands=tuple(summands),
        **known,
    )


def _link_at(link: Link, relations: Ids) -> Link:
    """The link of relations in another order."""
    if not isinstance(link, (RelationLinks, SummedLink)) or len(link.links) != len(relations):
        return link
    return dataclasses.replace(link, links=tuple(link.links[k] for k in relations.tolist()))


def _check_facts(models: Sequence[Factors]) -> None:
    """Refuse models of different facts: what one has learned would count as news to the other."""
    prints = [model.facts.fingerprint for model in models if model.facts is not None]
    if len(prints) < 2:
        fitted = (model.about.data for model in models if not model.about.folded_in)
        prints = [data.fingerprint for data in fitted if data is not None]
    if len(set(prints)) > 1 or len({model.undirected for model in models}) > 1:
        raise InputError(
            "models of a sum must be fitted to the same facts, as otherwise what one has learned is new to the other, "
            "and probabilities cannot be learned; `update` the older one with what it lacks"
        )


def _check_scales(summands: Sequence[Summand]) -> None:
    """Refuse scores that mean different things."""
    links = [summand.link for summand in summands]
    exclusive = {summand.loss is not None and summand.loss.name == "categorical" for summand in summands}
    if on_one_scale(links) and len(exclusive) == 1:
        return
    names = " and ".join(dict.fromkeys("none" if s.loss is None else s.loss.name for s in summands))
    raise InputError(
        f"models of the losses {names} cannot be added, because their scores are not on one scale (0 or 1, log-odds, "
        "or those of relations that compete); give models of one loss, or of logistic and softmax losses"
    )


def _attributes(parts: Sequence[EntityAttributes | None]) -> EntityAttributes | None:
    """What attributes say about the vectors of all parts, which are independent given the attributes."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    weights = np.hstack([part.weights for part in known])
    precision, low = np.zeros((weights.shape[1],) * 2, weights.dtype), 0
    for part in known:
        here = slice(low, low := low + len(part.precision))
        precision[here, here] = part.precision
    return EntityAttributes(known[0].columns, weights, precision)


def _about(models: Sequence[Factors], parts: Sequence[tuple[Factors, float]]) -> Provenance:
    """How the sum was made."""
    fits = [part.about.fit for part, _ in parts if part.about.fit is not None]
    settings = {
        "models": [part.about.model or "Factors" for part, _ in parts],
        "ranks": [part.rank for part, _ in parts],
        "weights": [weight for _, weight in parts],
    }
    fit = FitRecord(
        steps=sum(fit.steps for fit in fits),
        converged=all(fit.converged for fit in fits),
        verdict=f"the sum of {len(parts)} fits",
        objective=sum(fit.objective for fit in fits),
        seconds=sum(fit.seconds for fit in fits),
        objectives=(),
    )
    return Provenance("sum", settings, models[0].about.data, fit, folded_in=models[0].about.folded_in)

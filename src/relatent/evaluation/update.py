"""`update`: a model and new facts make a new model in a fraction of the time of a fit."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from ..data.facts import Facts
from ..data.facts_union import union
from ..data.names import Names
from ..data.read.read import read_if_table
from ..errors import ConvergenceWarning, InputError
from ..fit import calibration
from ..fit.estimators.als import RescalALS
from ..fit.estimators.base import Estimator
from ..fit.estimators.nonnegative import NonnegativeRescal
from ..fit.estimators.rescal import Rescal
from ..fit.init import ones_and_zeros
from ..fit.optimisers import SAMPLED_ADAM, Adam
from ..fit.warm_start import grown
from ..model.direct_sum import direct_sum
from ..model.factors import Factors
from ..model.fold_in import warn_of_misspelt_names
from ..model.provenance import UpdateRecord
from ..model.vocabulary import check_shares_an_entity
from ..progress import Progress, reporting, share_of
from .model_names import stored_estimator

SCHEDULED_STEPS, OTHER_STEPS = 0.15, 0.08  # share of the steps of the fit: of Adam, whose rate falls; of others
MIN_STEPS = 10
LEARNING_RATE = 0.25  # of that of the fit
SMALLEST_NUMBER = 1e-3  # of the new vectors of a non-negative model: zeros would stay zero


def update(
    factors: Factors,
    new_facts: Facts,
    *,
    known: Facts | None = None,
    progress: bool | Progress | None = None,
) -> Factors:
    """A model of the known and the new facts, in a fraction of the time of a new fit.

    The fit continues from the model, on all facts and with its settings, for a seventh of its rounds (a twelfth of the
    steps of L-BFGS or ALS). New entities and relations start from what their facts have in common with others. The
    calibration of probabilities is carried over, so that no part of the facts is held out again. For
    models of RescalLogit, Rescal, RescalALS and NonnegativeRescal.

    Parameters
    ----------
    factors : the model
    new_facts : facts of old and new entities and relations, by name
    known : the facts that the model was fitted to, if it does not hold them
    progress : True for a progress bar, or a callback (done, total, note)

    >>> import relatent
    >>> old = relatent.read([("Ann", "likes", "Bob"), ("Bob", "likes", "Ann"), ("Cid", "likes", "Ann")])
    >>> model = relatent.RescalALS(rank=2, l2_entities=0.01, l2_relations=0.01).fit(old).factors_
    >>> larger = relatent.update(model, relatent.read([("Dan", "likes", "Ann")]))
    >>> list(larger.entities)
    ['Ann', 'Bob', 'Cid', 'Dan']
    """
    new_facts, known = read_if_table(new_facts), read_if_table(known)
    for given, what in ((new_facts, "new_facts"), (known, "known")):
        if not isinstance(given, (Facts, *([type(None)] if what == "known" else []))):
            raise InputError(f"{what} must be Facts, got {type(given).__name__}; see relatent.read")
    check_shares_an_entity(factors.entities, new_facts, "new facts")
    estimators = [_estimator(part) for part in factors.parts]
    given = [] if known is None else [_beyond(factors.facts, known)]
    old = factors.facts_with(given)  # over the names of the model
    parts = [*([] if factors.facts is None else [factors.facts]), *given, new_facts]
    entities = _extended(factors.entities, *(facts.entities for facts in parts))
    relations = _extended(factors.relations, *(facts.relations for facts in parts))
    for what, names, before in (("entities", entities, factors.entities), ("relations", relations, factors.relations)):
        warn_of_misspelt_names(before, new_facts, names[len(before) :], what)
    facts = union(parts, entities=entities, relations=relations).with_undirected(factors.undirected)
    if facts.attributes is None and factors.attributes is not None:
        raise InputError(
            f"the model was fitted with attributes ({', '.join(factors.attributes.names)}); give those, too: "
            "read(…, attributes=…), or --attributes"
        )
    if facts.types is None and factors.types is not None:
        facts = facts.with_types(factors.types.extended(facts.n_entities).sets)
    with reporting(progress, "updating", at_most=True) as report:
        after = [
            _recorded(part, _continued(estimator, part, facts, share_of(report, number, len(estimators))), old, facts)
            for number, (estimator, part) in enumerate(zip(estimators, factors.parts, strict=True))
        ]
    weights = [part.weight for part in factors.summands]
    found = _recorded(factors, direct_sum(after, weights), old, facts) if weights else after[0]
    return _with_probabilities(factors, found, old, facts)


def _estimator(part: Factors) -> Rescal | RescalALS | NonnegativeRescal:
    """The estimator that a model, or a part of a sum, was fitted by."""
    estimator = stored_estimator(part)
    if not isinstance(estimator, (Rescal, RescalALS, NonnegativeRescal)):
        raise InputError(f"a model of {type(estimator).__name__} cannot be updated; fit it to all facts")
    return estimator


def _continued(
    estimator: Rescal | RescalALS | NonnegativeRescal, factors: Factors, facts: Facts, progress: Progress
) -> Factors:
    """A fit to these facts that goes on from the factors, with a part of the steps."""
    estimator.set_params(
        init=_start(estimator, factors, facts),
        calibrate=False,  # the calibration is carried over
        keep_facts=factors.facts is not None,
        **_shorter(estimator, factors),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is meant to stop early
        return estimator.fit(facts, progress=progress).factors_


def _beyond(own: Facts | None, further: Facts) -> Facts:
    """Further facts without those that the model holds, which would be counted twice if facts have counts."""
    if own is None:
        return further
    entity, relation = own.entities.translate(further.entities), own.relations.translate(further.relations)
    s, k, o = further.triples.T
    cells = np.stack([entity[s], relation[k], entity[o]], axis=1).astype(np.int64)
    is_strange = cells.min(axis=1) < 0
    cells[is_strange] = 0
    return further.subset(is_strange | ~own.contains(cells))


def _extended(names: Names, *others: Names) -> Names:
    """The names followed by the new ones of others, with the labels that any of them has."""
    found = names.extended(sorted({name for other in others for name in other} - set(names)))
    for other in others:
        found = found.with_labels_of(other)
    return found


def _start(estimator: Estimator, factors: Factors, facts: Facts) -> Factors:
    if isinstance(estimator, Rescal):
        loss = estimator._resolved_loss(facts.relations)
        bias = loss.bias(*ones_and_zeros(facts)) if estimator.bias else np.zeros(facts.n_relations)
        return grown(factors, facts, bias=bias, steepness=loss.steepness)
    minimum = SMALLEST_NUMBER if isinstance(estimator, NonnegativeRescal) else None
    return grown(factors, facts, bias=np.zeros(facts.n_relations), minimum=minimum)


def _shorter(estimator: Estimator, factors: Factors) -> dict[str, Any]:
    """The settings of a fit of fewer and smaller steps."""
    settings = estimator.get_params(deep=False)
    steps = _first_steps(factors)
    optimiser = settings.get("optimiser") or (SAMPLED_ADAM if settings.get("method") == "sampled" else None)
    if not isinstance(optimiser, Adam):
        return {"max_iter": min(settings["max_iter"], max(MIN_STEPS, math.ceil(OTHER_STEPS * steps)))}
    rounds = min(settings["max_iter"], max(MIN_STEPS, math.ceil(SCHEDULED_STEPS * steps)))
    lr = None if optimiser.lr is None else LEARNING_RATE * optimiser.lr
    return {"max_iter": rounds, "optimiser": dataclasses.replace(optimiser, lr=lr)}


def _first_steps(factors: Factors) -> int:
    """The steps of the fit that the model began with."""
    updates, fit = factors.about.updates, factors.about.fit
    return updates[0].steps_of_fit if updates else 0 if fit is None else fit.steps


def _recorded(before: Factors, after: Factors, old: Facts, facts: Facts) -> Factors:
    """The new factors with the settings of the model before, and a record of what was new."""
    first = before.about
    update = UpdateRecord(
        facts=len(facts) - len(old),
        entities=facts.n_entities - old.n_entities,
        relations=facts.n_relations - old.n_relations,
        steps=0 if after.about.fit is None else after.about.fit.steps,
        steps_of_fit=_first_steps(before),
    )
    about = dataclasses.replace(first, fit=after.about.fit, data=after.about.data, updates=(*first.updates, update))
    return dataclasses.replace(after, R=after.relation_matrices, about=about)


def _with_probabilities(before: Factors, after: Factors, old: Facts, facts: Facts) -> Factors:
    """The new factors with the patterns and the calibration of the model before."""
    found, is_weighed = None, before.patterns is not None and before.rank > 0
    if before.patterns is not None and is_weighed:
        after = dataclasses.replace(after, R=after.relation_matrices, patterns=before.patterns.over(facts))
    if before.calibration is not None:
        found = calibration.carried(before.calibration, before, old, after, facts, in_log_odds=is_weighed)
    return dataclasses.replace(after, R=after.relation_matrices, calibration=found)

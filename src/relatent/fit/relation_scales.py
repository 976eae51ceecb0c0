"""The scale of each relation's scores, learned from facts that a short fit does not have.

A penalised fit to sparse data has the answers to one question in a good order, but the scores of different relations
are not comparable: where nothing can be predicted, the fit to the listed facts raises the scores of some unlisted cells
as much as where everything can. Log-odds that are linear in the score, with a slope and an intercept per relation,
correct that. The order within a relation stays as it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Vector
from ..data.facts import Facts
from ..model.factors import Factors
from ..model.links import PlattLink
from ..model.score_maps import fit_platt
from ..model.unlisted_scores import bin_centres, binned_unlisted_scores, bins_of

HELDOUT_SHARE = 0.1  # of the facts
MIN_HELDOUT = 3  # facts of a relation, to learn its scale from
SLOPE_PRECISION = 5.0  # 1 / variance of the slopes of relations
SLOPE_RANGE = 20.0  # largest ratio of a relation's slope to the common one, either way


class RelationScales(NamedTuple):
    """The log-odds of relation k are slope_k θ + intercept_k."""

    slope: Vector  # (K,)
    intercept: Vector  # (K,)


def learn_scales(factors: Factors, facts: Facts, heldout: Facts, random_state: int) -> RelationScales:
    """The scales that make held-out facts most likely among the unlisted cells.

    `factors` were fitted to `facts` without `heldout`. The slopes of relations are alike, as far as they say.
    """
    relations = heldout.triples[:, 1]
    # In the bins of the unlisted cells: equal scores stay equal.
    theta = bin_centres(bins_of(factors.score(*heldout.triples.T)))
    found = [theta[relations == k] for k in range(facts.n_relations)]
    unlisted = list(binned_unlisted_scores(factors, facts, random_state))
    zeros, weights = (np.concatenate(parts) for parts in zip(*unlisted, strict=True))
    common = _fit(np.concatenate(found), zeros, weights)
    if common.slope <= 0:  # the scores say nothing
        return RelationScales(np.ones(len(found)), np.zeros(len(found)))
    links = [
        _fit(theta, *sample, usual_slope=common.slope) if len(theta) >= MIN_HELDOUT else common
        for theta, sample in zip(found, unlisted, strict=True)
    ]
    usual = [link if 1 / SLOPE_RANGE < link.slope / common.slope < SLOPE_RANGE else common for link in links]
    return RelationScales(np.array([link.slope for link in usual]), np.array([link.intercept for link in usual]))


def _fit(facts: Vector, zeros: Vector, weights: Vector, usual_slope: float = 0.0) -> PlattLink:
    """Log-odds of held-out facts among weighted unlisted cells."""
    return fit_platt(
        np.concatenate([facts, zeros]),
        np.arange(len(facts) + len(zeros)) < len(facts),
        np.concatenate([np.ones(len(facts)), weights]),
        usual_slope=usual_slope,
        precision=SLOPE_PRECISION if usual_slope else 0.0,
    )


def rescaled(factors: Factors, scales: RelationScales, record: dict[str, Any]) -> Factors:
    """Factors whose scores are the log-odds: R_k and b_k scaled, b_k shifted; `record` goes into the model file."""
    slope, intercept = (part.astype(factors.A.dtype) for part in scales)
    R, b = factors.relation_matrices.scaled(slope), factors.bias * slope + intercept
    about = {**factors.about, "rescaled": {**record, "slopes": slope.tolist(), "intercepts": intercept.tolist()}}
    return dataclasses.replace(factors, R=R, bias=b, about=about)

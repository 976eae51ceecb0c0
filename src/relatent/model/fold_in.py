"""Folding in: vectors of new entities from their facts, while all other vectors and every R_k stay as they are."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..arrays import Ids, Matrix
from ..backend.blas_threads import one_blas_thread
from ..data.attribute_table import AttributeTable
from ..data.facts import Facts
from ..data.names import Names
from ..errors import DataWarning, InputError
from .entity_attributes import EntityAttributes
from .entity_prior import EntityPrior, entity_prior
from .entity_regression import (
    EntityCells,
    Model,
    PenaltyOnEntity,
    cells_of_entities,
    check_folds,
    loss_name,
    noise_variance,
    solver,
)
from .objective_description import ObjectiveTerm
from .vocabulary import check_shares_an_entity

ROUNDS = 4  # passes over entities that are folded in together and share facts
MIN_SIMILARITY = 0.85  # of a new name and a known one that may be meant
MAX_COMPARISONS = 200_000  # of such names
MAX_SHOWN_NAMES = 3


class NamedModel(Model, Protocol):
    """A model with names, and with the distribution of its entities."""

    @property
    def entities(self) -> Names:
        """Names of the entities."""

    @property
    def relations(self) -> Names:
        """Names of the relations."""

    @property
    def undirected(self) -> frozenset[int]:
        """Ids of the undirected relations."""

    @property
    def entity_prior(self) -> EntityPrior | None:
        """The distribution of the entity vectors."""

    @property
    def noise_variance(self) -> float:
        """The residual variance of least squares."""

    @property
    def attributes(self) -> EntityAttributes | None:
        """What attributes say about entity vectors."""

    @property
    def parts(self) -> Sequence[NamedModel]:
        """The models of a sum, each of which was fitted by itself; of another model, itself."""


class FoldedIn(NamedTuple):
    """The vectors of all entities, old and new, and the names of those folded in."""

    A: Matrix
    entities: Names
    names: list[str]


def fold_in(
    model: NamedModel,
    facts: Facts,
    entities: Sequence[str] | None,
    others: float,
    l2_entities: float | None,
    random_state: int,
    table: AttributeTable | None = None,
) -> FoldedIn:
    """Find the vectors of new entities; `Factors.fold_in` describes the arguments."""
    if not isinstance(facts, Facts):
        raise InputError(f"fold_in takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not 0 <= others <= 1:
        raise InputError(f"others must be between 0 and 1, got {others}")
    check_folds(model)
    table = facts.attribute_table if table is None else table.by_names_of(model.entities)
    if table is not None and model.attributes is None:
        raise InputError("the model was fitted without attributes, so they cannot be used; leave them out")
    if table is not None and model.attributes is not None:
        _check_attribute_names(model.attributes.names, list(table.values))
    names = _chosen(model, facts, entities, set() if table is None else table.entities)
    model.relations.ids(list(facts.relations))  # raises if the model does not know one of them
    if entities is None:
        warn_of_misspelt_names(model.entities, facts, names)
        check_shares_an_entity(model.entities, facts, "facts")
    grown = model.entities.extended([name for name in names if name not in model.entities])
    grown = grown.with_labels_of(facts.entities)
    chosen = grown.ids(names)
    cells = cells_of_entities(facts.over(grown, model.relations).with_undirected(model.undirected), chosen)
    new = _NewEntities(names, chosen, cells, len(grown))
    with one_blas_thread():  # several threads for matrices this small wait for each other on a busy machine
        A = [_vectors(part, new, others, l2_entities, random_state, table) for part in model.parts]
    return FoldedIn(np.hstack(A), grown, names)


class _NewEntities(NamedTuple):
    """The entities to fold in."""

    names: list[str]
    ids: Ids
    cells: list[EntityCells]
    n: int  # all entities, the new ones included


def _vectors(
    model: NamedModel,
    new: _NewEntities,
    others: float,
    l2_entities: float | None,
    random_state: int,
    table: AttributeTable | None,
) -> Matrix:
    """The vectors of all entities in a model that is no sum."""
    usual = _penalty(model, new.ids[new.ids < len(model.A)], l2_entities)
    solve = solver(model, others, usual, random_state)
    by_attributes = _penalties_by_attributes(model, usual, table, new.names) if l2_entities is None else {}
    A = np.zeros((new.n, model.A.shape[1]), model.A.dtype)
    A[: len(model.A)] = model.A
    A[new.ids] = 0  # until its vector is found, an entity has no influence on the others
    share_facts = any(np.isin(listed.partner, new.ids).any() for listed in new.cells)
    for _ in range(ROUNDS if share_facts else 1):
        solve.sum_all_cells(A)
        for i, name, listed in zip(new.ids.tolist(), new.names, new.cells, strict=True):
            solve.penalty = by_attributes.get(name, usual)
            A[i] = solve(A, i, listed)
    return A


def _penalty(model: NamedModel, refolded: Ids, l2_entities: float | None) -> PenaltyOnEntity:
    """The penalty of the fit and the distribution of the entities, without those that get a new vector."""
    if l2_entities is not None:
        return PenaltyOnEntity(model.relation_matrices, ObjectiveTerm("l2", {"entities": l2_entities}))
    prior = entity_prior(model.A, refolded) if len(refolded) else model.entity_prior
    scale = 1.0
    if prior is not None and loss_name(model) == "squared":
        variance = noise_variance(model, prior) if len(refolded) else model.noise_variance
        scale = 2 * variance  # Gaussian noise: −log p = (x − θ)² / 2σ²
    return PenaltyOnEntity(model.relation_matrices, model.penalty, prior, scale)


def _check_attribute_names(used: list[str], given: list[str]) -> None:
    """Refuse attributes none of which the model uses; warn of those among others."""
    unknown = [name for name in given if name not in used]
    if given and len(unknown) == len(given):
        raise InputError(f"the model uses none of the attributes {', '.join(given)}; it uses {', '.join(used)}")
    if unknown:
        message = f"attributes that the model does not use are ignored: {', '.join(unknown)}; it uses {', '.join(used)}"
        warnings.warn(message, DataWarning, stacklevel=4)


def _penalties_by_attributes(
    model: NamedModel, usual: PenaltyOnEntity, table: AttributeTable | None, names: list[str]
) -> dict[str, PenaltyOnEntity]:
    """The penalty on each entity with known attributes: what they predict in place of the prior of all entities."""
    if table is None or model.attributes is None:
        return {}
    priors = zip(names, model.attributes.priors(table, names), strict=True)
    matrices, fitted, scale = model.relation_matrices, model.penalty, usual.scale
    return {name: PenaltyOnEntity(matrices, fitted, prior, scale) for name, prior in priors if prior is not None}


def _chosen(model: NamedModel, facts: Facts, entities: Sequence[str] | None, described: set[str]) -> list[str]:
    """The names of the entities to fold in: those given, or all that the model does not know."""
    touched = np.unique(np.concatenate([facts.triples[:, [0, 2]].ravel(), facts.unobserved[:, [0, 2]].ravel()]))
    mentioned = [facts.entities[i] for i in touched.tolist()]
    mentioned += sorted(described.difference(mentioned))
    unknown = [name for name in mentioned if name not in model.entities]
    if entities is None:
        if not unknown:
            raise InputError(
                "the model knows every entity of these facts; name those to fold in again: entities=[…], or --entity; "
                "to learn from new facts of known entities, use update"
            )
        return unknown
    names = list(dict.fromkeys([entities] if isinstance(entities, str) else entities))
    for name in names:
        if name not in mentioned:
            raise InputError(f"no fact mentions {name!r}, so it cannot be folded in; give facts about it")
    if left := [name for name in unknown if name not in names]:
        raise InputError(f"the model does not know {left[0]!r}; add it to entities, or leave its facts out")
    return names


def warn_of_misspelt_names(known: Names, facts: Facts, new: Sequence[str], what: str = "entities") -> None:
    """Warn of new names that may be misspelt: known ones but for case, or a few characters if they are never subjects.

    Names whose digits differ are different. `what`: "entities", or "relations", each of which is compared.
    """
    subjects = {facts.entities[i] for i in np.unique(facts.subjects).tolist()} if what == "entities" else set()
    by_case = {name.casefold(): name for name in known} if new else {}
    found = [(name, by_case[name.casefold()]) for name in new if name.casefold() in by_case]
    suspects = [name for name in new if name not in subjects and name.casefold() not in by_case]
    for name in suspects[: MAX_COMPARISONS // max(len(known), 1)]:
        numbers = re.findall(r"\d+", name)
        same_digits = [other for other in known if re.findall(r"\d+", other) == numbers]
        found += [(name, near) for near in difflib.get_close_matches(name, same_digits, n=1, cutoff=MIN_SIMILARITY)]
    if found:
        listed = ", ".join(f"{name!r} (did you mean {near!r}?)" for name, near in found[:MAX_SHOWN_NAMES])
        more = f" and {len(found) - MAX_SHOWN_NAMES} more" if len(found) > MAX_SHOWN_NAMES else ""
        warnings.warn(f"new {what} whose names are close to known ones: {listed}{more}", DataWarning, stacklevel=4)

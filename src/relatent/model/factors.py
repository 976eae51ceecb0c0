"""Factors: the fitted model and the questions it answers.

θ_ijk = a_iᵀ R_k a_j + b_k,    p_ijk = link(θ_ijk)

Under the categorical loss a pair has at most one relation (`exclusive`), so relations compete: the score is the
log-odds of k against all other relations of the pair and none, θ_k − log(1 + Σ_{k' ≠ k} exp θ_k'), and the link maps
that score to a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Ids, Mask, Matrix, Slices, Vector
from ..data.facts import Facts
from ..data.facts_union import union
from ..data.names import Names
from ..data.read.annotations import AttributesSource, attribute_table
from ..errors import InputError
from ..json_values import record, to_json_object
from ..result_tables import Result, html_table, import_pandas
from . import fold_in as folding
from . import model_file
from .calibration import Calibration
from .candidates import MARK, OMIT, ONLY, OPEN, Candidates, Judged
from .entity_attributes import EntityAttributes
from .entity_prior import EntityPrior, entity_prior
from .entity_regression import noise_variance
from .entity_types import EntityTypes
from .fold_in_defaults import FOLD_IN_OTHERS
from .known_facts import KnownFacts
from .links import Link, LogisticLink, RelationLinks, SummedLink
from .objective_description import CATEGORICAL, ObjectiveTerm
from .patterns import Patterns
from .provenance import UNKNOWN, Provenance
from .relation_matrices import RelationMatrices
from .scores import cell_scores
from .stored_facts import StoredFacts
from .summand import Summand, attributes_of
from .top import Top
from .vocabulary import check_shared

if TYPE_CHECKING:
    import pandas as pd

PLACES = ("subject", "relation", "object")


@dataclass(frozen=True, eq=False, repr=False)
class Factors(Result):
    """Entity vectors, relation matrices and their names.

    `relation_matrices` holds R by the parameters of its structure: `relation_matrices[k]` is R_k. `R` has all of them
    as one array, which is made anew at every access if R_k has a structure, and refused if it would be too large.

    >>> import numpy as np
    >>> A, R, bias = np.eye(2), np.array([[[0.0, 3.0], [0.0, 0.0]]]), np.zeros(1)
    >>> f = Factors(A, R, bias, Names(["Ann", "Bob"]), Names(["likes"]))
    >>> f.top(subject="Ann", relation="likes", k=1).names
    ['Bob']
    """

    A: Matrix  # (N, r)
    R: Any  # (K, r, r); whole matrices or RelationMatrices
    bias: Vector  # (K,), zeros if the model has no bias
    entities: Names
    relations: Names
    link: Link = field(default_factory=LogisticLink)
    about: Provenance = UNKNOWN  # how it was made: settings, data, trace
    exclusive: bool = False  # a pair has at most one relation; follows from the loss where one is given
    loss: ObjectiveTerm | None = None  # what the fit minimised; None if unknown
    penalty: ObjectiveTerm | None = None
    types: EntityTypes | None = None  # of the entities; answers of a wrong type are not offered
    patterns: Patterns | None = None  # what can be seen of a pair; a model of rules has no vectors: rank 0
    attributes: EntityAttributes | None = None  # what attributes say about vectors, if the facts had some
    facts: Facts | None = None  # the training facts, and those of entities folded in; None if they were left out
    calibration: Calibration | None = None  # what held-out facts say about probabilities; None: those of the loss
    undirected: frozenset[int] = frozenset()  # ids of the relations whose facts are pairs without a direction
    summands: tuple[Summand, ...] = ()  # the parts of a sum of models, whose R is a direct sum; of others, none

    def __post_init__(self) -> None:
        for what in ("entities", "relations"):
            if not isinstance(getattr(self, what), Names):  # a list of names
                object.__setattr__(self, what, Names(list(getattr(self, what))))
        if self.loss is None and self.exclusive:
            object.__setattr__(self, "loss", ObjectiveTerm(CATEGORICAL))
        object.__setattr__(self, "exclusive", self.loss is not None and self.loss.name == CATEGORICAL)
        n, k, r = len(self.entities), len(self.relations), self.A.shape[-1]
        for what, shape in (("A", (n, r)), ("relation_matrices", (k, r, r)), ("bias", (k,))):
            if (found := getattr(self, what).shape) != shape:
                name, sizes = what.replace("relation_matrices", "R"), f"{n} entities and {k} relations"
                raise InputError(f"{name} must have shape {shape} for {sizes}, got {found}")
        if self.types is not None and self.types.n_entities != n:
            raise InputError(f"there must be types for {n} entities, got {self.types.n_entities}; see types.extended")
        if self.calibration is not None and len(self.calibration.scores) != k:
            raise InputError(f"the calibration must be of {k} relations, got {len(self.calibration.scores)}")
        if not isinstance(vars(self)["_facts"], StoredFacts) and self.facts is not None:
            facts = self.facts.over(self.entities, self.relations).with_undirected(self.undirected)
            object.__setattr__(self, "facts", facts)
        if self.patterns is not None and self.facts is not None:
            object.__setattr__(self, "patterns", self.patterns.over(self.facts))
        n_parts, biases = len(self.relation_matrices.blocks), [part.bias.shape for part in self.summands]
        if self.summands and biases != [(k,)] * n_parts:
            raise InputError(f"there must be a bias of {k} relations for each of {n_parts} parts, got {biases}")
        if isinstance(self.link, (RelationLinks, SummedLink)):
            n_links = len(self.link.links)
            if n_links != k and not (n_links == 1 and isinstance(self.link, SummedLink)):
                raise InputError(f"there must be links for {k} relations, got {n_links}")

    @property
    def relation_matrices(self) -> RelationMatrices:
        """R_1 … R_K by the parameters of their structure."""
        return vars(self)["_relation_matrices"]  # type: ignore[no-any-return]

    @property
    def rank(self) -> int:
        """The number of latent components."""
        return int(self.A.shape[1])

    @cached_property
    def parts(self) -> list[Factors]:
        """The models of a sum as they were before, without patterns and probabilities; of another model, itself."""
        if not self.summands:
            return [self]
        found, K = [], len(self.relations)
        for part, (components, R) in zip(self.summands, self.relation_matrices.blocks, strict=True):
            found.append(
                Factors(
                    self.A[:, components],
                    R if part.weight == 1 else R.scaled(np.full(K, 1 / part.weight)).astype(R.dtype),
                    part.bias,
                    self.entities,
                    self.relations,
                    part.link,
                    part.about,
                    loss=part.loss,
                    penalty=part.penalty,
                    types=self.types,
                    attributes=attributes_of(self.attributes, components),
                    facts=self.facts,
                    undirected=self.undirected,
                )
            )
        return found

    @property
    def has_probabilities(self) -> bool:
        """Whether cells have probabilities: those of a calibration, or of a loss that is a likelihood."""
        return self.calibration is not None or self.link.gives_probabilities

    @property
    def base_rates(self) -> Vector | None:
        """The share of true cells per relation, (K,): expected among unlisted cells, or of facts among all cells.

        The first if the model is calibrated, whose probabilities are those of unlisted cells. None if it is not known.
        """
        if self.calibration is not None:
            return self.calibration.base_rates
        return None if self.about.data is None else np.asarray(self.about.data.base_rates, np.float64)

    @property
    def self_answers(self) -> Mask | None:
        """For each relation whether an entity may be related to itself by the training facts, (K,); None: not known."""
        data = self.about.data
        return None if data is None else (np.asarray(data.self_facts) > 0) | (np.asarray(data.base_rates) == 0)

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates of questions, given the facts of the model."""
        return Candidates(self, self._known_facts)

    @cached_property
    def _known_facts(self) -> KnownFacts:
        return KnownFacts.none(self.entities, self.relations) if self.facts is None else KnownFacts(self.facts)

    def facts_with(self, known: Facts | Sequence[Facts] | None = None) -> Facts:
        """The facts of the model and further ones, over its names; InputError if there are none."""
        further = [known] if isinstance(known, Facts) else list(known or ())
        for facts in further:
            check_shared(self.entities, self.relations, facts, "known facts")
        parts = [*([] if self.facts is None else [self.facts]), *further]
        if not parts:
            raise InputError("the model does not hold the facts that it was fitted to: give them, as known= or --known")
        facts = union(parts, entities=self.entities, relations=self.relations).with_undirected(self.undirected)
        return facts if self.types is None or facts.types is not None else facts.with_types(self.types.sets)

    def as_undirected(self, facts: Facts) -> Facts:
        """Facts that come to the model later: in both directions where its relations have none."""
        names = (self.relations[k] for k in sorted(self.undirected))
        return facts.with_undirected([name for name in names if name in facts.relations])

    @property
    def probability_note(self) -> str:
        """One sentence: which cells the probabilities are for, and what they assume; or that there are none."""
        if self.calibration is not None:
            return self.calibration.describe()
        if not self.has_probabilities:
            loss = self.loss.name if self.loss else "this"
            what = f"scores of a {loss} model rank answers but are not probabilities"
            return f"{what}; calibrate it" if self.summands else f"{what}; fit it with calibrate=True"
        return "probabilities are those of the loss, not calibrated: those of unlisted facts are too low at the top"

    def asked(self, known: Facts | Sequence[Facts] | Candidates | None = None) -> Candidates:
        """The candidates of questions, given the facts of the model and further known facts."""
        if isinstance(known, Candidates):
            return known
        further = [known] if isinstance(known, Facts) else list(known or ())
        if not any(map(len, further)):
            return self.candidates
        joined = self.facts_with([facts.without_attributes() for facts in further]).without_attributes()
        return Candidates(self.reading(joined), KnownFacts(joined))

    def reading(self, facts: Facts) -> Factors:
        """The same model, whose patterns are read from these facts."""
        if self.patterns is None:
            return self
        return replace(self, R=self.relation_matrices, facts=facts, patterns=self.patterns.over(facts))

    def __repr__(self) -> str:
        size = f"{len(self.entities)} entities, {len(self.relations)} relations, rank {self.rank}"
        return f"Factors({size}, {self.link.name} link)"

    def to_pandas(self) -> pd.DataFrame:
        """The entity vectors, one row per entity; needs pandas. `relatent export` writes all factors to files.

        >>> import relatent
        >>> relatent.RescalALS(rank=5).fit(relatent.load_dataset("kinships")).factors_.to_pandas().shape
        (104, 5)
        """
        pd = import_pandas()
        return pd.DataFrame(self.A, index=pd.Index(list(self.entities), name="entity"))

    def to_dict(self) -> dict[str, Any]:
        """Sizes, objective and how the model was made, as JSON values; `save` writes the factors."""
        size = {"entities": len(self.entities), "relations": len(self.relations), "rank": self.rank}
        terms = {"link": self.link.name, "loss": self.loss, "penalty": self.penalty}
        return to_json_object({**size, **terms, "about": record(self.about)})

    def _repr_html_(self) -> str:
        rows = {
            "loss": self.loss and str(self.loss),
            "penalty": self.penalty and str(self.penalty),
            **self.about.summary(),
        }
        return html_table(repr(self), [{"": name, "value": value} for name, value in rows.items() if value])

    def score(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> Vector:
        """θ of each cell, for ids or names that broadcast; the log-odds if relations are exclusive.

        >>> f = Factors(np.eye(2), np.array([[[0.0, 3.0], [0.0, 0.0]]]), np.zeros(1), ["Ann", "Bob"], ["likes"])
        >>> float(f.score("Ann", "likes", "Bob")), f.score(0, 0, [0, 1]).tolist()
        (3.0, [0.0, 3.0])
        """
        return cell_scores(self, *self._ids(subjects, relations, objects))[()]

    def _ids(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> tuple[Ids, Ids, Ids]:
        s, k, o = np.broadcast_arrays(
            self.entities.ids(subjects), self.relations.ids(relations), self.entities.ids(objects)
        )
        return s, k, o

    def probability(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> Vector:
        """The probability that each cell is true, for ids or names: the same number as in every list of answers.

        Of a listed fact, what it would be if it were not listed.

        >>> f = Factors(np.eye(2), np.array([[[0.0, 3.0], [0.0, 0.0]]]), np.zeros(1), ["Ann", "Bob"], ["likes"])
        >>> f.probability("Ann", "likes", ["Ann", "Bob"]).round(2).tolist()
        [0.5, 0.95]
        """
        if not self.has_probabilities:
            raise InputError("scores of this loss rank answers but are no probabilities; fit with calibrate=True")
        s, k, o = self._ids(subjects, relations, objects)
        cells = np.stack([s.ravel(), k.ravel(), o.ravel()], axis=1)
        return self.candidates.judge(cells).probability.reshape(s.shape)[()]

    def top(
        self,
        subject: str | int | None = None,
        relation: str | int | None = None,
        object: str | int | None = None,
        k: int = 10,
        known: str = OMIT,
        exclude: Facts | Sequence[Facts] | None = None,
    ) -> Top:
        """The k best answers for the one place that is not given, without wrong types.

        known: "omit" known answers, "mark" them by the rank 0, or give "only" them. `exclude` are further known facts.

        >>> import relatent
        >>> facts = relatent.load_dataset("kinships")
        >>> model = relatent.RescalALS(rank=20).fit(facts).factors_
        >>> len(model.top(subject="person0", relation="term4", k=3).names)
        3
        """
        place, found = self.best(self.asked(exclude), subject, relation, object, k=k, treat_known=known)
        names = (self.entities, self.relations, self.entities)[place]
        answers = [names[i] for i in found.cells[:, place].tolist()]
        return Top(answers, found.score, found.probability, found.rank, found.lift)

    def best(
        self,
        asked: Candidates,
        subject: str | int | None = None,
        relation: str | int | None = None,
        object: str | int | None = None,
        *,
        k: int = 10,
        treat_known: str = OMIT,
    ) -> tuple[int, Judged]:
        """The open place of a question, and its k best answers."""
        given = (subject, relation, object)
        named = [what for what, value in zip(PLACES, given, strict=True) if value is not None]
        if len(named) != 2:
            raise InputError(f"give exactly two of subject, relation and object, got {' and '.join(named) or 'none'}")
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InputError(f"k must be at least 1, got {k!r}")
        if treat_known not in (MARK, OMIT, ONLY):
            raise InputError(f"known answers are treated by {MARK}, {OMIT} or {ONLY}, got {treat_known!r}")
        names = (self.entities, self.relations, self.entities)
        ids = [OPEN if x is None else int(name.ids(x)) for x, name in zip(given, names, strict=True)]
        return ids.index(OPEN), asked.answers(np.array([ids]), int(k), treat_known)

    def without_types(self) -> Factors:
        """The same model without types: it offers answers of any type."""
        return replace(self, R=self.relation_matrices, types=None)

    def scores_of_all(self, entities: Ids, relation: int, *, of_objects: bool = False) -> Matrix:
        """θ of each of some subjects of a relation with every object, or of objects with every subject, (m, N)."""
        everyone = np.arange(len(self.entities))
        if self.exclusive:
            one, other = entities[:, None], everyone[None]
            return self.score(other, relation, one) if of_objects else self.score(one, relation, other)
        rows = self.relation_matrices.times(self.A[entities], relation, back=of_objects)
        theta: Matrix = rows @ self.A.T + self.bias[relation]
        if self.patterns is not None:
            theta *= theta.dtype.type(self.patterns.scale[relation])
            theta += self.patterns.rows(entities, relation, of_objects=of_objects)
        return theta

    def fold_in(
        self,
        facts: Facts,
        *,
        entities: Sequence[str] | None = None,
        others: float = FOLD_IN_OTHERS,
        l2_entities: float | None = None,
        random_state: int = 0,
        attributes: AttributesSource = None,
    ) -> Factors:
        """New factors with vectors for the new entities of `facts`, without another fit.

        All other vectors and the relations stay as they are. For squared and logistic losses with an L2, DURA or N3
        penalty. A vector minimises the objective of the fit over the entity's cells, plus a prior: the distribution of
        the model's own entities (`entity_prior`), which decides if there are few facts.

        Parameters
        ----------
        facts : Facts
            All that is known of those entities, by name; relations must be the model's.
        entities : sequence of str or None
            Whose vectors to find. None: those the model does not know. A known entity gets a new vector from these
            facts alone, so give its old facts as well.
        others : float
            Weight of an unlisted cell as a zero: 1 if all true facts are listed, as in a fit, near 0 if few are.
        l2_entities : float or None
            Replace the penalty of the fit and the prior by this weight times |a|².
        random_state : int
            Seed of the sample of zeros, where there are too many to sum.
        attributes : {entity: {attribute: value}}, a data frame or None
            Attributes of those entities, if the model was fitted with attributes; they replace the prior, and an
            entity needs no facts then. None: those of the facts.

        >>> import relatent
        >>> model = relatent.RescalALS(rank=20).fit(relatent.load_dataset("kinships")).factors_
        >>> newcomer = relatent.read([("Eve", "term4", "person3"), ("Eve", "term6", "person8")])
        >>> len(model.fold_in(newcomer).entities) - len(model.entities)
        1
        """
        table = None if attributes is None else attribute_table(attributes)
        A, names, folded = folding.fold_in(self, facts, entities, others, l2_entities, random_state, table)
        about = replace(self.about, folded_in=(*self.about.folded_in, *folded))
        types = None if self.types is None else self.types.extended(len(names))
        own = [] if self.facts is None else [self.facts]
        given = facts.over(names, self.relations).with_undirected(self.undirected)
        parts = [*own, given] if own and own[0].attributes is not None else [*own, given.without_attributes()]
        known = union(parts, entities=names, relations=self.relations) if own else None
        return replace(self, A=A, R=self.relation_matrices, entities=names, about=about, types=types, facts=known)

    @cached_property
    def entity_prior(self) -> EntityPrior | None:
        """The distribution of the entity vectors."""
        return entity_prior(self.A)

    @cached_property
    def noise_variance(self) -> float:
        """The residual variance of least squares; 1 without a distribution of the entity vectors."""
        return 1.0 if self.entity_prior is None else noise_variance(self, self.entity_prior)

    def save(self, path: str | Path) -> None:
        """Write the model to one file, completely or not at all.

        >>> f = Factors(np.eye(2), np.zeros((1, 2, 2)), np.zeros(1), ["Ann", "Bob"], ["likes"])
        >>> f.save("model.relatent")
        """
        contents = {name: getattr(self, name) for name in model_file.ModelContents._fields}
        model_file.write(model_file.ModelContents(**contents), path)


class _DecodedOnDemand:
    """`Factors.facts`: given as facts or as those of a file, read as facts."""

    def __get__(self, instance: Factors, owner: type) -> Facts | None:
        found = vars(instance)["_facts"]
        return found.facts if isinstance(found, StoredFacts) else found

    def __set__(self, instance: Factors, facts: Facts | StoredFacts | None) -> None:
        vars(instance)["_facts"] = facts


class _ExpandedOnDemand:
    """`Factors.R`: given as whole matrices or RelationMatrices, read as whole matrices."""

    def __get__(self, instance: Factors, owner: type) -> Slices:
        return instance.relation_matrices.expanded()

    def __set__(self, instance: Factors, R: Slices | RelationMatrices) -> None:
        vars(instance)["_relation_matrices"] = RelationMatrices.of(R)


Factors.facts = _DecodedOnDemand()  # type: ignore[assignment]
Factors.R = _ExpandedOnDemand()  # after the class, as a dataclass would take it for the default of the field


def load(path: str | Path, *, verify: bool = True) -> Factors:
    """Read a model file; `verify` also compares its checksum.

    >>> Factors(np.eye(2), np.zeros((1, 2, 2)), np.zeros(1), ["Ann", "Bob"], ["likes"]).save("model.relatent")
    >>> load("model.relatent")
    Factors(2 entities, 1 relations, rank 2, logistic link)
    """
    contents = model_file.read(path, verify=verify)._asdict()
    return Factors(R=contents.pop("relation_matrices"), **contents)

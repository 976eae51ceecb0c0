"""Factors: the fitted model and the questions it answers.

θ_ijk = a_iᵀ R_k a_j + b_k,    p_ijk = link(θ_ijk)

Under the categorical loss a pair has at most one relation (`exclusive`), so relations compete: the score is the
log-odds of k against all other relations of the pair and none, θ_k − log(1 + Σ_{k' ≠ k} exp θ_k'), and the link maps
that score to a probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.compact_matrices import times
from ..data.facts import Facts
from ..data.names import Names
from ..data.read.annotations import AttributesSource, attribute_table
from ..errors import InputError
from ..json_values import to_json_object
from ..result_tables import Result, html_table, import_pandas
from . import fold_in as folding
from . import model_file
from .about import origin
from .entity_attributes import EntityAttributes
from .entity_prior import EntityPrior, entity_prior
from .entity_regression import noise_variance
from .entity_types import EntityTypes
from .fold_in_defaults import FOLD_IN_OTHERS
from .links import Link, LogisticLink, RelationLinks, UnlistedLink
from .objective_description import CATEGORICAL, ObjectiveTerm
from .relation_matrices import RelationMatrices
from .rule_scores import RuleScores
from .top import Top

if TYPE_CHECKING:
    import pandas as pd

RANKING_LOSSES = ("softmax", "hinge")  # whose θ is not a log-odds
CELLS_PER_BLOCK = 1 << 16  # cells scored together: two (cells, r) arrays of gathered rows stay in the cache
NUMBERS_PER_BLOCK = 1 << 24  # of such an array, at a large rank


class Question(NamedTuple):
    """A fact with one open place, and the score of every candidate for that place."""

    place: int  # 0 subject, 1 relation, 2 object
    names: Names
    theta: Vector


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
    about: Mapping[str, Any] = field(default_factory=dict)  # how it was made: settings, data, trace; as JSON values
    exclusive: bool = False  # a pair has at most one relation; follows from the loss where one is given
    loss: ObjectiveTerm | None = None  # what the fit minimised; None if unknown
    penalty: ObjectiveTerm | None = None
    types: EntityTypes | None = None  # of the entities; answers of a wrong type are not offered
    rules: RuleScores | None = None  # weighted rules, which add to θ; such a model may have no vectors: rank 0
    attributes: EntityAttributes | None = None  # what attributes say about vectors, if the facts had some

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
        if isinstance(self.link, UnlistedLink) and len(self.link.scores) != k:
            raise InputError(f"the link must have knots for {k} relations, got {len(self.link.scores)}")
        if isinstance(self.link, RelationLinks) and len(self.link.links) != k:
            raise InputError(f"there must be links for {k} relations, got {len(self.link.links)}")

    @property
    def relation_matrices(self) -> RelationMatrices:
        """R_1 … R_K by the parameters of their structure."""
        return vars(self)["_relation_matrices"]  # type: ignore[no-any-return]

    @property
    def rank(self) -> int:
        """The number of latent components."""
        return int(self.A.shape[1])

    @property
    def has_probabilities(self) -> bool:
        """Whether the link gives probabilities; scores of a softmax or hinge loss need calibration for that."""
        if self.loss is None or self.link.name not in (LogisticLink.name, RelationLinks.name):
            return True
        given = self.loss.parameters
        names = {self.loss.name, given.get("other"), *given.get("losses", {}).values()}
        return not names & set(RANKING_LOSSES)

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
        return to_json_object({**size, **terms, "about": self.about})

    def _repr_html_(self) -> str:
        rows = {
            "loss": self.loss and str(self.loss),
            "penalty": self.penalty and str(self.penalty),
            **origin(self.about),
        }
        return html_table(repr(self), [{"": name, "value": value} for name, value in rows.items() if value])

    def score(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> Vector:
        """θ of each cell, for ids or names that broadcast; the log-odds if relations are exclusive.

        >>> f = Factors(np.eye(2), np.array([[[0.0, 3.0], [0.0, 0.0]]]), np.zeros(1), ["Ann", "Bob"], ["likes"])
        >>> float(f.score("Ann", "likes", "Bob")), f.score(0, 0, [0, 1]).tolist()
        (3.0, [0.0, 3.0])
        """
        s, k, o = np.broadcast_arrays(
            self.entities.ids(subjects), self.relations.ids(relations), self.entities.ids(objects)
        )
        if self.exclusive:
            return self._exclusive_scores(s, k, o)[()]
        theta = scores(self.A, self.relation_matrices.compact, self.bias, s, k, o)
        return (theta if self.rules is None else theta + self.rules.cells(s, k, o))[()]

    def _exclusive_scores(self, s: Ids, k: Ids, o: Ids) -> Vector:
        """Log-odds of each cell against no relation and the other relations of its pair."""
        n, K = len(self.entities), len(self.relations)
        pairs, pair_of_cell = np.unique(s.astype(np.int64).ravel() * n + o.ravel(), return_inverse=True)
        relations, result = k.ravel(), np.empty(k.size)
        order = np.argsort(pair_of_cell, kind="stable")
        block_size = max(1, CELLS_PER_BLOCK // K)
        for low in range(0, len(pairs), block_size):
            block = pairs[low : low + block_size]
            cells = np.broadcast_arrays((block // n)[:, None], np.arange(K), (block % n)[:, None])
            theta = scores(self.A, self.relation_matrices.compact, self.bias, *cells)
            here = order[slice(*np.searchsorted(pair_of_cell[order], [low, low + len(block)]))]
            result[here] = against_others(theta[pair_of_cell[here] - low].T, relations[here])
        return result.reshape(k.shape)

    def probability(self, subjects: ArrayLike, relations: ArrayLike, objects: ArrayLike) -> Vector:
        """The probability that each cell is true, for ids or names.

        >>> f = Factors(np.eye(2), np.array([[[0.0, 3.0], [0.0, 0.0]]]), np.zeros(1), ["Ann", "Bob"], ["likes"])
        >>> f.probability("Ann", "likes", ["Ann", "Bob"]).round(2).tolist()
        [0.5, 0.95]
        """
        return self.link.probability(self.score(subjects, relations, objects), self.relations.ids(relations))

    def top(
        self,
        subject: str | int | None = None,
        relation: str | int | None = None,
        object: str | int | None = None,
        k: int = 10,
        exclude: Facts | Sequence[Facts] | None = None,
    ) -> Top:
        """The k best answers for the one place that is not given, without wrong types and the facts in `exclude`.

        >>> import relatent
        >>> facts = relatent.load_dataset("kinships")
        >>> model = relatent.RescalALS(rank=20).fit(facts).factors_
        >>> len(model.top(subject="person0", relation="term4", k=3, exclude=facts).names)
        3
        """
        if k < 1:
            raise InputError(f"k must be at least 1, got {k}")
        place, names, theta = self.question(subject, relation, object)
        given = (subject, relation, object)
        for facts in (exclude,) if isinstance(exclude, Facts) else exclude or ():
            theta[self._known_answers(facts, given, place)] = -np.inf
        if relation is not None:
            self.drop_wrong_types(theta, int(self.relations.ids(relation)), place)
        best = best_first(theta, k)
        relations = best if relation is None else self.relations.ids(relation)
        return Top([names[i] for i in best.tolist()], theta[best], self.link.probability(theta[best], relations))

    def question(self, subject: Any = None, relation: Any = None, object: Any = None) -> Question:
        """The open place, the names of its candidates, and their scores."""
        given = [value is not None for value in (subject, relation, object)]
        if sum(given) != 2:
            named = ", ".join(
                what for what, is_given in zip(("subject", "relation", "object"), given, strict=True) if is_given
            )
            raise InputError(f"give exactly two of subject, relation and object, got {named or 'none'}")
        if not given[1]:
            s, o = self.entities.ids(subject), self.entities.ids(object)
            theta: Vector = self.relation_matrices.scores_of_relations(self.A[s], self.A[o]) + self.bias
            if self.rules is not None:
                theta = theta + self.rules.cells(s, np.arange(len(theta)), o)
            if self.exclusive:
                K = len(theta)
                theta = against_others(np.broadcast_to(theta[:, None], (K, K)), np.arange(K))
            return Question(1, self.relations, theta)
        ids = np.array([int(self.entities.ids(subject if given[0] else object))])
        theta = self.scores_of_all(ids, int(self.relations.ids(relation)), of_objects=given[2])[0]
        return Question(2 if given[0] else 0, self.entities, theta)

    def drop_wrong_types(self, theta: Vector, relation: int, place: int, kept: Ids | None = None) -> None:
        """Set the scores of candidates of a wrong type to −∞, except those of `kept`."""
        if self.types is None:
            return
        is_wrong = ~self.types.allowed(relation, place)
        if kept is not None:
            is_wrong[kept] = False
        theta[is_wrong] = -np.inf

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
        return theta if self.rules is None else theta + self.rules.rows(entities, relation, of_objects=of_objects)

    def _known_answers(self, facts: Facts, given: tuple[Any, Any, Any], place: int) -> Ids:
        """Ids of the answers in `facts`, which may have another vocabulary."""
        here = (self.entities, self.relations, self.entities)
        there = (facts.entities, facts.relations, facts.entities)
        rows = np.ones(len(facts), bool)
        for column in {0, 1, 2} - {place}:
            name = here[column][int(here[column].ids(given[column]))]
            if name not in there[column]:
                return np.empty(0, np.int64)
            rows &= facts.triples[:, column] == there[column].id(name)
        answers = np.unique(facts.triples[rows, place])
        return np.array(
            [here[place].id(there[place][a]) for a in answers if there[place][a] in here[place]], dtype=np.int64
        )

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
        about = {**self.about, "folded_in": [*self.about.get("folded_in", []), *folded]}
        types = None if self.types is None else self.types.extended(len(names))
        return replace(self, A=A, R=self.relation_matrices, entities=names, about=about, types=types)

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


class _ExpandedOnDemand:
    """`Factors.R`: given as whole matrices or RelationMatrices, read as whole matrices."""

    def __get__(self, instance: Factors, owner: type) -> Slices:
        return instance.relation_matrices.expanded()

    def __set__(self, instance: Factors, R: Slices | RelationMatrices) -> None:
        vars(instance)["_relation_matrices"] = RelationMatrices.of(R)


Factors.R = _ExpandedOnDemand()  # after the class, as a dataclass would take it for the default of the field


def load(path: str | Path, *, verify: bool = True) -> Factors:
    """Read a model file; `verify` also compares its checksum.

    >>> Factors(np.eye(2), np.zeros((1, 2, 2)), np.zeros(1), ["Ann", "Bob"], ["likes"]).save("model.relatent")
    >>> load("model.relatent")
    Factors(2 entities, 1 relations, rank 2, logistic link)
    """
    contents = model_file.read(path, verify=verify)._asdict()
    return Factors(R=contents.pop("relation_matrices"), **contents)


def best_first(theta: Vector, k: int) -> Ids:
    """Indices of the k highest scores, best first; scores of −∞ are left out, ties go to the lower index."""
    k = min(k, int(np.count_nonzero(theta > -np.inf)))
    if not k:
        return np.empty(0, np.int64)
    last = np.partition(theta, len(theta) - k)[len(theta) - k]
    best = np.flatnonzero(theta >= last)  # includes all ties for the last place, so that the order does not depend on k
    return best[np.lexsort((best, -theta[best]))][:k]


def scores(A: Matrix, R: Slices, b: Vector, s: Ids, k: Ids, o: Ids) -> Vector:
    """θ of the cells with these ids, in the shape of the ids; R may be the parameters of a structure."""
    theta = np.empty(s.shape, np.result_type(A, b))
    flat, s, k, o = theta.reshape(-1), s.reshape(-1), k.reshape(-1), o.reshape(-1)
    order, step = np.argsort(k, kind="stable"), max(1, min(CELLS_PER_BLOCK, NUMBERS_PER_BLOCK // max(1, A.shape[1])))
    edges = np.searchsorted(k[order], np.arange(len(R) + 1))
    for relation, (start, stop) in enumerate(pairwise(edges.tolist())):
        for low in range(start, stop, step):
            rows = order[low : min(low + step, stop)]
            flat[rows] = np.einsum("nr,nr->n", times(A[s[rows]], R[relation]), A[o[rows]]) + b[relation]
    return theta


def against_others(theta: Matrix, own: Ids) -> Vector:
    """Log-odds of relation own[j] in column j: θ_own − log(1 + Σ exp θ of the others). theta: (K, m). own: (m,)."""
    columns = np.arange(theta.shape[1])
    others = np.array(theta, np.float64)
    chosen = others[own, columns]
    others[own, columns] = -np.inf
    top = np.maximum(others.max(axis=0), 0)
    return chosen - top - np.log(np.exp(others - top).sum(axis=0) + np.exp(-top))  # type: ignore[no-any-return]

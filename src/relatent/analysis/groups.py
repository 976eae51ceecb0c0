"""Groups of similar entities, and the facts that are typical of each group."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Vector
from ..backend.blas_threads import one_thread
from ..data.result_labels import row_labels
from ..errors import InputError
from ..json_values import to_json_object
from ..model.factors import Factors
from ..model.scores import best_first
from ..progress import Progress, silent
from ..random_state import RandomState, to_seed
from ..result_tables import ResultList, data_frame, html_table, name_list, result_record
from .similarity import profiles
from .types_by_role import role_profiles, types_by_role

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("auto", "roles", "k-means", "hierarchical", "hdbscan")
MAX_ENTITIES_HDBSCAN = 5000  # "auto" tries HDBSCAN up to this size, a few seconds
MAX_GROUPS_TRIED = 20  # if the number of groups is chosen
MAX_ENTITIES_HIERARCHICAL = 20_000  # hierarchical clustering compares all pairs
MAX_ENTITIES_KMEANS = 20_000  # k-means computes its centres from a sample of this size; all entities are assigned
MAX_ENTITIES_SILHOUETTE = 2000  # the number of groups is chosen on a sample of this size
MIN_PROBABILITY_GAIN = 0.05  # of a typical fact over the same fact for other entities
MAX_AVERAGED = 64  # members of a group, and other entities, that probabilities of typical facts are averaged over
MIN_ROLE_SHARE, MAX_ROLES = 0.1, 3  # of the roles that are shown for a group


@result_record
class TypicalFact(NamedTuple):
    """A fact that members of a group are more likely to have than other entities.

    >>> fact = TypicalFact("party", "subject", "Democratic", probability=0.9, elsewhere=0.25)
    >>> fact.probability > fact.elsewhere
    True
    """

    relation: str
    role: str  # of the members: "subject" or "object"
    neighbour: str
    probability: float  # the mean over members of the group
    elsewhere: float  # the mean over other entities

    def __str__(self) -> str:
        ends = ("…", self.neighbour) if self.role == "subject" else (self.neighbour, "…")
        return f"{ends[0]} {self.relation} {ends[1]} ({self.probability:.2f})"


@result_record
class TypicalRole(NamedTuple):
    """A role that members of a group play: subject or object of a relation.

    >>> print(TypicalRole("born_in", "object", 0.75))
    object of born_in
    """

    relation: str
    role: str  # "subject" or "object"
    share: float  # of what the model predicts of the members

    def __str__(self) -> str:
        return f"{self.role} of {self.relation}"


class EntityGroup(NamedTuple):
    """A group of similar entities, the most central first.

    >>> EntityGroup(0, ["uk", "usa"], typical=[]).to_dict()
    {'number': 0, 'names': ['uk', 'usa'], 'typical': [], 'roles': []}
    """

    number: int
    names: list[str]
    typical: list[TypicalFact]
    roles: Sequence[TypicalRole] = ()  # the most frequent first

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """The typical facts, one row each; needs pandas."""
        return data_frame(self.typical, TypicalFact._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.typical)

    def __repr__(self) -> str:
        return f"EntityGroup({self.number}, {len(self.names)} entities: {name_list(self.names)})"


def groups(
    factors: Factors, method: str = "auto", n_groups: int | None = None, *, k: int = 5, random_state: RandomState = 0
) -> ResultList[EntityGroup]:
    """Cluster the entities; largest group first, each with its k most typical facts.

    Parameters
    ----------
    method : "auto", "roles", "k-means", "hierarchical" or "hdbscan"
        "roles" finds types: entities that are subject and object of the same relations. The others cluster by
        similarity. "auto" takes the types if there are several; else HDBSCAN, or k-means where that leaves out most
        entities. With n_groups it is k-means.
    n_groups : for k-means and hierarchical; None takes the number from 2 to 20 with the highest silhouette. Roles and
        HDBSCAN find the number themselves; HDBSCAN leaves out entities that belong to no group.

    >>> import relatent
    >>> model = relatent.RescalALS(rank=10).fit(relatent.load_dataset("kinships")).factors_
    >>> found = relatent.groups(model, n_groups=4)
    >>> len(found), sum(len(group.names) for group in found) == len(model.entities)
    (4, True)
    """
    _check_method(len(factors.entities), method, n_groups)
    seed = to_seed(random_state) % (1 << 32)
    B = profiles(factors)
    labels = group_labels(factors, B, method, n_groups, seed)
    shares = role_profiles(factors, seed) ** 2
    return ResultList(
        EntityGroup(
            number,
            [factors.entities[i] for i in members.tolist()],
            ResultList(typical_facts(factors, members, k), row_labels(factors)),
            ResultList(_typical_roles(factors, shares[members].mean(axis=0)), row_labels(factors)),
        )
        for number, members in enumerate(group_members(B, labels))
    )


def group_members(B: Matrix, labels: NDArray[np.int64]) -> list[Ids]:
    """The rows of each label, largest group first, the most central rows first."""
    found: list[Ids] = []
    sizes = np.bincount(labels[labels >= 0])
    for label in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
        members = np.flatnonzero(labels == label)
        centre = B[members].mean(axis=0)
        found.append(members[np.argsort(-(B[members] @ centre), kind="stable")])
    return found


def _check_method(n_entities: int, method: str, n_groups: int | None) -> None:
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if n_groups is not None and not 1 <= n_groups <= n_entities:
        raise InputError(f"n_groups must be between 1 and {n_entities}, the number of entities, got {n_groups}")
    if method == "hierarchical" and n_entities > MAX_ENTITIES_HIERARCHICAL:
        raise InputError(
            f"method='hierarchical' takes at most {MAX_ENTITIES_HIERARCHICAL} entities, got {n_entities}; "
            "use method='k-means'"
        )
    if method in ("roles", "hdbscan") and n_groups is not None:
        raise InputError(f"method={method!r} finds the number of groups itself; leave n_groups out")


def group_labels(
    factors: Factors,
    B: Matrix,
    method: str = "auto",
    n_groups: int | None = None,
    random_state: int = 0,
    progress: Progress = silent,
) -> NDArray[np.int64]:
    """The group of each entity, −1 for entities in no group; B: their profiles."""
    if method == "auto" and n_groups is not None:
        method = "k-means"
    if method in ("auto", "roles"):
        types = types_by_role(factors, random_state)
        if types is not None:
            return types
        if method == "roles":
            return np.zeros(len(B), np.int64)
        if len(B) <= MAX_ENTITIES_HDBSCAN:
            labels = cluster(B, "hdbscan")
            if labels.max() > 0 and np.mean(labels >= 0) > 0.5:
                return labels
        method = "k-means"
    return cluster(B, method, n_groups, random_state, progress)


def cluster(
    B: Matrix, method: str, n_groups: int | None = None, random_state: int = 0, progress: Progress = silent
) -> NDArray[np.int64]:
    """The group of each row by similarity, −1 for rows in no group."""
    if len(B) < 2:
        return np.zeros(len(B), np.int64)
    if method == "hdbscan":
        from sklearn.cluster import HDBSCAN

        size = min(max(5, round(len(B) ** 0.5)), len(B))
        labels: NDArray[np.int64] = HDBSCAN(min_cluster_size=size, copy=True).fit_predict(B).astype(np.int64)
        return labels
    return _cluster_into(B, method, n_groups or _best_n_groups(B, method, random_state, progress), random_state)


def _cluster_into(B: Matrix, method: str, n_groups: int, random_state: int) -> NDArray[np.int64]:
    from sklearn.cluster import AgglomerativeClustering, KMeans
    from sklearn.exceptions import ConvergenceWarning

    if method == "k-means":
        sample = _sample_rows(B, MAX_ENTITIES_KMEANS, random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer groups than asked for: equal rows are one
            model: Any = KMeans(n_groups, n_init=10, random_state=random_state).fit(sample)
        return model.predict(B).astype(np.int64)  # type: ignore[no-any-return]
    labels: NDArray[np.int64] = AgglomerativeClustering(n_groups).fit_predict(B).astype(np.int64)
    return labels


def _sample_rows(B: Matrix, max_rows: int, random_state: int) -> Matrix:
    """All rows, or a random sample of `max_rows`."""
    if len(B) <= max_rows:
        return B
    return B[np.sort(np.random.default_rng(random_state).choice(len(B), max_rows, replace=False))]


def _best_n_groups(B: Matrix, method: str, random_state: int, progress: Progress) -> int:
    """The number of groups with the highest silhouette, on a sample of the entities."""
    import sklearn.cluster  # noqa: F401  (loaded first, so that one_thread reaches its thread pools)
    from sklearn.metrics import silhouette_score

    sample = _sample_rows(B, MAX_ENTITIES_SILHOUETTE, random_state)
    silhouettes = {}
    numbers = range(2, min(MAX_GROUPS_TRIED, len(sample) - 1) + 1)
    for done, n_groups in enumerate(numbers):
        progress(done, len(numbers), f"trying {n_groups} groups")
        with one_thread():  # too little work for several threads: they would only wait for each other
            labels = _cluster_into(sample, method, n_groups, random_state)
        if len(np.unique(labels)) > 1:
            silhouettes[n_groups] = float(silhouette_score(sample, labels))
    return max(silhouettes, key=lambda n_groups: silhouettes[n_groups]) if silhouettes else 1


def typical_facts(factors: Factors, members: Ids, k: int) -> list[TypicalFact]:
    """The k facts whose mean probability for members exceeds that for other entities most.

    Of each role, the candidates are the k partners with the highest scores for the mean vector of the members.
    """
    A, R = factors.A.astype(np.float64), factors.relation_matrices.astype(np.float64)
    others = np.setdiff1d(np.arange(len(A)), members)
    inside, outside = (_spread(ids, MAX_AVERAGED) for ids in (members, others if len(others) else members))
    vectors = np.concatenate([A[members].mean(axis=0)[None], A[inside], A[outside]])
    found: list[TypicalFact] = []
    for relation_id, relation in enumerate(factors.relations):
        for role in ("subject", "object"):
            rows = R.times(vectors, relation_id, back=role == "object")
            best = best_first(A @ rows[0], k)
            theta = rows[1:] @ A[best].T + float(factors.bias[relation_id])
            p = factors.link.probability(theta, relation_id)
            means = p[: len(inside)].mean(axis=0), p[len(inside) :].mean(axis=0)
            for j, *both in zip(best.tolist(), *means, strict=True):
                found.append(TypicalFact(relation, role, factors.entities[j], *map(float, both)))
    typical = [fact for fact in found if fact.probability - fact.elsewhere > MIN_PROBABILITY_GAIN]
    return sorted(typical, key=lambda fact: fact.elsewhere - fact.probability)[:k]


def _spread(ids: Ids, count: int) -> Ids:
    """At most `count` of the ids, evenly spread over the list."""
    return ids if len(ids) <= count else ids[np.linspace(0, len(ids) - 1, count).astype(np.int64)]


def _typical_roles(factors: Factors, shares: Vector) -> list[TypicalRole]:
    """The roles with the largest shares of the predicted facts; the shares of each relation's subject and object."""
    best = best_first(shares, MAX_ROLES if len(factors.relations) > 1 else 0)  # with one relation all play both
    return [
        TypicalRole(factors.relations[place // 2], ("subject", "object")[place % 2], float(shares[place]))
        for place in best[shares[best] >= MIN_ROLE_SHARE].tolist()
    ]

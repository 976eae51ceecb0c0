"""What a model is asked: who is like whom, who may be the same, which belong together, and why a score is what it is.

Plain functions on `Factors`; the command line and the web page show what they return.

Two entities are alike if the model says the same of them. What it says of i is one row of scores: as a subject and as
an object, of every relation, beside every entity. The product of two such rows is

    Σ_k Σ_j (a_iᵀ R_k a_j)(a_i'ᵀ R_k a_j) + (a_jᵀ R_k a_i)(a_jᵀ R_k a_i')  =  a_iᵀ E a_i',
    E = Σ_k R_k G R_kᵀ + R_kᵀ G R_k,    G = AᵀA of the vectors around their mean

so the cosine of A E^½ compares all scores at the price of r numbers an entity; distances in A itself would count
directions that no relation uses. G is taken around the mean because what is said of everybody tells nobody apart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Ids, Matrix, Vector
from ..backend import gram_matrix as gram
from ..backend.blas_threads import one_thread
from ..data.facts import Facts
from ..data.names import Names
from ..errors import InputError
from ..model.factors import Factors, best_first
from ..model.fold_in import Listed, pulls
from ..progress import Progress
from .known_facts import Known

Cell = tuple[int, int, int]  # subject, relation, object
GROUPINGS = ("k-means", "hierarchical", "hdbscan")
MOST_HIERARCHICAL = 20_000  # entities: all pairs are compared
LEAST_GAIN = 0.01  # in probability, for something to be typical of a group
CANDIDATES = 10  # facts of either end that are tried as reasons
TRIED = 2000  # entities that a number of groups is chosen by
MOST_FITTED = 20_000  # entities that k-means finds its centres by; the others go to the nearest


class Similar(NamedTuple):
    """An entity and how alike the model takes it to be, at most 1."""

    name: str
    similarity: float


class Typical(NamedTuple):
    """What sets a group apart: a relation to one entity, likelier in the group than elsewhere."""

    relation: str
    role: str  # of the members: "subject" or "object"
    neighbour: str
    probability: float  # that a member in the middle of the group has it
    elsewhere: float  # that one in the middle of all entities has it


class Group(NamedTuple):
    """Entities that belong together; those in the middle of the group first."""

    number: int
    names: list[str]
    typical: list[Typical]


class Reason(NamedTuple):
    """A known fact and what the score owes to it."""

    subject: str
    relation: str
    object: str
    influence: float  # on θ, beside other cells of the relation: log-odds for the likelihood


class Component(NamedTuple):
    """One latent component of the score: how much it adds, and who else it is about."""

    contribution: float  # to θ
    subjects: list[str]
    objects: list[str]


class Explanation(NamedTuple):
    """Why a cell has its score."""

    subject: str
    relation: str
    object: str
    score: float
    probability: float
    bias: float  # what every cell of the relation has
    reasons: list[Reason]  # the most important first
    components: list[Component]
    sentence: str


# --- who is like whom


def profiles(factors: Factors) -> Matrix:
    """A row of unit length for each entity, (N, r): the product of two is how alike the model's scores of both are."""
    return unit_rows(factors.A, basis(factors))


def basis(factors: Factors) -> Matrix:
    """E^½, (r, r): what turns vectors into profiles."""
    A = factors.A.astype(np.float64)
    centred = A - A.mean(axis=0)
    E = gram.quadratic(factors.R.astype(np.float64), gram.product(centred, centred)).normal
    g, U = np.linalg.eigh(E)
    return U * np.sqrt(np.maximum(g, 0))  # type: ignore[no-any-return]


def unit_rows(A: Matrix, T: Matrix) -> Matrix:
    """The rows of A T at unit length."""
    B = A.astype(np.float64) @ T
    return B / np.maximum(np.linalg.norm(B, axis=1, keepdims=True), np.finfo(np.float64).tiny)  # type: ignore[no-any-return]


def similar(factors: Factors, entity: str | int, k: int = 10) -> list[Similar]:
    """The k entities most like one, best first."""
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    i, B = int(factors.entities.ids(entity)), profiles(factors)
    return nearest(factors, B, B[i], k, but=i)


def nearest(factors: Factors, B: Matrix, row: Vector, k: int, *, but: int | None = None) -> list[Similar]:
    """The k entities whose profiles B are nearest to one, best first; an entity may be left out."""
    alike = B @ row
    if but is not None:
        alike[but] = -np.inf
    return [Similar(factors.entities[j], float(alike[j])) for j in best_first(alike, k).tolist()]


# --- which belong together


def groups(
    factors: Factors, method: str = "k-means", n_groups: int | None = None, *, typical: int = 5, random_state: int = 0
) -> list[Group]:
    """Groups of entities that the model says alike things of, largest first, with what is typical of each.

    `n_groups`: for k-means and hierarchical; None: as many, from 2 to 20, as stand apart best (silhouette). HDBSCAN
    finds their number itself and leaves out entities that belong nowhere.
    """
    _check_grouping(len(factors.entities), method, n_groups)
    B = profiles(factors)
    return [
        Group(number, [factors.entities[i] for i in members.tolist()], typical_of(factors, members, typical))
        for number, members in enumerate(members_of(B, labels_of(B, method, n_groups, random_state)))
    ]


def members_of(B: Matrix, labels: NDArray[np.int64]) -> list[Ids]:
    """The rows of each label, largest group first, those in the middle of it first."""
    found: list[Ids] = []
    for label in np.argsort(-np.bincount(labels[labels >= 0]), kind="stable").tolist():
        members = np.flatnonzero(labels == label)
        middle = B[members].mean(axis=0)
        found.append(members[np.argsort(-(B[members] @ middle), kind="stable")])
    return found


def _check_grouping(n: int, method: str, n_groups: int | None) -> None:
    if method not in GROUPINGS:
        raise InputError(f"method must be one of {', '.join(GROUPINGS)}, got {method!r}")
    if n_groups is not None and not 1 <= n_groups <= n:
        raise InputError(f"n_groups must be between 1 and {n}, the number of entities, got {n_groups}")
    if method == "hierarchical" and n > MOST_HIERARCHICAL:
        raise InputError(f"hierarchical groups compare all pairs of {n} entities; take method='k-means'")
    if method == "hdbscan" and n_groups is not None:
        raise InputError("hdbscan finds the number of groups itself; leave n_groups out")


def labels_of(
    B: Matrix,
    method: str = "k-means",
    n_groups: int | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """The group of each row, −1 where it has none."""
    if method == "hdbscan":
        from sklearn.cluster import HDBSCAN

        labels: NDArray[np.int64] = HDBSCAN(min_cluster_size=min(5, len(B)), copy=True).fit_predict(B).astype(np.int64)
        return labels
    return _clustered(B, method, n_groups or _best_number(B, method, random_state, progress), random_state)


def _clustered(B: Matrix, method: str, n_groups: int, random_state: int) -> NDArray[np.int64]:
    from sklearn.cluster import AgglomerativeClustering, KMeans

    if method == "k-means":
        made: Any = KMeans(n_groups, n_init=10, random_state=random_state).fit(_some(B, MOST_FITTED, random_state))
        return made.predict(B).astype(np.int64)  # type: ignore[no-any-return]
    labels: NDArray[np.int64] = AgglomerativeClustering(n_groups).fit_predict(B).astype(np.int64)
    return labels


def _some(B: Matrix, most: int, random_state: int) -> Matrix:
    """The rows, or a draw of them if there are more."""
    if len(B) <= most:
        return B
    return B[np.sort(np.random.default_rng(random_state).choice(len(B), most, replace=False))]


def _best_number(B: Matrix, method: str, random_state: int, progress: Progress | None = None) -> int:
    """The number of groups with the highest silhouette, on some of the entities if there are many."""
    import sklearn.cluster  # noqa: F401  (loaded, so that its threads can be held)
    from sklearn.metrics import silhouette_score

    some = _some(B, TRIED, random_state)
    apart = {}
    numbers = range(2, min(20, len(some) - 1) + 1)
    for tried, n_groups in enumerate(numbers):
        if progress is not None:
            progress(tried, len(numbers), f"trying {n_groups} groups")
        with one_thread():  # too little work to share: beside other work threads only wait for each other
            labels = _clustered(some, method, n_groups, random_state)
        if len(np.unique(labels)) > 1:
            apart[n_groups] = float(silhouette_score(some, labels))
    return max(apart, key=lambda n_groups: apart[n_groups]) if apart else 1


def typical_of(factors: Factors, members: Ids, count: int) -> list[Typical]:
    """The cells of the members' mean vector that are likelier than those of everybody's."""
    A, R = factors.A.astype(np.float64), factors.R.astype(np.float64)
    inside, all_ = A[members].mean(axis=0), A.mean(axis=0)
    found: list[Typical] = []
    for k, relation in enumerate(factors.relations):
        for role, turned in (("subject", R[k]), ("object", R[k].T)):
            here, there = (
                factors.link.probability(A @ (vector @ turned) + float(factors.bias[k])) for vector in (inside, all_)
            )
            gain = here - there
            for j in np.argsort(-gain, kind="stable")[:count].tolist():
                found.append(Typical(relation, role, factors.entities[j], float(here[j]), float(there[j])))
    likelier = [one for one in found if one.probability - one.elsewhere > LEAST_GAIN]
    return sorted(likelier, key=lambda one: one.elsewhere - one.probability)[:count]


# --- why


def explain(
    factors: Factors,
    subject: str | int,
    relation: str | int,
    object: str | int,
    known: Facts | Known,
    *,
    count: int = 5,
) -> Explanation:
    """Why a cell has its score: the known facts of its two entities that carry it, and its latent components.

    The influence of a fact is what the score would lose were it false, beside what the relation's other objects, or
    for facts of the object its other subjects, would lose: a reason speaks for this cell, not for all of its kind.
    Relations and all other vectors stay as they are.
    """
    if count < 1:
        raise InputError(f"count must be at least 1, got {count}")
    s, o = int(factors.entities.ids(subject)), int(factors.entities.ids(object))
    k = int(factors.relations.ids(relation))
    known = Known(known, factors) if isinstance(known, Facts) else known
    A, R_k = factors.A.astype(np.float64), factors.R[k].astype(np.float64)
    carried: dict[Cell, float] = {}
    subjects, objects = known.ends(k)
    for entity, along in ((s, R_k @ _apart(A, o, objects)), (o, R_k.T @ _apart(A, s, subjects))):
        listed, influence = pulls(factors, entity, known.listed(entity), along, max(CANDIDATES, 2 * count))
        for fact, value in zip(_facts_of(entity, listed), influence.tolist(), strict=True):
            carried[fact] = carried.get(fact, 0.0) + value  # one between the two counts from both ends
    carried.pop((s, k, o), None)  # a fact is no reason for itself
    strongest = sorted(carried.items(), key=lambda item: -item[1])[:count]
    reasons = [Reason(*_named(factors, fact), value) for fact, value in strongest]
    probability = float(factors.probability(s, k, o))
    return Explanation(
        *_named(factors, (s, k, o)),
        float(factors.score(s, k, o)),
        probability,
        float(factors.bias[k]),
        reasons,
        _components(A, R_k, factors.entities, s, o, count),
        _sentence(factors, (s, k, o), probability, strongest, known),
    )


def _apart(A: Matrix, entity: int, others: Ids) -> Vector:
    """An entity's vector beside the mean of others; itself if there are none."""
    others = others[others != entity]
    found: Vector = A[entity] - (A[others].mean(axis=0) if len(others) else 0)
    return found


def _facts_of(entity: int, listed: Listed) -> list[Cell]:
    """An entity's listed cells by their ids."""
    columns = (listed.way.tolist(), listed.relation.tolist(), listed.partner.tolist())
    return [
        (entity, relation, partner) if way == 0 else (partner, relation, entity)
        for way, relation, partner in zip(*columns, strict=True)
    ]


def _named(factors: Factors, cell: Cell) -> tuple[str, str, str]:
    s, k, o = cell
    return factors.entities[s], factors.relations[k], factors.entities[o]


def _components(A: Matrix, R_k: Matrix, names: Names, s: int, o: int, count: int) -> list[Component]:
    """The terms of a_sᵀ U S Vᵀ a_o that add most, with the entities that have most of each side."""
    U, S, Vt = np.linalg.svd(R_k)
    terms = (A[s] @ U) * S * (Vt @ A[o])
    chosen = np.argsort(-np.abs(terms), kind="stable")[:count]
    left, right = U.T[chosen] @ A.T, Vt[chosen] @ A.T  # (count, N)
    found = []
    for c, subjects, objects in zip(chosen.tolist(), left, right, strict=True):
        sides = [_most(names, side * np.sign(side[own]), own) for side, own in ((subjects, s), (objects, o))]
        found.append(Component(float(terms[c]), *sides))
    return found


def _most(names: Names, values: Vector, left_out: int, count: int = 3) -> list[str]:
    """Entities with the largest values, one left out."""
    best = [i for i in best_first(values, count + 1).tolist() if i != left_out]
    return [names[i] for i in best[:count]]


def _sentence(
    factors: Factors, cell: Cell, probability: float, strongest: list[tuple[Cell, float]], known: Known
) -> str:
    """The first reason in words, with others that share it and have what is asked."""
    is_known = bool(np.isin(cell[2], known.objects(cell[0], cell[1])))
    claim = " ".join(_named(factors, cell)) + (" is known" if is_known else "")
    if not strongest or strongest[0][1] <= 0:
        return f"{claim}: no known fact speaks for it."
    fact = strongest[0][0]
    place = 0 if cell[0] in (fact[0], fact[2]) else 2  # which end of the cell the fact is about
    likely = f"{claim}, because " if probability >= 0.5 else f"{claim} is unlikely; what speaks for it most: "
    if is_known:
        likely = f"{claim}; what speaks for it most beside itself: "
    told = likely + " ".join(_named(factors, fact))
    alike = [factors.entities[i] for i in _others_with(known, fact, cell, place)]
    if not alike:
        return f"{told}."
    return f"{told}; both are known of {' and '.join(sorted(alike)[:2])} as well."


def _others_with(known: Known, fact: Cell, cell: Cell, place: int) -> list[int]:
    """Entities that stand in a fact in the place of the cell's own, and in the cell as well."""
    own = cell[place]
    where = 0 if fact[0] == own else 2
    both = np.intersect1d(_fillers(known, fact, where), _fillers(known, cell, place))
    return [i for i in both.tolist() if i != own]


def _fillers(known: Known, fact: Cell, place: int) -> Ids:
    """Entities that make a known fact when put into one place of this one."""
    return known.subjects(fact[1], fact[2]) if place == 0 else known.objects(fact[0], fact[1])

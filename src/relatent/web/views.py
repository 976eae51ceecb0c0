"""Everything the page asks, by name: one model, the facts known beside it, and what is worth keeping ready.

Answers are NamedTuples of plain values, so that the API's description can be read off their types.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..analysis.answers import Answers, EntitySection, answers, entity_sections
from ..analysis.explain import Explanation, explain
from ..analysis.groups import TypicalFact, cluster, group_members, typical_facts
from ..analysis.known_facts import KnownFacts
from ..analysis.projection import MAX_ENTITIES_TSNE, Points, project, tsne_note
from ..analysis.quality import ModelQuality, quality
from ..analysis.similarity import SimilarEntity, nearest, profile_basis, unit_rows
from ..arrays import Ids, Matrix
from ..backend.blas_threads import one_thread
from ..data.facts import Facts
from ..data.names import Names
from ..errors import InputError
from ..model.factors import Factors
from ..model.fold_in import can_fold
from ..progress import Progress
from .background import Once, Working
from .name_index import Finder

T = TypeVar("T")
MEMBERS = 12  # of a group that its summary names
NOBODY = 0xFFFF  # the group of an entity that has none, on the map
EXAMPLES = 8
ROWS = 1 << 16  # turned into profiles at a time


class UnknownError(InputError):
    """A name that the model does not have; `close` are names that may have been meant."""

    def __init__(self, what: str, name: str, close: list[str]):
        super().__init__(f"unknown {what} {name!r}")
        self.what, self.close = what, close


class MissingError(InputError):
    """A question that needs data, or a kind of model, that the server was not started with."""


class Match(NamedTuple):
    """A name that was found."""

    name: str
    facts: int  # known ones it stands in


class Found(NamedTuple):
    """Names that hold what was typed, the best first."""

    query: str
    matches: list[Match]


class Relation(NamedTuple):
    """A relation and how many of its facts are known."""

    name: str
    facts: int


class Relations(NamedTuple):
    """The relations of the model, in its order."""

    relations: list[Relation]


class Entity(NamedTuple):
    """What is known and what is likely of an entity, one section for each role in each relation."""

    name: str
    facts: int
    n_sections: int
    sections: list[EntitySection]


class OneFact(NamedTuple):
    """How likely one fact is."""

    subject: str
    relation: str
    object: str
    score: float
    probability: float
    known: bool


class Alike(NamedTuple):
    """Entities of which the model says nearly the same."""

    entity: str
    similar: list[SimilarEntity]


class GroupSummary(NamedTuple):
    """A group, those in the middle of it, and what sets it apart."""

    number: int
    size: int
    members: list[str]
    typical: list[TypicalFact]


class Groups(NamedTuple):
    """Groups of entities that belong together, the largest first."""

    groups: list[GroupSummary]


class Members(NamedTuple):
    """One group and a page of its members, those in the middle first."""

    group: GroupSummary
    start: int
    members: list[str]


class Way(NamedTuple):
    """A way to lay the entities out on a plane."""

    method: str
    about: str
    available: bool


class Map(NamedTuple):
    """What the map shows, and how it can be drawn."""

    entities: int
    ways: list[Way]


class Listed(NamedTuple):
    """Names of entities by id, from one on."""

    start: int
    names: list[str]


class Newcomer(NamedTuple):
    """What is likely of an entity that the model has met just now, and forgets at once."""

    name: str
    n_sections: int
    sections: list[EntitySection]
    similar: list[SimilarEntity]


class NewFact(NamedTuple):
    """A fact of a newcomer."""

    relation: str
    role: str  # of the newcomer: "subject" or "object"
    partner: str


class Source(NamedTuple):
    """Facts that the server was started with."""

    name: str
    facts: int


class Sizes(NamedTuple):
    """How large a model is."""

    entities: int
    relations: int
    rank: int
    parameters: int
    bytes: int | None  # of the file
    dtype: str


class Fit(NamedTuple):
    """How the fit went."""

    steps: int | None
    seconds: float | None
    converged: bool | None
    verdict: str
    objectives: list[float]


class Model(NamedTuple):
    """What a model is, what it was made from, and what can be asked of it."""

    name: str
    kind: str
    link: str
    calibrated: bool
    exclusive: bool
    sizes: Sizes
    settings: dict[str, Any]
    fit: Fit
    learned_from: int | None  # facts
    known: Source | None
    test: Source | None
    can_explain: bool
    can_fold_in: bool
    examples: list[str]


class Measured(NamedTuple):
    """Figures, and what they were measured on."""

    data: str  # "test" or "known"
    name: str
    quality: ModelQuality


class Explorer:
    """A model and its known facts, ready to be asked from several threads."""

    def __init__(
        self,
        factors: Factors,
        known: KnownFacts | None = None,
        test: KnownFacts | None = None,
        *,
        name: str = "model",
        known_name: str = "known facts",
        test_name: str = "test facts",
        file_bytes: int | None = None,
    ):
        self.factors, self.known, self.test = factors, known, test
        self.name, self.known_name, self.test_name, self.file_bytes = name, known_name, test_name, file_bytes
        self._entities = Finder(factors.entities, None if known is None else known.degrees)
        self._relations = Finder(factors.relations)
        turn = threading.Lock()  # long work is done one piece at a time
        self._folding = threading.Lock()  # each takes a copy of A
        self._basis: Once[Matrix] = Once(lambda _: profile_basis(factors), threading.Lock())
        self._profiles: Once[Matrix] = Once(lambda _: self._rows(factors.A), threading.Lock())
        self._members: Once[list[Ids]] = Once(self._grouped, turn)
        self._summaries: Once[list[GroupSummary]] = Once(self._summed_up, threading.Lock())
        self._planes: dict[str, Once[Points]] = {
            "pca": Once(lambda _: project(self._profiles.wait(), "pca"), threading.Lock()),
            "tsne": Once(self._tsne, turn),
        }
        self._quality: Once[ModelQuality] = Once(self._measured, turn)

    # --- names

    def search(self, q: str, limit: int = 10, kind: str = "entity") -> Found:
        """Names that hold what was typed."""
        if kind == "relation":
            found = self._relations.find(q, limit)
            return Found(q, [Match(self.factors.relations[k], self._n_of_relation(k)) for k in found])
        found = self._entities.find(q, limit)
        return Found(q, [Match(self.factors.entities[i], self._degree(i)) for i in found])

    def relations(self) -> Relations:
        """All relations."""
        names = enumerate(self.factors.relations)
        return Relations([Relation(name, self._n_of_relation(k)) for k, name in names])

    def names(self, start: int = 0, count: int = 1000) -> Listed:
        """Names of entities by id."""
        return Listed(start, list(self.factors.entities[start : start + count]))

    # --- entities and questions

    def entity(self, name: str, limit: int = 5, sections: int = 24) -> Entity:
        """What is known and what is likely of an entity."""
        i = self._id(name)
        found = entity_sections(self.factors, self.known, i, k=limit)
        return Entity(name, self._degree(i), len(found), found[:sections])

    def ask(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,
        k: int = 10,
        known: str = "mark",
    ) -> Answers:
        """The best answers for the one place left open."""
        self._check(subject, relation, object)
        if known == "only" and self.known is None:
            raise MissingError("the server knows no facts; start it with --known DATA")
        return answers(
            self.factors, self.known, subject=subject, relation=relation, object=object, k=k, treat_known=known
        )

    def fact(self, subject: str, relation: str, object: str) -> OneFact:
        """How likely one fact is, and whether it is known."""
        self._check(subject, relation, object)
        f, cell = self.factors, (subject, relation, object)
        ids = f.entities.id(subject), f.relations.id(relation), f.entities.id(object)
        is_known = self.known is not None and bool(np.isin(ids[2], self.known.objects(ids[0], ids[1])))
        return OneFact(*cell, float(f.score(*ids)), float(f.probability(*ids)), is_known)

    def explain(self, subject: str, relation: str, object: str, count: int = 5) -> Explanation:
        """Why a fact has its probability."""
        self._check(subject, relation, object)
        if self.known is None:
            raise MissingError("reasons are known facts, and the server has none; start it with --known DATA")
        if not can_fold(self.factors):
            raise MissingError(f"there are no reasons for a model of this kind; {ONLY_RESCAL}")
        return explain(self.factors, subject, relation, object, self.known, k=count)

    def similar(self, name: str, k: int = 10) -> Alike:
        """Entities of which the model says nearly the same."""
        i, B = self._id(name), self._profiles.wait()
        return Alike(name, nearest(self.factors, B, B[i], k, exclude=i))

    def fold_in(self, name: str, facts: list[NewFact], others: float = 0.1, limit: int = 5) -> Newcomer:
        """What is likely of an entity the model does not know, from a few facts; nothing is kept."""
        if not can_fold(self.factors):
            raise MissingError(f"a model of this kind takes no new entities; {ONLY_RESCAL}")
        if name in self.factors.entities:
            raise InputError(f"the model knows {name!r} already; give the newcomer another name")
        for fact in facts:
            self._check(None, fact.relation, fact.partner)
        triples = [
            (name, fact.relation, fact.partner) if fact.role == "subject" else (fact.partner, fact.relation, name)
            for fact in facts
        ]
        given = Facts.from_arrays(*map(list, zip(*triples, strict=True)))
        with self._folding:
            grown = self.factors.fold_in(given, entities=[name], others=others)
            found = [
                _but(name, one, limit) for one in entity_sections(grown, KnownFacts(given, grown), name, k=limit + 1)
            ]
        alike = nearest(self.factors, self._profiles.wait(), self._rows(grown.A[-1:])[0], 10)
        return Newcomer(name, len(found), found, alike)

    # --- what belongs together

    def groups(self) -> Groups | Working:
        """All groups, or how far they are."""
        members = self._members.look()
        if isinstance(members, Working):
            return members
        found = self._summaries.look()
        return found if isinstance(found, Working) else Groups(found)

    def group(
        self, number: int | None = None, entity: str | None = None, start: int = 0, count: int = 100
    ) -> Members | Working:
        """One group, by its number or by one of its members."""
        if (number is None) == (entity is None):
            raise InputError("give either number or entity; one of them")
        i = None if entity is None else self._id(entity)
        found = self.groups()
        if isinstance(found, Working):
            return found
        if i is not None:
            number = int(self._group_of()[i])
            if number == NOBODY:
                raise UnknownError("group of", str(entity), [])
        if number is None or number >= len(found.groups):
            raise UnknownError("group", str(number), [])
        members = self._members.wait()[number][start : start + count].tolist()
        return Members(found.groups[number], start, [self.factors.entities[i] for i in members])

    def map(self) -> Map:
        """How the entities can be laid out."""
        n = len(self.factors.entities)
        return Map(
            n,
            [
                Way("pca", "principal components: the broad picture, at once", True),
                Way(
                    "tsne",
                    f"t-SNE: keeps neighbours together, for up to {MAX_ENTITIES_TSNE:,} entities",
                    n <= MAX_ENTITIES_TSNE,
                ),
            ],
        )

    def points(self, method: str = "pca") -> bytes | Working:
        """x and y of each entity, little-endian float32."""
        if method == "tsne" and len(self.factors.entities) > MAX_ENTITIES_TSNE:
            raise InputError(f"tsne is for at most {MAX_ENTITIES_TSNE} entities; take method=pca")
        found = self._planes[method].look()
        return found if isinstance(found, Working) else found.astype("<f4").tobytes()

    def labels(self) -> bytes | Working:
        """The number of each entity's group, little-endian uint16; 65535 where it has none."""
        members = self._members.look()
        return members if isinstance(members, Working) else self._group_of().astype("<u2").tobytes()

    # --- the model itself

    def model(self) -> Model:
        """What the model is and how it was made."""
        f, about = self.factors, self.factors.about
        fit, data = about.get("fit", {}), about.get("data", {})
        return Model(
            self.name,
            str(about.get("model", "Factors")),
            f.link.name,
            f.link.name in ("isotonic", "platt"),
            f.exclusive,
            Sizes(
                len(f.entities),
                len(f.relations),
                f.rank,
                int(f.A.size + f.R.size + f.bias.size),
                self.file_bytes,
                f.A.dtype.name,
            ),
            dict(about.get("settings", {})),
            Fit(
                fit.get("steps"),
                fit.get("seconds"),
                fit.get("converged"),
                str(fit.get("verdict", "")),
                [float(value) for value in fit.get("objectives", [])],
            ),
            data.get("facts"),
            None if self.known is None else Source(self.known_name, len(self.known)),
            None if self.test is None else Source(self.test_name, len(self.test)),
            self.known is not None and can_fold(f),
            can_fold(f),
            self._examples(),
        )

    def quality(self) -> Measured | Working:
        """Figures on the test facts; without any, on the known ones, which the model was learned from."""
        if self.test is None and self.known is None:
            raise MissingError("there are no facts to measure by; start the server with --test DATA or --known DATA")
        found = self._quality.look()
        if isinstance(found, Working):
            return found
        data, name = ("known", self.known_name) if self.test is None else ("test", self.test_name)
        return Measured(data, name, found)

    # --- inside

    def _id(self, name: str) -> int:
        if name not in self.factors.entities:
            raise UnknownError("entity", name, self._entities.close(name))
        return self.factors.entities.id(name)

    def _check(self, subject: str | None, relation: str | None, object: str | None) -> None:
        """Unknown names are told with those that may have been meant; found without comparing with every name."""
        for what, name, names, finder in (
            ("entity", subject, self.factors.entities, self._entities),
            ("relation", relation, self.factors.relations, self._relations),
            ("entity", object, self.factors.entities, self._entities),
        ):
            if name is not None and name not in names:
                raise UnknownError(what, name, finder.close(name))

    def _degree(self, i: int) -> int:
        return 0 if self.known is None else int(self.known.degrees[i])

    def _n_of_relation(self, k: int) -> int:
        return 0 if self.known is None else int(self.known.facts.starts[k + 1] - self.known.facts.starts[k])

    def _examples(self) -> list[str]:
        """Entities to begin with: those with the most facts, or the first."""
        names: Names = self.factors.entities
        if self.known is None or not len(self.known):
            return list(names[:EXAMPLES])
        most = np.argsort(-self.known.degrees, kind="stable")[:EXAMPLES]
        return [names[i] for i in most.tolist()]

    def _rows(self, A: Matrix) -> Matrix:
        """What `similar` compares, of these vectors; in single precision, as there may be millions."""
        T, rows = self._basis.wait(), np.empty(A.shape, np.float32)
        for low in range(0, len(A), ROWS):
            rows[low : low + ROWS] = unit_rows(A[low : low + ROWS], T)
        return rows

    def _grouped(self, progress: Progress) -> list[Ids]:
        progress(0, 0, "comparing entities")
        import sklearn.cluster  # noqa: F401  (loaded, so that its threads can be held)

        B = self._profiles.wait()
        with one_thread():
            return group_members(B, cluster(B, progress=progress))

    def _summed_up(self, progress: Progress) -> list[GroupSummary]:
        found, members = [], self._members.wait()
        for number, one in enumerate(members):
            progress(number, len(members), "looking for what is typical of each group")
            typical = typical_facts(self.factors, one, 5)
            names = [self.factors.entities[i] for i in one[:MEMBERS].tolist()]
            found.append(GroupSummary(number, len(one), names, typical))
        return found

    def _group_of(self) -> NDArray[np.uint16]:
        """The group's number of each entity, (N,)."""
        labels = np.full(len(self.factors.entities), NOBODY, np.uint16)
        for number, members in enumerate(self._members.wait()):
            labels[members] = number
        return labels

    def _tsne(self, progress: Progress) -> Points:
        progress(0, 0, tsne_note(len(self.factors.entities)))
        return project(self._profiles.wait(), "tsne")

    def _measured(self, progress: Progress) -> ModelQuality:
        progress(0, 0, "ranking facts")
        if self.test is not None:
            return quality(self.factors, self.test, self.known, progress=progress)
        assert self.known is not None
        return quality(self.factors, self.known, progress=progress)


def _but(name: str, section: EntitySection, limit: int) -> EntitySection:
    """The section without an entity as an answer about itself, on which folding in says nothing."""
    return section._replace(predicted=[one for one in section.predicted if one.name != name][:limit])


ONLY_RESCAL = "fit one by least squares or the logistic likelihood (--model als or logit)"

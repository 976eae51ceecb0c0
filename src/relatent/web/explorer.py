"""The explorer: one model, its known facts, and the answer to every request of the API, by name."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..analysis.answers import Answers, EntitySection, answers, entity_sections, one_fact
from ..analysis.explain import Explanation, explain, is_of_rules
from ..analysis.quality import ModelQuality, quality
from ..analysis.similarity import nearest
from ..data.facts import Facts
from ..data.review import ReviewFile
from ..errors import UnknownNameError
from ..model.candidates import Candidates
from ..model.entity_regression import can_fold
from ..model.factors import Factors
from ..model.fold_in_defaults import FOLD_IN_OTHERS
from ..model.known_facts import KnownFacts
from ..model.vocabulary import check_shared
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import GIVE_FACTS, NO_FACTS, AmbiguousNameError, NotFoundError, ParameterError, UnavailableError
from .explorer_duplicates import ExplorerDuplicates
from .explorer_map import ExplorerMap
from .explorer_missing import ExplorerMissing
from .name_index import NameIndex
from .response_types import (
    EntityPage,
    FactProbability,
    FactSource,
    FitSummary,
    GroupPage,
    MeasuredQuality,
    ModelInfo,
    ModelSizes,
    NameMatch,
    NamePage,
    NewEntityPage,
    NewFact,
    RelationList,
    RelationSummary,
    ReviewedFact,
    SearchResult,
    SimilarEntities,
)

N_EXAMPLES = 8
N_SIMILAR_TO_NEW = 10
OF_MODEL = "the model"
USE_RESCAL = "fit a model by least squares or the logistic likelihood (--model als or logit)"


class Explorer:
    """A model and its known facts; answers requests from several threads."""

    def __init__(
        self,
        factors: Factors,
        known: Facts | Sequence[Facts] | None = None,
        test: Facts | None = None,
        *,
        name: str = "model",
        known_name: str | None = None,
        test_name: str = "test facts",
        file_bytes: int | None = None,
        review: ReviewFile | None = None,
    ):
        self.further = [known] if isinstance(known, Facts) else list(known or ())
        self.factors, self.asked = factors, factors.asked(self.further)
        if test is not None:
            check_shared(factors.entities, factors.relations, test, "test facts")
        self.test = None if test is None else factors.as_undirected(test).over(factors.entities, factors.relations)
        self.known: KnownFacts | None = self.asked.known if len(self.asked.known) else None
        self.name, self.test_name, self.file_bytes = name, test_name, file_bytes
        self.known_name = known_name or ("known facts" if self.further else OF_MODEL)
        degrees = None if self.known is None else self.known.degrees
        self._entities = NameIndex(factors.entities, degrees)
        self._relations = NameIndex(factors.relations)
        self._labels = {
            "entity": NameIndex(factors.entities.labels.texts, degrees),
            "relation": NameIndex(factors.relations.labels.texts),
        }
        heavy_work = threading.Lock()  # one heavy computation at a time
        self._fold_in_lock = threading.Lock()  # each call copies A
        self.map = ExplorerMap(factors, heavy_work)
        self.missing = ExplorerMissing(factors, self.asked, self.further, review, heavy_work)
        self.duplicates = ExplorerDuplicates(factors, self.asked, self.further, heavy_work)
        self._quality: BackgroundResult[ModelQuality] = BackgroundResult(self._measure, heavy_work)

    # --- names

    def search(self, q: str, k: int = 10, kind: str = "entity") -> SearchResult:
        """Names that contain the text `q`."""
        if kind == "relation":
            ids = self._find(self._relations, q, k, kind)
            return SearchResult(q, [NameMatch(self.factors.relations[i], self._n_facts_of_relation(i)) for i in ids])
        ids = self._find(self._entities, q, k, kind)
        return SearchResult(q, [NameMatch(self.factors.entities[i], self._n_facts(i)) for i in ids])

    def _find(self, index: NameIndex, q: str, k: int, kind: str) -> list[int]:
        """Ids whose label or name contains the text, those with such a label first."""
        return list(dict.fromkeys([*self._labels[kind].find(q, k), *index.find(q, k)]))[:k]

    def relations(self) -> RelationList:
        """All relations."""
        names = enumerate(self.factors.relations)
        return RelationList([RelationSummary(name, self._n_facts_of_relation(i)) for i, name in names])

    def names(self, start: int = 0, count: int = 1000) -> NamePage:
        """Names of entities in order of their ids."""
        return NamePage(start, list(self.factors.entities[start : start + count]))

    # --- entities and questions

    def entity(self, name: str, k: int = 5, sections: int = 24) -> EntityPage:
        """Known and predicted facts of an entity."""
        i = self._id(name)
        found = entity_sections(self.asked, self.factors, i, k=k)
        return EntityPage(self.factors.entities[i], self._n_facts(i), len(found), found[:sections])

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
            raise UnavailableError(NO_FACTS, GIVE_FACTS)
        return answers(
            self.factors, self.asked, subject=subject, relation=relation, object=object, k=k, treat_known=known
        )

    def fact(self, subject: str, relation: str, object: str) -> FactProbability:
        """The probability of one fact, and whether it is known."""
        self._check(subject, relation, object)
        found = one_fact(self.factors, self.asked, subject, relation, object)
        return FactProbability(
            subject, relation, object, found.score, found.probability, found.known, found.rank, found.lift
        )

    def decide(self, subject: str, relation: str, object: str, verdict: str | None) -> ReviewedFact:
        """Write a decision about a fact into the reviewed file."""
        self._check(subject, relation, object)
        entities, relations = self.factors.entities, self.factors.relations  # a label stands for its name
        cell = entities[entities.id(subject)], relations[relations.id(relation)], entities[entities.id(object)]
        return self.missing.decide(*cell, verdict)

    def explain(self, subject: str, relation: str, object: str, k: int = 5) -> Explanation:
        """The observed patterns, known facts and components behind the probability of a fact."""
        self._check(subject, relation, object)
        if self.known is None:
            raise UnavailableError(f"{NO_FACTS}, so there is nothing to explain by", GIVE_FACTS)
        if not self._can_explain:
            raise UnavailableError("this kind of model gives no explanations", USE_RESCAL)
        return explain(self.factors, subject, relation, object, known=self.asked, k=k)

    def similar(self, name: str, k: int = 10) -> SimilarEntities:
        """The entities for which the model predicts most nearly the same facts."""
        i, B = self._id(name), self.map.profiles.wait()
        return SimilarEntities(self.factors.entities[i], nearest(self.factors, B, B[i], k, exclude=i))

    def fold_in(self, name: str, facts: list[NewFact], others: float = FOLD_IN_OTHERS, k: int = 5) -> NewEntityPage:
        """Predicted facts of an entity that is not in the model, from a few facts about it; nothing is stored."""
        with self._fold_in_lock:
            grown, given = self._with_new_entity(name, facts, others)
            sections = entity_sections(self._asked_of(grown, given), grown, name, k=k + 1)
        similar = nearest(self.factors, self.map.profiles.wait(), self.map.rows(grown.A[-1:])[0], N_SIMILAR_TO_NEW)
        return NewEntityPage(name, len(sections), [_without(name, section, k) for section in sections], similar)

    def explain_new(
        self, name: str, facts: list[NewFact], fact: NewFact, others: float = FOLD_IN_OTHERS, k: int = 5
    ) -> Explanation:
        """Why a fact of an entity that is not in the model is likely or unlikely."""
        if self.known is None:
            raise UnavailableError(f"{NO_FACTS}, so there is nothing to explain by", GIVE_FACTS)
        self._check(None, fact.relation, fact.partner)
        with self._fold_in_lock:
            grown, given = self._with_new_entity(name, facts, others)
            return explain(grown, *_cell(name, fact), known=self._asked_of(grown, given), k=k)

    def _asked_of(self, grown: Factors, given: Facts) -> Candidates:
        """The candidates of the model with a new entity, given all that is known."""
        return grown.asked([*self.further, *([given] if grown.facts is None else [])])

    def _with_new_entity(self, name: str, facts: list[NewFact], others: float) -> tuple[Factors, Facts]:
        """The model with a new entity, and the facts about it."""
        if not can_fold(self.factors):
            raise UnavailableError("this kind of model cannot add entities", USE_RESCAL)
        if name in self.factors.entities:
            raise ParameterError(f"the model already has an entity {name!r}", "choose another name")
        for fact in facts:
            self._check(None, fact.relation, fact.partner)
        given = Facts.from_arrays(*map(list, zip(*(_cell(name, fact) for fact in facts), strict=True)))
        return self.factors.fold_in(given, entities=[name], others=others), given

    def group(
        self, number: int | None = None, entity: str | None = None, start: int = 0, count: int = 100
    ) -> GroupPage | InProgress:
        """One group, by its number or by one of its members."""
        if (number is None) == (entity is None):
            raise ParameterError("number and entity are both given or both missing", "give exactly one of them")
        return self.map.group(number, None if entity is None else self._id(entity), start, count)

    # --- the model

    def model(self) -> ModelInfo:
        """What the model is and how it was fitted."""
        f, about = self.factors, self.factors.about
        summary = FitSummary(None, None, None, "", [])
        if fit := about.fit:
            summary = FitSummary(fit.steps, fit.seconds, fit.converged, fit.verdict, list(fit.objectives))
        return ModelInfo(
            name=self.name,
            kind=about.model or "Factors",
            link=f.link.name,
            calibrated=f.calibration is not None,
            has_probabilities=f.has_probabilities,
            probabilities=f.probability_note,
            exclusive=f.exclusive,
            sizes=ModelSizes(
                entities=len(f.entities),
                relations=len(f.relations),
                rank=f.rank,
                parameters=int(f.A.size + f.relation_matrices.parameters.size + f.bias.size),
                bytes=self.file_bytes,
                dtype=f.A.dtype.name,
            ),
            settings=dict(about.settings),
            fit=summary,
            learned_from=None if about.data is None else about.data.facts,
            known=None if self.known is None else FactSource(self.known_name, len(self.known)),
            test=None if self.test is None else FactSource(self.test_name, len(self.test)),
            can_explain=self._can_explain,
            can_fold_in=can_fold(f),
            examples=self._examples(),
        )

    def quality(self) -> MeasuredQuality | InProgress:
        """Metrics on the test facts; without test facts, on the known facts, which the model was fitted to."""
        if self.test is None and self.known is None:
            raise UnavailableError("the server has no facts to measure quality on", "start it with --test DATA")
        measured = self._quality.poll()
        if isinstance(measured, InProgress):
            return measured
        data, name = ("known", self.known_name) if self.test is None else ("test", self.test_name)
        return MeasuredQuality(data, name, measured)

    # --- helpers

    @property
    def _can_explain(self) -> bool:
        return self.known is not None and (can_fold(self.factors) or is_of_rules(self.factors))

    def _id(self, name: str) -> int:
        self._check(name, None, None)
        return self.factors.entities.id(name)

    def _check(self, subject: str | None, relation: str | None, object: str | None) -> None:
        """Refuse unknown names, with similar names from the index: comparing with a million names is slow."""
        for kind, name, names, index in (
            ("entity", subject, self.factors.entities, self._entities),
            ("relation", relation, self.factors.relations, self._relations),
            ("entity", object, self.factors.entities, self._entities),
        ):
            if name is None or name in names:
                continue
            try:
                names.id(name)  # a label
            except UnknownNameError:
                if same_label := [names[i] for i in names.labels.ids(name)]:
                    raise AmbiguousNameError(kind, name, same_label) from None
                raise NotFoundError(kind, name, index.close(name)) from None

    def _n_facts(self, entity: int) -> int:
        return 0 if self.known is None else int(self.known.degrees[entity])

    def _n_facts_of_relation(self, relation: int) -> int:
        if self.known is None:
            return 0
        starts = self.known.facts.starts
        return int(starts[relation + 1] - starts[relation])

    def _examples(self) -> list[str]:
        """Entities to start with: those with the most known facts, or the first."""
        names = self.factors.entities
        if self.known is None:
            return list(names[:N_EXAMPLES])
        by_degree = np.argsort(-self.known.degrees, kind="stable")[:N_EXAMPLES]
        return [names[i] for i in by_degree.tolist()]

    def _measure(self, progress: Progress) -> ModelQuality:
        progress(0, 0, "ranking facts")
        if self.test is not None:
            return quality(self.factors, self.test, self.asked, progress=progress)
        assert self.known is not None
        return quality(self.factors, self.known.facts, self.asked, progress=progress)


def _without(name: str, section: EntitySection, k: int) -> EntitySection:
    """The section without the new entity as an answer about itself: folding in does not model such facts."""
    return section._replace(predicted=[answer for answer in section.predicted if answer.name != name][:k])


def _cell(name: str, fact: NewFact) -> tuple[str, str, str]:
    """The fact of a new entity as subject, relation and object."""
    return (name, fact.relation, fact.partner) if fact.role == "subject" else (fact.partner, fact.relation, name)

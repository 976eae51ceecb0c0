"""Triples with a literal as object: labels of entities and relations, attributes of entities if asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..attribute_table import AttributeTable
from ..facts import Facts
from ..labels import Labels
from ..names import Names
from .reading import N_SHOWN_ROWS, Reading
from .roles import QUESTION, Roles
from .table import Table

LABEL_RELATIONS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")

MAX_SHOWN_RELATIONS = 10


class Literals:
    """The labels found so far, one per name: in the preferred language, else without a language, else in English.

    With `attributes` all other literals are kept too, as values of their subjects, except those in other languages.
    """

    def __init__(self, language: str | None = None, *, attributes: bool = False):
        self.language = (language or default_language()).lower()
        self.prefixes: Mapping[str, str] = {}
        self.attributes = attributes
        self.clear()

    def clear(self) -> None:
        """Forget all literals."""
        self.n_labels = 0  # triples that are labels, used or not
        self.counts: Counter[str] = Counter()  # literals that are no labels, by relation
        self.values: list[tuple[str, str, str]] = []  # subject, relation, text
        self._found: dict[str, tuple[int, str]] = {}

    def wants(self, relation: str, count: int = 1) -> bool:
        """Whether the literals of a relation are to be added; counts those that are no labels."""
        if relation in LABEL_RELATIONS:
            return True
        self.counts[relation] += count
        return self.attributes

    def add(self, subject: str, relation: str, text: str, language: str | None) -> None:
        """Add a value, or a label of a name; among equally good labels the first stays."""
        if relation not in LABEL_RELATIONS:
            if self._rank(language) < 2:
                self.values.append((subject, relation, text))
            return
        self.n_labels += 1
        rank = self._rank(language)
        if text and (subject not in self._found or rank < self._found[subject][0]):
            self._found[subject] = (rank, text)

    def _rank(self, language: str | None) -> int:
        if not language:
            return 1
        given = language.lower().split("-")[0]
        return 0 if given == self.language.split("-")[0] else 2 if given == "en" else 3

    @property
    def labels(self) -> dict[str, str]:
        """The labels by name."""
        return {name: text for name, (_, text) in self._found.items()}

    def table(self, table: Table, reading: Reading) -> Table:
        """The table of the triples between entities, whose facts get these labels, prefixes and attributes."""
        table.roles = Roles(QUESTION, (0, 1, 2))
        table.finish = lambda facts: self.attached_to(facts, reading)
        table.why_empty = self.why_empty
        return table

    def why_empty(self) -> str:
        """Why there are no facts."""
        n_literals = self.n_labels + self.counts.total()
        return f"; every object is a literal (triples: {n_literals})" if n_literals else ""

    def attached_to(self, facts: Facts, reading: Reading) -> Facts:
        """The facts with these labels, prefixes and attributes; notes which literals there are, and were left out."""
        if self.counts:
            shown = ", ".join(f"{relation} ({n:,})" for relation, n in self.counts.most_common(MAX_SHOWN_RELATIONS))
            n_more = len(self.counts) - MAX_SHOWN_RELATIONS
            reading.understood["literals"] = shown + (f" and {n_more} more relations" if n_more > 0 else "")
        if (n_literals := self.counts.total()) and not reading.attributes:
            reading.notes.append(
                f"left out {n_literals} facts whose object is a literal; objects must be entities, and attributes=True "
                "makes literals attributes of their subjects"
            )
        if self.n_labels:
            reading.understood["labels"] = f"{self.n_labels:,} triples ({self.language} preferred); not facts"
        reading.understood["first_rows"] = [list(fact) for fact in facts.named(facts.triples[:N_SHOWN_ROWS])]
        labels = self.labels
        entities, relations = (self._attached(names, labels) for names in (facts.entities, facts.relations))
        facts = replace(facts, entities=entities, relations=relations)
        return facts.with_attributes(AttributeTable.of_rows(self.values)) if self.attributes else facts

    def _attached(self, names: Names, labels: Mapping[str, str]) -> Names:
        known = names.with_labels(Labels((), dict(self.prefixes)))
        return known.with_labels(labels) if labels else known


def default_language() -> str:
    """The language of the environment, such as "de" for LANG=de_DE.UTF-8; English if it names none."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        found = os.environ.get(variable, "").partition(".")[0].partition("_")[0]
        if len(found) in (2, 3) and found.isalpha():
            return found.lower()
    return "en"

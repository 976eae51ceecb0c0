"""Triples with a literal as object: labels of entities and relations are kept, the others counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ..facts import Facts
from ..labels import Labels
from ..names import Names

LABEL_RELATIONS = ("http://www.w3.org/2000/01/rdf-schema#label", "http://www.w3.org/2004/02/skos/core#prefLabel")


class Literals:
    """The labels found so far, one per name: in the preferred language, else without a language, else in English."""

    def __init__(self, language: str | None = None):
        self.language = (language or default_language()).lower()
        self.prefixes: Mapping[str, str] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the labels."""
        self.n_labels = 0  # triples that are labels, used or not
        self._found: dict[str, tuple[int, str]] = {}

    def wants(self, relation: str) -> bool:
        """Whether the literals of a relation are labels."""
        return relation in LABEL_RELATIONS

    def add(self, subject: str, text: str, language: str | None) -> None:
        """Add a label of a name; among equally good ones the first stays."""
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

    def attached_to(self, facts: Facts) -> Facts:
        """The facts with these labels and prefixes."""
        labels = self.labels
        entities, relations = (self._attached(names, labels) for names in (facts.entities, facts.relations))
        return replace(facts, entities=entities, relations=relations)

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

"""Labels: display names of entities, relations and types, and short forms of IRIs where there is no label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

WELL_KNOWN_PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dct": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "dbo": "http://dbpedia.org/ontology/",
    "dbp": "http://dbpedia.org/property/",
    "dbr": "http://dbpedia.org/resource/",
    "yago": "http://yago-knowledge.org/resource/",
}


@dataclass(frozen=True, eq=False)
class Labels:
    """One label per name, in the order of the names; an empty text is no label. Two names may have the same label.

    >>> labels = Labels(["Ann", ""], {"ex": "http://example.org/"})
    >>> labels.of(0, "Q1"), labels.of(1, "http://example.org/Bob"), labels.of(1, "Q2")
    ('Ann', 'ex:Bob', None)
    """

    texts: Sequence[str] = ()  # none, or one per name
    prefixes: Mapping[str, str] = field(default_factory=dict)  # beside the well-known ones: prefix → IRI

    def of(self, i: int, name: str) -> str | None:
        """The label of a name, or its short form if it is an IRI with a known prefix; None if there is neither."""
        if i < len(self.texts) and self.texts[i]:
            return self.texts[i]
        return self._shortened(name) if "://" in name or name.startswith("urn:") else None

    def ids(self, label: str) -> list[int]:
        """The ids of the names with this label."""
        return self._ids_by_label.get(label, [])

    @cached_property
    def _ids_by_label(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, text in enumerate(self.texts):
            if text:
                found.setdefault(text, []).append(i)
        return found

    def expanded(self, short: str) -> str | None:
        """The IRI of a short form such as rdf:type; None if its prefix is not known."""
        prefix, colon, local = short.partition(":")
        start = self.prefixes.get(prefix) or WELL_KNOWN_PREFIXES.get(prefix)
        return start + local if start and colon else None

    def _shortened(self, iri: str) -> str | None:
        cut = max(iri.rfind("#"), iri.rfind("/"), iri.rfind(":")) + 1
        prefix = self._prefix_of.get(iri[:cut])
        return None if prefix is None or cut == len(iri) else f"{prefix}:{iri[cut:]}"

    @cached_property
    def _prefix_of(self) -> dict[str, str]:
        known = {**WELL_KNOWN_PREFIXES, **self.prefixes}
        return {iri: prefix for prefix, iri in known.items()}


NO_LABELS = Labels()

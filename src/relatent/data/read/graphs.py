"""Facts from graphs: networkx (and the files it reads) and rdflib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import DataError, one_line
from ..facts import Facts
from .columns import EDGE_RELATION, RELATION_NAMES
from .file_content import File
from .rdf_literals import Literals
from .reading import Reading
from .rows import facts_from_rows
from .stream_guards import BoundedRuns, BoundedXml

WEIGHT_ATTRIBUTE = "weight"


def read_graph_file(file: File, reading: Reading) -> Facts:
    """Facts of a GraphML, GEXF or GML file."""
    try:
        import networkx
    except ImportError:
        raise DataError(f"{file.path}: {file.format} files need networkx: pip install 'relatent[graphs]'") from None
    try:
        with file.open() as stream:
            where = str(file.path)
            bounded = BoundedRuns(stream, where, b"\n") if file.format == "gml" else BoundedXml(stream, where)
            graph = getattr(networkx, f"read_{file.format}")(bounded)
    except (DataError, MemoryError, OSError):
        raise
    except Exception as problem:  # the parsers raise errors of many kinds
        raise DataError(f"{file.path}: is not valid {file.format}: {one_line(problem)}") from None
    return read_networkx(graph, reading, str(file.path))


def read_networkx(graph: Any, reading: Reading, where: str = "graph") -> Facts:
    """Facts of a networkx graph, whose relations are undirected if its edges are.

    The relation is an edge attribute (relation, type, label, …) that every edge has, or the key of a multigraph if
    all keys are strings; without one, that of edge lists. The attribute `weight` is the weight.
    """
    names = {node: str(node) for node in graph}
    if len(set(names.values())) < len(names):
        raise DataError(f"{where}: two nodes have the same name, such as 1 and '1'; relabel one of them")
    attribute = None if reading.relation is not None else _relation_attribute(graph)
    weighted = any(WEIGHT_ATTRIBUTE in data for _, _, data in graph.edges(data=True))
    relation = reading.relation or EDGE_RELATION
    with_keys = attribute is None and reading.relation is None and _has_named_keys(graph)

    def rows() -> Iterator[tuple[Any, ...]]:
        for u, v, *key, data in graph.edges(data=True, **({"keys": True} if graph.is_multigraph() else {})):
            kind = key[0] if with_keys else relation if attribute is None else str(data[attribute])
            weight = (data.get(WEIGHT_ATTRIBUTE, 1.0),) if weighted else ()
            yield (names[u], kind, names[v], *weight)

    if n_isolated := sum(1 for _, degree in graph.degree() if degree == 0):
        reading.notes.append(f"left out {n_isolated:,} nodes without edges")
    chosen = Reading(columns={"subject": 0, "relation": 1, "object": 2} | ({"weight": 3} if weighted else {}))
    chosen.strip, chosen.report = reading.strip, reading.report
    facts = facts_from_rows(rows(), chosen, where).with_undirected(not graph.is_directed())
    source = (
        "edge keys" if with_keys else f"edge attribute {attribute!r}" if attribute else f"{relation!r}, for every edge"
    )
    reading.understood |= {
        "format": f"{'' if graph.is_directed() else 'un'}directed graph",
        "relation": source,
        "first_rows": chosen.understood["first_rows"],
    } | ({"weight": "edge attribute 'weight'"} if weighted else {})
    reading.n_stripped += chosen.n_stripped
    return facts


def _relation_attribute(graph: Any) -> str | None:
    """The attribute that holds the relation of every edge."""
    shared: set[str] | None = None
    for _, _, data in graph.edges(data=True):
        present = {name for name in data if isinstance(name, str) and name.lower() in RELATION_NAMES}
        shared = present if shared is None else shared & present
        if not shared:
            return None
    if shared and len(shared) > 1:
        raise DataError(
            f"edge attributes {' and '.join(map(repr, sorted(shared)))} may hold the relation; remove one, or name one "
            "relation for all edges with relation="
        )
    return next(iter(shared)) if shared else None


def _has_named_keys(graph: Any) -> bool:
    return graph.is_multigraph() and all(isinstance(key, str) for _, _, key in graph.edges(keys=True))


def read_rdflib(graph: Any, reading: Reading) -> Facts:
    """Facts of an rdflib graph or data set; literals are labels, attributes if asked for, or left out."""
    from rdflib import BNode, Literal, URIRef

    n_literals, literals = 0, Literals(reading.language, attributes=reading.attributes)

    def name(term: Any) -> str:
        if not isinstance(term, (BNode, URIRef)):
            raise DataError(f"graph: entities must be IRIs or blank nodes, got {term!r:.100}")
        return f"_:{term}" if isinstance(term, BNode) else str(term)

    def rows() -> Iterator[tuple[str, str, str]]:
        nonlocal n_literals
        for s, p, o, *_ in graph.quads() if hasattr(graph, "quads") else graph:
            if isinstance(o, Literal):
                n_literals += 1
                if literals.wants(str(p)):
                    literals.add(name(s), str(p), str(o), o.language)
            else:
                yield name(s), name(p), name(o)

    chosen = Reading(columns={"subject": 0, "relation": 1, "object": 2}, strip=False, report=reading.report)
    facts = facts_from_rows(rows(), chosen, "graph")
    reading.understood |= {"format": "RDF graph", "first_rows": chosen.understood["first_rows"]}
    literals.describe(reading, n_literals - literals.n_labels)
    return literals.attached_to(facts)

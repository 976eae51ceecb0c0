"""Tables from graphs: networkx (and the files it reads) and rdflib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import DataError, one_line
from .files import File
from .guards import BoundedLines, BoundedXml
from .rdf import Literals
from .reading import Reading
from .roles import EDGE_RELATION, FACTS, QUESTION, SYNONYMS, Roles
from .table import Table, in_blocks, read_rows

WEIGHT_ATTRIBUTE = "weight"


def read_graph_file(file: File, reading: Reading) -> Table:
    """The edges in a GraphML, GEXF or GML file."""
    try:
        import networkx
    except ImportError:
        raise DataError(f"{file.path}: {file.format} files need networkx: pip install 'relatent[graphs]'") from None
    try:
        with file.open() as stream:
            where = str(file.path)
            bounded = BoundedLines(stream, where) if file.format == "gml" else BoundedXml(stream, where)
            graph = getattr(networkx, f"read_{file.format}")(bounded.read_all())
    except (DataError, MemoryError, OSError):
        raise
    except Exception as problem:  # the parsers raise errors of many kinds
        raise DataError(f"{file.path}: is not valid {file.format}: {one_line(problem)}") from None
    return read_networkx(graph, reading, str(file.path))


def read_networkx(graph: Any, reading: Reading, where: str = "graph") -> Table:
    """The edges of a networkx graph, whose relations are undirected if its edges are.

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
    source = (
        "edge keys" if with_keys else f"edge attribute {attribute!r}" if attribute else f"{relation!r}, for every edge"
    )
    reading.understood |= {"format": f"{'' if graph.is_directed() else 'un'}directed graph"}
    table = read_rows(lambda: in_blocks(rows()), reading, where)
    table.understood = {"relation": source} | ({"weight": "edge attribute 'weight'"} if weighted else {})
    roles = FACTS if weighted else QUESTION
    table.roles = Roles(roles, tuple(range(len(roles))))
    table.finish = lambda facts: facts.with_undirected(not graph.is_directed())
    return table


def _relation_attribute(graph: Any) -> str | None:
    """The attribute that holds the relation of every edge."""
    shared: set[str] | None = None
    for _, _, data in graph.edges(data=True):
        present = {name for name in data if isinstance(name, str) and name.lower() in SYNONYMS["relation"]}
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


def read_rdflib(graph: Any, reading: Reading) -> Table:
    """The triples of an rdflib graph or data set; literals are labels, attributes if asked for, or left out."""
    from rdflib import BNode, Literal, URIRef

    literals = Literals(reading.language, attributes=reading.attributes)

    def name(term: Any) -> str:
        if not isinstance(term, (BNode, URIRef)):
            raise DataError(f"graph: entities must be IRIs or blank nodes, got {term!r:.100}")
        return f"_:{term}" if isinstance(term, BNode) else str(term)

    def rows() -> Iterator[tuple[str, str, str]]:
        for s, p, o, *_ in graph.quads() if hasattr(graph, "quads") else graph:
            if isinstance(o, Literal):
                if literals.wants(str(p)):
                    literals.add(name(s), str(p), str(o), o.language)
            else:
                yield name(s), name(p), name(o)

    reading.understood["format"] = "RDF graph"
    return literals.table(read_rows(lambda: in_blocks(rows()), reading, "graph"), reading)

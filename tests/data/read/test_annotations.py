"""Types and labels beside facts: files of several formats, RDF triples, inference, and bad input."""

import json

import pytest

import relatent
from relatent.errors import DataError

ROWS = [("Q1", "P1", "Q3"), ("Q2", "P1", "Q3"), ("Q2", "P2", "Q1")]
TURTLE = """@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:ann a ex:Person ; rdfs:label "Ann"@en, "Anna"@de ; ex:knows ex:bob ; ex:age 7 .
ex:bob rdfs:label "Robert" , "Bob"@fr . ex:knows rdfs:label "knows"@en .
ex:cy rdfs:label "C\\u00e9"@it ; ex:knows ex:ann .
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "Q1,person\nQ2,person\nQ2,poet\nQ3,city\n"),
        ("t.csv", "id,type\nQ1,person\nQ2,person\nQ2,poet\nQ3,city\n"),
        ("t.csv", "name,id,class\nAnn,Q1,person\nBob,Q2,person\nBob,Q2,poet\nUlm,Q3,city\n"),
        ("t.tsv", "Q1\tperson\nQ2\tperson\nQ2\tpoet\n\nQ3\tcity\n"),
        ("t.json", json.dumps({"Q1": "person", "Q2": ["person", "poet"], "Q3": {"type": "city"}, "Q8": None})),
    ],
)
def test_types_from_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    types = relatent.read(ROWS, types=tmp_path / name).types
    assert list(types.names) == ["city", "person", "poet"]
    assert types.members.toarray().tolist() == [[False, True, False], [False, True, True], [True, False, False]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.csv", 'id,label\nQ1,"Ann, A."\nP1,lives in\n'),
        ("l.tsv", "Q1\tAnn, A.\nP1\tlives in\n"),
        ("l.json", json.dumps({"Q1": "Ann, A.", "P1": {"label": "lives in", "description": "…"}})),
    ],
)
def test_labels_from_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    facts = relatent.read(ROWS, labels=tmp_path / name)
    assert [facts.entities.shown(i) for i in range(3)] == ["Ann, A.", "Q2", "Q3"]
    assert [facts.relations.shown(i) for i in range(2)] == ["lives in", "P2"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "a,b,c\n", "t.csv:1: expected two columns, id and type, got 3"),
        ("t.csv", "", "contains no rows"),
        ("t.csv", "Q7,city\n", "no type is of an entity of the facts; the first entity with a type is 'Q7'"),
        ("t.json", "[1]", "a row must be a tuple .* or a dict, got 1"),
        ("t.json", '{"Q1": 3}', "the type of 'Q1' must be text, got 3"),
        ("t.json", "{", "is not valid JSON"),
        ("t.parquet", "x", "is not a valid Parquet file"),
        ("t.ttl", "<x:a> <x:b> <x:c> .", "contains no types"),
    ],
)
def test_a_bad_types_file_is_one_clear_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        relatent.read(ROWS, types=tmp_path / name)
    assert "\n" not in str(caught.value)


def test_labels_of_other_names_are_refused():
    with pytest.raises(DataError, match="no label is of a name of the facts; the first name is 'Q7'"):
        relatent.read(ROWS, labels={"Q7": "x"})


def test_roles_as_types_lose_no_fact_and_narrow_the_candidates():
    facts = relatent.read(ROWS, types="infer")
    assert "subject of P1" in facts.types.names
    assert facts.types.n_typed == 3
    assert relatent.read(facts, types="none").types is None


@pytest.fixture(params=["ttl", "nt"])
def rdf(request, tmp_path):
    """The same graph as Turtle and, by the scanner, as N-Triples."""
    import pyoxigraph

    path = tmp_path / f"g.{request.param}"
    if request.param == "ttl":
        path.write_text(TURTLE, encoding="utf-8")
    else:
        quads = pyoxigraph.parse(TURTLE.encode(), format=pyoxigraph.RdfFormat.TURTLE)
        pyoxigraph.serialize((quad.triple for quad in quads), str(path), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return path


@pytest.mark.parametrize(
    ("language", "labels"),
    [("en", ["Ann", "Robert", "Cé"]), ("de", ["Anna", "Robert", "Cé"]), ("fr", ["Ann", "Bob", "Cé"])],
)
def test_rdf_labels_are_labels_and_rdf_types_are_types_and_facts(rdf, language, labels):
    with pytest.warns(relatent.DataWarning, match="left out 1 facts whose object is a literal"):
        facts = relatent.read(rdf, language=language)
    assert len(facts) == 3
    names = [f"http://example.org/{name}" for name in ("ann", "bob", "cy")]
    assert [facts.entities.shown(facts.entities.id(name)) for name in names] == labels
    assert facts.relations.id("knows") == facts.relations.id("http://example.org/knows")
    assert list(facts.types.names) == ["http://example.org/Person", "http://www.w3.org/2000/01/rdf-schema#Class"]
    assert facts.relations.id("rdf:type") >= 0


def test_labels_and_types_of_a_separate_rdf_file(rdf):
    rows = [("http://example.org/ann", "likes", "http://example.org/bob")]
    facts = relatent.read(rows, labels=rdf, types=rdf, language="en")
    assert [facts.entities.shown(i) for i in range(2)] == ["Ann", "Robert"]
    assert facts.types.n_typed == 1


def test_the_language_is_that_of_the_environment(monkeypatch):
    from relatent.data.read.rdf import default_language

    for variable in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LANG", "de_AT.UTF-8")
    assert default_language() == "de"
    monkeypatch.setenv("LANG", "C.UTF-8")
    assert default_language() == "en"

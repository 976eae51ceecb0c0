"""Attributes from literals of RDF, from further columns of tables, and from files and tables of their own."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import relatent
from relatent import DataError, DataWarning

TURTLE = """@prefix : <http://x/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:a :knows :b ; :age 30 ; :born "1990-05-01"^^xsd:date ; :about "likes chess"@en, "mag Film"@de ; rdfs:label "A" .
:b :knows :c ; :age 40 ; :about "likes film" .
:c :knows :a ; :age 50 ; :born "1970-01-01"^^xsd:date ; :about "chess and \\"film\\"" .
"""
NTRIPLES = "".join(
    f"<http://x/{s}> <http://x/{p}> {o} .\n"
    for s, p, o in [
        ("a", "knows", "<http://x/b>"), ("b", "knows", "<http://x/c>"), ("c", "knows", "<http://x/a>"),
        ("a", "age", '"30"'), ("b", "age", '"40"'), ("c", "age", '"50"'), ("a", "about", '"likes chess"@en'),
        ("a", "about", '"mag Film"@de'), ("b", "about", '"likes film"'), ("c", "about", r'"chess and \"film\""'),
        ("a", "born", '"1990-05-01"'), ("c", "born", '"1970-01-01"'),
    ]
)  # fmt: skip
ROWS = [("a", "r", "b"), ("b", "r", "c")]
WANTED = {"a": {"age": 3, "job": "poet and cook"}, "b": {"age": 4, "job": "cook"}, "c": {"job": "poet"}}


@pytest.mark.parametrize(("name", "text"), [("f.ttl", TURTLE), ("f.nt", NTRIPLES)])
def test_literals_are_attributes_of_their_subjects(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    facts = relatent.read(tmp_path / name, attributes=True, language="en")
    assert len(facts) == 3
    columns = facts.attribute_table.columns(facts.entities)
    assert [(c.name.removeprefix("http://x/"), c.kind, c.width) for c in columns] == [
        ("about", "words", 3), ("age", "number", 3), ("born", "date", 2)
    ]  # fmt: skip
    expected = [[1, 0, 1, 1, 0, 0, 0, 1], [0, 1, 1, 0, 1, 0, np.nan, np.nan], [1, 1, 0, 0, 0, 1, 1, 0]]
    np.testing.assert_array_equal(facts.attributes, expected)


def test_without_the_option_literals_are_left_out_and_the_message_names_it(tmp_path):
    (tmp_path / "f.ttl").write_text(TURTLE)
    with pytest.warns(DataWarning, match="left out 9 facts whose object is a literal.* attributes=True makes"):
        facts = relatent.read(tmp_path / "f.ttl")
    assert facts.attributes is None


def test_several_files_share_their_bins(tmp_path):
    for number, (person, age) in enumerate([("a", 1), ("b", 2), ("c", 3)]):
        (tmp_path / f"{number}.ttl").write_text(f"@prefix : <x:> .\n:{person} :likes :d ; :age {age} .\n")
    with pytest.warns(DataWarning, match="whose values differ"):  # in one file alone they do not
        facts = relatent.read(str(tmp_path / "*.ttl"), attributes=True)
    np.testing.assert_array_equal(facts.attributes[:3], np.eye(3))
    assert np.isnan(facts.attributes[3]).all()


def test_columns_without_a_role_are_attributes_of_the_subject(tmp_path):
    table = pd.DataFrame(
        {"subject": ["a", "a", "b"], "relation": "r", "object": ["b", "c", "c"], "age": [1, 1, 2], "weight": 0.5}
    )
    table.to_csv(tmp_path / "f.csv", index=False)
    table.to_parquet(tmp_path / "f.parquet")
    for source in (table, tmp_path / "f.csv", tmp_path / "f.parquet"):
        facts = relatent.read(source, attributes=True)
        assert list(facts.attribute_table.values) == ["age"]
        np.testing.assert_array_equal(facts.attributes, [[1, 0], [0, 1], [np.nan, np.nan]])


def write(path):
    table = pd.DataFrame([{"entity": name, **values} for name, values in WANTED.items()])
    if path.suffix == ".parquet":
        pq.write_table(__import__("pyarrow").Table.from_pandas(table), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(WANTED))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": name, **values}) + "\n" for name, values in WANTED.items()))
    elif path.suffix == ".ttl":
        lines = [f'<{s}> <{p}> "{o}" .\n' for s, values in WANTED.items() for p, o in values.items()]
        path.write_text("".join(line.replace("<", "<x:") for line in lines))
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.json", "a.jsonl", "a.ttl"])
def test_a_file_of_attributes(tmp_path, name):
    prefix = "x:" if name == "a.ttl" else ""
    rows = [tuple(prefix + part for part in row) for row in ROWS]
    facts = relatent.read(rows, attributes=write(tmp_path / name))
    expected = relatent.read(ROWS, attributes=WANTED).attributes
    np.testing.assert_array_equal(facts.attributes, expected)
    np.testing.assert_array_equal(expected, [[1, 0, 1, 1], [0, 1, 1, 0], [np.nan, np.nan, 0, 1]])


def test_a_table_of_attributes():
    table = pd.DataFrame({"id": ["a", "b"], "age": [3, 4]})
    np.testing.assert_array_equal(relatent.read(ROWS, attributes=table).attributes[:2], np.eye(2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("entity,age\nx,1\ny,2\n", "no attribute is of an entity of the facts; the first entity with a value is 'x'"),
        ("entity,age\na,1\nb,1\n", r"the values of the attributes \(age\) do not differ"),
        ("entity,age\na,1,2\n", "a.csv:2: expected 2 comma-separated fields, got 3"),
        ("entity,age\n,1\n", "a.csv:2: has no entity in column 'entity'"),
        ("a\nb\n", "expected a header with different names of columns"),
    ],
)
def test_faults_of_a_file(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        relatent.read(ROWS, attributes=tmp_path / "a.csv")


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "a.graphml").write_text("<graphml/>")
    with pytest.raises(DataError, match=r"must be a table .* or RDF, not graphml"):
        relatent.read(ROWS, attributes=tmp_path / "a.graphml")


def test_labels_and_short_names_stand_for_entities_in_a_table_of_attributes():
    facts = [("http://schema.org/a", "likes", "Q2"), ("Q2", "likes", "Q3"), ("Q3", "likes", "Q4")]
    ages = {"schema:a": {"age": 1}, "Bob": {"age": 2}, "Cid": {"age": 3}}
    labels = {"Q2": "Bob", "Q3": "Cid", "Q4": "Cid"}
    with pytest.warns(DataWarning, match="1 of 4 entities with attributes have no facts"):
        found = relatent.read(facts, labels=labels, attributes={**ages, "Q4": {"age": 9}})
    assert found.attribute_table is not None
    assert found.attribute_table.entities == {"http://schema.org/a", "Q2", "Cid", "Q4"}  # two are called Cid


def test_a_label_in_the_attributes_of_a_newcomer_is_no_new_entity():
    facts = relatent.read(
        [("Q1", "likes", "Q2"), ("Q2", "likes", "Q3")],
        labels={"Q1": "Ann"},
        attributes={"Q1": {"age": 1}, "Q2": {"age": 5}},
    )
    model = relatent.RescalALS(rank=2).fit(facts).factors_
    larger = model.fold_in(facts, attributes={"Ann": {"age": 1}, "Eve": {"age": 2}})
    assert list(larger.entities) == ["Q1", "Q2", "Q3", "Eve"]


def test_entities_with_literals_and_no_facts_are_counted(tmp_path):
    path = tmp_path / "f.nt"
    ages = "".join(f'<x:{name}> <x:age> "{20 + 7 * i}" .\n' for i, name in enumerate("abcd"))
    path.write_text("<x:a> <x:likes> <x:b> .\n<x:b> <x:likes> <x:a> .\n" + ages)
    with pytest.warns(DataWarning, match="2 of 4 entities with attributes have no facts"):
        relatent.read(path, attributes=True)

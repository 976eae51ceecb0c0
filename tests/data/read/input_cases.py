"""Inputs as people have them, and what relatent makes of each: the table of docs/inputs.md and its test.

`python tests/data/read/input_cases.py` writes the table into the page.
"""

import bz2
import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

FACTS = [("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Cid", "knows", "Ann"), ("Ann", "knows", "Cid")]
MORE_FACTS = [
    (s, r, o) for r in ("likes", "knows", "meets") for s in ("Ann", "Bob", "Cid") for o in ("Dan", "Eve", "Fay")
]
EDGES = [("Ann", "Bob"), ("Bob", "Cid"), ("Cid", "Ann")]
PAGE = Path(__file__).parents[3] / "docs" / "inputs.md"
START, END = "<!-- cases -->", "<!-- end of cases -->"


class Case(NamedTuple):
    """One input, and what is expected of it."""

    title: str  # of the input, in the table
    make: Callable[[], Any]  # writes a file into the working folder, or makes an object; returns what to read
    result: str  # in the table
    facts: list[tuple[str, ...]] | None = None  # None if it is refused
    message: str = ""  # of the error, or of the warning
    options: dict[str, Any] = {}  # noqa: RUF012
    weights: list[float] | None = None


def file(name: str, content: str | bytes) -> Callable[[], str]:
    def write() -> str:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


def rows(facts: list[tuple[str, ...]], sep: str = ",", header: str = "") -> str:
    return (header + "\n" if header else "") + "".join(sep.join(map(str, fact)) + "\n" for fact in facts)


def edges(relation: str = "linked") -> list[tuple[str, str, str]]:
    return [(s, relation, o) for s, o in EDGES]


def weighted(*weights: float | str) -> list[tuple[str, str, str]]:
    return [(s, o, str(weight)) for (s, o), weight in zip(EDGES, weights, strict=True)]


def iri(facts: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(f"http://x/{part}" for part in fact) for fact in facts]


def parquet(names: list[str], columns: list[list[Any]]) -> Callable[[], str]:
    def write() -> str:
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), "facts.parquet")
        return "facts.parquet"

    return write


def archive(members: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue()


def database(url: str, *tables: str) -> Callable[[], str]:
    def write() -> str:
        connection = sqlite3.connect("facts.db")
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (subject TEXT, relation TEXT, object TEXT)")
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", FACTS)
        connection.commit()
        connection.close()
        return url

    return write


def duckdb_file() -> str:
    import duckdb

    connection = duckdb.connect("facts.duckdb")
    connection.execute("CREATE TABLE facts (subject TEXT, relation TEXT, object TEXT)")
    connection.executemany("INSERT INTO facts VALUES (?, ?, ?)", FACTS)
    connection.close()
    return "duckdb:///facts.duckdb?table=facts"


def pandas_edges() -> Any:
    import networkx
    import pandas as pd

    frame = networkx.to_pandas_edgelist(networkx.DiGraph(EDGES))
    assert isinstance(frame, pd.DataFrame)
    return frame


def networkx_graph(kind: str, **attributes: Any) -> Callable[[], Any]:
    def make() -> Any:
        import networkx

        graph = getattr(networkx, kind)(name="follows")  # which is no relation
        graph.add_edges_from(EDGES, **attributes)
        return graph

    return make


def graph_file(kind: str) -> Callable[[], str]:
    def write() -> str:
        import networkx

        getattr(networkx, f"write_{kind}")(networkx.DiGraph(EDGES), f"follows.{kind}")
        return f"follows.{kind}"

    return write


def rdflib_graph() -> Any:
    import rdflib

    graph = rdflib.Graph()
    for fact in iri(FACTS):
        graph.add(tuple(map(rdflib.URIRef, fact)))
    return graph


def lazy_frame() -> Any:
    import polars as pl

    return pl.LazyFrame(FACTS, schema=["s", "p", "o"], orient="row")


def pandas_frame(names: list[str], data: list[tuple[Any, ...]]) -> Callable[[], Any]:
    def make() -> Any:
        import pandas as pd

        return pd.DataFrame(data, columns=names)

    return make


def numpy_array() -> Any:
    import numpy as np

    return np.array(FACTS)


def matrix() -> Any:
    import scipy.sparse as sp

    return sp.csr_matrix(([1, 1, 1], ([0, 1, 2], [1, 2, 0])))


def several() -> list[str]:
    return [file("likes.tsv", rows(FACTS[:2], "\t"))(), file("knows.tsv", rows(FACTS[2:], "\t"))()]


def pattern() -> str:
    Path("parts").mkdir()
    for number, part in enumerate((FACTS[:2], FACTS[2:])):
        file(f"parts/{number}.csv", rows(part))()
    return "parts/*.csv"


N3 = "".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in iri(FACTS))
TURTLE = "@prefix : <http://x/> .\n" + "".join(f":{s} :{p} :{o} .\n" for s, p, o in FACTS)
XML = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/">'
    + "".join(
        f'<rdf:Description rdf:about="http://x/{s}"><x:{p} rdf:resource="http://x/{o}"/></rdf:Description>'
        for s, p, o in FACTS
    )
    + "</rdf:RDF>"
)
JSON_LD = json.dumps([{"@id": s, p: {"@id": o}} for s, p, o in iri(FACTS)])
DICTS = [dict(zip(("subject", "relation", "object"), fact, strict=True)) for fact in FACTS]
IDS = [("1", "2", "3"), ("3", "2", "4"), ("4", "1", "2"), ("2", "2", "1")]
APOC = '"_id","_labels","name","_start","_end","_type"\n"0",":P","Ann",,,\n"1",":P","Bob",,,\n,,,"0","1","LIKES"\n'

CASES = [
    # text with three columns
    Case("TSV", file("f.tsv", rows(FACTS, "\t")), "facts", FACTS),
    Case("CSV with the usual header", file("f.csv", rows(FACTS, header="head,relation,tail")), "facts", FACTS),
    Case("header in another order, more columns", file("f.csv", "id,object,subject,type\n1,b,a,r\n"), "facts by name",
         [("a", "r", "b")]),
    Case("ids only: `1,2,3`", file("f.csv", rows(IDS)), "facts", IDS),
    Case("numbers as objects: `u1,likes,5`", file("f.csv", rows([(f"u{i}", "likes", str(i % 3)) for i in range(30)])),
         "facts", [(f"u{i}", "likes", str(i % 3)) for i in range(30)]),
    Case("measures as objects: `a,height,1.8`", file("f.csv", "a,height,1.8\nb,height,1.7\nc,width,2.5\n"), "facts",
         [("a", "height", "1.8"), ("b", "height", "1.7"), ("c", "width", "2.5")]),
    Case("header with unusual names", file("f.csv", rows(MORE_FACTS, header="who,does,whom")), "facts, with a warning",
         MORE_FACTS, "took the first row .* as column names, because it is the only one of the first 28 rows"),
    Case("the same above few rows", file("f.csv", rows([*FACTS, ("Bob", "knows", "Ann")], header="who,does,whom")),
         "the header is a fact, with a warning", [*FACTS, ("Bob", "knows", "Ann"), ("who", "does", "whom")],
         "the first row .* none of its values occurs again; header=True"),
    Case("the same with `header=True` (`--header`)", file("f.csv", rows(FACTS, header="who,does,whom")), "facts", FACTS,
         options={"header": True}),
    Case("the usual header again in the middle", file("f.csv", "head,relation,tail\na,r,b\nhead,relation,tail\n"),
         "the second one is a fact, with a warning", [("a", "r", "b"), ("head", "relation", "tail")],
         "the names of the columns .* stand in a row, too, which was read as a fact"),
    Case("blanks: `a, likes, b`", file("f.csv", rows(FACTS, ", ")), "names without blanks, with a count", FACTS,
         "removed the blanks around 8 names"),
    Case("the same with `strip=False`", file("f.csv", "a,r, b\n"), "names as they are", [("a", "r", " b")],
         options={"strip": False}),
    Case("semicolons in .csv", file("f.csv", rows(FACTS, ";", "subject;relation;object")), "facts, with a warning",
         FACTS, "read as semicolon-separated"),
    Case("the same with `sep=';'` (`--sep`)", file("f.csv", rows(FACTS, ";")), "facts", FACTS, options={"sep": ";"}),
    Case("semicolons in .csv, commas in names", file("f.csv", rows([(f"{s}, x", r, o) for s, r, o in FACTS], ";")),
         "facts, with a warning", [(f"{s}, x", r, o) for s, r, o in FACTS], "the commas are within fields"),
    Case("spaces in .txt", file("f.txt", rows(FACTS, " ")), "refused, with the option that reads it",
         message=r"got 1; if a space separates them, pass sep=' '"),
    Case("columns chosen by name", file("f.csv", "a,b,c,d\nx,Ann,Bob,likes\n"), "facts", [("Ann", "likes", "Bob")],
         options={"columns": ("b", "d", "c")}),
    Case("columns chosen by position", file("f.csv", "Ann,Bob,likes\n"), "facts", [("Ann", "likes", "Bob")],
         options={"columns": (0, 2, 1)}),
    Case("a column that does not exist", file("f.csv", "a,b,c\nx,y,z\n"), "refused", message="no column 'q'; there are",
         options={"columns": ("a", "q", "c")}),
    Case("subject, object, relation without a header", file("f.csv", rows([(s, o, p) for s, p, o in FACTS])),
         "facts by position, with a warning", [(s, o, p) for s, p, o in FACTS],
         "column 2, read as relations, holds names that column 1 holds"),
    Case("five columns without known names", file("f.csv", "a,b,c,d,e\n"), "refused", message="choose with columns="),
    Case("`subject,relation,object,weight`", file("f.csv", "subject,relation,object,weight\na,r,b,0.5\n"), "weights",
         [("a", "r", "b")], weights=[0.5]),
    Case("a row with too few fields", file("f.csv", rows([*FACTS, ("Ann", "likes")])),
         "refused, with the option that skips it", message=r"f.csv:5: expected 3 .* got 2 .*skip_bad_rows=True"),
    Case("a row with an empty name", file("f.csv", rows([*FACTS, ("Ann", "likes", "")])),
         "refused, with the option that skips it", message=r"f.csv:5: empty object .*skip_bad_rows=True"),
    Case("the same with `skip_bad_rows=True` (`--skip-bad-rows`)", file("f.csv", rows([*FACTS, ("Ann", "likes", "")])),
         "facts, with a count", FACTS, "skipped 1 bad row", options={"skip_bad_rows": True}),
    Case("blank lines", file("f.csv", "\n" + rows(FACTS[:2]) + "  \n" + rows(FACTS[2:]) + "\n\n"), "facts", FACTS),
    Case("`,,` at the end, as spreadsheets write it", file("f.csv", rows(FACTS) + ",,\n,,\n"), "facts, with a count",
         FACTS, "left out 2 rows"),
    Case("`NA` as a name", file("f.csv", rows([*FACTS, ("Ann", "likes", "NA")])), "a name, with a warning",
         [*FACTS, ("Ann", "likes", "NA")], "'NA' in 1 fact: read as a name"),
    # edge lists
    Case("two columns", file("follows.csv", rows(EDGES)), "one relation, `linked`", edges()),
    Case("the same with `relation=` (`--relation`)", file("f.csv", rows(EDGES)), "that relation", edges("cites"),
         options={"relation": "cites"}),
    Case("`source,target`", file("follows.csv", rows(EDGES, header="source,target")), "one relation", edges()),
    Case("`source,target,weight`", file("follows.csv", rows(weighted(1, 0.5, 2), header="source,target,weight")),
         "one relation, weights", edges(), weights=[1, 0.5, 2]),
    Case("`source,target,type`", file("f.csv", "source,target,type\nAnn,Bob,likes\n"), "facts",
         [("Ann", "likes", "Bob")]),
    Case("`source,target,year`", file("f.csv", rows(weighted(1999, 2001, 2003), header="source,target,year")),
         "one relation, weights, with a warning", edges(), "took column 'year' as weights",
         weights=[1999, 2001, 2003]),
    Case('`source,target,hours` with decimal commas: `a,b,"1,5"`',
         file("f.csv", rows(weighted('"1,5"', '"2,0"', '"0,25"'), header="source,target,hours")),
         "one relation, weights, with a warning", edges(), "have decimal commas: '1,5' is 1.5",
         weights=[1.5, 2, 0.25]),
    Case("the same with `1,5` and `2.5`",
         file("f.csv", rows(weighted('"1,5"', "2.5", "3"), header="source,target,hours")),
         "refused", message="decimal commas and others points, such as '2.5' and '1,5'; .*'target'.* leaves"),
    Case("the same with `1,500` only",
         file("f.csv", rows(weighted('"1,500"', '"2,500"', "3"), header="source,target,km")),
         "refused", message="the comma in numbers such as '1,500' may be decimal or separate thousands"),
    Case("`source,target,effort` with units: `1.5 h`",
         file("f.csv", rows(weighted("1.5 h", "2 h", "2 h"), header="source,target,effort")),
         "one relation, the column left out with a warning", edges(),
         "'effort', which holds measures such as '1.5 h'"),
    Case("`source,target,since` with dates",
         file("f.csv", rows(weighted(*["31.12.2024"] * 3), header="source,target,since")),
         "one relation, the column left out with a warning", edges(),
         r"'since', which holds dates .*; columns=\('source', 'since', 'target'\) reads it"),
    Case("`colleague,adviser,day` with dates",
         file("f.csv", rows(weighted("2024-12-31", "2024-12-30 09:30", "2024-12-31"), header="colleague,adviser,day")),
         "one relation, the column left out with warnings", edges(),
         r"took the first row .* column 3 holds dates|'day', which holds dates .*; columns=\(0, 1\) says so"),
    Case("dates as objects: `Ann,born,1961-05-30`", file("f.csv", rows([(s, "born", f"19{i}1-05-30") for i, (s, _)
                                                                        in enumerate(EDGES)])),
         "facts, with a warning", [(s, "born", f"19{i}1-05-30") for i, (s, _) in enumerate(EDGES)],
         r"column 3 holds dates, which are read as entities; columns=\(0, 1\) reads an edge list"),
    Case("`source,target,channel`, blank in many rows",
         file("f.csv", rows(weighted("mail", "", ""), header="source,target,channel")),
         "refused, with the options that read it",
         message=r"blank in 2 of the first 3 rows: columns=\('source', 'target'\) reads .*skip_bad_rows=True"),
    Case("`a,b,0.5` without a header", file("follows.csv", rows(weighted(0.1, 0.5, 2))),
         "one relation, weights, with a warning", edges(), "read as an edge list with weights",
         weights=[0.1, 0.5, 2]),
    Case("the same with `columns=(0, 1, 2)`", file("f.csv", rows(weighted(0.1, 0.5, 2))), "facts",
         weighted(0.1, 0.5, 2), options={"columns": (0, 1, 2)}),
    Case("`user,film,rating`", file("f.csv", rows([("u1", "Up", "3"), ("u2", "Up", "4"), ("u1", "Big", "5")],
                                                   header="user,film,rating")),
         "one relation, weights, with warnings",
         [("u1", "linked", "Up"), ("u2", "linked", "Up"), ("u1", "linked", "Big")],
         "took the first row .* as column names|because column 'rating' holds numbers", weights=[3, 4, 5]),
    Case("SNAP: comments, tabs", file("cites.txt", "# Directed graph\n# From\tTo\n" + rows(EDGES, "\t")),
         "one relation, comments left out", edges()),
    Case(".edgelist of networkx", file("f.edgelist", rows(EDGES, " ")), "one relation", edges()),
    Case("Neo4j: `:START_ID,:END_ID,:TYPE`", file("f.csv", ":START_ID(P),:END_ID(P),:TYPE\nAnn,Bob,likes\n"), "facts",
         [("Ann", "likes", "Bob")]),
    Case("Neo4j: APOC export with nodes", file("f.csv", APOC), "relationships, nodes left out with a warning",
         [("0", "LIKES", "1")], "left out 2 rows that are nodes"),
    # quotes, encodings, packed files
    Case("quoted commas and line breaks", file("f.csv", '"Ann, PhD",likes,"Bob\nB."\n'), "facts",
         [("Ann, PhD", "likes", "Bob\nB.")]),
    Case("a quote that is never closed", file("f.csv", 'Ann,likes,Bob\n"Bob,likes,Cid\nCid,likes,Ann\n'), "refused",
         message="f.csv:2: a quote opens in this line and is never closed"),
    Case("the same in the last column", file("f.csv", 'Ann,likes,"Bob\nBob,likes,Cid\n'), "refused",
         message="f.csv:1: a quote opens in this line and is never closed"),
    Case("text after a closing quote", file("f.csv", 'Ann,likes,"Bob"by\nBob,likes,Cid\n'), "refused",
         message="f.csv:1: has text after a closing quote"),
    Case("a line break in a quoted header", file("f.csv", '"sub\nject",relation,object\nAnn,likes,Bob\n'), "facts",
         [("Ann", "likes", "Bob")], options={"header": True}),
    Case("two byte order marks", file("f.csv", b"\xef\xbb\xbf" * 2 + rows(FACTS).encode()), "facts", FACTS),
    Case("UTF-16 from Excel", file("f.tsv", rows(FACTS, "\t").encode("utf-16")), "facts", FACTS),
    Case("Latin-1", file("f.csv", "Zoë,likes,Bob\n".encode("latin-1")), "refused, with the option that reads it",
         message="is not valid UTF-8; .* encoding='latin-1'"),
    Case("the same with `encoding='latin-1'`", file("f.csv", "Zoë,likes,Bob\n".encode("latin-1")), "facts",
         [("Zoë", "likes", "Bob")], options={"encoding": "latin-1"}),
    Case(".csv.gz", file("f.csv.gz", gzip.compress(rows(FACTS).encode())), "facts", FACTS),
    Case(".tsv.bz2", file("f.tsv.bz2", bz2.compress(rows(FACTS, "\t").encode())), "facts", FACTS),
    Case(".zip with one file", file("f.zip", archive({"facts.csv": rows(FACTS), "__MACOSX/._facts.csv": ""})), "facts",
         FACTS),
    Case(".zip with several files", file("f.zip", archive({"a.csv": "", "b.csv": ""})), "refused",
         message="expected one file of facts in the archive, got a.csv, b.csv"),
    Case("several files", several, "their union", FACTS),
    Case("a pattern: `parts/*.csv`", pattern, "their union", FACTS),
    Case("an unknown extension", file("facts.dat", rows(FACTS)), "refused, with the formats that are read",
         message="unknown file extension; use one of .tsv"),
    Case("the same with `format='csv'`", file("facts.dat", rows(FACTS)), "facts", FACTS, options={"format": "csv"}),
    Case("a spreadsheet: .xlsx, .xls, .ods", file("facts.xlsx", b"PK"), "refused, with what to do",
         message=r"a spreadsheet; save it as CSV, .*relatent.read\(pandas.read_excel\('facts.xlsx'\)\)"),
    Case("an empty file", file("f.csv", ""), "refused", message="contains no facts"),
    # other files
    Case("Parquet", parquet(["s", "p", "o"], [list(column) for column in zip(*FACTS, strict=True)]), "facts", FACTS),
    Case("Parquet, source and target", parquet(["source", "target"], [["a"], ["b"]]), "one relation, `linked`",
         [("a", "linked", "b")]),
    Case("Parquet, bytes that are not UTF-8",
         parquet(["s", "p", "o"], [["a"], ["r"], pa.array([b"\xff"]).view(pa.string())]), "refused",
         message="column 'o': Invalid UTF8"),
    Case("JSON lines, objects", file("f.jsonl", "".join(json.dumps(row) + "\n" for row in DICTS)), "facts", FACTS),
    Case("JSON lines, lists", file("f.jsonl", "".join(json.dumps(row) + "\n" for row in FACTS)), "facts", FACTS),
    Case("JSON lines, lists of two", file("f.jsonl", "".join(json.dumps(row) + "\n" for row in EDGES)),
         "one relation, `linked`", edges()),
    Case("JSON lines, a broken line", file("f.jsonl", '["a","r","b"]\n["a",\n'), "refused",
         message="f.jsonl:2: is not valid JSON"),
    Case("JSON, networkx node-link", file("f.json", json.dumps({"nodes": [], "links": [
        {"source": "a", "target": "b"}]})), "one relation, `linked`", [("a", "linked", "b")]),
    Case("N-Triples", file("f.nt", N3), "facts", iri(FACTS)),
    Case("N-Triples with literals", file("f.nt", N3 + '<http://x/Ann> <http://x/age> "4" .\n'),
         "literals left out, with a count", iri(FACTS), "left out 1 facts whose object is a literal"),
    Case("N-Quads", file("f.nq", N3.replace(" .", " <http://x/g> .")), "facts of all graphs", iri(FACTS)),
    Case("Turtle", file("f.ttl", TURTLE), "facts", iri(FACTS)),
    Case("TriG", file("f.trig", TURTLE + ":g { :Ann :likes :Bob }"), "facts of all graphs", iri(FACTS)),
    Case("N3", file("f.n3", TURTLE), "facts", iri(FACTS)),
    Case("RDF/XML", file("f.rdf", XML), "facts", iri(FACTS)),
    Case("JSON-LD", file("f.jsonld", JSON_LD), "facts", iri(FACTS)),
    Case("RDF with triples about triples", file("f.ttl", TURTLE + ":a :b <<( :c :d :e )>> .\n"), "refused",
         message="a triple about a triple is not a fact"),
    Case("GraphML", graph_file("graphml"), "one relation, `linked`", edges()),
    Case("GEXF", graph_file("gexf"), "one relation, `linked`", edges()),
    Case("GML", graph_file("gml"), "one relation, `linked`", edges()),
    Case("SQLite: `sqlite:///facts.db?table=facts`", database("sqlite:///facts.db?table=facts", "facts"), "facts",
         FACTS),
    Case("SQLite file with one table", database("facts.db", "facts"), "facts", FACTS),
    Case("SQLite file with several tables", database("facts.db", "a", "b"), "refused",
         message=r"has 2 tables \('a', 'b'\); choose with"),
    Case("SQLite and a query", database("facts.db", "facts"), "facts", FACTS[:2],
         options={"sql": "SELECT * FROM facts WHERE relation = 'likes'"}),
    Case("SQLite and a query for two columns", database("facts.db", "facts"), "one relation, `linked`",
         [(s, "linked", o) for s, _, o in FACTS],
         options={"sql": "SELECT subject, object FROM facts"}),
    Case("DuckDB", duckdb_file, "facts", FACTS),
    # Python objects
    Case("pandas data frame", pandas_frame(["a", "b", "c"], FACTS), "facts", FACTS),
    Case("pandas data frame with `None` or `NaN`", pandas_frame(["s", "p", "o"], [*FACTS, ("Ann", "likes", None)]),
         "refused, with the option that skips it",
         message="row 5: missing object .*skip_bad_rows=True.* keep_default_na=False"),
    Case("pandas data frame (subject, object, x)", pandas_frame(["subject", "object", "kind"], [
        ("Ann", "Bob", "likes"), ("Bob", "Cid", "likes")]), "facts by name", FACTS[:2]),
    Case("pandas data frame, a fourth column of numbers", pandas_frame(["a", "b", "c", "trust"], [
        (*fact, 0.5) for fact in FACTS]), "weights, with a warning", FACTS, "took column 'trust' as weights",
         weights=[0.5] * 4),
    Case("`networkx.to_pandas_edgelist`", pandas_edges, "one relation, `linked`", edges()),
    Case("polars LazyFrame", lazy_frame, "facts", FACTS),
    Case("Arrow table", lambda: pa.table({"s": ["a"], "p": ["r"], "o": ["b"]}), "facts", [("a", "r", "b")]),
    Case("networkx DiGraph with `type`", networkx_graph("DiGraph", type="likes"), "facts", edges("likes")),
    Case("networkx Graph (undirected)", networkx_graph("Graph"), "an undirected relation",
         edges() + [(o, "linked", s) for s, o in EDGES]),
    Case("networkx graph with weights", networkx_graph("DiGraph", weight=0.5), "weights", edges(),
         weights=[0.5, 0.5, 0.5]),
    Case("rdflib graph", rdflib_graph, "facts", iri(FACTS)),
    Case("list of tuples", lambda: FACTS, "facts", FACTS),
    Case("list of pairs", lambda: EDGES, "one relation, `linked`", edges()),
    Case("list of dicts", lambda: DICTS, "facts", FACTS),
    Case("ragged list", lambda: [*FACTS, ("Ann", "likes")], "refused",
         message="list: row 5: expected 3 values, as in row 1"),
    Case("NumPy array (n, 3)", numpy_array, "facts", FACTS),
    Case("SciPy sparse matrix", matrix, "one relation, entities are numbers",
         [("0", "linked", "1"), ("1", "linked", "2"), ("2", "linked", "0")]),
    Case("a number", lambda: 5, "refused", message="cannot read facts from 'int'"),
]  # fmt: skip


def table() -> str:
    """The cases as a Markdown table."""
    lines = ["| input | what relatent reads |", "|---|---|"]
    lines += [f"| {case.title} | {case.result} |" for case in CASES]
    return "\n".join(lines)


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    PAGE.write_text(f"{before}{START}\n\n{table()}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")

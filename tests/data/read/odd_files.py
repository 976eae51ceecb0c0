"""Files as they lie around, each with what relatent must make of it: facts, or one clear line."""
# ruff: noqa: E501

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import Any, NamedTuple

ANN = ("Ann", "kennt", "Bob")


class Odd(NamedTuple):
    """One file, and what is expected of it."""

    title: str
    name: str
    content: str | bytes
    facts: list[tuple[str, ...]] | str  # the facts, or what the error says
    said: str = ""  # in a warning, if one is expected
    options: dict[str, Any] = {}  # noqa: RUF012
    weights: list[float] | None = None


def edges(*pairs: str, relation: str = "linked") -> list[tuple[str, str, str]]:
    return [(pair[0], relation, pair[1]) for pair in pairs]


def zipped(**members: bytes | str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as made:
        for name, content in members.items():
            made.writestr(name.replace("_", "."), content)
    return stream.getvalue()


WD = "http://www.wikidata.org/entity/"
XSV = "".join(
    f"{a},{b},{c}\n" for a, b, c in [("ann", "1", "x"), ("bob", "2", "y"), ("cid", "3", "x"), ("dot", "4", "x")]
)

ODD_FILES = [
    # several countries
    Odd("German header, semicolons", "f.csv", "Subjekt;Prädikat;Objekt\nAnn;kennt;Bob\n", [ANN], "semicolon"),
    Odd("German edge list with decimal commas", "f.csv", "Quelle;Ziel;Gewicht\na;b;1,5\nb;c;0,25\n", edges("ab", "bc"),
        "decimal commas", weights=[1.5, 0.25]),
    Odd("von and nach", "f.csv", "von,nach\na,b\nb,c\n", edges("ab", "bc")),
    Odd("French header", "f.csv", "sujet;prédicat;objet\nAnn;kennt;Bob\n", [ANN], "semicolon"),
    Odd("French origine, destination, poids", "f.csv", "origine;destination;poids\na;b;1\nb;c;2\n", edges("ab", "bc"),
        "semicolon", weights=[1, 2]),
    Odd("Spanish header, Latin-1", "f.csv", "sujeto;relación;objeto\nAnn;kennt;Bob\n".encode("latin-1"),
        [ANN], "semicolon", {"encoding": "latin-1"}),
    Odd("the same without its encoding", "f.csv", "sujeto;relación;objeto\nAnn;kennt;Bob\n".encode("latin-1"),
        "f.csv:1: is not valid UTF-8; .* encoding='latin-1'"),
    Odd("Italian header", "f.tsv", "soggetto\trelazione\toggetto\nAnn\tkennt\tBob\n", [ANN]),
    Odd("Portuguese origem, destino", "f.csv", "origem,destino\na,b\n", edges("ab")),
    Odd("Dutch van, naar", "f.csv", "van;naar\na;b\nb;c\n", edges("ab", "bc"), "semicolon"),
    Odd("Swedish från, till", "f.csv", "Från,Till\na,b\n", edges("ab")),
    Odd("Polish źródło, cel", "f.csv", "źródło;cel\na;b\n", edges("ab"), "semicolon"),
    Odd("Russian, cp1251", "f.csv", "субъект;отношение;объект\nАня;знает;Боря\n".encode("cp1251"),
        [("Аня", "знает", "Боря")], "semicolon", {"encoding": "cp1251"}),
    Odd("Japanese, Shift-JIS", "f.csv", "主語,述語,目的語\n安,知る,保\n".encode("shift_jis"), [("安", "知る", "保")],
        options={"encoding": "shift_jis"}),
    Odd("Chinese header", "f.csv", "头实体,关系,尾实体\n安,认识,宝\n", [("安", "认识", "宝")]),
    Odd("the wrong encoding", "f.csv", "Zoë,r,b\n".encode("latin-1"), "f.csv: is not valid ascii", options={
        "encoding": "ascii"}),
    Odd("UTF-16 that is none", "f.csv", b"a,r,b\nc", "f.csv: is not valid utf-16", options={"encoding": "utf-16"}),
    Odd("an encoding that is none", "f.csv", b"a,r,b\n", "unknown encoding 'hex'", options={"encoding": "hex"}),
    Odd("full-width names, no break space around", "f.csv", "Ａｎｎ,kennt,Bob\n", [("Ａｎｎ", "kennt", "Bob")]),
    # spreadsheets
    Odd("Excel's sep= line", "f.csv", "sep=;\r\nsource;target\r\na;b\r\n", edges("ab")),
    Odd("the same in quotes, tab", "f.csv", '"sep=\t"\nAnn\tkennt\tBob\n', [ANN]),
    Odd("Excel, UTF-16 and tabs", "f.csv", "subject\trelation\tobject\r\nAnn\tkennt\tBob\r\n".encode("utf-16"), [ANN],
        "tab-separated"),
    Odd("empty columns at the end", "f.csv", "subject,relation,object,,\nAnn,kennt,Bob,,\n", [ANN]),
    Odd("empty columns at the end, no header", "f.csv", "Ann,kennt,Bob,,\nBob,kennt,Cid,,\n",
        [ANN, ("Bob", "kennt", "Cid")]),
    Odd("empty rows at the end", "f.csv", "source;target\na;b\n;\n;\n", edges("ab"), "left out 2 rows|semicolon"),
    Odd("a title above the table", "f.csv", "Report of 2024\n\nsource,target\na,b\n",
        "f.csv:1: expected 3 comma-separated fields.* got 1"),
    Odd("old Mac line ends", "f.csv", "source,target\ra,b\rb,c\r", edges("ab", "bc")),
    Odd("numbers with apostrophes", "f.csv", "source;target;km\na;b;1'234\nb;c;12\n", edges("ab", "bc"), "thousands|km|semi",
        weights=[1234, 12]),
    Odd("currency", "f.csv", "source,target,price\na,b,5 €\nb,c,7 €\n", edges("ab", "bc"), "measures"),
    Odd("a pandas index", "f.csv", ",subject,relation,object\n0,Ann,kennt,Bob\n1,Bob,kennt,Cid\n",
        [ANN, ("Bob", "kennt", "Cid")]),
    Odd("a pandas index, unnamed columns", "f.csv", ",0,1,2\n0,Ann,kennt,Bob\n1,Bob,kennt,Cid\n2,Cid,kennt,Ann\n",
        [ANN, ("Bob", "kennt", "Cid"), ("Cid", "kennt", "Ann")], options={"header": True}),
    Odd("R row names", "f.csv", '"","from","to"\n"1","a","b"\n"2","b","c"\n', edges("ab", "bc")),
    Odd("R write.table: a header with one field less", "f.tsv", "from\tto\n1\ta\tb\n2\tb\tc\n",
        "f.tsv:2: expected 2 tab-separated fields, got 3"),
    Odd("a spreadsheet called .csv", "f.csv", b"PK\x03\x04" + bytes(range(200)), "f.csv:3: is not valid UTF-8"),
    Odd("a database called .csv", "f.csv", b"SQLite format 3\0" + bytes(100), "f.csv"),
    Odd("HTML called .csv", "f.csv", "<!DOCTYPE html>\n<html>\n<body>\n", "f.csv:1: expected 3"),
    Odd("a million columns", "f.csv", ",".join(["x"] * 1_000_000) + "\n", "f.csv:1: has 1,000,000 columns, at most 16,384"),
    # tools
    Odd("Gephi, directed", "f.csv", "Source,Target,Type,Id,Label,timeset,Weight\na,b,Directed,0,,,1.0\nb,c,Directed,1,,,2.0\n",
        edges("ab", "bc"), weights=[1, 2]),
    Odd("Gephi, undirected with labels", "f.csv", "Source,Target,Type,Id,Label,Weight\na,b,Undirected,0,knows,1\n",
        edges("ab", relation="knows"), "undirected edges", weights=[1]),
    Odd("Wikidata: items", "f.csv", f"person,place\n{WD}Q1,{WD}Q2\n{WD}Q3,{WD}Q2\n{WD}Q4,{WD}Q5\n",
        [(WD + "Q1", "linked", WD + "Q2"), (WD + "Q3", "linked", WD + "Q2"), (WD + "Q4", "linked", WD + "Q5")],
        "as column names, because column 1 holds IRIs"),
    Odd("Wikidata: items and labels", "f.csv", f"s,sLabel,p,o,oLabel\n{WD}Q1,Ann,{WD}P1,{WD}Q2,Ulm\n",
        [(WD + "Q1", WD + "P1", WD + "Q2")], "left out columns 'sLabel', 'oLabel'"),
    Odd("Neo4j admin with spaces", "f.csv", ":START_ID(Person),role,:END_ID(Film),:TYPE\nann,Neo,up,ACTED_IN\n",
        [("ann", "ACTED_IN", "up")]),
    Odd("Neo4j browser", "f.csv", "n,r,m\n(:P {name: Ann}),[:KNOWS],(:P {name: Bob})\n(:P {name: Bob}),[:KNOWS],(:P {name: Cid})\n",
        [("n", "r", "m"), ("(:P {name: Ann})", "[:KNOWS]", "(:P {name: Bob})"),
         ("(:P {name: Bob})", "[:KNOWS]", "(:P {name: Cid})")]),
    Odd("STRING: protein1 protein2 score", "f.txt", "protein1 protein2 combined_score\n9606.A 9606.B 490\n9606.B 9606.C 198\n9606.A 9606.C 159\n",
        "f.txt:1: expected 3 tab-separated fields.* sep=' '"),
    Odd("the same with sep", "f.txt", "protein1 protein2 combined_score\n9606.A 9606.B 490\n9606.B 9606.C 198\n9606.A 9606.C 159\n",
        [("9606.A", "linked", "9606.B"), ("9606.B", "linked", "9606.C"), ("9606.A", "linked", "9606.C")],
        "took the first row|edge list", {"sep": " "}, [490, 198, 159]),
    Odd("SIF of Cytoscape", "f.sif", "a\tpp\tb\n", "unknown file extension"),
    Odd("the same with its format", "f.sif", "a\tpp\tb\n", [("a", "pp", "b")], options={"format": "tsv"}),
    Odd("KONECT", "f.tsv", "% asym unweighted\n% 3 3 3\n1 2\n2 3\n", "f.tsv:3: expected 3 tab-separated fields.* sep=' '"),
    Odd("networkx write_edgelist", "f.edgelist", "a b {}\nb c {}\n", edges("ab", "bc"), "column 3"),
    Odd("networkx write_edgelist with data", "f.edgelist", "a b {'weight': 3}\nb c {'weight': 4}\n",
        "f.edgelist:1: .*data=False"),
    Odd("networkx write_weighted_edgelist", "f.edgelist", "a b 3.5\nb c 4\nc a 1\n", edges("ab", "bc", "ca"), "edge list",
        weights=[3.5, 4, 1]),
    Odd("OpenKE ids with a count above", "f.txt", "3\n0 1 0\n1 2 0\n2 0 1\n", "f.txt:1: expected 3"),
    Odd("PyKEEN labels", "f.tsv", "brazil\tcommonbloc2\tindia\n", [("brazil", "commonbloc2", "india")]),
    Odd("a log", "f.csv", "2024-01-01 10:00:01,ann,login\n2024-01-01 10:00:05,bob,logout\n2024-01-01 10:01:00,ann,logout\n",
        [("2024-01-01 10:00:01", "ann", "login"), ("2024-01-01 10:00:05", "bob", "logout"),
         ("2024-01-01 10:01:00", "ann", "logout")], "column 1 holds dates, which are read as entities"),
    Odd("an Apache log", "f.txt", '1.2.3.4 - - [01/Jan/2024:10:00:00 +0000] "GET / HTTP/1.1" 200 12\n', "f.txt:1: expected 3"),
    Odd("numbers below words", "f.csv", "user,item,stars\n" + XSV.replace("x", "9").replace("y", "8"),
        [("ann", "1", "9"), ("bob", "2", "8"), ("cid", "3", "9"), ("dot", "4", "9")], "column names"),
    Odd("a matrix", "f.csv", ",a,b,c,d\na,0,1,0,1\nb,1,0,0,1\n", "f.csv:1: expected 3 .* got 5; choose with columns="),
    Odd("key=value", "f.csv", "a=1\nb=2\n", "f.csv:1: expected 3"),
    Odd("a duplicated header", "f.csv", "subject,relation,object\nAnn,kennt,Bob\nsubject,relation,object\n",
        [ANN, ("subject", "relation", "object")], "the names of the columns .* stand in a row"),
    Odd("two names with one ending", "f.csv", "from_doctor,to_doctor,patients\na,b,1\nb,c,4\n", edges("ab", "bc"),
        "weights of an edge list", weights=[1, 4]),
    Odd("a day between two names", "f.csv", "source,on,target\na,31.12.2024,b\nb,1/2/2024 9:30 PM,c\n", edges("ab", "bc"),
        "column 'on', which holds dates"),
    Odd("semicolons and decimal commas", "f.csv", "source;target;hours\na;b;1,5\nb;c;1.000,25\n", edges("ab", "bc"),
        "decimal commas", {"sep": ";"}, [1.5, 1000.25]),
    # RDF
    Odd("Turtle with a byte order mark", "f.ttl", "\ufeff@prefix : <x:> . :a :r :b .", [("x:a", "x:r", "x:b")]),
    Odd("N-Triples with Windows line ends", "f.nt", "<x:a> <x:r> <x:b> .\r\n<x:b> <x:r> <x:a> .\r\n",
        [("x:a", "x:r", "x:b"), ("x:b", "x:r", "x:a")]),
    Odd("N-Triples called .ttl", "f.ttl", "<x:a> <x:r> <x:b> .\n", [("x:a", "x:r", "x:b")]),
    Odd("RDF of literals only", "f.nt", '<x:a> <x:r> "b" .\n', "contains no facts; every object is a literal"),
    Odd("SKOS in RDF/XML", "f.rdf", '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="x:">'
        '<rdf:Description rdf:about="x:a"><s:broader rdf:resource="x:b"/></rdf:Description></rdf:RDF>',
        [("x:a", "x:broader", "x:b")]),
    Odd("JSON-LD with a context of its own", "f.jsonld", json.dumps({"@context": {"knows": {"@id": "x:k", "@type": "@id"}},
        "@id": "x:a", "knows": "x:b"}), [("x:a", "x:k", "x:b")]),
    Odd("GraphML without its namespace", "f.graphml", '<graphml><graph edgedefault="directed"><node id="a"/><node id="b"/>'
        '<edge source="a" target="b"/></graph></graphml>', edges("ab")),
    # JSON
    Odd("JSON of d3: nodes and links", "f.json", json.dumps({"nodes": [{"id": "a"}], "links": [
        {"source": "a", "target": "b", "value": 1}, {"source": "b", "target": "c", "value": 3}]}), edges("ab", "bc"),
        "took column 'value' as weights", weights=[1, 3]),
    Odd("a JSON list called .jsonl", "f.jsonl", '[["a", "r", "b"]]', "f.jsonl"),
    Odd("JSON lines with a list in a role", "f.jsonl", '{"subject": "a", "relation": "r", "object": ["b", "c"]}\n',
        "row 1: a name must be a text or a whole number"),
    Odd("JSON lines of many keys", "f.jsonl", "".join(json.dumps({f"k{i}_{j}": 1 for j in range(500)}) + "\n" for i in range(60)),
        "different keys"),
    # packed
    Odd("a zip by LZMA", "f.zip", zipped(f_csv="Ann,kennt,Bob\n"), [ANN]),
    Odd("a damaged one", "f.zip", zipped(f_csv="Ann,kennt,Bob\n" * 99).replace(b"f.csv", b"f.csv", 1)[:40] + b"\xff" * 20
        + zipped(f_csv="Ann,kennt,Bob\n" * 99)[60:], "f.zip: "),
    Odd("a zip with a line break in a name", "f.zip", zipped(**{"f_c\nv": "a,r,b\n"}), "got f.c v; extract it"),
    Odd("two gzip files joined", "f.csv.gz", gzip.compress(b"Ann,kennt,Bob\n") + gzip.compress(b"Bob,kennt,Cid\n"),
        [ANN, ("Bob", "kennt", "Cid")]),
    Odd("a CSV called .csv.gz", "f.csv.gz", "Ann,kennt,Bob\n", "f.csv.gz: cannot be read"),
]  # fmt: skip

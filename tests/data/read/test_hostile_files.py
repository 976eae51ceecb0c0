"""Files made to exhaust memory, time or the stack end in one line."""

import encodings.aliases
import gzip
import sqlite3
import tracemalloc
import zipfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from input_cases import CASES
from pyarrow import parquet

from relatent.cli.question_files import question_blocks
from relatent.data.facts import Facts
from relatent.data.read import delimited, files, guards, ntriples
from relatent.data.read.read import read
from relatent.data.read.reading import Reading
from relatent.errors import DataError, DataWarning

DEPTH = 20_000  # overflows the stack of the parser
PREFIX = "@prefix : <http://x/> .\n"
NESTED = ":a :b " + "<<( :a :b " * DEPTH + ":c" + " )>>" * DEPTH + " .\n"
LINE = NESTED.replace(":a", "<x:a>").replace(":b", "<x:b>").replace(":c", "<x:c>")
IN_TEXT = PREFIX + ':a :b :c .\n:a :d "' + "<< " * 500 + '" , """' + "<<\n<< " * 500 + '""" . # ' + "<<" * 500 + "\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.ttl", PREFIX + NESTED),
        ("f.trig", PREFIX + NESTED),
        ("f.nt", LINE),
        ("f.nq", LINE),
        ("f.ttl", PREFIX + ':x :y """ .\n""" .\n' + NESTED),
        ("f.jsonld", '{"http://x/p":' * DEPTH + '{"@id":"http://x/a"}' + "}" * DEPTH),
    ],
)
def test_deep_nesting_is_refused(write, name, content):
    with pytest.raises(DataError, match=rf"^{name}: (triples|values) are nested more than 100 deep"):
        read(write(name, content))


@pytest.mark.filterwarnings("ignore:.*literal")
def test_brackets_in_text_and_comments_are_no_nesting(write):
    assert len(read(write("f.ttl", IN_TEXT))) == 1
    assert len(read(write("f.jsonld", '{"@id": "x:a", "x:p": {"@id": "x:b"}, "x:q": "' + "[{" * 500 + '\\"{"}'))) == 1


DAMAGE = (b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"{", b"<<", b"\t", b"\xef\xbb\xbf", b"1e999", b"")


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [case.make() for case in CASES if not case.title.startswith(("SQLite", "DuckDB"))]
    files = sorted({source for source in made if isinstance(source, str) and Path(source).is_file()})
    contents = {name: Path(name).read_bytes() for name in files}
    rng, messages = np.random.default_rng(0), []
    for _ in range(2000):
        name = files[rng.integers(len(files))]
        content = bytearray(contents[name])
        for _ in range(rng.integers(1, 5)):
            first, last = sorted(rng.integers(0, len(content) + 1, 2))
            content[first : last if rng.random() < 0.3 else first + 1] = DAMAGE[rng.integers(len(DAMAGE))]
        Path(name).write_bytes(content)
        try:
            read(name)
        except DataError as problem:
            messages.append(str(problem))
    assert len(messages) > 1000
    assert not [message for message in messages if "\n" in message]


@pytest.mark.parametrize("name", ["f.tsv.gz", "f.csv.gz", "f.nt.gz", "f.jsonl.gz"])
def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(write, monkeypatch, name):
    for module in (files, ntriples, delimited):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 1 << 20)
    for module in (ntriples, delimited):
        monkeypatch.setattr(module, "BLOCK_BYTES", 1 << 20)
    monkeypatch.setattr(files, "_HEAD_BYTES", 1 << 16)
    monkeypatch.setattr(delimited, "HEAD_BYTES", 1 << 16)
    write(name, gzip.compress(b"x" * (64 << 20), 1))
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"^{name}.*is longer than 1 MB; no row may be$"):
        read(name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("name", ["f.tsv", "f.nt", "f.jsonl"])
def test_blank_lines_only_are_refused_soon(write, monkeypatch, name):
    monkeypatch.setattr("relatent.data.read.json_rows.MAX_BLANK_LINES", 1000)
    with pytest.raises(DataError, match=rf"^{name}.*(contains no facts|lines in a row are blank)"):
        read(write(name, "\n" * (3 << 20)))


def test_a_long_line_in_the_middle_is_named(write, monkeypatch):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 16)
    with pytest.raises(DataError, match=r"^f.tsv:2: "):
        read(write("f.tsv", "a\tr\tb\na\tr\t" + "x" * (1 << 20)))


def test_long_fields_are_read_in_every_row(write):
    long = "x" * 200_000
    for text in (f"{long}\tr\tb\nc\tr\td\n", f"c\tr\td\n{long}\tr\tb\n"):
        assert long in read(write("f.tsv", text)).entities


def test_a_missing_column_among_many_is_one_short_line(write):
    names = [f"column{number}" for number in range(10_000)]
    with pytest.raises(DataError, match=r"no column 'colunm7'; there are 'column7', .*\(10,000 in all\)$") as caught:
        read(write("f.csv", ",".join(names) + "\n"), columns=("colunm7", "column1", "column2"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["f.ttl", "f.nt"])
def test_a_comment_ends_where_the_parser_ends_it(write, name):
    with pytest.raises(DataError, match=rf"^{name}: triples are nested more than 100 deep"):
        read(write(name, "# a comment\r" + LINE))


def test_names_that_a_prefix_makes_large_are_refused(write):
    content = f"@prefix p: <http://x/{'y' * 60_000}> .\n" + "".join(f"p:a{i} p:r p:b{i} .\n" for i in range(5000))
    with pytest.raises(DataError, match=r"^f.ttl: names are 200 times longer than the file; shorten"):
        read(write("f.ttl", content))


TERMS = ",".join(f'"t{i}":"x:{i}"' for i in range(5000))
OWN = ",".join(['{"KEY":{"z":"x:z"},"@id":"x:a","t1":"b"}'] * 10_000)
MANY = ",".join(['{"@id":"x:a","k":{"@id":"x:b"}}'] * 20_000)


@pytest.mark.parametrize("key", ["@context", "\\u0040conte\\u0078t"])
@pytest.mark.parametrize(
    "content",
    [
        f'{{"KEY":{{{TERMS}}},"@graph":[{OWN}]}}',
        f'{{"KEY":{{{TERMS},"k":{{"@id":"x:k","KEY":{{"z":"x:z"}}}}}},"@graph":[{MANY}]}}',
        f'{{"KEY":{{"@propagate":false,{TERMS}}},"@graph":[{MANY}]}}',
        f'{{"KEY":[{{{TERMS}}},{{"k":{{"@id":"x:k","KEY":{{}}}}}}],"@graph":[{MANY}]}}',
    ],
    ids=["in each node", "of a term", "not passed on", "of a list"],
)
def test_contexts_that_are_copied_for_long_are_refused(write, key, content):
    with pytest.raises(DataError, match=r"^f.jsonld: has [\d,]+ contexts, and large ones; convert it to N-Triples"):
        read(write("f.jsonld", content.replace("KEY", key)))


@pytest.mark.parametrize(
    ("context", "node", "message"),
    [
        (f'"p":"http://x/{"y" * 60_000}/"', '{"@id":"p:a","p:r":{"@id":"p:b"}}', "names are 200 times longer"),
        (f'"@base":"http://x/{"y" * 60_000}/"', '{"@id":"a","x:r":{"@id":"b"}}', "names are 200 times longer"),
        (f'"@vocab":"http://x/{"y" * 60_000}/"', '{"@id":"x:a","r":{"@id":"x:b"}}', "names are 200 times longer"),
        (
            '"t0":"http://x/",' + ",".join(f'"t{i}":"t{i - 1}:{"y" * 90}"' for i in range(1, 3000)),
            '{"@id":"t1:a","x:r":{"@id":"x:b"}}',
            "the terms of a context stand for too long names",
        ),
        ('"z":"x:z",' * 1_000_000 + '"k":"x:k"', '{"@id":"x:a"}', "a context is longer than 8 MB"),
    ],
    ids=["prefix", "base", "vocabulary", "chain", "long"],
)
def test_names_that_a_context_makes_long_are_refused_before_they_are(write, context, node, message):
    content = f'{{"@context":{{{context}}},"@graph":[{",".join([node] * 3000)}]}}'
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"^f.jsonld: {message}"):
        read(write("f.jsonld", content))
    tracemalloc.stop()


def test_contexts_of_usual_size_are_read(write):
    context = '{"ex":"http://example.org/","knows":{"@id":"ex:knows","@type":"@id"},"a":"ex:a","b":"b:","b:":"a:x"}'
    nodes = ",".join(
        f'{{"@context":{{"z":"x:z"}},"@id":"ex:{i}","knows":"ex:{i + 1}","x:s":"@context"}}' for i in range(50)
    )
    with pytest.warns(DataWarning, match="left out 50 facts whose object is a literal"):
        facts = read(write("f.jsonld", f'{{"@context":{context},"@graph":[{nodes}]}}'))
    assert ("http://example.org/1", "http://example.org/knows", "http://example.org/2") in facts.named()
    assert len(facts) == 50


@pytest.mark.parametrize(
    "content",
    [
        f"@base <http://x/{'y' * 60_000}/> .\n" + "@prefix a: <b> .\n" * 5000,
        f"base # c\n<http://x/{'y' * 60_000}/>\n" + "PREFIX#c\na: <b>\n" * 5000,
        "@base <http://x/> .\n" + f"@base <{'y' * 90}/> .\n@prefix a: <b> .\n" * 3000,
    ],
    ids=["long", "with comments", "growing"],
)
def test_prefixes_that_a_long_base_makes_large_are_refused(write, content):
    content += "<x:a> <x:b> <x:c> .\n"
    for name in ("f.ttl", "f.trig", "f.n3"):
        with pytest.raises(DataError, match=rf"^{name}: prefixes are 200 times longer than the file; shorten its base"):
            read(write(name, content))


RDF_START = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:">'
NODE = "<rdf:Description rdf:about='x:a'><x:p rdf:resource='x:b'/></rdf:Description>"


@pytest.mark.parametrize("name", ["f.rdf", "f.graphml", "f.gexf"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<a><!-- </a></a> -->" * DEPTH, "tags are nested more than 10,000 deep"),
        ("<a><![CDATA[</a></a>]]>" * DEPTH, "(tags are nested more than 10,000 deep|Unexpected text event)"),
        ("<a><?x </a></a> ?>" * DEPTH, "tags are nested more than 10,000 deep"),
        ("<a b='</a></a>'>" * DEPTH, "have more than 1,000 attributes"),
        ("<!DOCTYPE x '[' [<!-- ' -->]>" + "<a>" * DEPTH, "tags are nested more than 10,000 deep"),
        ("<a " + " ".join(f"b{i}='1'" for i in range(1001)) + "/>", "have more than 1,000 attributes"),
        ("".join(f"<a xmlns:b{i}='x:' c='1'>" for i in range(600)), "have more than 1,000 attributes"),
        ("<!--> </a></a> -->" * DEPTH, "has an XML comment that begins with >"),
        ("<!---> </a></a> -->" * DEPTH, "has an XML comment that begins with >"),
    ],
)
def test_what_would_hide_the_depth_of_tags_does_not(write, name, content, message):
    pytest.importorskip("networkx")
    if name == "f.rdf":
        content = RDF_START + content.replace("<!DOCTYPE x '[' [<!-- ' -->]>", "").replace("<a", "<x:p")
    path = write(name, content)
    with pytest.raises(DataError, match=rf"^{name}: .*{message}"):
        read(path)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7, 64])
def test_the_depth_of_tags_does_not_depend_on_how_a_file_is_read(cut):
    content = RDF_START + f"<!-- </a> --><![CDATA[<a>]]><?x <a> ?>{NODE}" * 40 + "<b>" * 50 + "</b>" * 50 + "</rdf:RDF>"
    data, state, attributes = content.encode(), np.zeros(6, np.int64), np.zeros(guards.MAX_DEPTH + 2, np.int64)
    for start in range(0, len(data), cut):
        assert guards._scan_tags(np.frombuffer(data[start : start + cut], np.uint8), state, attributes) == 0
    assert state[1] == 0, "all tags are closed"


@pytest.mark.parametrize("name", ["f.rdf", "f.graphml"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE x [<!ENTITY % a 'x'><!ENTITY b '%a;%a;'>]><x/>", "declares an XML parameter entity"),
        ('<!DOCTYPE x [<!ENTITY a "x">]><x>&a;</x>'.encode("utf-16"), "XML must be in UTF-8; convert it"),
    ],
)
def test_entities_that_cannot_be_counted_are_refused(write, name, content, message):
    with pytest.raises(DataError, match=rf"^{name}: {message}"):
        read(write(name, content))


def test_a_document_of_too_many_values_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_DOCUMENT_VALUES", 1000)
    with zipfile.ZipFile(tmp_path / "f.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("f.json", f"[{'[],' * 2000}[]]")
    with pytest.raises(DataError, match=r"f.zip: a JSON document of more than 1,000 values; save it as JSON lines"):
        read(tmp_path / "f.zip")


BOMB = b"a\tr\tb\n" * 200_000


@pytest.mark.parametrize("name", ["f.tsv.gz", "f.tsv.bz2", "f.tsv.zst", "f.zip", "f.nt.gz", "f.graphml.gz"])
def test_a_file_that_unpacks_to_much_more_than_it_holds_is_refused(tmp_path, monkeypatch, name):
    pytest.importorskip("networkx")
    monkeypatch.setattr(files, "MIN_EXPANDED", 1 << 20)
    path, content = tmp_path / name, BOMB
    if "graphml" in name:
        content = b'<graphml><graph edgedefault="directed"><node id="a"/>' + b'<edge source="a" target="a"/>' * 50_000
    if name == "f.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
            made.writestr("f.tsv", content)
    else:
        kind = {"gz": "gzip", "st": "zstd", "z2": "bz2"}[name[-2:]]
        with pa.CompressedOutputStream(str(path), kind) as made:
            made.write(content)
    assert len(content) > 200 * path.stat().st_size
    with pytest.raises(
        DataError, match=rf"{name}: its content is more than 200 times as long as the file; if you trust"
    ):
        read(path)


def names(n, value):
    return pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([value]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            lambda: {"s": names(20_000, "x" * 1_000_000), "p": ["r"] * 20_000, "o": ["b"] * 20_000},
            "its content is more",
        ),
        (lambda: {"s": ["x" * 1_000_000] * 500, "p": ["r"] * 500, "o": ["b"] * 500}, "its content is more than 200"),
        (lambda: dict.fromkeys("spo", names(20_000_000, "x")), "has 20,000,000 rows in [0-9,]+ bytes, so they repeat"),
    ],
    ids=["dictionary", "equal names", "runs"],
)
def test_a_parquet_file_in_which_a_few_bytes_stand_for_much_is_refused(tmp_path, monkeypatch, table, message):
    path = tmp_path / "f.parquet"
    parquet.write_table(pa.table(table()), path)
    assert path.stat().st_size < 200_000
    peak = pa.total_allocated_bytes() + (400 << 20)
    with pytest.raises(DataError, match=rf"f\.parquet: {message}"):
        read(path)
    assert pa.default_memory_pool().max_memory() < peak + (1 << 30)


def test_columns_without_a_role_are_not_unpacked(tmp_path):
    path, long = tmp_path / "f.parquet", pa.array([[None] * 300_000] * 100, pa.list_(pa.int64()))
    fixed = pa.array([b"x" * 1_000_000] * 100, pa.binary(1_000_000))
    columns = {"s": ["a"] * 100, "p": ["r"] * 100, "o": list(map(str, range(100))), "list": long, "fixed": fixed}
    parquet.write_table(pa.table(columns | {"text": names(100, "y" * 1_000_000)}), path, compression="zstd")
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    assert len(read(path, columns=("s", "p", "o"))) == 100
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_table_of_duckdb_in_which_a_few_bytes_stand_for_much_is_refused(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "f.duckdb")) as made:
        made.execute("CREATE TABLE t (s TEXT, p TEXT, o TEXT)")
        made.execute("INSERT INTO t SELECT repeat('x', 150000), 'r', 'b' FROM range(2100)")
    with pytest.raises(DataError, match=r"f\.duckdb: Out of Memory Error"):
        read(tmp_path / "f.duckdb")


def test_rows_of_json_lines_with_very_many_values_are_not_collected(write):
    """As a sample: a row of lists has more values than its length says."""
    row = f'[[{"[]," * 200_000}[]],"r","b"]\n'
    tracemalloc.start()
    with pytest.raises(DataError, match="row 1: a name must be a text or a whole number"):
        read(write("f.jsonl", row * 20))
    assert tracemalloc.get_traced_memory()[1] < 120 << 20
    tracemalloc.stop()


def test_rows_without_names_take_a_bit_each(tmp_path):
    path, empty = tmp_path / "f.parquet", pa.nulls(2_000_000, pa.string())
    last = ["a", "a"], ["r", "r"], ["b", "b"], [1.0, 2.0]
    table = pa.table(
        dict.fromkeys(("subject", "relation", "object"), empty) | {"weight": pa.nulls(2_000_000, pa.float64())}
    )
    rows = pa.table(dict(zip(table.column_names, last, strict=True)))
    parquet.write_table(pa.concat_tables([rows.slice(0, 1), table, rows.slice(1, 1)]), path)
    with pytest.raises(DataError, match=r"row 2000002: gives weight 2.0 to a fact that has weight 1.0 at .*row 1;"):
        read(path)


@pytest.mark.parametrize("library", ["sqlite3", "duckdb"])
def test_columns_that_are_computed_are_read_by_a_query_only(tmp_path, library):
    path = tmp_path / ("f.db" if library == "sqlite3" else "f.duckdb")
    with closing(pytest.importorskip(library).connect(str(path))) as made:
        made.execute("CREATE TABLE t (s TEXT, p TEXT, o TEXT GENERATED ALWAYS AS (s || 'x') VIRTUAL)")
        made.execute("INSERT INTO t (s, p) VALUES ('a', 'r')")
        made.commit()
    scheme = library.removesuffix("3")
    for source in (path, f"{scheme}:///{path}?table=t"):
        with pytest.raises(DataError, match="is computed when it is read; choose the columns with sql="):
            read(source)
    assert read(f"{scheme}:///{path}", sql="SELECT * FROM t").named() == [("a", "r", "ax")]


ENCODINGS = sorted({*encodings.aliases.aliases.values(), "hex", "undefined", "idna", "utf-16\0", "nonsense", ""})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["f.csv", "f.jsonl", "f.csv.gz"])
def test_any_encoding_reads_a_file_or_is_one_line(write, name):
    content = 'Zoë,r,b\nb,r,"c"\n' if "csv" in name else '["Zoë", "r", "b"]\n'
    source = write(name, gzip.compress(content.encode()) if name.endswith("gz") else content)
    for encoding in ENCODINGS:
        message = ""
        try:
            read(source, encoding=encoding)
        except DataError as problem:
            message = str(problem)
        assert "\n" not in message


RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:">%s</rdf:RDF>'
ABOUT = '<rdf:Description rdf:about="&%s;a"><x:p rdf:resource="x:b"/></rdf:Description>'


def entities(value, count):
    """Declarations of XML entities a, b, …, each ten times the one before."""
    lines = [f'<!ENTITY a "{value}">', *(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(count))]
    return f"<!DOCTYPE x [{''.join(lines)}]>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (entities("x" * 10, 9) + RDF % ABOUT % "j", "the XML entity &c; stands for more than 1,000 characters"),
        (entities("x" * 1001, 0) + RDF % ABOUT % "a", "the XML entity &a; stands for more than 1,000 characters"),
        (" " * 65_533 + entities("x:", 1) + RDF % ABOUT % "a", "declares XML entities after the first 64 KB"),
        (RDF % ("<rdf:Description><x:p>" * DEPTH + "</x:p></rdf:Description>" * DEPTH), "nested more than 10,000 deep"),
    ],
)
def test_xml_that_grows_or_nests_without_end_is_refused(write, content, message):
    with pytest.raises(DataError, match=rf"^f.rdf: .*{message}"):
        read(write("f.rdf", content))


def test_xml_entities_for_namespaces_are_read(write):
    nested = '<!DOCTYPE x [<!ENTITY a "x:"><!ENTITY b "&a;very-">]><!-- ' + "<a>" * 9000 + " -->"
    facts = read(write("f.rdf", nested + RDF % (ABOUT % "b" * 3000)))
    assert facts.named() == [("x:very-a", "x:p", "x:b")]


@pytest.mark.parametrize("name", ["f.graphml.gz", "f.gexf.gz", "f.gml.gz"])
def test_a_text_without_an_end_in_a_graph_file_is_refused(write, name):
    pytest.importorskip("networkx")
    start = b"graph [ " if "gml.gz" in name else b"<graphml><graph><node>"
    with pytest.raises(DataError, match=rf"^{name}: (a line|the text between two tags) is longer than 16 MB"):
        read(write(name, gzip.compress(start + b" " * (40 << 20), 1)))


@pytest.mark.parametrize("name", ["f.ttl.gz", "f.jsonld.gz", "f.rdf.gz"])
def test_a_literal_without_an_end_is_refused(write, name):
    start = {
        "f.ttl.gz": b'<x:a> <x:b> "',
        "f.jsonld.gz": b'{"@id":"x:a","x:p":"',
        "f.rdf.gz": RDF.partition("%")[0].encode(),
    }[name]
    with pytest.raises(
        DataError, match=rf"^{name}: (a name or a literal|the text between .*) is longer than 16 MB; no name may be"
    ):
        read(write(name, gzip.compress(start + b"y" * (40 << 20), 1)))


ENDLESS = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT 'a' AS s, 'r' AS p, i AS o FROM t"


def test_a_view_of_a_database_runs_only_if_it_is_named(tmp_path):
    path = tmp_path / "f.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute(f"CREATE VIEW endless AS {ENDLESS}")
        made.execute("CREATE VIEW large AS SELECT hex(zeroblob(40000000)) AS s, 'r' AS p, 'b' AS o")
        made.execute("CREATE VIEW small AS SELECT 'a' AS s, 'r' AS p, 'b' AS o")
    with pytest.raises(DataError, match=r"has 3 tables and views \('endless \(view\)', .*; choose with \?table="):
        read(path)
    with pytest.raises(DataError, match="string or blob too big"):
        read(f"sqlite:///{path}?table=large")
    assert read(f"sqlite:///{path}?table=small").named() == [("a", "r", "b")]


def test_a_duckdb_file_reads_no_other_files(write, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    write("other.csv", "a,r,b\n")
    with duckdb.connect(str(tmp_path / "f.duckdb")) as made:
        made.execute(f"CREATE VIEW facts AS SELECT * FROM read_csv('{tmp_path}/other.csv', header=false)")
    address = f"duckdb:///{tmp_path}/f.duckdb"
    with pytest.raises(DataError, match=r"has 1 tables and views \('facts \(view\)'\)"):
        read(tmp_path / "f.duckdb")
    with pytest.raises(DataError, match=r"(?i)disabled"):
        read(f"{address}?table=facts")
    assert read(address, sql="SELECT * FROM facts").named() == [("a", "r", "b")]  # the user's own query


def test_strings_of_a_table_that_are_not_utf8_are_refused(tmp_path):
    wrong = pa.array([b"a", b"\xff"]).view(pa.string())
    table = pa.table({"s": wrong, "p": ["r", "r"], "o": ["b", "b"]})
    with pytest.raises(DataError, match=r"^table: column 's': Invalid UTF8"):
        read(table)
    parquet.write_table(table, tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"f\.parquet: column 's': Invalid UTF8"):
        read(tmp_path / "f.parquet")


@pytest.mark.parametrize("columns", [5, 2.5, b"spo", [[1], 2, 3], {"subject": [0]}, {1}], ids=str)
def test_columns_that_are_no_columns_are_refused(columns):
    with pytest.raises(DataError, match="columns") as refused:
        read([("a", "r", "b")], columns=columns)
    assert "\n" not in str(refused.value)


def test_an_unnamed_node_is_not_the_one_with_the_same_label(write):
    text = PREFIX + ":a :p [] . :a :q _:unnamed-0 . :a :q _:label-unnamed-0 . :a :q _:x ."
    assert [name for name in read(write("f.ttl", text)).entities if name.startswith("_")] == [
        "_:label-label-unnamed-0", "_:label-unnamed-0", "_:unnamed-0", "_:x",
    ]  # fmt: skip


def test_final_null_characters_of_names_are_kept():
    facts = Facts.from_arrays(["a\0", "a"], ["r", "r"], ["b", "b\0"])
    assert list(facts.entities) == ["a", "a\0", "b", "b\0"]
    assert facts.entities.ids(["a\0", "a"]).tolist() == [1, 0]
    assert facts.entities.ids("b\0") == 3


def test_one_long_name_takes_its_own_memory_only():
    names = ["x" * 1_000_000, *map(str, range(1000))]
    tracemalloc.start()
    Facts.from_arrays(names, ["r"] * 1001, names)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            (np.ma.masked_array([0, 1], [False, True]), [0, 0], [1, 0]),
            {},
            "subjects must not have masked values, got one",
        ),
        (([0, 1], [0, 0], [1, 0]), {"weights": np.ma.masked_array([1, 2], [0, 1])}, "weights must not have masked"),
        (([0, 1], [0, 0], [1, 0]), {"weights": ["high", "low"]}, "weights must be numbers: could not convert"),
        (([0, 1], [0, 0], [1, 0]), {"times": [[1], [2, 3]]}, "times must be numbers: "),
        (([[0], [1, 2]], [0, 0], [1, 0]), {}, "subjects must be a list or an array with one value per fact"),
        ((["a", 1], [0, 0], [1, 0]), {}, "subjects must be all ids or all names, got 1 at position 1"),
    ],
)
def test_wrong_arrays_are_refused_in_one_line(arguments, options, message):
    with pytest.raises(DataError, match=message):
        Facts.from_arrays(*arguments, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["p%20q.db", "p?table=secret.db", "p?query=SELECT 1.db", "p#q.db"])
def test_the_name_of_a_database_file_is_no_query(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(name, isolation_level=None)) as database:
        database.execute("CREATE TABLE facts (subject, relation, object)")
        database.execute("INSERT INTO facts VALUES ('a', 'r', 'b')")
    assert read(name).named() == [("a", "r", "b")]


DIGITS = "1" * 5000
ROWS = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.jsonl", f'["a", "r", {DIGITS}]\n', r"f.jsonl:1: is not valid JSON: Exceeds the limit"),
        ("f.jsonl", f'["a", "r", "b", {DIGITS[:400]}]\n', r"row 1: a weight is too large for a number"),
        ("f.graphml", "<graphml>" * 20_000, "tags are nested more than 10,000 deep"),
    ],
)
def test_numbers_of_many_digits_and_deep_graphs_are_one_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(name, content))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", "r", 10**5000), "a name is a number of too many digits; write it as text"),
        (("a", "r", np.zeros(3)), "a name must be a text or a whole number"),
        (("a", "r", Decimal("sNaN")), "a name must be a text or a whole number"),
        (("a", "r", "b\ud800"), "has characters that UTF-8 cannot encode"),
    ],
)
def test_odd_values_of_rows_are_one_line(row, message):
    with pytest.raises(DataError, match=f"row 1: .*{message}"):
        read([row, *ROWS])
    with pytest.raises(DataError, match=f"row 3001: .*{message}"):
        read([*ROWS * 1000, row])


def test_questions_that_are_not_utf8_are_refused_with_the_line(write):
    for name, content in (
        ("q.tsv", b"a\tr\tb\n\xff\tr\tb\n"),
        ("q.jsonl", b'{"s": "a", "p": "r"}\n{"s": "\\ud800", "p": "r"}'),
    ):
        with pytest.raises(DataError, match=r"^q\.(tsv:2: is not valid UTF-8|jsonl: row 2: .* UTF-8 cannot encode)"):
            list(question_blocks(write(name, content), Reading()))


def test_names_labels_and_types_that_cannot_be_saved_are_refused_before_a_fit():
    with pytest.raises(DataError, match=r"entity 'b\\ud800' has characters that UTF-8 cannot encode"):
        Facts.from_arrays(["a"], ["r"], ["b\ud800"])
    for label in ("x\ud800", 5, ["x"]):
        with pytest.raises(DataError, match="the label of 'a' must be text that UTF-8 can encode, got"):
            read(ROWS, labels={"a": label})
    with pytest.raises(DataError, match=r"type 'x.ud800' has characters that UTF-8 cannot encode"):
        read(ROWS, types={"a": "x\ud800"})


BAD_UTF8 = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
)
FAR_DATE = pa.array([2**62], pa.timestamp("ms"))


@pytest.mark.parametrize("values", [BAD_UTF8, FAR_DATE], ids=["not UTF-8", "far date"])
def test_attributes_and_questions_that_are_no_python_values_are_one_line(tmp_path, monkeypatch, values):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"subject": ["a"], "relation": ["r"], "object": ["b"], "x": values})
    parquet.write_table(table, "f.parquet")
    for read_it in (
        lambda: read(ROWS, attributes="f.parquet"),
        lambda: read("f.parquet", attributes=True),
        lambda: read(table, attributes=True),
    ):
        with pytest.raises(DataError, match=r"(f.parquet|table): cannot be read: "):
            read_it()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{}\n", "expected a header with different names of columns"),
        ("a.jsonl", f'{{"id": "a", "x": {DIGITS}}}\n', r"a.jsonl:1: is not valid JSON"),
        ("a.csv", "x" * 200_000 + ",y\n", "no values of attributes"),
        ("a.csv", 'id,x\na,"1\nb,2\n', "a quote opens in this line and is never closed"),
    ],
)
def test_odd_files_of_attributes_are_one_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(ROWS, attributes=write(name, content))


@pytest.mark.parametrize(
    ("option", "name"), [("labels", "x.csv.gz"), ("types", "x.json.gz"), ("attributes", "x.csv.gz")]
)
@pytest.mark.parametrize("character", [b"\0", b"\n"])
def test_a_bomb_of_labels_types_or_attributes_is_refused_before_it_fills_the_memory(
    write, monkeypatch, option, name, character
):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("relatent.data.read.files.MAX_DOCUMENT_BYTES", 1 << 20)
    bomb = write(name, gzip.compress(character * (64 << 20), 1))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"longer than|contains no rows"):
        read(ROWS, **{option: bomb})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20


def test_a_long_triple_about_a_triple_is_one_short_line(write):
    content = f"@prefix p: <http://{'y' * 6000}/> .\np:a p:r p:b .\n<< p:a p:r p:b >> p:s p:c .\n"
    with pytest.raises(DataError, match="a triple about a triple is not a fact between entities, got ") as caught:
        read(write("f.ttl", content))
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "header", ["subject,object" + ",relation" * 500, "subject,object" + ",weight,count,relation" * 500]
)
def test_many_columns_of_one_role_are_one_short_line(write, header):
    with pytest.raises(
        DataError, match=r"columns .* and [0-9]+ more (may hold the relation|hold weights and counts)"
    ) as caught:
        read(write("f.csv", header + "\n" + ",".join("x" * (header.count(",") + 1)) + "\n"))
    assert len(str(caught.value)) < 500

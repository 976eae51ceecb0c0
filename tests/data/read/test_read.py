import bz2
import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent.data.facts import Facts
from relatent.data.read.dispatch import read
from relatent.errors import DataError, DataWarning

FAMILY = [("Ann", "parent", "Bob"), ("Bob", "parent", "Cid"), ("Bob", "married", "Eva")]
TSV = "".join("\t".join(fact) + "\n" for fact in FAMILY)
CSV = TSV.replace("\t", ",")
NT = "".join(f"<http://x/{s}> <http://x/{r}> <http://x/{o}> .\n" for s, r, o in FAMILY)


def zst(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(name, content):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file


def is_family(facts):
    return sorted(facts.named()) == sorted(FAMILY) and list(facts.entities) == ["Ann", "Bob", "Cid", "Eva"]


# --- formats


@pytest.mark.parametrize("name", ["family.tsv", "family.txt", "FAMILY.TSV"])
def test_tab_separated_files_are_read(write, name):
    assert is_family(read(write(name, TSV)))


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("zst", zst), ("bz2", bz2.compress)])
@pytest.mark.parametrize(("kind", "text"), [("tsv", TSV), ("csv", CSV)])
def test_compressed_text_is_read(write, suffix, compress, kind, text):
    assert is_family(read(write(f"family.{kind}.{suffix}", compress(text.encode()))))


def test_gzip_files_joined_end_to_end_are_read_to_the_end(write):
    first, rest = TSV.split("\n", 1)
    assert is_family(read(write("family.tsv.gz", gzip.compress(first.encode() + b"\n") + gzip.compress(rest.encode()))))


def test_a_path_object_is_as_good_as_a_string(write, tmp_path):
    write("family.tsv", TSV)
    assert is_family(read(tmp_path / "family.tsv"))


def test_csv_fields_may_be_quoted_and_hold_commas_quotes_and_line_breaks(write):
    facts = read(write("quoted.csv", '"Ann, PhD","says ""hi""","Bob\nB."\r\nCid,likes,Ann\r\n'))
    assert ("Ann, PhD", 'says "hi"', "Bob\nB.") in facts.named()
    assert len(facts) == 2


def test_tsv_knows_no_quotes(write):
    assert read(write("quotes.tsv", '"Ann\tlikes\tBob"\n')).named() == [('"Ann', "likes", 'Bob"')]


def test_names_that_look_like_missing_values_or_numbers_stay_names(write):
    facts = read(write("odd.tsv", "NA\tnull\tnan\n1.0\tnull\t01\n"))
    assert list(facts.entities) == ["01", "1.0", "NA", "nan"]
    assert list(facts.relations) == ["null"]


def test_a_byte_order_mark_windows_line_ends_and_blank_last_lines_do_no_harm(write):
    assert is_family(read(write("windows.tsv", b"\xef\xbb\xbf" + TSV.replace("\n", "\r\n").encode() + b"\r\n\r\n")))


def test_the_last_line_needs_no_line_end(write):
    assert is_family(read(write("family.tsv", TSV.rstrip("\n"))))


def test_the_order_of_rows_does_not_matter(write):
    lines = TSV.splitlines(keepends=True)
    forward, backward = (read(write(name, "".join(part))) for name, part in (("a.tsv", lines), ("b.tsv", lines[::-1])))
    assert forward.fingerprint == backward.fingerprint
    assert forward.entities == backward.entities


def test_names_are_sorted_by_code_point_as_from_arrays_does(write):
    names = ["é", "Z", "a", "中", "\U0001f600", "\uffee"]
    facts = read(write("unicode.tsv", "".join(f"{name}\tr\t{name}\n" for name in names)))
    assert list(facts.entities) == sorted(names)
    same = Facts.from_arrays(names, ["r"] * 6, names)
    np.testing.assert_array_equal(facts.triples, same.triples)


def test_many_blocks_give_the_same_ids_as_from_arrays(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.delimited.BLOCK_BYTES", 4096)
    rng = np.random.default_rng(0)
    s, k, o = (
        np.array([f"{prefix}{i}" for i in rng.integers(0, n, 5000)]) for prefix, n in (("e", 300), ("r", 5), ("e", 400))
    )
    facts = read(write("long.tsv", "".join("\t".join(row) + "\n" for row in zip(s, k, o, strict=True))))
    same = Facts.from_arrays(s, k, o)
    assert facts.fingerprint == same.fingerprint
    assert facts.entities == same.entities


def test_a_fact_given_twice_counts_once(write):
    assert is_family(read(write("twice.tsv", TSV + TSV)))


# --- headers and columns


@pytest.mark.parametrize(
    "header",
    ["subject\tpredicate\tobject", "Head\tRelation\tTail", "s\tp\to", "source\trelation\ttarget", "from\ttype\tto"],
)
def test_a_usual_header_is_not_a_fact(write, header):
    assert is_family(read(write("family.tsv", f"{header}\n{TSV}")))


def test_a_usual_header_in_another_order_is_followed(write):
    swapped = "".join(f"{s},{o},{r}\n" for s, r, o in FAMILY)
    assert is_family(read(write("family.csv", f"source,target,relation\n{swapped}")))


def test_an_unusual_first_row_is_a_fact_unless_called_a_header(write):
    name = write("family.tsv", f"child\tof\tperson\n{TSV}")
    assert len(read(name)) == 4
    assert is_family(read(name, header=True))


def test_a_usual_header_can_be_declared_a_fact(write):
    assert ("s", "p", "o") in read(write("letters.tsv", "s\tp\to\no\tp\ts\n"), header=False).named()


def test_a_fourth_column_holds_weights(write):
    facts = read(write("weights.tsv", "head\trelation\ttail\tconfidence\na\tr\tb\t0.5\nb\tr\ta\t1\n"))
    np.testing.assert_array_equal(facts.weights, [0.5, 1.0])


def test_columns_pick_fields_by_name_from_a_wide_file(write):
    wide = "id,who,what,whom,sure\n" + "".join(f"{i},{s},{r},{o},0.{i + 1}\n" for i, (s, r, o) in enumerate(FAMILY))
    name = write("wide.csv", wide)
    assert is_family(read(name, columns=("who", "what", "whom")))
    assert read(name, columns=("who", "what", "whom", "sure")).weights.tolist() == [0.3, 0.1, 0.2]


def test_a_column_that_is_not_there_is_named(write):
    name = write("wide.csv", "a,b,c\nx,y,z\n")
    with pytest.raises(DataError, match=r"wide.csv:1: no column 'h'; there are 'a', 'b', 'c'"):
        read(name, columns=("h", "b", "c"))
    with pytest.raises(DataError, match=r"more than one column 'a'"):
        read(write("double.csv", "a,a,b,c\nx,x,y,z\n"), columns=("a", "b", "c"))


def test_columns_must_be_three_or_four_different_names(write):
    name = write("family.tsv", TSV)
    for wrong in (("a", "b"), "abc", ("a", "a", "b")):
        with pytest.raises(DataError, match="columns must be 3 or 4 different column names, got"):
            read(name, columns=wrong)
    with pytest.raises(
        DataError, match=r"^header=False says that the first row of family\.tsv has no column names, but columns= "
    ):
        read(name, columns=("a", "b", "c"), header=False)


# --- faults in text, by line


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.tsv", TSV + "Ann\tlikes\n", r"^f.tsv:4: expected 3 tab-separated fields, got 2$"),
        ("f.tsv", "s\tp\to\n" + TSV + "\nAnn\tlikes\n", r"^f.tsv:6: expected 3 tab-separated fields, got 2$"),
        ("f.csv", CSV + "a,b,c,d\n", r"^f.csv:4: expected 3 comma-separated fields, got 4$"),
        ("f.csv", 'a,b,"c\nc"\na,b\n', r"^f.csv:3: expected 3 comma-separated fields, got 2$"),
        ("f.tsv", "a b c\n", r"^f.tsv:1: expected 3 tab-separated fields, or 4 with a weight, got 1$"),
        ("f.tsv", "a\tb\tc\td\te\n", r"^f.tsv:1: expected 3 tab-separated fields, or 4 with a weight, got 5$"),
        ("f.tsv", "a\tr\tb\na\tr\t\n", r"^f.tsv:2: empty object$"),
        ("f.tsv", "a\tr\tb\n\tr\tb\n", r"^f.tsv:2: empty subject$"),
        ("f.tsv", "a\tr\tb\n\n\na\t\tb\n", r"^f.tsv:4: empty relation$"),
        ("f.tsv", "a\tr\t\na\tr\n", r"^f.tsv:1: empty object$"),
        ("f.tsv", "a\tr\tb\t0.5\na\tr\tc\thigh\n", r"^f.tsv:2: expected a number as weight .* got 'high'$"),
        ("f.tsv", "a\tr\tb\t0.5\na\tr\tc\t\n", r"^f.tsv:2: expected a number as weight .* got ''$"),
        ("f.tsv", "a\tr\tb\tx\n", r"^f.tsv:1: expected a number as weight in the fourth column, got 'x'$"),
        (
            "f.tsv",
            "a\tr\tb\t0.5\na\tr\tc\t-1\n",
            r"^f.tsv:2: weights are confidences, finite and at least 0, got -1.0$",
        ),
        ("f.tsv", "a\tr\tb\tnan\n", r"^f.tsv:1: weights are confidences, .* got nan$"),
        ("f.tsv", "a\tr\tb\tinf\n", r"^f.tsv:1: weights are confidences, .* got inf$"),
        ("f.tsv", b"a\tr\tb\na\tr\tM\xfcller\n", r"^f.tsv:2: is not valid UTF-8; save the file as UTF-8$"),
        ("f.csv", 'a,r,b\n"a,r,b\nc,d,e\n', r"^f.csv:2: unexpected end of data$"),
        ("f.tsv", "", r"^f.tsv: contains no facts$"),
        ("f.tsv", "\n\n", r"^f.tsv: contains no facts$"),
        ("f.tsv", "s\tp\to\n", r"^f.tsv: contains no facts$"),
    ],
)
def test_a_fault_is_reported_with_its_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(name, content))


def test_lines_are_counted_in_the_uncompressed_file(write):
    with pytest.raises(DataError, match=r"^family.tsv.gz:4: expected 3 tab-separated fields, got 2$"):
        read(write("family.tsv.gz", gzip.compress((TSV + "Ann\tlikes\n").encode())))


def test_a_fact_with_two_weights_is_reported_with_both_lines(write):
    content = "s\tp\to\tweight\na\tr\tb\t0.5\nb\tr\ta\t1\na\tr\tb\t0.7\n"
    with pytest.raises(
        DataError, match=r"^w.tsv:4: gives weight 0.7 to a fact that has weight 0.5 at w.tsv:2; keep one"
    ):
        read(write("w.tsv", content))


def test_a_number_only_python_understands_is_still_refused(write):
    with pytest.raises(DataError, match=r"^w.tsv: .*invalid value '1_0'"):
        read(write("w.tsv", "a\tr\tb\t1_0\n"))


# --- faults of files


def test_a_missing_file_a_folder_and_an_unknown_extension_are_told_apart(write, tmp_path):
    with pytest.raises(DataError, match=r"^nowhere.tsv: no such file$"):
        read("nowhere.tsv")
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(DataError, match=r"^folder.tsv: is a folder, expected a file of facts$"):
        read("folder.tsv")
    for name in ("facts.xlsx", "facts", "facts.gz", "facts.nq"):
        with pytest.raises(
            DataError, match=rf"^{name}: unknown file extension; use one of .tsv, .*\.ttl, optionally followed by .gz"
        ):
            read(write(name, TSV))


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("zst", zst), ("bz2", bz2.compress)])
def test_a_compressed_file_cut_short_is_refused(write, suffix, compress):
    whole = compress("".join(f"e{i * 7919 % 10007}\tr\te{i}\n" for i in range(10_000)).encode())
    for end in (len(whole) // 2, len(whole) - 2):
        with pytest.raises(DataError, match=rf"^cut.tsv.{suffix}: cannot be read: .*[Tt]runcated"):
            read(write(f"cut.tsv.{suffix}", whole[:end]))


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_plain_file_that_claims_to_be_compressed_is_refused(write, suffix):
    with pytest.raises(DataError, match=rf"^family.tsv.{suffix}: cannot be read: "):
        read(write(f"family.tsv.{suffix}", TSV))


def test_messages_are_one_line(write):
    with pytest.raises(DataError) as caught:
        read(write("broken.parquet", b"PAR1" + b"x" * 50 + b"PAR1"))
    assert "\n" not in str(caught.value)


# --- tables


def table():
    return pa.table(dict(zip("abc", zip(*FAMILY, strict=True), strict=True)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: table(),
        lambda: table().to_batches()[0],
        lambda: pa.RecordBatchReader.from_batches(table().schema, table().to_batches()),
        lambda: pd.DataFrame(FAMILY),
        lambda: pd.DataFrame(FAMILY).astype("category"),
        lambda: pd.DataFrame(FAMILY, columns=["x", "y", "z"]).astype(object),
        lambda: pl.DataFrame(FAMILY, schema=["x", "y", "z"], orient="row"),
        lambda: pl.DataFrame(FAMILY, schema=["x", "y", "z"], orient="row").cast(pl.Categorical),
    ],
    ids=["arrow", "batch", "reader", "pandas", "categorical", "object", "polars", "polars-categorical"],
)
def test_tables_of_any_make_are_read(build):
    assert is_family(read(build()))


def test_the_index_of_a_pandas_table_is_not_a_column():
    frame = pd.DataFrame([("x", "y", "z"), *FAMILY])
    assert is_family(read(frame[frame[0] != "x"]))


def test_categories_and_dictionary_values_that_no_row_uses_are_not_entities():
    frame = pd.DataFrame([("Zed", "hates", "Yan"), *FAMILY]).astype("category")
    facts = read(frame.iloc[1:])
    assert is_family(facts)
    assert list(facts.relations) == ["married", "parent"]


def test_whole_numbers_in_a_table_become_names_as_they_would_in_a_file(write):
    facts = read(pd.DataFrame({"s": [10, 2], "p": [0, 0], "o": [2, 3]}))
    assert facts.named() == read(write("numbers.tsv", "10\t0\t2\n2\t0\t3\n")).named()


def test_usual_column_names_of_a_table_are_followed_in_any_order():
    frame = pd.DataFrame([(o, s, r, 0.5) for s, r, o in FAMILY], columns=["tail", "head", "relation", "weight"])
    facts = read(frame)
    assert is_family(facts)
    assert facts.weights.tolist() == [0.5] * 3


def test_columns_pick_from_a_wide_table():
    frame = pl.DataFrame([(1, *fact) for fact in FAMILY], schema=["id", "who", "what", "whom"], orient="row")
    assert is_family(read(frame, columns=("who", "what", "whom")))
    assert read(frame, columns=("who", "what", "whom", "id")).weights.tolist() == [1.0] * 3


def with_cell(row, column, value):
    facts = [list(fact) for fact in FAMILY]
    facts[row][column] = value
    return pd.DataFrame(facts)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (with_cell(1, 2, None), r"^table: row 2: missing object$"),
        (with_cell(2, 0, np.nan), r"^table: row 3: missing subject$"),
        (with_cell(1, 1, ""), r"^table: row 2: empty relation$"),
        (with_cell(1, 1, 3), r"^table: cannot be read: "),
        (pd.DataFrame({"s": [1.5], "p": ["r"], "o": ["b"]}), r"^table: column 's' must hold names, got .* double$"),
        (pd.DataFrame(FAMILY).assign(w=["x", "y", "z"]), r"^table: the fourth column 'w' must hold numbers"),
        (pd.DataFrame(FAMILY).assign(w=[1, np.nan, 1]), r"^table: row 2: missing weight$"),
        (pd.DataFrame(FAMILY).assign(w=[1, 1, -0.5]), r"^table: row 3: weights are confidences, .* got -0.5$"),
        (pl.DataFrame({"s": ["a"], "p": ["r"], "o": ["b"], "w": [float("nan")]}), r"^table: row 1: .* got nan$"),
        (pd.DataFrame(FAMILY)[[0, 1]], r"^table: expected 3 columns, or 4 with a weight, got 2; choose with columns="),
        (pd.DataFrame(FAMILY).iloc[:0].astype(object), r"^table: contains no facts$"),
        (pl.Series(["a"]), r"^table: cannot be read: "),
        (FAMILY, r"^cannot read facts from 'list'; pass a path, or a pandas, polars or Arrow table"),
    ],
)  # fmt: skip
def test_a_fault_in_a_table_is_reported_with_its_row(source, message):
    with pytest.raises(DataError, match=message):
        read(source)


def test_nulls_among_dictionary_values_are_found():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["Ann", None]))
    with pytest.raises(DataError, match=r"^table: row 2: missing subject$"):
        read(pa.table({"s": column, "p": ["r"] * 3, "o": ["b"] * 3}))


# --- Parquet


@pytest.mark.parametrize("row_group_size", [1, 100])
def test_parquet_is_read(write, row_group_size):
    pq.write_table(table(), "family.parquet", row_group_size=row_group_size)
    assert is_family(read("family.parquet"))


def test_compressed_parquet_is_read(write, tmp_path):
    pq.write_table(table(), "family.parquet")
    assert is_family(read(write("family.parquet.gz", gzip.compress((tmp_path / "family.parquet").read_bytes()))))


def test_parquet_with_weights_and_more_columns_is_read(write):
    pq.write_table(
        table().append_column("w", pa.array([1, 2, 3])).append_column("n", pa.array([[1], [2], [3]])), "w.parquet"
    )
    assert read("w.parquet", columns=("a", "b", "c", "w")).weights.tolist() == [3.0, 1.0, 2.0]
    with pytest.raises(DataError, match=r"^w.parquet: column 'n' must hold names, got values of type list<"):
        read("w.parquet", columns=("a", "b", "n"))


def test_a_null_in_parquet_is_reported_with_its_row(write):
    pq.write_table(pa.table({"s": ["a", "b"], "p": ["r", None], "o": ["c", "d"]}), "null.parquet")
    with pytest.raises(DataError, match=r"^null.parquet: row 2: missing relation$"):
        read("null.parquet")


def test_a_parquet_file_cut_short_is_refused(write, tmp_path):
    pq.write_table(table(), "family.parquet")
    whole = (tmp_path / "family.parquet").read_bytes()
    with pytest.raises(DataError, match=r"^cut.parquet: .*[Pp]arquet"):
        read(write("cut.parquet", whole[: len(whole) // 2]))


# --- RDF


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("family.nt", NT.encode()),
        ("family.nt.gz", gzip.compress(NT.encode())),
        ("family.nt.zst", zst(NT.encode())),
        ("bom.nt", b"\xef\xbb\xbf" + NT.encode()),
        ("family.ttl", b"@prefix : <http://x/> .\n:Ann :parent :Bob .\n:Bob :parent :Cid ; :married :Eva .\n"),
    ],
)
def test_rdf_is_read_with_addresses_as_names(write, name, content):
    facts = read(write(name, content))
    assert sorted(facts.named()) == sorted(tuple(f"http://x/{part}" for part in fact) for fact in FAMILY)
    assert list(facts.entities) == sorted(facts.entities)


def test_facts_about_literals_are_left_out_and_counted(write):
    name = write("family.nt", NT + '<http://x/Ann> <http://x/age> "42" .\n<http://x/Bob> <http://x/name> "Bob"@en .\n')
    with pytest.warns(DataWarning, match=r"^family.nt: left out 2 facts whose object is a literal"):
        facts = read(name)
    assert len(facts) == 3
    assert facts.n_relations == 2


def test_blank_nodes_keep_their_labels_and_unnamed_ones_are_numbered(write):
    assert "_:x" in read(write("blank.nt", "_:x <http://x/p> <http://x/b> .\n")).entities
    name = write("blank.ttl", "@prefix : <http://x/> . :a :p [ :q :b ] , [ :q :c ] .")
    assert list(read(name).entities) == ["_:unnamed-0", "_:unnamed-1", "http://x/a", "http://x/b", "http://x/c"]
    assert read(name).fingerprint == read(name).fingerprint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.nt", NT + "<http://x/Ann> <http://x/p> .\n", r"^f.nt:4: "),
        ("f.ttl", "@prefix : <http://x/> .\n\n:a :b .\n", r"^f.ttl:3: "),
        ("f.nt", b"<http://x/a> <http://x/p> <http://x/\xff> .\n", r"^f.nt:1: Invalid UTF-8"),
        ("f.nt", "<http://a> <http://b> <http://c> <http://graph> .\n", r"^f.nt:1: "),
        ("f.ttl", "@prefix : <http://x/> .\n:a :b <<( :c :d :e )>> .\n", r"^f.ttl: a triple about a triple"),
        ("f.nt", "", r"^f.nt: contains no facts$"),
        ("f.nt", '<a:b> <a:b> "c" .\n', r"^f.nt: contains no facts; every object is a literal \(triples: 1\)$"),
        ("f.nt.gz", gzip.compress(NT.encode() * 99)[:60], r"^f.nt.gz: cannot be read: .*[Tt]runcated"),
    ],
)  # fmt: skip
def test_a_fault_in_rdf_is_reported_with_its_line(write, name, content, message):
    with pytest.raises(DataError, match=message):
        read(write(name, content))


def test_rdf_has_no_columns(write):
    with pytest.raises(DataError, match=r"^family.nt: RDF has no columns to choose from, got columns="):
        read(write("family.nt", NT), columns=("s", "p", "o"))


@pytest.mark.parametrize("header", ["subject,relation,object,year", "year,subject,relation,object", "id,year,s,p,o"])
def test_columns_beside_the_named_ones_are_left_out(tmp_path, header):
    path = tmp_path / "more.csv"
    names = header.split(",")
    row = {"subject": "Ann", "s": "Ann", "relation": "likes", "p": "likes", "object": "Bob", "o": "Bob"}
    path.write_text(header + "\n" + ",".join(row.get(name, "1950") for name in names) + "\n")
    facts = read(path)
    assert facts.named() == [("Ann", "likes", "Bob")]
    assert facts.weights is None


def test_a_fourth_column_of_a_table_is_a_weight_only_by_name():
    columns = {"a": ["Ann"], "b": ["likes"], "c": ["Bob"]}
    assert read(pa.table(columns | {"weight": [0.5]})).weights.tolist() == [0.5]
    with pytest.raises(DataError, match="expected 3 columns, or 4 with a weight, got 4; choose with columns="):
        read(pa.table(columns | {"year": [1950]}))


# --- counts


def test_a_fourth_column_called_count_says_how_often_a_fact_was_seen(tmp_path):
    path = tmp_path / "seen.tsv"
    path.write_text("subject\trelation\tobject\tcount\nAnn\tmet\tBob\t3\nAnn\tmet\tCid\t1\nAnn\tmet\tBob\t2\n")
    facts = read(path)
    assert facts.named() == [("Ann", "met", "Bob"), ("Ann", "met", "Cid")]
    assert facts.times.tolist() == [5, 1]
    assert facts.weights is None


def test_tables_may_count_as_well():
    table = pd.DataFrame({"s": ["a"], "k": ["met"], "o": ["b"], "times": [4]})
    assert read(table).times.tolist() == [4]
    assert read(table, columns=("s", "k", "o", "times")).times.tolist() == [4]


@pytest.mark.parametrize("count", ["0", "2.5", "-1", "inf"])
def test_counts_are_whole_numbers(tmp_path, count):
    path = tmp_path / "seen.tsv"
    path.write_text(f"subject\trelation\tobject\tcount\nAnn\tmet\tBob\t{count}\n")
    with pytest.raises(DataError, match=rf"seen.tsv:2: counts are whole numbers of at least 1, got {count}"):
        read(path)


def test_weights_and_counts_at_once_are_refused(tmp_path):
    path = tmp_path / "both.csv"
    path.write_text("subject,relation,object,weight,count\na,r,b,.5,2\n")
    with pytest.raises(
        DataError, match="columns 'weight' and 'count' hold weights and counts; choose one with columns="
    ):
        read(path)


# --- progress


@pytest.mark.parametrize("name", ["long.tsv", "long.tsv.gz", "long.nt", "long.nt.gz", "long.ttl", "long.parquet"])
def test_progress_counts_the_bytes_of_the_file_and_the_facts(write, tmp_path, monkeypatch, name):
    for module in ("delimited", "ntriples"):
        monkeypatch.setattr(f"relatent.data.read.{module}.BLOCK_BYTES", 4096)
    monkeypatch.setattr("relatent.data.read.frames.ROWS_PER_BATCH", 100)
    monkeypatch.setattr("relatent.data.read.rdf.TRIPLES_PER_BLOCK", 100)
    facts = [(f"http://x/{i}", "http://x/r", f"http://x/{i * 7 % 1000}") for i in range(1000)]
    row = "{}\t{}\t{}\n" if "tsv" in name else "<{}> <{}> <{}> .\n"
    text = "".join(row.format(*fact) for fact in facts)
    if name.endswith("parquet"):
        pq.write_table(pa.table(dict(zip("spo", zip(*facts, strict=True), strict=True))), name)
    else:
        write(name, gzip.compress(text.encode()) if name.endswith("gz") else text)
    reports = []
    assert len(read(name, progress=lambda *report: reports.append(report))) == 1000
    done, total, notes = zip(*reports, strict=True)
    assert len(reports) > 5
    assert list(done) == sorted(done)
    assert set(total) == {(tmp_path / name).stat().st_size}
    assert done[-1] == total[0]
    assert notes[-1] == "1,000 facts"


def test_progress_counts_the_rows_of_a_table(monkeypatch):
    monkeypatch.setattr("relatent.data.read.frames.ROWS_PER_BATCH", 2)
    reports = []
    read(pd.DataFrame(FAMILY), progress=lambda *report: reports.append(report))
    assert reports == [(2, 3, "2 facts"), (3, 3, "3 facts")]


# --- many blocks


def test_weights_counts_and_faults_are_found_in_every_block(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.delimited.BLOCK_BYTES", 4096)
    rows = [(f"e{i % 700}", f"r{i % 3}", f"e{i * 31 % 701}", i % 700 + 1) for i in range(3000)]
    text = "".join("{}\t{}\t{}\t{}\n".format(*row) for row in rows)
    weighted = read(write("w.tsv", text))
    same = Facts.from_arrays(*zip(*(row[:3] for row in rows), strict=True), weights=[row[3] for row in rows])
    assert weighted.fingerprint == same.fingerprint
    counted = read(write("c.tsv", "s\tp\to\tcount\n" + text + text))
    np.testing.assert_array_equal(counted.times, 2 * weighted.weights)
    for wrong, message in (("a\tr\t\t1", "empty object"), ("a\tr\tb\t-1", "weights are"), ("a\tr\tb", "expected 4")):
        with pytest.raises(DataError, match=rf"^w.tsv:3001: {message}"):
            read(write("w.tsv", text + wrong + "\n"))
    with pytest.raises(DataError, match=r"^w.tsv:3001: gives weight 9.0 to a fact that has weight 1.0 at w.tsv:1;"):
        read(write("w.tsv", text + "e0\tr0\te0\t9\n"))


def test_a_long_table_is_read_as_a_long_file_is(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.frames.ROWS_PER_BATCH", 100)
    rows = [(f"e{i % 70}", f"r{i % 3}", f"e{i * 31 % 71}") for i in range(1000)]
    expected = read(write("f.tsv", "".join("\t".join(row) + "\n" for row in rows)))
    frame = pd.DataFrame(rows, columns=["s", "p", "o"])
    pq.write_table(pa.Table.from_pandas(frame), "f.parquet", row_group_size=300)
    for source in (frame, frame.astype("category"), pl.DataFrame(frame), "f.parquet"):
        facts = read(source)
        assert facts.named() == expected.named()
        assert facts.entities == expected.entities
    with pytest.raises(DataError, match=r"^table: row 778: missing object$"):
        read(frame.assign(o=[None if i == 777 else row[2] for i, row in enumerate(rows)]))


def test_parquet_columns_whose_names_pick_no_column_are_taken_by_place(write):
    pq.write_table(pa.Table.from_arrays([pa.array([part]) for part in "xyz"], names=["a.b", "a", "c"]), "odd.parquet")
    assert read("odd.parquet").named() == [("x", "y", "z")]

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from family import FAMILY, TSV, is_family

from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning


def test_a_first_row_with_other_names_is_a_fact_unless_header_is_true(write):
    name = write("family.tsv", f"child\tof\tperson\n{TSV}")
    with pytest.warns(
        DataWarning, match=r"^family.tsv: the first row \('child', 'of', 'person'\) was read as a fact, but"
    ):
        assert len(read(name)) == 4
    assert len(read(name, header=False)) == 4
    assert is_family(read(name, header=True))


def test_header_false_makes_the_first_row_a_fact(write):
    assert ("s", "p", "o") in read(write("letters.tsv", "s\tp\to\no\tp\ts\n"), header=False).named()


def test_columns_pick_fields_by_name_from_a_wide_file(write):
    wide = "id,who,what,whom,sure\n" + "".join(f"{i},{s},{r},{o},0.{i + 1}\n" for i, (s, r, o) in enumerate(FAMILY))
    name = write("wide.csv", wide)
    assert is_family(read(name, columns=("who", "what", "whom")))
    assert read(name, columns=("who", "what", "whom", "sure")).weights.tolist() == [0.3, 0.1, 0.2]


def test_a_missing_column_is_named_in_the_error(write):
    name = write("wide.csv", "a,b,c\nx,y,z\n")
    with pytest.raises(DataError, match=r"wide.csv:1: no column 'h'; there are 'a', 'b', 'c'"):
        read(name, columns=("h", "b", "c"))
    with pytest.raises(DataError, match=r"more than one column 'a'"):
        read(write("double.csv", "a,a,b,c\nx,x,y,z\n"), columns=("a", "b", "c"))


def test_columns_must_be_three_or_four_different_names(write):
    name = write("family.tsv", TSV)
    for wrong in (("a",), "abc", ("a", "a", "b"), 5, {"subject": "a"}, {"subject": "a", "object": "b", "time": "c"}):
        with pytest.raises(DataError, match="columns must be 2, 3 or 4 different column names"):
            read(name, columns=wrong)
    with pytest.raises(DataError, match=r"^header=False says that the first row has no column names, but columns= "):
        read(name, columns=("a", "b", "c"), header=False)


@pytest.mark.parametrize("source", ["table", "frame", "file", "parquet"])
def test_a_fourth_column_of_numbers_is_a_weight_wherever_it_comes_from(source, tmp_path):
    columns = {"a": ["Ann", "Bob", "Cid"], "b": ["likes"] * 3, "c": ["Bob", "Cid", "Ann"]}

    options = {"header": True} if source == "file" else {}

    def given(name: str, values: list) -> object:
        table = pa.table(columns | {name: values})
        if source == "table":
            return table
        if source == "frame":
            return table.to_pandas()
        if source == "parquet":
            pq.write_table(table, tmp_path / "f.parquet")
            return tmp_path / "f.parquet"
        table.to_pandas().to_csv(tmp_path / "f.csv", index=False)
        return tmp_path / "f.csv"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(given("weight", [0.5, 0.25, 1.0]), **options).weights.tolist() == [0.5, 0.25, 1.0]
    with pytest.warns(DataWarning, match="took column 'trust' as weights; columns=\\(0, 1, 2\\) leaves them out"):
        assert read(given("trust", [0.5, 0.25, 1.0]), **options).weights.tolist() == [0.5, 0.25, 1.0]
    with pytest.raises(DataError, match="weight"):
        read(given("note", ["old", "new", "old"]), **options)


def test_a_fourth_column_called_count_says_how_often_a_fact_was_seen(tmp_path):
    path = tmp_path / "seen.tsv"
    path.write_text("subject\trelation\tobject\tcount\nAnn\tmet\tBob\t3\nAnn\tmet\tCid\t1\nAnn\tmet\tBob\t2\n")
    facts = read(path)
    assert facts.named() == [("Ann", "met", "Bob"), ("Ann", "met", "Cid")]
    assert facts.times.tolist() == [5, 1]
    assert facts.weights is None


@pytest.mark.parametrize("count", ["0", "2.5", "-1", "inf"])
def test_counts_are_whole_numbers(tmp_path, count):
    path = tmp_path / "seen.tsv"
    path.write_text(f"subject\trelation\tobject\tcount\nAnn\tmet\tBob\t{count}\n")
    with pytest.raises(DataError, match=rf"seen.tsv:2: counts are whole numbers of at least 1, got {count}"):
        read(path)


def test_both_weights_and_counts_are_an_error(tmp_path):
    path = tmp_path / "both.csv"
    path.write_text("subject,relation,object,weight,count\na,r,b,.5,2\n")
    with pytest.raises(
        DataError, match="columns 'weight' and 'count' hold weights and counts; choose one, as columns="
    ):
        read(path)

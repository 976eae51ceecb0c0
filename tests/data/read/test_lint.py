"""What is odd, but legal, is said and read as it is."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from relatent.data.read.read import read
from relatent.errors import DataWarning

ROWS = "Ann,likes,Bob\nBob,likes,Cid\n"
SAID = r"the names of the columns \('subject', 'relation', 'object'\) stand in a row, too, which was read as a fact"


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_header_in_the_middle_is_said_and_not_mended(write, separator):
    header = "subject,relation,object\n"
    text = (header + ROWS + header + "Cid,likes,Ann\n").replace(",", separator)
    with pytest.warns(DataWarning, match=SAID):
        facts = read(write("f.csv" if separator == "," else "f.tsv", text))
    assert ("subject", "relation", "object") in facts.named()
    assert len(facts) == 4


def test_a_header_in_the_middle_of_pairs_and_of_other_columns(write):
    pairs = write("f.csv", "source,target\na,b\nsource,target\nc,d\n")
    with pytest.warns(
        DataWarning, match=r"the first row \('source', 'target'\) was read as a fact, as its values occur"
    ):
        assert len(read(pairs)) == 3
    with pytest.warns(DataWarning, match=r"names of the columns \('source', 'target'\) stand in a row"):
        assert len(read(pairs, header=True)) == 3
    text = "note,object,relation,subject\nx,b,r,a\nnote,object,relation,subject\n"
    with pytest.warns(DataWarning, match=SAID):
        assert len(read(write("f.csv", text))) == 2


def test_a_header_in_the_middle_of_other_tables(tmp_path):
    table = pa.table(
        {name: [value, name] for name, value in zip(("subject", "relation", "object"), "arb", strict=True)}
    )
    parquet.write_table(table, tmp_path / "f.parquet")
    with pytest.warns(DataWarning, match=SAID):
        read(tmp_path / "f.parquet")


def test_names_of_columns_in_different_rows_are_names(write):
    """Entities that are called as the columns are, but no row that is the header."""
    text = "subject,relation,object\nsubject,likes,object\nAnn,relation,object\nsubject,relation,Bob\n"
    assert len(read(write("f.csv", text))) == 3

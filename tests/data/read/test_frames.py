import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from family import FAMILY, is_family, table

from relatent.data.read.read import read
from relatent.errors import DataError


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
def test_pandas_polars_and_arrow_tables_are_read(build):
    assert is_family(read(build()))


def test_categories_and_dictionary_values_that_no_row_uses_are_not_entities():
    frame = pd.DataFrame([("Zed", "hates", "Yan"), *FAMILY]).astype("category")
    facts = read(frame.iloc[1:])
    assert is_family(facts)
    assert list(facts.relations) == ["married", "parent"]


def with_cell(row, column, value):
    facts = [list(fact) for fact in FAMILY]
    facts[row][column] = value
    return pd.DataFrame(facts)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (with_cell(1, 2, None), r"^table: row 2: missing object in the row \(.*\); skip_bad_rows=True"),
        (with_cell(2, 0, np.nan), r"^table: row 3: missing subject in the row \(.*\); skip_bad_rows=True"),
        (with_cell(1, 1, ""), r"^table: row 2: empty relation in the row \(.*\); skip_bad_rows=True"),
        (with_cell(1, 1, 3), r"^table: cannot be read: "),
        (pd.DataFrame({"s": [1.5], "p": ["r"], "o": ["b"]}), r"^table: column 's' must hold names, got .* double$"),
        (pd.DataFrame(FAMILY).assign(w=["x", "y", "z"]), r"^table: row 1: expected a number as weight .* got 'x'"),
        (pd.DataFrame(FAMILY).assign(w=[1, np.nan, 1]), r"^table: row 2: missing weight; skip_bad_rows=True"),
        (pd.DataFrame(FAMILY).assign(w=[1, 1, -0.5]), r"^table: row 3: .* got -0.5; skip_bad_rows=True"),
        (pl.DataFrame({"s": ["a"], "p": ["r"], "o": ["b"], "w": [float("nan")]}), r"^table: row 1: .* got nan; skip"),
        (
            pd.DataFrame([("Ann", "likes", "Bob", "18.03.")], columns=["a", "b", "c", "when"]),
            r"^table: the fourth column is no weight: it holds '18.03.', not numbers; columns=\(0, 1, 2\) leaves it "
            r"out; there are 'a', 'b', 'c', 'when'$",
        ),
        (pd.DataFrame(FAMILY)[[0]], r"^table: expected 3 columns, .* got 1; choose with columns="),
        (pd.DataFrame(FAMILY).iloc[:0].astype(object), r"^table: contains no facts$"),
        (pl.Series(["a"]), r"^table: cannot be read: "),
        ({"a": 1}, r"^cannot read facts from 'dict'; pass a path, a pandas, polars or Arrow table"),
    ],
)  # fmt: skip
def test_a_fault_in_a_table_is_reported_with_its_row(source, message):
    with pytest.raises(DataError, match=message):
        read(source)


def test_nulls_among_dictionary_values_are_found():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["Ann", None]))
    with pytest.raises(DataError, match=r"^table: row 2: missing subject in the row \(.*\); skip_bad_rows=True"):
        read(pa.table({"s": column, "p": ["r"] * 3, "o": ["b"] * 3}))


def test_a_long_table_is_read_as_a_long_file_is(write, monkeypatch):
    monkeypatch.setattr("relatent.data.read.table.ROWS_PER_BATCH", 100)
    rows = [(f"e{i % 70}", f"r{i % 3}", f"e{i * 31 % 71}") for i in range(1000)]
    expected = read(write("f.tsv", "".join("\t".join(row) + "\n" for row in rows)))
    frame = pd.DataFrame(rows, columns=["s", "p", "o"])
    pq.write_table(pa.Table.from_pandas(frame), "f.parquet", row_group_size=300)
    for source in (frame, frame.astype("category"), pl.DataFrame(frame), "f.parquet"):
        facts = read(source)
        assert facts.named() == expected.named()
        assert facts.entities == expected.entities
    with pytest.raises(DataError, match=r"^table: row 778: missing object in the row \(.*\); skip_bad_rows=True"):
        read(frame.assign(o=[None if i == 777 else row[2] for i, row in enumerate(rows)]))

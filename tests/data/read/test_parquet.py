import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from family import is_family, table

from relatent.data.read.read import read
from relatent.errors import DataError


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


def test_a_parquet_file_cut_short_is_refused(write, tmp_path):
    pq.write_table(table(), "family.parquet")
    whole = (tmp_path / "family.parquet").read_bytes()
    with pytest.raises(DataError, match=r"^cut.parquet: .*[Pp]arquet"):
        read(write("cut.parquet", whole[: len(whole) // 2]))


def test_parquet_columns_with_dots_in_their_names_are_read(write):
    pq.write_table(pa.Table.from_arrays([pa.array([part]) for part in "xyz"], names=["a.b", "a", "c"]), "odd.parquet")
    assert read("odd.parquet").named() == [("x", "y", "z")]

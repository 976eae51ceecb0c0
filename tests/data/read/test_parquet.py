import gzip
import subprocess
import sys

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


DAMAGED = """
import random, sys, warnings
import relatent
from relatent.errors import DataError
warnings.simplefilter("ignore")
content, rng, refused = open(sys.argv[1], "rb").read(), random.Random(0), 0
for number in range(400):
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        changed[rng.randrange(len(content) // 2, len(content))] = rng.choice([0, 127, 255, rng.randrange(256)])
    open("changed.parquet", "wb").write(changed)
    try:
        relatent.read("changed.parquet", attributes=number % 3 == 0 or None)
    except DataError as problem:
        assert "\\n" not in str(problem)
        refused += 1
print(refused)
"""


def test_damaged_files_are_refused_and_do_not_end_the_process(tmp_path):
    """Arrow ends it where the metadata of a column is damaged, unless reading the column has failed before."""
    columns = {"subject": ["a", "b"] * 20, "relation": ["r"] * 40, "object": list(map(str, range(40))), "x": [1.5] * 40}
    encodings = {"subject": "DELTA_BYTE_ARRAY", "relation": "PLAIN"}
    pq.write_table(pa.table(columns), tmp_path / "f.parquet", use_dictionary=["object"], column_encoding=encodings)
    done = subprocess.run([sys.executable, "-c", DAMAGED, "f.parquet"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def test_every_encoding_of_names_is_read(write):
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"):
        encodings = dict.fromkeys(table().column_names, encoding)
        pq.write_table(table(), "family.parquet", use_dictionary=False, column_encoding=encodings)
        assert is_family(read("family.parquet"))


def test_names_that_share_a_prefix_take_no_more_than_a_batch(tmp_path):
    """A value in this encoding may repeat the whole one before it in a byte."""
    pq.write_table(
        pa.table({"s": ["x" * 1_000_000] * 500, "p": ["r"] * 500, "o": list(map(str, range(500)))}),
        tmp_path / "f.parquet",
        use_dictionary=False,
        column_encoding={"s": "DELTA_BYTE_ARRAY", "p": "PLAIN", "o": "PLAIN"},
        compression="zstd",
    )
    with pytest.raises(DataError, match="its content is more than 200 times as long as the file"):
        read(tmp_path / "f.parquet")

import bz2
import gzip

import pytest
from family import CSV, TSV, is_family, zst

from relatent.data.read.read import read
from relatent.errors import DataError


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("zst", zst), ("bz2", bz2.compress)])
@pytest.mark.parametrize(("kind", "text"), [("tsv", TSV), ("csv", CSV)])
def test_compressed_text_is_read(write, suffix, compress, kind, text):
    assert is_family(read(write(f"family.{kind}.{suffix}", compress(text.encode()))))


def test_a_missing_file_a_folder_and_an_unknown_extension_are_told_apart(write, tmp_path):
    with pytest.raises(DataError, match=r"^nowhere.tsv: no such file$"):
        read("nowhere.tsv")
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(DataError, match=r"^folder.tsv: is a folder, expected a file of facts; for several files pass"):
        read("folder.tsv")
    for name in ("facts.dat", "facts", "facts.gz", "facts.doc"):
        with pytest.raises(
            DataError,
            match=rf"^{name}: unknown file extension; use one of .tsv, .*\.duckdb, optionally followed by .gz",
        ):
            read(write(name, TSV))


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("zst", zst), ("bz2", bz2.compress)])
def test_a_compressed_file_cut_short_is_refused(write, suffix, compress):
    whole = compress("".join(f"e{i * 7919 % 10007}\tr\te{i}\n" for i in range(10_000)).encode())
    for end in (len(whole) // 2, len(whole) - 2):
        with pytest.raises(DataError, match=rf"^cut.tsv.{suffix}: cannot be read: .*[Tt]runcated"):
            read(write(f"cut.tsv.{suffix}", whole[:end]))

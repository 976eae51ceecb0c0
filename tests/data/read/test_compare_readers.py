"""A few of the cases of `compare_readers.py`; `make fuzz` runs all."""

from compare_readers import run


def test_files_are_read_as_others_read_them_or_refused():
    assert {"csv equal, pandas too", "tsv equal, pandas too", "nt equal"} <= set(run(300))

import gzip

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from family import FAMILY, TSV, is_family

from relatent.data.read.read import read, read_if_table


@pytest.mark.parametrize("name", ["long.tsv", "long.tsv.gz", "long.nt", "long.nt.gz", "long.ttl", "long.parquet"])
def test_progress_counts_the_bytes_of_the_file_and_the_facts(write, tmp_path, monkeypatch, name):
    for module in ("delimited", "ntriples"):
        monkeypatch.setattr(f"relatent.data.read.{module}.BLOCK_BYTES", 4096)
    monkeypatch.setattr("relatent.data.read.parquet.ROWS_PER_BATCH", 100)
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
    monkeypatch.setattr("relatent.data.read.table.ROWS_PER_BATCH", 2)
    reports = []
    read(pd.DataFrame(FAMILY), progress=lambda *report: reports.append(report))
    assert reports == [(2, 3, "2 facts"), (3, 3, "3 facts")]


def test_progress_true_draws_no_bar_where_there_is_no_terminal(write, capsys):
    assert is_family(read(write("family.tsv", TSV), progress=True))
    assert is_family(read(pd.DataFrame(FAMILY), progress=True))
    assert capsys.readouterr() == ("", "")


def test_tables_are_read_where_facts_are_expected_and_nothing_else_is():
    assert is_family(read_if_table(pd.DataFrame(FAMILY)))
    assert read_if_table(FAMILY) is FAMILY
    facts = read(FAMILY)
    assert read_if_table(facts) is facts
    assert read(facts) is facts

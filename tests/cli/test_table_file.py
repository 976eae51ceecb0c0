"""Tables of results in files: the formats agree, and a file is complete or absent."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from relatent.cli.table_file import check_table_target, table_writer
from relatent.errors import InputError

KINDS = {"subject": str, "rank": int, "probability": float, "known": bool}
BLOCKS = [
    {
        "subject": ["Ann", 'B "Bo" b, Esq.'],
        "rank": [1, None],
        "probability": np.array([0.25, np.nan]),
        "known": [True, False],
    },
    {"subject": [None], "rank": [3], "probability": [1e-9], "known": [None]},
]
ROWS = [("Ann", 1, 0.25, True), ('B "Bo" b, Esq.', None, None, False), (None, 3, 1e-9, None)]


def written(path: Path) -> Path:
    with table_writer(path, KINDS) as write:
        for block in BLOCKS:
            write(block)
    return path


def test_parquet_and_json_lines_keep_types(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(written(tmp_path / "t.parquet"))
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    lines = written(tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()
    assert [tuple(json.loads(line).values()) for line in lines] == ROWS


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_text_has_a_header_and_empty_fields_for_no_value(tmp_path: Path, suffix: str) -> None:
    with written(tmp_path / f"t.{suffix}").open(encoding="utf-8", newline="") as file:
        tsv: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if suffix == "tsv" else {}
        rows = list(csv.reader(file, **tsv))
    assert rows[0] == list(KINDS)
    assert rows[1:] == [["Ann", "1", "0.25", "true"], ['B "Bo" b, Esq.', "", "", "false"], ["", "3", "1e-09", ""]]


def test_standard_output_is_csv(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    written(Path("-"))
    assert capfdbinary.readouterr().out.startswith(b"subject,rank,probability,known\nAnn,1,0.25,true\n")


def test_an_error_on_the_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("old")
    with pytest.raises(InputError, match="tab"), table_writer(path, {"name": str}) as write:
        write({"name": ["a\tb"]})
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    check_table_target(Path("-"))
    check_table_target(tmp_path / "t.csv")
    with pytest.raises(click.UsageError, match=r"must end in one of \.csv"):
        check_table_target(tmp_path / "t.xls")
    with pytest.raises(InputError, match="does not exist"):
        check_table_target(tmp_path / "none" / "t.csv")

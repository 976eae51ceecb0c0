"""Rows of CSV text that every reader splits as they were written."""

from __future__ import annotations

import csv
from typing import Any, TextIO


class _LineFeeds:
    """Ends rows with a line feed alone."""

    def __init__(self, file: TextIO):
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix("\r\n") + "\n")


def csv_writer(file: TextIO, **options: Any) -> Any:
    """A `csv.writer` that quotes, or refuses, carriage returns too: before Python 3.13 only those of its row ends."""
    return csv.writer(_LineFeeds(file), lineterminator="\r\n", **options)

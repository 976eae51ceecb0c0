import csv
import io

import pytest

from relatent.csv_rows import csv_writer

ROWS = [["a\rb", "c\nd", 'e"f'], ["g,h", "\r\n", " i"], ["", "j", "2.5"]]


def test_every_name_is_read_as_it_was_written():
    text = io.StringIO(newline="")
    csv_writer(text).writerows(ROWS)
    assert list(csv.reader(io.StringIO(text.getvalue(), newline=""), strict=True)) == ROWS
    assert text.getvalue().endswith(",j,2.5\n")


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\tb"])
def test_what_tsv_cannot_hold_is_refused(name):
    with pytest.raises(csv.Error):
        csv_writer(io.StringIO(), delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None).writerow([name])

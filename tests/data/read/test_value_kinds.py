import time
import warnings

import pandas as pd
import pyarrow as pa
import pytest

from relatent.data.read.read import read
from relatent.data.read.values import PLAIN, are_dates, are_measures, is_number, kind_of, notation_of
from relatent.errors import DataError, DataWarning


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,5", "2"], [1.5, 2]),
        (["1.234,5", "1.234"], [1234.5, 1234]),  # a point separates thousands if the column has decimal commas
        (["1,234.5", "1,234"], [1234.5, 1234]),
        (["1,234,567"], [1234567]),
        (["1 234", "1\u00a0234,5"], [1234, 1234.5]),
        (["1'234", "12"], [1234, 12]),  # the same number in both notations
        (["1.234", "2.5"], [1.234, 2.5]),
        (["+1,5", " -2,5 "], [1.5, -2.5]),
    ],
)
def test_a_column_of_numbers_has_one_notation(texts, numbers):
    notation = notation_of(texts)
    assert [notation.number(text) for text in texts] == numbers
    assert notation.numbers(pa.array(texts)).to_pylist() == numbers
    assert (notation is PLAIN) == (texts == ["1.234", "2.5"])


@pytest.mark.parametrize(
    "date",
    ["2024-12-31", "31.12.2024", "12/31/2024", "1/2/24", "2024-12-31T10:00:00Z", "31.12.2024 9:30", "1/2/2024 9:30 PM"],
)
def test_dates(date):
    assert are_dates([date, "2001-01-01"])
    assert kind_of([date, ""]) == "dates"


@pytest.mark.parametrize("name", ["2024", "1.2.3", "192.168.0.1", "99.99.2024", "2024-12", "Q1-2-2024", "12-345-6789"])
def test_what_is_no_date(name):
    assert not are_dates([name])


def test_the_row_that_breaks_the_notation_is_named(write):
    name = write(
        "f.csv",
        "source,target,hours\n" + 'a,b,"1,5"\n' + "".join(f'a,c{i},"2,5"\n' for i in range(1001)) + "a,d,2.5\n",
    )
    with pytest.raises(
        DataError, match=r"f.csv:1004: expected a number .* got '2.5' below numbers with decimal commas"
    ):
        read(name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert len(read(name, skip_bad_rows=True)) == 1002
    assert any("skipped 1 bad row" in str(warning.message) for warning in said)


def test_texts_of_a_data_frame_are_weights_too():
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "hours": ["1,5", "2,5"]})
    with pytest.warns(DataWarning, match="decimal commas"):
        assert read(frame).weights.tolist() == [1.5, 2.5]


def test_a_chosen_column_of_weights_may_have_decimal_commas(write):
    name = write("f.csv", 'a,b,c\nx,y,"1,5"\ny,x,"2,5"\n')
    with pytest.warns(DataWarning, match="decimal commas"):
        assert read(name, columns={"subject": "a", "object": "b", "weight": "c"}).weights.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("column", ["hours", "weight"])
def test_a_column_of_numbers_with_blanks_is_not_the_relation(write, column):
    name = write("f.csv", f"source,target,{column}\n" + "".join(f"a,b{i},{i % 3 or ''}\n" for i in range(30)))
    if column == "weight":
        with pytest.raises(
            DataError, match=r"'weight', the weight, is blank in 10 of the first 30 rows; columns=\('so"
        ):
            read(name)
        return
    with pytest.warns(DataWarning, match=r"without column 'hours', which holds numbers .* blank in 10 of the first 30"):
        facts = read(name)
    assert len(facts) == 30
    assert facts.weights is None


def test_ids_between_source_and_target_are_relations_and_measurements_weights(write):
    assert list(read(write("f.csv", "source,x,target\na,1,b\nb,2,c\n")).relations) == ["1", "2"]
    with pytest.warns(DataWarning, match="took column 'x' as weights"):
        assert read(write("f.csv", "source,x,target\na,1.5,b\nb,2,c\n")).weights.tolist() == [1.5, 2]


def test_relations_that_look_like_entities_are_doubted(write):
    rows = [(f"u{i % 40}", f"v{i % 39}", f"w{i % 41}") for i in range(120)]
    name = write("f.csv", "".join(",".join(row) + "\n" for row in rows))
    with pytest.warns(
        DataWarning, match=r"39 different values .*columns=\(0, 1\) reads an edge list, columns=\(0, 2, 1\)"
    ):
        read(name)
    ids = write("g.csv", "".join(f"{i % 9:03},{(i * 7) % 9:03},{'mail' if i % 2 else 'phone'}\n" for i in range(60)))
    with pytest.warns(DataWarning, match="column 2, read as relations, holds names that column 1 holds, too"):
        read(ids)


def test_the_option_relation_leaves_dates_out(write):
    name = write("f.csv", "Ann,Bob,2024-12-31\nCid,Dot,2024-12-30\n")
    assert read(name, relation="asks").named() == [("Ann", "asks", "Bob"), ("Cid", "asks", "Dot")]


def test_dates_may_be_blank_in_some_rows(write):
    rows = [f"p{i % 7},p{i % 5},{'31.12.2024' if i % 3 else ''}\n" for i in range(30)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        facts = read(write("asks.csv", "who,whom,day\n" + "".join(rows)))
    assert list(facts.relations) == ["linked"]
    assert "who" not in facts.entities
    assert "blank in 10 of the first 30 rows" in str(said[1].message)


def test_blank_rows_at_the_end_are_no_blank_weights(write):
    with pytest.warns(DataWarning, match="took column 'hours' as weights|left out 2 rows"):
        assert read(write("f.csv", "source,target,hours\na,b,1.5\nb,c,2\n,,\n,,\n")).weights.tolist() == [1.5, 2]


@pytest.mark.parametrize(
    "text", ["1" * 100_000 + "x", "1." * 50_000, "1," * 50_000 + "x", "1 " * 50_000 + "x", "1e" * 50_000]
)
def test_a_long_text_of_digits_is_judged_at_once(text):
    started = time.process_time()
    assert not is_number(text)
    assert not are_dates([text])
    assert not are_measures([text])
    assert time.process_time() - started < 2

"""Every input of the table in docs/inputs.md is read as the table says."""

import re
import warnings

import input_cases
import pytest
from input_cases import CASES, Case

from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_an_input_is_read_as_the_page_says(case: Case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = case.make()
    if case.facts is None:
        with pytest.raises(DataError, match=case.message) as caught:
            read(source, **case.options)
        assert "\n" not in str(caught.value)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        facts = read(source, **case.options)
    assert sorted(facts.named()) == sorted(set(map(tuple, case.facts)))
    if case.weights is None:
        assert facts.weights is None
    else:
        by_fact = dict(zip(case.facts, case.weights, strict=True))
        assert dict(zip(facts.named(), facts.weights.tolist(), strict=True)) == by_fact
    assert {one.category for one in said} <= {DataWarning}
    assert len(said) == (case.message.count("|") + 1 if case.message else 0), [str(one.message) for one in said]
    assert all(re.search(case.message, str(one.message)) for one in said)


def test_there_are_cases_of_every_kind_and_the_page_shows_them():
    assert len(CASES) >= 80
    assert len({case.title for case in CASES}) == len(CASES)
    assert input_cases.table() in input_cases.PAGE.read_text(encoding="utf-8")

"""Columns such as from_doctor and to_doctor are the two ends of an edge."""

from pathlib import Path

import pytest

import relatent


@pytest.mark.parametrize("header", ["from_doctor,to_doctor,patients", "source person,target person,letters"])
def test_two_names_with_one_ending_are_the_ends_of_an_edge(tmp_path: Path, header: str) -> None:
    rows = [f"g{i % 9},s{i % 7},{1 + i % 5}" for i in range(63)]  # no name is in both columns
    (tmp_path / "referrals.csv").write_text("\n".join([header, *rows]))
    with pytest.warns(relatent.DataWarning, match="weights of an edge list"):
        facts = relatent.read(tmp_path / "referrals.csv")
    assert list(facts.relations) == ["linked"]
    assert len(facts) == 63
    assert facts.weights is not None

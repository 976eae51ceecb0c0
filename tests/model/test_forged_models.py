import numpy as np
import pytest
from forged_models import attack, forge, header, models, replaced

import relatent
from relatent.errors import InputError, ModelFileError
from relatent.model import model_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forged")


def test_a_signed_header_with_any_value_is_read_or_refused_in_one_line(folder):
    assert attack(folder, n_per_place=1) > 250


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("frequency_power", "x"), ("frequency_power", 1e308), ("weight", 1e308), ("weight", 10**400)],
    ids=lambda value: str(value)[:20],
)
def test_a_forged_penalty_is_refused_when_it_is_needed(folder, parameter, value):
    source, target = models(folder)[0], folder / "penalty.relatent"
    forge(source, target, replaced(header(source), ("penalty", "parameters", parameter), value))
    factors = relatent.load(target)
    more = relatent.read([("a0", "likes", "a2"), ("a0", "likes", "a3")])  # a0 has more facts than others
    with pytest.raises(InputError, match=r"must be a finite number|the penalty of the factors is too large") as refused:
        relatent.explain(factors, "a0", "likes", "a1", known=more)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("name", ["A", "R"])
def test_factors_whose_scores_overflow_are_not_loaded(folder, name):
    source, target = models(folder)[1], folder / "huge.relatent"
    factor = getattr(relatent.load(source), name)
    forge(source, target, header(source), {name: np.full_like(factor, 1e30)})
    with pytest.raises(ModelFileError, match="has factors so large that scores may reach"):
        relatent.load(target)


def test_a_small_file_cannot_claim_a_billion_entities(folder, tmp_path, monkeypatch):
    source, target = models(folder)[2], tmp_path / "claim.relatent"
    many = {"A": np.zeros((10**9, 0), np.float32), "entity_names": None, "entity_offsets": None}
    forge(source, target, header(source), many)
    with pytest.raises(ModelFileError, match="1000000000 entities without vectors and names"):
        relatent.load(target)
    monkeypatch.setattr(model_file, "MAX_WITHOUT_BYTES", 5)  # larger models keep their numbers as names
    facts = relatent.Facts.from_arrays([0, 1, 6], [0, 0, 0], [1, 2, 5])
    rules = relatent.load(source).patterns
    factors = relatent.Factors(
        np.zeros((7, 0)), np.zeros((1, 0, 0)), np.zeros(1), facts.entities, facts.relations,
        patterns=type(rules).of_rules(facts, rules.codes[:, 0], [(0,)] * len(rules.codes), rules.weights),
    )  # fmt: skip
    factors.save(target)
    assert list(relatent.load(target).entities) == list("0123456")

import numpy as np
import pytest

from relatent import Factors, RescalLogit, read, similar
from relatent.analysis.similarity import profiles
from relatent.errors import InputError
from sparse_graphs import sparse_graph


def test_profiles_compare_all_scores_of_two_entities(random_factors):
    f = random_factors
    A = f.A - f.A.mean(axis=0)
    rows = np.concatenate([x for R in f.R for x in (f.A @ R @ A.T, f.A @ R.T @ A.T)], axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    B = profiles(f)
    np.testing.assert_allclose(B @ B.T, rows @ rows.T, atol=1e-12)


def test_directions_that_no_relation_uses_do_not_count(random_factors):
    f = random_factors
    wide = np.concatenate([f.A, 100 * np.random.default_rng(1).normal(size=(9, 1))], axis=1)
    R = np.zeros((2, 4, 4))
    R[:, :3, :3] = f.R
    wider = Factors(wide, R, f.bias, f.entities, f.relations)
    np.testing.assert_allclose(profiles(wider) @ profiles(wider).T, profiles(f) @ profiles(f).T, atol=1e-10)


def test_the_members_of_ones_own_camp_are_the_most_similar(two_camps):
    found = similar(two_camps[1], "p4", k=9)
    assert {entity.name for entity in found} == {f"p{i}" for i in range(0, 20, 2)} - {"p4"}
    assert [entity.similarity for entity in found] == sorted((entity.similarity for entity in found), reverse=True)
    assert len(similar(two_camps[1], 4, k=100)) == 19


def test_k_below_1_is_refused(two_camps):
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        similar(two_camps[1], "p1", k=0)


def test_a_similar_entity_is_plain_data(two_camps):
    found = similar(two_camps[1], "p4", k=1)[0]
    assert found.to_dict() == {"name": found.name, "similarity": found.similarity}


def test_entities_that_were_folded_in_are_not_the_most_similar_to_each_other():
    facts = sparse_graph("shopping", 0)
    model = RescalLogit(rank=16, max_iter=30, calibrate=False).fit(facts).factors_
    old = [name for name in model.entities if name.startswith("user_")][:10]
    bought = [[(row[1], row[2]) for row in facts.named() if row[0] == name][:2] for name in old]
    new = [f"new {i}" for i in range(len(old))]
    grown = model.fold_in(read([(name, *fact) for name, pair in zip(new, bought, strict=True) for fact in pair]))
    B = profiles(grown)
    lengths = np.linalg.norm(B, axis=1)
    np.testing.assert_allclose(lengths[: len(model.entities)], 1)
    assert (lengths[-len(new) :] < 1).mean() > 0.5
    shares = [np.mean([found.name in new for found in similar(grown, name, 10)]) for name in new]
    unit = B / lengths[:, None]
    by_cosine = [np.mean(np.argsort(-(unit @ row))[1:11] >= len(model.entities)) for row in unit[-len(new) :]]
    assert np.mean(shares) < np.mean(by_cosine)

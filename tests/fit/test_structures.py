"""Every structure of R_k, loss and method: derivatives, and the same sums and fits as with whole matrices."""

from typing import Any

import numpy as np
import pytest

import relatent
from planted_graphs import uniform
from relatent import Blocks, Dura, Facts, Rescal, RescalLogit, Shared
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.sparse import by_row
from relatent.data.names import Names
from relatent.fit import losses, penalties
from relatent.fit.losses import Softmax
from relatent.fit.penalised_likelihood import ExpandedSum, Layout, PenalisedLikelihood
from relatent.fit.penalties import L2, N3
from relatent.model.relation_matrices import RelationMatrices
from relatent.model.structure import DirectSum, is_compact, nearest_parameters, parameter_shape, resolve
from small_graphs import two_camps

N, K, RANK = 14, 3, 6
FACTS = uniform(N, K, 60, random_state=1)
BACKEND = NumpyBackend(np.float64)


class Toeplitz:
    """A structure of one's own: all diagonals are constant."""

    def __repr__(self) -> str:
        return "Toeplitz()"

    def matrices(self, P: Any) -> Any:
        r = (P.shape[1] + 1) // 2
        i, j = np.indices((r, r))
        return P[:, j - i + r - 1]

    def gradient(self, dR: Any, P: Any) -> Any:
        r = dR.shape[1]
        return np.stack([dR.diagonal(d, axis1=1, axis2=2).sum(axis=1) for d in range(1 - r, r)], axis=1)


SUM = DirectSum((("complex", 2), (Blocks(1), 3), ("full", 1)))
STRUCTURES = ["full", "complex", "diagonal", Blocks(2), Blocks(3), "symmetric", Shared(2), SUM, Toeplitz()]
LOSSES = ["logistic", "squared", "hinge", "poisson", "categorical", Softmax(), Softmax(relation_weight=2.0)]


def objective(structure: Any, loss: Any, penalty: Any, *, sampled: bool = False) -> PenalisedLikelihood:
    found, of_loss = resolve(structure, K, RANK), losses.resolve(loss)
    cells: Any = of_loss.cell_sum(FACTS, BACKEND)
    if sampled:
        cells = of_loss.sampled_sum(FACTS, BACKEND, typed=False, redraws=False, random_state=0)
        cells.draw(1)
    elif not of_loss.takes_compact and is_compact(found):
        cells = ExpandedSum(cells, BACKEND)
    layout = Layout(N, K, RANK, found)
    return PenalisedLikelihood(cells, layout, penalty.bound(FACTS, BACKEND), bias=True, backend=BACKEND)


def start(structure: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    size = N * RANK + int(np.prod(parameter_shape(resolve(structure, K, RANK), K, RANK))) + K
    return rng.normal(scale=0.5, size=size)


def whole(structure: Any, x: Any) -> Any:
    """The same model with whole matrices, as one vector."""
    A, R, b = Layout(N, K, RANK, resolve(structure, K, RANK)).parameters(x)
    R = RelationMatrices.of_parameters(resolve(structure, K, RANK), R, K, RANK).expanded() if R.ndim != 3 else R
    return np.concatenate([A.ravel(), R.ravel(), b])


def check_derivatives(of: PenalisedLikelihood, x: Any) -> None:
    direction = np.random.default_rng(5).normal(size=x.size)
    gradient = of(x)[1]
    step = 1e-5
    difference = (of(x + step * direction)[0] - of(x - step * direction)[0]) / (2 * step)
    assert gradient @ direction == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_an_exact_objective_is_that_of_the_whole_matrices(structure: Any, loss: Any) -> None:
    x, penalty = start(structure), Dura(0.1, frequency_power=0.5)
    of = objective(structure, loss, penalty)
    assert of(x)[0] == pytest.approx(objective("full", loss, penalty)(whole(structure, x))[0], rel=1e-9)
    check_derivatives(of, x)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_a_sampled_objective_is_that_of_the_whole_matrices(structure: Any) -> None:
    x, penalty = start(structure), L2(0.3, 0.7)
    of = objective(structure, "logistic", penalty, sampled=True)
    assert of(x)[0] == pytest.approx(objective("full", "logistic", penalty, sampled=True)(whole(structure, x))[0])
    check_derivatives(of, x)


@pytest.mark.parametrize("penalty", [Dura(0.1), Dura(0.1, 0.5), N3(0.2)], ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_a_penalty_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch, structure: Any, penalty: Any) -> None:
    x = start(structure)
    value, gradient = objective(structure, "logistic", penalty)(x)
    monkeypatch.setattr(by_row, "MAX_ROW_NUMBERS", 1)
    monkeypatch.setattr(penalties, "MAX_ROW_NUMBERS", 1)
    assert len(by_row.RelationRows.of_facts(FACTS, NumpyBackend(), rank=RANK)) > 2
    in_pieces = objective(structure, "logistic", penalty)(x)
    assert in_pieces[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(in_pieces[1], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_n3_has_the_derivatives_of_differences(structure: Any) -> None:
    check_derivatives(objective(structure, "logistic", N3(0.2)), start(structure))


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_the_nearest_parameters_of_a_structure_s_own_matrices_are_those_matrices(structure: Any) -> None:
    found, rng = resolve(structure, K, RANK), np.random.default_rng(3)
    R = found.matrices(rng.normal(size=parameter_shape(found, K, RANK)))
    if isinstance(structure, Toeplitz):  # its columns differ in length: the nearest multiple is not exact
        R = np.broadcast_to(np.eye(RANK, k=1), (K, RANK, RANK)).copy()
    assert np.allclose(found.matrices(nearest_parameters(found, R)), R)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_a_model_of_every_structure_answers_as_its_whole_matrices_and_survives_a_file(
    structure: Any, tmp_path: Any
) -> None:
    facts = two_camps()
    with pytest.warns(relatent.ConvergenceWarning):
        model = RescalLogit(RANK, 0.1, 0.1, structure=structure, max_iter=5, calibrate=False).fit(facts).factors_
    known = {name: getattr(model, name) for name in ("loss", "penalty", "facts", "calibration")}
    twin = relatent.Factors(model.A, model.R, model.bias, model.entities, model.relations, **known)
    model.save(tmp_path / "m.relatent")
    for other in (twin, relatent.load(tmp_path / "m.relatent")):
        assert np.allclose(other.R, model.R)
        s, k, o = facts.triples.T
        assert np.allclose(other.score(s, k, o), model.score(s, k, o), atol=1e-5)
        for place in ({"subject": 0, "relation": 0}, {"relation": 0, "object": 1}, {"subject": 0, "object": 1}):
            assert other.top(**place, k=3).names == model.top(**place, k=3).names
    assert relatent.load(tmp_path / "m.relatent").relation_matrices.structure == model.relation_matrices.structure


def test_a_file_of_blocks_holds_their_parameters_only(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    P = rng.normal(size=(5, 50, 2, 2)).astype(np.float32)
    A, names = rng.normal(size=(4, 100)).astype(np.float32), [str(k) for k in range(5)]
    R = RelationMatrices(Blocks(2), P, (5, 100, 100))
    model = relatent.Factors(A, R, np.zeros(5, np.float32), Names(list("abcd")), Names(names))
    model.save(tmp_path / "m.relatent")
    assert (tmp_path / "m.relatent").stat().st_size < 4 * (A.size + P.size) + 2000
    assert np.array_equal(relatent.load(tmp_path / "m.relatent").R, model.R)


def test_matrices_that_are_too_large_are_refused_and_single_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relatent.model.relation_matrices.MAX_EXPANDED", 100)
    R = RelationMatrices(Blocks(2), np.ones((5, 3, 2, 2)), (5, 6, 6))
    model = relatent.Factors(np.ones((4, 6)), R, np.zeros(5), Names(list("abcd")), Names(list("vwxyz")))
    with pytest.raises(relatent.InputError, match=r"relation_matrices\[k\]"):
        _ = model.R
    assert model.relation_matrices[4].shape == (6, 6)
    assert model.top(subject="a", relation="z", k=1).scores[0] == pytest.approx(12)


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("ring", "structure must be"),
        (Blocks, "structure must be"),
        (Blocks(4), "multiple"),
        (Blocks(0), "at least 1"),
        (Shared(0), "at least 1"),
        ("complex", "even rank"),
        (DirectSum(((Blocks(2), 4),)), "ranks of a direct sum must add up to 6"),
        (DirectSum(((Blocks(2), 3), ("full", 3))), "multiple"),
        (DirectSum((("full", 0), ("full", 6))), "whole numbers of at least 1"),
    ],
)
def test_a_structure_that_does_not_fit_is_refused(structure: Any, message: str) -> None:
    with pytest.raises(relatent.InputError, match=message):
        Rescal(7 if structure == "complex" else 6, structure=structure, calibrate=False).fit(FACTS)


def test_directed_relations_need_a_structure_that_can_express_them() -> None:
    chain = Facts.from_arrays([f"n{i}" for i in range(12)], ["next"] * 12, [f"n{(i + 1) % 12}" for i in range(12)])
    found = {}
    for name in ("diagonal", "complex"):
        model = RescalLogit(12, structure=name, penalty=Dura(0.001), calibrate=False).fit(chain).factors_
        found[name] = model.score("n0", "next", "n1") - model.score("n1", "next", "n0")
    assert found["diagonal"] == pytest.approx(0, abs=1e-4)
    assert found["complex"] > 3


@pytest.mark.parametrize("structure", ["complex", "diagonal", Blocks(2)], ids=repr)
def test_structures_of_few_numbers_may_have_more_components_than_entities(structure: Any, tmp_path: Any) -> None:
    facts = relatent.load_dataset("people")
    wide = relatent.RescalLogit(2 * facts.n_entities, structure=structure, calibrate=False).fit(facts).factors_
    wide.save(tmp_path / "wide.relatent")
    model = relatent.load(tmp_path / "wide.relatent")
    s, k, o = (names[0] for names in (facts.entities, facts.relations, facts.entities))
    assert model.top(subject=s, relation=k, k=3).names == wide.top(subject=s, relation=k, k=3).names
    assert relatent.similar(model, s)
    assert relatent.groups(model)
    assert relatent.explain(model, s, k, o)
    assert relatent.duplicates(model) is not None
    assert len(relatent.missing(model, k=5).missing) == 5
    assert "Eve" in model.fold_in(relatent.read([("Eve", k, o)])).entities


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"structure": "full"},
            "rank must not exceed the 39 entities, got 78, unless a structure is given that is complex, diagonal or of",
        ),
        ({"structure": "symmetric"}, "rank must not exceed the 39 entities, got 78"),
        (
            {"structure": "complex", "init": "als"},
            "init='als' needs a rank of at most 39, .*, got 78; use init='small'",
        ),
    ],
)
def test_whole_matrices_have_no_more_components_than_entities(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(relatent.InputError, match=message):
        relatent.RescalLogit(78, **settings, calibrate=False).fit(relatent.load_dataset("people"))

"""Many questions at a time get the answers that each of them gets alone."""

import numpy as np
import pytest

import relatent
from relatent.analysis import batch
from relatent.analysis.answers import OMIT, answers, one_fact
from relatent.analysis.batch import OPEN, best_answers, score_cells
from relatent.analysis.known_facts import KnownFacts
from small_graphs import politics

FACTS = politics(12)
MODELS = {
    "logistic": relatent.RescalLogit(5, 0.1, 0.1),
    "categorical": relatent.Rescal(4, "categorical", 0.1, 0.1),
    "complex": relatent.RescalLogit(4, 0.1, 0.1, structure="complex"),
}


@pytest.fixture(scope="module", params=[*MODELS, "typed"])
def model(request):
    facts = FACTS
    if request.param == "typed":
        facts = FACTS.with_types({name: "party" if name in ("Blue", "Red") else "person" for name in FACTS.entities})
    return MODELS.get(request.param, MODELS["logistic"]).fit(facts).factors_


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("is_known", [False, True])
def test_answers_are_those_of_single_questions(model, place, is_known, monkeypatch):
    monkeypatch.setattr(batch, "SCORES_PER_BLOCK", 100)  # several blocks
    known = KnownFacts(FACTS, model) if is_known else None
    questions = FACTS.triples[::5].astype(np.int64)
    questions[:, place] = OPEN
    found = best_answers(model, questions, 4, known)
    names = (model.entities, model.relations, model.entities)
    for row, question in enumerate(questions):
        given = [None if i == OPEN else names[column][i] for column, i in enumerate(question.tolist())]
        single = answers(
            model, known, **dict(zip(("subject", "relation", "object"), given, strict=True)), k=4, treat_known=OMIT
        )
        own = found.question == row
        assert [names[place][i] for i in found.cells[own, place]] == [answer.name for answer in single.answers]
        np.testing.assert_allclose(found.score[own], [answer.score for answer in single.answers], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found.rank[own], [answer.rank for answer in single.answers])
        np.testing.assert_allclose(found.lift[own], [answer.lift for answer in single.answers], rtol=1e-3)


@pytest.mark.parametrize("is_known", [False, True])
def test_facts_are_scored_as_single_ones(model, is_known, monkeypatch):
    monkeypatch.setattr(batch, "SCORES_PER_BLOCK", 100)
    known = KnownFacts(FACTS, model) if is_known else None
    rng = np.random.default_rng(0)
    n, k = FACTS.n_entities, FACTS.n_relations
    cells = np.concatenate([FACTS.triples[::3], np.stack([rng.integers(size, size=60) for size in (n, k, n)], axis=1)])
    found = score_cells(model, cells, known)
    for row, (s, r, o) in enumerate(FACTS.named(cells)):
        single = one_fact(model, known, s, r, o)
        assert (found.rank[row] or None, found.known[row]) == (single.rank, single.known)
        assert found.probability[row] == pytest.approx(single.probability, rel=1e-3)


def test_ties_go_to_the_lower_index_and_a_question_without_candidates_has_no_answer():
    A = np.ones((5, 1), np.float32)
    model = relatent.Factors(A, np.ones((1, 1, 1), np.float32), np.zeros(1, np.float32), list("abcde"), ["r"])
    found = best_answers(model, np.array([[0, 0, OPEN]]), 3)
    assert found.cells[:, 2].tolist() == [0, 1, 2]
    everything = relatent.Facts.from_arrays(["a"] * 5, ["r"] * 5, list("abcde"))
    assert len(best_answers(model, np.array([[0, 0, OPEN]]), 3, KnownFacts(everything, model)).cells) == 0

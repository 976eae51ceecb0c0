"""Known facts and predictions side by side: one question, many questions and single facts get the same answers."""

import dataclasses

import numpy as np
import pytest

import relatent
import small_graphs
from relatent import Factors
from relatent.analysis.answers import answers, entity_sections, one_fact
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.model import candidates
from relatent.model.calibration import Calibration
from relatent.model.candidates import OPEN
from relatent.model.links import RankingLink
from relatent.model.objective_description import ObjectiveTerm
from relatent.model.provenance import DataRecord, Provenance

PLACES = ("subject", "relation", "object")


def world(exclusive=False, **fields):
    """A model of random vectors that knows its facts."""
    facts = small_graphs.random_facts(n=12, n_relations=3, count=50)
    A, R, b = small_graphs.random_parameters(facts, rank=4)
    names = Names([f"e{i}" for i in range(12)]), Names(["likes", "knows", "owes"], what="relation")
    named = relatent.Facts.from_ids(facts.triples, *names)
    return Factors(A, R, b, *names, exclusive=exclusive, **({"facts": named} | fields))


def lines(n_relations=3):
    """A calibration that halves log-odds and takes 1 from them."""
    return Calibration.of_lines([([0.0, 1.0], [-1.0, -0.5])] * n_relations, base_rates=np.full(n_relations, 0.02))


def without_facts(factors):
    return dataclasses.replace(factors, R=factors.relation_matrices, facts=None)


# --- one question


@pytest.mark.parametrize("place", PLACES)
def test_answers_are_those_of_top_with_the_known_marked(place):
    factors = world()
    s, k, o = factors.facts.named(factors.facts.triples[7:8])[0]
    given = {"subject": s, "relation": k, "object": o} | {place: None}
    plain, left = without_facts(factors).top(**given, k=99), factors.top(**given, k=99)
    marked = answers(factors, **given, k=99)
    assert marked.open == place
    offered = set(plain.names)  # relations have facts of an entity with itself, or no facts to tell
    assert {answer.name for answer in marked.answers} == offered
    again = factors.top(**given, k=99, known="mark")
    assert [answer.name for answer in marked.answers] == again.names
    assert [answer.score for answer in marked.answers] == again.scores.tolist()
    assert [answer.probability for answer in marked.answers] == again.probabilities.tolist()
    assert [answer.rank or 0 for answer in marked.answers] == again.ranks.tolist()
    assert {answer.name for answer in marked.answers if answer.known} == offered - set(left.names)
    assert [answer.name for answer in answers(factors, **given, k=99, treat_known="omit").answers] == left.names
    only = answers(factors, **given, k=99, treat_known="only").answers
    assert [answer.name for answer in only] == [answer.name for answer in marked.answers if answer.known]
    assert marked.n_known == len(only) > 0


def test_further_facts_are_known_beside_those_of_the_model():
    factors = world()
    best = answers(factors, subject="e3", relation="likes", treat_known="omit").answers[0].name
    more = relatent.read([("e3", "likes", best)])
    for known in (more, [more, factors.facts]):
        found = answers(factors, known, subject="e3", relation="likes", k=12)
        [own] = [answer for answer in found.answers if answer.name == best]
        assert own.known
        assert found.n_known == 1 + answers(factors, subject="e3", relation="likes").n_known
        assert best not in factors.top("e3", "likes", k=12, exclude=known).names


def test_known_facts_of_another_graph_are_refused():
    with pytest.raises(InputError, match="the model knows no relation of the known facts"):
        answers(world(), relatent.read([("x", "y", "z")]), subject="e0", relation="likes")


def likes_itself(n_self: int, **fields):
    """A model by which everyone likes themselves most, and facts of which some say so."""
    names = ["Ann", "Bob", "Cid", "Dan"]
    cells = [("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Ann", "owes", "Bob")]
    facts = relatent.read(cells + [(name, "likes", name) for name in names[:n_self]])
    R = np.stack([3 * np.eye(4), np.zeros((4, 4))]) + 0.1
    return Factors(np.eye(4), R, np.zeros(2), names, ["likes", "owes"], facts=facts, **fields)


@pytest.mark.parametrize("n_self", [0, 1])
@pytest.mark.parametrize("calibration", [None, lines(2)])
def test_an_entity_is_its_own_answer_only_if_the_relation_has_such_facts(n_self, calibration):
    factors = likes_itself(n_self, calibration=calibration)
    for given in ({"subject": "Cid", "relation": "likes"}, {"relation": "likes", "object": "Cid"}):
        for treat in ("mark", "omit"):
            offered = [answer.name for answer in answers(factors, **given, k=9, treat_known=treat).answers]
            assert ("Cid" in offered) == bool(n_self)
            assert factors.top(**given, k=9, known=treat).names == offered
    for section in entity_sections(factors.candidates, factors, "Cid", k=9):
        if section.relation == "likes":
            assert ("Cid" in [answer.name for answer in section.predicted]) == bool(n_self)
    assert one_fact(factors, factors.candidates, "Cid", "likes", "Ann").rank == 1 + n_self  # the others are tied
    both = [answer.name for answer in answers(factors, subject="Cid", object="Cid").answers]
    assert ("likes" in both) == bool(n_self)


@pytest.mark.parametrize("keep_facts", [False, True])
def test_a_model_knows_whether_its_relations_have_facts_of_an_entity_with_itself(tmp_path, keep_facts):
    facts = likes_itself(1).facts
    estimator = relatent.RescalALS(2, 0.1, 0.1, calibrate=False, keep_facts=keep_facts)
    estimator.fit(relatent.read(facts.named())).factors_.save(tmp_path / "m.relatent")
    model = relatent.load(tmp_path / "m.relatent")
    assert model.about.data.self_facts == (1, 0)
    offered = {
        relation: {answer.name for answer in answers(model, subject="Ann", relation=relation).answers}
        for relation in ("likes", "owes")
    }
    assert offered == {"likes": {"Ann", "Bob", "Cid"}, "owes": {"Bob", "Cid"}}


def test_without_known_facts_nothing_is_marked():
    found = answers(without_facts(world()), subject="e0", relation="likes")
    assert len(found.answers) == 10
    assert not any(answer.known for answer in found.answers)
    assert found.n_known == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"treat_known": "maybe"}, "known answers are treated by mark, omit or only, got 'maybe'"),
        ({"object": "e1"}, "give exactly two of subject, relation and object"),
    ],
)
def test_wrong_arguments_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        answers(world(), **{"subject": "e0", "relation": "likes", **wrong})


def test_ties_go_to_the_lower_index_and_a_question_without_candidates_has_no_answer():
    A = np.ones((5, 1), np.float32)
    model = Factors(A, np.ones((1, 1, 1), np.float32), np.zeros(1, np.float32), list("abcde"), ["r"])
    assert model.top(subject="a", relation="r", k=3).names == ["a", "b", "c"]
    everything = relatent.Facts.from_arrays(["a"] * 5, ["r"] * 5, list("abcde"))
    assert answers(model, everything, subject="a", relation="r", treat_known="omit").answers == []
    assert len(answers(model, everything, subject="a", relation="r").answers) == 5


# --- the sections of an entity


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("calibration", [None, lines()])
def test_sections_are_questions_for_each_role_in_each_relation(exclusive, calibration):
    factors = world(exclusive, calibration=calibration)
    found = entity_sections(factors.candidates, factors, "e3", k=4)
    assert len(found) == 6
    for section in found:
        given = {"subject": "e3"} if section.role == "subject" else {"object": "e3"}
        plain = answers(factors, relation=section.relation, **given, k=4, treat_known="omit")
        assert section.predicted == plain.answers
        assert section.n_known == plain.n_known == len(section.known)
        assert section.known == answers(factors, relation=section.relation, **given, k=25, treat_known="only").answers
        assert all(answer.known for answer in section.known)


@pytest.mark.parametrize("bias", [-3.0, 0.0])
def test_probable_new_facts_come_first_then_known_facts_then_the_rest(bias):
    factors = world()
    facts = factors.facts.subset(factors.facts.subjects == 3)
    factors = dataclasses.replace(factors, bias=factors.bias + bias, facts=facts)
    found = entity_sections(factors.candidates, factors, "e3")
    best = [section.predicted[0].probability for section in found]
    place = [0 if p >= 0.5 else 1 if section.n_known else 2 for p, section in zip(best, found, strict=True)]
    assert place == sorted(place)
    assert len(set(place)) > 1
    for kind in set(place):
        own = [p for p, each in zip(best, place, strict=True) if each == kind and kind != 0]
        assert own == sorted(own, reverse=True)


def test_sections_in_blocks_are_the_sections(monkeypatch):
    factors = world()
    whole = entity_sections(factors.candidates, factors, "e3")
    monkeypatch.setattr(candidates, "SCORES_PER_BLOCK", 12)
    assert entity_sections(factors.candidates, factors, "e3") == whole


# --- rank, probability and lift


def test_answers_have_a_rank_among_those_not_known_and_a_lift_over_the_base_rate():
    factors = world()
    facts = factors.facts.subset(factors.facts.triples[:, 1] != 1)  # a relation without facts has no lift
    rates = facts.counts() / facts.n_entities**2
    factors = dataclasses.replace(
        factors, facts=facts, about=Provenance(data=DataRecord(0, 0, "", tuple(rates), (1,) * len(rates)))
    )
    found = answers(factors, subject="e3", relation="likes", k=12)
    unknown = [answer for answer in found.answers if not answer.known]
    assert [answer.rank for answer in unknown] == list(range(1, len(unknown) + 1))
    assert {answer.rank for answer in found.answers if answer.known} == {None}
    assert answers(factors, subject="e3", relation="likes", k=12, treat_known="omit").answers == unknown
    rate = rates[factors.relations.id("likes")]
    assert [answer.lift for answer in unknown] == pytest.approx([answer.probability / rate for answer in unknown])
    without = answers(factors, subject="e3", relation=factors.relations[1])
    assert {answer.lift for answer in without.answers} == {None}
    unknown_rates = dataclasses.replace(factors, about=Provenance())
    assert {answer.lift for answer in answers(unknown_rates, subject="e3", relation="likes").answers} == {None}


def test_the_base_rate_is_that_of_all_cells_or_of_unlisted_cells_if_the_model_is_calibrated():
    facts = world().facts
    plain, calibrated = (
        relatent.RescalALS(2, 0.1, 0.1, calibrate=calibrate).fit(facts).factors_ for calibrate in (False, True)
    )
    np.testing.assert_allclose(plain.base_rates, facts.counts() / facts.n_observed())
    np.testing.assert_allclose(calibrated.base_rates, calibrated.calibration.base_rates)
    [own] = answers(calibrated, subject="e3", relation="likes", k=1, treat_known="omit").answers
    assert own.lift == pytest.approx(own.probability / calibrated.base_rates[facts.relations.id("likes")])


@pytest.mark.parametrize("loss", ["softmax", "hinge"])
def test_scores_of_a_ranking_loss_have_no_probability_unless_it_is_calibrated(loss):
    ranking = world(link=RankingLink(), loss=ObjectiveTerm(loss))
    found = answers(ranking, subject="e3", relation="likes")
    assert {(answer.probability, answer.lift) for answer in found.answers} == {(None, None)}
    assert not ranking.has_probabilities
    assert np.isnan(ranking.top(subject="e3", relation="likes").probabilities).all()
    with pytest.raises(InputError, match="no probabilities; fit with calibrate=True"):
        ranking.probability("e3", "likes", "e4")
    assert len(entity_sections(ranking.candidates, ranking, "e3")) == 6
    assert f"scores of a {loss} model rank answers but are not probabilities" in ranking.probability_note
    calibrated = dataclasses.replace(ranking, calibration=lines())
    [first, *_] = answers(calibrated, subject="e3", relation="likes", k=1).answers
    assert first.probability == calibrated.probability("e3", "likes", first.name)
    assert first.lift == pytest.approx(first.probability / 0.02)


def test_the_meaning_of_probabilities_is_told():
    assert world().probability_note.startswith("probabilities are those of the loss, not calibrated")
    assumed = dataclasses.replace(lines(), missing=0.1, is_assumed=True, expected=1234.0)
    note = world(calibration=assumed).probability_note
    assert "it is assumed that 0.1 of the true facts, about 1,234, are missing; give the share" in note
    stated = dataclasses.replace(assumed, missing=0.25, is_assumed=False)
    assert world(calibration=stated).probability_note.endswith("0.25 of the true facts, about 1,234, are missing")


def test_answers_are_a_table_in_pandas():
    table = answers(world(), subject="e3", relation="likes", k=5).to_pandas()
    assert list(table.columns) == ["name", "score", "probability", "known", "rank", "lift"]
    assert len(table) == 5


# --- many questions, and many facts

POLITICS = small_graphs.politics(12)
MODELS = {
    "logistic": relatent.RescalLogit(5, 0.1, 0.1),
    "not calibrated": relatent.RescalLogit(5, 0.1, 0.1, calibrate=False),
    "categorical": relatent.Rescal(4, "categorical", 0.1, 0.1),
    "complex": relatent.RescalLogit(4, 0.1, 0.1, structure="complex"),
}


@pytest.fixture(scope="module", params=[*MODELS, "typed"])
def fitted(request):
    facts = POLITICS
    if request.param == "typed":
        kinds = {name: "party" if name in ("Blue", "Red") else "person" for name in facts.entities}
        facts = facts.with_types(kinds)
    return MODELS.get(request.param, MODELS["logistic"]).fit(facts).factors_


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("is_known", [False, True])
def test_answers_to_many_questions_are_those_of_single_ones(fitted, place, is_known, monkeypatch):
    monkeypatch.setattr(candidates, "SCORES_PER_BLOCK", 100)  # several blocks
    model = fitted if is_known else without_facts(fitted)
    questions = POLITICS.triples[::5].astype(np.int64)
    questions[:, place] = OPEN
    found = model.candidates.answers(questions, 4)
    names = (model.entities, model.relations, model.entities)
    for row, question in enumerate(questions):
        given = [None if i == OPEN else names[column][i] for column, i in enumerate(question.tolist())]
        single = answers(model, **dict(zip(PLACES, given, strict=True)), k=4, treat_known="omit")
        own = found.at(found.question == row)
        assert [names[place][i] for i in own.cells[:, place]] == [answer.name for answer in single.answers]
        for column in ("score", "probability", "rank", "lift"):
            assert getattr(own, column).tolist() == [getattr(answer, column) for answer in single.answers]


@pytest.mark.parametrize("is_known", [False, True])
def test_many_facts_are_scored_as_single_ones(fitted, is_known, monkeypatch):
    monkeypatch.setattr(candidates, "SCORES_PER_BLOCK", 100)
    model = fitted if is_known else without_facts(fitted)
    rng = np.random.default_rng(0)
    n, k = POLITICS.n_entities, POLITICS.n_relations
    cells = np.stack([rng.integers(size, size=60) for size in (n, k, n)], axis=1)
    cells = np.concatenate([POLITICS.triples[::3], cells])
    found = model.candidates.ranked(cells)
    for row, (s, r, o) in enumerate(POLITICS.named(cells)):
        single = one_fact(model, model.candidates, s, r, o)
        assert (found.rank[row] or None, found.is_known[row]) == (single.rank, single.known)
        assert found.probability[row] == single.probability == model.probability(s, r, o)


def test_the_rank_of_one_fact_counts_better_objects_that_are_not_known(fitted):
    subject, relation = POLITICS.named(POLITICS.triples[:1])[0][:2]
    found = answers(fitted, subject=subject, relation=relation, k=99, treat_known="omit").answers
    assert [one_fact(fitted, fitted.candidates, subject, relation, answer.name) for answer in found] == found

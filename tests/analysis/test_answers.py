"""Known facts and predictions side by side, against plain loops over all cells."""

import dataclasses

import numpy as np
import pytest

import relatent
import small_graphs
from relatent.analysis.answers import answers, entity_sections, one_fact
from relatent.analysis.batch import OPEN, best_answers, score_cells
from relatent.analysis.known_facts import KnownFacts
from relatent.analysis.probabilities import base_rates, describe_probabilities
from relatent.data.names import Names
from relatent.errors import InputError
from relatent.model.links import PlattLink
from relatent.model.objective_description import ObjectiveTerm


def world(exclusive=False):
    facts = small_graphs.random_facts(n=12, n_relations=3, count=50)
    A, R, b = small_graphs.random_parameters(facts, rank=4)
    names = Names([f"e{i}" for i in range(12)]), Names(["likes", "knows", "owes"], what="relation")
    named = relatent.Facts.from_ids(facts.triples, *names)
    return relatent.Factors(A, R, b, *names, exclusive=exclusive), named


@pytest.mark.parametrize("place", ["subject", "relation", "object"])
def test_answers_are_those_of_top_with_the_known_marked(place):
    factors, facts = world()
    known = KnownFacts(facts, factors)
    s, k, o = facts.named(facts.triples[7:8])[0]
    given = {"subject": s, "relation": k, "object": o} | {place: None}
    plain, left = factors.top(**given, k=99), factors.top(**given, k=99, exclude=facts)
    marked = answers(factors, known, **given, k=99)
    assert marked.open == place
    assert [answer.name for answer in marked.answers] == plain.names
    assert [answer.probability for answer in marked.answers] == pytest.approx(plain.probabilities.tolist())
    assert {answer.name for answer in marked.answers if answer.known} == set(plain.names) - set(left.names)
    assert [answer.name for answer in answers(factors, known, **given, k=99, treat_known="omit").answers] == left.names
    only = answers(factors, known, **given, k=99, treat_known="only").answers
    assert [answer.name for answer in only] == [answer.name for answer in marked.answers if answer.known]
    assert marked.n_known == len(only)


def likes_itself(n_self: int):
    """A model by which everyone likes themselves most, and facts of which some say so."""
    names = ["Ann", "Bob", "Cid", "Dan"]
    cells = [("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Ann", "owes", "Bob")]
    facts = relatent.read(cells + [(name, "likes", name) for name in names[:n_self]])
    R = np.stack([3 * np.eye(4), np.zeros((4, 4))]) + 0.1
    return relatent.Factors(np.eye(4), R, np.zeros(2), names, ["likes", "owes"]), facts


@pytest.mark.parametrize("n_self", [0, 1])
def test_an_entity_is_its_own_answer_only_if_the_relation_has_such_facts(n_self):
    factors, facts = likes_itself(n_self)
    known = KnownFacts(facts, factors)
    for given in ({"subject": "Cid", "relation": "likes"}, {"relation": "likes", "object": "Cid"}):
        for treat in ("mark", "omit"):
            offered = [answer.name for answer in answers(factors, known, **given, k=9, treat_known=treat).answers]
            assert ("Cid" in offered) == bool(n_self)
    for section in entity_sections(factors, known, "Cid", k=9):
        if section.relation == "likes":
            assert ("Cid" in [answer.name for answer in section.predicted]) == bool(n_self)
    rank = 2 if n_self else 1  # the others are tied
    assert one_fact(factors, known, "Cid", "likes", "Dan").rank == rank
    assert score_cells(factors, np.array([[2, 0, 3]]), known).rank.tolist() == [rank]
    question = np.array([[2, 0, OPEN]])
    assert (2 in best_answers(factors, question, 9, known).cells[:, 2]) == bool(n_self)


def test_a_model_knows_whether_its_relations_have_facts_of_an_entity_with_itself(tmp_path):
    _, facts = likes_itself(1)
    relatent.RescalALS(rank=2, l2_entities=0.1, l2_relations=0.1).fit(facts).factors_.save(tmp_path / "m.relatent")
    model = relatent.load(tmp_path / "m.relatent")
    assert model.about["data"]["self_facts"] == [1, 0]
    offered = {
        relation: {answer.name for answer in answers(model, subject="Ann", relation=relation).answers}
        for relation in ("likes", "owes")
    }
    assert offered == {"likes": {"Ann", "Bob", "Cid"}, "owes": {"Bob", "Cid"}}


def test_without_known_facts_nothing_is_marked():
    factors, _ = world()
    assert not any(answer.known for answer in answers(factors, subject="e0", relation="likes").answers)


@pytest.mark.parametrize("wrong", [{"k": 0}, {"treat_known": "maybe"}])
def test_wrong_arguments_are_refused(wrong):
    factors, _ = world()
    with pytest.raises(InputError):
        answers(factors, subject="e0", relation="likes", **wrong)


@pytest.mark.parametrize("exclusive", [False, True])
def test_sections_are_questions_for_each_role_in_each_relation(exclusive):
    factors, facts = world(exclusive)
    known = KnownFacts(facts, factors)
    found = entity_sections(factors, known, "e3", k=4)
    assert len(found) == 6
    for section in found:
        given = {"subject": "e3"} if section.role == "subject" else {"object": "e3"}
        plain = answers(factors, known, relation=section.relation, **given, k=4, treat_known="omit")
        assert [answer.name for answer in section.predicted] == [answer.name for answer in plain.answers]
        assert [answer.score for answer in section.predicted] == pytest.approx(
            [answer.score for answer in plain.answers]
        )
        assert section.n_known == plain.n_known == len(section.known)
        assert all(answer.known for answer in section.known)


@pytest.mark.parametrize("bias", [-3.0, 0.0])
def test_probable_new_facts_come_first_then_known_facts_then_the_rest(bias):
    factors, facts = world()
    factors = dataclasses.replace(factors, bias=factors.bias + bias)
    found = entity_sections(factors, KnownFacts(facts.subset(facts.subjects == 3), factors), "e3")
    best = [section.predicted[0].probability for section in found]
    place = [0 if p >= 0.5 else 1 if section.n_known else 2 for p, section in zip(best, found, strict=True)]
    assert place == sorted(place)
    assert len(set(place)) > 1
    for kind in set(place):
        own = [p for p, each in zip(best, place, strict=True) if each == kind and kind != 0]
        assert own == sorted(own, reverse=True)


def test_scores_in_blocks_are_the_scores(monkeypatch):
    factors, facts = world()
    whole = entity_sections(factors, KnownFacts(facts, factors), "e3")
    monkeypatch.setattr("relatent.analysis.answers.BLOCK_SCORES", 12)
    for block, section in zip(entity_sections(factors, KnownFacts(facts, factors), "e3"), whole, strict=True):
        assert block[:3] == section[:3]
        assert [answer.name for answer in block.predicted] == [answer.name for answer in section.predicted]
        assert [answer.score for answer in block.predicted] == pytest.approx(
            [answer.score for answer in section.predicted]
        )


def test_answers_have_a_rank_among_those_not_known_and_a_lift_over_the_base_rate():
    factors, facts = world()
    facts = facts.subset(facts.triples[:, 1] != 1)  # a relation without facts has no lift
    found = answers(factors, facts, subject="e3", relation="likes", k=12)
    unknown = [answer for answer in found.answers if not answer.known]
    assert [answer.rank for answer in unknown] == list(range(1, len(unknown) + 1))
    assert {answer.rank for answer in found.answers if answer.known} == {None}
    omitted = answers(factors, facts, subject="e3", relation="likes", k=12, treat_known="omit")
    assert omitted.answers == unknown
    rate = facts.counts()[factors.relations.id("likes")] / facts.n_entities**2
    assert [answer.lift for answer in unknown] == pytest.approx([answer.probability / rate for answer in unknown])
    without = answers(factors, facts, subject="e3", relation=factors.relations[1])
    assert {answer.lift for answer in without.answers} == {None}
    assert {answer.lift for answer in answers(factors, subject="e3", relation="likes").answers} == {None}


def test_the_base_rate_is_that_of_the_training_data_if_the_model_has_it():
    _, facts = world()
    fitted = relatent.RescalALS(2, 0.1, 0.1).fit(facts).factors_
    rates = facts.counts() / facts.n_observed()
    np.testing.assert_allclose(base_rates(fitted), rates)
    np.testing.assert_allclose(base_rates(fitted, KnownFacts(facts.subset(facts.subjects == 3), fitted)), rates)


def test_scores_of_a_ranking_loss_have_no_probability():
    factors, facts = world()
    for loss in ("softmax", "hinge"):
        ranking = dataclasses.replace(factors, loss=ObjectiveTerm(loss))
        found = answers(ranking, facts, subject="e3", relation="likes")
        assert {(answer.probability, answer.lift) for answer in found.answers} == {(None, None)}
        assert not ranking.has_probabilities
        assert len(entity_sections(ranking, KnownFacts(facts, ranking), "e3")) == 6
        assert "are not probabilities" in describe_probabilities(ranking)
        calibrated = dataclasses.replace(ranking, link=PlattLink(1.0, 0.0))
        assert answers(calibrated, facts, subject="e3", relation="likes").answers[0].probability is not None


def test_the_meaning_of_probabilities_is_told():
    factors, _ = world()
    assert describe_probabilities(factors) == "probabilities are not calibrated"
    rescaled = dataclasses.replace(factors, about={**factors.about, "rescaled": {"heldout_facts": 50, "steps": 10}})
    assert "unlisted cells if a tenth of the true facts is missing" in describe_probabilities(rescaled)


def test_answers_are_a_table_in_pandas():
    factors, facts = world()
    table = answers(factors, facts, subject="e3", relation="likes", k=5).to_pandas()
    assert list(table.columns) == ["name", "score", "probability", "known", "rank", "lift"]
    assert len(table) == 5


def test_the_rank_of_one_fact_counts_better_objects_that_are_not_known():
    factors, facts = world()
    known = KnownFacts(facts, factors)
    for answer in answers(factors, known, subject="e3", relation="likes", k=12, treat_known="omit").answers:
        assert one_fact(factors, known, "e3", "likes", answer.name) == answer

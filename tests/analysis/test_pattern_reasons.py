"""Observed patterns in explanations, missing and doubtful facts, and answers about newcomers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import relatent
from relatent.web.explorer import Explorer
from relatent.web.response_types import NewFact
from small_graphs import exceptions_to_rules

FACTS, MARRIAGE, VIEW = exceptions_to_rules()
MODELS = {
    "logit": (relatent.RescalLogit(), FACTS),
    "als": (relatent.RescalALS(), FACTS),
    "undirected": (relatent.RescalLogit(), FACTS.with_undirected("married to")),
}
EVERYTHING = 10_000


@pytest.fixture(scope="module", params=["logit", "als"])
def factors(request: pytest.FixtureRequest) -> Any:
    estimator, facts = MODELS[request.param]
    return estimator.fit(facts).factors_


@pytest.fixture(scope="module", params=list(MODELS))
def any_factors(request: pytest.FixtureRequest) -> Any:
    estimator, facts = MODELS[request.param]
    return estimator.fit(facts).factors_


def test_parts_add_up_to_the_score(any_factors: Any) -> None:
    f = any_factors
    for cell in (MARRIAGE[1], MARRIAGE[0], *VIEW, ("person 5", "viewed", "item 3"), ("item 1", "bought", "person 9")):
        why = relatent.explain(f, *cell, k=EVERYTHING)
        assert sum(reason.added for reason in why.patterns) == pytest.approx(why.by_patterns)
        assert sum(component.contribution for component in why.components) == pytest.approx(why.by_factors, abs=1e-4)
        theta = why.bias + why.by_patterns + why.by_factors
        assert theta == pytest.approx(float(f.score(*cell)), abs=1e-4)
        assert theta + why.by_calibration == pytest.approx(why.score)
        texts = [reason.text for reason in why.patterns]
        assert len(set(texts)) == len(texts)  # what says the same is one line


def test_known_facts_count_by_the_scale_of_the_factors(factors: Any) -> None:
    """The influence of a fact is on the score: half the scale, half the influence."""
    halved = replace(factors.patterns, scale=factors.patterns.scale / 2)
    half = replace(factors, R=factors.relation_matrices, patterns=halved)
    for cell in (("person 5", "viewed", "item 3"), MARRIAGE[0]):
        whole, part = (relatent.explain(f, *cell, k=3) for f in (factors, half))
        assert [reason.influence / 2 for reason in whole.reasons] == pytest.approx(
            [reason.influence for reason in part.reasons]
        )
        assert part.by_patterns == whole.by_patterns


def test_a_rule_that_holds_is_the_sentence_with_its_counts(factors: Any) -> None:
    bought = [row for row in FACTS.named() if row[1] == "bought" and row != VIEW[1]]
    why = relatent.explain(factors, *VIEW[0])
    cases = f"{len(bought):,} of {len(bought):,} cases"
    said = f"{' '.join(VIEW[0])}, because {' '.join(VIEW[1])}: bought(x,y) ⇒ viewed(x,y) holds in {cases}."
    assert why.sentence == said
    first = why.patterns[0]
    assert (first.text, first.value, first.examples) == ("bought(x,y)", 1.0, [" ".join(VIEW[1])])
    assert first.rule == why.paths[0]
    assert relatent.explain(factors, *MARRIAGE[0]).sentence.endswith(
        f"because {' '.join(MARRIAGE[1])}: married to(y,x) ⇒ married to(x,y) holds in 78 of 78 cases."
    )


def test_a_missing_mirror_and_an_implied_fact_are_the_first_missing_ones(factors: Any) -> None:
    found = relatent.missing(factors, k=2, reasons=True).missing
    assert {fact[:3] for fact in found} == {MARRIAGE[0], VIEW[0]}
    assert all(fact.probability >= 0.95 for fact in found)
    assert {fact.reason[:3] for fact in found} == {MARRIAGE[1], VIEW[1]}


def test_a_marriage_without_its_mirror_is_the_most_doubtful_marriage(factors: Any) -> None:
    ordered = [fact[:3] for fact in relatent.doubt(factors, k=EVERYTHING, refit=False).doubtful]
    assert next(fact for fact in ordered if fact[1] == "married to") == MARRIAGE[1]
    assert ordered.index(MARRIAGE[1]) < len(ordered) / 3


def test_a_newcomer_with_one_purchase_gets_its_view_at_once(factors: Any) -> None:
    """Patterns are read from the facts of the model and those of the newcomer, without a fit."""
    grown = factors.fold_in(relatent.read([("Zoe", "bought", "item 3")]))
    first = relatent.answers(grown, subject="Zoe", relation="viewed", k=1).answers[0]
    assert first.name == "item 3"
    assert first.probability > 0.5
    assert (
        "Zoe bought item 3: bought(x,y) ⇒ viewed(x,y)" in relatent.explain(grown, *("Zoe", "viewed", "item 3")).sentence
    )
    given = [NewFact("bought", "subject", "item 3")]
    explorer = Explorer(factors)
    page = explorer.fold_in("Zoe", given)
    [viewed] = [section for section in page.sections if (section.relation, section.role) == ("viewed", "subject")]
    assert viewed.predicted[0] == first
    assert "Zoe bought item 3" in explorer.explain_new("Zoe", given, NewFact("viewed", "subject", "item 3")).sentence


def test_answers_follow_facts_that_are_known_besides(factors: Any) -> None:
    known = {o for s, k, o in FACTS.named() if (s, k) == ("person 5", "viewed")}
    item = next(name for name in ("item 1", "item 2", "item 4", "item 5") if name not in known)
    cell = ("person 5", "viewed", item)
    further = relatent.read([("person 5", "bought", item)])
    before = relatent.explain(factors, *cell)
    after = relatent.explain(factors, *cell, known=further)
    assert after.probability > 0.9 > before.probability
    assert after.patterns[0].examples == [f"person 5 bought {item}"]
    found = relatent.answers(factors, further, subject="person 5", relation="viewed", k=1, treat_known="omit")
    assert (found.answers[0].name, found.answers[0].probability) == (item, after.probability)

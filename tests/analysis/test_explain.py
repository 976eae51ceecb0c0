from dataclasses import replace

import numpy as np
import pytest

import relatent
from relatent import Facts, answers, explain
from relatent.errors import InputError, UnknownNameError
from relatent.model.calibration import Calibration
from small_graphs import politics, random_facts


def test_components_and_bias_add_up_to_the_score(random_factors):
    f = random_factors
    why = explain(f, "e1", "likes", "e2", known=Facts.from_arrays(["e1"], ["knows"], ["e3"]), k=3)
    total = sum(component.contribution for component in why.components) + why.bias
    assert total == pytest.approx(why.score) == pytest.approx(f.score("e1", "likes", "e2"))
    assert why.probability == pytest.approx(f.probability("e1", "likes", "e2"))


def born_in(seed):
    """Everyone is a citizen of the country their city of birth is in; some citizenships are unobserved. Plus gossip."""
    rng = np.random.default_rng(seed)
    n_people, n_cities, n_countries = 60, 12, 4
    city = rng.integers(n_cities, size=n_people)
    country = np.arange(n_cities) % n_countries
    people = [f"person {i}" for i in range(n_people)]
    facts = [(people[i], "born in", f"city {c}") for i, c in enumerate(city)]
    facts += [(f"city {c}", "lies in", f"country {country[c]}") for c in range(n_cities)]
    held_out = set(rng.choice(n_people, 12, replace=False).tolist())
    facts += [(people[i], "citizen of", f"country {country[c]}") for i, c in enumerate(city) if i not in held_out]
    gossip = {(people[rng.integers(n_people)], "knows", people[rng.integers(n_people)]) for _ in range(120)}
    cells = [((people[i], "citizen of", f"country {country[city[i]]}"), f"city {city[i]}") for i in sorted(held_out)]
    unobserved = [(people[i], "citizen of", f"country {c}") for i in held_out for c in range(n_countries)]
    return Facts.from_arrays(*zip(*(facts + sorted(gossip)), strict=True), unobserved=unobserved), cells


@pytest.mark.parametrize(
    "model",
    [
        relatent.RescalALS(12, 0.5, 0.5, calibrate=False),
        relatent.RescalLogit(12, 0.5, 0.5, max_iter=2000, calibrate=False),
    ],
)
def test_the_fact_behind_a_rule_is_the_first_reason(model):
    right = []
    for seed in range(3):
        facts, cells = born_in(seed)
        f = model.fit(facts).factors_
        for cell, city in cells:
            if f.probability(*cell) > 0.5:  # only predicted facts need reasons
                first = explain(f, *cell).reasons[0]
                right.append((first.subject, first.relation, first.object) == (cell[0], "born in", city))
    assert len(right) >= 12
    assert np.mean(right) >= 0.9


def test_facts_of_a_shared_neighbour_are_reasons_and_weak_facts_are_not():
    through_the_city = []
    for seed in range(3):
        facts, cells = born_in(seed)
        f = relatent.RescalLogit(12, penalty=relatent.Dura(0.05), max_iter=2000, calibrate=False).fit(facts).factors_
        for cell, city in cells:
            reasons = explain(f, *cell).reasons
            assert all(reason.influence > 0.05 * reasons[0].influence for reason in reasons)
            named = [(reason.subject, reason.relation, reason.object) for reason in reasons[:3]]
            through_the_city.append((city, "lies in", cell[2]) in named)
    assert np.mean(through_the_city) >= 0.25  # .08 if only the country itself counts


def test_the_strongest_reason_is_put_into_a_sentence():
    facts = Facts.from_arrays(*zip(*[
        ("Ann", "born in", "Rome"), ("Bob", "born in", "Rome"), ("Bob", "citizen of", "Italy"),
        ("Cid", "born in", "Oslo"), ("Cid", "citizen of", "Norway"),
    ], strict=True), unobserved=[("Ann", "citizen of", "Italy"), ("Ann", "citizen of", "Norway")])  # fmt: skip
    f = relatent.RescalLogit(5, 0.02, 0.02, calibrate=False).fit(facts).factors_
    why = explain(f, "Ann", "citizen of", "Italy")
    assert why.sentence == "Ann citizen of Italy, because Ann born in Rome; both are known of Bob as well."


class WithoutTriples:
    """Facts in which one can look, but that cannot be gone through."""

    def __init__(self, facts):
        self._facts = facts

    def __len__(self):
        return len(self._facts)

    def __getattr__(self, name):
        assert name != "triples", "all facts are looked at"
        return getattr(self._facts, name)


@pytest.mark.parametrize("method", [relatent.RescalALS, relatent.RescalLogit])
@pytest.mark.parametrize("calibrate", [False, True])
def test_reasons_are_found_without_a_look_at_all_facts(method, calibrate):
    facts = random_facts(n=15, count=70, unobserved=5, weighted=True)
    f = method(4, 0.1, 0.1, calibrate=calibrate).fit(facts).factors_
    wanted = [explain(f, s, k, o) for s, k, o in ((0, 0, 1), (3, 2, 7), *facts.triples[:3].tolist())]
    asked = f.candidates  # its indices are made once, by the first explanations
    asked.known.facts = WithoutTriples(asked.known.facts)
    for why in wanted:
        assert explain(f, why.subject, why.relation, why.object, known=asked) == why


def test_a_cell_has_the_probability_of_every_list_and_a_model_without_facts_needs_some(two_camps):
    facts, f = two_camps
    calibrated = replace(f, calibration=Calibration.of_lines([([0.0, 1.0], [-1.0, 0.0])]))
    for known in (None, Facts.from_arrays(["p1"], ["likes"], ["p2"])):
        why = explain(calibrated, "p1", "likes", "p4", known=known)
        [own] = [a for a in answers(calibrated, known, subject="p1", relation="likes", k=20).answers if a.name == "p4"]
        assert (why.score, why.probability) == (own.score, own.probability)
    without = replace(f, facts=None)
    with pytest.raises(
        InputError, match="does not hold its facts, and only facts are reasons: give them, as known= or --known"
    ):
        explain(without, "p1", "likes", "p4")
    assert explain(without, "p1", "likes", "p4", known=facts) == explain(f, "p1", "likes", "p4")


def test_wrong_arguments_are_refused(two_camps):
    _, f = two_camps
    with pytest.raises(UnknownNameError, match="unknown entity 'nobody'"):
        explain(f, "nobody", "likes", "p1")
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        explain(f, "p1", "likes", "p3", k=0)


def test_an_explanation_is_plain_data(two_camps):
    _, f = two_camps
    why = explain(f, "p1", "likes", "p3", k=2)
    found = why.to_dict()
    assert list(found) == list(why._fields)
    assert found["reasons"] == [reason._asdict() for reason in why.reasons]
    assert found["components"] == [component._asdict() for component in why.components]


def test_an_improbable_best_answer_is_not_called_unlikely():
    facts = politics()
    hidden = ("president 3", "party", "Red")
    known = Facts.from_arrays(*zip(*(fact for fact in facts.named() if fact != hidden), strict=True))
    model = relatent.RescalLogit(8, 0.1, 0.1, calibrate=False).fit(known).factors_
    shifted = replace(model, R=model.relation_matrices, bias=model.bias - 10)  # no answer is probable
    parties = sorted(("Blue", "Red"), key=lambda party: -model.score("president 3", "party", party))
    said = relatent.explain(shifted, "president 3", "party", parties[0]).sentence
    assert "is the likeliest answer that is not known; its strongest support is" in said
    worst = min(known.entities, key=lambda name: model.score("president 3", "party", name))
    assert "likeliest" not in relatent.explain(shifted, "president 3", "party", worst).sentence


def test_a_model_of_rules_is_explained_by_rules():
    facts = relatent.load_dataset("presidents")
    model = relatent.MarkovLogic(method="exact", max_clauses=20, calibrate=False).fit(facts).factors_
    assert model.rank  # its scores, not its rules, are kept
    found = relatent.explain(model, "Al Gore", "party", "Democratic")
    assert found.reasons == found.components == []
    assert found.paths
    share = f"{found.paths[0].confidence:.0%}"
    assert found.sentence.endswith(
        f"predicted by {found.paths[0].body} ⇒ party(x,y), which holds in {share} of its cases."
    )
    assert relatent.explain(model, "Al Gore", "party", "Joe Biden").sentence.endswith(
        "no rule of the known facts predicts it."
    )

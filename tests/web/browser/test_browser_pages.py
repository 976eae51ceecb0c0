"""The pages: search, entities, questions, the model, new entities, names with special characters."""

import dataclasses
import re

import numpy as np
import pytest
from browser_pages import TIMEOUT_MS, opened, running, section

import relatent
from relatent.data.names import Names
from relatent.model.provenance import Provenance

pytest.importorskip("starlette", reason="needs relatent[serve]")
from relatent.web.app import create_app
from relatent.web.explorer import Explorer


def test_a_search_leads_to_an_entity(page, url):
    from playwright.sync_api import expect

    page.goto(url)
    page.locator("main input").press_sequentially("vice 1")
    expect(page.get_by_role("option").first).to_have_text(re.compile("^vice 1"), timeout=TIMEOUT_MS)
    page.get_by_role("option", name="vice 12").click()
    page.get_by_role("heading", level=1, name="vice 12").wait_for()
    assert page.url == f"{url}/entity?name=vice+12"
    assert page.title() == "vice 12 · relatent"
    page.go_back()
    page.get_by_role("heading", name="Explore the model").wait_for()


def test_an_entity_shows_known_facts_predictions_and_similar_entities(page, url):
    page.goto(f"{url}/entity?name=president+3")
    party = section(page, "party")
    party.get_by_text("Known", exact=True).wait_for()
    assert party.get_by_role("link", name="Red").count() == 1
    page.locator("aside .rows a").first.wait_for()
    assert page.locator("aside section").first.locator("li").count() == 8
    page.locator("aside").get_by_role("link", name=re.compile("^Group [0-9]+$")).wait_for()


def test_an_explanation_opens_and_closes_below_its_row(page, url):
    page.goto(f"{url}/entity?name=president+3")
    button = section(page, "party").get_by_role("button", name="Why president 3 party Red?")
    button.scroll_into_view_if_needed()
    button.click()
    explanation = section(page, "party").locator(".why")
    explanation.get_by_text("Known facts behind it").wait_for()
    assert "president 3 party Red is known" in explanation.text_content()
    explanation.locator("summary").click()
    assert explanation.locator("details li").count() == 5
    button.click()
    assert explanation.count() == 0


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"subject": "president 2", "relation": "party"}, "Blue"),
        ({"relation": "vicePresident", "object": "vice 2"}, "president 2"),
        ({"subject": "president 2", "object": "Blue"}, "party"),
    ],
)
def test_a_question_is_asked_by_a_form(page, url, given, answer):
    page.goto(f"{url}/ask")
    for place, name in given.items():
        page.get_by_label(place.capitalize()).fill(name)
    page.get_by_role("button", name="Ask").click()
    page.locator("ol.rows li").first.wait_for()
    known = page.locator("ol.rows li.known")
    assert answer in [text.removeprefix("✓") for text in known.locator(".name").all_text_contents()]
    assert known.locator(".number").all_text_contents() == ["known"] * known.count()  # instead of a probability
    assert "ask?" in page.url


def test_known_answers_can_be_left_out(page, url):
    page.goto(f"{url}/ask?subject=president+2&relation=party")
    page.locator("li.known").wait_for()
    page.get_by_label("Known answers").select_option("omit")
    page.get_by_text("1 known answer left out").wait_for()
    assert page.locator("li.known").count() == 0


def test_the_number_of_answers_is_in_the_url(page, url):
    page.goto(f"{url}/ask?relation=party&object=Red&top=25")
    page.locator("ol.rows li").first.wait_for()
    assert page.locator("ol.rows > li").count() == 25
    page.get_by_label("Number of answers").select_option("100")
    page.wait_for_url("**/ask?*top=100")
    page.locator("ol.rows > li").nth(40).wait_for()
    assert page.locator("ol.rows > li").count() == 41  # all entities but Red itself


def test_a_complete_fact_shows_its_probability_and_explanation(page, url):
    page.goto(f"{url}/ask?subject=vice+2&relation=party&object=Red")
    page.get_by_text("of the objects that are not known").wait_for()
    page.get_by_text("vice 2 party Red: no known fact supports it.").wait_for()


def test_an_unknown_name_is_answered_with_links_to_similar_names(page, url):
    page.goto(f"{url}/entity?name=presidnt+3")
    page.locator(".error").get_by_text("Unknown entity 'presidnt 3'").wait_for()
    page.locator(".error").get_by_role("link", name="president 3", exact=True).click()
    page.get_by_role("heading", level=1, name="president 3").wait_for()
    section(page, "party").wait_for()


def test_a_missing_page_says_so(page, url):
    page.goto(f"{url}/nowhere")
    page.get_by_role("heading", name="Page not found").wait_for()


def test_the_model_page_shows_the_fit_and_the_quality(page, url):
    page.goto(f"{url}/model")
    page.get_by_role("heading", level=1, name="politics.relatent").wait_for()
    page.get_by_role("img", name="Objective from").wait_for()
    page.get_by_role("img", name="Reliability").wait_for()
    row = page.get_by_role("row", name="party")
    assert float(row.locator("td").nth(2).text_content()) > 0.4


def test_a_new_entity_is_described_by_facts(page, url):
    page.goto(f"{url}/new")
    page.get_by_label("Name").fill("Eve")
    page.get_by_label("Role of the new entity").first.select_option("object")
    page.get_by_label("Relation", exact=True).first.fill("vicePresident")
    page.get_by_label("Other entity").first.press_sequentially("president 1")
    page.get_by_role("option", name="president 1", exact=False).first.click()
    page.get_by_role("button", name="Predict").click()
    page.get_by_role("heading", name="Predictions for Eve").wait_for()
    assert section(page, "party").locator("li .name").first.text_content() == "1.Red"  # its rank, and its name
    assert page.locator("aside li").count() == 10
    page.reload()  # the description is in the URL
    page.get_by_role("heading", name="Predictions for Eve").wait_for()
    assert page.get_by_label("Name").input_value() == "Eve"
    section(page, "party").get_by_role("button", name="Why Eve party Red?").click()
    section(page, "party").locator(".why").get_by_text("Eve party Red").wait_for()
    section(page, "party").locator(".why .reasons li").first.wait_for()


def test_an_explanation_has_the_rules_that_predict_the_fact(page, url):
    page.goto(f"{url}/ask?subject=president+3&relation=party&object=Red")
    rules = page.locator(".paths li")
    rules.first.wait_for()
    assert "vicePresident(x,z) ∧ party(z,y) ⇒ party(x,y)" in " ".join(rules.all_text_contents())


def test_duplicates_have_a_page(page, url):
    page.goto(url)
    page.get_by_role("link", name="Duplicates", exact=True).click()
    page.get_by_role("heading", level=1, name="Duplicates").wait_for()
    page.locator("ol.rows li").first.wait_for()
    assert page.locator("ol.rows li a").count() == 50
    page.get_by_role("link", name="next").click()
    page.get_by_text("26 to 50 of").wait_for()


def test_incomplete_facts_and_unknown_names_are_reported_in_the_form(page, url):
    page.goto(f"{url}/new")
    page.get_by_label("Name").fill("Eve")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("Give at least one fact.").wait_for()
    page.get_by_label("Relation", exact=True).first.fill("party")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("Each fact needs a relation and another entity.").wait_for()
    page.get_by_label("Other entity").first.fill("Rad")
    page.get_by_role("button", name="Predict").click()
    page.locator(".error").get_by_text("Unknown entity 'Rad'").wait_for()


def test_a_model_without_explanations_says_so_and_hides_unset_settings(chromium, explorer):
    about = Provenance("Rescal", {"loss": "categorical", "optimiser": {"type": "Adam", "lr": 0.1}, "rank": None})
    factors = dataclasses.replace(explorer.factors, about=about, loss=None, exclusive=True)
    with running(create_app(Explorer(factors))) as address, opened(chromium) as page:
        page.goto(f"{address}/entity?name=president+3")
        page.get_by_text("This kind of model gives no explanations").wait_for()
        assert page.get_by_text("why?").count() == 0
        page.goto(f"{address}/ask?subject=president+3&relation=party&object=Red")
        page.get_by_text("This kind of model gives no explanations").wait_for()
        page.goto(f"{address}/new")
        page.get_by_text("This kind of model cannot add entities").wait_for()
        page.goto(f"{address}/model")
        page.get_by_text("loss categorical, max_iter 5", exact=True).wait_for()


def test_a_model_with_explanations_does_not_say_that_it_has_none(page, url):
    page.goto(f"{url}/entity?name=president+3")
    page.get_by_text("Probabilities are those of facts not listed").wait_for()
    assert page.get_by_text("gives no explanations").count() == 0


def test_a_model_that_is_not_calibrated_and_holds_no_facts_says_so(chromium, explorer):
    factors = dataclasses.replace(explorer.factors, calibration=None, facts=None)
    with running(create_app(Explorer(factors))) as address, opened(chromium) as page:
        page.goto(address)
        page.get_by_text("the model does not hold its facts: to see them and explanations").wait_for()
        page.goto(f"{address}/entity?name=president+3")
        page.get_by_text("Probabilities are not calibrated").wait_for()
        page.goto(f"{address}/ask?subject=president+3&relation=party&object=Red")
        page.get_by_text("To see explanations, start the server with --known DATA.").wait_for()


def test_a_known_fact_is_shown_as_known_without_a_probability(page, url):
    page.goto(f"{url}/ask?subject=president+3&relation=party&object=Red")
    page.get_by_text("Known fact", exact=True).wait_for()
    assert "%" not in page.locator("li.known").first.text_content()


def test_names_with_markup_are_shown_as_text(chromium):
    names = ["<img src=x onerror=alert(1)>", 'a"b&c=d', "http://example.org/x?y#z", "..", "日本 %2F +"]
    rng = np.random.default_rng(0)
    factors = relatent.Factors(
        rng.normal(size=(5, 2)), rng.normal(size=(1, 2, 2)), np.zeros(1), Names(names), Names(["<b>"], what="relation")
    )
    facts = relatent.Facts.from_arrays(names, ["<b>"] * 5, names[::-1])
    with running(create_app(Explorer(factors, facts))) as url, opened(chromium) as page:
        page.goto(url)
        for name in names:
            page.locator(".chips a", has_text=name).first.click()
            page.get_by_role("heading", level=1, name=name, exact=True).wait_for()
            section(page, "<b>").wait_for()
            page.go_back()
            page.locator(".chips a").first.wait_for()

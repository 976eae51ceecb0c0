"""The page in a real browser: `make test-browser`."""

import asyncio
import dataclasses
import io
import os
import re
import shutil
import socket
import threading
from contextlib import contextmanager

import numpy as np
import pytest

import relatent
import worlds

pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-browser")
pytest.importorskip("uvicorn", reason="needs relatent[serve]")
import uvicorn
from PIL import Image
from playwright.sync_api import expect, sync_playwright
from starlette.middleware import Middleware

from relatent.analysis.known_facts import KnownFacts
from relatent.data.names import Names
from relatent.web.app import create_app
from relatent.web.views import Explorer

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of other people's packages
]

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
LONG = 20_000  # milliseconds until a thing must be there


@contextmanager
def live(app):
    """The application at a free port, in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


class Delayed:
    """Every answer of the API comes late, as from a slow server."""

    def __init__(self, app, seconds):
        self.app, self.seconds = app, seconds

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"].startswith("/api"):
            await asyncio.sleep(self.seconds)
        await self.app(scope, receive, send)


@pytest.fixture(scope="module")
def explorer():
    facts = worlds.politics()
    factors = relatent.RescalLogit(8, 0.1, 0.1).fit(facts).factors_
    return Explorer(factors, KnownFacts(facts, factors), name="politics.relatent", known_name="politics")


@pytest.fixture(scope="module")
def url(explorer):
    with live(create_app(explorer)) as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium, or CHROMIUM=path")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE_GL)
        yield browser
        browser.close()


@contextmanager
def opened(chromium, **settings):
    """A page that fails the test if a script of it fails, or a rule of safety is broken."""
    context = chromium.new_context(viewport=settings.pop("viewport", {"width": 1180, "height": 820}), **settings)
    context.set_default_timeout(LONG)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    try:
        yield page
        assert not faults
    finally:
        context.close()


@pytest.fixture
def page(chromium):
    with opened(chromium) as page:
        yield page


def section(page, relation, role="subject"):
    return page.locator(f'section[data-relation="{relation}"][data-role="{role}"]')


def test_a_search_leads_to_an_entity(page, url):
    page.goto(url)
    page.locator("main input").press_sequentially("vice 1")
    page.get_by_role("option").first.wait_for()
    assert page.get_by_role("option").first.text_content().startswith("vice 1")
    page.get_by_role("option", name="vice 12").click()
    page.get_by_role("heading", level=1, name="vice 12").wait_for()
    assert page.url == f"{url}/entity?name=vice+12"
    assert page.title() == "vice 12 · relatent"
    page.go_back()
    page.get_by_role("heading", name="What does the model know?").wait_for()


def test_an_entity_shows_known_and_likely_facts_and_who_is_alike(page, url):
    page.goto(f"{url}/entity?name=president+3")
    party = section(page, "party")
    party.get_by_text("Known", exact=True).wait_for()
    assert party.get_by_role("link", name="Red").count() == 1
    page.locator("aside .rows a").first.wait_for()
    assert page.locator("aside section").first.locator("li").count() == 8
    page.locator("aside").get_by_text("Typical of it").wait_for()


def test_reasons_open_and_close_beside_a_row(page, url):
    page.goto(f"{url}/entity?name=president+3")
    why = section(page, "party").get_by_role("button", name="Why president 3 party Red?")
    why.scroll_into_view_if_needed()
    why.click()
    reasons = section(page, "party").locator(".why")
    reasons.get_by_text("Known facts that carry it").wait_for()
    assert "president 3 party Red is known" in reasons.text_content()
    reasons.locator("summary").click()
    assert reasons.locator("details li").count() == 5
    why.click()
    assert reasons.count() == 0


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
    assert answer in [text.removeprefix("✓known: ") for text in known.locator(".name").all_text_contents()]
    assert "ask?" in page.url


def test_known_answers_can_be_left_out(page, url):
    page.goto(f"{url}/ask?subject=president+2&relation=party")
    page.locator("li.known").wait_for()
    page.get_by_label("Known answers").select_option("omit")
    page.get_by_text("1 known answer left out").wait_for()
    assert page.locator("li.known").count() == 0


def test_a_whole_fact_shows_its_probability_and_reasons(page, url):
    page.goto(f"{url}/ask?subject=vice+2&relation=party&object=Red")
    page.get_by_text("Probability", exact=True).wait_for()
    page.get_by_text("vice 2 party Red: no known fact supports it.").wait_for()


def test_a_wrong_name_is_met_with_close_ones(page, url):
    page.goto(f"{url}/entity?name=presidnt+3")
    page.locator(".fault").get_by_text("Unknown entity 'presidnt 3'").wait_for()
    page.locator(".fault").get_by_role("link", name="president 3", exact=True).click()
    page.get_by_role("heading", level=1, name="president 3").wait_for()
    section(page, "party").wait_for()


def test_an_address_that_is_no_page_says_so(page, url):
    page.goto(f"{url}/nowhere")
    page.get_by_role("heading", name="No such page").wait_for()


def colours_drawn(page):
    """How many colours the map has that are not some shade of grey."""
    page.wait_for_timeout(300)
    with Image.open(io.BytesIO(page.locator(".plane").screenshot())) as image:
        pixels = np.asarray(image.convert("RGB"), int).reshape(-1, 3)
    return len(np.unique(pixels[np.ptp(pixels, axis=1) > 60], axis=0))


BY_WEBGL = """
const plain = WebGL2RenderingContext.prototype.getParameter;
WebGL2RenderingContext.prototype.getParameter = function (name) {
  return name === 0x9246 ? "a graphics card" : plain.call(this, name);
};
"""


def where(page, explorer, entity, method="pca"):
    """Where an entity stands on the map, in pixels of the canvas."""
    points = np.frombuffer(explorer.points(method), "<f4").reshape(-1, 2)
    box = page.locator(".plane canvas").first.bounding_box()
    unit = 0.46 * min(box["width"], box["height"])
    x, y = points[explorer.factors.entities.id(entity)].tolist()
    return {"x": box["width"] / 2 + x * unit, "y": box["height"] / 2 - y * unit}


@pytest.mark.parametrize(("method", "painter"), [("pca", "pixels"), ("pca", "webgl"), ("tsne", "pixels")])
def test_the_map_draws_points_in_the_colours_of_their_groups_and_names_them(page, url, explorer, method, painter):
    if painter == "webgl":
        page.add_init_script(BY_WEBGL)
    page.goto(f"{url}/map?method={method}")
    page.locator(f".plane[data-coloured][data-method={method}]").wait_for()
    assert colours_drawn(page) > 1
    assert page.locator(".plane").get_attribute("data-painter") == painter
    spot = where(page, explorer, "Red", method)
    page.locator(".plane canvas").first.hover(position=spot)
    page.locator(".tip").get_by_text("Red", exact=True).wait_for()
    page.locator(".plane canvas").first.click(position=spot)
    page.get_by_role("heading", level=1, name="Red").wait_for()


def test_the_map_zooms_and_moves_by_wheel_buttons_and_keys(page, url, explorer):
    page.goto(f"{url}/map")
    page.locator(".plane[data-coloured]").wait_for()
    canvas = page.locator(".plane canvas").first
    before = canvas.screenshot()
    for act in (
        lambda: page.get_by_role("button", name="Zoom in").click(),
        lambda: page.mouse.wheel(0, -300),
        lambda: canvas.press("ArrowLeft"),
    ):
        canvas.hover(position={"x": 40, "y": 40})
        act()
        page.wait_for_timeout(150)
        after = canvas.screenshot()
        assert after != before
        before = after


def test_groups_are_listed_for_those_who_do_not_use_the_map(page, url):
    page.goto(f"{url}/map")
    first = page.locator(".groups li").first
    first.wait_for()
    first.get_by_role("button").press("Enter")
    assert first.get_by_role("button").get_attribute("aria-pressed") == "true"
    first.get_by_role("link").press("Enter")
    page.get_by_role("heading", level=1, name="Group 0").wait_for()
    page.locator(".chips a").first.wait_for()


def test_the_model_page_shows_the_fit_and_its_quality(page, url):
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
    page.get_by_role("heading", name="What is likely of Eve").wait_for()
    assert section(page, "party").locator("li .name").first.text_content() == "Red"
    assert page.locator("aside li").count() == 10


def test_half_a_fact_and_a_wrong_name_are_told_in_the_form(page, url):
    page.goto(f"{url}/new")
    page.get_by_label("Name").fill("Eve")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("Give one fact at least.").wait_for()
    page.get_by_label("Relation", exact=True).first.fill("party")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("Each fact needs a relation and another entity.").wait_for()
    page.get_by_label("Other entity").first.fill("Rad")
    page.get_by_role("button", name="Predict").click()
    page.locator(".fault").get_by_text("Unknown entity 'Rad'").wait_for()


def test_a_slow_server_is_waited_for_and_left_alone(chromium, explorer):
    with live(create_app(explorer, middleware=[Middleware(Delayed, seconds=1.5)])) as url, opened(chromium) as page:
        page.goto(f"{url}/entity?name=president+3")
        page.get_by_text("One moment…").first.wait_for()
        assert page.locator("[aria-busy]").count() >= 1
        page.get_by_role("link", name="Ask", exact=True).click()  # away before the answer is there
        page.get_by_role("heading", level=1, name="Ask").wait_for()
        page.wait_for_timeout(2000)
        assert page.get_by_role("heading", level=1, name="Ask").is_visible()
        assert page.locator(".fault").count() == 0
        page.go_back()
        section(page, "party").wait_for()


def test_a_server_that_has_gone_is_told(chromium, explorer):
    with opened(chromium) as page:
        with live(create_app(explorer)) as url:
            page.goto(f"{url}/ask")
            page.get_by_role("heading", level=1, name="Ask").wait_for()
            page.wait_for_load_state("networkidle")
        page.get_by_label("Subject").fill("vice 2")
        page.get_by_label("Relation").fill("party")
        page.get_by_role("button", name="Ask").click()
        page.locator(".fault").get_by_text("The server does not answer").wait_for()


def test_a_server_that_comes_back_is_asked_again(page, url):
    page.route("**/api/**", lambda route: route.abort())
    page.goto(f"{url}/ask?subject=president+2&relation=party")
    page.locator(".fault").get_by_text("The server does not answer").wait_for()
    page.unroute("**/api/**")
    page.get_by_role("button", name="Ask").click()
    page.locator("ol.rows li").first.wait_for()


def test_a_server_that_fails_while_a_page_is_being_fetched_is_no_fault_of_a_script(page, url):
    held, failed = [], []
    page.route("**/api/**", lambda route: route.abort())
    page.route("**/web/ask.js", lambda route: held.append(route))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.goto(f"{url}/ask?subject=president+2&relation=party", wait_until="commit")
    while failed.count(f"{url}/api/model") < 2:  # asked, and asked again
        page.wait_for_timeout(20)
    page.wait_for_timeout(100)
    for route in held:
        route.continue_()
    page.locator(".fault").get_by_text("The server does not answer").wait_for()


def test_a_model_that_gives_no_reasons_says_so_and_settings_that_nobody_gave_are_not_shown(chromium, explorer):
    factors = explorer.factors
    about = {"model": "Rescal", "settings": {"loss": "categorical", "optimiser": None, "rank": None, "max_iter": 5}}
    other = dataclasses.replace(factors, about=about)
    app = create_app(Explorer(other, KnownFacts(worlds.politics(), other), known_name="politics"))
    with live(app) as address, opened(chromium) as page:
        page.goto(f"{address}/entity?name=president+3")
        page.get_by_text("A model of this kind gives no reasons").wait_for()
        assert page.get_by_text("why?").count() == 0
        page.goto(f"{address}/ask?subject=president+3&relation=party&object=Red")
        page.get_by_text("A model of this kind gives no reasons").wait_for()
        page.goto(f"{address}/new")
        page.get_by_text("A model of this kind takes no new entities").wait_for()
        page.goto(f"{address}/model")
        page.get_by_text("loss categorical, max_iter 5", exact=True).wait_for()


def test_a_model_that_gives_reasons_does_not_say_that_it_gives_none(page, url):
    page.goto(f"{url}/entity?name=president+3")
    page.get_by_text("Probabilities are the model's own").wait_for()
    assert page.get_by_text("gives no reasons").count() == 0


PAGES = (
    "/",
    "/entity?name=president+3",
    "/ask?subject=president+2&relation=party",
    "/map",
    "/group?number=0",
    "/model",
    "/new",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_needs_no_sideways_scrolling(chromium, url, path):
    with opened(chromium, viewport={"width": 360, "height": 740}, has_touch=True) as page:
        page.goto(url + path)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main .busy")).to_have_count(0, timeout=LONG)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def ground(page):
    return sum(map(int, page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")[:3]))


def test_the_page_is_dark_where_the_system_is_or_where_one_says_so(chromium, url):
    with opened(chromium, color_scheme="dark") as page:
        page.goto(url)
        assert ground(page) < 150
    with opened(chromium, color_scheme="light") as page:
        page.goto(url)
        assert ground(page) > 600
        page.get_by_role("button", name="Switch between light and dark").click()
        assert ground(page) < 150
        page.reload()
        assert ground(page) < 150


def test_all_can_be_done_by_keyboard(page, url):
    page.goto(f"{url}/model")
    page.get_by_role("heading", level=1, name="politics.relatent").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("vice 7")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("ArrowDown")
    assert page.locator("#q").get_attribute("aria-activedescendant")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="vice 7").wait_for()
    section(page, "party").wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "why?":
            break
    page.keyboard.press("Enter")
    page.get_by_text("Known facts that carry it").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_escape_closes_the_suggestions(page, url):
    page.goto(url)
    page.locator("main input").press_sequentially("vice")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("option").count() == 0
    assert page.locator("main input").get_attribute("aria-expanded") == "false"


def test_names_are_text_whatever_they_hold(chromium):
    """Names with markup, quotes, slashes and signs of addresses."""
    names = ["<img src=x onerror=alert(1)>", 'a"b&c=d', "http://example.org/x?y#z", "..", "日本 %2F +"]
    rng = np.random.default_rng(0)
    factors = relatent.Factors(
        rng.normal(size=(5, 2)), rng.normal(size=(1, 2, 2)), np.zeros(1), Names(names), Names(["<b>"], what="relation")
    )
    facts = relatent.Facts.from_arrays(names, ["<b>"] * 5, names[::-1])
    with live(create_app(Explorer(factors, KnownFacts(facts, factors)))) as url, opened(chromium) as page:
        page.goto(url)
        for name in names:
            page.locator(".chips a", has_text=name).first.click()
            page.get_by_role("heading", level=1, name=name, exact=True).wait_for()
            section(page, "<b>").wait_for()
            page.go_back()
            page.locator(".chips a").first.wait_for()


def test_fifty_thousand_points_are_drawn_moved_and_named(chromium):
    n = 50_000
    rng = np.random.default_rng(0)
    factors = relatent.Factors(
        rng.normal(size=(n, 4)).astype(np.float32),
        rng.normal(size=(1, 4, 4)).astype(np.float32),
        np.zeros(1, np.float32),
        Names(n),
        Names(1, what="relation"),
    )
    explorer = Explorer(factors)
    with live(create_app(explorer)) as url, opened(chromium) as page:
        page.goto(f"{url}/map")
        page.locator(".plane[data-points='50000']").wait_for()
        canvas = page.locator(".plane canvas").first
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 200)
        page.mouse.down()
        for step in range(30):
            page.mouse.move(box["x"] + 200 + 2 * step, box["y"] + 200 + step)
        page.mouse.up()
        page.get_by_role("button", name="Show all").click()
        page.wait_for_timeout(200)
        canvas.hover(position=where(page, explorer, "7"))
        expect(page.locator(".tip")).to_have_text(re.compile(r"^\d+$"))  # whoever is nearest there
        page.locator(".plane[data-coloured]").wait_for()
        assert colours_drawn(page) >= 1

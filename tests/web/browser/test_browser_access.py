"""Phones, dark mode and the keyboard."""

from itertools import pairwise

import pytest
from browser_pages import TIMEOUT_MS, opened, section
from test_browser_map import position_of

PATHS = (
    "/",
    "/entity?name=president+3",
    "/ask?subject=president+2&relation=party",
    "/map",
    "/group?number=0",
    "/duplicates",
    "/model",
    "/new",
    "/api",
)


@pytest.mark.parametrize("path", PATHS)
def test_a_phone_needs_no_horizontal_scrolling(chromium, url, path):
    from playwright.sync_api import expect

    with opened(chromium, viewport={"width": 360, "height": 740}, has_touch=True) as page:
        page.goto(url + path)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main .loading")).to_have_count(0, timeout=TIMEOUT_MS)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("path", [*PATHS[:-1], "/entity?name=nobody", "/nowhere"])
def test_headings_are_in_order(page, url, path):
    from playwright.sync_api import expect

    page.goto(url + path)
    page.wait_for_load_state("networkidle")
    expect(page.locator("main .loading")).to_have_count(0, timeout=TIMEOUT_MS)
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_a_slash_goes_to_the_search_of_the_first_page(page, url):
    page.goto(url)
    page.get_by_role("heading", name="Explore the model").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    page.keyboard.type("vice 7")
    assert page.locator("main input").input_value() == "vice 7"


def test_the_map_of_a_phone_is_drawn_and_answers_to_a_tap(chromium, url, explorer):
    with opened(chromium, viewport={"width": 360, "height": 740}, has_touch=True) as page:
        page.goto(f"{url}/map?method=pca")
        page.locator(".plane[data-coloured][data-method=pca]").wait_for()
        box = page.locator(".plane canvas").first.bounding_box()
        assert box["width"] >= 300
        assert box["height"] >= 200
        page.locator(".plane canvas").first.tap(position=position_of(page, explorer, "Red"))
        page.get_by_text("Red", exact=True).first.wait_for()


def brightness(page):
    """Sum of red, green and blue of the background."""
    return sum(map(int, page.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")[:3]))


def test_dark_mode_follows_the_system_and_the_button(chromium, url):
    with opened(chromium, color_scheme="dark") as page:
        page.goto(url)
        assert brightness(page) < 150
    with opened(chromium, color_scheme="light") as page:
        page.goto(url)
        assert brightness(page) > 600
        page.get_by_role("button", name="Switch between light and dark mode").click()
        assert brightness(page) < 150
        page.reload()
        assert brightness(page) < 150


def test_everything_can_be_reached_by_keyboard(page, url):
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
    page.get_by_text("Known facts behind it").first.wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_escape_closes_the_suggestions(page, url):
    page.goto(url)
    page.locator("main input").press_sequentially("vice")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Escape")
    assert page.get_by_role("option").count() == 0
    assert page.locator("main input").get_attribute("aria-expanded") == "false"


def test_escape_cancels_suggestions_that_are_on_their_way(page, url):
    page.goto(url)
    page.locator("main input").fill("vice")
    page.keyboard.press("Escape")
    page.wait_for_timeout(500)
    assert page.get_by_role("option").count() == 0

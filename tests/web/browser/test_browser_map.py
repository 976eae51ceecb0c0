"""The map: drawing, zooming, hovering, and the list of groups."""

import io
import re

import numpy as np
import pytest
from browser_pages import opened, running

import relatent
from relatent.data.names import Names

pytest.importorskip("starlette", reason="needs relatent[serve]")
from relatent.web.app import create_app
from relatent.web.explorer import Explorer

PRETEND_GRAPHICS_CARD = """
const getParameter = WebGL2RenderingContext.prototype.getParameter;
WebGL2RenderingContext.prototype.getParameter = function (name) {
  return name === 0x9246 ? "a graphics card" : getParameter.call(this, name);
};
"""


def n_colours(page):
    """The number of colours on the map that are not grey."""
    from PIL import Image

    page.wait_for_timeout(300)
    with Image.open(io.BytesIO(page.locator(".plane").screenshot())) as image:
        pixels = np.asarray(image.convert("RGB"), int).reshape(-1, 3)
    return len(np.unique(pixels[np.ptp(pixels, axis=1) > 60], axis=0))


def position_of(page, explorer, entity, method="pca"):
    """Position of an entity on the canvas, in pixels."""
    points = np.frombuffer(explorer.map.points(method), "<f4").reshape(-1, 2)
    box = page.locator(".plane canvas").first.bounding_box()
    unit = 0.46 * min(box["width"], box["height"])
    x, y = points[explorer.factors.entities.id(entity)].tolist()
    return {"x": box["width"] / 2 + x * unit, "y": box["height"] / 2 - y * unit}


@pytest.mark.parametrize(("method", "painter"), [("pca", "pixels"), ("pca", "webgl"), ("tsne", "pixels")])
def test_points_have_the_colours_of_their_groups_and_names_on_hover(page, url, explorer, method, painter):
    if painter == "webgl":
        page.add_init_script(PRETEND_GRAPHICS_CARD)
    page.goto(f"{url}/map?method={method}")
    page.locator(f".plane[data-coloured][data-method={method}]").wait_for()
    assert n_colours(page) > 1
    assert page.locator(".plane").get_attribute("data-painter") == painter
    position = position_of(page, explorer, "Red", method)
    page.locator(".plane canvas").first.hover(position=position)
    page.locator(".tip").get_by_text("Red", exact=True).wait_for()
    page.locator(".plane canvas").first.click(position=position)
    page.get_by_role("heading", level=1, name="Red").wait_for()


def test_the_map_opens_on_tsne_with_names(page, url):
    page.goto(f"{url}/map")
    page.locator(".plane[data-coloured][data-method=tsne]").wait_for()
    assert page.get_by_role("radio", name="Neighbours (t-SNE)").is_checked()
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    page.wait_for_timeout(300)
    assert page.locator(".plane canvas.labels").evaluate(drawn)


def test_the_map_zooms_and_moves_by_wheel_buttons_and_keys(page, url):
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


def test_groups_are_listed_beside_the_map(page, url):
    page.goto(f"{url}/map")
    first = page.locator(".groups li").first
    first.wait_for()
    first.get_by_role("button").press("Enter")
    assert first.get_by_role("button").get_attribute("aria-pressed") == "true"
    first.get_by_role("link").press("Enter")
    page.get_by_role("heading", level=1, name="Group 0").wait_for()
    page.locator(".chips a").first.wait_for()


def test_fifty_thousand_points_are_drawn_moved_and_named(chromium):
    from playwright.sync_api import expect

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
    with running(create_app(explorer)) as url, opened(chromium) as page:
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
        canvas.hover(position=position_of(page, explorer, "7"))
        expect(page.locator(".tip")).to_have_text(re.compile(r"^\d+$"))  # another point may be nearer
        page.locator(".plane[data-coloured]").wait_for()
        assert n_colours(page) >= 1

"""Slow, stopped and failing servers."""

import asyncio

import pytest
from browser_pages import opened, running, section

pytest.importorskip("starlette", reason="needs relatent[serve]")
from starlette.middleware import Middleware

from relatent.web.app import create_app

NO_RESPONSE = "The server does not respond"


class Delayed:
    """Middleware that delays every response of the API."""

    def __init__(self, app, seconds):
        self.app, self.seconds = app, seconds

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["path"].startswith("/api"):
            await asyncio.sleep(self.seconds)
        await self.app(scope, receive, send)


def test_a_page_shows_that_it_is_loading_and_can_be_left(chromium, explorer):
    with running(create_app(explorer, middleware=[Middleware(Delayed, seconds=1.5)])) as url, opened(chromium) as page:
        page.goto(f"{url}/entity?name=president+3")
        page.get_by_text("Loading…").first.wait_for()
        assert page.locator("[aria-busy]").count() >= 1
        page.get_by_role("link", name="Ask", exact=True).click()  # before the response arrives
        page.get_by_role("heading", level=1, name="Ask").wait_for()
        page.wait_for_timeout(2000)
        assert page.get_by_role("heading", level=1, name="Ask").is_visible()
        assert page.locator(".error").count() == 0
        page.go_back()
        section(page, "party").wait_for()


def test_a_stopped_server_is_reported(chromium, explorer):
    with opened(chromium) as page:
        with running(create_app(explorer)) as url:
            page.goto(f"{url}/ask")
            page.get_by_role("heading", level=1, name="Ask").wait_for()
            page.wait_for_load_state("networkidle")
        page.get_by_label("Subject").fill("vice 2")
        page.get_by_label("Relation").fill("party")
        page.get_by_role("button", name="Ask").click()
        page.locator(".error").get_by_text(NO_RESPONSE).wait_for()


def test_a_restarted_server_is_asked_again(page, url):
    page.route("**/api/**", lambda route: route.abort())
    page.goto(f"{url}/ask?subject=president+2&relation=party")
    page.locator(".error").get_by_text(NO_RESPONSE).wait_for()
    page.unroute("**/api/**")
    page.get_by_role("button", name="Ask").click()
    page.locator("ol.rows li").first.wait_for()


def test_a_failure_while_a_script_is_loading_is_reported_by_the_page(page, url):
    held, failed = [], []
    page.route("**/api/**", lambda route: route.abort())
    page.route("**/web/ask.js", lambda route: held.append(route))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.goto(f"{url}/ask?subject=president+2&relation=party", wait_until="commit")
    while failed.count(f"{url}/api/model") < 2:  # the request and its repetition
        page.wait_for_timeout(20)
    page.wait_for_timeout(100)
    for route in held:
        route.continue_()
    page.locator(".error").get_by_text(NO_RESPONSE).wait_for()

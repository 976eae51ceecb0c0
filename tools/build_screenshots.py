"""Take the screenshot of the explorer in docs/images/: needs `pip install playwright` and chromium.

The model of the presidents has a few unobserved facts, so that there is something to predict.
With --all FOLDER: screenshots of every page, light and dark, on a desktop and on a phone.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import uvicorn
from playwright.sync_api import Browser, expect, sync_playwright

import relatent
from relatent.web.app import create_app
from relatent.web.explorer import Explorer

IMAGES = Path(__file__).parents[1] / "docs" / "images"
UNOBSERVED = ("George H. W. Bush",)  # the party of these is unobserved
PAGES = {
    "home": "/",
    "entity": "/entity?name=George+H.+W.+Bush",
    "ask": "/ask?relation=party&object=Democratic&top=25",
    "map": "/map?method=tsne",
    "group": "/group?number=0",
    "model": "/model",
    "new": "/new",
    "wrong": "/entity?name=George+Busch",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    folder: Path | None = parser.parse_args().all
    with _running_server() as url, sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        IMAGES.mkdir(exist_ok=True)
        _screenshot(browser, url + PAGES["entity"], IMAGES / "explorer.png", height=620, why=True)
        if folder is not None:
            folder.mkdir(exist_ok=True)
            for name, path in PAGES.items():
                for look in ("light", "dark", "phone"):
                    _screenshot(browser, url + path, folder / f"{name}-{look}.png", look=look, why=name == "entity")
        browser.close()


@contextmanager
def _running_server() -> Iterator[str]:
    facts = relatent.load_dataset("presidents")
    party = facts.relations.id("party")
    parties = np.unique(facts.objects[facts.triples[:, 1] == party])
    cells = np.array([(facts.entities.id(person), party, one) for person in UNOBSERVED for one in parties])
    seen = facts.hold_out(cells, masked=True)
    factors = relatent.RescalLogit(rank=20, l2_entities=0.5, l2_relations=0.5).fit(seen).factors_
    test = relatent.Facts.from_ids(cells[facts.contains(cells)], facts.entities, facts.relations)
    explorer = Explorer(factors, test=test, name="presidents.relatent", test_name="his party")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(create_app(explorer), log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


def _screenshot(
    browser: Browser, url: str, path: Path, *, look: str = "light", height: int = 820, why: bool = False
) -> None:
    width, height = (360, 740) if look == "phone" else (1120, height)
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if look == "dark" else "light",
        has_touch=look == "phone",
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    expect(page.locator("main .loading")).to_have_count(0, timeout=60_000)
    if why:
        party = page.locator("section[data-relation=party][data-role=subject]")
        party.scroll_into_view_if_needed()
        party.get_by_role("button").first.click()
        party.locator(".why p").first.wait_for()
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(600)
    page.screenshot(path=path, full_page=look != "light" or "model" in url)
    context.close()


if __name__ == "__main__":
    main()

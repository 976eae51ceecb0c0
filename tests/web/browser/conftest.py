"""Fixtures of the browser tests, which need playwright and chromium: `make test-browser`."""

import os
import shutil
from importlib.util import find_spec

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SOFTWARE_GL = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
MISSING = [
    what
    for what, is_there in (
        ("playwright", find_spec("playwright") is not None),
        ("chromium (apt-get install chromium, or CHROMIUM=path)", CHROMIUM is not None),
        ("relatent[serve]", find_spec("uvicorn") is not None),
    )
    if not is_there
]


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))  # of third-party packages
            if MISSING:
                item.add_marker(pytest.mark.skip(reason=f"needs {' and '.join(MISSING)}"))


def pytest_terminal_summary(terminalreporter):
    """Say in one line that the browser tests were skipped."""
    skipped = [report for report in terminalreporter.getreports("skipped") if "browser/" in report.nodeid]
    if skipped and MISSING:
        needed = " and ".join(MISSING)
        terminalreporter.write_line(f"{len(skipped)} browser tests skipped: needs {needed}; run make test-browser")


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE_GL)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def url(explorer):
    from browser_pages import running

    from relatent.web.app import create_app

    with running(create_app(explorer)) as address:
        yield address


@pytest.fixture
def page(chromium):
    from browser_pages import opened

    with opened(chromium) as page:
        yield page

"""The site: all pages in its navigation, all public names in its reference, and a strict build."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import relatent

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import site_pages  # noqa: E402  (a tool, which the path has only now)

CONFIGURATION = (ROOT / "mkdocs.yml").read_text()


def test_every_page_is_in_the_navigation_and_exists():
    listed = set(re.findall(r"[\w-]+\.md", CONFIGURATION.partition("\nnav:")[2]))
    written = {path.name for path in (ROOT / "docs").rglob("*.md")}
    assert listed == written | set(site_pages.FROM_ROOT) | {"walkthrough.md"}


def test_every_public_name_is_in_the_reference():
    directives = re.findall(r"^::: relatent[\w.]*\.(\w+)$", site_pages.reference(), flags=re.M)
    assert sorted(directives) == sorted(relatent.__all__)


def test_the_notebook_becomes_a_page_with_its_outputs():
    page = site_pages.notebook_page(ROOT / "docs" / "walkthrough.ipynb")
    assert page.startswith("# ")
    assert page.count("```python") >= 5
    assert "```text" in page


@pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("mkdocstrings") is None, reason="needs relatent[docs]")
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = (tmp_path / "reference.html").read_text()
    missing = [name for name in relatent.__all__ if f'.{name}"' not in shown]
    assert not missing, missing
    assert "https://fonts.googleapis" not in shown

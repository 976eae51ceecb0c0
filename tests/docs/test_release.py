"""What a release says of itself agrees: versions, supported Pythons, licences of data, the container's command."""

import json
import re
import tomllib
from pathlib import Path

from snippets import parse

import relatent

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_has_the_version_and_licence_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {relatent.__version__}\n" in citation
    assert f"license: {PROJECT['license']}\n" in citation


def test_the_workflow_tests_the_pythons_of_the_classifiers_on_three_systems():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    tested = json.loads(re.search(r"python: (\[.*\])", workflow)[1])
    assert tested == [found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert all(system in workflow for system in ("ubuntu-latest", "macos-latest", "windows-latest"))


def test_targets_that_the_workflows_make_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for made in re.findall(r"run: make ([\w -]+)", workflow.read_text()):
            assert set(made.split()) <= targets, made


def test_the_licence_of_every_embedded_data_set_is_listed():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for entry in relatent.datasets():
        if entry.embedded:
            assert entry.licence in text, entry.name
    tables = ROOT / "src" / "relatent" / "data" / "tables"
    assert all(f"`{path.name}`" in text for path in tables.iterdir() if path.suffix in (".tsv", ".txt", ".gz"))


def test_the_container_runs_a_command_that_exists_as_a_plain_user(tmp_path):
    container = (ROOT / "Containerfile").read_text()
    command = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", container, flags=re.M)[1])
    model = tmp_path / "people.relatent"
    model.touch()
    parse([*command[1:], str(model)])
    assert container.index("USER relatent") < container.index("ENTRYPOINT")

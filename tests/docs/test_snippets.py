"""Every snippet of the README and the docs runs as it stands."""

import re
import sys
from pathlib import Path

import pytest
from snippets import (
    NEEDS,
    PAGES,
    commands,
    parse,
    prints,
    relatent_arguments,
    run_shell,
    snippets,
    with_short_searches,
)

import relatent
from relatent.cli.main import cli

GENERATED = {"cli.md", "benchmarks.md"}  # written by tools/, from help texts and from recorded results
LONGEST_LINE = 100  # columns


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder: a page makes the files that it uses."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order_and_print_what_the_page_shows(page, folder, capsys):
    names = {"__name__": "__main__"}
    for snippet in snippets(page):
        try:
            printed = capsys.readouterr().out
            if snippet.language == "bash" and not snippet.needs:
                run_shell(with_short_searches(snippet.text))
            elif snippet.language == "text" and printed:
                assert prints(printed, snippet.text), f"printed was\n{printed}"
            elif snippet.language == "bash":
                for arguments in filter(None, map(relatent_arguments, commands(snippet.text))):
                    parse(arguments)
            elif snippet.language == "python":
                code = compile(with_short_searches(snippet.text), str(snippet), "exec")
                if not snippet.needs:
                    exec(code, names)
        except Exception as problem:
            raise AssertionError(f"{snippet}: {problem}") from problem


def test_text_counts_as_printed_if_words_and_about_the_numbers_agree():
    printed = "  name  p\n│ Ann  │ 0.71 │\n│ Bob │ 0.20 │\n"
    assert prints(printed, "name p\n Ann 0.7\n … 0.2")
    assert not prints(printed, "name p\n Ann 0.5")
    assert not prints(printed, "Bob 0.2 … Ann")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_are_marked_by_language_and_by_what_they_need(page):
    for snippet in snippets(page):
        assert snippet.language in {"python", "bash", "text", "mermaid", "json", "csv", ""}, str(snippet)
        assert snippet.needs <= NEEDS, str(snippet)
        assert not (snippet.needs and snippet.language not in {"python", "bash"}), str(snippet)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_no_command_hides_in_an_indented_block(page):
    """Indented code is not executed; commands belong into fenced blocks."""
    plain = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not re.findall(r"^ {4,}(?:relatent|pip|python|make|torchrun) .*$", plain, flags=re.M)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_lines_of_prose_are_short_enough_to_review(page):
    plain = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for line in plain.splitlines():
        is_table_or_link = line.lstrip().startswith(("|", "!", "[", "<"))
        assert is_table_or_link or len(line) <= LONGEST_LINE, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_the_example_of_every_command_parses(command, folder):
    examples = re.findall(r"Example: relatent ([^\n]+(?:\n[^\n]+)*)", cli.commands[command].help or "")
    assert examples or command == "datasets"
    for example in examples:
        arguments = relatent_arguments("relatent " + " ".join(example.split()))
        assert arguments[0] == command
        for word in arguments:
            if Path(word).suffix in (".relatent", ".tsv"):
                Path(word).touch()
        parse(arguments)


def test_the_version_is_one_and_the_same():
    assert relatent.__version__ in (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert sys.version_info >= (3, 11)

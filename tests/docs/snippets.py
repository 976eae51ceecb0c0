"""Snippets of a Markdown page: what they are, and how they are run.

A fenced block marked `python` or `bash` is executed, unless its marks say `needs=`: the machine that runs the tests
may lack a GPU, several machines or a browser. The `relatent` commands of such blocks are still parsed, so that an
option that no longer exists fails the test. A block marked `text` after an executed block is what that one prints, or a
part of it.
"""

import math
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import click

from relatent.cli.main import cli, main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NEEDS = {"gpu", "install", "torch", "browser", "long", "machines"}
DECIMAL = r"[-+]?\d*\.\d+"
FENCE = re.compile(r"^(?P<indent> *)```(?P<marks>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)


class Snippet(NamedTuple):
    """One fenced block."""

    page: Path
    line: int
    language: str
    needs: frozenset[str]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in FENCE.finditer(text):
        language, *marks = block["marks"].split() or [""]
        needs = frozenset(need for mark in marks for need in mark.removeprefix("needs=").split(","))
        found.append(Snippet(page, text.count("\n", 0, block.start()) + 1, language, needs, block["body"]))
    return found


def with_short_searches(text: str) -> str:
    """The text with 2 seconds for each search: that it runs is tested here, not what it finds in the time."""
    return re.sub(r"(--time |\btime=)\d+", r"\g<1>2", text)


def commands(text: str) -> list[str]:
    """The lines of a shell block, with continued lines joined."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


def relatent_arguments(command: str) -> list[str] | None:
    """What follows `relatent`, also where torchrun starts it; None for any other command."""
    words = shlex.split(command, comments=True)
    if words[0] == "relatent":
        return words[1:]
    if words[0] == "torchrun" and "relatent" in words:
        return words[words.index("relatent") + 1 :]
    return None


def parse(arguments: list[str]) -> None:
    """Fail if the command line does not accept these arguments."""
    name, *rest = arguments
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no command {name!r}"
    command.make_context(name, [word for word in rest if word != "…"], resilient_parsing=False)


def run_shell(text: str) -> None:
    """Run a shell block: `relatent` commands in this process, everything else by bash."""
    for command in commands(text):
        arguments = relatent_arguments(command)
        if arguments is None:
            done = subprocess.run(["bash", "-euc", command], check=True, timeout=60, stdout=subprocess.PIPE, text=True)
            print(done.stdout)
            continue
        if code := _exit_code(arguments):
            raise AssertionError(f"{command!r} ended with exit code {code}")


def prints(output: str, expected: str) -> bool:
    """Whether the output has this text somewhere: … stands for anything, decimals may differ by a tenth, and spaces and
    the lines of tables do not count."""
    output, expected = (re.sub("[\u2500-\u257f]+", " ", text) for text in (output, expected))
    words = re.findall(rf"{DECIMAL}|\w+|[^\w\s]", expected)
    patterns = {"…": ".*?"} | {word: f"({DECIMAL})" for word in words if re.fullmatch(DECIMAL, word)}
    found = re.search(r"\s*".join(patterns.get(word) or re.escape(word) for word in words), output, re.S)
    decimals = [float(word) for word in words if re.fullmatch(DECIMAL, word)]
    return found is not None and all(
        math.isclose(float(shown), decimal, rel_tol=0.1, abs_tol=0.005)
        for shown, decimal in zip(found.groups(), decimals, strict=True)
    )


def _exit_code(arguments: list[str]) -> int | str:
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code or 0
    return 0

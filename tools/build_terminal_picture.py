"""Write docs/images/terminal.svg: a first session on the command line, recorded by running it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "terminal.svg"
WIDTH = 100
COMMANDS = (
    "relatent fit kinships -o kinships.relatent --rank 50",
    "relatent predict kinships.relatent --subject person19 --relation term18 --top 3",
    "relatent explain kinships.relatent -s person0 -r term0 -t person45 --top 3",
)
MAX_LINES = 11  # of the output of a command


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold green"))
            lines = output_of(command, folder).splitlines()
            console.print(Text.from_ansi("\n".join(lines[:MAX_LINES] + ["…"] * (len(lines) > MAX_LINES))))
            console.print()
    picture = console.export_svg(title="relatent", unique_id="terminal")
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.S), encoding="utf-8")  # no other hosts


def output_of(command: str, folder: str) -> str:
    """What the command writes to a terminal of this width."""
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", *command.split()]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


if __name__ == "__main__":
    main()

"""Write docs/cli.md from the commands' own help; with --print, to standard output."""

import sys
from pathlib import Path

import click

from relatent.cli.main import cli

HEAD = """# Commands

Generated from the help of the commands by `python tools/build_cli_docs.py`.

Every command takes `--json`: one JSON document on standard output; progress and messages go to standard error.
Exit codes: 0 success; 1 an error, told in one line; 2 wrong usage; 130 interrupted by Ctrl-C.
"""


def page() -> str:
    sections = [HEAD]
    for name, command in sorted(cli.commands.items()):
        context = click.Context(command, info_name=f"relatent {name}", max_content_width=100, terminal_width=100)
        sections.append(f"## {name}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(page())
    else:
        (Path(__file__).parents[1] / "docs" / "cli.md").write_text(page())

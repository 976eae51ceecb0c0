"""The command line as a whole: help, documentation, exit codes."""

import subprocess
import sys
from pathlib import Path

from commands import run
from relatent.cli.main import cli


def test_help_does_not_import_the_heavy_libraries():
    heavy = ("numpy", "scipy", "sklearn", "numba", "pyarrow")
    code = f"import sys, relatent.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_every_command_has_help_with_an_example(capsys):
    for name in cli.commands:
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert "--json" in out
        assert "Example:" in out or name == "datasets"


def test_the_command_documentation_is_up_to_date():
    root = Path(__file__).parents[2]
    made = subprocess.run(
        [sys.executable, root / "tools" / "build_cli_docs.py", "--print"], check=True, capture_output=True, text=True
    ).stdout
    assert (root / "docs" / "cli.md").read_text() == made


def test_wrong_usage_exits_with_code_2(capsys):
    for arguments in (
        ("fit",),
        ("nothing",),
        ("predict", "x", "--top", "0"),
        ("cross-validate", "kinships", "--folds", "1"),
    ):
        assert run(capsys, *arguments)[0] == 2


def test_names_that_look_like_markup_are_printed_unchanged(capsys, tmp_path):
    data, model = tmp_path / "iron.tsv", tmp_path / "iron.relatent"
    data.write_text("[Fe]\tbinds\t[/x]\n[/x]\tbinds\t[red]c\n[red]c\tbinds\t[Fe]\n")
    run(capsys, "fit", data, "-o", model, "--l2-entities", 0.01, "--l2-relations", 0.01, "--without-facts")
    code, out, err = run(capsys, "predict", model, "-s", "[Fe]", "-r", "binds")
    assert code == 0, err
    assert all(name in out for name in ("[Fe]", "[/x]", "[red]c"))

"""Run a command of the command line in this process."""

from relatent.cli.main import main


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code or 0
    out, err = capsys.readouterr()
    return code, out, err

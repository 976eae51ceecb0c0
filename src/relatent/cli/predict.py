"""`relatent predict` and `relatent score`: answers to questions, and probabilities of facts, one or a file of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import print_result, probability_note, say, say_if_nothing_is_known
from .reading_options import reading_options, types_option
from .shared_options import FILE, further_known_option, json_option, model_argument, top_option
from .table_file import STANDARD_OUTPUT, check_table_target, table_output_option

if TYPE_CHECKING:
    from ..model.candidates import Candidates
    from ..model.factors import Factors


@click.command()
@model_argument
@click.option("--subject", "-s", help="The subject, if it is given.")
@click.option("--relation", "-r", help="The relation, if it is given.")
@click.option("--object", "-t", "object_", help="The object, if it is given.")
@top_option(10, "answers")
@further_known_option
@click.option(
    "--questions",
    type=FILE,
    help="File of questions (.csv, .tsv, .parquet, .jsonl): columns subject, relation and object, one of them empty or "
    "missing. The answers go to --output, without it to standard output.",
)
@table_output_option
@reading_options("--edge-relation")
@types_option
@json_option
def predict(
    model: Path,
    subject: str | None,
    relation: str | None,
    object_: str | None,
    k: int,
    known: Sequence[str],
    questions: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Predict the third part of a fact from two of subject, relation and object.

    Known facts are left out. Answers have a rank, a probability, and its lift over that of a random pair that is not
    listed. With all three given, print these of that fact; its rank is that of the object.

    Example: relatent predict kinships.relatent --subject person0 --relation term4

    With --questions, all questions of a file are answered. A row with a name that the model does not know gets one row
    of output, whose column note says so.

    Example: relatent predict people.relatent --questions questions.csv -o answers.csv
    """
    from ..data.result_labels import add_labels, shown
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts, with_given_types

    given = {"subject": subject, "relation": relation, "object": object_}
    if questions is not None or output is not None:
        if questions is None or any(value is not None for value in given.values()):
            raise click.UsageError("--output is for --questions, without --subject, --relation and --object")
        print_file_result("predict", model, questions, output or Path(STANDARD_OUTPUT), known, as_json, k)
        return
    if sum(value is not None for value in given.values()) < 2:
        raise click.UsageError("give two of --subject, --relation and --object, or all three")
    factors = load(model)
    sources = [open_facts(source) for source in known]
    factors = with_given_types(factors, sources)
    asked = factors.asked(sources)
    given = {place: _name(factors, place, name) for place, name in given.items()}
    found = _predictions(factors, asked, given, k)
    note = probability_note(factors)
    say(f"note: {note}")
    say_if_nothing_is_known(asked)
    if found and found[0]["rank"] is None:
        say("note: this fact is known; its probability is what it would be if it were not")
    for line in _types(factors, asked, given):
        say(f"note: {line}")
    document = {"predictions": add_labels(found, factors), "probabilities": note}
    print_result(as_json, document, lambda: [tables.predictions(shown(found, factors))])


def _name(factors: Factors, place: str, given: str | None) -> str | None:
    """The name of an entity or relation that is given by its name or its label."""
    names = factors.relations if place == "relation" else factors.entities
    return None if given is None else names[names.id(given)]


@click.command()
@model_argument
@click.argument("facts", type=FILE)
@further_known_option
@table_output_option
@reading_options()
@json_option
def score(model: Path, facts: Path, known: Sequence[str], output: Path | None, as_json: bool) -> None:
    """Write the score, probability, rank and lift of each fact of a file (.csv, .tsv, .parquet, .jsonl).

    The rank is that of the object among those that are not known. A row with a name that the model does not know has
    no score, and the column note says so.

    Example: relatent score people.relatent claims.csv -o scored.parquet
    """
    print_file_result("score", model, facts, output or Path(STANDARD_OUTPUT), known, as_json)


def print_file_result(
    what: str, model: Path, source: Path, output: Path, known: Sequence[str], as_json: bool, k: int = 0
) -> None:
    """Answer the questions, or score the facts, of a file, and say how many there were."""
    from ..model.factors import load
    from . import tables
    from .data_argument import open_facts, with_given_types
    from .question_files import answer_file, score_file

    if as_json and str(output) == STANDARD_OUTPUT:
        raise click.UsageError("--json and the table both go to standard output; give the table a file with --output")
    check_table_target(output)
    factors = load(model)
    sources = [open_facts(one) for one in known]
    factors = with_given_types(factors, sources)
    asked = factors.asked(sources)
    say_if_nothing_is_known(asked)
    if what == "predict":
        counts = answer_file(factors, asked, source, output, k)
    else:
        counts = score_file(factors, asked, source, output)
    summary = {"output": str(output), **counts}
    if str(output) != STANDARD_OUTPUT:
        print_result(as_json, summary, lambda: [tables.values(str(output), tables.details(counts))])


def _predictions(factors: Factors, asked: Candidates, given: dict[str, str | None], k: int) -> list[dict[str, Any]]:
    from ..analysis.answers import answers, one_fact

    names = [str(value) for value in given.values()]
    place = next((place for place, value in given.items() if value is None), None)
    if place is None:
        found = [one_fact(factors, asked, *names)]
    else:
        found = answers(factors, asked, **given, k=k, treat_known="omit").answers
    shown = ("score", "probability", "rank", "lift")
    return [
        {**given, **({} if place is None else {place: answer.name}), **{name: getattr(answer, name) for name in shown}}
        for answer in found
    ]


def _types(factors: Factors, asked: Candidates, given: dict[str, str | None]) -> Iterator[str]:
    """Say that an entity of the question has no known facts of that kind."""
    if not len(asked.known) or given["relation"] is None:
        return
    ends = asked.known.ends(int(factors.relations.ids(given["relation"])))
    for place, ids in zip(("subject", "object"), ends, strict=True):
        name = given[place]
        if name is not None and int(factors.entities.ids(name)) not in ids:
            yield f"no known fact has {name!r} as {place} of {given['relation']!r}: it is missing, or of another kind"

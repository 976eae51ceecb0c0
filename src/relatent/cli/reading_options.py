"""Options that say how the files of a command are read, and messages of the readers in terms of these options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

_META, _HEADERS = "relatent.reading", "relatent.headers"
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
_ROLES = ("subject", "relation", "object", "weight", "count")

_ANNOTATIONS = ("types", "labels", "language", "attributes")
LITERALS = "literals of DATA"  # --attributes without a file
ALL_RELATIONS = "all relations of DATA"  # --undirected without a name

data_argument = click.argument("data", nargs=-1, required=True, metavar="DATA...")


def reading_options(relation_option: str = "--relation") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options; `relation_option` is for commands in which --relation is part of a question."""
    options = (
        _option(
            "--columns",
            metavar="A,B,C",
            help="Columns of subject, relation, object and weight, or of subject and object, by name or number; or by "
            "role: subject=A,object=B,weight=C.",
        ),
        _option("--header/--no-header", default=None, help="Whether the first row of text files names the columns."),
        _option("--sep", metavar="CHARACTER", help="Separator of the fields of text files: tab, space, ';', …"),
        _option(relation_option, "relation_", metavar="NAME", help="Relation of an edge list.  [default: linked]"),
        _option("--encoding", help="Encoding of text files.  [default: utf-8]"),
        _option("--strip/--no-strip", default=None, help="Remove blanks around names.  [default: strip]"),
        _option(
            "--skip-bad-rows",
            is_flag=True,
            default=None,
            help="Skip rows that are no facts (too few fields, an empty name) and count them, in place of an error.",
        ),
        _option("--format", help="Format of files whose extension does not tell it: tsv, csv, jsonl, …"),
        _option(
            "--sql",
            metavar="QUERY",
            help="Query in SQL or SPARQL whose rows are the facts; DATA is the database or endpoint.",
        ),
        _option(
            "--undirected",
            multiple=True,
            metavar="[RELATION]",
            is_flag=False,
            flag_value=ALL_RELATIONS,
            help="Relation whose facts have no direction, so that both directions of a pair are one fact (repeatable); "
            "without RELATION, all of them. Give it after DATA.",
        ),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for labels of a command that reads facts."""
    for option in (
        _option("--language", help="Preferred language of the labels of RDF files.  [default: of LANG, then en]"),
        _option(
            "--labels",
            metavar="FILE",
            help="Labels of entities and relations: CSV or TSV with the columns id and label, JSON by id, or RDF.",
        ),
    ):
        command = option(command)
    return command


def annotation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for types, labels and attributes of a command that fits a model."""
    return types_option(label_options(attributes_option(command)))  # type: ignore[no-any-return]


def _option(*names: str, **attributes: Any) -> Callable[..., Any]:
    return click.option(*names, expose_value=False, callback=_remember, **attributes)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value not in (None, ()):
        context.meta.setdefault(_META, {})[str(parameter.name).rstrip("_")] = value


def annotation_choices() -> dict[str, Any]:
    """Types, labels and attributes given to the current command, as arguments of `annotated`."""
    return {name: value for name, value in _given().items() if name in _ANNOTATIONS and value != LITERALS}


def _given() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return dict(context.meta.get(_META, {})) if context is not None else {}


attributes_option = _option(
    "--attributes",
    metavar="[FILE]",
    is_flag=False,
    flag_value=LITERALS,
    help="Attributes of entities to learn from: a table with a column of entities (CSV, TSV, Parquet, JSON), or RDF; "
    "without FILE, the literals of RDF files and the further columns of tables in DATA. Give it after DATA.",
)
types_option = _option(
    "--types",
    metavar="FILE",
    help="Types of entities, so that no answers of a wrong type are offered: CSV or TSV with the columns id and type, "
    "JSON by id, or RDF; infer: from their roles in the facts; none.  [default: rdf:type facts, if there are any]",
)


def reading_choices() -> dict[str, Any]:
    """The options given to the current command, as arguments of `relatent.read` about the source itself."""
    context = click.get_current_context(silent=True)
    given = {name: value for name, value in _given().items() if name not in ("types", "labels", "undirected")}
    given["headers"] = {} if context is None else context.meta.setdefault(_HEADERS, {})  # of the files of the command
    if "attributes" in given:
        given["attributes"] = given["attributes"] == LITERALS
    if "columns" in given:
        given["columns"] = _columns(given["columns"])
    if "sep" in given:
        given["sep"] = _SEPARATORS.get(given["sep"].lower(), given["sep"])
    return given


def undirected_choice() -> bool | tuple[str, ...]:
    """What --undirected says: all relations, or some by name."""
    given: tuple[str, ...] = _given().get("undirected", ())
    return True if ALL_RELATIONS in given else given


def _columns(text: str) -> Any:
    """Names, positions counted from 1, or names by role."""
    parts = text.split(",")
    pairs = [part.partition("=") for part in parts]
    if all(role in _ROLES and equals for role, equals, _ in pairs):
        return {role: _position(column) for role, _, column in pairs}
    return [_position(part) for part in parts]


def _position(column: str) -> str | int:
    return int(column) - 1 if column.isdecimal() and column != "0" else column


def as_options(message: str) -> str:
    """A message with arguments of `relatent.read`, or of an estimator, written as options of the command line."""
    context = click.get_current_context(silent=True)
    has_option = context is None or any(parameter.name == "attributes" for parameter in context.command.params)
    message = message.replace("attributes=True", "--attributes" if has_option else "relatent fit --attributes")
    message = re.sub(r"\b(header|strip)=(True|False)", lambda m: f"--{'' if m[2] == 'True' else 'no-'}{m[1]}", message)
    message = message.replace("skip_bad_rows=True", "--skip-bad-rows").replace("calibrate=True", "--calibrate")
    message = re.sub(r"\bundirected=\[?('[^\]]*')\]?", lambda m: _repeated("--undirected", m[1]), message)
    message = re.sub(r"\b(sep|format|encoding|relation)=('[^']*')", r"--\1 \2", message)
    message = re.sub(r"\b(sql|relation|columns)=(?=[ ,;.]|$)", r"--\1", message)
    return re.sub(r"\bcolumns=[({]([^)}]*)[)}]", lambda m: f"--columns {_joined(m[1])}", message)


def _repeated(option: str, names: str) -> str:
    """An option for each of the quoted names."""
    return " ".join(f"{option} {name}" for name in re.findall(r"'[^']*'", names))


def _joined(columns: str) -> str:
    """Names or positions of columns, or names by role, as --columns takes them."""
    parts = [part.strip().strip("'").replace("': '", "=") for part in columns.split(",")]
    return ",".join(str(int(part) + 1) if part.isdecimal() else part for part in parts)

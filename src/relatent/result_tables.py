"""How results are shown: a short text, a table of at most ten rows in a notebook, and a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .errors import InputError
from .json_values import to_json_object

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 10  # of a table in a notebook, and of a list in a terminal
MAX_CHARACTERS = 80  # of a cell of such a table
MAX_NAMES = 5  # of a list of names

Item = TypeVar("Item")
Record = TypeVar("Record")


class Result:
    """What all results offer: JSON values, a data frame, and a table in a notebook.

    Without a table of its own, a result is one row with its fields.
    """

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """The result as a data frame; needs pandas."""
        return data_frame(self._table())

    def _table(self) -> Sequence[Any]:
        """The rows of the result: mappings or named tuples."""
        return [self]

    def _repr_html_(self) -> str:
        return html_table(repr(self), self._table())


def result_record(record: type[Record]) -> type[Record]:
    """Give a named tuple, which can have no base class, the methods of `Result` that it does not define itself."""
    for name in ("to_dict", "to_pandas", "_table", "_repr_html_"):
        if name not in vars(record):
            setattr(record, name, vars(Result)[name])
    return record


class LabelsOfRows(Protocol):
    """Labels for the names in the rows of a result: `data.result_labels.RowLabels`."""

    def add(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with labels beside its names."""

    def shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with names as a person should read them."""


class ResultList(list[Item]):
    """A list of results, one row each; shown as a table in a notebook.

    With `labels`, a data frame has further columns such as "subject_label", and a notebook shows them for the names.

    >>> found = ResultList([{"name": "Ann", "facts": 2}, {"name": "Bob", "facts": 1}])
    >>> found.to_pandas().shape, len(found)
    ((2, 2), 2)
    """

    def __init__(self, items: Iterable[Item] = (), labels: LabelsOfRows | None = None):
        super().__init__(items)
        self.labels = labels

    def to_pandas(self) -> pd.DataFrame:
        """One row per item; needs pandas."""
        return data_frame(self)

    def _repr_html_(self) -> str:
        return html_table("", self)

    def __repr__(self) -> str:
        shown = [repr(item) for item in self[:MAX_ROWS]]
        return "[" + ",\n ".join([*shown, *_more(len(self) - len(shown), "items")]) + "]"


def import_pandas() -> Any:
    """The module pandas, which is not required by the package; an error that says so if it is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise InputError("to_pandas() needs pandas; install it with: pip install pandas") from None
    return pd


def data_frame(rows: Sequence[Any], columns: Sequence[str] = ()) -> pd.DataFrame:
    """The rows, mappings or named tuples, as a data frame; `columns` names them if there are no rows."""
    pd = import_pandas()
    labels = getattr(rows, "labels", None)
    fields = [_fields(row) if labels is None else labels.add(_fields(row)) for row in rows]
    return pd.DataFrame(fields, columns=None if rows or not columns else list(columns))


def html_table(title: str, rows: Sequence[Any], n_rows: int | None = None) -> str:
    """The first rows as an HTML table, with a title and the number of further rows; all text is escaped.

    >>> html_table("", [{"name": "<b>", "p": 0.123456}])
    '<table class="dataframe"><tr><th>name</th><th>p</th></tr><tr><td>&lt;b&gt;</td><td>0.1235</td></tr></table>'
    """
    labels = getattr(rows, "labels", None)
    shown = [_fields(row) if labels is None else labels.shown(_fields(row)) for row in rows[:MAX_ROWS]]
    columns = list(dict.fromkeys(column for row in shown for column in row))
    lines = [_html_row("th", columns), *(_html_row("td", [row.get(name) for name in columns]) for row in shown)]
    more = _more((len(rows) if n_rows is None else n_rows) - len(shown), "rows")
    return "".join(
        [
            *([f"<p><b>{escape(title)}</b></p>"] if title else []),
            *(['<table class="dataframe">', *lines, "</table>"] if shown else []),
            *(f"<p>{text}</p>" for text in more),
        ]
    )


def name_list(names: Sequence[str]) -> str:
    """The first few names, and how many more there are: "Ann, Bob and 8 more"."""
    text = ", ".join(names[:MAX_NAMES])
    return text if len(names) <= MAX_NAMES else f"{text} and {len(names) - MAX_NAMES:,} more"


def _more(n: int, what: str) -> list[str]:
    return [f"… {n:,} more {what}"] if n > 0 else []


def _fields(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "_asdict"):
        return row._asdict()  # type: ignore[no-any-return]
    return row.to_dict()  # type: ignore[no-any-return]


def _html_row(tag: str, values: Iterable[Any]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(_cell(value))}</{tag}>" for value in values) + "</tr>"


def _cell(value: Any) -> str:
    """A value as short text: four digits of a number, the first names of a list."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.6g}"
    if isinstance(value, Mapping):
        value = [f"{name} {_cell(part)}" for name, part in value.items()]
    elif isinstance(value, (list, tuple)):
        value = [str(part) if isinstance(part, (str, tuple)) else _cell(part) for part in value]
    text = name_list(value) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"

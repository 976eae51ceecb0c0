"""What the values of a column are: numbers, and in which notation, dates, measures with a unit, or names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?"  # read in linear time, however many digits there are
_BLANKS_AND_APOSTROPHES = " \u00a0\u202f'’"  # between groups of three digits
_TIME = r"([T ]\s*\d{1,2}:\d\d(:\d\d([.,]\d+)?)?\s*(Z|[AaPp]\.?[Mm]\.?|[-+]\d\d(:?\d\d)?)?)?"
_DAY = r"(0?[1-9]|[12]\d|3[01])"  # or month
_DATE = re.compile(rf"(\d{{4}}([-/.]){_DAY}\2{_DAY}|{_DAY}([-/.]){_DAY}\6(\d{{4}}|\d\d)){_TIME}")
_MEASURE = re.compile(r"([-+]?\d[\d.,]*)(\s*)([^\W\d_]{1,4}\.?(?:/[^\W\d_]{1,3})?|[%€$£])")


class Notation(NamedTuple):
    """How numbers are written."""

    title: str
    pattern: str  # of a number, for Python and for Arrow
    group_signs: str = ""  # left out
    decimal_sign: str = "."

    def fits(self, text: str) -> bool:
        """Whether a text is a number in this notation."""
        return re.fullmatch(self.pattern, text.strip()) is not None

    def number(self, text: str) -> float:
        """The number that a text of this notation means."""
        return float(text.strip().translate(dict.fromkeys(map(ord, self.group_signs))).replace(self.decimal_sign, "."))

    def numbers(self, texts: pa.Array) -> pa.Array:
        """The numbers of an array of texts, null where a text is none."""
        texts = pc.utf8_ltrim(pc.utf8_trim_whitespace(texts.cast(pa.large_string())), "+")
        if self is PLAIN:
            with contextlib.suppress(pa.ArrowInvalid):
                return texts.cast(pa.float64())
        found = pc.if_else(pc.match_substring_regex(texts, f"^({self.pattern})$"), texts, None)
        if self.group_signs:
            found = pc.replace_substring_regex(found, f"[{self.group_signs}]", "")
        return pc.replace_substring(found, self.decimal_sign, ".").cast(pa.float64())


def _grouped(title: str, group_signs: str, decimal_sign: str) -> Notation:
    groups = rf"\d{{1,3}}([{group_signs}]\d{{3}})+"
    return Notation(title, rf"[-+]?(\d+|{groups})([{decimal_sign}]\d+)?", group_signs, decimal_sign)


PLAIN = Notation("decimal points", NUMBER)
_WITH_COMMA = _grouped("decimal commas", f".{_BLANKS_AND_APOSTROPHES}", ",")
_WITH_GROUPS = _grouped("thousands separators", f",{_BLANKS_AND_APOSTROPHES}", ".")
NOTATIONS = (PLAIN, _WITH_COMMA, _WITH_GROUPS)


class NotationError(ValueError):
    """Numbers that several notations, or none, explain."""


def filled(values: Iterable[str]) -> list[str]:
    """The values that are not blank."""
    return [value for value in values if value.strip()]


def is_number(value: str) -> bool:
    """Whether a text is a number in any notation."""
    return any(notation.fits(value) for notation in NOTATIONS)


def is_numeric(values: Sequence[str]) -> bool:
    """Whether there are values, and all are numbers in any notation."""
    return bool(values) and all(map(is_number, values))


def notation_of(values: Sequence[str]) -> Notation:
    """The notation of numbers, which all must share."""
    if all(map(PLAIN.fits, values)):
        return PLAIN
    fitting = [notation for notation in NOTATIONS[1:] if all(map(notation.fits, values))]
    if not fitting:
        seen = [next(filter(notation.fits, values), None) for notation in NOTATIONS]
        first, *others = dict.fromkeys(text for text in seen if text is not None)
        raise NotationError(f"some numbers have decimal commas and others points, such as {first!r} and {others[0]!r}")
    if len(fitting) > 1:
        for text in values:
            if len({notation.number(text) for notation in fitting}) > 1:
                raise NotationError(f"the comma in numbers such as {text!r} may be decimal or separate thousands")
    return fitting[0]


def are_dates(values: Sequence[str]) -> bool:
    """Whether there are values, and all are dates: 2024-12-31, 31.12.2024 or 12/31/2024, perhaps with a time."""
    return bool(values) and all(_DATE.fullmatch(value.strip()) for value in values)


def are_measures(values: Sequence[str]) -> bool:
    """Whether all values are numbers with the same unit, such as "1.5 h"; not codes such as 4G."""
    found = [_MEASURE.fullmatch(value.strip()) for value in values]
    if not found or not all(match and is_number(match[1]) for match in found):
        return False
    matches = [match for match in found if match]
    has_sign = any(match[2] or match[3] in "%€$£" or not match[1].isdecimal() for match in matches)
    return has_sign and len({match[3] for match in matches}) == 1


def kind_of(values: Sequence[str]) -> str:
    """Numbers, dates, measures, or names; blank values count for nothing."""
    given = filled(values)
    if is_numeric(given):
        return "numbers"
    if are_dates(given):
        return "dates"
    return "measures" if are_measures(given) else "names"

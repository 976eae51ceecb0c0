"""The result of a search for duplicates: pairs with their probabilities, and the proposed merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..json_values import to_json_object
from ..result_tables import data_frame, html_table, result_record

if TYPE_CHECKING:
    import pandas as pd


@result_record
class DuplicatePair(NamedTuple):
    """Two entities and the probability that they are the same.

    >>> pair = DuplicatePair("Al Gore", "Albert Gore", 0.9, shared=3, joined=False)
    >>> Duplicates([pair], merges=[]).to_dict()["pairs"][0]["probability"]
    0.9
    """

    name: str
    other: str
    probability: float
    shared: int  # facts that both have
    joined: bool  # a fact has one as subject and the other as object: they are not merged
    name_match: str = (
        ""  # "equal" but for case, accents and order, "contained", "similar", "different"; "": not compared
    )


@result_record
class Merge(NamedTuple):
    """An entity that should take another's name.

    >>> Merge("Albert Gore", into="Al Gore", probability=0.9, facts=2).into
    'Al Gore'
    """

    name: str
    into: str
    probability: float  # mean over all pairs in its group
    facts: int


class Duplicates(NamedTuple):
    """Pairs that may be the same, best first, and the proposed merges; the result of `duplicates`.

    >>> pair = DuplicatePair("Al Gore", "Albert Gore", 0.9, shared=3, joined=False)
    >>> Duplicates([pair], [Merge("Albert Gore", "Al Gore", 0.9, 2)]).to_pandas().shape
    (1, 6)
    """

    pairs: list[DuplicatePair]
    merges: list[Merge]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return to_json_object(self)

    def to_pandas(self) -> pd.DataFrame:
        """The pairs as a data frame; needs pandas."""
        return data_frame(self.pairs, DuplicatePair._fields)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.pairs)

    def __repr__(self) -> str:
        return f"Duplicates({len(self.pairs)} pairs, {len(self.merges)} proposed merges)"

"""Facts (subject, relation, object): the one data type of the program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ..arrays import Ids, Mask, Matrix, Triples, Vector
from ..errors import DataError
from .names import Names

_AT_ONCE = 1 << 20  # facts converted at a time


@dataclass(frozen=True, eq=False, repr=False)
class Facts:
    """True facts over a vocabulary; every other cell is false unless it is listed as unobserved.

    Build it with `relatent.read`, `relatent.load_dataset`, `Facts.from_arrays` or `Facts.from_tensor`.

    >>> facts = Facts.from_arrays(["Ann", "Bob"], ["likes", "likes"], ["Bob", "Cid"])
    >>> len(facts), list(facts.entities), facts.triples.tolist()
    (2, ['Ann', 'Bob', 'Cid'], [[0, 0, 1], [1, 0, 2]])
    """

    triples: Triples  # (n, 3) int32, sorted by relation, subject, object; column-major, so each column is contiguous
    entities: Names
    relations: Names
    weights: Vector | None = None  # (n,) confidence in each fact, 1 where there are none
    unobserved: Triples = None  # type: ignore[assignment]  # (m, 3), sorted likewise, disjoint from the facts
    attributes: Matrix | None = None  # (N, M) values of entities, NaN where unknown
    times: Vector | None = None  # (n,) how often each fact was seen, 1 where not given; only count models read it

    def __post_init__(self) -> None:
        if self.unobserved is None:
            object.__setattr__(self, "unobserved", np.empty((0, 3), np.int32, order="F"))
        for array in (self.triples, self.weights, self.unobserved, self.attributes, self.times):
            if array is not None:
                array.flags.writeable = False

    # --- ways in

    @classmethod
    def from_arrays(
        cls,
        subjects: ArrayLike,
        relations: ArrayLike,
        objects: ArrayLike,
        *,
        n_entities: int | None = None,
        n_relations: int | None = None,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        unobserved: ArrayLike | None = None,
        attributes: ArrayLike | sp.spmatrix | None = None,
        times: ArrayLike | None = None,
    ) -> Facts:
        """Facts from three equally long arrays of ids or of names.

        Names not given are sorted; ids not named are numbered. `unobserved` is an (m, 3) array, or three arrays
        in a tuple, of cells whose truth is not known, by id or by name. A fact given twice counts once; `times` says
        how often each was seen, and then a fact given twice was seen as often as both together.
        """
        s, k, o = (
            _column(values, what)
            for values, what in ((subjects, "subjects"), (relations, "relations"), (objects, "objects"))
        )
        if not len(s) == len(k) == len(o):
            raise DataError(
                f"subjects, relations and objects must be equally long, got {len(s)}, {len(k)} and {len(o)}"
            )
        hidden = _cell_columns(unobserved)
        entities = _vocabulary(entity_names, n_entities, (s, o, hidden[0], hidden[2]), "entity")
        relations_ = _vocabulary(relation_names, n_relations, (k, hidden[1]), "relation")
        triples = _stack(entities.ids(s), relations_.ids(k), entities.ids(o))
        unknown = _stack(entities.ids(hidden[0]), relations_.ids(hidden[1]), entities.ids(hidden[2]))
        return cls.from_ids(
            triples, entities, relations_, weights=weights, unobserved=unknown, attributes=attributes, times=times
        )

    @classmethod
    def from_ids(
        cls,
        triples: Triples,
        entities: Names,
        relations: Names,
        *,
        weights: ArrayLike | None = None,
        unobserved: Triples | None = None,
        attributes: ArrayLike | sp.spmatrix | None = None,
        times: ArrayLike | None = None,
    ) -> Facts:
        """Facts from an (n, 3) array of ids that fit a ready vocabulary."""
        n = len(entities)
        if n >= 2**31 or n * n * max(len(relations), 1) >= 2**63:
            raise DataError(
                f"{n} entities and {len(relations)} relations are more than 32-bit ids or 64-bit cell numbers can hold"
            )
        _check_ids(triples, n, len(relations))
        keys, w, seen = _merged(
            cell_keys(triples, n), _checked_weights(weights, len(triples)), _checked_times(times, len(triples))
        )
        facts = cls(
            triples=cells_of(keys, n),
            entities=entities,
            relations=relations,
            weights=w,
            attributes=_checked_attributes(attributes, n),
            times=seen,
        )
        if unobserved is None or not len(unobserved):
            return facts
        _check_ids(unobserved, n, len(relations))
        hidden = sorted_unique(cell_keys(unobserved, n))
        both = _in_sorted(hidden, keys)
        if both.any():
            cell = facts.named(cells_of(hidden[both][:1], n))[0]
            raise DataError(f"a cell cannot be both a fact and unobserved, got {' | '.join(cell)}")
        return replace(facts, unobserved=cells_of(hidden, n))

    @classmethod
    def from_tensor(
        cls,
        x: ArrayLike | Sequence[sp.spmatrix],
        *,
        entity_names: Sequence[str] | None = None,
        relation_names: Sequence[str] | None = None,
        attributes: ArrayLike | sp.spmatrix | None = None,
    ) -> Facts:
        """Facts from an array (N, N, K) or a list of K sparse N × N matrices of 0, 1 and NaN (= unobserved)."""
        if isinstance(x, (list, tuple)) and any(sp.issparse(slice_) for slice_ in x):
            n, k, ones, hidden = _sparse_cells(x)
        else:
            n, k, ones, hidden = _dense_cells(np.asarray(x))
        return cls.from_arrays(
            *ones.T,
            n_entities=n,
            n_relations=k,
            entity_names=entity_names,
            relation_names=relation_names,
            unobserved=hidden,
            attributes=attributes,
        )

    # --- what is in it

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def n_entities(self) -> int:
        """How many entities the vocabulary has."""
        return len(self.entities)

    @property
    def n_relations(self) -> int:
        """How many relations the vocabulary has."""
        return len(self.relations)

    @property
    def n_cells(self) -> int:
        """All N × K × N cells, unobserved ones included."""
        return self.n_entities**2 * self.n_relations

    @property
    def subjects(self) -> Ids:
        """Subject ids, a view."""
        return self.triples[:, 0]

    @property
    def objects(self) -> Ids:
        """Object ids, a view."""
        return self.triples[:, 2]

    @property
    def confidences(self) -> Vector:
        """The weight of each fact, 1 where none are given, (n,)."""
        return np.ones(len(self)) if self.weights is None else self.weights

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Facts of relation k are rows starts[k] to starts[k + 1]."""
        return np.searchsorted(self.triples[:, 1], np.arange(self.n_relations + 1)).astype(np.int64)

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """The facts as sorted cell numbers."""
        return cell_keys(self.triples, self.n_entities)

    def matrix(self, k: int, dtype: Any = np.float64) -> sp.csr_matrix:
        """X_k, the N × N adjacency matrix of relation k."""
        rows = slice(self.starts[k], self.starts[k + 1])
        ones = np.ones(rows.stop - rows.start, dtype)
        n = self.n_entities
        return sp.csr_matrix((ones, (self.subjects[rows], self.objects[rows])), shape=(n, n))

    def contains(self, cells: Triples) -> Mask:
        """For each cell (subject, relation, object) whether it is a fact."""
        return _in_sorted(cell_keys(cells, self.n_entities), self.keys)

    def hides(self, cells: Triples) -> Mask:
        """For each cell whether it is unobserved."""
        return _in_sorted(cell_keys(cells, self.n_entities), cell_keys(self.unobserved, self.n_entities))

    def n_observed(self) -> NDArray[np.int64]:
        """Observed cells of each relation, (K,)."""
        hidden = np.bincount(self.unobserved[:, 1], minlength=self.n_relations)
        return self.n_entities**2 - hidden

    def counts(self) -> NDArray[np.int64]:
        """Facts of each relation, (K,)."""
        return np.diff(self.starts)

    @cached_property
    def symmetric(self) -> Mask:
        """For each relation whether it has facts off the diagonal and none that holds one way only, (K,).

        A mirrored cell that is unobserved speaks neither for nor against.
        """
        mirrors = self.triples[:, ::-1]
        mirrored = self.contains(mirrors) | self.hides(mirrors)
        off_diagonal = self.subjects != self.objects
        k = self.triples[:, 1]
        broken = np.bincount(k[~mirrored], minlength=self.n_relations) > 0
        linked = np.bincount(k[off_diagonal], minlength=self.n_relations) > 0
        return linked & ~broken

    def named(self, cells: Triples | None = None) -> list[tuple[str, str, str]]:
        """Facts, or the given cells, by name."""
        cells = self.triples if cells is None else cells
        return [(self.entities[s], self.relations[k], self.entities[o]) for s, k, o in cells.tolist()]

    def __repr__(self) -> str:
        extra = "".join(
            f", {text}"
            for text, shown in (
                (f"{len(self.unobserved)} unobserved cells", len(self.unobserved)),
                ("weighted", self.weights is not None),
                ("counted", self.times is not None),
                (
                    f"{0 if self.attributes is None else self.attributes.shape[1]} attributes",
                    self.attributes is not None,
                ),
            )
            if shown
        )
        return f"Facts({len(self)} facts, {self.n_entities} entities, {self.n_relations} relations{extra})"

    @cached_property
    def fingerprint(self) -> str:
        """A short digest of facts, weights, unobserved cells, attributes and counts (not of the names)."""
        return self.fingerprint_of(self.checksums)

    def fingerprint_of(self, checksums: NDArray[np.uint64]) -> str:
        """The fingerprint of facts with these checksums, over this vocabulary and with these attributes."""
        digest = hashlib.sha256(f"{self.n_entities} {self.n_relations}".encode() + checksums.tobytes())
        digest.update(b"-" if self.attributes is None else np.ascontiguousarray(self.attributes).data)
        return digest.hexdigest()[:16]

    @property
    def checksums(self) -> NDArray[np.uint64]:
        """Numbers that tell facts apart; those of facts in several parts are the sums of theirs."""
        from .fingerprint import add_up  # imports Numba, which takes a while

        sums = np.zeros((2, 2), np.uint64)
        given = [values for values in (self.weights, self.times) if values is not None]
        bits = np.empty((len(given), len(self)), np.uint64)
        for place, values in enumerate(given):
            bits[place] = np.ascontiguousarray(values).view(np.uint64) + np.uint64(values is self.times)
        for cells, own, total in ((self.triples, bits, sums[0]), (self.unobserved, bits[:0], sums[1])):
            s, k, o = (np.ascontiguousarray(column) for column in cells.T)
            add_up(s, k, o, np.uint64(self.n_entities), own, total)
        return sums.reshape(-1)

    # --- ways on

    def hold_out(self, cells: Triples, *, masked: bool) -> Facts:
        """The facts without these cells, which become unobserved (masked) or false."""
        n = self.n_entities
        keys = sorted_unique(cell_keys(cells, n))
        hidden = cell_keys(self.unobserved, n)
        hidden = sorted_unique(np.concatenate([hidden, keys])) if masked else hidden
        return replace(self.subset(~_in_sorted(self.keys, keys)), unobserved=cells_of(hidden, n))

    def subset(self, chosen: Mask) -> Facts:
        """The chosen facts, over the same vocabulary and with the same unobserved cells."""
        return replace(
            self,
            triples=np.asfortranarray(self.triples[chosen]),
            weights=None if self.weights is None else self.weights[chosen],
            times=None if self.times is None else self.times[chosen],
        )

    def over(self, entities: Names, relations: Names) -> Facts:
        """The same facts by the ids of another vocabulary; those with a name it does not have are left out."""
        if self.entities is entities and self.relations is relations:
            return self
        entity, relation = entities.translate(self.entities), relations.translate(self.relations)
        cells, hidden = (
            _stack(entity[cells[:, 0]], relation[cells[:, 1]], entity[cells[:, 2]])
            for cells in (self.triples, self.unobserved)
        )
        kept = (cells >= 0).all(axis=1)
        return Facts.from_ids(
            cells[kept],
            entities,
            relations,
            weights=None if self.weights is None else self.weights[kept],
            unobserved=hidden[(hidden >= 0).all(axis=1)],
            times=None if self.times is None else self.times[kept],
        )

    def without_attributes(self) -> Facts:
        """The same facts, entity attributes left out."""
        return replace(self, attributes=None)


def cell_keys(cells: Triples, n_entities: int) -> NDArray[np.int64]:
    """Number cells so that sorting by number sorts by relation, subject, object."""
    s, k, o = np.asarray(cells).T
    keys: NDArray[np.int64] = k.astype(np.int64)
    for ids in (s, o):  # in place: tens of millions of facts leave no room for passing arrays
        keys *= n_entities
        keys += ids.astype(np.int64, copy=False)
    return keys


def sorted_unique(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct numbers in order, by sorting: on millions of them ten times faster than np.unique of NumPy 2.4."""
    ordered = np.sort(keys)
    return ordered[_firsts(ordered)]


def _firsts(ordered: NDArray[np.int64]) -> Mask:
    """Where another number begins."""
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def cells_of(keys: Ids, n_entities: int) -> Triples:
    """The cells (subject, relation, object) that these numbers stand for."""
    cells = np.empty((len(keys), 3), np.int32, order="F")
    for first in range(0, len(keys), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        rest = keys[some] // n_entities  # twice as fast as np.divmod
        cells[some, 2] = keys[some] - rest * n_entities
        cells[some, 1] = rest // n_entities
        cells[some, 0] = rest - cells[some, 1].astype(np.int64) * n_entities
    return cells


def _in_sorted(values: NDArray[np.int64], ordered: NDArray[np.int64]) -> Mask:
    if not len(ordered):
        return np.zeros(len(values), bool)
    place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Mask = ordered[place] == values
    return found


def _stack(s: Ids, k: Ids, o: Ids) -> Triples:
    return np.stack([s, k, o], axis=1) if len(s) else np.empty((0, 3), np.int64)


def _column(values: ArrayLike, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"{what} must be one-dimensional, got an array of shape {array.shape}")
    if not array.size:
        return array.astype(np.int64)  # an empty list comes as floats
    if array.dtype.kind not in "iuUOT":
        raise DataError(f"{what} must be whole numbers or names, got values of type {array.dtype}")
    if array.dtype.kind in "UO":  # NumPy makes strings of the numbers in a mixed list, so look at what was given
        for position, value in enumerate(values if isinstance(values, (list, tuple)) else array.tolist()):
            if not isinstance(value, str):
                raise DataError(f"{what} must be all ids or all names, got {value!r} at position {position}")
    return array


def _cell_columns(cells: ArrayLike | None) -> tuple[NDArray[Any], ...]:
    if cells is None or np.size(cells) == 0:
        return tuple(np.empty(0, np.int64) for _ in range(3))
    if isinstance(cells, tuple) and len(cells) == 3:
        columns = [np.asarray(column) for column in cells]
    else:
        array = np.asarray(cells)
        if array.ndim != 2 or array.shape[1] != 3:
            raise DataError(f"unobserved must be an (m, 3) array of cells, got shape {array.shape}")
        columns = list(array.T)
    return tuple(_column(column, "unobserved cells") for column in columns)


def _vocabulary(names: Sequence[str] | None, count: int | None, columns: Iterable[NDArray[Any]], what: str) -> Names:
    if names is not None:
        vocabulary = names if isinstance(names, Names) else Names(names, what=what)
        if count is not None and count != len(vocabulary):
            raise DataError(f"{what}_names has {len(vocabulary)} names, but the number asked for is {count}")
        return vocabulary
    filled = [column for column in columns if column.size]
    if any(column.dtype.kind in "UOT" for column in filled):
        if any(column.dtype.kind in "iu" for column in filled):
            raise DataError(f"give every {what} by name or every {what} by id, got both; or pass {what}_names")
        unique = sorted({str(name) for column in filled for name in np.unique(column).tolist()})
        if count is not None and count != len(unique):
            raise DataError(
                f"found {len(unique)} distinct {what} names where {count} were announced; pass {what}_names"
            )
        return Names(unique, what=what)
    least = 1 + max((int(column.max()) for column in filled), default=-1)
    if count is not None and count < least:
        raise DataError(f"{what} id {least - 1} does not fit in n = {count}: ids run from 0 to {count - 1}")
    return Names(least if count is None else count, what=what)


def _checked_weights(weights: ArrayLike | None, n: int) -> Vector | None:
    if weights is None:
        return None
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,):
        raise DataError(f"weights must be one for each of the {n} facts, got shape {w.shape}")
    if not (np.isfinite(w).all() and (w >= 0).all()):
        wrong = w[~(np.isfinite(w) & (w >= 0))][0]
        raise DataError(f"weights are confidences: finite and at least 0, got {wrong}")
    return w


def _checked_times(times: ArrayLike | None, n: int) -> Vector | None:
    if times is None:
        return None
    seen = np.asarray(times, dtype=np.float64)
    if seen.shape != (n,):
        raise DataError(f"times must be one for each of the {n} facts, got shape {seen.shape}")
    wrong = ~(np.isfinite(seen) & (seen > 0) & (seen == np.round(seen)))
    if wrong.any():
        raise DataError(f"times count how often a fact was seen: whole numbers of at least 1, got {seen[wrong][0]:g}")
    return seen


class TwoWeightsError(DataError):
    """The same fact is given with different weights."""

    def __init__(self, row: int, earlier: int, weights: tuple[float, float]):
        super().__init__(f"a fact is given twice with different weights, at position {row}; keep one of them")
        self.row, self.earlier, self.weights = row, earlier, weights  # the fact that differs, the one given first


def _merged(
    keys: NDArray[np.int64], w: Vector | None, seen: Vector | None
) -> tuple[NDArray[np.int64], Vector | None, Vector | None]:
    """Distinct facts in order, the weight each was given, and how often it was seen in all; `keys` is used up."""
    if w is None and seen is None:
        keys.sort()
        first = _firsts(keys)
        return (keys if first.all() else keys[first]), None, None
    order = np.argsort(keys)
    ordered = keys[order]
    starts = np.flatnonzero(_firsts(ordered))
    if w is not None:
        given = w[order]
        if (given != np.repeat(given[starts], np.diff(starts, append=len(given)))).any():
            raise _two_weights(keys, w)
        w = given[starts]
    if seen is not None:
        seen = np.add.reduceat(seen[order], starts) if len(starts) else seen
    return ordered[starts], w, seen


def _two_weights(keys: NDArray[np.int64], w: Vector) -> TwoWeightsError:
    """Which row first gives a fact another weight, and where it was given before."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    row = int(np.argmax(w != w[first[inverse]]))
    earlier = int(first[inverse[row]])
    return TwoWeightsError(row, earlier, (float(w[row]), float(w[earlier])))


def _check_ids(cells: Triples, n_entities: int, n_relations: int) -> None:
    for column, count, what in ((0, n_entities, "subject"), (1, n_relations, "relation"), (2, n_entities, "object")):
        ids = cells[:, column]
        if len(ids) and (ids.min() < 0 or ids.max() >= count):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise DataError(f"{what} id {wrong} is out of range: ids run from 0 to {count - 1}")


def _checked_attributes(attributes: ArrayLike | sp.spmatrix | None, n: int) -> Matrix | None:
    if attributes is None:
        return None
    dense = attributes.toarray() if sp.issparse(attributes) else attributes  # type: ignore[union-attr]
    d = np.array(dense, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != n:
        raise DataError(f"attributes must have one row for each of the {n} entities, got shape {d.shape}")
    if np.isinf(d).any():
        raise DataError("attributes must be finite, or NaN where unknown, got an infinite value")
    return d


def _dense_cells(x: NDArray[Any]) -> tuple[int, int, Triples, Triples]:
    if x.ndim != 3 or x.shape[0] != x.shape[1]:
        raise DataError(f"a tensor must have shape (N, N, K), got {x.shape}")
    if x.dtype.kind not in "biuf":
        raise DataError(f"a tensor must hold numbers, got values of type {x.dtype}")
    hidden = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    ones = x == 1
    wrong = ~(hidden | ones | (x == 0))
    if wrong.any():
        i, j, k = np.argwhere(wrong)[0].tolist()
        raise DataError(
            f"a tensor holds 0, 1 and NaN (unobserved), got {x[i, j, k]} at [{i}, {j}, {k}];"
            " weights go through from_arrays"
        )
    return x.shape[0], x.shape[2], np.argwhere(ones)[:, [0, 2, 1]], np.argwhere(hidden)[:, [0, 2, 1]]


def _sparse_cells(slices: Sequence[sp.spmatrix]) -> tuple[int, int, Triples, Triples]:
    n = next(matrix.shape[0] for matrix in slices if sp.issparse(matrix))
    ones, hidden = [], []
    for k, matrix in enumerate(slices):
        if not sp.issparse(matrix) or matrix.shape != (n, n):
            got = f"{type(matrix).__name__} {getattr(matrix, 'shape', '')}"
            raise DataError(f"slice {k} must be a sparse {n} × {n} matrix, got {got}")
        if matrix.dtype.kind not in "biuf":
            raise DataError(f"slice {k} must hold numbers, got values of type {matrix.dtype}")
        summed = matrix.tocsr(copy=True)
        summed.sum_duplicates()  # a CSR matrix may hold a cell twice
        coo = summed.tocoo()
        values = coo.data
        unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        wrong = ~(unknown | (values == 1) | (values == 0))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise DataError(
                f"a tensor holds 0, 1 and NaN (unobserved), got {values[at]} at [{coo.row[at]}, {coo.col[at]}, {k}]"
            )
        cells = np.stack([coo.row, np.full(len(values), k), coo.col], axis=1)
        ones.append(cells[values == 1])
        hidden.append(cells[unknown])
    return n, len(slices), np.concatenate(ones), np.concatenate(hidden)

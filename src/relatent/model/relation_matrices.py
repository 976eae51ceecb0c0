"""The relation matrices of a model, held by the parameters of their structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Ids, Matrix, Slices, Vector
from ..backend.compact_matrices import make_symmetric, row_products, times, transposed
from ..errors import InputError
from . import structure as structures

MAX_EXPANDED = 1 << 28  # numbers of all R_k together that are expanded


@dataclass(frozen=True, eq=False)
class RelationMatrices:
    """R_1 … R_K; `matrices[k]` is one of them, `expanded()` all."""

    structure: Any
    parameters: Any
    shape: tuple[int, int, int]  # (K, r, r)

    @classmethod
    def of(cls, R: Slices | RelationMatrices) -> RelationMatrices:
        """Those of whole matrices (K, r, r); RelationMatrices as they are."""
        return R if isinstance(R, RelationMatrices) else cls(structures.FULL, R, R.shape)

    @classmethod
    def of_parameters(cls, structure: Any, P: Any, k: int, r: int) -> RelationMatrices:
        """Those of a fit; of a structure that no file can name, whole matrices."""
        if isinstance(structure, (structures.Full, *structures.STORED.values())):
            return cls(structure, P, (k, r, r))
        return cls.of(structure.matrices(P))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Matrix]:
        return (self[k] for k in range(len(self)))

    @classmethod
    def direct_sum(cls, parts: Sequence[RelationMatrices]) -> RelationMatrices:
        """The matrices of several models of the same relations, one after the other on the diagonal."""
        k, r = len(parts[0]), sum(part.shape[1] for part in parts)
        structure = structures.DirectSum(tuple((part.structure, part.shape[1]) for part in parts)).of(k, r)
        return cls(structure, np.concatenate([part.parameters.reshape(-1) for part in parts]), (k, r, r))

    @cached_property
    def blocks(self) -> list[tuple[slice, RelationMatrices]]:
        """The parts of a direct sum and their components; of another structure, itself."""
        k, r, _ = self.shape
        if not isinstance(self.structure, structures.DirectSum):
            return [(slice(0, r), self)]
        parts = zip(self.structure.parts, self.structure.split(self.parameters), strict=True)
        found = [RelationMatrices(structure, P, (k, rank, rank)) for (structure, rank), P in parts]
        return list(zip(self.structure.columns(), found, strict=True))

    def _of_each(self, change: Callable[[RelationMatrices], RelationMatrices]) -> RelationMatrices:
        """The direct sum of the changed parts."""
        return RelationMatrices.direct_sum([change(block) for _, block in self.blocks])

    @property
    def is_sum(self) -> bool:
        """Whether they are a direct sum."""
        return isinstance(self.structure, structures.DirectSum)

    def __getitem__(self, k: int) -> Matrix:
        if self.is_sum:
            R_k = np.zeros(self.shape[1:], self.dtype)
            for here, block in self.blocks:
                R_k[here, here] = block[k]
            return R_k
        if isinstance(self.structure, structures.Shared):
            c, B = self.structure.parts(self.parameters)
            return (c[k] @ B).reshape(self.shape[1:])  # type: ignore[no-any-return]
        if isinstance(self.structure, structures.Full):
            return self.parameters[k]  # type: ignore[no-any-return]
        return self.structure.matrices(self.parameters[k : k + 1])[0]  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating-point type."""
        return self.parameters.dtype  # type: ignore[no-any-return]

    def expanded(self) -> Slices:
        """Whole matrices (K, r, r); InputError if they would be too large."""
        k, r, _ = self.shape
        if isinstance(self.structure, structures.Full):
            return self.parameters  # type: ignore[no-any-return]
        if k * r * r > MAX_EXPANDED:
            size = k * r * r * self.dtype.itemsize / 1e9
            raise InputError(f"R of {k} relations at rank {r} would take {size:.1f} GB; use relation_matrices[k]")
        return self.structure.matrices(self.parameters)  # type: ignore[no-any-return]

    def times(self, X: Matrix, k: int, *, back: bool = False) -> Matrix:
        """The rows of X times R_k, or R_kᵀ."""
        if self.is_sum:
            return np.hstack([block.times(X[:, here], k, back=back) for here, block in self.blocks])
        if not structures.is_compact(self.structure):
            R_k = self[k]
            return X @ (R_k.T if back else R_k)
        p = self.parameters[k : k + 1]
        return times(X, (transposed(p) if back else p)[0])  # type: ignore[no-any-return]

    def scores_of_relations(self, s: Vector, o: Vector) -> Vector:
        """sᵀ R_k o for every k."""
        if self.is_sum:
            return sum(block.scores_of_relations(s[here], o[here]) for here, block in self.blocks)  # type: ignore[return-value]
        if structures.is_compact(self.structure) and self.parameters.ndim != 3:
            phi = row_products(s[None], o[None], self.parameters[0])[0]
            return self.parameters.reshape(len(self), -1) @ phi.reshape(-1)  # type: ignore[no-any-return]
        if isinstance(self.structure, structures.Full):
            return np.einsum("i,kij,j->k", s, self.parameters, o, optimize=True)  # type: ignore[no-any-return]
        return np.array([s @ (self[k] @ o) for k in range(len(self))])

    def norm(self, k: int) -> float:
        """‖R_k‖, the root of its sum of squares."""
        if self.is_sum:
            return float(np.linalg.norm([block.norm(k) for _, block in self.blocks]))
        if isinstance(self.structure, structures.Shared):
            return float(np.linalg.norm(self[k]))
        of_parameters = float(np.linalg.norm(self.parameters[k]))
        return 2**0.5 * of_parameters if self.structure == structures.COMPLEX else of_parameters

    def quadratic(self, k: int, G: Matrix) -> tuple[Matrix, Matrix]:
        """R_k G R_kᵀ and R_kᵀ G R_k, for a symmetric G."""
        forward, backward = (self.times(G, k, back=back) for back in (True, False))
        return self.times(forward.T, k, back=True), self.times(backward.T, k)

    def at(self, relations: Ids) -> RelationMatrices:
        """The matrices of some relations."""
        if self.is_sum:
            return self._of_each(lambda block: block.at(relations))
        shape = (len(relations), *self.shape[1:])
        if isinstance(self.structure, structures.Shared):
            c, B = self.structure.parts(self.parameters)
            structure = self.structure.of(len(relations), self.shape[1])
            return RelationMatrices(structure, np.concatenate([c[relations].reshape(-1), B.reshape(-1)]), shape)
        return replace(self, parameters=self.parameters[relations], shape=shape)

    def scaled(self, factors: Vector) -> RelationMatrices:
        """c_k R_k."""
        if self.is_sum:
            return self._of_each(lambda block: block.scaled(factors))
        if isinstance(self.structure, structures.Shared):
            P = self.parameters.copy()
            self.structure.parts(P)[0][:] *= factors[:, None]
        else:
            P = self.parameters * factors.reshape(-1, *[1] * (self.parameters.ndim - 1))
        return replace(self, parameters=P)

    def with_symmetric(self, relations: Sequence[int]) -> RelationMatrices:
        """The same matrices with (R_k + R_kᵀ) / 2 in place of some R_k."""
        if not len(relations) or isinstance(self.structure, structures.Symmetric):
            return self
        if self.is_sum:
            return self._of_each(lambda block: block.with_symmetric(relations))
        if not structures.is_compact(self.structure):
            return RelationMatrices.of(make_symmetric(0 + self.expanded(), relations))
        return replace(self, parameters=make_symmetric(0 + self.parameters, relations))

    def astype(self, dtype: Any) -> RelationMatrices:
        """The same matrices in another floating-point type."""
        return replace(self, parameters=self.parameters.astype(dtype, copy=False))

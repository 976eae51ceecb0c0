"""The relation matrices of a model, held by the parameters of their structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Matrix, Slices, Vector
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

    def __getitem__(self, k: int) -> Matrix:
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

    @property
    def compact(self) -> Slices:
        """The parameters, or whole matrices of a structure whose parameters sums over cells do not take."""
        return self.parameters if structures.is_compact(self.structure) else self.expanded()

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
        if not structures.is_compact(self.structure):
            R_k = self[k]
            return X @ (R_k.T if back else R_k)
        p = self.parameters[k : k + 1]
        return times(X, (transposed(p) if back else p)[0])  # type: ignore[no-any-return]

    def scores_of_relations(self, s: Vector, o: Vector) -> Vector:
        """sᵀ R_k o for every k."""
        if structures.is_compact(self.structure) and self.parameters.ndim != 3:
            phi = row_products(s[None], o[None], self.parameters[0])[0]
            return self.parameters.reshape(len(self), -1) @ phi.reshape(-1)  # type: ignore[no-any-return]
        if isinstance(self.structure, structures.Full):
            return np.einsum("i,kij,j->k", s, self.parameters, o, optimize=True)  # type: ignore[no-any-return]
        return np.array([s @ (self[k] @ o) for k in range(len(self))])

    def scaled(self, factors: Vector) -> RelationMatrices:
        """c_k R_k."""
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
        if not structures.is_compact(self.structure):
            return RelationMatrices.of(make_symmetric(0 + self.expanded(), relations))
        return replace(self, parameters=make_symmetric(0 + self.parameters, relations))

    def astype(self, dtype: Any) -> RelationMatrices:
        """The same matrices in another floating-point type."""
        return replace(self, parameters=self.parameters.astype(dtype, copy=False))

"""The few array types that signatures speak of."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]  # (N, r), or any floating array
Vector: TypeAlias = NDArray[np.floating[Any]]  # (n,)
Slices: TypeAlias = NDArray[np.floating[Any]]  # (K, r, r)
Ids: TypeAlias = NDArray[np.integer[Any]]  # (n,)
Triples: TypeAlias = NDArray[np.integer[Any]]  # (n, 3): subject, relation, object
Mask: TypeAlias = NDArray[np.bool_]

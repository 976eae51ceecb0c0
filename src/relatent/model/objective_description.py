"""The loss and the penalty of a fit, as a model file can hold them: a name and parameters.

The losses and penalties themselves live in `relatent.fit`. A model keeps these descriptions so that code which goes on
from the fit (folding in, explanations) knows what was minimised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from ..json_values import to_json


@dataclass(frozen=True)
class ObjectiveTerm:
    """One term of an objective: `ObjectiveTerm("dura", {"weight": 0.05})`."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # JSON values

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", to_json(self.parameters))

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name} {value}" for name, value in self.parameters.items())])

    @classmethod
    def of(cls, term: object, registry: Mapping[str, object]) -> ObjectiveTerm:
        """Describe a loss or penalty object.

        Its `name` counts only if the registry maps that name to its exact class: a user's subclass may compute
        something else under an inherited name, so it is described by its class path.
        """
        kind, name = type(term), getattr(term, "name", None)
        parameters = to_json(term) if is_dataclass(term) else {}
        if isinstance(name, str) and registry.get(name) is kind:
            return cls(name, parameters)
        return cls(f"{kind.__module__}.{kind.__qualname__}", parameters)


PER_RELATION = "per-relation"  # the loss of `Rescal(loss={…})`
CATEGORICAL = "categorical"  # the loss under which the relations of a pair exclude each other
PSEUDO_LIKELIHOOD = "pseudo-likelihood"  # the loss of models of rules

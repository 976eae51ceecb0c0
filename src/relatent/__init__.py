"""relatent learns from facts (subject, relation, object) and predicts which others are true.

Public names are imported when first used, so that `import relatent` and the command line answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .data.facts import Facts
    from .model.factors import Factors

_HOME = {
    "Facts": ".data.facts",
    "Factors": ".model.factors",
}

__all__ = ["Facts", "Factors"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

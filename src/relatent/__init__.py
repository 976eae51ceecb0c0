"""relatent learns from facts (subject, relation, object) and predicts which other facts are true.

Public names are imported on first use, so that `import relatent` and `relatent --help` are fast. `__init__.pyi` says
which there are, and where (SPEC 1 of scientific Python).
"""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from typing import Any

from .compile_cache import ensure_cache_folder

__version__ = "0.1.0"

ensure_cache_folder()


def _public_names() -> dict[str, str]:
    """The module of each public name."""
    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}


_HOME = _public_names()
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    return getattr(import_module(_HOME[name], __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

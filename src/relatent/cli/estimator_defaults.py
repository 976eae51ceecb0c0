"""Defaults of the estimators' settings, read from their source.

Importing the estimators takes seconds (NumPy, scikit-learn, Numba); `relatent fit --help` must not wait for that.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..evaluation.model_names import MODEL_CLASSES, import_class


@cache
def class_defaults(path: str) -> dict[str, Any]:
    """Default of each argument of the class at module:class; imports the class only if its source does not tell."""
    try:
        return _defaults_in_source(path)
    except (OSError, StopIteration, ValueError):
        parameters = inspect.signature(import_class(path)).parameters.values()
        return {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }


def _defaults_in_source(path: str) -> dict[str, Any]:
    """Raises StopIteration if there is no such class, ValueError if the defaults are not literals of the classes."""
    module, name = path.split(":")
    spec = find_spec(f"relatent.{module}")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    made = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    init = next((node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    if init is not None:
        positional = zip(init.args.args[::-1], init.args.defaults[::-1], strict=False)
        keyword_only = zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
        given = {argument.arg: default for argument, default in (*positional, *keyword_only)}
        return {argument: ast.literal_eval(default) for argument, default in given.items() if default is not None}
    found = {
        name: default for base in _bases(made, tree, module) for name, default in _defaults_in_source(base).items()
    }
    for node in made.body:  # of a dataclass
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
            continue
        if "init=False" in ast.unparse(node.value):
            found.pop(node.target.id, None)
        elif "ClassVar" not in ast.unparse(node.annotation):
            found[node.target.id] = ast.literal_eval(node.value)
    return found


def _bases(made: ast.ClassDef, tree: ast.Module, module: str) -> list[str]:
    """The base classes that come from relatent, as module:class."""
    names = {ast.unparse(base) for base in made.bases}
    packages = module.split(".")
    return [
        f"{'.'.join([*packages[: len(packages) - node.level], *filter(None, [node.module])])}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
        if alias.name in names
    ]


def defaults_by_model(setting: str) -> dict[str, Any]:
    """The default of a setting for each model that has the setting."""
    defaults = {model: class_defaults(path) for model, path in MODEL_CLASSES.items()}
    return {model: values[setting] for model, values in defaults.items() if setting in values}

"""Defaults of the estimators' settings, read from their source.

Importing the estimators takes seconds (NumPy, scikit-learn, Numba); `relatent fit --help` must not wait for that.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODEL_CLASSES = {  # the models of evaluation.model_names, as module:class
    "als": "fit.estimators.als:RescalALS",
    "logit": "fit.estimators.rescal_logit:RescalLogit",
    "rescal": "fit.estimators.rescal:Rescal",
    "nonnegative": "fit.estimators.nonnegative:NonnegativeRescal",
    "irm": "baselines.irm:IRM",
    "mrc": "baselines.mrc:MRC",
    "mln": "baselines.mln:MarkovLogic",
}


def import_class(path: str) -> Any:
    """The class at module:class."""
    module, name = path.split(":")
    return getattr(import_module(f"relatent.{module}"), name)


@cache
def class_defaults(path: str) -> dict[str, Any]:
    """Default of each argument of the class at module:class; imports the class only if its source does not tell."""
    module, name = path.split(":")
    spec = find_spec(f"relatent.{module}")
    assert spec is not None
    assert spec.origin is not None
    try:
        return _defaults_in_source(Path(spec.origin).read_text(encoding="utf-8"), name)
    except (OSError, StopIteration, ValueError):
        parameters = inspect.signature(import_class(path)).parameters.values()
        return {
            parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty
        }


def _defaults_in_source(source: str, class_name: str) -> dict[str, Any]:
    """Raises StopIteration if there is no such class, ValueError if the defaults are not literals of the class."""
    tree = ast.parse(source)
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    init = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    defaults: dict[str, ast.expr | None] = {}
    if init is not None:
        positional = zip(init.args.args[::-1], init.args.defaults[::-1], strict=False)
        keyword_only = zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
        defaults = {argument.arg: default for argument, default in (*positional, *keyword_only)}
    else:  # a dataclass
        for node in body:
            is_field = isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and is_field:
                defaults[node.target.id] = node.value
    if not defaults:
        raise ValueError(f"{class_name} has neither an __init__ nor fields of its own")
    return {argument: ast.literal_eval(default) for argument, default in defaults.items() if default is not None}


def defaults_by_model(setting: str) -> dict[str, Any]:
    """The default of a setting for each model that has the setting."""
    defaults = {model: class_defaults(path) for model, path in MODEL_CLASSES.items()}
    return {model: values[setting] for model, values in defaults.items() if setting in values}

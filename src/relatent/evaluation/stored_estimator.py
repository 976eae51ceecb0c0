"""The estimator that a model was fitted by, from the settings in the model."""

from __future__ import annotations

import ast
from typing import Any

from ..errors import InputError
from ..fit.estimators.base import Estimator
from ..fit.estimators.summed import Summed
from ..fit.losses import LOSSES
from ..fit.optimisers import Adam, Lbfgs
from ..fit.penalties import PENALTIES
from ..model.factors import Factors
from ..model.structure import STORED, Full
from .model_names import MODELS

_CLASSES: dict[str, Any] = {
    kind.__name__: kind for kind in (Adam, Lbfgs, *LOSSES.values(), *PENALTIES.values(), *STORED.values(), Full)
}


def stored_estimator(factors: Factors) -> Estimator:
    """An estimator with the settings of the fit, those that it chose included; it starts anew, from no factors.

    That of a sum of models adds the models of their estimators.
    """
    if factors.summands:
        weights = [part.weight for part in factors.summands]
        return Summed([stored_estimator(part) for part in factors.parts], weights)
    name, settings = factors.about.get("model"), factors.about.get("settings")
    kind = next((kind for kind in MODELS.values() if kind.__name__ == name), None)
    if kind is None or settings is None:
        raise InputError("the model does not say how it was fitted; fit it again with this version of relatent")
    known = kind().get_params(deep=False)
    values = {key: _value(key, value) for key, value in settings.items() if key in known}
    if str(values.get("init")).startswith("Factors("):
        del values["init"]
    return kind(**values)


def _value(name: str, value: Any) -> Any:
    """A setting from its JSON value: an object such as a penalty is stored as its `repr`."""
    if not isinstance(value, str) or not {"(", "{"} & set(value):
        return value
    try:
        return _evaluated(ast.parse(value, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError):
        if name == "init":
            return value
        message = f"the model was fitted with {name}={value}, which cannot be made from its file; fit it again"
        raise InputError(message) from None


def _evaluated(node: ast.expr) -> Any:
    """A literal, or an object of a known class with such arguments."""
    if isinstance(node, ast.Tuple):
        return tuple(map(_evaluated, node.elts))
    if isinstance(node, ast.Dict):
        return {
            ast.literal_eval(key) if key else None: _evaluated(value)
            for key, value in zip(node.keys, node.values, strict=True)
        }
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name):
        raise ValueError
    given = {str(keyword.arg): _evaluated(keyword.value) for keyword in node.keywords}
    return _CLASSES[node.func.id](*map(_evaluated, node.args), **given)

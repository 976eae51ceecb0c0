"""From options to estimators: the settings of the models, by the names they have in Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

model_option = click.option(
    "--model",
    type=click.Choice(["als", "logit", "rescal", "nonnegative", "irm", "mrc", "mln"]),
    default="logit",
    show_default=True,
    help="RESCAL by least squares, by likelihood, with a --loss of your choice, non-negative; or block models (irm, "
    "mrc) and Markov logic (mln).",
)
calibrate_option = click.option(
    "--calibrate",
    type=click.Choice(["isotonic", "platt"]),
    help="Calibrate probabilities on cells held out inside the training data.",
)


def is_given(option: str) -> bool:
    """Whether an option was written on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _small_object(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    """A penalty or an optimiser from NAME=NUMBER."""
    if text is None:
        return None
    from ..fit.optimisers import Adam, Lbfgs
    from ..fit.penalties import N3, Dura

    kinds: dict[str, Any] = {"dura": Dura, "n3": N3} if option.name == "penalty" else {"adam": Adam, "lbfgs": Lbfgs}
    name, _, number = text.partition("=")
    if name not in kinds:
        raise click.BadParameter(f"must be one of {', '.join(kinds)}, got {name!r}")
    if number and name == "lbfgs":
        raise click.BadParameter(f"lbfgs takes no number, got {number!r}")
    try:
        return kinds[name](*([float(number)] if number else []))
    except ValueError:
        raise click.BadParameter(f"{name} takes a number, got {number!r}") from None


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The settings of the estimators, by the names they have in Python."""
    for option in reversed(
        (
            click.option("--rank", type=int, help="Latent components.  [default: 50, or N if less]"),
            click.option(
                "--loss",
                type=click.Choice(["logistic", "squared", "hinge", "poisson", "categorical", "softmax"]),
                help="What a cell costs, rescal only.  [default: logistic]",
            ),
            click.option("--l2-entities", type=float, help="λ_A.  [default: als 10, others 1]"),
            click.option("--l2-relations", type=float, help="λ_R.  [default: als 10, others 1]"),
            click.option("--l2-attributes", type=float, help="λ_V, als only.  [default: 10]"),
            click.option("--max-iter", type=int, help="Steps at most.  [default: 500]"),
            click.option("--tol", type=float, help="Relative change to stop at.  [default: als 1e-4, logit 1e-5]"),
            click.option(
                "--init",
                type=click.Choice(["als", "eigen", "random", "small"]),
                help="Start; als and small for logit and rescal.  [default: als eigen, logit als]",
            ),
            click.option(
                "--bias/--no-bias", default=None, help="A bias for each relation, logit only.  [default: bias]"
            ),
            click.option(
                "--dtype", type=click.Choice(["float32", "float64", "tf32"]), help="tf32: GPU.  [default: float32]"
            ),
            click.option("--method", help="How cells are summed, logit only: auto, exact, sampled.  [default: auto]"),
            click.option("--device", help="Where to compute, als, logit and rescal: cpu, cuda.  [default: cpu]"),
            click.option(
                "--penalty",
                callback=_small_object,
                metavar="dura=X|n3=X",
                help="In place of λ, logit and rescal only: weight of DURA (.05 if left out) or N3 (.01), a fact.",
            ),
            click.option(
                "--optimiser",
                callback=_small_object,
                metavar="adam=RATE|lbfgs",
                help="For exact sums, logit and rescal only (adam: .03 if left out).  [default: lbfgs]",
            ),
            click.option(
                "--set",
                "others",
                multiple=True,
                metavar="NAME=VALUE",
                help="Any other setting of the model, by its name in Python (repeatable).",
            ),
        )
    ):
        command = option(command)
    return command


def make_estimator(
    model: str, settings: dict[str, Any], seed: int, calibrate: str | None, preset: str | None = None
) -> Any:
    """The estimator that the options ask for; options that contradict each other are wrong usage."""
    from ..evaluation.calibration import Calibrated
    from ..evaluation.registry import MODELS
    from ..fit import presets

    estimator = MODELS[model](random_state=seed) if preset is None else presets.preset(preset, random_state=seed)
    others = dict(_named_value(option) for option in settings.pop("others"))
    given = {name: value for name, value in settings.items() if value is not None}
    if "penalty" in given and {"l2_entities", "l2_relations"} & set(given):
        raise click.UsageError("--penalty takes the place of --l2-entities and --l2-relations; give one or the other")
    known = estimator.get_params()
    for name in sorted(given):
        if name not in known:
            raise click.UsageError(f"--{name.replace('_', '-')} does not apply to --model {model}")
    for name in others:
        if name in given:
            raise click.UsageError(f"{name} is given twice, by --{name.replace('_', '-')} and by --set")
        if name not in known:
            raise click.UsageError(f"--set: --model {model} has no setting {name!r}; it has {', '.join(known)}")
    estimator.set_params(**given, **others)
    return estimator if calibrate is None else Calibrated(estimator, method=calibrate, random_state=seed)


def _named_value(option: str) -> tuple[str, Any]:
    name, equals, text = option.partition("=")
    if not equals or not name or not text:
        raise click.UsageError(f"--set takes NAME=VALUE, got {option!r}")
    return name.strip().replace("-", "_"), _value(text)


def search_grid(search: Sequence[str], prefix: str) -> list[dict[str, Any]] | None:
    """Settings from NAME=V1,V2 options, in every combination; l2 sets λ_A and λ_R together."""
    import itertools

    axes = []
    for option in search:
        name, _, listed = option.partition("=")
        name = name.strip().replace("-", "_")
        values = [_value(text) for text in listed.split(",") if text]
        if not name or not values:
            raise click.UsageError(f"--search takes NAME=V1,V2, got {option!r}")
        names = ("l2_entities", "l2_relations") if name == "l2" else (name,)
        axes.append([dict.fromkeys((prefix + each for each in names), value) for value in values])
    return (
        [dict(itertools.chain(*(part.items() for part in parts))) for parts in itertools.product(*axes)]
        if axes
        else None
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

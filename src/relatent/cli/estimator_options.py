"""Options for the settings of the estimators, and the estimator they ask for."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..evaluation.model_names import MODEL_CLASSES, estimators, import_class
from .estimator_defaults import class_defaults, defaults_by_model

if TYPE_CHECKING:
    from ..fit.estimators.base import Estimator

model_option = click.option(
    "--model",
    type=click.Choice(list(MODEL_CLASSES)),
    default="logit",
    show_default=True,
    help="RESCAL by least squares (als), by likelihood (logit), with a chosen --loss (rescal), or with non-negative "
    "factors (nonnegative); block models (irm, mrc); Markov logic (mln). Options below name the models that take them.",
)
calibrate_option = click.option(
    "--calibrate/--no-calibrate",
    default=True,
    show_default=True,
    help="Learn the probabilities of facts that are not listed, by further fits that hold out a part of the facts.",
)
missing_option = click.option(
    "--missing",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Share of the true facts that the data does not list, on which the probabilities rest.  [default: 0.1]",
)
without_facts_option = click.option(
    "--without-facts",
    is_flag=True,
    help="Leave the facts out of the model file; later commands then need them with --known.",
)
OPTIONS_OF_THEIR_OWN = {
    "calibrate": "--calibrate or --no-calibrate",
    "missing": "--missing",
    "keep_facts": "--without-facts",
}


def is_given(option: str) -> bool:
    """Whether an option was written on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


class SettingOption(click.Option):
    """A setting of the estimators; its help ends with the default for each model that has the setting.

    `none` says what the default None stands for.
    """

    def __init__(self, *args: Any, none: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.none = none

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the defaults."""
        record = super().get_help_record(ctx)
        return record and (record[0], f"{record[1]}  [default: {self._defaults()}]")

    def _defaults(self) -> str:
        models: dict[str, list[str]] = {}
        for model, default in defaults_by_model(self.name or "").items():
            models.setdefault(self._shown(default), []).append(model)
        return "; ".join(f"{default} for {', '.join(names)}" for default, names in models.items())

    def _shown(self, default: Any) -> str:
        if isinstance(default, bool):
            return (self.opts if default else self.secondary_opts)[0]
        return self.none if default is None else f"{default:g}" if isinstance(default, float) else str(default)


class NamedObjectOption(SettingOption):
    """An object such as a penalty as NAME or NAME=NUMBER; the help ends with the numbers that a bare name means.

    `classes` maps a name to a class and to its argument for the number, None if it takes no number. `names` are names
    that the estimator knows itself.
    """

    def __init__(
        self,
        *args: Any,
        classes: dict[str, tuple[str, str | None]],
        names: tuple[str, ...] = (),
        number: Callable[[str], float] = float,
        **kwargs: Any,
    ):
        super().__init__(*args, callback=_named_object, **kwargs)
        self.classes, self.names, self.number = classes, names, number

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, with the defaults."""
        record = super().get_help_record(ctx)
        numbers = [
            f"{name} means {name}={class_defaults(path)[argument]:g}"
            for name, (path, argument) in self.classes.items()
            if argument is not None
        ]
        return record and (record[0], f"{record[1]}  [{', '.join(numbers)}]")


def _named_object(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    assert isinstance(option, NamedObjectOption)
    if text in option.names:
        return text
    name, _, number = text.partition("=")
    if name not in option.classes:
        raise click.BadParameter(f"must be one of {', '.join([*option.names, *option.classes])}, got {name!r}")
    path, argument = option.classes[name]
    if number and argument is None:
        raise click.BadParameter(f"{name} takes no number, got {number!r}")
    try:
        return import_class(path)(**{argument: option.number(number)} if number and argument else {})
    except ValueError:
        raise click.BadParameter(f"{name} takes a number, got {number!r}") from None


PATTERN_NAMES = ("auto", "none", "mirror", "paths")


def _patterns(context: click.Context, option: click.Parameter, text: str | None) -> str | list[str] | None:
    """The name of a set of patterns, or the rules of a file: one per line, or a table such as `rules -o` writes."""
    if text is None or text in PATTERN_NAMES:
        return text
    path = Path(text)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() not in (".csv", ".tsv"):
                return [line.strip() for line in file if line.strip()]
            rows = csv.DictReader(file, delimiter="," if path.suffix.lower() == ".csv" else "\t")
            return [f"{row['body']} ⇒ {row['head']}" for row in rows]
    except OSError as error:
        names = ", ".join(PATTERN_NAMES)
        raise click.BadParameter(f"must be {names} or a file of rules, got {text!r} ({error.strerror})") from None
    except (KeyError, UnicodeDecodeError, csv.Error):
        raise click.BadParameter(f"{text} must be UTF-8, with the columns body and head if it is a table") from None


CHOSEN = "chosen from the data"


def _setting(*names: str, help: str, cls: type[SettingOption] = SettingOption, **kwargs: Any) -> Callable[..., Any]:
    return click.option(*names, cls=cls, help=help, **kwargs)


SETTINGS = (
    _setting("--rank", type=int, none=CHOSEN, help="Number of latent components."),
    _setting(
        "--loss",
        type=click.Choice(["logistic", "squared", "hinge", "poisson", "categorical", "softmax"]),
        help="Loss per cell.",
    ),
    _setting("--l2-entities", type=float, none=CHOSEN, help="L2 penalty λ_A on the entity vectors."),
    _setting("--l2-relations", type=float, none=CHOSEN, help="L2 penalty λ_R on the relation matrices."),
    _setting(
        "--attribute-weight",
        type=float,
        help="How strongly entity vectors are drawn to what attributes predict (logit, rescal).",
    ),
    _setting("--l2-attributes", type=float, help="L2 penalty λ_V on the attribute vectors."),
    _setting("--max-iter", type=int, none=CHOSEN, help="Maximum number of steps."),
    _setting("--tol", type=float, help="Relative change of the objective at which the fit stops."),
    _setting(
        "--init",
        none=CHOSEN,
        type=click.Choice(["als", "eigen", "random", "small"]),
        help="Start of the fit; als and small are for logit and rescal, eigen is not for nonnegative.",
    ),
    _setting("--bias/--no-bias", default=None, none=CHOSEN, help="Learn a bias per relation."),
    _setting(
        "--dtype",
        type=click.Choice(["float32", "float64", "tf32"]),
        help="Floating-point type of the factors; tf32 is for GPUs.",
    ),
    _setting(
        "--method",
        type=click.Choice(["auto", "exact", "sampled"]),
        help="Sum over all cells, or estimate the sum over the zeros from a sample.",
    ),
    _setting(
        "--zeros",
        type=click.Choice(["all", "typed"]),
        help="Which cells that are not listed count as false: all, or only those between entities of the right types "
        "(--types; without types, entities seen in the same place).",
    ),
    _setting(
        "--structure",
        cls=NamedObjectOption,
        names=("full", "complex", "diagonal", "symmetric"),
        classes={"blocks": ("model.structure:Blocks", "size"), "shared": ("model.structure:Shared", "count")},
        number=int,
        metavar="full|complex|diagonal|symmetric|blocks[=SIZE]|shared[=COUNT]",
        none=CHOSEN,
        help="Form of the relation matrices: r² numbers each, r (complex as ComplEx, diagonal as DistMult), dense "
        "blocks on the diagonal, or sums of a few matrices that all relations share.",
    ),
    _setting("--device", metavar="cpu|cuda", help="Where to compute."),
    _setting(
        "--penalty",
        cls=NamedObjectOption,
        classes={"dura": ("fit.penalties:Dura", "weight"), "n3": ("fit.penalties:N3", "weight")},
        metavar="dura[=WEIGHT]|n3[=WEIGHT]",
        none=CHOSEN,
        help="Penalty in place of L2, with its weight per fact.",
    ),
    _setting(
        "--optimiser",
        cls=NamedObjectOption,
        classes={"adam": ("fit.optimisers:Adam", "lr"), "lbfgs": ("fit.optimisers:Lbfgs", None)},
        metavar="adam[=RATE]|lbfgs",
        none=CHOSEN,
        help="Optimiser for exact sums, Adam with its learning rate.",
    ),
    _setting(
        "--patterns",
        callback=_patterns,
        metavar="auto|none|mirror|paths|FILE",
        help="What the facts show of a pair, beside factors: all patterns, other steps between both, or also paths; or "
        "rules, one per line as `relatent rules` prints them, or a table that it wrote.",
    ),
    click.option(
        "--set",
        "others",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other setting of the model by its name in Python (repeatable).",
    ),
)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the settings of the estimators."""
    for option in reversed(SETTINGS):
        command = option(command)
    return command


def make_estimator(
    model: str,
    settings: dict[str, Any],
    seed: int,
    preset: str | None = None,
    *,
    calibrate: bool = True,
    missing: float | None = None,
    keep_facts: bool = True,
) -> Estimator:
    """The estimator that the options ask for; raises UsageError if options contradict each other."""
    from ..fit import presets

    estimator: Estimator = (
        estimators()[model](random_state=seed) if preset is None else presets.preset(preset, random_state=seed)
    )
    others = dict(_named_value(option) for option in settings.pop("others"))
    given = {name: value for name, value in settings.items() if value is not None}
    if "penalty" in given and {"l2_entities", "l2_relations"} & set(given):
        raise click.UsageError("--penalty replaces --l2-entities and --l2-relations; give one or the other")
    known = estimator.get_params()
    for name in sorted(given):
        if name not in known:
            raise click.UsageError(f"--{name.replace('_', '-')} does not apply to --model {model}")
    for name in others:
        if name in given:
            raise click.UsageError(f"{name} is given twice, by --{name.replace('_', '-')} and by --set")
        if name not in known:
            raise click.UsageError(f"--set: --model {model} has no setting {name!r}; it has {', '.join(known)}")
        if name in OPTIONS_OF_THEIR_OWN:
            raise click.UsageError(f"--set: {name} has an option of its own, {OPTIONS_OF_THEIR_OWN[name]}")
    estimator.set_params(**given, **others, calibrate=calibrate, missing=missing, keep_facts=keep_facts)
    return estimator


def search_grid(search: Sequence[str]) -> list[dict[str, Any]] | None:
    """All combinations of settings given as NAME=V1,V2; `l2` sets λ_A and λ_R together."""
    axes = []
    for option in search:
        name, _, listed = option.partition("=")
        name = name.strip().replace("-", "_")
        values = [_value(text) for text in listed.split(",") if text]
        if not name or not values:
            raise click.UsageError(f"--search takes NAME=V1,V2, got {option!r}")
        names = ("l2_entities", "l2_relations") if name == "l2" else (name,)
        axes.append([dict.fromkeys(names, value) for value in values])
    if not axes:
        return None
    return [
        dict(itertools.chain(*(settings.items() for settings in combination)))
        for combination in itertools.product(*axes)
    ]


def _named_value(option: str) -> tuple[str, Any]:
    name, equals, text = option.partition("=")
    if not equals or not name or not text:
        raise click.UsageError(f"--set takes NAME=VALUE, got {option!r}")
    return name.strip().replace("-", "_"), _value(text)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

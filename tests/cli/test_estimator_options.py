"""Options for the settings of the estimators: help, scopes, defaults, and the estimator they make."""

import inspect
import json
import re

import click
import pytest

import relatent
from commands import run
from relatent.cli.estimator_defaults import class_defaults
from relatent.cli.estimator_options import NamedObjectOption, SettingOption
from relatent.cli.main import cli
from relatent.data.catalog import load_dataset
from relatent.errors import InputError
from relatent.evaluation.model_names import MODEL_CLASSES, estimators, import_class
from relatent.fit.losses import LOSSES
from relatent.fit.settings import to_json


def signature_defaults(made):
    parameters = inspect.signature(made).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


@pytest.mark.parametrize("path", [*MODEL_CLASSES.values(), "fit.penalties:Dura", "fit.optimisers:Adam"])
def test_defaults_read_from_the_source_are_those_of_the_signature(path):
    assert class_defaults(path) == signature_defaults(import_class(path))


def test_defaults_that_are_not_literals_are_read_from_the_signature():
    assert class_defaults("fit.optimisers:Lbfgs") == signature_defaults(relatent.Lbfgs)


def setting_options():
    for command in ("fit", "cross-validate"):
        for option in cli.commands[command].params:
            if isinstance(option, SettingOption):
                yield pytest.param(command, option, id=f"{command} {option.opts[0]}")


@pytest.mark.parametrize(("command", "option"), list(setting_options()))
def test_help_names_the_models_that_take_a_setting_and_their_defaults(command, option):
    _, text = option.get_help_record(click.Context(cli.commands[command]))
    shown = {}
    for group in re.search(r"\[default: (.*?)\](?:  |$)", text)[1].split("; "):
        value, models = group.rsplit(" for ", 1)
        shown |= dict.fromkeys(models.split(", "), value)
    taken = {name: signature_defaults(made) for name, made in estimators().items()}
    assert set(shown) == {name for name, defaults in taken.items() if option.name in defaults}
    for model, value in shown.items():
        default = taken[model][option.name]
        if default is None:
            assert value == option.none
            assert value
        elif isinstance(default, bool):
            assert value == (f"--{option.name}" if default else f"--no-{option.name}")
        else:
            assert type(default)(value) == default


@pytest.mark.parametrize("name", ["rank", "l2_entities", "penalty", "optimiser", "init", "max_iter", "structure"])
def test_help_says_that_a_setting_is_chosen_from_the_data(name):
    option = next(option for option in cli.commands["fit"].params if option.name == name)
    assert "chosen from the data for" in option.get_help_record(click.Context(cli.commands["fit"]))[1]


@pytest.mark.parametrize("name", ["penalty", "optimiser"])
def test_help_names_the_number_that_a_bare_penalty_or_optimiser_means(name):
    option = next(option for option in cli.commands["fit"].params if option.name == name)
    assert isinstance(option, NamedObjectOption)
    _, text = option.get_help_record(click.Context(cli.commands["fit"]))
    shown = {bare: float(number) for bare, number in re.findall(r"(\w+) means \1=([\d.]+)", text)}
    expected = {
        bare: signature_defaults(import_class(path))[argument]
        for bare, (path, argument) in option.classes.items()
        if argument is not None
    }
    assert shown == expected
    assert len(shown) >= 1


def test_the_choices_of_loss_are_the_losses_there_are():
    loss = next(option for option in cli.commands["fit"].params if option.name == "loss")
    assert set(loss.type.choices) == set(LOSSES)


@pytest.mark.filterwarnings("ignore::relatent.errors.RelatentWarning")
@pytest.mark.parametrize("model", ["als", "logit", "rescal", "nonnegative"])
def test_the_starts_that_a_model_takes_are_those_that_the_help_names(model):
    init = next(option for option in cli.commands["fit"].params if option.name == "init")
    assert "als and small are for logit and rescal, eigen is not for nonnegative" in init.help
    refused = {"als": {"als", "small"}, "nonnegative": {"als", "small", "eigen"}}.get(model, set())
    facts = load_dataset("presidents")
    for start in init.type.choices:
        estimator = estimators()[model](rank=2, max_iter=1, init=start)
        if start in refused:
            with pytest.raises(InputError, match="init must be"):
                estimator.fit(facts)
        else:
            assert estimator.fit(facts).factors_.rank == 2


def test_a_setting_of_another_model_is_wrong_usage(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--model", "als", "--no-bias")
    assert code == 2
    assert "--bias does not apply to --model als" in err


def test_any_setting_of_a_model_can_be_set(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    code, out, err = run(capsys, "fit", family, "-o", path, "--model", "irm", "--set", "n-samples=7", "--json")
    assert code == 0, err
    assert json.loads(out)["settings"]["n_samples"] == 7


@pytest.mark.parametrize(
    ("option", "message"),
    [("colour=red", "--model irm has no setting 'colour'; it has "), ("n_samples", "--set takes NAME=VALUE, got ")],
)
def test_an_unknown_setting_is_wrong_usage(capsys, family, tmp_path, option, message):
    arguments = ("fit", family, "-o", tmp_path / "m.relatent", "--model", "irm", "--set", option)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err


def test_a_loss_can_be_chosen(capsys, family, tmp_path):
    path = tmp_path / "model.relatent"
    code, out, _ = run(capsys, "fit", family, "-o", path, "--model", "rescal", "--loss", "categorical", "--json")
    assert code == 0
    assert json.loads(out)["settings"]["loss"] == "categorical"
    assert relatent.load(path).exclusive


def test_a_setting_given_twice_is_wrong_usage(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "m.relatent", "--rank", 2, "--set", "rank=3")
    assert code == 2
    assert "rank is given twice" in err


def test_options_change_the_settings_of_a_preset(capsys, tmp_path):
    changes = ("--device", "cpu", "--rank", 5, "--max-iter", 2)
    arguments = ("fit", "kinships", "-o", tmp_path / "k.relatent", "--preset", "wn18rr-softmax", *changes, "--json")
    code, out, _ = run(capsys, *arguments)
    settings = json.loads(out)["settings"]
    assert code == 0
    assert settings["loss"] == to_json({"loss": relatent.preset("wn18rr-softmax").loss})["loss"]
    assert settings["penalty"] == {"type": "Dura", "weight": 0.125, "frequency_power": 0.5}
    assert (settings["rank"], settings["max_iter"], settings["init"]) == (5, 2, "small")


def test_an_unknown_preset_is_refused_with_a_list_of_presets(capsys, family, tmp_path):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", "--preset", "best")
    assert code == 1
    assert "preset must be one of fb15k-237-softmax, " in err
    assert err.rstrip().endswith("got 'best'")


def test_penalty_and_optimiser_are_given_by_name_and_number(capsys, family, tmp_path):
    chosen = ("--penalty", "n3=0.01", "--optimiser", "adam=0.05", "--max-iter", 2)
    code, out, _ = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *chosen, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["settings"]["penalty"] == {"type": "N3", "weight": 0.01}
    assert found["settings"]["optimiser"] == {"type": "Adam", "lr": 0.05, "beta1": 0.9, "beta2": 0.99}
    assert found["method"] == "exact"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--penalty", "l7=1"), "must be one of dura, n3, got 'l7'"),
        (("--penalty", "dura=much"), "dura takes a number, got 'much'"),
        (("--optimiser", "newton"), "must be one of adam, lbfgs, got 'newton'"),
    ],
)
def test_an_unknown_penalty_or_optimiser_is_wrong_usage(capsys, family, tmp_path, option, message):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *option)
    assert code == 2
    assert message in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "codex-s-softmax", "--model", "als"), "--preset chooses the model itself; leave --model out"),
        (("--penalty", "dura=0.1", "--l2-entities", "3"), "--penalty replaces --l2-entities and --l2-relations"),
        (("--optimiser", "lbfgs=3"), "lbfgs takes no number, got '3'"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(capsys, family, tmp_path, options, message):
    code, _, err = run(capsys, "fit", family, "-o", tmp_path / "k.relatent", *options)
    assert code == 2
    assert message in " ".join(err.split())

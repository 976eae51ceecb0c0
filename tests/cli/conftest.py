"""Two small data files and a model fitted to each."""

import dataclasses

import pytest

import relatent
from commands import run


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "family.tsv"
    path.write_text("Ann\tparent\tBob\nBob\tparent\tCid\nAnn\tlikes\tCid\nCid\tlikes\tAnn\nBob\tlikes\tAnn\n")
    return path


@pytest.fixture
def model(tmp_path, family, capsys):
    path = tmp_path / "family.relatent"
    code, _, err = run(capsys, "fit", family, "-o", path, "--rank", 3, "--l2-entities", 0.05, "--l2-relations", 0.05)
    assert code == 0, err
    return path


@pytest.fixture
def model_without_facts(tmp_path, model):
    """The model of the family, as --without-facts and --no-calibrate write it."""
    path = tmp_path / "without.relatent"
    without = dataclasses.replace(relatent.load(model), facts=None, calibration=None)
    without.save(path)
    return path


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.tsv"
    born = {"Ann": "Rome", "Bob": "Rome", "Cid": "Oslo", "Dot": "Oslo"}
    country = {"Rome": "Italy", "Oslo": "Norway"}
    lines = [f"{name}\tborn in\t{city}\n{name}\tcitizen of\t{country[city]}\n" for name, city in born.items()]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def people_model(tmp_path, people):
    path = tmp_path / "people.relatent"
    relatent.RescalLogit(6, 0.02, 0.02).fit(relatent.read(people)).factors_.save(path)
    return path

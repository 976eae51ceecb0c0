"""Fixtures of the tests of the web application: one small model, served with and without its facts."""

import dataclasses

import pytest

import relatent
import small_graphs


@pytest.fixture(scope="session")
def politics():
    """Facts about 20 presidents, and factors fitted to them."""
    facts = small_graphs.politics()
    return facts, relatent.RescalLogit(8, 0.1, 0.1).fit(facts).factors_


@pytest.fixture(scope="session")
def explorer(politics):
    from relatent.web.explorer import Explorer

    return Explorer(politics[1], name="politics.relatent")


@pytest.fixture(scope="session")
def client(explorer):
    from api_client import client_of

    with client_of(explorer) as client:
        yield client


@pytest.fixture(scope="session")
def client_without_facts(politics):
    from api_client import client_of

    from relatent.web.explorer import Explorer

    with client_of(Explorer(dataclasses.replace(politics[1], facts=None))) as client:
        yield client

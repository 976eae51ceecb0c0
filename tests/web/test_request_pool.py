"""Limits on the time of a request and on the number of waiting requests."""

import dataclasses
import threading

import pytest
from api_client import check_error, client_of

from relatent.web import app as app_module
from relatent.web.endpoints import ENDPOINTS
from relatent.web.request_pool import RequestPool


@pytest.fixture
def slow_model(monkeypatch):
    ended = threading.Event()
    endpoints = tuple(
        dataclasses.replace(endpoint, call=lambda explorer: ended.wait(60))
        if endpoint.path == "/api/model"
        else endpoint
        for endpoint in ENDPOINTS
    )
    monkeypatch.setattr(app_module, "ENDPOINTS", endpoints)
    yield
    ended.set()


def test_a_request_that_takes_too_long_is_abandoned(explorer, slow_model):
    with client_of(explorer, seconds=1.0) as client:
        response = client.get("/api/model")
        check_error(response, 503, "timeout")
        assert response.headers["retry-after"] == "1"
        assert client.get("/api/search?q=red").status_code == 200


def test_requests_are_refused_when_too_many_wait(explorer, monkeypatch):
    monkeypatch.setattr(RequestPool.__init__, "__defaults__", (0, None))
    with client_of(explorer) as client:
        check_error(client.get("/api/map"), 503, "busy")

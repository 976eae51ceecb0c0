"""Requests to the API, with the checks that every response must pass."""

import time

import pytest

pytest.importorskip("starlette", reason="needs relatent[serve]")
from starlette.testclient import TestClient

from relatent.web.app import create_app

MAX_SECONDS = 30  # until a result that is computed in the background must be there


def client_of(explorer, **options):
    """A client of the application for an explorer."""
    return TestClient(create_app(explorer, **options), base_url="http://localhost")


def get(client, path, **parameters):
    """The JSON of a successful request."""
    response = client.get(f"/api/{path}", params=parameters or None)
    assert response.status_code == 200, response.text
    return response.json()


def get_when_ready(client, path, **parameters):
    """The response of an endpoint that computes its result in the background."""
    deadline = time.monotonic() + MAX_SECONDS
    while (response := client.get(f"/api/{path}", params=parameters or None)).status_code == 202:
        assert set(response.json()) == {"state", "done", "total", "note"}
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert response.status_code == 200, response.text
    return response


def check_error(response, status, code):
    """The error of a response, which must have the shape that all errors have."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) - {"close"} == {"code", "message", "remedy"}
    assert error["code"] == code
    assert all(isinstance(error[key], str) and error[key] for key in ("code", "message", "remedy"))
    assert "Traceback" not in response.text
    return error

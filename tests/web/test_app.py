"""The application: refused requests, security headers, pages and static files."""

import dataclasses
import gzip
import logging
import re

import pytest
from api_client import check_error, client_of
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from relatent.web import app as app_module
from relatent.web.app import STATIC, create_app
from relatent.web.endpoints import ENDPOINTS

# --- refused requests


def test_a_large_body_without_a_content_length_is_refused(client):
    chunks = (b" " * 1000 for _ in range(100))
    response = client.post("/api/fold-in", content=chunks, headers={"content-type": "application/json"})
    check_error(response, 413, "too_large")


def test_a_body_that_is_not_json_is_refused(client):
    check_error(client.post("/api/fold-in", content=b"a=b"), 415, "not_json")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/ask"), ("GET", "/api/fold-in"), ("DELETE", "/"), ("PUT", "/api"), ("POST", "/web/app.js")],
)
def test_a_wrong_method_is_refused(client, method, path):
    response = client.request(method, path)
    error = check_error(response, 405, "wrong_method")
    assert response.headers["allow"] in error["remedy"]


def test_a_bug_does_not_reveal_internals(explorer, monkeypatch, caplog):
    def broken(explorer):
        raise RuntimeError("secret")

    endpoints = tuple(
        dataclasses.replace(endpoint, call=broken) if endpoint.path == "/api/model" else endpoint
        for endpoint in ENDPOINTS
    )
    monkeypatch.setattr(app_module, "ENDPOINTS", endpoints)
    with (
        caplog.at_level(logging.CRITICAL),
        TestClient(create_app(explorer), base_url="http://localhost", raise_server_exceptions=False) as client,
    ):
        response = client.get("/api/model")
    check_error(response, 500, "internal")
    assert "secret" not in response.text
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"])
def test_names_of_the_loopback_address_are_accepted(client, host):
    assert client.get("/api/map", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "127.0.0.1.evil.example"]
)
def test_foreign_host_names_are_refused_for_every_path(client, host):
    for path in ("/", "/api/map", "/web/app.js"):
        error = check_error(client.get(path, headers={"host": host}), 400, "foreign_host")
        assert error["message"] == f"{host!r} is not a name of this server"


def test_without_a_list_of_hosts_every_name_is_accepted(explorer):
    with client_of(explorer, hosts=None) as client:
        assert client.get("/api/map", headers={"host": "kg.example"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/entity?name=Red", "/nowhere", "/web/style.css", "/web/none.js", "/api", "/api/map", "/api/nowhere"],
)
def test_every_response_has_security_headers(client, path):
    headers = client.get(path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] in ("no-cache", "no-store")
    assert "access-control-allow-origin" not in headers


def test_middleware_can_be_added(explorer):
    class AddHeader:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            async def send_with_header(message):
                if message["type"] == "http.response.start":
                    message["headers"].append((b"x-added", b"yes"))
                await send(message)

            await self.app(scope, receive, send_with_header)

    with client_of(explorer, middleware=[Middleware(AddHeader)]) as client:
        assert client.get("/api/map").headers["x-added"] == "yes"


# --- pages and static files


@pytest.mark.parametrize(
    "path", ["/", "/entity?name=Red", "/ask", "/map", "/group?number=1", "/duplicates", "/model", "/new"]
)
def test_every_page_has_a_url(client, path):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/web/../app.py", "/web/%2e%2e/app.py", "/web/%2e%2e%2fapp.py", "/web/", "/web/none.js", "/web/%00"],
)
def test_a_missing_page_is_404_with_a_page_that_says_so(client, path):
    response = client.get(path)
    assert response.status_code == 404
    assert "<main" in response.text


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("app.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("mark.svg", "image/svg+xml"),
    ],
)
def test_static_files_have_the_type_that_browsers_require(client, name, content_type):
    assert client.get(f"/web/{name}").headers["content-type"] == content_type


@pytest.mark.parametrize(("path", "file"), [("/web/style.css", "style.css"), ("/", "index.html")])
def test_browsers_keep_files_until_they_change(client, path, file):
    first = client.get(path, headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    again = client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert not again.content
    changed = client.get(path, headers={"if-none-match": '"another"'})
    assert changed.status_code == 200
    uncompressed = client.get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in uncompressed.headers
    assert uncompressed.text == first.text == (STATIC / file).read_text()


def test_the_page_loads_nothing_from_other_sites_and_has_nothing_inline():
    for path in STATIC.iterdir():
        text = path.read_text()
        assert not re.search(r"""(src|href|from|import|url\()\s*[=(]?\s*["']?(https?:)?//""", text), path.name
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", text), path.name
        if path.suffix == ".js":
            assert "innerHTML" not in text, path.name


def test_every_imported_script_exists():
    names = {path.name for path in STATIC.iterdir()}
    for path in STATIC.glob("*.js"):
        assert set(re.findall(r'"\./([\w.]+)"', path.read_text())) <= names, path.name
    assert set(re.findall(r'"/web/([\w.]+)"', (STATIC / "index.html").read_text())) <= names


def test_the_page_is_small():
    assert sum(len(path.read_bytes()) for path in STATIC.iterdir()) < 120_000
    assert sum(len(gzip.compress(path.read_bytes())) for path in STATIC.iterdir()) < 40_000

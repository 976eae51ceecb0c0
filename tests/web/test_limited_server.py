"""The server itself: slow and idle clients, too many of them, and what it writes to its log."""

import json
import logging
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="needs relatent[serve]")
from relatent.cli.serve import listen, served_hosts
from relatent.web import limited_server
from relatent.web.app import create_app
from relatent.web.limited_server import BACKLOG, LimitedServer, RateLimit, limited_protocol

REQUEST = b"GET /api/search?q=red HTTP/1.1\r\nhost: localhost\r\n\r\n"
PATIENCE = 20.0  # seconds until a connection must be closed; the limits themselves are short


@pytest.fixture
def server(explorer, monkeypatch):
    """A server with short limits and two connections at most."""
    import uvicorn

    for name in ("RECEIVE_SECONDS", "KEEP_ALIVE_SECONDS"):
        monkeypatch.setattr(limited_server, name, 0.3)
    protocol = limited_protocol(2)
    config = uvicorn.Config(create_app(explorer), http=protocol, backlog=BACKLOG, log_level="error")
    server = LimitedServer(config)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        server.port = listener.getsockname()[1]
        yield server
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture
def port(server):
    return server.port


def connect(port, sent=b""):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    client.sendall(sent)
    return client


def received(client):
    """Everything until the server closes the connection."""
    with client:
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.parametrize(
    "sent",
    [b"", REQUEST[:-2], b"POST /api/fold-in HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n"
     b"content-type: application/json\r\n\r\n{"],
    ids=["nothing", "half a header", "half a body"],
)  # fmt: skip
def test_a_request_that_is_never_completed_is_dropped(port, caplog, sent):
    assert not received(connect(port, sent))
    assert not caplog.records


def test_a_connection_is_closed_between_requests(port):
    assert received(connect(port, REQUEST)).startswith(b"HTTP/1.1 200")


def test_idle_connections_give_way_to_new_ones(port, monkeypatch):
    monkeypatch.setattr(limited_server, "RECEIVE_SECONDS", PATIENCE)
    idle = [connect(port) for _ in range(2)]
    time.sleep(0.1)
    assert received(connect(port, REQUEST)).startswith(b"HTTP/1.1 200")
    assert not received(idle[0])
    idle[1].close()


def test_a_crowd_that_arrives_at_once_is_not_dropped(server):
    received(connect(server.port, REQUEST))
    release = threading.Event()
    server.servers[0].get_loop().call_soon_threadsafe(release.wait, PATIENCE)  # the event loop accepts nobody
    try:
        for client in [socket.create_connection(("127.0.0.1", server.port), timeout=0.9) for _ in range(3 * BACKLOG)]:
            client.close()  # a connection that is dropped is tried again after a second
    finally:
        release.set()


def test_garbage_collection_leaves_the_model_out_while_serving(explorer):
    import gc

    import uvicorn

    server = LimitedServer(uvicorn.Config(create_app(explorer), http=limited_protocol(2), log_level="error"))
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        with connect(listener.getsockname()[1], REQUEST) as client:
            assert client.recv(12) == b"HTTP/1.1 200"
        assert gc.get_freeze_count() > 10_000
        server.should_exit = True
        thread.join(PATIENCE)
    assert gc.get_freeze_count() == 0


def test_an_aborted_upload_is_not_an_error(port, caplog):
    head = b"POST /api/fold-in HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 999\r\n"
    connect(port, head + b"\r\n{").close()
    assert received(connect(port, REQUEST)).startswith(b"HTTP/1.1 200")
    assert not caplog.records


def test_the_log_is_limited_and_says_what_it_left_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(limited_server.time, "monotonic", lambda: now[0])
    limit = RateLimit()

    def record():
        return logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, "bad", (), None)

    assert sum(limit.filter(record()) for _ in range(100)) == limited_server.MAX_LOG_LINES
    now[0] = 1.5 * limited_server.LOG_SECONDS
    late = record()
    assert limit.filter(late)
    assert late.getMessage() == "(80 messages of the last minute were left out) bad"


def test_hosts_are_named_for_servers_that_others_can_reach():
    assert served_hosts("0.0.0.0", ()) is None
    assert served_hosts("0.0.0.0", ("KG.example",))[-1] == "kg.example"
    assert "localhost" in served_hosts("127.0.0.1", ())


# --- the token


@pytest.fixture
def guarded(explorer):
    from api_client import client_of

    with client_of(explorer, token="s3cret") as client:
        yield client


@pytest.mark.parametrize("path", ["/", "/api/map", "/web/app.js", "/?token=wrong", "/?token="])
def test_without_the_token_there_is_no_answer(guarded, path):
    from api_client import check_error

    check_error(guarded.get(path), 401, "no_token")
    check_error(guarded.get(path, headers={"authorization": "Bearer wrong"}), 401, "no_token")


@pytest.mark.parametrize("token", ["pässwörd", "žluťoučký", 'a b;c="d"', "emoji 🔑", "%41", "x\ny"])
def test_a_token_may_have_any_characters(explorer, token):
    from api_client import check_error, client_of

    with client_of(explorer, token=token) as client:
        check_error(client.get("/api/map"), 401, "no_token")
        for encoding in ("utf-8", "latin-1") if token.isprintable() else ():
            written = token.encode(encoding, errors="replace")
            status = client.get("/api/map", headers={"authorization": b"Bearer " + written}).status_code
            assert status == (200 if written.decode(encoding) == token else 401)
            wrong = {"authorization": b"Bearer " + written[:-1] + b"\xff"}
            check_error(client.get("/api/map", headers=wrong), 401, "no_token")
        first = client.get("/", params={"token": token}, follow_redirects=False)
        assert first.status_code == 303
        assert first.headers["set-cookie"].isascii()
        assert client.get("/api/map").status_code == 200  # by the cookie


def test_the_token_is_taken_from_the_header_or_from_the_address_once(guarded):
    assert guarded.get("/api/map", headers={"authorization": "Bearer s3cret"}).status_code == 200
    first = guarded.get("http://localhost//evil.example/ask?x=1&token=s3cret", follow_redirects=False)
    assert first.headers["location"] == "/evil.example/ask?x=1"
    assert {"HttpOnly", "SameSite=strict"} <= set(first.headers["set-cookie"].split("; "))
    assert guarded.get("/api/map").status_code == 200  # by the cookie


@pytest.mark.parametrize("key", ["others", "top"])
@pytest.mark.parametrize("value", [10**400, -(10**400), 1e308])
def test_numbers_of_any_length_are_refused_not_fatal(client, key, value):
    from api_client import check_error

    body = {"name": "new", "facts": [{"relation": "party", "role": "subject", "partner": "Red"}], key: value}
    headers = {"content-type": "application/json"}
    check_error(client.post("/api/fold-in", content=json.dumps(body), headers=headers), 422, "bad_value")

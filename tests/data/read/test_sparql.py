"""A SPARQL endpoint: Oxigraph's query engine (pyoxigraph) behind a local HTTP server with limits of its own."""

import base64
import contextlib
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pyoxigraph
import pytest

from relatent.data.read import sparql
from relatent.data.read.read import read
from relatent.errors import DataError, DataWarning

N = 250
MAX_ROWS = 25  # per answer, whatever is asked for
FACTS = sorted((f"http://x/{i % 50}", f"http://x/r{i % 3}", f"http://x/{i * 7 % 50}") for i in range(N))


class Endpoint(BaseHTTPRequestHandler):
    store: pyoxigraph.Store
    asked: list[str]
    failures: list[int]

    def do_POST(self):
        query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        type(self).asked.append(query)
        query = re.sub(r"LIMIT (\d+)", lambda found: f"LIMIT {min(int(found[1]), MAX_ROWS)}", query)
        if self.failures:
            self.send_response(self.failures.pop())
            self.end_headers()
            return
        try:
            solutions = self.store.query(query)
            body = solutions.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        except SyntaxError as problem:
            self.send_response(400)
            self.end_headers()
            self.wfile.write(str(problem).encode())
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setattr(sparql, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(sparql, "ROWS_PER_PAGE", 40)
    Endpoint.store, Endpoint.asked, Endpoint.failures = pyoxigraph.Store(), [], []
    for fact in FACTS:
        Endpoint.store.add(pyoxigraph.Quad(*map(pyoxigraph.NamedNode, fact)))
    node = pyoxigraph.NamedNode("http://x/1")
    Endpoint.store.add(pyoxigraph.Quad(node, pyoxigraph.NamedNode("http://x/age"), pyoxigraph.Literal(5)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"sparql+http://127.0.0.1:{server.server_port}/query"
    server.shutdown()
    thread.join()
    server.server_close()


def test_all_facts_are_read_page_by_page(endpoint):
    assert read(endpoint).named() == sorted(set(FACTS), key=lambda fact: (fact[1], fact[0], fact[2]))
    assert len(Endpoint.asked) > len(set(FACTS)) / 40
    assert all("LIMIT" in query for query in Endpoint.asked)


def test_a_busy_server_is_asked_again(endpoint):
    Endpoint.failures = [503, 429, 502]
    assert len(read(endpoint)) == len(set(FACTS))


def test_a_query_may_be_in_a_file_in_the_url_or_an_argument(endpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query = "SELECT ?s ?o WHERE { ?s <http://x/r0> ?o } LIMIT 5"
    Path("q.rq").write_text(query)
    by_file = read(f"{endpoint}?query-file=q.rq", relation="r0")
    assert len(by_file) == 5
    assert list(by_file.relations) == ["r0"]
    assert read(endpoint, sql=query, relation="r0").named() == by_file.named()
    assert Endpoint.asked == [query, query]  # a query with a limit is asked once


def test_literals_are_left_out_or_weights(endpoint):
    with pytest.warns(DataWarning, match="left out 1 rows with a literal"):
        assert len(read(endpoint, sql="SELECT * WHERE { ?subject ?relation ?object }")) == len(set(FACTS))
    weighted = read(
        endpoint, sql="SELECT ?s ?p ?o ?weight WHERE { ?s ?p ?o . ?s <http://x/age> ?weight FILTER(isIRI(?o)) }"
    )
    assert set(weighted.weights) == {5.0}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nonsense", "HTTP 400: "),
        ("ASK { ?s ?p ?o }", "expected the results of a SELECT query as JSON|HTTP 400"),
        ("SELECT ?s ?p ?o WHERE { ?s <http://x/none> ?o BIND(1 AS ?p) }", "contains no facts"),
    ],
)
def test_wrong_queries_are_one_line(endpoint, query, message):
    with pytest.raises(DataError, match=message) as caught:
        read(endpoint, sql=query)
    assert "\n" not in str(caught.value)


def test_a_server_that_cannot_be_reached_is_named(monkeypatch):
    monkeypatch.setattr(sparql, "FIRST_WAIT_SECONDS", 0.0)
    with pytest.raises(DataError, match=r"^http://127.0.0.1:9/query: .*refused.* \(5 tries\)$"):
        read("sparql+http://127.0.0.1:9/query")
    with pytest.raises(DataError, match="a SPARQL endpoint is sparql"):
        read("sparql+file:///etc/passwd")


@pytest.fixture
def answering(monkeypatch):
    """A function that starts a server which sends the same bytes to every request, and returns its URL."""
    monkeypatch.setattr(sparql, "FIRST_WAIT_SECONDS", 0.0)
    listeners = []

    def start(answer, heard=None, seconds_per_byte=0.0):
        listeners.append(listener := socket.create_server(("127.0.0.1", 0)))

        def serve():
            with contextlib.suppress(OSError):  # the listener is closed
                while True:
                    with listener.accept()[0] as connection, contextlib.suppress(OSError):  # the client has closed it
                        (heard if heard is not None else []).append(connection.recv(1 << 16))
                        if seconds_per_byte:
                            for byte in answer:
                                connection.sendall(bytes([byte]))
                                time.sleep(seconds_per_byte * (byte == 32))
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(1 << 16):  # to close with unread bytes would reset the connection
                            pass

        threading.Thread(target=serve, daemon=True).start()
        return f"sparql+http://127.0.0.1:{listener.getsockname()[1]}/query"

    yield start
    for listener in listeners:
        listener.close()


OK = b"HTTP/1.0 200 OK\r\n"
TERM = '{"type": "uri", "value": "http://x/a"}'
ROW = f'{{"s": {TERM}, "p": {TERM}, "o": {TERM}}}'


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"nonsense\r\n\r\n", "nonsense$"),
        (OK + b"X: " + b"x" * 100_000, "got more than 65536 bytes when reading header line"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead|expected the results"),
        (OK + b'\r\n{"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [5]}}', "expected the results of a"),
        (
            OK + f'\r\n{{"head": {{"vars": ["s", "p", "o"]}}, "results": {{"bindings": [{ROW}]}}}}'.encode(),
            "sends the same rows for every OFFSET; give a query with a LIMIT",
        ),
    ],
)
def test_a_server_that_answers_nonsense_is_one_line(answering, answer, message):
    with pytest.raises(DataError, match=message) as caught:
        read(answering(answer))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://a b/", "http://a:port/", "http://[::/"])
def test_a_wrong_url_is_one_line(url):
    with pytest.raises(DataError, match=r"URL|port"):
        read(f"sparql+{url}")


def test_a_password_is_sent_and_not_shown(answering):
    heard = []
    url = answering(OK + b"\r\nno", heard).replace("http://", "http://ann:s%40cret@")
    with pytest.raises(DataError, match=r"^http://127.0.0.1:\d+/query: expected the results") as refused:
        read(url)
    assert "cret" not in str(refused.value)
    assert b"Authorization: Basic " + base64.b64encode(b"ann:s@cret") in heard[0]


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "http://localhost:1/query", "file:///etc/passwd"])
def test_a_redirect_to_another_server_is_not_followed(answering, target):
    answer = f"HTTP/1.0 302 Found\r\nLocation: {target}\r\n\r\n".encode()
    with pytest.raises(DataError, match=r"redirects to .*; give that address if you trust it|HTTP 302"):
        read(answering(answer))


def test_what_will_not_change_is_asked_once(answering, monkeypatch):
    monkeypatch.setattr(sparql.time, "sleep", lambda _: pytest.fail("asks again"))
    for url in ("sparql+http://nowhere.invalid/query", answering(b"SSH-2.0\r\n"), "sparql+http://a..b/"):
        with pytest.raises(DataError):
            read(url)


def test_an_answer_that_drips_is_given_up(answering, monkeypatch):
    monkeypatch.setattr(sparql, "TIMEOUT_SECONDS", 0.3)
    with pytest.raises(DataError, match=r"takes longer than 0.3 s; ask for less at once|timed out"):
        read(answering(OK + b"\r\n" + b" " * 1000, seconds_per_byte=0.1))


def test_headers_that_drip_are_given_up(answering, monkeypatch):
    monkeypatch.setattr(sparql, "TIMEOUT_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(DataError, match=r"takes longer than 0.5 s; ask for less at once"):
        read(answering(OK + b"X-Name: x\r\n" * 1000, seconds_per_byte=0.1))
    assert time.monotonic() - started < 30


def test_bindings_of_nothing_do_not_fill_the_memory(answering, monkeypatch):
    monkeypatch.setattr(sparql, "MAX_DOCUMENT_VALUES", 1000)
    with pytest.raises(DataError, match="an answer has more than 1,000 values; ask for less at once"):
        read(answering(OK + b'\r\n{"head": {"vars": ["s"]}, "results": {"bindings": [' + b"{}," * 2000 + b"{}]}}"))

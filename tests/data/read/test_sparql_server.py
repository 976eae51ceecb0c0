"""`sparql+http://…` against a real server: `oxigraph serve`, of the package oxigraph (`pip install oxigraph`)."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from commands import run
from relatent.data.read import sparql
from relatent.data.read.read import read

OXIGRAPH = shutil.which("oxigraph", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
TURTLE = "".join(
    f'<http://x/{i}> <http://x/next> <http://x/{i + 1}> ; <http://x/size> {i} ; rdfs:label "No {i}"@en .\n'
    for i in range(95)
)
FACTS = [(f"http://x/{i}", "http://x/next", f"http://x/{i + 1}") for i in range(95)]
pytestmark = pytest.mark.skipif(OXIGRAPH is None, reason="needs the package oxigraph")
MAX_WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [OXIGRAPH, "serve", "--bind", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _load(f"http://127.0.0.1:{port}/store?default", process)
        yield f"sparql+http://127.0.0.1:{port}/query"
    finally:
        process.terminate()
        process.wait(timeout=MAX_WAIT_SECONDS)


def _load(address: str, process: subprocess.Popen) -> None:
    """Send the facts, as soon as the server answers."""
    prefix = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    request = urllib.request.Request(
        address, (prefix + TURTLE).encode(), {"Content-Type": "text/turtle"}, method="POST"
    )
    until = time.monotonic() + MAX_WAIT_SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)


def test_all_facts_are_read_in_pages(server, monkeypatch):
    monkeypatch.setattr(sparql, "ROWS_PER_PAGE", 40)
    assert sorted(read(server).named()) == sorted(FACTS)


def test_a_query_gives_the_facts(server):
    small = "?subject <http://x/size> ?n FILTER(?n < 3)"
    query = f"SELECT ?subject ?object WHERE {{ ?subject <http://x/next> ?object . {small} }}"
    facts = read(server, sql=query, relation="next")
    assert sorted(facts.named()) == [(s, "next", o) for s, _, o in FACTS[:3]]


def test_a_query_from_a_file_on_the_command_line(capsys, server, tmp_path):
    (tmp_path / "q.rq").write_text("SELECT ?s ?p ?o WHERE { ?s ?p ?o FILTER(isIRI(?o)) }")
    source = f"{server}?query-file={tmp_path / 'q.rq'}"
    code, _, err = run(capsys, "fit", source, "-o", tmp_path / "m.relatent", "--model", "als", "--rank", 2)
    assert code == 0, err
    assert (tmp_path / "m.relatent").exists()


def test_a_wrong_query_is_one_line_with_the_answer_of_the_server(capsys, server, tmp_path):
    code, _, err = run(capsys, "fit", server, "--sql", "SELECT ?s WHER", "-o", tmp_path / "m.relatent")
    assert code == 1
    [line] = [line for line in err.splitlines() if line.startswith("error:")]
    assert "400" in line

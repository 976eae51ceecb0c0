"""The API and the pages: what they answer, how they fail, whom they refuse."""

import dataclasses
import gzip
import json
import logging
import re
import signal
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import relatent
import worlds
from commands import run

pytest.importorskip("starlette", reason="needs relatent[serve]")
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from relatent.analysis.known_facts import KnownFacts
from relatent.cli.serve import address, is_loopback, listen
from relatent.model.links import Identity
from relatent.web import app as app_module
from relatent.web.app import WEB, create_app
from relatent.web.endpoints import ENDPOINTS
from relatent.web.views import Explorer

LONG = 30  # seconds until a result that takes long must be there


@pytest.fixture(scope="module")
def politics():
    facts = worlds.politics()
    return facts, relatent.RescalLogit(8, 0.1, 0.1).fit(facts).factors_


@pytest.fixture(scope="module")
def explorer(politics):
    facts, factors = politics
    return Explorer(factors, KnownFacts(facts, factors), name="politics.relatent", known_name="politics")


@pytest.fixture(scope="module")
def client(explorer):
    with TestClient(create_app(explorer), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def bare(politics):
    """A server without known facts."""
    with TestClient(create_app(Explorer(politics[1])), base_url="http://localhost") as client:
        yield client


def answer(client, path, **values):
    response = client.get(f"/api/{path}", params=values)
    assert response.status_code == 200, response.text
    return response.json()


def finally_(client, path, **values):
    """The answer of something that takes long."""
    until = time.monotonic() + LONG
    while (response := client.get(f"/api/{path}", params=values)).status_code == 202:
        assert set(response.json()) == {"state", "done", "total", "note"}
        assert time.monotonic() < until
        time.sleep(0.02)
    assert response.status_code == 200, response.text
    return response


def problem(response, status, code):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) - {"close"} == {"code", "message", "remedy"}
    assert error["code"] == code
    assert all(isinstance(error[part], str) and error[part] for part in ("code", "message", "remedy"))
    assert "Traceback" not in response.text
    return error


# --- answers


def test_names_are_found_by_a_part_of_them(client):
    found = answer(client, "search", q="PRESIDENT 1", limit=3)
    assert [one["name"] for one in found["matches"]] == ["president 1", "president 10", "president 11"]
    assert found["matches"][0]["facts"] == 3
    assert [one["name"] for one in answer(client, "search", q="par", kind="relation")["matches"]] == ["party"]


def test_an_entity_has_known_facts_and_predictions(client):
    found = answer(client, "entity", name="president 3")
    party = next(one for one in found["sections"] if (one["relation"], one["role"]) == ("party", "subject"))
    assert [one["name"] for one in party["known"]] == ["Red"]
    assert "Red" not in [one["name"] for one in party["predicted"]]
    assert found["facts"] == 3
    assert found["n_sections"] == 4


def test_a_question_is_answered_as_the_library_answers_it(client, politics):
    facts, factors = politics
    plain = factors.top(subject="vice 2", relation="party", k=3)
    found = answer(client, "ask", subject="vice 2", relation="party", k=3)
    assert [one["name"] for one in found["answers"]] == plain.names
    assert [one["known"] for one in found["answers"]] == [True, False, False]
    left = answer(client, "ask", subject="vice 2", relation="party", k=3, known="omit")
    assert [one["name"] for one in left["answers"]] == factors.top("vice 2", "party", k=3, exclude=facts).names


@pytest.mark.parametrize("open_place", ["subject", "relation", "object"])
def test_any_of_three_places_may_be_open(client, open_place):
    fact = {"subject": "president 0", "relation": "vicePresident", "object": "vice 0"}
    asked = {place: name for place, name in fact.items() if place != open_place}
    found = answer(client, "ask", **asked)
    assert found["open"] == open_place
    assert fact[open_place] in [one["name"] for one in found["answers"] if one["known"]]


def test_one_fact_has_a_probability_and_reasons(client, politics):
    cell = {"subject": "vice 4", "relation": "party", "object": "Blue"}
    assert answer(client, "fact", **cell)["probability"] == pytest.approx(
        float(politics[1].probability(*cell.values()))
    )
    assert answer(client, "fact", **cell)["known"]
    told = answer(client, "explain", **cell)
    plain = relatent.explain(politics[1], *cell.values(), known=politics[0])
    assert told["sentence"] == plain.sentence
    assert [one["influence"] for one in told["reasons"]] == pytest.approx([one.influence for one in plain.reasons])


def test_similar_entities_are_those_of_the_library(client, politics):
    found = answer(client, "similar", name="president 3", k=4)["similar"]
    plain = relatent.similar(politics[1], "president 3", 4)
    assert [one["similarity"] for one in found] == pytest.approx([one.similarity for one in plain], abs=1e-5)


def test_a_newcomer_is_answered_and_forgotten(client, politics):
    body = {"name": "Eve", "facts": [{"relation": "vicePresident", "role": "object", "partner": "president 1"}]}
    for _ in range(2):
        response = client.post("/api/fold-in", json=body)
        assert response.status_code == 200, response.text
        found = response.json()
        party = next(one for one in found["sections"] if (one["relation"], one["role"]) == ("party", "subject"))
        assert party["predicted"][0]["name"] == "Red"
        assert len(found["similar"]) == 10
        answers = [[one["name"] for one in section["predicted"]] for section in found["sections"]]
        assert all(len(names) == 5 and "Eve" not in names for names in answers)
        problem(client.get("/api/entity", params={"name": "Eve"}), 404, "unknown_entity")
    assert len(politics[1].entities) == 42


def test_groups_tell_who_belongs_together(client):
    groups = finally_(client, "groups").json()["groups"]
    assert sum(one["size"] for one in groups) == 42
    page = finally_(client, "group", number=0, start=1, count=2).json()
    assert page["members"] == groups[0]["members"][1:3]
    own = finally_(client, "group", entity=groups[1]["members"][0]).json()
    assert own["group"]["number"] == 1


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_map_is_sent_as_numbers(client, method):
    assert answer(client, "map")["entities"] == 42
    response = finally_(client, "map/points", method=method)
    assert response.headers["content-type"] == "application/octet-stream"
    points = np.frombuffer(response.content, "<f4").reshape(-1, 2)
    assert points.shape == (42, 2)
    assert np.abs(points).max() <= 1.0001
    groups = struct.unpack("<42H", finally_(client, "map/groups").content)
    assert set(groups) == set(range(len(finally_(client, "groups").json()["groups"])))
    assert answer(client, "names", start=40)["names"] == answer(client, "names")["names"][40:]


def test_the_model_says_what_it_is(client, politics):
    found = answer(client, "model")
    assert found["kind"] == "RescalLogit"
    assert found["sizes"]["entities"] == 42
    assert found["fit"]["objectives"] == politics[1].about["fit"]["objectives"]
    assert found["known"] == {"name": "politics", "facts": 80}
    assert found["can_explain"]
    assert found["can_fold_in"]
    assert [one["facts"] for one in answer(client, "relations")["relations"]] == politics[0].counts().tolist()


def test_a_model_file_of_the_first_version_can_be_explored():
    factors = relatent.load(Path(__file__).parents[1] / "model" / "version1.relatent")
    with TestClient(create_app(Explorer(factors)), base_url="http://localhost") as client:
        assert answer(client, "model")["fit"]["objectives"] == factors.about.get("fit", {}).get("objectives", [])
        assert answer(client, "entity", name=factors.entities[0])["sections"]


def test_quality_is_measured_on_known_facts_where_there_are_no_others(client):
    found = finally_(client, "quality").json()
    assert found["data"] == "known"
    assert found["quality"]["overall"]["mrr"] > 0.5
    assert {one["relation"] for one in found["quality"]["relations"]} == {"party", "vicePresident"}


def test_quality_is_measured_on_test_facts(politics):
    facts, factors = politics
    train, test = relatent.split(facts, test_size=0.2)
    explorer = Explorer(factors, KnownFacts(train, factors), KnownFacts(test, factors), test_name="held out")
    with TestClient(create_app(explorer), base_url="http://localhost") as client:
        found = finally_(client, "quality").json()
    assert (found["data"], found["name"]) == ("test", "held out")
    ranked = relatent.evaluate(factors, test, known=train)
    assert found["quality"]["overall"]["mrr"] == pytest.approx(ranked.mrr)


def test_without_known_facts_questions_are_answered_and_reasons_are_not(bare):
    assert answer(bare, "ask", subject="vice 2", relation="party")["n_known"] == 0
    cell = {"subject": "vice 4", "relation": "party", "object": "Blue"}
    told = problem(bare.get("/api/explain", params=cell), 409, "not_possible_here")
    assert told["remedy"] == "start it with --known DATA"
    problem(bare.get("/api/quality"), 409, "not_possible_here")
    assert not answer(bare, "model")["can_explain"]


def test_models_without_a_regression_say_so(politics):
    facts, fitted = politics
    factors = dataclasses.replace(fitted, about={"model": "IRM"}, link=Identity())
    with TestClient(create_app(Explorer(factors, KnownFacts(facts, factors))), base_url="http://localhost") as client:
        body = {"name": "Eve", "facts": [{"relation": "party", "role": "subject", "partner": "Red"}]}
        problem(client.post("/api/fold-in", json=body), 409, "not_possible_here")
        cell = {"subject": "vice 4", "relation": "party", "object": "Blue"}
        problem(client.get("/api/explain", params=cell), 409, "not_possible_here")
        assert answer(client, "entity", name="vice 4")["sections"]


# --- faults


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("entity?name=presidnt+3", 404, "unknown_entity"),
        ("ask?subject=president+3&relation=prty", 404, "unknown_relation"),
        ("group?number=999", 404, "unknown_group"),
        ("nowhere", 404, "no_such_page"),
        ("entity", 422, "bad_value"),
        ("entity?name=", 422, "bad_value"),
        ("entity?name=Red&name=Blue", 422, "bad_value"),
        ("entity?name=Red&nmae=Blue", 422, "bad_value"),
        ("entity?name=" + "x" * 3000, 422, "bad_value"),
        ("ask?subject=Red", 422, "bad_value"),
        ("ask?subject=Red&relation=party&object=Blue", 422, "bad_value"),
        ("ask?subject=Red&relation=&object=Blue", 422, "bad_value"),
        ("ask?subject=Red&relation=party&k=0", 422, "bad_value"),
        ("ask?subject=Red&relation=party&k=1001", 422, "bad_value"),
        ("ask?subject=Red&relation=party&k=ten", 422, "bad_value"),
        ("ask?subject=Red&relation=party&k=%D9%A1", 422, "bad_value"),
        ("ask?subject=Red&relation=party&known=maybe", 422, "bad_value"),
        ("map/points?method=umap", 422, "bad_value"),
        ("group", 422, "bad_value"),
        ("group?number=0&entity=Red", 422, "bad_value"),
        ("names?start=-1", 422, "bad_value"),
    ],
)
def test_every_fault_has_the_same_shape(client, path, status, code):
    finally_(client, "groups")
    problem(client.get(f"/api/{path}"), status, code)


@pytest.mark.parametrize(
    ("path", "message", "remedy"),
    [
        ("ask?subject=Red&relation=party&k=100000", "k must be from 1 to 1000, got '100000'", "give a whole number"),
        ("ask?subject=Red&relation=party&k=ten", "k must be from 1 to 1000, got 'ten'", "give a whole number"),
        ("ask?subject=Red&relation=party&known=no", "known must be one of mark, omit, only, got 'no'", "give one of"),
        ("group?number=99", "unknown group '99'", "see /api/groups"),
    ],
)
def test_a_value_out_of_range_is_told_with_the_range_and_a_group_with_where_groups_are(client, path, message, remedy):
    finally_(client, "groups")
    told = client.get(f"/api/{path}").json()["error"]
    assert told["message"] == message
    assert told["remedy"].startswith(remedy)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([], "facts must have at least one fact, got 0"),
        ("party Red", "facts must be a list, got 'party Red'"),
        ([{}] * 10_000, "facts must have at most"),
    ],
)
def test_facts_of_a_newcomer_are_asked_for_by_what_is_wrong_with_them(client, facts, message):
    told = problem(client.post("/api/fold-in", json={"name": "Eve", "facts": facts}), 422, "bad_value")
    assert told["message"].startswith(message)


def test_close_names_are_told(client):
    told = problem(client.get("/api/entity?name=presidnt+3"), 404, "unknown_entity")
    assert told["close"][0] == "president 3"
    assert "president 3" in told["remedy"]


def newcomer(*, relation="party", role="subject", partner="Red", **others):
    return json.dumps({"name": "Eve", "facts": [{"relation": relation, "role": role, "partner": partner}], **others})


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "not_json"),
        ("[" * 5000, 400, "not_json"),
        ('{"name": NaN}', 400, "not_json"),
        ("[]", 422, "bad_value"),
        ('{"name": "Eve"}', 422, "bad_value"),
        ('{"name": "Eve", "facts": []}', 422, "bad_value"),
        ('{"name": "Eve", "facts": [1]}', 422, "bad_value"),
        (newcomer(name=""), 422, "bad_value"),
        (newcomer(name="Red"), 422, "bad_value"),
        (newcomer(role="both"), 422, "bad_value"),
        (newcomer(partner="Rad"), 404, "unknown_entity"),
        (newcomer(partner="Eve"), 404, "unknown_entity"),
        (newcomer(relation="p"), 404, "unknown_relation"),
        (newcomer(others=2), 422, "bad_value"),
        (newcomer(others=True), 422, "bad_value"),
        (newcomer(limit=1.5), 422, "bad_value"),
        (newcomer(more=1), 422, "bad_value"),
        (" " * 70_000, 413, "too_large"),
    ],
)
def test_what_is_posted_is_checked(client, body, status, code):
    problem(client.post("/api/fold-in", content=body, headers={"content-type": "application/json"}), status, code)


def test_a_large_body_is_refused_even_if_it_does_not_say_its_length(client):
    parts = (b" " * 1000 for _ in range(100))
    response = client.post("/api/fold-in", content=parts, headers={"content-type": "application/json"})
    problem(response, 413, "too_large")


def test_only_json_is_taken(client):
    problem(client.post("/api/fold-in", content=b"a=b"), 415, "not_json")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/ask"), ("GET", "/api/fold-in"), ("DELETE", "/"), ("PUT", "/api")]
)
def test_the_wrong_method_is_said_so(client, method, path):
    response = client.request(method, path)
    problem(response, 405, "wrong_method")
    assert response.headers["allow"]


def test_work_that_takes_too_long_is_given_up(explorer, monkeypatch):
    monkeypatch.setattr(Explorer, "model", lambda self: time.sleep(0.5))
    endpoints = tuple(one if one.path != "/api/model" else replaced(one, Explorer.model) for one in ENDPOINTS)
    monkeypatch.setattr(app_module, "ENDPOINTS", endpoints)
    with TestClient(create_app(explorer, seconds=0.05), base_url="http://localhost") as client:
        response = client.get("/api/model")
        problem(response, 503, "timeout")
        assert response.headers["retry-after"] == "1"
        assert client.get("/api/search?q=red").status_code == 200


def replaced(endpoint, call):
    return dataclasses.replace(endpoint, call=call)


def test_too_many_waiting_requests_are_refused(explorer, monkeypatch):
    monkeypatch.setattr(app_module.Pool.__init__, "__defaults__", (0,))
    with TestClient(create_app(explorer), base_url="http://localhost") as client:
        problem(client.get("/api/map"), 503, "busy")


def test_a_bug_is_told_without_our_insides(explorer, monkeypatch, caplog):
    def broken(self):
        raise RuntimeError("secret")

    endpoints = tuple(one if one.path != "/api/model" else replaced(one, broken) for one in ENDPOINTS)
    monkeypatch.setattr(app_module, "ENDPOINTS", endpoints)
    with (
        caplog.at_level(logging.CRITICAL),
        TestClient(create_app(explorer), base_url="http://localhost", raise_server_exceptions=False) as client,
    ):
        response = client.get("/api/model")
    problem(response, 500, "internal")
    assert "secret" not in response.text
    assert response.headers["x-content-type-options"] == "nosniff"


# --- whom it lets in


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"])
def test_loopback_names_are_let_in(client, host):
    assert client.get("/api/map", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "127.0.0.1.evil.example"]
)
def test_foreign_names_are_refused_even_for_pages(client, host):
    for path in ("/", "/api/map", "/web/app.js"):
        problem(client.get(path, headers={"host": host}), 400, "foreign_host")


def test_any_name_is_let_in_where_the_server_is_for_others(explorer):
    with TestClient(create_app(explorer, hosts=None), base_url="http://localhost") as client:
        assert client.get("/api/map", headers={"host": "kg.example"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/entity?name=Red", "/nowhere", "/web/style.css", "/api", "/api/map", "/api/nowhere"]
)
def test_every_answer_has_safe_headers(client, path):
    headers = client.get(path).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


# --- pages and files


@pytest.mark.parametrize("path", ["/", "/entity?name=Red", "/ask", "/map", "/group?number=1", "/model", "/new"])
def test_every_page_has_an_address(client, path):
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"


def test_an_address_that_is_no_page_is_404_with_the_page_that_says_so(client):
    response = client.get("/nowhere")
    assert response.status_code == 404
    assert "<main" in response.text
    for path in ("/web/../app.py", "/web/%2e%2e/app.py", "/web/", "/web/none.js"):
        assert client.get(path).status_code == 404


def test_files_are_kept_by_browsers_until_they_change(client):
    first = client.get("/web/style.css", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    again = client.get("/web/style.css", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert not again.content
    plain = client.get("/web/style.css", headers={"accept-encoding": "identity"})
    assert plain.text == first.text == (WEB / "style.css").read_text()


def test_the_page_needs_nothing_from_elsewhere_and_nothing_inline():
    for path in WEB.iterdir():
        text = path.read_text()
        assert not re.search(r"""(src|href|from|import|url\()\s*[=(]?\s*["']?(https?:)?//""", text), path.name
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", text), path.name
        if path.suffix == ".js":
            assert "innerHTML" not in text, path.name


def test_every_module_that_is_imported_is_there():
    names = {path.name for path in WEB.iterdir()}
    for path in WEB.glob("*.js"):
        assert set(re.findall(r'"\./([\w.]+)"', path.read_text())) <= names, path.name
    assert set(re.findall(r'"/web/([\w.]+)"', (WEB / "index.html").read_text())) <= names


def test_the_page_weighs_little():
    assert sum(len(path.read_bytes()) for path in WEB.iterdir()) < 120_000
    assert sum(len(gzip.compress(path.read_bytes())) for path in WEB.iterdir()) < 40_000


# --- the description


def test_the_description_names_every_endpoint_and_what_it_takes(client):
    document = client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {one.path for one in ENDPOINTS}
    page = client.get("/api").text
    for one in ENDPOINTS:
        (method, operation), *rest = document["paths"][one.path].items()
        assert not rest
        assert method.upper() == one.method
        assert [parameter["name"] for parameter in operation["parameters"]] == [each.name for each in one.parameters]
        assert one.path in page
    text = json.dumps(document)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in document["components"]["schemas"]


def test_middleware_can_be_added(explorer):
    class Marked:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            async def mark(message):
                if message["type"] == "http.response.start":
                    message["headers"].append((b"x-marked", b"yes"))
                await send(message)

            await self.app(scope, receive, mark)

    app = create_app(explorer, middleware=[Middleware(Marked)])
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/api/map").headers["x-marked"] == "yes"


# --- the command


def test_it_is_known_who_can_reach_a_host():
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.2", "kg.example", ""))


@pytest.fixture
def saved(tmp_path, politics):
    facts, factors = politics
    model, data = tmp_path / "politics.relatent", tmp_path / "politics.tsv"
    factors.save(model)
    data.write_text("".join("\t".join(fact) + "\n" for fact in facts.named()))
    return model, data


def test_a_taken_port_is_said_in_one_line(capsys, saved):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}/"
        code, _, err = run(capsys, "serve", saved[0], "--port", port)
    assert code == 1
    assert err == f"error: port {port} is in use; end what runs there, or give another --port\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "no.such.host.invalid"], "give an address of this machine"),
        (["--known", "kinships"], "knows the names of no fact of kinships"),
        (["--known", "nowhere.tsv"], "neither a file nor a data set"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(capsys, saved, arguments, message):
    code, out, err = run(capsys, "serve", saved[0], "--port", 0, *arguments)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
    assert not out


def test_a_missing_extra_says_how_to_get_it(capsys, saved, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = run(capsys, "serve", saved[0])
    assert code == 1
    assert "pip install 'relatent[serve]'" in err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_command_serves_until_ctrl_c(saved, host):
    model, data = saved
    command = [sys.executable, "-m", "relatent.cli.main", "serve", model, "--known", data, "--port", "0", "--json"]
    server = subprocess.Popen(
        [*command, "--host", host], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(data).parent
    )
    try:
        url = json.loads(server.stdout.readline())["url"].replace("0.0.0.0", "127.0.0.1")
        with urllib.request.urlopen(url + "api/model", timeout=10) as response:
            assert json.load(response)["known"]["facts"] == 80
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=10)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert not out
    assert err.splitlines()[-1] == "stopped"
    assert ("there is no password" in err) == (host == "0.0.0.0")

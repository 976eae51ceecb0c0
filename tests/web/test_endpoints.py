"""Parameters and bodies of requests: which values are refused."""

import json

import pytest
from api_client import check_error, get, get_when_ready


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("entity?name=presidnt+3", 404, "unknown_entity"),
        ("ask?subject=president+3&relation=prty", 404, "unknown_relation"),
        ("group?number=999", 404, "unknown_group"),
        ("group?entity=Rad", 404, "unknown_entity"),
        ("nowhere", 404, "no_such_page"),
        ("entity", 422, "bad_value"),
        ("entity?name=", 422, "bad_value"),
        ("entity?name=Red&name=Blue", 422, "bad_value"),
        ("entity?name=Red&nmae=Blue", 422, "bad_value"),
        ("entity?name=" + "x" * 3000, 422, "bad_value"),
        ("ask?subject=Red", 422, "bad_value"),
        ("ask?subject=Red&relation=party&object=Blue", 422, "bad_value"),
        ("ask?subject=Red&relation=&object=Blue", 422, "bad_value"),
        ("ask?subject=Red&relation=party&top=0", 422, "bad_value"),
        ("ask?subject=Red&relation=party&top=1001", 422, "bad_value"),
        ("ask?subject=Red&relation=party&top=ten", 422, "bad_value"),
        ("ask?subject=Red&relation=party&top=%D9%A1", 422, "bad_value"),
        ("ask?subject=Red&relation=party&top=3&k=ten", 422, "bad_value"),
        ("ask?subject=Red&relation=party&known=maybe", 422, "bad_value"),
        ("map/points?method=umap", 422, "bad_value"),
        ("group", 422, "bad_value"),
        ("group?number=0&entity=Red", 422, "bad_value"),
        ("names?start=-1", 422, "bad_value"),
    ],
)
def test_invalid_requests_are_refused_with_one_shape_of_error(client, path, status, code):
    get_when_ready(client, "groups")
    check_error(client.get(f"/api/{path}"), status, code)


@pytest.mark.parametrize(
    ("path", "message", "remedy"),
    [
        (
            "ask?subject=Red&relation=party&top=100000",
            "top must be from 1 to 1000, got '100000'",
            "give a whole number from 1 to 1000",
        ),
        (
            "ask?subject=Red&relation=party&top=ten",
            "top must be from 1 to 1000, got 'ten'",
            "give a whole number from 1 to 1000",
        ),
        (
            "ask?subject=Red&relation=party&known=no",
            "known must be one of mark, omit, only, got 'no'",
            "give one of mark, omit, only",
        ),
        ("entity?nmae=Red", "unknown parameter 'nmae'", "/api/entity accepts name, sections, top"),
        ("group?number=99", "unknown group '99'", "see /api/groups; see /api for all endpoints"),
    ],
)
def test_errors_name_the_value_and_what_is_accepted(client, path, message, remedy):
    get_when_ready(client, "groups")
    error = client.get(f"/api/{path}").json()["error"]
    assert error["message"] == message
    assert error["remedy"] == remedy


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        ("search?q=president", lambda result: result["matches"]),
        ("entity?name=president+3", lambda result: result["sections"][0]["predicted"]),
        ("ask?subject=vice+2&relation=party", lambda result: result["answers"]),
        ("explain?subject=vice+4&relation=party&object=Blue", lambda result: result["reasons"]),
        ("similar?name=president+3", lambda result: result["similar"]),
    ],
)
def test_top_is_the_number_of_results(client, path, entries):
    assert len(entries(get(client, f"{path}&top=2"))) == 2


def body_of(*, relation="party", role="subject", partner="Red", **others):
    return json.dumps({"name": "Eve", "facts": [{"relation": relation, "role": role, "partner": partner}], **others})


def post(client, body):
    return client.post("/api/fold-in", content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize(("options", "expected"), [({}, 5), ({"top": 3}, 3)])
def test_fold_in_takes_the_number_of_predictions(client, options, expected):
    page = post(client, body_of(**options)).json()
    assert {len(section["predicted"]) for section in page["sections"]} == {expected}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ([], "facts must have at least one fact, got 0"),
        ("party Red", "facts must be a list, got 'party Red'"),
        ([{}] * 10_000, "facts must have at most 200 facts, got 10000"),
    ],
)
def test_the_error_says_what_is_wrong_with_the_facts_of_a_new_entity(client, facts, message):
    error = check_error(client.post("/api/fold-in", json={"name": "Eve", "facts": facts}), 422, "bad_value")
    assert error["message"] == message


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
        (body_of(name=""), 422, "bad_value"),
        (body_of(name="Red"), 422, "bad_value"),
        (body_of(role="both"), 422, "bad_value"),
        (body_of(partner="Rad"), 404, "unknown_entity"),
        (body_of(partner="Eve"), 404, "unknown_entity"),
        (body_of(relation="p"), 404, "unknown_relation"),
        (body_of(others=2), 422, "bad_value"),
        (body_of(others=True), 422, "bad_value"),
        (body_of(top=1.5), 422, "bad_value"),
        (body_of(limit=3), 422, "bad_value"),
        (body_of(more=1), 422, "bad_value"),
        (" " * 70_000, 413, "too_large"),
    ],
)
def test_invalid_bodies_are_refused(client, body, status, code):
    check_error(post(client, body), status, code)

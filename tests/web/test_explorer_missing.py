"""Missing facts in the explorer, and decisions about them."""

import pytest
from api_client import check_error, client_of, get_when_ready

import relatent
from relatent.data.review import ReviewFile, read_review
from relatent.web.explorer import Explorer


@pytest.fixture
def reviewing(politics, tmp_path):
    path = tmp_path / "reviewed.csv"
    with client_of(Explorer(politics[1], review=ReviewFile(path))) as client:
        yield client, path


def test_the_likeliest_missing_facts_are_those_of_the_library(client, politics):
    page = get_when_ready(client, "missing", start=2, count=3).json()
    expected = relatent.missing(politics[1], 5).missing[2:]
    assert [(row["subject"], row["relation"], row["object"]) for row in page["missing"]] == [
        row[:3] for row in expected
    ]
    assert [row["rank"] for row in page["missing"]] == [3, 4, 5]
    assert page["can_review"] is False


def test_decisions_are_written_shown_and_taken_back(reviewing):
    client, path = reviewing
    first, second = get_when_ready(client, "missing", count=2).json()["missing"]
    for row, verdict in ((first, "rejected"), (second, "accepted")):
        cell = {place: row[place] for place in ("subject", "relation", "object")}
        response = client.post("/api/review", json={**cell, "verdict": verdict})
        assert response.json() == {**cell, "verdict": verdict}
    found = read_review(path)
    assert found.rejected.named() == [(first["subject"], first["relation"], first["object"])]
    assert len(found.accepted) == 1
    shown = get_when_ready(client, "missing", count=2).json()
    assert shown["can_review"] is True
    assert [row["verdict"] for row in shown["missing"]] == ["rejected", "accepted"]
    client.post("/api/review", json={**cell, "verdict": None})
    assert len(read_review(path).accepted) == 0


def test_decided_facts_are_not_offered_by_the_next_server(reviewing, politics):
    client, path = reviewing
    rows = get_when_ready(client, "missing", count=3).json()["missing"]
    for row, verdict in zip(rows[:2], ("rejected", "accepted"), strict=True):
        client.post(
            "/api/review", json={**{key: row[key] for key in ("subject", "relation", "object")}, "verdict": verdict}
        )
    with client_of(Explorer(politics[1], review=ReviewFile(path))) as again:
        offered = get_when_ready(again, "missing", count=10).json()["missing"]
    decided = {(row["subject"], row["relation"], row["object"]) for row in rows[:2]}
    assert len(offered) == 10
    assert not decided & {(row["subject"], row["relation"], row["object"]) for row in offered}


def test_decisions_about_other_data_are_refused(politics, tmp_path):
    path = tmp_path / "reviewed.csv"
    path.write_text("subject,relation,object,verdict\nAnn,likes,Bob,accepted\n", encoding="utf-8")
    with pytest.raises(relatent.InputError, match="the model knows no relation of the reviewed facts"):
        Explorer(politics[1], review=ReviewFile(path))


def test_requests_that_cannot_be_answered_are_refused(client, client_without_facts, reviewing):
    check_error(client_without_facts.get("/api/missing"), 409, "not_possible_here")
    decision = {"subject": "president 3", "relation": "party", "object": "Blue", "verdict": "accepted"}
    check_error(client.post("/api/review", json=decision), 409, "not_possible_here")
    other, path = reviewing
    check_error(other.post("/api/review", json={**decision, "verdict": "maybe"}), 422, "bad_value")
    check_error(other.post("/api/review", json={**decision, "subject": "Nobody"}), 404, "unknown_entity")
    check_error(other.post("/api/review", content="{}", headers={"content-type": "text/plain"}), 415, "not_json")
    foreign = other.post("/api/review", json=decision, headers={"host": "evil.example"})
    check_error(foreign, 400, "foreign_host")
    assert not path.exists()

"""The groups and the map of the entities."""

import struct

import numpy as np
import pytest
from api_client import check_error, client_of, get, get_when_ready

import relatent
from relatent.analysis.entity_map import MAX_ENTITIES_TSNE
from relatent.data.names import Names
from relatent.web.explorer import Explorer


def test_every_entity_is_in_one_group(client):
    groups = get_when_ready(client, "groups").json()["groups"]
    assert sum(group["size"] for group in groups) == 42
    page = get_when_ready(client, "group", number=0, start=1, count=2).json()
    assert page["members"] == groups[0]["members"][1:3]
    by_member = get_when_ready(client, "group", entity=groups[1]["members"][0]).json()
    assert by_member["group"]["number"] == 1


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_map_is_sent_as_binary_numbers(client, method):
    assert get(client, "map")["entities"] == 42
    response = get_when_ready(client, "map/points", method=method)
    assert response.headers["content-type"] == "application/octet-stream"
    points = np.frombuffer(response.content, "<f4").reshape(-1, 2)
    assert points.shape == (42, 2)
    assert np.abs(points).max() <= 1.0001
    groups = struct.unpack("<42H", get_when_ready(client, "map/groups").content)
    assert set(groups) == set(range(len(get_when_ready(client, "groups").json()["groups"])))


def test_names_are_sent_in_pages(client, politics):
    assert get(client, "names", start=40)["names"] == list(politics[1].entities[40:])
    assert get(client, "names", start=1, count=2)["names"] == list(politics[1].entities[1:3])


def test_tsne_is_refused_for_many_entities():
    n = MAX_ENTITIES_TSNE + 1
    factors = relatent.Factors(np.zeros((n, 1)), np.zeros((1, 1, 1)), np.zeros(1), Names(n), Names(1, what="relation"))
    with client_of(Explorer(factors)) as client:
        ways = get(client, "map")["ways"]
        assert [(way["method"], way["available"]) for way in ways] == [("pca", True), ("tsne", False)]
        assert client.get("/api/map").json()["default"] == "pca"
        error = check_error(client.get("/api/map/points?method=tsne"), 422, "bad_value")
        assert error["message"] == f"tsne is limited to {MAX_ENTITIES_TSNE} entities; this model has {n}"
        assert error["remedy"] == "use method=pca"

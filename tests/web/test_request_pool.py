"""Limits on the time of a request and on the number of waiting requests."""

import asyncio
import dataclasses
import threading

import pytest
from api_client import check_error, client_of

from relatent.web import app as app_module
from relatent.web import request_pool
from relatent.web.endpoints import ENDPOINTS
from relatent.web.errors import ApiError
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


def test_the_time_limit_of_a_request_begins_with_its_work(monkeypatch):
    async def ask_three(seconds):
        pool = RequestPool(seconds, n_threads=1)
        asked = (pool.run(lambda: threading.Event().wait(0.4)) for _ in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert asyncio.run(ask_three(1.0)) == [False] * 3  # the last one waited for 0.8 s
    monkeypatch.setattr(request_pool, "WAIT_SECONDS", 0.2)
    *_, last = asyncio.run(ask_three(1.0))
    assert (last.status, last.code) == (503, "timeout")


def test_slow_work_of_one_kind_does_not_hold_up_another(explorer, monkeypatch, politics):
    """A fold-in that takes long keeps neither questions nor explanations waiting."""
    ended, begun = threading.Event(), threading.Event()

    def never_ends(explorer, **_):
        begun.set()
        return ended.wait(60)

    endpoints = tuple(
        dataclasses.replace(endpoint, call=never_ends) if endpoint.path == "/api/fold-in" else endpoint
        for endpoint in ENDPOINTS
    )
    monkeypatch.setattr(app_module, "ENDPOINTS", endpoints)
    subject, relation, object_ = politics[0].named()[0]
    fold_in = {"name": "new", "facts": [{"relation": relation, "role": "subject", "partner": object_}]}
    with client_of(explorer, seconds=60.0) as client:
        asking = [
            threading.Thread(target=client.post, args=("/api/fold-in",), kwargs={"json": fold_in}) for _ in range(8)
        ]
        for thread in asking:
            thread.start()
        assert begun.wait(30)
        fact = {"subject": subject, "relation": relation, "object": object_}
        assert client.get("/api/explain", params=fact).status_code == 200
        assert client.get("/api/fact", params=fact).status_code == 200
        ended.set()
        for thread in asking:
            thread.join()


def test_clients_take_turns():
    order, first = [], threading.Event()

    async def ask(pool, client, number):
        await pool.run(lambda: (first.wait(20), order.append((client, number))), client)

    async def everyone():
        pool = RequestPool(60.0, n_threads=1)
        asked = [asyncio.create_task(ask(pool, "busy", number)) for number in range(5)]
        await asyncio.sleep(0)
        asked.append(asyncio.create_task(ask(pool, "bystander", 0)))
        await asyncio.sleep(0)
        first.set()
        await asyncio.gather(*asked)

    asyncio.run(everyone())
    assert order.index(("bystander", 0)) <= 2  # behind the request that was running, and one more
    assert [number for client, number in order if client == "busy"] == [0, 1, 2, 3, 4]


def test_one_client_does_not_take_all_places():
    async def fill():
        pool, ended = RequestPool(60.0, max_waiting=4, n_threads=1), threading.Event()
        asked = [asyncio.create_task(pool.run(ended.wait, "busy")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="3 requests are already waiting"):
            await pool.run(ended.wait, "busy")
        asked.append(asyncio.create_task(pool.run(ended.wait, "bystander")))
        await asyncio.sleep(0)
        ended.set()
        assert all(await asyncio.gather(*asked))

    asyncio.run(fill())

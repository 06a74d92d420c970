"""What clients are told when the lock server refuses, is full or slow, and when the service itself has a fault."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from holdtight import AsyncLocks, errors
from holdtight.server import Principal, app
from holdtight.server.problems import problem_of
from holdtight.stores.redis.keys import main_key
from tests.service.calling import Caller, play
from tests.support.servers import FLAVOURS, RunningServer

_numbers = itertools.count(1)
on_a_server = pytest.mark.parametrize("private_server", [FLAVOURS[0]], ids=repr, indirect=True)

STATUSES: dict[type[errors.LockError], int] = {
    errors.LockTimeout: 423,
    errors.LeaseLost: 410,
    errors.NotOwner: 410,
    errors.Unavailable: 503,
    errors.QuorumNotReached: 503,
    errors.NotPermitted: 503,
    errors.ClockDrift: 503,
    errors.OutOfMemory: 503,
    errors.ScriptError: 409,
    errors.DeadlockDetected: 409,
    errors.QueueFull: 429,
    errors.NotSupported: 422,
}


@pytest.fixture
def url() -> str:
    return f"memory://trouble-{next(_numbers)}"


@pytest.mark.parametrize("kind", STATUSES, ids=lambda kind: kind.__name__)
def test_each_error_of_the_library_has_its_status(kind: type[errors.LockError]) -> None:
    error = kind("said by redis://10.0.0.1:6379", name="a")
    error.waited = 0.1 + 0.2
    problem = problem_of(error)
    assert (problem.status, problem.code) == (STATUSES[kind], kind.code)
    assert (("retry-after", "1") in problem.headers) == (problem.status == 503)
    assert (problem.as_dict()["name"], problem.as_dict()["waited"]) == ("a", 0.3)
    if kind.code in ("CONNECTION_LOST", "OUT_OF_MEMORY", "NOT_PERMITTED"):
        assert "10.0.0.1" not in problem.detail


@on_a_server
def test_a_lock_server_that_is_full_or_refuses_is_told_as_that(
    private_server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    """To the client without the server's words, which are for operators: those are in the log."""

    async def scene(one: Caller) -> None:
        held = await one.post("acquire", name="a", ttl=60)
        private_server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        private_server.command("CONFIG", "SET", "maxmemory", "1")
        refused = await one.client.post("/v1/acquire", json={"name": "pri\\vate", "ttl": 30})
        assert (refused.status_code, refused.json()["code"]) == (503, "OUT_OF_MEMORY")
        assert refused.headers["retry-after"] == "1"
        assert (await one.post("renew", lease=held["lease"]))["fence"] == held["fence"]
        private_server.command("CONFIG", "SET", "maxmemory", "0")
        private_server.command("ACL", "SETUSER", "default", "-evalsha", "-eval")
        refused = await one.client.post("/v1/acquire", json={"name": "b", "ttl": 30})
        private_server.command("ACL", "SETUSER", "default", "+@all")
        assert (refused.status_code, refused.json()["code"]) == (503, "NOT_PERMITTED")
        assert str(private_server.port) not in refused.text
        await one.post("acquire", name="b", ttl=30)
        full, refuses = [record.getMessage() for record in caplog.records if record.name == "holdtight.server"]
        assert "maxmemory" in full
        assert "NOPERM" in refuses
        assert "vate" not in caplog.text

    play(private_server.url, scene)


def test_a_line_that_is_full_takes_no_more(url: str) -> None:
    async def main() -> None:
        async with AsyncLocks(url, max_waiters=1) as locks:
            made = app(locks, authorize=lambda request: Principal("tester", "admin"))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://test") as client:
                one = Caller(client, made, locks)
                await one.post("acquire", name="a", ttl=60)
                await one.post("acquire", name="a", ttl=60, request="first", stay=True, expect=202)
                full = await one.post("acquire", name="a", ttl=60, request="second", wait=5, expect=429)
                assert full["code"] == "QUEUE_FULL"
                assert full["name"] == "a"

    asyncio.run(main())


def test_a_fault_of_the_service_tells_its_request_id_and_no_more(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(one: Caller) -> None:
        async def fails(*args: Any) -> Any:
            raise KeyError("something secret")

        held = await one.post("acquire", name="a", ttl=60)
        monkeypatch.setattr(one.app.service.agent, "renew", fails)
        with caplog.at_level(logging.ERROR, "holdtight.server"):
            body = {"lease": held["lease"]}
            answer = await one.client.post("/v1/renew", json=body, headers={"x-request-id": "mine-1"})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (500, "INTERNAL")
        assert problem["detail"] == "the service has a fault; its log has the request mine-1"
        assert "secret" not in answer.text
        assert "mine-1" in caplog.text
        assert held["lease"] not in caplog.text

    play(url, scene)


def test_an_instance_that_ends_is_not_ready_and_sends_its_clients_elsewhere(url: str) -> None:
    async def scene(one: Caller) -> None:
        assert (await one.client.get("/readyz")).status_code == 200
        await one.app.service.drain()
        assert (await one.client.get("/readyz")).status_code == 503
        assert (await one.client.get("/healthz")).status_code == 200
        for path in ("/v1/acquire", "/v1/session/open"):
            body = {"name": "a", "ttl": 30} if path.endswith("acquire") else {}
            answer = await one.client.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (503, "SHUTTING_DOWN")
            assert answer.headers["retry-after"] == "0"
        assert (await one.get("events", expect=503))["code"] == "SHUTTING_DOWN"
        assert (await one.get("locks"))["total"] == 0

    play(url, scene)


@on_a_server
def test_a_beat_says_which_lease_it_does_not_know_of(private_server: RunningServer) -> None:
    """One lock's key is no lock any more: what became of that lease is not known, and of the others it is."""

    async def scene(one: Caller) -> None:
        session = await one.session(ttl=60)
        for name in "ab":
            await one.post("acquire", name=name, session=session, request="r")
        private_server.command("SET", main_key("ht", "b"), "nonsense")
        beat = await one.post("session/beat", session=session)
        assert [[each["name"] for each in beat[word]] for word in ("leases", "lost", "unknown")] == [["a"], [], ["b"]]
        private_server.command("DEL", main_key("ht", "b"))
        beat = await one.post("session/beat", session=session)
        assert [(each["name"], each["reason"]) for each in beat["lost"]] == [("b", "expired")]
        assert beat["unknown"] == []

    play(private_server.url, scene)


@on_a_server
@pytest.mark.parametrize(
    ("verb", "status"), [("session/open", 201), ("acquire", 200), ("renew", 200), ("session/beat", 200)]
)
def test_valid_leaves_out_the_time_that_the_answer_took(private_server: RunningServer, verb: str, status: int) -> None:
    """The lock server may have counted the ttl from the moment at which the request was sent."""

    async def slowly(act: Callable[[], Awaitable[Any]]) -> Any:
        private_server.pause()
        try:
            task = asyncio.ensure_future(act())
            await asyncio.sleep(1.2)
        finally:
            private_server.resume()
        return await task

    async def scene(one: Caller) -> None:
        session = await one.session(ttl=60)
        held = await one.post("acquire", name="a", ttl=60)
        bodies: dict[str, Any] = {
            "session/open": {"ttl": 60},
            "acquire": {"name": "b", "ttl": 60, "request": "r"},
            "renew": {"lease": held["lease"]},
            "session/beat": {"session": session},
        }
        answer = await slowly(lambda: one.post(verb, expect=status, **bodies[verb]))
        assert 55 < answer["valid"] < 60

    play(private_server.url, scene)

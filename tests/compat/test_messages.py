"""Errors of the drop-in are redis-py's classes with our texts: they lead to docs/errors.md as its table there says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from tests.compat.face import Face, OpenFace
from tests.support.servers import RunningServer, StartServer

TABLE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text().partition("## The drop-in for redis-py")[2]


def expect(cls: type[Exception], place: str, does: Callable[[], Any], *words: str) -> None:
    with pytest.raises(cls) as raised:
        does()
    text = str(raised.value)
    assert type(raised.value) is cls
    assert text.endswith(f" See: python -m holdtight explain {place.upper()}")
    assert text.count("holdtight explain") == 1
    assert all(word in text for word in words)
    if hasattr(raised.value, "message"):
        assert raised.value.message == text
    assert re.search(rf"`{cls.__name__}`.*\(#{place}\)", TABLE), "it is in the table"


def enter(lock: Any) -> None:
    with lock:
        raise AssertionError("another owner holds it")


def test_what_others_hold_and_what_is_not_ours(server: RunningServer, open_face: OpenFace) -> None:
    face = open_face(server.url)
    held = face.lock("a", timeout=20)
    held.acquire()
    expect(redis.exceptions.LockError, "lock_timeout", lambda: enter(face.lock("a", blocking=False)), "'a'", "longer")
    expect(redis.exceptions.LockError, "unlock_failed", face.lock("a", timeout=20).release, "not held")
    endless = face.lock("b")
    endless.acquire()
    expect(redis.exceptions.LockError, "not_supported", lambda: endless.extend(5), "never expires")
    endless.release()
    server.command("DEL", "a")
    expect(redis.exceptions.LockNotOwnedError, "unlock_failed", lambda: held.extend(5), "cannot extend lock 'a'")
    expect(redis.exceptions.LockNotOwnedError, "unlock_failed", held.release, "look at what it wrote")


def test_what_the_server_refuses(start_server: StartServer, open_face: OpenFace) -> None:
    server = start_server("--maxmemory-policy", "noeviction")
    server.add_user("app", "secret", "~app:*", "+@all")

    def lock(name: str, **login: str) -> Any:
        face: Face = open_face(server.url, **login)
        return face.lock(name, timeout=20)

    guessed, other = lock("app:a", username="app", password="guess"), lock("other", username="app", password="secret")
    expect(redis.exceptions.AuthenticationError, "not_permitted", guessed.acquire, "WRONGPASS", "Check user")
    expect(redis.exceptions.NoPermissionError, "not_permitted", other.acquire, "NOPERM", "'other'")
    held = lock("app:a", username="app", password="secret")
    held.acquire()
    server.command("ACL", "SETUSER", "app", "-eval", "-evalsha")
    expect(redis.exceptions.NoPermissionError, "not_permitted", lambda: held.extend(5), "'app:a'")
    server.command(
        "ACL", "SETUSER", "app", "+eval", "+evalsha", "-get"
    )  # without GET the holder cannot be seen: no waiting
    waiter = lock("app:a", username="app", password="secret")
    late = lambda: waiter.acquire(blocking_timeout=5)  # noqa: E731
    expect(redis.exceptions.NoPermissionError, "not_permitted", late, "'get'", "'app:a'")
    server.command("CONFIG", "SET", "maxmemory", "1")
    expect(redis.exceptions.OutOfMemoryError, "out_of_memory", lock("b").acquire, "Raise maxmemory")


def test_a_server_that_is_gone(private_server: RunningServer, open_face: OpenFace) -> None:
    face = open_face(private_server.url)
    lock = face.lock("a", timeout=20)
    lock.acquire()
    private_server.kill()
    refused = redis.exceptions.ConnectionError
    expect(refused, "connection_lost", lambda: face.lock("b", timeout=20).acquire(blocking_timeout=0.2), "not known")
    expect(refused, "connection_lost", lock.release, "'a'", "not known")

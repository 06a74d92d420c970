"""One reply or one request is lost: the lock is still taken, kept and given back exactly once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError, TimeoutError

from holdtight.stores.redis import plain_store
from tests.compat.face import Face, OpenFace, takes
from tests.faults.clients import asks, start
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

CUTS = pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])


@pytest.fixture
def face(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> Face:
    """A client that is connected; the server knows the scripts, and the client which checked delete the server has."""
    with private_server.connect() as client:
        for script in (plain_store.TAKE, plain_store.GIVE, plain_store.KEEP, plain_store.SIGN, plain_store.UNSIGN):
            client.call("SCRIPT", "LOAD", script.body)
    found = open_face(proxy.url)
    with found.lock("warm", timeout=10):
        pass
    return found


def gives_back(raw: bytes) -> bool:
    return b"DELIFEQ" in raw or asks(plain_store.GIVE)(raw)


@CUTS
@pytest.mark.parametrize("timeout", [20, None])
def test_a_lost_reply_to_the_taking_is_asked_for_again(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool, timeout: float | None
) -> None:
    lost = proxy.swallow_reply(takes if timeout else asks(plain_store.TAKE), cut=cut)
    lock = face.lock("a", timeout=timeout)
    assert lock.acquire(blocking_timeout=8)
    lost.wait()
    assert lock.owned()
    assert private_server.command("PTTL", "a") > 19_000 if timeout else private_server.command("PTTL", "a") == -1
    lock.release()
    assert not private_server.command("EXISTS", "a")


@CUTS
def test_a_lost_request_is_sent_again(private_server: RunningServer, proxy: Proxy, face: Face, cut: bool) -> None:
    lost = proxy.swallow_request(takes, cut=cut)
    with face.lock("a", timeout=20) as lock:
        lost.wait()
        assert lock.owned()
    assert not private_server.command("EXISTS", "a")


def test_a_request_that_comes_late_does_not_take_the_lock_again(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    """The first request stays in the network until a second one has taken the lock and given it back."""
    lost = proxy.swallow_request(takes)
    lock = face.lock("a", timeout=60)
    lock.acquire()
    lost.wait()
    lock.release()
    proxy.wait_for_request(asks(plain_store.GIVE), times=2)  # the keeper has checked, and found nothing
    assert lost.request is not None
    with private_server.connect() as client:
        assert client.call(*lost.request.words) == "OK"
    wait_for(lambda: not private_server.command("EXISTS", "a"))


def test_a_lock_for_ever_is_not_taken_by_a_request_that_comes_late(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    lost = proxy.swallow_request(asks(plain_store.TAKE))
    with pytest.raises(TimeoutError):
        face.lock("a").acquire(blocking=False)
    lost.wait()
    assert lost.request is not None
    with private_server.connect() as client:

        def arrives() -> Any:
            assert lost.request is not None
            return client.call(*lost.request.words)

        assert isinstance(wait_for(lambda: isinstance(arrives(), list) and arrives()), list), "refused"
    wait_for(lambda: not private_server.command("EXISTS", "a"))


@CUTS
def test_a_lost_reply_while_polling_is_asked_for_again(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool
) -> None:
    private_server.command("SET", "a", "somebody")
    waiter = start(lambda: face.lock("a", timeout=20, sleep=0.01).acquire())
    proxy.wait_for_request(asks(plain_store.TAKE))

    def looks_when_it_is_free(raw: bytes) -> bool:
        return asks(plain_store.TAKE)(raw) and bool(private_server.command("DEL", "a"))

    lost = proxy.swallow_reply(looks_when_it_is_free, cut=cut)
    assert waiter.result(20) is True
    lost.wait()
    assert private_server.command("EXISTS", "a")


@CUTS
def test_a_lost_reply_to_the_giving_back_is_no_error(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool
) -> None:
    lock = face.lock("a", timeout=20, thread_local=False)
    lock.acquire()
    lost = proxy.swallow_reply(gives_back, cut=cut)
    releasing = start(lock.release)
    lost.wait()
    private_server.command("SET", "a", "another")
    releasing.result(20)
    assert face.call(lambda: lock.local.token) is None
    assert private_server.command("GET", "a") == "another"


@CUTS
def test_a_lost_request_to_give_back_is_sent_again(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool
) -> None:
    lock = face.lock("a", timeout=20)
    lock.acquire()
    lost = proxy.swallow_request(gives_back, cut=cut)
    lock.release()
    lost.wait()
    assert not private_server.command("EXISTS", "a")


def test_a_release_without_any_answer_is_an_error_and_can_be_repeated(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    lock = face.lock("a", timeout=60)
    lock.acquire()
    proxy.refuse()
    proxy.cut()
    with pytest.raises(ConnectionError, match="no answer from redis://"):
        lock.release()
    assert face.call(lambda: lock.local.token) is not None
    proxy.accept()
    wait_for(lambda: not private_server.command("EXISTS", "a"), what="the keeper to give it back")
    lock.release()
    assert face.call(lambda: lock.local.token) is None


@CUTS
def test_time_is_added_once_though_the_reply_was_lost(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool
) -> None:
    lock = face.lock("a", timeout=20)
    lock.acquire()
    lost = proxy.swallow_reply(asks(plain_store.KEEP), cut=cut)
    assert lock.extend(100) is True
    lost.wait()
    assert 110_000 < int(private_server.command("PTTL", "a")) <= 120_000
    assert lock.extend(100) is True
    assert 200_000 < int(private_server.command("PTTL", "a")) <= 220_000


def test_time_is_not_added_twice_to_what_was_handed_over(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    """The drop-in reads the expiry first, so that after a lost reply the expiry shows whether time was added."""
    private_server.command("SET", "a", "handed over", "PX", "20000")
    lock = face.lock("a", timeout=20)

    def set_it() -> None:
        lock.local.token = b"handed over"

    face.call(set_it)
    asked = 0

    def second(raw: bytes) -> bool:
        nonlocal asked
        asked += asks(plain_store.KEEP)(raw)
        return asked == 2

    lost = proxy.swallow_reply(second, cut=True)
    assert lock.extend(100) is True
    lost.wait()
    assert 110_000 < int(private_server.command("PTTL", "a")) <= 120_000


def test_time_that_another_caller_may_have_added_as_well_is_an_error(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    """The answer is lost, and then another owner with the same text changes the expiry, which then proves nothing."""
    lock = face.lock("a", timeout=20)
    lock.acquire()
    lock.reacquire()
    asked = 0

    def second_time(raw: bytes) -> bool:
        nonlocal asked
        asked += asks(plain_store.KEEP)(raw)
        if asked == 2:
            private_server.command("PEXPIRE", "a", 70_000)
        return False

    proxy.swallow_reply(second_time)
    proxy.swallow_reply(asks(plain_store.KEEP), cut=True)
    with pytest.raises(ConnectionError):
        lock.extend(100)
    assert 60_000 < int(private_server.command("PTTL", "a")) <= 70_000
    lock.extend(100)
    assert 160_000 < int(private_server.command("PTTL", "a")) <= 170_000


@pytest.mark.parametrize("verb", ["reacquire", "replace", "owned", "locked"])
def test_what_can_be_asked_twice_is_asked_twice(
    private_server: RunningServer, proxy: Proxy, face: Face, verb: str
) -> None:
    lock = face.lock("a", timeout=20)
    lock.acquire()
    ask: Callable[[], Any] = (lambda: lock.extend(20, True)) if verb == "replace" else getattr(lock, verb)
    looks = verb in ("owned", "locked")
    lost = proxy.swallow_reply((lambda raw: b"GET\r\n" in raw) if looks else asks(plain_store.KEEP), cut=True)
    assert ask() is True
    lost.wait()


# A value of the caller's own


@pytest.mark.parametrize("what", ["request", "reply"])
def test_a_lost_reply_to_the_signing_is_asked_for_again(
    private_server: RunningServer, proxy: Proxy, face: Face, what: str
) -> None:
    lose = proxy.swallow_reply if what == "reply" else proxy.swallow_request
    lost = lose(asks(plain_store.SIGN), cut=True)
    lock = face.lock("a", timeout=20)
    assert lock.acquire(token="mine")
    lost.wait()
    assert private_server.command("GET", "a") == "mine"
    lock.release()
    assert not private_server.command("EXISTS", "a")


def test_a_lost_reply_does_not_make_anothers_lock_ours_though_the_text_is_the_same(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    """Both have chosen the same text. After the lost answer the key holds it, but the lock is the other's."""
    private_server.command("SET", "a", "mine", "PX", "20000")
    lost = proxy.swallow_reply(takes, cut=True)
    assert face.lock("a", timeout=20, sleep=0.01).acquire(token="mine", blocking_timeout=0.3) is False
    lost.wait()
    assert private_server.command("GET", "a") == "mine"


def test_a_signing_that_gets_no_answer_leaves_nothing_behind(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    first = proxy.swallow_reply(asks(plain_store.SIGN), cut=True)
    second = proxy.swallow_reply(asks(plain_store.SIGN), cut=True)
    with pytest.raises(ConnectionError):
        face.lock("a", timeout=20).acquire(token="mine")
    first.wait()
    second.wait()
    wait_for(lambda: not private_server.command("EXISTS", "a"))


def test_a_lock_that_is_gone_before_it_is_signed_is_not_ours(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    def steal(raw: bytes) -> bool:
        if asks(plain_store.SIGN)(raw):
            private_server.command("DEL", "a")
        return False

    proxy.swallow_reply(steal)
    with pytest.raises(Exception, match="expired while it was being acquired"):
        face.lock("a", timeout=20).acquire(token="mine")
    assert not private_server.command("EXISTS", "a")


def test_a_lock_that_was_lost_is_not_given_back_by_a_lost_reply(
    private_server: RunningServer, proxy: Proxy, face: Face
) -> None:
    """Only after a lost answer, "not ours" counts as given back."""
    lock = face.lock("a", timeout=20)
    lock.acquire()
    private_server.command("SET", "a", "another")
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert private_server.command("GET", "a") == "another"


@pytest.mark.parametrize("script", [plain_store.UNSIGN, plain_store.GIVE], ids=["first", "second"])
@CUTS
def test_giving_back_what_was_signed_survives_a_lost_reply_to_either_request(
    private_server: RunningServer, proxy: Proxy, face: Face, cut: bool, script: Any
) -> None:
    lock = face.lock("a", timeout=20)
    assert lock.acquire(token="mine")
    lost = proxy.swallow_reply(asks(script), cut=cut)
    lock.release()
    lost.wait()
    assert not private_server.command("EXISTS", "a")
    with pytest.raises(LockError):
        lock.release()


@pytest.mark.parametrize("script", [plain_store.UNSIGN, plain_store.GIVE], ids=["first", "second"])
def test_a_failed_release_of_what_was_signed_can_be_repeated(
    private_server: RunningServer, proxy: Proxy, face: Face, script: Any
) -> None:
    lock = face.lock("a", timeout=60)
    assert lock.acquire(token="mine")
    orders = [proxy.swallow_reply(asks(script), cut=True) for _ in range(2)]
    with pytest.raises(ConnectionError):
        lock.release()
    for order in orders:
        order.wait()
    assert face.call(lambda: lock.local.token) == b"mine"
    lock.release()
    assert not private_server.command("EXISTS", "a")

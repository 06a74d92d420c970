"""The server's side: one key, the permissions of redis-py's lock, and the checked delete that the server has."""

from __future__ import annotations

import gc
import logging
import warnings
from typing import Any

import pytest
import redis
import redis.exceptions

from holdtight.compat.redis_py import Lock
from holdtight.stores.redis import plain_store
from holdtight.stores.redis.plain_store import Deletion, Plain, PlainClient
from tests.compat.face import Face, Maker, OpenFace
from tests.support.certificates import Certificates
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import DEBIAN_REDIS, REDIS_6, VALKEY_9, RunningServer, StartServer

OWNER = b"0123456789abcdef0123456789abcdef"
# What redis-py's lock sends, and what its scripts do. No TIME, no HELLO, no channels, no other keys.
RIGHTS = ("~app:*", "+set", "+get", "+del", "+pttl", "+pexpire", "+eval", "+evalsha")


def test_nothing_is_left_on_the_server_but_the_key(server: RunningServer, open_face: OpenFace) -> None:
    face = open_face(server.url)
    gc.collect()  # clients that earlier tests have dropped
    server.wait_for("PUBSUB", "CHANNELS", be=[])
    with face.lock("a", timeout=20):
        assert server.keys() == ["a"]
        with server.connect() as client:
            assert client.call("PUBSUB", "CHANNELS") == []
    assert server.keys() == []


def test_an_uncontended_pair_is_two_requests(private_server: RunningServer, proxy: Proxy, open_face: OpenFace) -> None:
    face = open_face(proxy.url)
    with face.lock("warm", timeout=10):
        pass
    proxy.clear()
    with face.lock("a", timeout=20):
        pass
    assert [request.words[0] for request in proxy.requests] == [b"SET", b"DELIFEQ"]


@pytest.mark.parametrize("flavour", [VALKEY_9, DEBIAN_REDIS, REDIS_6], ids=repr)
def test_the_rights_that_redis_py_needs_are_enough(
    start_server: StartServer, open_face: OpenFace, flavour: Any
) -> None:
    server = start_server(flavour=flavour)
    server.add_user("app", "secret", *RIGHTS)
    face = open_face(server.url, username="app", password="secret")
    for name in ("app:a", "app:b"):
        lock = face.lock(name, timeout=20)
        lock.acquire()
        lock.extend(100)
        lock.extend(100)
        assert 200_000 < server.command("PTTL", name) <= 220_000
        lock.reacquire()
        assert server.command("PTTL", name) <= 20_000
        assert lock.owned()
        assert not face.lock(name, timeout=20, sleep=0.01).acquire(blocking_timeout=0.05)
        lock.release()
        with face.lock(name):
            pass
        with_token = face.lock(name, timeout=20)
        assert with_token.acquire(token="mine")
        with_token.release()
    assert server.keys() == []


def test_a_right_that_is_missing_is_a_no_permission_error(private_server: RunningServer, open_face: OpenFace) -> None:
    private_server.add_user("app", "secret", *RIGHTS)
    face = open_face(private_server.url, username="app", password="secret")
    with pytest.raises(redis.exceptions.NoPermissionError):
        face.lock("elsewhere", timeout=20).acquire()
    with pytest.raises(redis.exceptions.AuthenticationError):
        open_face(private_server.url, username="app", password="wrong").lock("app:a", timeout=20).acquire()


def test_a_server_that_wants_a_password_says_so(start_server: StartServer, open_face: OpenFace) -> None:
    server = start_server(password="secret")
    with pytest.raises(redis.exceptions.AuthenticationError):
        open_face(f"redis://127.0.0.1:{server.port}/0").lock("a", timeout=20).acquire()
    with open_face(server.url).lock("a", timeout=20):
        pass


def test_a_replica_is_a_read_only_error(start_server: StartServer, open_face: OpenFace) -> None:
    first = start_server()
    second = start_server("--replicaof", f"127.0.0.1 {first.port}")
    face = open_face(second.url)
    with pytest.raises(redis.exceptions.ReadOnlyError):
        face.lock("a", timeout=20).acquire(blocking_timeout=0.3)


def test_a_full_server_is_an_out_of_memory_error(start_server: StartServer, open_face: OpenFace) -> None:
    server = start_server("--maxmemory-policy", "noeviction")
    face = open_face(server.url)
    lock = face.lock("a", timeout=20)
    lock.acquire()
    server.command("CONFIG", "SET", "maxmemory", "1")
    for options in ({"timeout": 20}, {}):
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            face.lock("b", **options).acquire()
    lock.release()
    assert server.keys() == []


def test_a_key_of_another_type_counts_as_held(server: RunningServer, open_face: OpenFace, maker: Maker) -> None:
    server.command("RPUSH", "a", "x")
    face = open_face(server.url, maker)
    for options in ({"blocking": False}, {"blocking_timeout": 0.05}):
        assert face.lock("a", timeout=20, sleep=0.01).acquire(**options) is False
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        face.lock("a", timeout=20).locked()
    assert server.command("LRANGE", "a", 0, -1) == ["x"]


def test_a_lock_for_ever_is_told_of_in_the_log_once(
    private_server: RunningServer, open_face: OpenFace, caplog: pytest.LogCaptureFixture
) -> None:
    face = open_face(private_server.url)
    with caplog.at_level(logging.WARNING, logger="holdtight"):
        for _ in range(2):
            with face.lock("for ever"):
                pass
            with face.lock("not", timeout=5):
                pass
    assert [each.getMessage() for each in caplog.records if "never expires" in each.getMessage()] == [
        "lock 'for ever' is taken without a timeout: it never expires. If its holder dies, the lock stays held until "
        "the key is deleted by hand. Give a timeout"
    ]


def test_the_end_of_a_block_that_may_not_raise_is_in_the_log(
    server: RunningServer, open_face: OpenFace, caplog: pytest.LogCaptureFixture
) -> None:
    lock = open_face(server.url).lock("a", timeout=20, raise_on_release_error=False)
    with caplog.at_level(logging.WARNING, logger="holdtight"), lock:
        server.command("DEL", "a")
    assert "it is not ours any more" in caplog.text


def test_tls_as_the_client_has_it(tls_server: RunningServer, certificates: Certificates, open_face: OpenFace) -> None:
    url = f"redis://localhost:{tls_server.tls_port}/0"
    with open_face(url, ssl=True, ssl_ca_certs=certificates.ca).lock("a", timeout=20) as lock:
        assert lock.owned()
    with pytest.raises(redis.exceptions.ConnectionError):
        open_face(url, ssl=True).lock("a", timeout=20).acquire()


# The checked delete


@pytest.mark.parametrize(("flavour", "method"), [(VALKEY_9, 0), (DEBIAN_REDIS, 2), (REDIS_6, 2)], ids=repr)
def test_the_delete_that_the_server_has_is_used(
    start_server: StartServer, open_face: OpenFace, flavour: Any, method: int
) -> None:
    server = start_server(flavour=flavour)
    with Proxy(server.port) as proxy:
        face: Face = open_face(proxy.url)
        for _ in range(2):
            with face.lock("a", timeout=20):
                pass
            assert server.keys() == []
        proxy.clear()
        with face.lock("a", timeout=20):
            pass
        assert [each.words[0] for each in proxy.requests][1:] == [b"DELIFEQ" if method == 0 else b"EVALSHA"]


def test_a_word_that_a_proxy_does_not_know_is_not_said_again(
    private_server: RunningServer, proxy: Proxy, open_face: OpenFace
) -> None:
    """Some proxies close the connection instead of an answer."""
    face = open_face(proxy.url)
    refusals = [proxy.swallow_request(b"DELIFEQ", cut=True), proxy.swallow_request(b"DELIFEQ", cut=True)]
    for _ in range(3):
        with face.lock("a", timeout=20):
            pass
        assert private_server.keys() == []
    assert [each.done for each in refusals] == [True, False]


def test_redis_8_4_is_asked_by_its_own_command() -> None:
    """No such server is available here: the test compares with the request that redis-py sends."""
    sent: list[Any] = []

    class Recording(redis.Redis):
        def execute_command(self, *args: Any, **options: Any) -> Any:
            sent.append(args)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is called experimental there
        Recording().delex("a", ifeq=OWNER.decode())
    connection: Any = redis.Connection
    packed = b"".join(connection().pack_command(*sent[0]))
    claim = Plain(PlainClient(), "redis://a", b"a", 20_000)
    assert claim.give(1) + b"$32\r\n%b\r\n" % OWNER == packed


def test_the_ways_to_delete_are_tried_in_order_and_what_works_stays() -> None:
    deletion = Deletion()
    assert not deletion.refused(0, "READONLY You can't write against a read only replica.")
    assert deletion.method == 0
    assert deletion.refused(0, "ERR unknown command 'DELIFEQ', with args beginning with: ")
    assert deletion.method == 1
    deletion.proven = True
    deletion.broke()
    assert deletion.method == 1, "it has worked: a broken connection says nothing against it"
    assert deletion.refused(1, "NOPERM this user has no permissions to run the 'delex' command")
    assert deletion.method == 2
    assert not deletion.refused(2, "NOPERM this user has no permissions to run the 'evalsha' command")
    fresh = Deletion()
    fresh.broke()
    assert fresh.method == 2


# The scripts, alone


@pytest.fixture
def call(server: RunningServer) -> Any:
    with server.connect() as client:

        def run(script: Any, *args: Any) -> Any:
            return client.call("EVAL", script.body, 1, "a", *args)

        yield run


FAR = 10**17


def test_take_grants_what_is_free_and_re_arms_what_is_ours(server: RunningServer, call: Any) -> None:
    assert call(plain_store.TAKE, "me", 5000, FAR) == 1
    server.command("PEXPIRE", "a", 1000)
    assert call(plain_store.TAKE, "me", 5000, FAR) == 1
    assert server.command("PTTL", "a") > 4000
    assert call(plain_store.TAKE, "you", 5000, FAR) == 0
    assert server.command("GET", "a") == "me"
    server.command("DEL", "a")
    assert call(plain_store.TAKE, "me", 0, FAR) == 1
    assert call(plain_store.TAKE, "me", 0, FAR) == 1
    assert server.command("PTTL", "a") == -1


def test_take_refuses_what_comes_too_late_and_tells_the_time(server: RunningServer, call: Any) -> None:
    late, now = call(plain_store.TAKE, "me", 5000, 1)
    assert late == -1
    seconds, _ = server.command("TIME")
    assert abs(now / 1000 - int(seconds)) < 10
    assert server.keys() == []


def test_give_deletes_what_is_ours_alone(server: RunningServer, call: Any) -> None:
    assert call(plain_store.GIVE, "me") == 0
    server.command("SET", "a", "me")
    assert call(plain_store.GIVE, "you") == 0
    assert call(plain_store.GIVE, "me") == 1
    assert server.keys() == []


def test_take_re_arms_and_never_shortens(server: RunningServer, call: Any) -> None:
    server.command("SET", "a", "me", "PX", 60_000)
    assert call(plain_store.TAKE, "me", 5000, FAR) == 1
    assert server.command("PTTL", "a") > 50_000
    server.command("PERSIST", "a")
    assert call(plain_store.TAKE, "me", 5000, FAR) == 1
    assert server.command("PTTL", "a") == -1


def keep(call: Any, ms: int, mode: str, known: Any, avoid: str = "", owner: str = "me") -> list[int]:
    answer: list[int] = call(plain_store.KEEP, owner, ms, mode, known, avoid, FAR)
    return answer


def test_keep_sets_adds_and_never_creates(server: RunningServer, call: Any) -> None:
    for mode in ("set", "add", "replace"):
        assert keep(call, 5000, mode, "")[0] == 0
    assert server.keys() == []
    server.command("SET", "a", "me")
    assert keep(call, 5000, "add", -1)[0] == 0
    assert keep(call, 5000, "replace", -1)[0] == 0
    assert keep(call, 5000, "set", "")[:2] == [-2, -1]
    done, expiry, now = keep(call, 5000, "set", -1)
    assert (done, expiry - now) == (1, 5000)
    assert keep(call, 5000, "add", expiry)[0] == 1
    assert 9000 < server.command("PTTL", "a") <= 10_000
    assert keep(call, 5000, "set", "", owner="you")[0] == 0


def test_keep_acts_on_the_expiry_that_its_sender_knew_alone(server: RunningServer, call: Any) -> None:
    server.command("SET", "a", "me", "PX", "50000")
    _, expiry, _ = keep(call, 0, "add", "")
    word, expiry_now, _ = keep(call, 10_000, "add", expiry)
    assert word == 1
    assert abs(expiry_now - expiry - 10_000) <= 2
    for mode in ("add", "replace", "set"):
        word, found, _ = keep(call, 1000, mode, expiry)
        assert word == -2
        assert abs(found - expiry - 10_000) <= 2
    assert keep(call, -10_000, "add", expiry_now, f"{expiry} {expiry + 10}")[:2] == [1, expiry + 20]
    assert keep(call, -10_000, "add", expiry)[0] == -2, "no expiry that a request names is set again"


@pytest.mark.parametrize(
    ("script", "args"),
    [
        (plain_store.KEEP, ["me", 1000, "set", -1, ""]),
        (plain_store.SIGN, ["me", "x"]),
        (plain_store.UNSIGN, ["you", "me", "x", ""]),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_comes_too_late_is_refused_and_told_the_time(
    server: RunningServer, call: Any, script: Any, args: list[Any]
) -> None:
    server.command("SET", "a", "me")
    word, _, now = call(script, *args, 1)
    assert word == -1
    assert abs(now / 1000 - int(server.command("TIME")[0])) < 10
    assert (server.command("GET", "a"), server.command("PTTL", "a")) == ("me", -1)
    assert call(script, *args, FAR)[0] > 0


def test_sign_replaces_the_owner_and_keeps_the_time(server: RunningServer, call: Any) -> None:
    assert call(plain_store.SIGN, "me", "text", FAR)[0] == 0
    assert server.keys() == []
    server.command("SET", "a", "me", "PX", "5000")
    word, expiry, now = call(plain_store.SIGN, "me", "text", FAR)
    assert word == 1
    assert 4000 < expiry - now <= 5000
    assert call(plain_store.SIGN, "me", "text", FAR)[0] == 2
    assert server.command("GET", "a") == "text"
    assert 4000 < server.command("PTTL", "a") <= 5000
    assert call(plain_store.SIGN, "me", "other", FAR)[0] == 0


def test_a_text_is_given_back_by_a_cover_that_nobody_else_has(server: RunningServer, call: Any) -> None:
    assert call(plain_store.UNSIGN, "me", "text", "cover", "", FAR)[0] == 0
    server.command("SET", "a", "text", "PX", "5000")
    assert call(plain_store.UNSIGN, "me", "other", "cover", "", FAR)[0] == 0
    word, expiry, _ = call(plain_store.UNSIGN, "me", "text", "cover", 12345, FAR)
    assert word == -2
    assert server.command("GET", "a") == "text"
    for known in (expiry, ""):
        assert call(plain_store.UNSIGN, "me", "text", "cover", known, FAR)[0] == 2
    assert server.command("GET", "a") == "cover"
    assert call(plain_store.UNSIGN, "cover", "text", "another cover", expiry, FAR)[0] == 2
    assert server.command("GET", "a") == "another cover"
    assert 4000 < server.command("PTTL", "a") <= 5000
    assert call(plain_store.GIVE, "another cover") == 1
    assert call(plain_store.UNSIGN, "me", "text", "cover", "", FAR)[0] == 0


# Connections


def test_connections_go_with_their_users(private_server: RunningServer) -> None:
    def clients() -> int:
        return len(private_server.command("CLIENT", "LIST").splitlines())

    before = clients()
    client = redis.Redis.from_url(private_server.url)
    lock: Lock | None = Lock(client, "a", timeout=20)
    assert lock is not None
    with lock:
        assert clients() == before + 1
    client.close()
    del client, lock
    wait_for(lambda: gc.collect() >= 0 and clients() == before)

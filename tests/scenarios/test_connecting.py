"""Every way to reach a server and to log in there."""

import os
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

from holdtight import LockTimeout, NotPermitted, Unavailable
from holdtight.events import Lost
from tests.scenarios.world import World
from tests.support.certificates import Certificates
from tests.support.servers import DEBIAN_REDIS, FLAVOURS, RunningServer, StartServer

pytestmark = pytest.mark.real_server("it is about addresses, logins and encryption; the memory store has none of them")


async def expect_a_working_lock(world: World, target: object, **options: Any) -> None:
    """Takes, contends, hands over and renews there."""
    client = world.locks(target, **options)
    lock = world.lock(of=client, ttl=10)
    lease = await lock.acquire(wait=5)
    with pytest.raises(LockTimeout):
        await lock.acquire(wait=0)
    (waiter,) = await world.line_up(lock, lock.acquire())
    await lease.renew()  # by the keeper, on a connection of its own
    await lease.release()
    got = await waiter.result()
    assert got.fence > lease.fence
    await got.release()


def names_of(world: World) -> set[str]:
    return {each["name"] for each in world.server.clients()}


# Plain, unix and TLS


async def test_by_the_url_from_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("HOLDTIGHT_URL", world.server.url)
    client = world.colour.open(None)
    async with client, world.lock(of=client):
        assert await world.lock().locked()
    monkeypatch.delenv("HOLDTIGHT_URL")
    monkeypatch.setenv("REDIS_URL", world.server.url)
    client = world.colour.open(None)
    async with client, world.lock(of=client):
        assert await world.lock().locked()
    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(ValueError, match="HOLDTIGHT_URL"):
        world.colour.open(None)


async def test_by_the_valkey_scheme(world: World) -> None:
    await expect_a_working_lock(world, world.server.url.replace("redis://", "valkey://"))


async def test_by_a_unix_socket(world: World, start_server: StartServer) -> None:
    server = start_server(flavour=world.server.flavour, unix=True, password="secret")
    await expect_a_working_lock(world, server.unix_url)
    assert server.keys("ht:{thing}") == ["ht:{thing}"]


@pytest.mark.played(server=[DEBIAN_REDIS])
async def test_by_tls_with_the_authority_in_the_url(world: World, tls_server: RunningServer) -> None:
    await expect_a_working_lock(world, tls_server.tls_url)
    assert tls_server.keys("ht:{thing}") == ["ht:{thing}"]


@pytest.mark.played(server=[DEBIAN_REDIS])
async def test_by_tls_with_a_context_and_a_client_certificate(
    world: World, start_server: StartServer, certificates: Certificates
) -> None:
    server = start_server("--tls-auth-clients", "yes", flavour=DEBIAN_REDIS, tls=certificates)
    context = ssl.create_default_context(cafile=certificates.ca)
    url = f"rediss://localhost:{server.tls_port}"
    with pytest.raises(Unavailable):
        await world.lock(of=world.locks(url, tls=context)).acquire(wait=0.2)
    context.load_cert_chain(certificates.client_cert, certificates.client_key)
    await expect_a_working_lock(world, url, tls=context)
    await expect_a_working_lock(world, f"redis://localhost:{server.tls_port}", tls=context)


@pytest.mark.played(server=[DEBIAN_REDIS])
async def test_a_certificate_of_unknown_authority_is_refused(world: World, tls_server: RunningServer) -> None:
    url = tls_server.tls_url.partition("?")[0]
    with pytest.raises(Unavailable, match=r"(?i)certificate"):
        await world.lock(of=world.locks(url)).acquire(wait=2)
    await expect_a_working_lock(world, url + "?ssl_cert_reqs=none")


@pytest.mark.played(server=[DEBIAN_REDIS])
async def test_by_tls_many_at_once_lose_no_update(world: World, tls_server: RunningServer) -> None:
    client = world.locks(tls_server.tls_url)
    count = 0

    async def work() -> None:
        nonlocal count
        for _ in range(5):
            async with world.lock(of=client):
                before = count
                await world.sleep(0)
                count = before + 1

    for actor in [world.start(work()) for _ in range(6)]:
        await actor.result()
    assert count == 30


# Names and databases


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_in_another_database(world: World) -> None:
    url = world.server.url.removesuffix("/0")
    async with world.lock(of=world.locks(f"{url}/3")) as lease:
        async with world.lock(wait=0):  # database 0 is another world
            pass
        with pytest.raises(LockTimeout):
            await world.lock(of=world.locks(f"{url}?db=3")).acquire(wait=0)
        with world.server.connect() as raw:
            raw.call("SELECT", 3)
            assert str(lease.fence) in str(raw.call("GET", "ht:{thing}"))
    await expect_a_working_lock(world, f"{url}/3?protocol=2")
    assert world.overstaying(db=3) == {}


async def test_under_a_name_that_the_server_shows(world: World) -> None:
    for protocol in ("2", "3"):
        name = f"billing-{protocol}"
        async with world.lock(of=world.locks(f"{world.server.url}?client_name={name}&protocol={protocol}")):
            assert name in names_of(world)
        async with world.lock(of=world.locks(f"{world.server.url}?protocol={protocol}")):
            assert any(each.startswith(f"holdtight-{os.getpid()}-") for each in names_of(world))


# Credentials


@pytest.fixture
def user(server: RunningServer) -> Iterator[str]:
    """An ACL user that may touch our keys and channels only."""
    rights = ("~ht:*", "resetchannels", "&ht:*", "+@all", "-@admin", "-@dangerous")
    server.add_user("worker", "pass:w/rd", *rights)
    yield "worker"
    server.command("ACL", "DELUSER", "worker")


def with_login(world: World, login: str, query: str = "") -> str:
    return world.server.url.replace("redis://", f"redis://{login}@") + query


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("protocol", ["2", "3"])
async def test_as_a_user_with_a_password_in_the_url(world: World, protocol: str) -> None:
    await expect_a_working_lock(world, with_login(world, "worker:pass%3Aw%2Frd", f"?protocol={protocol}"))


@pytest.mark.usefixtures("user")
async def test_as_a_user_with_credentials_that_are_given_apart(world: World) -> None:
    await expect_a_working_lock(world, world.server.url, credentials=("worker", "pass:w/rd"))


@pytest.mark.usefixtures("user")
async def test_credentials_that_change_are_asked_for_at_every_connect(world: World) -> None:
    asked: list[str] = []
    passwords = ["pass:w/rd"]

    def credentials() -> tuple[str, str]:
        asked.append(passwords[-1])
        return "worker", passwords[-1]

    await expect_a_working_lock(world, world.server.url, credentials=credentials)
    assert asked
    passwords.append("rotated")
    world.server.command("ACL", "SETUSER", "worker", "resetpass", ">rotated")
    await expect_a_working_lock(world, world.server.url, credentials=credentials)
    assert asked[-1] == "rotated"


class Vault:
    """Gives the password that is valid; `expire` changes it, and ends every connection that used the one before."""

    def __init__(self, server: RunningServer) -> None:
        self.asked: list[str] = []
        self.valid = self.given = "pass:w/rd"
        self._server = server

    def __call__(self) -> tuple[str, str]:
        self.asked.append(self.given)
        return "worker", self.given

    @property
    def connections(self) -> int:
        return sum(each["user"] == "worker" for each in self._server.clients())

    def expire(self, *, noticed: bool = True) -> int:
        """Returns how many connections it has ended. Not noticed: the callable still gives the old password."""
        self.valid = f"rotated-{len(self.asked)}"
        if noticed:
            self.given = self.valid
        self._server.command("ACL", "SETUSER", "worker", "resetpass", f">{self.valid}")
        return int(self._server.command("CLIENT", "KILL", "USER", "worker"))


@pytest.mark.usefixtures("user")
async def test_a_callable_is_asked_for_every_connection(world: World) -> None:
    vault = Vault(world.server)
    client = world.locks(world.server.url, credentials=vault)
    lock = world.lock(of=client, ttl=3)
    lease = await lock.acquire(wait=5)
    (waiter,) = await world.line_up(lock, lock.acquire())  # on a second connection
    await world.renewed(lease)
    before = len(vault.asked)
    assert before >= vault.connections >= (2 if world.blocking else 1)
    ended = vault.expire()
    assert ended >= (2 if world.blocking else 1)
    await lease.release()
    await (await waiter.result()).release()
    assert len(vault.asked) > before
    assert set(vault.asked[before:]) == {vault.valid}


@pytest.mark.played(server=FLAVOURS[:1])  # time is what they test
@pytest.mark.usefixtures("user")
async def test_a_lease_outlives_credentials_that_expire_again_and_again(world: World) -> None:
    vault = Vault(world.server)
    client = world.locks(world.server.url, credentials=vault)
    told = world.listen(client)
    lock = world.lock(of=client, ttl=3)
    async with lock as lease:
        (waiter,) = await world.line_up(lock, lock.acquire())
        for _ in range(2):
            await world.renewed(lease)  # the keeper has a connection
            assert vault.expire() >= 1
            async with world.lock("other", of=client, wait=5):  # what was idle is replaced
                pass
        await world.renewed(lease)
        assert not lease.lost
    got = await waiter.result()
    assert got.fence > lease.fence
    assert vault.expire() >= 1
    await got.release()
    assert not await lock.locked()
    assert [event for event in told if isinstance(event, Lost)] == []


@pytest.mark.played(server=FLAVOURS[:1])  # time is what they test
@pytest.mark.usefixtures("user")
async def test_a_lease_outlives_a_callable_that_is_late_with_the_new_password(world: World) -> None:
    vault = Vault(world.server)
    client = world.locks(world.server.url, credentials=vault)
    lock = world.lock(of=client, ttl=6)
    lease = await lock.acquire(wait=5)
    await world.renewed(lease)
    before = len(vault.asked)
    vault.expire(noticed=False)
    with pytest.raises(NotPermitted):  # who asks for a lock meanwhile is told at once
        await world.lock("other", of=client).acquire(wait=5)
    await world.until(lambda: len(vault.asked) >= before + 3, what="the keeper to be refused, and to try again")
    vault.given = vault.valid
    await world.renewed(lease)
    await lease.release()


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("protocol", ["2", "3"])
async def test_a_wrong_password_is_no_lack_of_a_server(world: World, protocol: str) -> None:
    lock = world.lock(of=world.locks(with_login(world, "worker:wrong", f"?protocol={protocol}")))
    for take in (lock.acquire, lock.try_acquire, lock.inspect):
        with pytest.raises(NotPermitted, match=r"(?i)user") as caught:
            await take()
        assert caught.value.code == "NOT_PERMITTED"
        assert isinstance(caught.value, PermissionError)
        assert "wrong" not in str(caught.value).replace("WRONGPASS", "")


async def test_a_missing_right_is_named(world: World) -> None:
    world.server.add_user("narrow", "pw", "~other:*", "allchannels", "+@all")
    try:
        client = world.locks(with_login(world, "narrow:pw"))
        with pytest.raises(NotPermitted, match=r"(?i)key|permission|access"):
            await world.lock(of=client).acquire(wait=5)
    finally:
        world.server.command("ACL", "DELUSER", "narrow")


async def test_without_the_right_to_listen_waiters_poll(world: World) -> None:
    world.server.add_user("deaf", "pw", "~ht:*", "resetchannels", "+@all")
    try:
        await expect_a_working_lock(world, with_login(world, "deaf:pw"))
    finally:
        world.server.command("ACL", "DELUSER", "deaf")


# Client objects

CLIENTS: dict[str, Callable[..., Any]] = {
    "redis.Redis": redis.Redis,
    "redis.asyncio.Redis": redis.asyncio.Redis,
    "valkey.Valkey": valkey.Valkey,
    "valkey.asyncio.Valkey": valkey.asyncio.Valkey,
}


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
async def test_where_a_client_of_another_library_goes(world: World, make: Callable[..., Any]) -> None:
    login = {"username": "worker", "password": "pass:w/rd", "client_name": "from-client"}
    client = make(host="127.0.0.1", port=world.server.port, **login)
    await expect_a_working_lock(world, client)
    async with world.lock(of=world.locks(client)):
        assert "from-client" in names_of(world)
        assert await world.lock().locked()


async def test_where_nobody_listens(world: World) -> None:
    client = world.locks("redis://127.0.0.1:1", connect_timeout=0.2)
    lock = world.lock("far", of=client)
    for take in (lock.acquire, lock.try_acquire, lock.inspect, lock.__aenter__):
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1") as caught:
            await take()
        assert (caught.value.name, caught.value.code) == ("far", "CONNECTION_LOST")
        assert isinstance(caught.value, ConnectionError)

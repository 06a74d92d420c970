"""Client objects of redis-py and valkey-py as targets: holdtight reads their settings and does not keep them."""

from __future__ import annotations

import asyncio
import gc
import pickle
import socket
import ssl
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.sentinel
import valkey
import valkey.asyncio
import valkey.asyncio.cluster
import valkey.asyncio.sentinel
import valkey.sentinel
from redis.credentials import CredentialProvider, UsernamePasswordCredentialProvider

from holdtight.config.credentials import Login
from holdtight.config.targets import Address, Cluster, Quorum, Sentinel, Single, TlsSettings
from holdtight.config.url import parse
from tests.support.processes import wait_for
from tests.support.servers import VALKEY_9, RunningServer, StartServer, start
from tests.unit.providers import (
    SECRET,
    AsyncProvider,
    LockedProvider,
    OnlyAsyncProvider,
    Provider,
)

CLIENTS: dict[str, Callable[..., Any]] = {
    "redis": redis.Redis,
    "redis.asyncio": redis.asyncio.Redis,
    "valkey": valkey.Valkey,
    "valkey.asyncio": valkey.asyncio.Valkey,
}
MODULES: dict[str, Any] = {
    "redis": redis,
    "redis.asyncio": redis.asyncio,
    "valkey": valkey,
    "valkey.asyncio": valkey.asyncio,
}


@pytest.fixture(params=CLIENTS)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(library: str) -> Callable[..., Any]:
    return CLIENTS[library]


def test_a_client_object_names_its_server_and_its_user(make: Callable[..., Any]) -> None:
    assert parse(make()) == Single(Address())
    client = make(host="h", port=7, db=2, username="u", password=SECRET, client_name="me", socket_timeout=1)
    assert parse(client) == Single(Address("h", 7, db=2, user="u", password=SECRET, client_name="me"))
    assert parse(make(host="h", port="7", password=b"p")) == Single(Address("h", 7, password="p"))
    assert parse(make(unix_socket_path="/s", db=1)) == Single(Address(path="/s", db=1))


def test_a_client_made_from_a_url(library: str, make: Any) -> None:
    scheme = library.partition(".")[0]
    assert parse(make.from_url(f"{scheme}://u:p%40@h:7/2")) == Single(Address("h", 7, db=2, user="u", password="p@"))
    assert parse(make.from_url("unix://u:p@/s?db=2")) == Single(Address(path="/s", db=2, user="u", password="p"))
    assert parse(make.from_url(f"{scheme}://")) == Single(Address())


def test_a_client_does_not_pass_on_its_resp_version(make: Callable[..., Any]) -> None:
    """2 is the default of some versions, and would make our waiters poll."""
    assert parse(make(protocol=2)) == parse(make(protocol=3)) == Single(Address())


def test_the_tls_settings_of_a_client(make: Callable[..., Any]) -> None:
    client = make(
        host="h",
        ssl=True,
        ssl_ca_certs="ca",
        ssl_ca_data="PEM",
        ssl_certfile="c",
        ssl_keyfile="k",
        ssl_check_hostname=True,
        ssl_min_version=ssl.TLSVersion.TLSv1_2,
        ssl_ciphers="HIGH",
    )
    settings = TlsSettings(
        ca_file="ca", ca_data="PEM", cert="c", key="k", min_version=771, ciphers="HIGH", check_hostname=True
    )
    assert parse(client) == Single(Address("h", tls=True, tls_settings=settings))
    assert type(_address(client).tls_settings.min_version) is int


def test_how_a_client_verifies(library: str, make: Callable[..., Any]) -> None:
    """As the client itself would: valkey-py does not check host names unless told to, redis-py does."""
    checks = library.startswith("redis")
    scheme = "rediss" if checks else "valkeys"
    for client in (make(ssl=True), MODULES[library].from_url(f"{scheme}://localhost")):
        assert _address(client).tls_settings == TlsSettings(check_hostname=checks)
    assert not _address(make(ssl=True, ssl_check_hostname=False)).tls_settings.check_hostname
    for none in ("none", ssl.CERT_NONE, None):
        settings = _address(make(ssl=True, ssl_cert_reqs=none)).tls_settings
        assert settings == TlsSettings(verify="none", check_hostname=False)
    assert _address(make(ssl=True, ssl_cert_reqs="optional")).tls_settings.verify == "optional"


def _address(client: object) -> Address:
    target = parse(client)
    assert isinstance(target, Single)
    return target.address


def test_verify_flags_of_a_client() -> None:
    strict = ssl.VerifyFlags.VERIFY_X509_STRICT
    for make in (redis.Redis, redis.asyncio.Redis):
        client = make(ssl=True, ssl_include_verify_flags=[strict], ssl_exclude_verify_flags=[strict])
        settings = _address(client).tls_settings
        assert settings.verify_flags == settings.no_verify_flags == ("VERIFY_X509_STRICT",)


@pytest.mark.parametrize("make", [redis.Redis, valkey.Valkey])
@pytest.mark.parametrize("check", ["ssl_validate_ocsp", "ssl_validate_ocsp_stapled"])
def test_a_check_that_cannot_be_made_is_not_left_out_in_silence(make: Callable[..., Any], check: str) -> None:
    with pytest.raises(ValueError, match=f"^target: {check} is not supported"):
        parse(make(ssl=True, **{check: True}))


def test_clients_with_pools_of_all_kinds(library: str, make: Callable[..., Any]) -> None:
    module: Any = MODULES[library]
    for pool_class in (module.ConnectionPool, module.BlockingConnectionPool):
        assert parse(make(connection_pool=pool_class(host="h", db=3))) == Single(Address("h", db=3))
        pool = pool_class(connection_class=module.SSLConnection, host="h", ssl_check_hostname=True)
        assert parse(make(connection_pool=pool)) == Single(Address("h", tls=True))
        pool = pool_class(connection_class=module.UnixDomainSocketConnection, path="/s", password="p")
        assert parse(make(connection_pool=pool)) == Single(Address(path="/s", password="p"))


def test_subclasses_are_clients_too(make: Any) -> None:
    class Own(make):  # type: ignore[misc]
        pass

    assert parse(Own(host="h")) == Single(Address("h"))


def test_a_client_in_maintenance_is_known_by_its_own_address() -> None:
    """redis-py puts another host in place of it for a while."""
    client = redis.Redis(host="h", protocol=3)
    client.connection_pool.connection_kwargs["host"] = "elsewhere"
    assert parse(client) == Single(Address("h"))


def test_the_client_itself_is_not_kept(make: Callable[..., Any]) -> None:
    client = make(host="h")
    gone = weakref.ref(client)
    target = parse(client)
    del client
    gc.collect()
    assert gone() is None
    assert target == Single(Address("h"))


def test_a_client_in_a_quorum() -> None:
    target = parse([redis.Redis(host="a"), valkey.asyncio.Valkey(host="b"), "redis://c"])
    assert target == Quorum(tuple(Single(Address(name)) for name in "abc"))
    with pytest.raises(ValueError, match="same server"):
        parse([redis.Redis(host="a"), valkey.Valkey(host="a", db=3)])


@pytest.mark.parametrize(
    ("provider", "user_of_blocking", "user_of_asyncio"),
    [
        (Provider(), "sync", "sync"),
        (AsyncProvider(), "sync", "async"),
        (OnlyAsyncProvider(), "async", "async"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_credential_provider_is_asked_as_the_client_would(
    library: str,
    make: Callable[..., Any],
    provider: CredentialProvider,
    user_of_blocking: str,
    user_of_asyncio: str,
) -> None:
    address = _address(make(host="h", credential_provider=provider))
    assert address.credentials is not None
    user = user_of_asyncio if "asyncio" in library else user_of_blocking
    assert address.login() == Login(user, SECRET)
    assert address == _address(make(host="h", credential_provider=provider))
    assert address != Address("h")


def test_a_credential_provider_goes_into_the_pickle_if_it_can(make: Callable[..., Any]) -> None:
    target = parse(make(credential_provider=UsernamePasswordCredentialProvider("u", SECRET)))
    again = pickle.loads(pickle.dumps(target))
    assert again.address.login() == Login("u", SECRET)
    target = parse(make(credential_provider=LockedProvider()))
    with pytest.raises(TypeError, match="LockedProvider"):
        pickle.dumps(target)


def test_a_provider_that_gives_nothing_is_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"^target: CredentialProvider, a credential provider without"):
        parse(make(credential_provider=CredentialProvider()))


def test_clients_that_connect_in_their_own_way_are_refused(library: str, make: Callable[..., Any]) -> None:
    """Otherwise a fake for tests would count as the server at localhost."""
    connection: Any = MODULES[library].Connection

    class Fake(connection):  # type: ignore[misc]
        def _connect(self) -> None:
            raise AssertionError

    pool = MODULES[library].ConnectionPool(connection_class=Fake)
    with pytest.raises(ValueError, match=r"^target: its connections \(.*Fake\) are not made from settings"):
        parse(make(connection_pool=pool))

    class Same(connection):  # type: ignore[misc]
        pass

    assert parse(make(connection_pool=MODULES[library].ConnectionPool(connection_class=Same))) == Single(Address())


SENTINELS: list[Any] = [
    redis.sentinel.Sentinel,
    redis.asyncio.sentinel.Sentinel,
    valkey.sentinel.Sentinel,
    valkey.asyncio.sentinel.Sentinel,
]


@pytest.mark.parametrize("make", SENTINELS, ids=lambda cls: cls.__module__)
def test_a_client_that_follows_sentinels(make: Any) -> None:
    manager = make([("s1", 1), ("s2", 2)], sentinel_kwargs={"username": "su", "password": "sp"}, password="p")
    sentinels = tuple(Address(host, port, user="su", password="sp") for host, port in (("s1", 1), ("s2", 2)))
    assert parse(manager.master_for("m", db=3, username="u")) == Sentinel(
        sentinels, "m", Address("", 0, db=3, user="u", password="p")
    )
    tls = parse(manager.master_for("m", ssl=True, ssl_check_hostname=True, ssl_ca_certs="ca"))
    assert isinstance(tls, Sentinel)
    assert tls.at("h", 7) == Address("h", 7, password="p", tls=True, tls_settings=TlsSettings(ca_file="ca"))
    assert not tls.sentinels[0].tls
    with pytest.raises(ValueError, match=r"^target: a client for replicas"):
        parse(manager.slave_for("m"))
    with pytest.raises(TypeError, match=r"^target: a Sentinel names many masters"):
        parse(manager)


@pytest.fixture(scope="module")
def cluster_server() -> Iterator[RunningServer]:
    if why := VALKEY_9.missing():
        pytest.skip(why)
    with start(VALKEY_9, "--cluster-enabled", "yes", password="pw") as server:
        server.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: "cluster_state:ok" in server.command("CLUSTER", "INFO"))
        yield server


@pytest.mark.parametrize("make", [redis.RedisCluster, valkey.ValkeyCluster], ids=lambda cls: cls.__module__)
def test_a_blocking_cluster_client(make: Any, cluster_server: RunningServer) -> None:
    client = make(host="127.0.0.1", port=cluster_server.port, password="pw", client_name="me")
    seed = Address("127.0.0.1", cluster_server.port, password="pw", client_name="me")
    assert parse(client) == Cluster((seed,))
    client.close()
    client = make.from_url(cluster_server.url)
    assert parse(client) == Cluster((replace(seed, client_name=None),))
    client.close()


@pytest.mark.parametrize("library", ["redis.asyncio", "valkey.asyncio"])
def test_an_asyncio_cluster_client(library: str) -> None:
    module: Any = MODULES[library]
    make = module.RedisCluster if "redis" in library else module.ValkeyCluster
    node: Any = (redis.asyncio.cluster if "redis" in library else valkey.asyncio.cluster).ClusterNode

    async def main() -> None:
        client = make(host="h", port=7, username="u", password="p", ssl=True, ssl_check_hostname=True)
        assert parse(client) == Cluster((Address("h", 7, user="u", password="p", tls=True),))
        client = make(startup_nodes=[node("a", 1), node("b", 2)], client_name="me")
        assert parse(client) == Cluster((Address("a", 1, client_name="me"), Address("b", 2, client_name="me")))
        client = make(host="h", port=7, credential_provider=AsyncProvider())
        target = parse(client)
        assert isinstance(target, Cluster)
        assert target.seeds[0].credentials is not None
        with pytest.raises(ValueError, match="address_remap"):
            parse(make(host="h", port=7, address_remap=tuple))

    asyncio.run(main())


def test_other_objects_are_not_taken_for_clients() -> None:
    class Redis:
        connection_pool = redis.ConnectionPool()

    for other in (Redis(), redis.ConnectionPool(), redis.Redis, redis):
        with pytest.raises(TypeError, match=r"^target: expected a URL"):
            parse(other)


def test_a_server_is_reached_with_the_settings_of_a_client(start_server: StartServer) -> None:
    server = start_server(password="pw")
    make: Any = redis.Redis
    address = _address(make.from_url(server.url))
    login = address.login()
    assert login is not None
    with server.connect() as client:
        assert client.call("AUTH", login.user or "default", login.password) == "OK"
    assert (address.host, address.port) == ("127.0.0.1", server.port)


def test_a_tls_server_is_reached_with_the_settings_of_a_url(tls_server: RunningServer) -> None:
    target = parse(tls_server.tls_url)
    assert isinstance(target, Single)
    context = target.address.tls_settings.context()
    with (
        socket.create_connection((target.address.host, target.address.port), 10) as plain,
        context.wrap_socket(plain, server_hostname=target.address.host) as secure,
    ):
        secure.sendall(b"PING\r\n")
        assert secure.recv(100) == b"+PONG\r\n"

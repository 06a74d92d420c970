from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import socket
import ssl
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields, replace
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

from holdtight.redis.credentials import FromProvider, Login, check_credentials, check_login
from holdtight.redis.targets import (
    Address,
    Cluster,
    Embedded,
    Memory,
    Quorum,
    Sentinel,
    Single,
    Target,
    TlsSettings,
)
from holdtight.redis.url import parse
from tests.support.certificates import Certificates
from tests.support.processes import wait_for
from tests.support.servers import VALKEY_9, RunningServer, StartServer, start

SECRET = "hunter2"


# Values


def give_login() -> tuple[str, str]:
    return ("u", SECRET)


async def give_login_async() -> str:
    await asyncio.sleep(0)
    return SECRET


class Provider(CredentialProvider):
    def get_credentials(self) -> tuple[str, str]:
        return ("sync", SECRET)


class AsyncProvider(Provider):
    async def get_credentials_async(self) -> tuple[str, str]:
        await asyncio.sleep(0)
        return ("async", SECRET)


class OnlyAsyncProvider(CredentialProvider):
    async def get_credentials_async(self) -> tuple[str, str]:
        return ("async", SECRET)


class LockedProvider(Provider):
    """Cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


NODE = Address("h", 7, db=1, user="u", password=SECRET, tls=True, client_name="me", protocol=3)
TARGETS: list[Target] = [
    Single(NODE),
    Single(Address(path="/s", credentials=give_login)),
    Embedded(),
    Memory("x"),
    Sentinel((Address("s1", 26379), Address("::1", 26379)), "mymaster", NODE),
    Cluster((NODE, replace(NODE, host="i"))),
    Quorum((Single(NODE), Single(replace(NODE, host="i")))),
    Single(Address("h", credentials=FromProvider(UsernamePasswordCredentialProvider("u"), "get_credentials"))),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_targets_are_values(target: Target) -> None:
    again = copy.copy(target)
    assert again == target
    assert hash(again) == hash(target)
    assert len({target, again}) == 1
    assert SECRET not in repr(target)
    assert SECRET not in target.display()
    for field in fields(target):
        with pytest.raises(FrozenInstanceError):
            setattr(target, field.name, None)


@pytest.mark.parametrize("target", TARGETS[:-1], ids=lambda target: type(target).__name__)
def test_targets_survive_pickling(target: Target) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(target, protocol))
        assert again == target
        assert hash(again) == hash(target)


def test_the_password_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(NODE)).password == SECRET


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (Single(Address("h", 7, db=1, user="u", password=SECRET)), "redis://h:7/1"),
        (Single(NODE), "rediss://h:7/1"),
        (Single(Address("::1")), "redis://[::1]:6379/0"),
        (Single(Address(path="/s", password=SECRET)), "unix:///s"),
        (Single(Address(path="/s", db=3)), "unix:///s?db=3"),
        (Embedded(), "embedded://"),
        (Memory("x"), "memory://x"),
        (Sentinel((Address("a", 1), Address("::1", 2)), "m", NODE), "rediss+sentinel://a:1,[::1]:2/m/1"),
        (Cluster((Address("a", 1), Address("b", 2))), "redis+cluster://a:1,b:2"),
        (Quorum((Single(Address("a")), Memory("b"))), "[redis://a:6379/0, memory://b]"),
    ],
    ids=str,
)
def test_targets_are_shown_to_people(target: Target, shown: str) -> None:
    assert target.display() == shown


# Credentials


@pytest.mark.parametrize(
    ("given", "login"),
    [
        (None, None),
        ("pw", Login(None, "pw")),
        (("u", "pw"), Login("u", "pw")),
        (("u", ""), Login("u", "")),
        ((None, "pw"), Login(None, "pw")),
        (("", "pw"), Login(None, "pw")),
        (("pw",), Login(None, "pw")),
        (Login("u", "pw"), Login("u", "pw")),
        (give_login, give_login),
        (give_login_async, give_login_async),
    ],
)
def test_credentials_that_are_accepted(given: object, login: object) -> None:
    assert check_credentials(given) == login


@pytest.mark.parametrize(
    "given",
    [
        b"hunter2",
        ("u", b"hunter2"),
        ("u", None),
        ("hunter2", "u", "x"),
        (),
        5,
        ["u", SECRET],
        {"u": SECRET},
        "",
    ],
    ids=str,
)
def test_credentials_that_are_not_say_so_without_showing_them(given: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^sentinel_credentials: ") as caught:
        check_credentials(given, "sentinel_credentials")
    assert SECRET not in str(caught.value)


def test_what_a_callable_gave_is_checked_too() -> None:
    assert check_login(("u", "p")) == check_login(["u", "p"]) == check_login(Login("u", "p")) == Login("u", "p")
    assert check_login(("p",)) == check_login("p") == Login(None, "p")
    for bad in (None, 5, b"hunter2", (b"hunter2",), ("u", 5), ("hunter2", "a", "b")):
        with pytest.raises(TypeError, match=r"^credentials: the callable") as caught:
            check_login(bad)
        assert SECRET not in str(caught.value)


def test_credentials_given_apart_replace_those_of_the_url() -> None:
    address = Address("h", user="u", password="p")
    assert address.with_credentials(None) is address
    assert address.with_credentials(Login(None, "q")) == Address("h", password="q")
    asked = address.with_credentials(give_login)
    assert (asked.user, asked.password, asked.credentials) == (None, None, give_login)
    assert asked.with_credentials(Login("v", "q")) == Address("h", user="v", password="q")


@pytest.mark.parametrize(
    ("address", "login"),
    [
        (Address(), None),
        (Address(password="p"), Login(None, "p")),
        (Address(user="u"), Login("u", "")),
        (Address(user="u", password="p"), Login("u", "p")),
        (Address(credentials=give_login), Login("u", SECRET)),
        (Address(credentials=give_login_async), Login(None, SECRET)),
        (Address(credentials=FromProvider(Provider(), "get_credentials")), Login("sync", SECRET)),
        (Address(credentials=FromProvider(AsyncProvider(), "get_credentials_async")), Login("async", SECRET)),
        (
            Address(credentials=FromProvider(UsernamePasswordCredentialProvider(None, "p"), "get_credentials")),
            Login(None, "p"),
        ),
    ],
)
def test_logging_in_asks_whoever_knows(address: Address, login: Login | None) -> None:
    assert address.login() == login
    assert asyncio.run(address.login_async()) == login


def test_a_plain_callable_does_not_block_the_loop() -> None:
    asked_in: list[threading.Thread] = []

    def ask() -> str:
        asked_in.append(threading.current_thread())
        return "p"

    assert asyncio.run(Address(credentials=ask).login_async()) == Login(None, "p")
    assert asked_in != [threading.main_thread()]


def test_a_coroutine_is_awaited_in_the_loop_that_asks() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def ask() -> str:
            assert asyncio.get_running_loop() is loop
            return "p"

        assert await Address(credentials=ask).login_async() == Login(None, "p")

    asyncio.run(main())


def test_credentials_that_cannot_be_pickled_say_which() -> None:
    for credentials, name in (
        (lambda: "p", "function"),
        (FromProvider(LockedProvider(), "get_credentials"), "LockedProvider"),
    ):
        with pytest.raises(TypeError, match=rf"credentials of redis://h:6379/0 cannot be pickled \({name}: "):
            pickle.dumps(Single(Address("h", credentials=credentials)))


def test_any_callable_can_be_hashed() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> str:
            return "p"

    hash(Address(credentials=Unhashable()))


# TLS


def test_a_context_checks_as_it_is_told(certificates: Certificates) -> None:
    context = TlsSettings(ca_file=certificates.ca).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert [dict(sum(each["subject"], ()))["commonName"] for each in _authorities(context)] == ["holdtight tests"]
    context = TlsSettings(verify="none").context()
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
    context = TlsSettings(verify="optional", check_hostname=False).context()
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert not context.check_hostname


def _authorities(context: ssl.SSLContext) -> list[dict[str, Any]]:
    return context.get_ca_certs()


def test_a_context_has_everything_else_that_was_asked_for(certificates: Certificates) -> None:
    with open(certificates.ca) as file:
        pem = file.read()
    context = TlsSettings(
        ca_data=pem,
        cert=certificates.client_cert,
        key=certificates.client_key,
        min_version=ssl.TLSVersion.TLSv1_3,
        ciphers="ECDHE-RSA-AES256-GCM-SHA384",
        verify_flags=("VERIFY_CRL_CHECK_LEAF",),
        no_verify_flags=("VERIFY_X509_TRUSTED_FIRST",),
    ).context()
    assert len(_authorities(context)) == 1
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert "ECDHE-RSA-AES256-GCM-SHA384" in {each["name"] for each in context.get_ciphers()}
    assert context.verify_flags & ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    assert not context.verify_flags & ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    assert len(_authorities(TlsSettings(ca_data=ssl.PEM_cert_to_DER_cert(pem)).context())) == 1


def test_bad_files_are_an_error_of_the_context_not_of_the_settings() -> None:
    with pytest.raises(OSError, match="No such file"):
        TlsSettings(ca_file="/no/such/file").context()


# Client objects

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


def test_a_client_says_where_and_who(make: Callable[..., Any]) -> None:
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
    assert asyncio.run(address.login_async()) == Login(user, SECRET)
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
    """A fake for tests, for one, would otherwise be taken for the server at localhost."""
    connection: Any = MODULES[library].Connection

    class Fake(connection):  # type: ignore[misc]
        def _connect(self) -> None:
            raise AssertionError

    pool = MODULES[library].ConnectionPool(connection_class=Fake)
    with pytest.raises(ValueError, match=r"^target: its connections \(.*Fake\) are made in a way of their own"):
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

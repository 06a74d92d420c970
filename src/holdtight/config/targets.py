"""Targets as values: a server's address, login and TLS settings.

All values here are frozen and can be compared, hashed and pickled, so that a configuration identifies the
one client that a process keeps for it. Nothing here connects. Passwords never appear in a repr or an error,
but they are in the pickle.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast

from holdtight.config.credentials import Credentials, FromProvider, Login, a_value_like, check_login

if TYPE_CHECKING:
    import ssl

    from holdtight.base.runtime import Runtime

VerifyMode: TypeAlias = Literal["required", "optional", "none"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to verify the server and authenticate to it. All are files, except `ca_data` (PEM text or DER bytes).

    If any `ca_*` is given, only those authorities are trusted; otherwise the system's.
    """

    ca_file: str | None = None
    ca_path: str | None = None
    ca_data: str | bytes | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: VerifyMode = "required"
    min_version: int | None = None  # a value of ssl.TLSVersion
    ciphers: str | None = None
    verify_flags: tuple[str, ...] = ()  # names in ssl.VerifyFlags to set,
    no_verify_flags: tuple[str, ...] = ()  # and to clear

    def context(self) -> ssl.SSLContext:
        """Creates a context. Reads the files, so it may block; raises OSError or ssl.SSLError if they are bad."""
        import ssl

        context = ssl.create_default_context(cafile=self.ca_file, capath=self.ca_path, cadata=self.ca_data)
        context.check_hostname = self.check_hostname and self.verify != "none"
        context.verify_mode = ssl.VerifyMode[f"CERT_{self.verify.upper()}"]
        for name in self.verify_flags:
            context.verify_flags |= ssl.VerifyFlags[name]
        for name in self.no_verify_flags:
            context.verify_flags &= ~ssl.VerifyFlags[name]
        if self.min_version is not None:
            context.minimum_version = ssl.TLSVersion(self.min_version)
        if self.ciphers is not None:
            context.set_ciphers(self.ciphers)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key, self.key_password)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """One server and how to log in. With `path` it is a unix socket; host and port are then ignored."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_settings: TlsSettings = TlsSettings()
    client_name: str | None = None
    protocol: Literal[2, 3] | None = None  # the required RESP version
    # Called at every connect; replaces `user` and `password`. Not hashed: a callable need not be hashable.
    credentials: Callable[[], object] | None = field(default=None, repr=False, hash=False)

    def display(self) -> str:
        """The address for people and error messages, without user and password."""
        if self.path is not None:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        return f"{'rediss' if self.tls else 'redis'}://{self.endpoint}/{self.db}"

    @property
    def endpoint(self) -> str:
        """Identifies the server, regardless of database and user."""
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def with_credentials(self, credentials: Credentials | None) -> Address:
        """Returns the same server with the given result of `check_credentials`; None changes nothing."""
        if credentials is None:
            return self
        if isinstance(credentials, Login):
            return replace(self, user=credentials.user, password=credentials.password, credentials=None)
        return replace(self, user=None, password=None, credentials=credentials)

    def login(self) -> Login | None:
        """Returns the login. May block, and runs a coroutine to its end: do not call it while a loop runs."""
        if self.credentials is None:
            return self._fixed_login()
        return check_login(_finished(self.credentials()))

    def _fixed_login(self) -> Login | None:
        if self.user is None and self.password is None:
            return None
        return Login(self.user, self.password or "")

    def __reduce__(self) -> tuple[object, ...]:
        if self.credentials is not None:
            import pickle

            try:
                pickle.dumps(self.credentials)
            except Exception as error:
                asked = self.credentials
                what = type(asked.provider if isinstance(asked, FromProvider) else asked).__qualname__
                raise TypeError(
                    f"the credentials of {self.display()} cannot be pickled ({what}: {error}); "
                    "give a function of a module, or a provider that pickles"
                ) from error
        return Address, tuple(getattr(self, each.name) for each in fields(self))


def _finished(answer: object) -> object:
    if not isinstance(answer, Awaitable):
        return answer
    import asyncio

    async def finish() -> object:
        return await cast("Awaitable[object]", answer)

    return asyncio.run(finish())


@dataclass(frozen=True, slots=True)
class Single:
    """One server."""

    address: Address

    def display(self) -> str:
        return self.address.display()


@dataclass(frozen=True, slots=True)
class Embedded:
    """The embedded server that this user's processes share on this machine."""

    def display(self) -> str:
        return "embedded://"


class Realm(Protocol):
    """Stores that are separate from this process's own, with a runtime of their own."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def stores(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """A store in this process, one per name. With a `realm` it has its own stores and time (`holdtight.testing`)."""

    name: str = ""
    realm: Realm | None = field(default=None, repr=False)

    def display(self) -> str:
        return f"memory://{self.name}"


@dataclass(frozen=True, slots=True)
class Sentinel:
    """The master that the sentinels name for `service`. `node` has the login and TLS settings; its host is empty."""

    sentinels: tuple[Address, ...]
    service: str
    node: Address

    def at(self, host: str, port: int) -> Address:
        return replace(self.node, host=host, port=port)

    def display(self) -> str:
        scheme = "rediss" if self.node.tls else "redis"
        return f"{scheme}+sentinel://{_endpoints(self.sentinels)}/{self.service}/{self.node.db}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, discovered through any of its `seeds`."""

    seeds: tuple[Address, ...]

    def at(self, host: str, port: int) -> Address:
        return replace(self.seeds[0], host=host, port=port)

    def display(self) -> str:
        return f"{'rediss' if self.seeds[0].tls else 'redis'}+cluster://{_endpoints(self.seeds)}"


@dataclass(frozen=True, slots=True)
class Quorum:
    """Independent servers, of which a majority must agree."""

    nodes: tuple[Target, ...]

    def display(self) -> str:
        return f"[{', '.join(node.display() for node in self.nodes)}]"


Target: TypeAlias = Single | Embedded | Memory | Sentinel | Cluster | Quorum


def _endpoints(addresses: tuple[Address, ...]) -> str:
    return ",".join(address.endpoint for address in addresses)


# Conversion of settings under redis-py's names, from a URL or a client object, to an Address.
# `where` names the argument in errors; values are not shown.


def address_from(settings: Mapping[str, object], *, tls: bool, where: str) -> Address:
    """Values may be text, as in a URL, or have the types of a client's keyword arguments."""

    def text(name: str) -> str | None:
        return _text(settings.get(name), f"{where}: {name}")

    client_name, db = text("client_name"), settings.get("db")
    if client_name is not None and not all("!" <= char <= "~" for char in client_name):
        raise ValueError(f"{where}: client_name must be printable ASCII without spaces")
    return Address(
        host=_host_name(text("host") or "localhost", f"{where}: host"),
        port=whole(settings.get("port", 6379), 1, 65535, f"{where}: port"),
        db=0 if db is None else whole(db, 0, 2**31 - 1, f"{where}: db (the database)"),
        user=text("username"),
        password=text("password"),
        client_name=client_name,
        tls=tls,
        tls_settings=_tls_from(settings, where) if tls else TlsSettings(),
    )


def _tls_from(settings: Mapping[str, object], where: str) -> TlsSettings:
    def text(name: str) -> str | None:
        return _text(settings.get(name), f"{where}: {name}")

    def one_of(name: str, default: str, choices: Mapping[str, _T]) -> _T:
        value = settings.get(name, default)
        chosen = choices.get(str(int(value) if isinstance(value, int) else value).lower())
        if chosen is None:
            raise ValueError(f"{where}: {name} must be one of {', '.join(choices)}")
        return chosen

    def flags(name: str) -> tuple[str, ...]:
        return _flag_names(settings.get(name), f"{where}: {name}")

    if text("ssl_keyfile") is not None and text("ssl_certfile") is None:
        raise ValueError(f"{where}: ssl_keyfile needs ssl_certfile")
    verify = one_of("ssl_cert_reqs", "required", _VERIFY)
    ca_data = settings.get("ssl_ca_data")
    return TlsSettings(
        ca_file=text("ssl_ca_certs"),
        ca_path=text("ssl_ca_path"),
        ca_data=ca_data if isinstance(ca_data, bytes) else text("ssl_ca_data"),
        cert=text("ssl_certfile"),
        key=text("ssl_keyfile"),
        key_password=text("ssl_password"),
        check_hostname=one_of("ssl_check_hostname", "true", _BOOL) and verify != "none",
        verify=verify,
        min_version=one_of("ssl_min_version", "none", _TLS_VERSION) or None,
        ciphers=text("ssl_ciphers"),
        verify_flags=flags("ssl_include_verify_flags"),
        no_verify_flags=flags("ssl_exclude_verify_flags"),
    )


# The spellings of redis-py, its enums as numbers, and Celery's (CERT_…). False becomes "0" and None "none".
_VERIFY: dict[str, VerifyMode] = {
    **dict.fromkeys(("required", "cert_required", "2"), "required"),
    **dict.fromkeys(("optional", "cert_optional", "1"), "optional"),
    **dict.fromkeys(("none", "cert_none", "0"), "none"),
}
_BOOL = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off", "none"), False),
}
_TLS_VERSION = {"none": 0, "tlsv1.2": 771, "tlsv1.3": 772, **{str(n): n for n in (-2, 769, 770, 771, 772)}}


def _flag_names(value: object, what: str) -> tuple[str, ...]:
    """Accepts a list of ssl.VerifyFlags or of their names, or such a list as text."""
    if not value:
        return ()
    import ssl

    given = re.split(r"[\s,\[\]]+", value) if isinstance(value, str) else value
    if isinstance(given, Iterable):
        names = [str(getattr(each, "name", each)) for each in cast("Iterable[object]", given) if each != ""]
        if names and all(name in ssl.VerifyFlags.__members__ for name in names):
            return tuple(names)
    raise ValueError(f"{what} must be names out of {', '.join(ssl.VerifyFlags.__members__)}")


def whole(value: object, low: int, high: int, what: str) -> int:
    """Converts an int or ASCII digits to an int within the range."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    raise ValueError(f"{what} must be a whole number from {low} to {high}")


def _host_name(host: str, what: str) -> str:
    """Refuses a name that Python cannot encode: the lookup would raise UnicodeError in the middle of connecting."""
    try:
        labels = host.removesuffix(".").split(".") if host.isascii() else host.encode("idna").split(b".")
    except UnicodeError:
        labels = []
    if labels and all(0 < len(label) < 64 for label in labels):
        return host
    raise ValueError(f"{what} is not a host name: between dots it has 1 to 63 characters")


def _text(value: object, what: str) -> str | None:
    """Converts to str; empty text counts as not given."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{what} is not UTF-8") from None
    elif isinstance(value, os.PathLike):
        value = os.fsdecode(cast("os.PathLike[str]", value))
    if value is None or isinstance(value, str):
        return value or None
    raise TypeError(f"{what} must be a str, not {a_value_like(value)}")

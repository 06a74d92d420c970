"""Converts what a caller gives as *target* to a Target: URLs, lists, client objects, the environment.

A URL and a client object of redis-py or valkey-py both become *settings* under redis-py's names, and one
function turns settings into an Address. Client objects are recognized by their class names, read, and not
kept; their packages are never imported. Their timeouts, retries and RESP version are ignored: ours come
from ttl and wait, and from what the server supports.

Every mistake raises ValueError or TypeError, which names the argument and says what is accepted. No error
repeats the given text, except names of schemes and parameters: a password with an unescaped '/', '?' or
':' can be mistaken for any other part.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from holdtight.config.credentials import from_provider
from holdtight.config.targets import (
    Address,
    Cluster,
    Embedded,
    Memory,
    Quorum,
    Sentinel,
    Single,
    Target,
    address_from,
    whole,
)

__all__ = ["Address", "Cluster", "Embedded", "Memory", "Quorum", "Sentinel", "Single", "Target", "parse"]

ACCEPTED = (
    "redis://, rediss://, valkey://, valkeys:// or unix:// (one server), redis+sentinel://, redis+cluster:// "
    "(also rediss+..., valkey+..., valkeys+...), embedded:// or memory://"
)
_TLS_SCHEME = {"redis": False, "valkey": False, "rediss": True, "valkeys": True}

# URL parameters: supported; supported with TLS only; known from other clients and ignored.
PLAIN = {"db", "username", "password", "client_name", "protocol"}
OF_TLS = {
    *("ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_certfile"),
    *("ssl_keyfile", "ssl_password", "ssl_min_version", "ssl_ciphers"),
    *("ssl_include_verify_flags", "ssl_exclude_verify_flags"),
}
IGNORED = {
    *("timeout", "socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_read_size"),
    *("max_connections", "health_check_interval", "retry_on_timeout", "retry_on_error"),
    *("decode_responses", "encoding", "encoding_errors", "legacy_responses", "lib_name", "lib_version"),
}


def parse(target: object = None, *, env: Mapping[str, str] = os.environ) -> Target:
    """Resolves `target`; None takes $HOLDTIGHT_URL, then $REDIS_URL. Sends nothing, reads no file."""
    if target is None:
        for name in ("HOLDTIGHT_URL", "REDIS_URL"):
            if url := env.get(name):
                return _url(url, f"${name}")
        raise ValueError(
            "target: no server given. Set $HOLDTIGHT_URL (or $REDIS_URL), or pass a target: a URL such as "
            "redis://localhost:6379/0, embedded:// for one server shared by your processes on this machine, "
            "or memory:// for this process alone"
        )
    if isinstance(target, list | tuple):
        return _quorum(cast("list[object] | tuple[object, ...]", target))
    return _one(target, "target")


def _one(target: object, where: str) -> Target:
    if isinstance(target, Single | Embedded | Memory | Sentinel | Cluster | Quorum):
        return target
    if isinstance(target, Address):
        return Single(target)
    if isinstance(target, str):
        return _url(target, where)
    return _client(target, where)


def _quorum(targets: list[object] | tuple[object, ...]) -> Quorum:
    if not targets:
        raise ValueError("target: the list is empty; a quorum needs its servers, three or more of them")
    nodes: list[Target] = []
    seen: set[object] = set()
    for index, each in enumerate(targets):
        node = _one(each, f"target[{index}]")
        if isinstance(node, Quorum):
            raise ValueError(f"target[{index}]: a quorum cannot be a node of a quorum")
        server = node.address.endpoint if isinstance(node, Single) else node
        if server in seen:
            raise ValueError(
                f"target[{index}]: {node.display()} is the same server as an earlier one; a quorum's nodes "
                "must be independent, and two databases of one server are not"
            )
        seen.add(server)
        nodes.append(node)
    return Quorum(tuple(nodes))


# URLs


class _Url(NamedTuple):
    user: str | None
    password: str | None
    hosts: str
    path: str  # as written, without the leading '/'
    query: dict[str, str]


def _url(url: str, where: str) -> Target:
    if not url:
        raise ValueError(f"{where}: empty; give a URL: {ACCEPTED}")
    if any(char.isspace() or not char.isprintable() for char in url):
        raise ValueError(f"{where}: the URL contains a space or a control character; percent-encode it")
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://(.*)", url)
    if match is None:
        raise ValueError(f"{where}: not a URL; give one that begins with {ACCEPTED}")
    scheme, rest = match[1].lower(), match[2]
    kind, _, topology = scheme.partition("+")
    if scheme == "embedded":
        if rest:
            raise ValueError(f"{where}: embedded:// takes nothing after it")
        return Embedded()
    if scheme == "memory":
        return Memory(_decode(rest, f"{where}: the name"))
    if scheme == "unix":
        return _unix(_split(rest, where, unix=True), where)
    if kind not in _TLS_SCHEME or scheme not in {kind, f"{kind}+sentinel", f"{kind}+cluster"}:
        raise ValueError(f"{where}: unknown scheme {scheme}://; accepted are {ACCEPTED}")
    tls, parts = _TLS_SCHEME[kind], _split(rest, where)
    if topology == "sentinel":
        return _sentinel(parts, tls, where)
    if topology == "cluster":
        seeds = _hosts(parts, 6379, where)
        return Cluster(tuple(_from_url(parts, parts.path, tls, where, *seed) for seed in seeds))
    if "," in parts.hosts:
        raise ValueError(
            f"{where}: several hosts in one URL; a list of URLs is a quorum, redis+cluster:// a cluster, "
            "redis+sentinel:// a master with its sentinels"
        )
    host, port = _host(parts.hosts, 6379, where) if parts.hosts else ("localhost", 6379)
    return Single(_from_url(parts, parts.path, tls, where, host, port))


def _split(rest: str, where: str, *, unix: bool = False) -> _Url:
    head, _, query = rest.partition("?")
    authority, _, path = head.partition("/")
    login, _, hosts = authority.rpartition("@")
    if "#" in rest or "@" in query or ("@" in path and not (unix and not hosts)):
        raise ValueError(
            f"{where}: '#', or '@' after the host; inside a user, a password or a parameter "
            "write '/' as %2F, '?' as %3F, '#' as %23 and '@' as %40"
        )
    if "@" in login and "," in authority:
        raise ValueError(
            f"{where}: one user and password for all hosts, before the first of them; "
            "inside a password write '@' as %40 and ',' as %2C"
        )
    user, _, password = login.partition(":")
    return _Url(
        _decode(user, f"{where}: the user") or None,
        _decode(password, f"{where}: the password") or None,
        hosts,
        path,
        _query(query, where),
    )


def _query(text: str, where: str) -> dict[str, str]:
    from urllib.parse import parse_qsl

    query: dict[str, str] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError:
        raise ValueError(f"{where}: what follows '?' must be name=value pairs joined by '&'") from None
    for name, value in pairs:
        if name not in PLAIN | OF_TLS | IGNORED:
            shown = f" {name!r}" if re.fullmatch(r"\w{1,40}", name) else ""
            raise ValueError(
                f"{where}: unknown parameter{shown}; accepted are {', '.join(sorted(PLAIN | OF_TLS))}, "
                f"and without effect {', '.join(sorted(IGNORED))}"
            )
        if name in query:
            raise ValueError(f"{where}: parameter {name!r} is given twice")
        query[name] = value
    return query


def _unix(parts: _Url, where: str) -> Single:
    if parts.hosts or not parts.path:
        raise ValueError(f"{where}: a unix socket is unix:///path/of.sock or unix://user:password@/path/of.sock")
    address = _from_url(parts, "", False, where, "localhost", 6379)
    return Single(replace(address, path=_decode("/" + parts.path, f"{where}: the path")))


def _sentinel(parts: _Url, tls: bool, where: str) -> Sentinel:
    service, _, db = parts.path.partition("/")
    if not service:
        raise ValueError(
            f"{where}: the name of the master is missing; redis+sentinel://host1:26379,host2:26379/mymaster/0"
        )
    node = replace(_from_url(parts, db, tls, where, "localhost", 6379), host="", port=0)
    sentinels = tuple(
        Address(host, port, tls=tls, tls_settings=node.tls_settings, client_name=node.client_name)
        for host, port in _hosts(parts, 26379, where)
    )
    return Sentinel(sentinels, _decode(service, f"{where}: the name of the master"), node)


def _from_url(parts: _Url, db: str, tls: bool, where: str, host: str, port: int) -> Address:
    settings: dict[str, object] = {name: parts.query[name] for name in parts.query.keys() - IGNORED}
    if not tls and (misplaced := sorted(settings.keys() & OF_TLS)):
        raise ValueError(f"{where}: {misplaced[0]} needs TLS: write rediss:// or valkeys://")
    if db and settings.setdefault("db", db) != db:
        raise ValueError(f"{where}: two different databases, one in the path and one as db=")
    if parts.user is not None or parts.password is not None:
        settings |= {"username": parts.user, "password": parts.password}
    address = address_from(settings | {"host": host, "port": port}, tls=tls, where=where)
    protocol = settings.get("protocol")
    if protocol is None:
        return address
    return replace(address, protocol=2 if whole(protocol, 2, 3, f"{where}: protocol") == 2 else 3)


def _hosts(parts: _Url, default_port: int, where: str) -> list[tuple[str, int]]:
    return [_host(each, default_port, where) for each in parts.hosts.split(",")]


def _host(text: str, default_port: int, where: str) -> tuple[str, int]:
    if text.startswith("["):
        from ipaddress import IPv6Address

        host, closed, after = text[1:].partition("]")
        colon, port = after[:1], after[1:]
        try:
            host = str(IPv6Address(_decode(host, where)))
        except ValueError:
            closed = ""
        if not closed or colon not in {"", ":"}:
            raise ValueError(f"{where}: an IPv6 address is written [::1] or [::1]:6379")
    else:
        host, colon, port = text.partition(":")
        if ":" in port:
            raise ValueError(f"{where}: too many ':' after the host; an IPv6 address is written [::1]:6379")
        host = _decode(host, f"{where}: the host").lower() or ("localhost" if colon else "")
        if not re.fullmatch(r"[^\s/?#@\[\]:,<>\\^|%]+", host):
            raise ValueError(f"{where}: a host is missing or is not a host name")
    return host, whole(port if colon else default_port, 1, 65535, f"{where}: the port")


def _decode(text: str, what: str) -> str:
    from urllib.parse import unquote

    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not UTF-8 after percent-decoding") from None
    if "\0" in decoded:
        raise ValueError(f"{what} contains a NUL character")
    return decoded


# Client objects


def _client(client: Any, where: str) -> Target:
    names = _library_classes(client.__class__)
    if names & {"RedisCluster", "ValkeyCluster"}:
        return _cluster_client(client, where)
    if names & {"Redis", "Valkey"}:
        return _pool(client.connection_pool, where)
    if "Sentinel" in names:
        raise TypeError(f"{where}: a Sentinel names many masters; give what its master_for(...) returns")
    raise TypeError(
        f"{where}: expected a URL as str, a list or tuple of targets, or a client of redis-py or valkey-py "
        f"(Redis, RedisCluster, Valkey, ValkeyCluster, blocking or asyncio), not {type(client).__qualname__}"
    )


def _library_classes(cls: type[Any]) -> set[str]:
    """The names of the classes of redis-py or valkey-py among the bases of `cls`, found without importing either."""
    return {each.__name__ for each in cls.__mro__ if each.__module__.partition(".")[0] in {"redis", "valkey"}}


def _pool(pool: Any, where: str) -> Single | Sentinel:
    node = _from_settings(pool.connection_class, pool.connection_kwargs, where)
    if "SentinelConnectionPool" not in _library_classes(pool.__class__):
        return Single(node)
    if not pool.is_master:
        raise ValueError(f"{where}: a client for replicas cannot hold locks; give one from master_for(...)")
    sentinels = (each.connection_pool for each in pool.sentinel_manager.sentinels)
    return Sentinel(
        tuple(_from_settings(each.connection_class, each.connection_kwargs, where) for each in sentinels),
        str(pool.service_name),
        replace(node, host="", port=0),
    )


def _cluster_client(client: Any, where: str) -> Cluster:
    manager = client.nodes_manager
    if manager.address_remap is not None:
        raise ValueError(f"{where}: address_remap of a cluster client is not supported; give redis+cluster://")
    seeds = tuple(manager.startup_nodes.values())
    for node in (*seeds, *manager.nodes_cache.values()):
        # asyncio: the node is its own pool. Blocking: the node has a client once it has been used.
        inner = getattr(node, "redis_connection", None) or getattr(node, "valkey_connection", None)
        pool = node if hasattr(node, "connection_kwargs") else inner and inner.connection_pool
        if pool is not None:
            address = _from_settings(pool.connection_class, pool.connection_kwargs, where)
            return Cluster(
                tuple(
                    replace(address, host=str(each.host), port=whole(each.port, 1, 65535, f"{where}: port"))
                    for each in seeds
                )
            )
    raise ValueError(f"{where}: the cluster client knows no node yet; give redis+cluster://host:port")


def _from_settings(connection: type, given: Mapping[str, Any], where: str) -> Address:
    """Reads the arguments that a client's pool passes to new connections, and the defaults of their class."""
    for cls in connection.__mro__:
        if not _library_classes(cls) & {cls.__name__} and {"connect", "_connect"} & cls.__dict__.keys():
            raise ValueError(
                f"{where}: its connections ({cls.__module__}.{cls.__qualname__}) are not made from "
                "settings that can be read; give a URL, or memory:// for a fake in tests"
            )
    names = _library_classes(connection)
    settings = dict(given)
    for name in ("ssl_cert_reqs", "ssl_check_hostname"):
        settings.setdefault(name, _default(connection, name))
    for name in ("ssl_validate_ocsp", "ssl_validate_ocsp_stapled"):
        if settings.get(name):
            raise ValueError(f"{where}: {name} is not supported; give the URL, and an SSLContext as tls=")
    if "orig_host_address" in settings:  # redis-py replaces `host` for a while during maintenance
        settings["host"] = settings["orig_host_address"] or settings.get("host")
    provider = settings.get("credential_provider")
    address = address_from(settings, tls="SSLConnection" in names, where=where)
    if "UnixDomainSocketConnection" in names:
        address = replace(address, path=os.fsdecode(settings.get("path") or ""))
    if provider is not None:
        asynchronous = any(".asyncio." in cls.__module__ for cls in connection.__mro__)
        address = address.with_credentials(from_provider(provider, asynchronous=asynchronous, where=where))
    return address


def _default(cls: type, name: str) -> object:
    for each in cls.__mro__:
        init = each.__dict__.get("__init__")
        if init is not None and name in (parameters := inspect.signature(init).parameters):
            return parameters[name].default
    return None

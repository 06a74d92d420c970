"""A client's settings: checked once, frozen, comparable, and pickled in place of the client."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

from holdtight.base import refusals
from holdtight.base.clock import Backoff, Drift, seconds, ttl_seconds, wait_seconds
from holdtight.base.names import check_label, check_namespace
from holdtight.base.values import Kind
from holdtight.config.profiles import UNSET, Profile, check_profiles, profile_for

if TYPE_CHECKING:
    import ssl

    from holdtight.config.credentials import Credentials
    from holdtight.config.targets import Address, Cluster, Embedded, Memory, Quorum, Sentinel, Single

    AnyTarget = Single | Embedded | Memory | Sentinel | Cluster | Quorum
    Tls = ssl.SSLContext | None
else:
    AnyTarget = Tls = object  # a named tuple would compile their names, and they are loaded with the first client

__all__ = ["UNSET", "Options", "Settings", "refuse_monkey_patches", "unknown_options"]

LOCK_OPTIONS = ("ttl", "wait", "reentrant", "renew", "max_hold", "label")
JOB_OPTIONS = ("ttl", "wait", "renew", "max_hold", "label")
FLIGHT_OPTIONS = (
    *("ttl", "stale", "negative", "error_ttl", "refresh", "codec", "max_size", "lease_ttl", "wait", "label"),
)


MOST_PERMITS = 999_999_999


class Settings(NamedTuple):
    target: AnyTarget
    namespace: str
    ttl: float
    wait: float | None
    label: str | None
    drift: Drift
    max_waiters: int
    deadlock_after: float
    connect_timeout: float
    retry: Backoff
    max_connections: int | None
    tls: Tls
    profiles: tuple[tuple[str, Profile], ...]
    on_unavailable: str = "raise"
    max_ttl: float | None = None
    """On a quorum: the longest ttl that a client may ask for. A restarted node does not vote for that long."""
    restart_guard: bool = False
    spin: bool = True
    acks: int = 0

    def check_ttl(self, ttl: float) -> float:
        """Raises ValueError for a ttl above max_ttl: it would outlive the restart guard of a quorum."""
        if self.max_ttl is not None and ttl > self.max_ttl:
            raise ValueError(
                f"ttl={ttl:g} is above max_ttl={self.max_ttl:g}: a node that restarts keeps out of votes for max_ttl, "
                "and a longer lease would outlive that. Use a shorter ttl, or open every client of the quorum "
                "with a larger max_ttl"
            )
        return ttl

    def __reduce__(self) -> tuple[object, ...]:
        if self.tls is not None:
            raise TypeError(
                "a client with an ssl.SSLContext cannot be pickled: give the TLS settings in the URL "
                "(rediss://...?ssl_ca_certs=...&ssl_certfile=...) instead of tls="
            )
        from holdtight.config.targets import Memory

        if isinstance(self.target, Memory):
            raise TypeError(
                f"a client of {self.target.display()} cannot be pickled: its locks are in this process, and elsewhere "
                "the same name would be another store, which excludes nobody here"
            )
        return Settings, tuple(self)

    def __deepcopy__(self, memo: object) -> "Settings":
        return self  # frozen, so a copy in the same process is not needed

    @classmethod
    def checked(
        cls,
        target: object,
        *,
        namespace: object,
        ttl: object,
        wait: object,
        label: object,
        profiles: object,
        acks: object,
        on_unavailable: object,
        drift: object,
        max_waiters: object,
        deadlock_after: object,
        connect_timeout: object,
        retry: object,
        max_connections: object,
        tls: object,
        credentials: object,
        sentinel_credentials: object,
        max_ttl: object,
        restart_guard: object,
        spin: object = True,
    ) -> "Settings":
        if not isinstance(drift, Drift):
            raise TypeError(f"drift must be a holdtight.Drift, not {type(drift).__name__}")
        if not isinstance(retry, Backoff):
            raise TypeError(f"retry must be a holdtight.Backoff, not {type(retry).__name__}")
        timeout = seconds(connect_timeout, "connect_timeout")
        if timeout <= 0:
            raise ValueError("connect_timeout must be above 0")
        longest = ttl_seconds(max_ttl, renewed=True, argument="max_ttl")
        for word, value in (("restart_guard", restart_guard), ("spin", spin)):
            if not isinstance(value, bool):
                raise TypeError(f"{word} must be True or False, not {value!r}")
        acknowledged = _checked_acks(acks)
        if tls is not None and not ("ssl" in sys.modules and isinstance(tls, sys.modules["ssl"].SSLContext)):
            raise TypeError(f"tls must be an ssl.SSLContext, not {type(tls).__name__}")
        place = _server(target, credentials, sentinel_credentials, tls is not None)
        quorum = type(place).__name__ == "Quorum"
        if quorum and _checked_choice(on_unavailable) != "raise":
            raise refusals.on_unavailable_on_a_quorum()
        made = cls(
            target=place,
            namespace=check_namespace(namespace),
            ttl=ttl_seconds(ttl, renewed=True),
            wait=wait_seconds(wait),
            label=check_label(label),
            drift=drift,
            max_waiters=_whole(max_waiters, "max_waiters"),
            deadlock_after=seconds(deadlock_after, "deadlock_after"),
            connect_timeout=timeout,
            retry=retry,
            max_connections=None if max_connections is None else _whole(max_connections, "max_connections"),
            tls=cast("ssl.SSLContext | None", tls),
            profiles=check_profiles(profiles),
            on_unavailable=_checked_choice(on_unavailable),
            max_ttl=longest if quorum else None,
            restart_guard=quorum and bool(restart_guard),
            spin=bool(spin),
            acks=acknowledged,
        )
        if acknowledged:
            _refuse_acks(place)
        made.check_ttl(made.ttl)
        if quorum and max_connections is not None:
            raise refusals.max_connections_on_a_quorum()
        return made


_PATCHERS = (
    ("gevent.monkey", "is_module_patched", {"threads": "threading", "sockets": "socket"}),
    ("eventlet.patcher", "is_monkey_patched", {"threads": "thread", "sockets": "socket"}),
)


def refuse_monkey_patches() -> None:
    """Raises NotSupported: green threads run the keeper in the caller's thread, where a busy caller starves it."""
    for module, question, names in _PATCHERS:
        patcher = sys.modules.get(module)
        for what, name in names.items():
            if patcher is not None and getattr(patcher, question)(name):
                raise refusals.monkey_patched(what, module)


def _whole(value: object, argument: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument} must be a whole number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{argument}={value} must be at least 1")
    return value


def _checked_choice(on_unavailable: object) -> str:
    if on_unavailable not in ("raise", "local", "open"):
        raise ValueError(f'on_unavailable={on_unavailable!r} must be "raise", "local" or "open"')
    return str(on_unavailable)


def _checked_acks(acks: object) -> int:
    if isinstance(acks, bool) or not isinstance(acks, int):
        raise TypeError(f"acks must be a whole number, not {type(acks).__name__}")
    if acks < 0:
        raise ValueError(f"acks={acks} must be at least 0")
    return acks


def _refuse_acks(place: object) -> None:
    """Raises NotSupported for a target without replicas."""
    from holdtight.config.targets import Embedded, Memory, Quorum

    if isinstance(place, Quorum):
        raise refusals.acks_on_a_quorum()
    if isinstance(place, (Memory, Embedded)):
        raise refusals.acks_without_replicas(place.display())


def _server(target: object, credentials: object, sentinel_credentials: object, tls: bool) -> AnyTarget:
    # Loaded with the first client, not with the package.
    from holdtight.config.credentials import check_credentials
    from holdtight.config.targets import Cluster, Embedded, Memory, Quorum, Sentinel, Single
    from holdtight.config.url import parse

    found, login = parse(target), check_credentials(credentials)
    to_sentinels = check_credentials(sentinel_credentials, "sentinel_credentials")
    if to_sentinels is not None and not isinstance(found, Sentinel):
        raise ValueError(
            f"sentinel_credentials= was given for {found.display()}, which has no Sentinels. The login of a server is "
            "credentials="
        )
    if isinstance(found, Embedded):
        return found
    if isinstance(found, Memory):
        for argument, given in (("credentials", login is not None), ("tls", tls)):
            if given:
                raise ValueError(f"{argument}= was given for {found.display()}, which does not use it")
        return found
    if isinstance(found, Single):
        return Single(_with_settings(found.address, login, tls))
    if isinstance(found, Sentinel):
        node = _with_settings(found.node, login, tls)
        sentinels = tuple(_with_settings(each, to_sentinels, tls) for each in found.sentinels)
        return Sentinel(sentinels, found.service, node)
    if isinstance(found, Cluster):
        if any(each.db for each in found.seeds):
            raise ValueError("target: a cluster has database 0 only; leave the database out")
        return Cluster(tuple(_with_settings(each, login, tls) for each in found.seeds))
    nodes: list[Single] = []
    for at, each in enumerate(found.nodes):
        if not isinstance(each, Single):
            raise refusals.node_of_a_quorum(at, each.display())
        nodes.append(Single(_with_settings(each.address, login, tls)))
    return Quorum(tuple(nodes))


def _with_settings(given: "Address", login: "Credentials | None", tls: bool) -> "Address":
    from dataclasses import replace

    address = given.with_credentials(login)
    if tls and not address.tls:
        if address.path is not None:
            raise ValueError("tls= was given for a unix socket, which does not need it")
        address = replace(address, tls=True)
    return address


class Options(NamedTuple):
    """The checked options of one lock object."""

    ttl: float
    wait: float | None
    reentrant: bool
    renew: bool
    max_hold: float | None
    label: str | None
    kind: Kind = Kind.EXCLUSIVE
    n: int = 1
    permits: int = 0
    warn_after: float | None = None
    """None for ten times the ttl."""
    template: str | None = None
    """The name under which events and metrics count the lock: the job's template, else the pattern of its profile."""
    cohort: bool = False

    @classmethod
    def checked(
        cls,
        settings: Settings,
        name: str,
        *,
        ttl: object = UNSET,
        wait: object = UNSET,
        reentrant: object = False,
        renew: object = UNSET,
        max_hold: object = UNSET,
        label: object = UNSET,
        kind: Kind = Kind.EXCLUSIVE,
        permits: object = 0,
        cohort: object = False,
    ) -> "Options":
        """Takes each option from the call, else from the name's profile, else from the client's settings."""
        template, profile = profile_for(settings.profiles, name)
        ttl = profile.ttl if ttl is UNSET else ttl
        wait = profile.wait if wait is UNSET else wait
        renew = profile.renew if renew is UNSET else renew
        renew = True if renew is UNSET else renew
        max_hold = profile.max_hold if max_hold is UNSET else max_hold
        label = profile.label if label is UNSET else label
        cohort = profile.cohort if cohort is UNSET else cohort
        for argument, value in (("reentrant", reentrant), ("renew", renew), ("cohort", cohort)):
            if not isinstance(value, bool):
                raise TypeError(f"{argument} must be True or False, not {value!r}")
        if reentrant and kind is Kind.PERMITS:
            raise refusals.reentrant_semaphore(name)
        longest = None if max_hold is None or max_hold is UNSET else seconds(max_hold, "max_hold")
        if longest is not None and longest < 0.01:
            raise ValueError(f"max_hold={max_hold!r} must be at least 10ms")
        lifetime = settings.ttl if ttl is UNSET else ttl_seconds(ttl, renewed=bool(renew))
        if longest is not None:
            lifetime = min(lifetime, settings.drift.ttl_for(longest))
        settings.check_ttl(lifetime)
        return cls(
            ttl=lifetime,
            wait=settings.wait if wait is UNSET else wait_seconds(wait),
            reentrant=bool(reentrant),
            renew=bool(renew),
            max_hold=longest,
            label=settings.label if label is UNSET else check_label(label),
            kind=kind,
            permits=check_permits(permits) if kind is Kind.PERMITS else 0,
            warn_after=None if profile.warn_after is None else seconds(profile.warn_after, "warn_after"),
            template=template,
            cohort=bool(cohort),
        )

    @staticmethod
    def check_words(call: str, given: Iterable[str]) -> None:
        """Raises TypeError for options that locks do not have, NotSupported for one that only `lock` has."""
        if "cohort" in given:
            raise refusals.cohort_of(call)
        unknown = [word for word in given if word not in LOCK_OPTIONS]
        if unknown:
            of_it = ("permits", *(word for word in LOCK_OPTIONS if word != "reentrant"))
            raise unknown_options(call, unknown, of_it if call == "semaphore" else LOCK_OPTIONS)

    def asking_for(self, n: object) -> "Options":
        """Returns the same options with `n` permits."""
        number = _whole(n, "n")
        if number > self.permits:
            raise ValueError(f"n={number} is more than the semaphore's permits={self.permits}: it would wait for ever")
        return self._replace(n=number)


def unknown_options(call: str, given: Iterable[str], known: Iterable[str] = LOCK_OPTIONS) -> TypeError:
    """The error for options that a call does not have; it says which word is meant here."""
    from holdtight.base.habits import unknown_words  # loaded when a call has failed, not with the package

    return unknown_words(call, given, known)


def check_permits(permits: object) -> int:
    number = _whole(permits, "permits")
    if number > MOST_PERMITS:
        raise ValueError(f"permits={number} must be at most {MOST_PERMITS}")
    return number

"""How the drop-in connects: on its own connections, with the settings of the client object that it is given.

All lock objects of a process share one `Access` per settings; it lives as long as a pool or a lock that uses it.
"""

import threading
import weakref
from importlib import import_module
from typing import Any, NamedTuple

from holdtight.base import process, refusals
from holdtight.base.callbacks import WARNING, get_logger, is_logged
from holdtight.compat.line import Line
from holdtight.config.settings import refuse_monkey_patches
from holdtight.config.targets import Sentinel, Single
from holdtight.config.url import parse
from holdtight.core.contend import patience
from holdtight.keeper.keeper import keeper, runtime
from holdtight.stores.redis.plain_store import PLAIN_SCRIPTS, Deletion, Plain, PlainClient
from holdtight.stores.redis.single import RedisPlace
from holdtight.stores.times import CONNECT_SECONDS
from holdtight.sync.pool import Transport

__all__ = ["Access", "Reach", "reach_of"]

LEAST_PATIENCE = 1.0
"""If acquiring has at least this patience, releasing gets the same, which saves two changes of the socket's timeout."""
MOST_PREPARED = 4096
MOST_TOLD = 1000
LONGEST_MS = 1 << 53
_MODULES = ("logging", "random", "signal", "holdtight.base.showing", "holdtight.keeper.connection")


class Access:
    """One server, or the master that Sentinel names, as all locks of this process with the same settings use it."""

    def __init__(self, target: Single | Sentinel) -> None:
        refuse_monkey_patches()
        _load()
        self.client = PlainClient()
        self.place = _place(target, self.client)
        self.transport = Transport(self.place, connect_timeout=CONNECT_SECONDS, max_connections=None)
        self.loops: Any = None
        """The state of asyncio code; blocking code loads no asyncio."""
        self.deletion = Deletion()
        self.line = Line()
        self._prepared: dict[tuple[bytes, float | None], Plain] = {}
        self._told: set[bytes] = set()
        process.tell_of_fork(self)

    def prepare(self, key: bytes, timeout: float | None) -> Plain:
        found = self._prepared.get((key, timeout))
        if found is None:
            found = Plain(self.client, self.place.display, key, _milliseconds(timeout))
            found.patience = patience(found, None, CONNECT_SECONDS)
            if found.patience >= LEAST_PATIENCE:
                found.give_patience = found.patience
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key, timeout] = found
        return found

    def open_loops(self) -> Any:
        from holdtight.aio.per_loop import PerLoop

        with _opening:
            if self.loops is None:
                loops = PerLoop()
                loops.closed = False
                loops.open_loops(self.place, CONNECT_SECONDS)
                self.loops = loops
            return self.loops

    def tell_of_no_end(self, plain: Plain) -> None:
        """Warns once per name: if the holder dies, the name stays locked."""
        if plain.key in self._told or len(self._told) >= MOST_TOLD or not is_logged(WARNING):
            return
        self._told.add(plain.key)
        get_logger().warning(
            "lock %r is taken without a timeout: it never expires. If its holder dies, the lock stays held until "
            "the key is deleted by hand. Give a timeout",
            plain.claim.name,
        )

    def after_fork(self) -> None:
        self.client.renew_identity()
        self.line = Line()
        if self.loops is not None:
            self.loops.abandon_loops()

    def __del__(self) -> None:
        loops, place = getattr(self, "loops", None), getattr(self, "place", None)
        try:
            if place is not None:
                place.leave()
            if loops is not None:
                loops.close_loops()
        except Exception:  # at interpreter exit, parts of asyncio are gone already
            pass


def _load() -> None:
    """Loads whatever a lock needs after its grant, so that no file is opened from then on: see clients/loading.py."""
    for module in _MODULES:
        import_module(module)
    for script in PLAIN_SCRIPTS:
        script.fetch()
    keeper().prepare()


def _place(target: Single | Sentinel, client: PlainClient) -> RedisPlace:
    if isinstance(target, Single):
        return RedisPlace(target, client, runtime, None)
    from holdtight.stores.redis.sentinel import SentinelPlace

    return SentinelPlace(target, client, runtime, None)


def _milliseconds(timeout: object) -> int | None:
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, not {type(timeout).__name__}")
    if not 0.001 <= timeout <= LONGEST_MS / 1000:
        raise ValueError(f"timeout={timeout!r}: give seconds, at least 0.001, or None for a lock that never expires")
    return int(timeout * 1000)


class Reach(NamedTuple):
    """What a lock needs of a client object."""

    access: Access
    encoder: Any
    utf8: bool
    errors: Any
    """The exceptions module of the client's library."""
    asynchronous: bool

    def encode(self, value: Any) -> bytes:
        """Encodes a name or a value as the client itself would."""
        if self.utf8 and value.__class__ is str:
            raw: bytes = value.encode()
            return raw
        return bytes(self.encoder.encode(value))


_reaches: "weakref.WeakKeyDictionary[Any, Reach]" = weakref.WeakKeyDictionary()
"""By connection pool, which has the settings."""
_accesses: "weakref.WeakValueDictionary[Single | Sentinel, Access]" = weakref.WeakValueDictionary()
_opening = threading.RLock()


_NONE: tuple[Any, Any] = (lambda: None, None)
_latest = _NONE
"""A weak reference to the last pool that was looked up, and its Reach: the next lookup is mostly the same."""


def _forget(pool: "weakref.ref[Any]") -> None:
    global _latest
    if _latest[0] is pool:
        _latest = _NONE


def reach_of(client: Any) -> Reach:
    global _latest
    pool = getattr(client, "connection_pool", None)
    known, reach = _latest
    if pool is not None and known() is pool:
        return reach  # type: ignore[no-any-return]
    try:
        found = _reaches[pool]
    except (KeyError, TypeError):
        found = _read(client, pool)
    _latest = weakref.ref(pool, _forget), found
    return found


def _read(client: Any, pool: Any) -> Reach:
    classes: tuple[type, ...] = client.__class__.__mro__
    modules = [each.__module__ for each in classes if each.__module__.split(".")[0] in ("redis", "valkey")]
    if not modules:
        raise TypeError(f"expected a client object of redis-py or valkey-py, not {classes[0].__name__}")
    target = parse(client)
    if not isinstance(target, Single | Sentinel):
        raise refusals.drop_in_target(target.display())
    encoder = pool.get_encoder()
    with _opening:
        access = _accesses.get(target)
        if access is None:
            access = _accesses[target] = Access(target)
        reach = _reaches[pool] = Reach(
            access,
            encoder,
            utf8=str(encoder.encoding).lower() in ("utf-8", "utf8") and encoder.encoding_errors == "strict",
            errors=import_module(modules[0].split(".")[0] + ".exceptions"),
            asynchronous=any(".asyncio." in module for module in modules),
        )
    return reach


def _after_fork() -> None:
    global _opening
    _opening = threading.RLock()


process.on_fork(_after_fork)

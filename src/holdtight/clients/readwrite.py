"""The read-write lock, blocking and asyncio: two lock objects under one name."""

from typing import Any, Generic, TypeVar

from holdtight.base.values import Kind
from holdtight.clients.client import BaseLocks
from holdtight.clients.lock import BaseLock
from holdtight.config.settings import UNSET, Options

__all__ = ["BaseReadWriteLock"]

L = TypeVar("L", bound=BaseLock)


class BaseReadWriteLock(Generic[L]):
    """Readers share; a writer excludes all others. `write()` is the same claim as `lock()` of that name."""

    __slots__ = ("_given", "_locks", "_name", "_read", "_write")

    def __init__(self, locks: BaseLocks[L], name: str, given: dict[str, Any]) -> None:
        self._locks = locks
        self._name = name
        self._given = given
        self._read: L = self._of(Kind.SHARED, given)
        self._write: L = self._of(Kind.EXCLUSIVE, given)

    def _of(self, kind: Kind, given: dict[str, Any]) -> Any:
        options = Options.checked(self._locks.settings, self._name, kind=kind, **given)
        return self._locks.lock_type(self._locks, self._name, options)

    @property
    def name(self) -> str:
        return self._name

    def read(
        self,
        *,
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: Any = UNSET,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> L:
        """A lock that several readers hold at a time. Options that are not given are those of the read-write lock.

        Raises TypeError or ValueError for an option that is not allowed.
        """
        given = _said(ttl=ttl, wait=wait, reentrant=reentrant, renew=renew, max_hold=max_hold, label=label)
        return self._of(Kind.SHARED, {**self._given, **given}) if given else self._read

    def write(
        self,
        *,
        ttl: Any = UNSET,
        wait: Any = UNSET,
        reentrant: Any = UNSET,
        renew: Any = UNSET,
        max_hold: Any = UNSET,
        label: Any = UNSET,
    ) -> L:
        """A lock that excludes readers and writers. Options that are not given are those of the read-write lock.

        Raises TypeError or ValueError for an option that is not allowed.
        """
        given = _said(ttl=ttl, wait=wait, reentrant=reentrant, renew=renew, max_hold=max_hold, label=label)
        return self._of(Kind.EXCLUSIVE, {**self._given, **given}) if given else self._write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self._read.options.ttl:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._locks, self._name, self._given)


def _said(**given: Any) -> dict[str, Any]:
    return {word: value for word, value in given.items() if value is not UNSET}

"""The read-write lock, blocking and asyncio: two lock objects under one name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdtight.base.public import PublicReadWriteLock
from holdtight.base.values import Kind
from holdtight.clients.client import BaseLocks
from holdtight.clients.lock import BaseLock
from holdtight.config.settings import Options

if TYPE_CHECKING:
    from typing import Unpack

    from holdtight.config.options import LockOptions

__all__ = ["BaseReadWriteLock"]

L = TypeVar("L", bound=BaseLock)


class BaseReadWriteLock(PublicReadWriteLock, Generic[L]):
    """Readers share; a writer excludes all others. `write()` is the same claim as `lock()` of that name."""

    __slots__ = ("_given", "_locks", "_name", "_read", "_write")

    def __init__(self, locks: BaseLocks[L], name: str, given: Mapping[str, Any]) -> None:
        self._locks = locks
        self._name = name
        self._given = given
        self._read: L = self._of(Kind.SHARED, given)
        self._write: L | None = None

    def _of(self, kind: Kind, given: Mapping[str, Any]) -> Any:
        return self._locks.lock_type(self._locks, self._name, self._locks.terms_of_kind(self._name, kind, given))

    def _with(self, call: str, kind: Kind, options: Mapping[str, object]) -> Any:
        Options.check_words(call, options)
        return self._of(kind, {**self._given, **options})

    @property
    def name(self) -> str:
        """The name that the lock was made with."""
        return self._name

    def read(self, **options: "Unpack[LockOptions]") -> L:
        """A lock that several readers hold at a time. Options that are not given are those of the read-write lock.

        Raises TypeError or ValueError for an option that is not allowed.

        Example:
            >>> with locks.rwlock("book").read(wait=5) as lease:
            ...     lease.check()
        """
        return self._with("read", Kind.SHARED, options) if options else self._read

    def write(self, **options: "Unpack[LockOptions]") -> L:
        """A lock that excludes readers and writers. Options that are not given are those of the read-write lock.

        Raises TypeError or ValueError for an option that is not allowed.

        Example:
            >>> with locks.rwlock("book").write(ttl="10s") as lease:
            ...     lease.check()
        """
        if options:
            return cast(L, self._with("write", Kind.EXCLUSIVE, options))
        write = self._write
        if write is None:
            write = self._write = self._of(Kind.EXCLUSIVE, self._given)
        return write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self._read.options.ttl:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._locks, self._name, self._given)

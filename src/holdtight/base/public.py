"""What completion shows of a public object, and hints for words of other libraries that it does not have."""

from typing import TYPE_CHECKING, ClassVar, NoReturn

__all__ = ["Public", "PublicClient", "PublicLeader", "PublicLease", "PublicLock", "PublicReadWriteLock"]


class Missing:
    """A method that other libraries have. Using it raises an AttributeError that says what to use here instead."""

    __slots__ = ("_called", "_word")

    def __init__(self, called: str) -> None:
        self._called = called

    def __set_name__(self, owner: type, name: str) -> None:
        self._word = name

    def __get__(self, of: object, cls: type) -> NoReturn:
        from holdtight.base.habits import missing_method  # loaded when a call has failed, not with the package

        raise missing_method(cls.__name__, self._called, self._word, of)


class Public:
    """Objects of these classes have attributes that only holdtight uses: `dir()` leaves them out."""

    __slots__ = ()

    public: ClassVar[tuple[str, ...]] = ()

    def __dir__(self) -> list[str]:
        shown = {*self.public, *(name for name in object.__dir__(self) if name.startswith("__"))}
        return sorted(shown)


class PublicClient(Public):
    __slots__ = ()
    public: ClassVar[tuple[str, ...]] = (
        *("adopt", "audit", "bless", "doctor", "events", "force_release", "inspect", "leader", "list", "lock"),
        *("multi", "once", "rwlock", "semaphore", "single_flight", "synchronized"),
    )

    if not TYPE_CHECKING:
        for _word in ("Lock", "acquire", "disconnect", "redlock", "release"):
            vars()[_word] = Missing("client")


class PublicLock(Public):
    __slots__ = ()
    public: ClassVar[tuple[str, ...]] = ("acquire", "hold", "inspect", "locked", "name", "try_acquire")

    if not TYPE_CHECKING:
        for _word in ("extend", "owned", "reacquire", "read_lock", "release", "reset", "unlock", "write_lock"):
            vars()[_word] = Missing("lock")


class PublicReadWriteLock(Public):
    __slots__ = ()
    public: ClassVar[tuple[str, ...]] = ("inspect", "locked", "name", "read", "write")

    if not TYPE_CHECKING:
        for _word in ("acquire", "read_lock", "release", "write_lock"):
            vars()[_word] = Missing("rwlock")


class PublicLeader(Public):
    __slots__ = ()
    public: ClassVar[tuple[str, ...]] = ("campaign", "contenders", "current", "observe", "on_change", "run", "stop")

    if not TYPE_CHECKING:
        for _word in ("acquire", "cancel", "close", "is_leader", "lead", "release", "resign", "start"):
            vars()[_word] = Missing("leader")


class PublicLease(Public):
    __slots__ = ()
    public: ClassVar[tuple[str, ...]] = (
        *("acks", "check", "degraded", "detach", "downgrade", "fence", "fences", "kind", "lost", "name", "nodes"),
        *("on_lost", "owner", "reason", "release", "remaining", "renew", "ttl", "wait_lost"),
    )

    if not TYPE_CHECKING:
        for _word in ("acquire", "extend", "locked", "owned", "reacquire", "refresh", "token", "unlock"):
            vars()[_word] = Missing("lease")

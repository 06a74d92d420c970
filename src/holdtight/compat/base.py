"""The common base of both locks: everything that neither blocks nor awaits."""

import re
import threading
from typing import Any, NamedTuple

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import BACKOFF, boottime
from holdtight.base.error_texts import pointed
from holdtight.base.plan import LinkDown, Plan, ServerSaid
from holdtight.base.process import current
from holdtight.base.values import Owner
from holdtight.compat.access import Access, Reach, reach_of
from holdtight.compat.local import Held
from holdtight.compat.plans import give_signed
from holdtight.compat.unsigning import Unsigning
from holdtight.core.contend import Asking, Granted
from holdtight.errors import (
    ClockDrift,
    LockError,
    LockTimeout,
    NotOwner,
    NotPermitted,
    NotSupported,
    Unavailable,
)
from holdtight.keeper.charges import DeferredUndo
from holdtight.keeper.keeper import keeper
from holdtight.stores.redis import error_replies
from holdtight.stores.redis.plain_store import ARRIVAL_GRACE, Plain, Polled
from holdtight.stores.times import CONNECT_SECONDS, LONGEST_PATIENCE

__all__ = ["Attempt", "BaseLock", "Number", "undone"]

NOT_TO_BE_OVERRIDDEN = ("do_acquire", "do_release", "do_extend", "do_reacquire", "register_scripts")
SHORTEST_SLEEP = 0.001

Number = int | float


class Attempt(NamedTuple):
    """One call of `acquire`. `sleep` is the pause that it asks for, in place of the lock's own."""

    owner: Owner
    wait: float | None
    started: float
    sleep: Number | None = None


class BaseLock:
    """Has the attributes of redis-py's lock. As there, they may be changed while the lock is not held."""

    local: Any
    _asynchronous = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in vars(cls):
            if (name in NOT_TO_BE_OVERRIDDEN or name.startswith(("lua_", "LUA_"))) and not _is_ours(cls):
                raise TypeError(
                    f"{cls.__name__}.{name}: this lock does not call it, so it would have no effect; "
                    "override acquire, release, extend or reacquire"
                )

    def __init__(
        self,
        redis: Any,
        name: Any,
        timeout: Number | None = None,
        sleep: Number = 0.1,
        blocking: bool = True,
        blocking_timeout: Number | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self._reach: Reach = reach_of(redis)
        if self._reach.asynchronous is not self._asynchronous:
            other, kind = ("Lock", "a blocking") if self._asynchronous else ("AsyncLock", "an asyncio")
            raise TypeError(f"{type(redis).__name__} is {kind} client: use holdtight.compat.redis_py.{other} for it")
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local = self._new_local()
        self._prepared = self._prepare()
        self._epoch = current.epoch
        if not sleep >= 0:
            self._pause(sleep)

    def _new_local(self) -> Any:
        raise NotImplementedError

    @property
    def valkey(self) -> Any:
        """The client, under valkey-py's name for it."""
        return self.redis

    @property
    def _access(self) -> Access:
        return self._reach.access

    def _plain(self) -> Plain:
        """The prepared requests for the current name and timeout."""
        _, name, timeout = self._prepared
        if name is not self.name or timeout is not self.timeout:
            self._prepared = self._prepare()
        return self._prepared[0]

    def _prepare(self) -> tuple[Plain, Any, Number | None]:
        reach = self._reach
        return reach.access.prepare(reach.encode(self.name), self.timeout), self.name, self.timeout

    def _wait(self, blocking: bool | None, blocking_timeout: Number | None) -> float | None:
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        return None if limit is None else max(0.0, float(limit))

    def _pause(self, sleep: Number | None) -> float:
        """Seconds between two attempts."""
        seconds = self.sleep if sleep is None else sleep
        if not seconds >= 0:
            raise ValueError(f"sleep={seconds!r} must be a number of seconds, at least 0")
        return max(float(seconds), SHORTEST_SLEEP)

    def _asking(self, plain: Plain, attempt: Attempt) -> Asking:
        return Asking(
            question=Polled(plain, self._pause(attempt.sleep)),
            owner=attempt.owner,
            server=plain.server,
            started=attempt.started,
            wait=attempt.wait,
            connect_timeout=CONNECT_SECONDS,
            retry=BACKOFF,
            clock=boottime,
            or_none=True,
        )

    def _held(self, plain: Plain, owner: Owner, granted: Granted) -> Held:
        if not plain.ttl_ms:
            self._access.tell_of_no_end(plain)
        held = Held(owner, granted.grant.sent + plain.claim.ttl)
        held.late = granted.marker / 1000
        return held

    def _signed(self, plain: Plain, held: Held, text: bytes) -> Held:
        """The key now holds the caller's text. A late request may still set our owner; a deferred undo removes that."""
        if held.late:
            keeper().ask(DeferredUndo(self._access.place, plain.undo_step(held.owner, until=held.late)))
        signed = Held.chosen(text, held.until)
        signed.expiry, signed.unanswered = held.expiry, held.unanswered
        return signed

    def _mine(self, verb: str) -> Held:
        held: Held | None = self.local.find(self.local.asker())
        if held is None:
            raise self._not_held(verb)
        return held

    def _interrupted(self, plain: Plain, owner: Owner, held: Held | None, text: bytes | None) -> None:
        """Undoes a grant: an exception arrived after the server granted the lock and before the caller knew.

        With a text, only the unsigning releases the lock. A delete of the owner beside it could come first: another
        caller could acquire the lock under the same text then, and lose it to the unsigning.
        """
        place = self._access.place
        undo = DeferredUndo(place, plain.undo_step(owner, until=0.0 if held is None else held.late))
        if held is not None:
            self.local.drop(held)
        if held is None or text is None:
            keeper().ask(undo)
        elif (left := (held.until or 0.0) - boottime()) > 0:
            keeper().ask(Unsigning(place, plain, owner, text, left, undo if held.late else None))
        elif held.unique:
            keeper().ask(undo)

    def _not_entered(self, before: Held | None) -> None:
        """An interrupt arrived after the lock was acquired and before the caller knew. An earlier grant stays."""
        held: Held | None = self.local.find(self.local.asker())
        if held is not None and held is not before and held.by in (0, threading.get_ident()):
            self._interrupted(self._plain(), held.owner, held, None if held.unique else held.owner)

    def _let_go(self) -> None:
        """An interrupt arrived before the release was sent. The caller may never retry, so the keeper releases."""
        held: Held | None = self.local.find(self.local.asker())
        if held is not None and not held.giving:
            self._not_given_back(self._plain(), held)

    # The end of a grant.

    def _given_back(self, plain: Plain, held: Held, answer: object, asked_before: bool) -> None:
        """The server has answered. "Not ours" after a lost reply means that the earlier request released the lock."""
        self.local.drop(held)
        if answer != 1 and not (asked_before or held.giving):
            raise self._lost("release")
        if held.late and held.late > boottime():
            keeper().ask(DeferredUndo(self._access.place, plain.undo_step(held.owner, until=held.late)))
        line = self._reach.access.line
        if line.waiting:
            line.ring(plain.key)

    def _not_given_back(self, plain: Plain, held: Held) -> None:
        """The release got no answer: the keeper keeps trying. So may the caller, since the lock object keeps the grant.

        The keeper does not delete a text that the caller chose, since another caller may use the same text by then. It
        does delete the cover, which is unique.
        """
        place, cover = self._access.place, held.cover
        if held.unique:
            held.giving = True
            keeper().ask(DeferredUndo(place, plain.undo_step(held.owner, until=held.late)))
        elif cover is not None:
            held.giving = True
            until = boottime() + LONGEST_PATIENCE + ARRIVAL_GRACE
            if len(held.unanswered) <= (0 if held.covered else 1):
                keeper().ask(DeferredUndo(place, plain.undo_step(cover, until=until)))
            else:  # the lock must not be free before every open request has arrived, or can no longer arrive
                keeper().at(until, lambda _: keeper().ask(DeferredUndo(place, plain.undo_step(cover))))

    def _prolonged(self, verb: str, answer: int) -> None:
        if answer != 1:
            raise self._lost(verb)

    def _giving_signed(self, plain: Plain, held: Held) -> Plan[tuple[int, bool]]:
        former, held.cover, held.covered = held.cover, self._access.client.owner(), False
        return give_signed(plain, held, former, held.cover)

    def _may_extend(self, verb: str) -> Held:
        held = self._mine(verb)
        if self.timeout is None:
            raise self._error(
                "LockError",
                f"cannot {verb} lock {self.name!r}: it has no timeout and never expires, there is nothing to prolong. "
                "Give it a timeout if it should expire unless it is prolonged",
                NotSupported,
            )
        return held

    def _left_in_child(self, error: BaseException | None) -> bool:
        """True if a forked child leaves its parent's block: it has nothing to release, and must not mask the error that
        ends the block."""
        if self._epoch == current.epoch or not self.local.inherited:
            return False
        if self.local.find(self.local.asker()) is not None:
            return False
        if error is not None or not self.raise_on_release_error:
            get_logger().warning("the block of lock %r was left in a forked child, which does not hold it", self.name)
            return True
        return False

    def _tell_unreleased(self, error: BaseException) -> None:
        get_logger().warning("at the end of its block, lock %r could not be released: %s", self.name, error)

    # Errors: the classes are those of the client's library; the texts are ours, with our usual ending.

    def _error(self, kind: str, message: str, like: type[LockError]) -> Exception:
        """`like` is the error that holdtight's own locks raise in this case."""
        message = pointed(message, like.code)
        error: Exception = getattr(self._reach.errors, kind)(message)
        if kind.startswith("Lock"):
            vars(error).update(message=message, lock_name=self.name)
        return error

    def _not_acquired(self) -> Exception:
        return self._error(
            "LockError",
            f"lock {self.name!r} was not acquired: somebody else holds it. Wait longer (blocking_timeout=...), or do "
            "less under the lock",
            LockTimeout,
        )

    def _expired_while_acquired(self) -> Exception:
        return self._error(
            "LockError", f"lock {self.name!r} expired while it was being acquired: use a longer timeout", ClockDrift
        )

    def _not_held(self, verb: str) -> Exception:
        who = "task" if self._asynchronous else "thread"
        where = f"in this {who}; thread_local=False shares it with the others" if self.thread_local else "here"
        forked = "forked child, which owns nothing of its parent's"
        reason = f"this is a {forked}" if self.local.inherited else f"it is not held {where}"
        return self._error("LockError", f"cannot {verb} lock {self.name!r}: {reason}", NotOwner)

    def _lost(self, verb: str) -> Exception:
        return self._error(
            "LockNotOwnedError",
            f"cannot {verb} lock {self.name!r}: it is not ours any more, it expired or was deleted. The work under it "
            "may have overlapped with another holder's: look at what it wrote, and use a longer timeout or extend()",
            NotOwner,
        )

    def _translated(self, error: LockError | LinkDown | ServerSaid) -> Exception:
        """The exception that redis-py raises in place of this one."""
        cause = error.__cause__ if isinstance(error, LockError) else error
        plain, server = self._plain(), self._access.place.display
        if isinstance(error, LinkDown):
            error = Unavailable.because(plain.claim.name, server, error.cause)
        elif isinstance(error, ServerSaid):
            error = error_replies.meaning(error, name=plain.claim.name, server=server, key=plain.key)
        if isinstance(cause, ServerSaid):
            word = _WORDS.search(str(cause))
            # A permission error inside a script has no code of its own.
            other = "NoPermissionError" if isinstance(error, NotPermitted) else "ResponseError"
            kind = _KINDS[word[1]] if word else other
        elif isinstance(error, ClockDrift):
            kind = "LockError"
        else:
            kind = "ConnectionError" if isinstance(cause, LinkDown) and not cause.silent else "TimeoutError"
        return self._error(kind, error.message, type(error))


_KINDS = {
    "NOAUTH": "AuthenticationError",
    "WRONGPASS": "AuthenticationError",
    "NOPERM": "NoPermissionError",
    "READONLY": "ReadOnlyError",
    "LOADING": "BusyLoadingError",
    "OOM": "OutOfMemoryError",
}
# Redis 6.2 wraps the error of a command in a script into a longer text, so the code need not come first.
_WORDS = re.compile(rf"(?:^|[ :-])({'|'.join(_KINDS)}) ")


def undone(error: BaseException) -> bool:
    """True if we raised this error ourselves, after the plan had undone its attempt."""
    return isinstance(error.__cause__, (LockError, LinkDown, ServerSaid))


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("holdtight.compat.")

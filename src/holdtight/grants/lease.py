"""The part of a Lease that blocking and asyncio clients share: nothing here blocks, awaits or talks to a server."""

import base64
import binascii
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from holdtight.base import refusals
from holdtight.base.identity import Identity, OwnKey
from holdtight.base.names import check_name
from holdtight.base.public import PublicLease
from holdtight.base.values import OWNER_SIZE, Kind, LossReason, Owner, owner_text
from holdtight.errors import LeaseLost, NotOwner
from holdtight.grants.leak_warning import LeakWarning, dismiss, leak_warning_for
from holdtight.grants.tenure import Tenure

__all__ = ["GLANCE", "BaseLease", "Detached"]

GLANCE = 0.25
"""In seconds: `wait_lost` looks this often whether the lease was released, or lost while the machine was suspended."""

_MARK = "ht1."


class Detached(NamedTuple):
    """A held lock between two holders, as text."""

    name: str
    owner: Owner

    def text(self) -> str:
        import json

        body = json.dumps([self.name, owner_text(self.owner)], ensure_ascii=False)
        return _MARK + base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: object) -> "Detached":
        import json

        if not isinstance(text, str):
            raise TypeError(f"text must be a str that detach() gave, not {type(text).__name__}")
        try:
            if not text.startswith(_MARK):
                raise ValueError
            body = text[len(_MARK) :]
            name, owner = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            check_name(name)
            raw = base64.urlsafe_b64decode(owner)
            if len(raw) != OWNER_SIZE:
                raise ValueError
        except (ValueError, TypeError, RecursionError, binascii.Error):
            raise ValueError("text is not what detach() of a lease gave") from None
        return cls(name, raw)


class BaseLease(PublicLease):
    """One grant, as the user holds it."""

    closed = False
    """This handle has been released or handed over."""
    who: Identity | None = None
    """The identity that may enter this grant again, if it is re-entrant."""
    leak_warning: LeakWarning | None = None
    """Warns if the lease is dropped. None once this handle is closed, for a lease whose parts have their own, and for
    one that a `with` block keeps, which cannot be dropped."""
    successor: Any = None
    """The reader's lease that this one was downgraded to; the end of this lease's block releases it."""
    has_block = False
    """A block releases this lease at its end: `with lease`, `with lock` or `with lock.hold()`."""
    detached = False
    block_key: OwnKey | None = None
    """The key of the block of `with lease`."""

    def __init__(self, lock: Any, tenure: Tenure) -> None:
        self.lock = lock
        self.tenure = tenure
        self.leak_warning = leak_warning_for(tenure)

    @classmethod
    def again(cls, lock: Any, tenure: Tenure, who: Identity) -> Self:
        """Creates another handle on a grant that this identity enters again."""
        lease = cls.__new__(cls)
        lease.lock = tenure.stand_in or lock
        lease.tenure = tenure
        lease.who = who
        lease.leak_warning = warning = leak_warning_for(None)
        tenure.entered += 1  # no interrupt can come between this line and the next
        warning.tenure = tenure
        return lease

    @property
    def tenures(self) -> tuple[Tenure, ...]:
        """All tenures that must hold for this lease to hold; a multi-lock has more than one."""
        return (self.tenure,)

    @property
    def name(self) -> str:
        """The lock's name; of several locks, their names joined with " + ".

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.name
            'order:42'
        """
        return self.tenure.name

    @property
    def kind(self) -> Kind:
        """What is held: `Kind.EXCLUSIVE`, `SHARED` (a reader), `PERMITS` (a semaphore) or `MULTI` (several locks).

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.kind.value
            'exclusive'
        """
        return self.tenure.kind

    @property
    def owner(self) -> str:
        """The id of this acquisition, as other processes see it.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     len(lease.owner)
            32
        """
        return owner_text(self.tenure.owner)

    @property
    def fence(self) -> int:
        """Larger than the fence of every earlier grant of this name; pass it to the resource. Raises NotSupported if
        the lease is degraded.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.fence > 0
            True
        """
        if self.tenure.stand_in is not None:
            raise refusals.no_fence(self.name)
        return self.tenure.fence

    @property
    def fences(self) -> Mapping[str, int]:
        """The fence of each name; of several locks, all of them.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     list(lease.fences)
            ['order:42']
        """
        return {self.tenure.name: self.fence}

    @property
    def ttl(self) -> float:
        """Seconds that the server keeps the lock after each renewal.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.ttl
            30.0
        """
        return self.tenure.ttl

    def remaining(self) -> float:
        """Seconds that are still safe, by this machine's clock; 0 once lost or released.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.remaining() > 29
            True
        """
        return self.tenure.remaining() if not self.closed else 0.0

    @property
    def lost(self) -> bool:
        """Whether the lease is lost. Reads the clock and sends nothing; once True, it stays True.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.lost
            False
        """
        return self.tenure.lost()

    @property
    def reason(self) -> LossReason | None:
        """Why the lease was lost, as a `LossReason`; None if it is not lost.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     print(lease.reason)
            None
        """
        self.tenure.lost()
        return self.tenure.reason

    def check(self) -> None:
        """Raises LeaseLost if the lease is lost, NotOwner if it was released. No I/O: cheap enough for a loop.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     for chunk in (1, 2, 3):
            ...         lease.check()
        """
        tenure = self.tenure
        if tenure.lost():
            raise LeaseLost.because(tenure.name, tenure.reason, tenure.fence)
        if self.closed:
            raise NotOwner.on("rely on", tenure.name, None)

    def on_lost(self, callback: "Callable[[Any], object]") -> None:
        """Calls `callback(lease)` when the lease is lost, at once if it is lost already. Never runs it in the keeper.
        Raises TypeError if `callback` is not callable.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.on_lost(lambda lost: print("lost", lost.name))
        """
        if not callable(callback):
            raise TypeError(f"callback must be callable, not {type(callback).__name__}")
        cls, lock, tenure, me = type(self), self.lock, self.tenure, weakref.ref(self)

        def tell() -> object:
            # Must not keep the lease alive: a lease that is no longer referenced is not renewed.
            return callback(me() or cls(lock, tenure))

        tenure.on_loss(tell)

    @property
    def degraded(self) -> bool:
        """The server could not be reached when the lease was taken: it excludes other users in this process at most.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.degraded
            False
        """
        return self.tenure.stand_in is not None

    @property
    def acks(self) -> int:
        """How many replicas have acknowledged the grant, or its last renewal; 0 unless the client asks for `acks`.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.acks
            0
        """
        return self.tenure.acks

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers that hold it. Of a quorum, the nodes known to hold it: at least a majority.

        Example:
            >>> with locks.lock("order:42") as lease:
            ...     lease.nodes
            ('memory://',)
        """
        return () if self.degraded else self.tenure.nodes

    # The block of `with lease`. It counts as a block on the lock, as that of `with lock` does.

    @property
    def in_block(self) -> bool:
        return self.has_block or self.leak_warning is None

    def may_enter(self) -> None:
        """Raises RuntimeError if the lease was released or a block has it already. A lease that is lost is forsaken
        and raises LeaseLost: its body must not even begin."""
        if self.closed:
            raise RuntimeError(
                f"the lease on {self.name!r} has been released and cannot be entered: acquire the lock again"
            )
        if self.in_block:
            raise RuntimeError(
                f"the lease on {self.name!r} is in a with block already, which releases it at its end: a lease can be "
                "entered once"
            )
        if self.lost:
            self.forsake()
            self.check()

    def step_in(self, who: Identity, block: Any) -> None:
        """Enters `block`, which keeps this lease, into what this identity holds in blocks."""
        self.has_block = True
        self.block_key = OwnKey(self.lock.key)
        who.enter_block(self.block_key, block)

    def step_out(self, who: Identity) -> None:
        """Removes what `step_in` entered besides the block itself."""

    def share(self, who: Identity) -> None:
        """Lets this identity enter again."""
        self.who = who
        who.remember(self.lock.key, self.tenure)

    def shut(self) -> None:
        """Closes this handle after a proper end."""
        self.closed = True
        warning = self.leak_warning
        if warning is not None:
            warning.tenure = None  # first: an interrupt may come between any two of these lines
            self.leak_warning = None
            dismiss(warning)

    def _close(self) -> bool:
        """Ends this handle. True if it was the last one of its grant; the caller must then end the grant."""
        if self.closed:
            return False
        tenure = self.tenure
        tenure.entered -= 1  # no interrupt can come between this line and the next
        self.closed = True
        self.shut()
        if tenure.entered:
            return False
        if self.who is not None:
            self.who.forget(self.lock.key)
        return True

    def forsake(self) -> None:
        """Ends a lease after an interrupt, before the user had it or at its end. It is no longer renewed. The keeper
        releases the lock; if it cannot, the ttl ends the grant."""
        tenure = self.tenure
        if self.successor is not None:
            self.successor.forsake()
        elif self._close() or not (tenure.entered or tenure.ended):  # the latter: closed, and then interrupted
            self.lock.let_go(tenure)

    def watch(self) -> None:
        """The block that kept it disappeared without ending: from now on warn if nothing else refers to the lease."""
        if self.leak_warning is None and not self.closed:
            self.leak_warning = leak_warning_for(self.tenure)

    def _not_if_lost(self, verb: str) -> None:
        """A loss is final, whatever the server says. A forked child, which never owned it, is handled elsewhere."""
        reason = self.tenure.reason
        if reason is not None and reason is not LossReason.FORKED:
            raise NotOwner.on(verb, self.name, reason)

    def _may_detach(self) -> None:
        if self.degraded:
            raise refusals.detach_degraded(self.name)
        if self.kind is not Kind.EXCLUSIVE:
            raise refusals.detach_shared(self.name, self.kind.text)
        self._entered_once("detach")

    def _entered_once(self, verb: str) -> None:
        if self.tenure.entered != 1:
            raise refusals.entered_again(verb, self.name, self.tenure.entered)
        self.check()

    def _may_downgrade(self) -> None:
        if self.kind is not Kind.EXCLUSIVE:
            raise refusals.downgrade_a_reader(self.name)
        self._entered_once("downgrade")

    def _downgraded(self, lease: "BaseLease") -> None:
        """`lease` replaces this one, in its block and for its identity too."""
        before, after = self.tenure, lease.tenure
        before.ended = True
        after.ordinal = before.ordinal
        lease.has_block = self.in_block
        self.shut()
        if before.stand_in is not None:
            after.stand_in_by(lease.lock)
        self.successor = lease
        after.block, before.block = before.block, None
        if after.block is not None:
            after.block.lease = lease
        if self.who is not None:
            lease.share(self.who)

    def _what(self) -> str:
        """What is held: exclusive, read, or a number of permits, and the fence if there is one."""
        claim = self.tenure.prepared.claim
        kind = {Kind.SHARED: "read", Kind.PERMITS: f"{claim.n} permit{'s'[: claim.n > 1]}"}.get(claim.kind, "exclusive")
        return f"{kind} degraded" if self.degraded else f"{kind} fence={self.tenure.fence}"

    def _state(self) -> str:
        reason, left = self.reason, self.remaining()
        if reason is not None:
            return f"lost ({reason.value})"
        if self.closed:
            return "detached" if self.detached else "downgraded" if self.successor is not None else "released"
        return f"{left:.3g} s left" if left < float("inf") else "until released"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self._what()} {self._state()}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Lease cannot be pickled: two would own one grant. Hand it over with detach() and adopt()")

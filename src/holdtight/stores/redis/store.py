"""The Redis store: turns claims into Steps and replies into values. It contains no wait loop.

A `Prepared` claim caches the packed constant parts of its requests when they are needed more than once. The
uncontended path then only appends an owner and a time.
"""

from typing import TYPE_CHECKING, Any

from holdtight.base.clock import Drift
from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import (
    CLIENT_ID_SIZE,
    LISTED,
    Claim,
    Denied,
    Grant,
    Holder,
    Kind,
    LossReason,
    Outcome,
    Owner,
    Verdict,
    owner_text,
    shared,
)
from holdtight.errors import LockError
from holdtight.stores.client import Client
from holdtight.stores.redis import error_replies, keys, script
from holdtight.stores.redis.client_records import read_record, records_step, removal_request
from holdtight.stores.redis.inspection import exclusive_holder, read_inspection
from holdtight.stores.redis.multi import PreparedMulti
from holdtight.stores.redis.replies import read_refusal, read_release
from holdtight.stores.redis.resp import bulk, command
from holdtight.stores.times import LONGEST_PATIENCE, MARKER_SLACK_MS, TAIL_MS, marker_for

if TYPE_CHECKING:
    from holdtight.stores.redis.wait_records import Waits

__all__ = ["Prepared", "Shape", "Store"]

_MODES = {Kind.SHARED: "r", Kind.PERMITS: "p"}
_PREFIXES = "ask", "attempt"
_HOLE = keys.HOLE
_RENEWAL = b"%b" + keys.OF_A_RENEWAL + b"$24\r\n%b\r\n%b"


class Shape:
    """What all claims with the same options have in common, whatever their names. `claim` has no name."""

    __slots__ = ("_ends", "claim", "heads", "max_waiters", "patience", "starts", "store", "ttl_ms", "valid")

    def __init__(self, store: "Store", claim: Claim) -> None:
        self.store = store
        self.claim = claim
        store.client.outlived_by(claim.ttl)
        self.max_waiters = store.max_waiters
        self.valid = shared(store.drift.valid(claim.ttl))
        self.patience = min(self.valid, LONGEST_PATIENCE)
        self.ttl_ms = max(1, round(claim.ttl * 1000))
        mode = b""
        if claim.kind is Kind.EXCLUSIVE:
            start = script.attempt_script(claim.cohort).start
        else:
            start = script.SHARE.start
            mode = bulk(_MODES[claim.kind]) + bulk(claim.n) + bulk(claim.permits)
        self.starts = start, start, script.RELEASE.start, script.RELEASE.longer_start
        terms = mode + bulk(self.ttl_ms) + bulk(self.ttl_ms + TAIL_MS)
        label = bulk(claim.label or "")
        self._ends = terms + bulk(0) + label, terms + bulk(self.max_waiters) + label, b"", b""
        self.heads: dict[int, list[bytes]] = {}
        """Templates of `ask`, `attempt`, `release` and `release_by`, for each size of a main key."""

    def prepare(self, name: str) -> "Prepared":
        return Prepared(self, name)

    def heads_for(self, size: int) -> list[bytes]:
        found = [keys.template(start, size, end) for start, end in zip(self.starts, self._ends, strict=True)]
        self.heads[size] = found
        return found


class Prepared:
    """One claim on one store. Caches the packed prefixes of its requests from their second use on: a process may hold
    a hundred thousand locks that it acquires once."""

    __slots__ = ("_packed", "ask", "attempt", "main", "name", "release", "shape", "wanted")

    home: Any = None
    """The slot, on a cluster."""

    def __init__(self, shape: Shape, name: str) -> None:
        self.shape = shape
        self.name = name
        self.main = keys.main_key(shape.store.client.namespace, name)
        self.attempt: bytes | None = None
        self.ask: bytes | None = None
        """Like `attempt`, but does not join the queue."""
        self.release: bytes | None = None
        self._packed = 0
        """Bits for the prefixes that were packed at least once."""
        self.wanted = False
        """This name had waiters before, so it may have waiters again."""

    @property
    def store(self) -> "Store":
        return self.shape.store

    @property
    def claim(self) -> Claim:
        return self.shape.claim._replace(name=self.name)

    @property
    def valid(self) -> float:
        return self.shape.valid

    @property
    def patience(self) -> float:
        return self.shape.patience

    @property
    def max_waiters(self) -> int:
        return self.shape.max_waiters

    @property
    def ttl_ms(self) -> int:
        return self.shape.ttl_ms

    def pack_attempt(self, *, queue: bool) -> bytes:
        main, shape = self.main, self.shape
        packed = (shape.heads.get(len(main)) or shape.heads_for(len(main)))[queue].replace(_HOLE, main)
        if self._packed >> queue & 1:
            setattr(self, _PREFIXES[queue], packed)
        self._packed |= 1 << queue
        return packed

    def pack_release(self) -> bytes:
        main, shape = self.main, self.shape
        packed = (shape.heads.get(len(main)) or shape.heads_for(len(main)))[2].replace(_HOLE, main)
        if self._packed & 4:
            self.release = packed
        self._packed |= 4
        return packed

    def release_by(self, owner: Owner, inbox_word: bytes) -> bytes:
        """A release of a contended name: the next waiter's bell leaves before our reply (decision 0012)."""
        main, shape = self.main, self.shape
        heads = shape.heads.get(len(main)) or shape.heads_for(len(main))
        return b"%b$24\r\n%b\r\n%b" % (heads[3].replace(_HOLE, main), owner, inbox_word)

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys.beside(self.main)

    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step:
        """Asks for the lock; the same request serves as first attempt, confirmation and retry."""
        limit = self.store.not_after(now, patience)
        return Step(
            (self.attempt if queue else self.ask) or self.pack_attempt(queue=queue),
            b"$16\r\n%016d\r\n$24\r\n%b\r\n" % (limit, owner),
            self.store.read_attempt,
            patience=patience,
            limit=marker_for(limit),
        )

    def release_step(self, owner: Owner) -> Step:
        return Step(
            (self.release or self.pack_release()) + bulk(owner),
            None,
            read_release,
            patience=LONGEST_PATIENCE,
        )

    def marker_step(self, owner: Owner, marker: int) -> Step:
        """Leaves a marker for an owner that has released: refuses an attempt of it that is still under way, and
        releases the grant if the attempt has arrived already."""
        step = self.withdraw_step(owner, marker=marker)
        step.undo = False
        return step

    def read_release(self, reply: Any) -> "int | Denied | None":
        """None for an error reply, which proves nothing."""
        return None if isinstance(reply, Exception) else read_release(reply, 0.0)

    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step:
        return Step(
            script.WITHDRAW.head(*self.keys) + bulk(owner) + bulk(marker),
            None,
            read_release,
            patience=1.0,
            undo=True,
            otherwise=otherwise,
        )

    def sweep_step(self, owner: Owner) -> Step:
        """A withdrawal of an owner that is already gone: its only effect is to hand on a free name."""
        step = self.withdraw_step(owner)
        step.undo = False
        return step

    def renew_request(self, owner: Owner, now: float, ttl: float, patience: float) -> bytes:
        """Extends the time left, and never shortens it."""
        # One format operation: ten thousand renewals may be due at once.
        main, size = self.main, len(self.main)
        return _RENEWAL % (
            script.RENEW.start,
            size,
            main,
            size + 2,
            main,
            size + 2,
            main,
            owner,
            self.shape.store.renewal_terms(now, ttl, patience),
        )

    def set_request(self, owner: Owner, now: float, ttl: float, patience: float, ordinal: int, marker: int) -> bytes:
        """Sets the time left, which may shorten it. Refused after a request with the same or a higher ordinal."""
        names = self.keys
        terms = self.store.renewal_terms(now, ttl, patience)
        head = script.RENEW.longer_start + bulk(names.main) + bulk(names.waiters) + bulk(names.holders)
        return head + bulk(owner) + terms + bulk(self.store.marker_text(ordinal, marker))

    def read_renewal(self, reply: Any, sent: float) -> "Verdict | LossReason":
        """From the reply of `renew.lua`. Anything unexpected, error replies too, is Unknown."""
        if reply == 1 and reply.__class__ is int:
            return Verdict.RENEWED
        match reply:
            case [0, holder]:
                return LossReason.TAKEN if holder else LossReason.EXPIRED
            case [0, _, bytes(fence)] if fence:
                return LossReason.FORCED
            case [-1, int(now)]:
                self.store.client.learn(now / 1000, sent)  # it came late: the next will be in time
            case _:
                pass
        return Verdict.UNKNOWN

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        return script.TOUCH.head(*self.keys) + bulk(owner) + bulk(inbox)

    def arrival_limit(self, now: float, patience: float) -> int:
        """`not_after` of an attempt sent now, in ms and rounded up: a marker must outlive it."""
        return self.store.not_after(now, patience) // 1000 + MARKER_SLACK_MS

    def holder_step(self, holder: Owner, left: float) -> Step:
        """Reads host, pid and label of an owner, for error messages. Labels of shared holders are not looked up."""

        def read(reply: Any, sent: float) -> Holder:
            about = read_record(reply[0])
            found = exclusive_holder(reply[1], holder) or Holder(owner_text(holder))
            return found._replace(host=about.get("host"), pid=about.get("pid"), expires_in=left)

        record = keys.client_record(self.store.client.namespace, holder[:CLIENT_ID_SIZE])
        return Step(command("MGET", record, self.keys.main), None, read, patience=1.0)

    def is_passing(self, said: ServerSaid) -> bool:
        return error_replies.is_passing(said)

    def meaning(self, said: ServerSaid) -> LockError:
        return error_replies.meaning(
            said, name=self.claim.name, server=self.store.server, key=self.keys.main, kind=self.claim.kind
        )

    def adopt_step(self, old: Owner, owner: Owner, *, now: float) -> Step:
        limit = self.store.not_after(now, self.patience)
        label = bulk(self.claim.label or "")
        return Step(
            script.ADOPT.head(self.keys.main, self.keys.waiters)
            + bulk(old)
            + bulk(owner)
            + bulk(self.ttl_ms)
            + label
            + bulk(limit),
            None,
            self.store.read_attempt,
            patience=self.patience,
            limit=marker_for(limit),
        )

    def downgrade_step(self, owner: Owner, *, now: float, marker: bytes = b"") -> Step:
        """For a claim to read: turns the exclusive grant of `owner` into a shared one, without a gap. `marker`, from
        `marker_text`, refuses earlier requests of the writer."""
        limit = self.store.not_after(now, self.patience)
        return Step(
            keys.pack(script.DOWNGRADE.longer_start if marker else script.DOWNGRADE.start, self.main)
            + bulk(owner)
            + bulk(self.ttl_ms)
            + bulk(self.ttl_ms + TAIL_MS)
            + bulk(self.claim.label or "")
            + bulk(limit)
            + (bulk(marker) if marker else b""),
            None,
            self.store.read_attempt,
            patience=self.patience,
            limit=marker_for(limit),
        )

    def inspect_step(self, most: int = LISTED) -> Step:
        name = self.claim.name
        return Step(
            script.INSPECT.head(*self.keys) + bulk(most),
            None,
            lambda reply, sent: read_inspection(name, reply, most),
            patience=LONGEST_PATIENCE,
        )


class Store:
    """One namespace on one server."""

    def __init__(self, client: Client, *, server: str, drift: Drift, max_waiters: int) -> None:
        self.client = client
        self.server = server
        self.drift = drift
        self.max_waiters = max_waiters
        self._renewal_terms: tuple[object, bytes] = (None, b"")
        self._renewals_until = 0
        """The latest arrival limit of all renewals so far, in µs of the server's time."""

    def shape(self, claim: Claim) -> Shape:
        return Shape(self, claim)

    def prepare(self, claim: Claim) -> Prepared:
        return Shape(self, claim).prepare(claim.name)

    def several(self, parts: list[Prepared]) -> PreparedMulti:
        return PreparedMulti(parts)

    def not_after(self, now: float, patience: float) -> int:
        """The last time, in the server's µs, at which the server may carry out a request sent now."""
        return int((self.client.server_time(now) + patience) * 1e6)

    def renewal_terms(self, now: float, ttl: float, patience: float) -> bytes:
        """The last arguments of a renewal. Cached: renewals sent at the same time usually share them."""
        what = (now, ttl, patience, self.client.lead)
        known, packed = self._renewal_terms
        if known != what:
            ttl_ms = max(1, round(ttl * 1000))
            limit = self.not_after(now, patience)
            packed = b"%b%b$16\r\n%016d\r\n" % (bulk(ttl_ms), bulk(ttl_ms + TAIL_MS), limit)
            self._renewal_terms = (what, packed)
            if limit > self._renewals_until:
                self._renewals_until = limit
        return packed

    def marker_text(self, ordinal: int, marker: int) -> bytes:
        """A marker for lua/lib/mark.lua. It is valid as long as one of our renewals, or an attempt up to `marker` (ms),
        may arrive. Without an ordinal it refuses attempts only; b"" if there is nothing to refuse."""
        if not ordinal:
            return b"%013d" % marker if marker else b""
        return b"%013d%d" % (max(marker, marker_for(self._renewals_until)), ordinal)

    @property
    def waits(self) -> "Waits":
        from holdtight.stores.redis.wait_records import Waits  # loaded with the first client, not with the package

        return Waits(self)

    def records_step(self, owners: list[Owner], holding: int = 0) -> Step:
        return records_step(self.client, owners, holding)

    def removal_request(self) -> bytes:
        return removal_request(self.client)

    def meaning(self, said: ServerSaid, name: str | None) -> LockError:
        key = keys.main_key(self.client.namespace, name) if name else b""
        return error_replies.meaning(said, name=name, server=self.server, key=key)

    def has_not_run(self, reply: Any) -> bool:
        return script.is_unknown(reply)

    def read_attempt(self, reply: Any, sent: float) -> Outcome:
        if isinstance(reply, bytes):
            fence = int(reply)
            self.client.learn(fence / 1e6, sent)
            return Grant(fence, sent)
        if reply[0] == 1:
            _, fence, now, expired = reply
            self.client.learn(now / 1000, sent)
            return Grant(int(fence), sent, expired or None)
        self.client.learn(reply[1] / 1000, sent)
        return read_refusal(reply)

"""A driver controlled by the test, which decides the result of each Step and Park, and the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdtight.base.clock import Backoff, Drift
from holdtight.base.plan import Fan, LinkDown, Park, Plan, ServerSaid, Step, Wish
from holdtight.base.values import Claim, Holder, Owner, owner_text
from holdtight.core.contend import Answer, Asking, Granted, acquire
from holdtight.core.deadlock import Watch
from holdtight.errors import LockError
from holdtight.stores.redis import error_replies

R = TypeVar("R")

SHORT_PAUSES = Backoff(first="10ms", cap="20ms")
OWNER: Owner = b"o" * 24
HOLDER: Owner = b"h" * 24
SENT = LinkDown("the server closed the connection", sent=True)
UNSENT = LinkDown("connection refused", sent=False)
STALE = LinkDown("the server closed the connection", sent=True, stale=True)
LOADING = ServerSaid("LOADING Redis is loading the dataset in memory")


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Named(Step):
    """A Step that says what it is, for tests to read."""

    __slots__ = ("details", "owner", "verb")

    def __init__(
        self, verb: str, owner: Owner, *, undo: bool = False, otherwise: Step | None = None, **details: Any
    ) -> None:
        def read(reply: Any, sent: float) -> Any:
            return reply

        super().__init__(verb.encode(), None, read, patience=1.0, undo=undo, otherwise=otherwise)
        self.verb = verb
        self.owner = owner
        self.details = details

    def __repr__(self) -> str:
        return f"{self.verb}({self.details})"


class Lock:
    """The store as plans see it: a Question, an Ending and an Inspected in one."""

    def __init__(self, *, ttl: float = 10.0, max_waiters: int = 100) -> None:
        self.claim = Claim("orders", ttl)
        self.valid = Drift().valid(ttl)
        self.max_waiters = max_waiters

    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step:
        limit = self.arrival_limit(now, patience)
        step = Named("attempt", owner, now=now, patience=patience, queue=queue, limit=limit)
        step.limit = limit
        return step

    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step:
        return Named("withdraw", owner, undo=True, otherwise=otherwise, marker=marker)

    def sweep_step(self, owner: Owner) -> Step:
        return Named("sweep", owner)

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        return b"touch " + owner + b" " + inbox

    def arrival_limit(self, now: float, patience: float) -> int:
        return int((now + patience) * 1000) + 1

    def holder_step(self, holder: Owner, left: float) -> Step:
        return Named("holder", holder, left=left)

    def is_passing(self, said: ServerSaid) -> bool:
        return error_replies.is_passing(said)

    def meaning(self, said: ServerSaid) -> LockError:
        return error_replies.meaning(said, name=self.claim.name, server="redis://a", key=b"ht:{orders}")

    def read_release(self, reply: Any) -> Any:
        return None if isinstance(reply, Exception) else reply

    def release_step(self, owner: Owner) -> Step:
        return Named("release", owner)

    def downgrade_step(self, owner: Owner, *, now: float, marker: bytes = b"") -> Step:
        return self._limited(Named("downgrade", owner, now=now, marker=marker), now)

    def marker_step(self, owner: Owner, marker: int) -> Step:
        return Named("mark", owner, marker=marker)

    def adopt_step(self, old: Owner, owner: Owner, *, now: float) -> Step:
        return self._limited(Named("adopt", owner, old=old, now=now), now)

    def _limited(self, step: Named, now: float) -> Named:
        step.limit = self.arrival_limit(now, 2.0)
        return step

    def inspect_step(self, most: int = 500) -> Step:
        return Named("inspect", b"")

    def records_step(self, owners: list[Owner], holding: int = 0) -> Step:
        return Named("records", b"", owners=owners, holding=holding)


def named_holder(host: str = "worker-7") -> Holder:
    return Holder(owner_text(HOLDER), host=host, pid=42, expires_in=3.0)


_under_way: list[Run[Any]] = []


def end_all() -> None:
    while _under_way:
        _under_way.pop().end()


class Run(Generic[R]):
    """One plan under way. `wish` is what it waits for; `result` or `error` once it is done."""

    def __init__(self, plan: Plan[R], clock: Clock) -> None:
        self._plan = plan
        self.clock = clock
        self.wish: Wish | None = None
        self.seen: list[Wish] = []
        self.result: R | None = None
        self.error: BaseException | None = None
        self.done = False
        _under_way.append(self)
        self._go(lambda: self._plan.send(None))

    def _go(self, on: Callable[[], Wish]) -> None:
        assert not self.done, "the plan is over"
        try:
            self.wish = on()
        except StopIteration as stop:
            self.wish, self.result, self.done = None, stop.value, True
        except BaseException as error:
            self.wish, self.error, self.done = None, error, True
        else:
            self.seen.append(self.wish)

    def answer(self, value: Any, *, after: float = 0.0) -> Run[R]:
        """The Step or Park is answered; exceptions are thrown in, as a driver does."""
        self.clock.now += after
        if isinstance(value, BaseException):
            self._go(lambda: self._plan.throw(value))
        else:
            self._go(lambda: self._plan.send(value))
        return self

    def end(self) -> None:
        while not self.done:
            self.answer(KeyboardInterrupt("the test is over"))

    def sleeps(self) -> Park:
        assert isinstance(self.wish, Park), f"not parked but {self.wish or self.error or self.result!r}"
        return self.wish

    def until_due(self, value: Any = None) -> Run[R]:
        """The Park's time comes."""
        self.clock.now = self.sleeps().until
        return self.answer(value)

    def fans(self) -> Fan:
        assert isinstance(self.wish, Fan), f"asks no nodes but {self.wish or self.error or self.result!r}"
        return self.wish

    def asks(self, verb: str) -> Named:
        assert isinstance(self.wish, Named), f"asks nothing but {self.wish or self.error or self.result!r}"
        assert self.wish.verb == verb, f"asks {self.wish}, not {verb}"
        return self.wish

    def all(self, verb: str) -> list[Named]:
        return [each for each in self.seen if isinstance(each, Named) and each.verb == verb]


def ask(
    first: Answer | None = None,
    *,
    wait: float | None = None,
    limit: int = 0,
    lock: Lock | None = None,
    connect_timeout: float = 2.0,
    retry: Backoff = SHORT_PAUSES,
    or_none: bool = False,
    clock: Clock | None = None,
    watch: Watch | None = None,
) -> Run[Granted | None]:
    """An acquisition that continues from the result of its first attempt."""
    clock = clock or Clock()
    asking = asking_at(clock, lock=lock, wait=wait, connect_timeout=connect_timeout, retry=retry, or_none=or_none)
    asking.watch = watch
    return Run(acquire(asking, first, limit), clock)


def asking_at(
    clock: Clock,
    *,
    wait: float | None = None,
    lock: Lock | None = None,
    connect_timeout: float = 2.0,
    retry: Backoff = SHORT_PAUSES,
    or_none: bool = False,
) -> Asking:
    return Asking(
        question=lock or Lock(),
        owner=OWNER,
        server="redis://a",
        started=clock(),
        wait=wait,
        connect_timeout=connect_timeout,
        retry=retry,
        clock=clock,
        or_none=or_none,
    )

"""The event bus: passes lock events to the log and to subscribers.

The event classes are in events.py, which is loaded with the first client (see clients/loading.py).
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.callbacks import DEBUG, INFO, WARNING, get_logger, is_logged, tell

if TYPE_CHECKING:
    from holdtight.events import Event

__all__ = ["Events"]

Subscriber = Callable[[Any], object]
_LEVELS = dict.fromkeys(
    (
        *("Lost", "RenewalFailed", "ReleaseFailed", "PreviousExpired", "Degraded", "DeadlockFound", "KeeperLate"),
        *("HeldLong", "Forced", "NodeDown", "FailedOver", "RefreshFailed"),
    ),
    WARNING,
) | {"NodeUp": INFO}
"""All other events are logged at DEBUG."""


class Events:
    """The type of `locks.events`. While nothing listens, `loud` is False and the hot path creates no events.

    A recorder (ops/recorder.py) is not a subscriber. It gets tuples, which cost a tenth of an event. It does not set
    `loud`, because loud callers skip some fast paths. `active` is True if anything listens or records."""

    record: Callable[[tuple[Any, ...]], None] | None = None
    """Called with each record (base/records.py has their forms); None if nothing records."""

    def __init__(self, tell: Callable[..., None] = tell) -> None:
        self._tell = tell
        self.subscribers: tuple[Subscriber, ...] = ()
        self.loud = self.active = False
        self.waiting: dict[Any, Any] = {}
        """The lock objects of callers that wait in line, by the owner of the acquisition; only while `active`."""
        self._late_until = 0.0
        self._changing = threading.Lock()
        self.refresh()

    def refresh(self) -> None:
        """Updates `loud`. Called now and then, not for every lock: checking the log level costs time."""
        self.loud = bool(self.subscribers) or is_logged(DEBUG)
        self.active = self.loud or self.record is not None

    def subscribe(self, function: "Callable[[Event], object]") -> Callable[[], None]:
        """Calls `function` with every later event of this client. Returns a function that ends the subscription.
        Raises TypeError if `function` is not callable.

        Example:
            >>> from holdtight.events import Acquired
            >>> def tell(event):
            ...     if isinstance(event, Acquired):
            ...         print("acquired", event.name)
            >>> end = locks.events.subscribe(tell)
            >>> with locks.lock("order:42"):
            ...     pass
            acquired order:42
            >>> end()
        """
        if not callable(function):
            raise TypeError(f"a subscriber must be callable, not {type(function).__name__}")

        def entry(event: "Event") -> object:  # a new object each time: one function may subscribe twice
            return function(event)

        with self._changing:
            self.subscribers = (*self.subscribers, entry)
        self.refresh()

        def unsubscribe() -> None:
            with self._changing:
                self.subscribers = tuple(each for each in self.subscribers if each is not entry)
            self.refresh()

        return unsubscribe

    @property
    def wanted(self) -> bool:
        self.refresh()
        return self.loud

    def emit_later(self, event: "Event") -> None:
        """Emits in the callback thread; used by the keeper."""
        self._tell(self.emit, event)

    def tell_late(self, by: float, now: float, ttl: float) -> None:
        """Called by the keeper for each late renewal. Emits one event for all of them, until a whole ttl has passed
        without another."""
        if now >= self._late_until:
            self._tell(self._emit_late, by)
        self._late_until = max(self._late_until, now + ttl)

    def _emit_late(self, by: float) -> None:
        from holdtight.events import KeeperLate

        self.emit(KeeperLate("", "", by))

    def tell_node(self, node: str, cause: str | None) -> None:
        """Called by the code that connects. The server `node` is down because of `cause`; None means up again."""
        from holdtight.events import NodeDown, NodeUp

        self.emit_later(NodeUp("", "", node) if cause is None else NodeDown("", "", node, cause))

    def tell_failover(self, server: str, by: str) -> None:
        """Called by the code that follows failovers: `by` has replaced `server`."""
        from holdtight.events import FailedOver

        self.emit_later(FailedOver("", "", server, by))

    def emit(self, event: "Event") -> None:
        """Logs the event and calls the subscribers, in this thread."""
        kind = type(event).__name__
        level = _LEVELS.get(kind, DEBUG)
        if is_logged(level):
            from holdtight.base.showing import log_line

            line, filled, extra = log_line(event)
            get_logger().log(level, line, filled, extra=extra)
        raised: BaseException | None = None
        for subscriber in self.subscribers:
            try:
                subscriber(event)
            except Exception:
                get_logger().exception("an event subscriber failed on %r", event)
            except BaseException as error:  # sys.exit(), Ctrl-C: raise it after all subscribers were called
                raised = error
        if raised is not None:
            try:
                raise raised
            finally:
                del raised  # its traceback refers to this frame: break the cycle

# mypy: disable-error-code="import-untyped, misc, no-any-return"
# pyright: basic, reportMissingTypeStubs=false
# Celery has no types.
"""Celery: a base class of tasks that run under a lock, and run once however often the broker delivers them."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from celery import Task
from celery.exceptions import Ignore, Retry

from holdtight import LeaseLost, Locks, LockTimeout
from holdtight.base.callbacks import get_logger
from holdtight.base.jobs import Skipped
from holdtight.recipes.names import Naming

if TYPE_CHECKING:
    from holdtight import Duration

__all__ = ["LockedTask"]


class LockedTask(Task):
    """A task that runs under a lock. The options are arguments of `app.task`, or attributes of a subclass.

    Example:
        app = Celery(...)
        locks = Locks()

        @app.task(base=LockedTask, locks=locks, lock="order:{order_id}", once=True)
        def ship(order_id): ...
    """

    abstract = True

    locks: Locks | None = None
    """The client. By default one for $HOLDTIGHT_URL, shared by all tasks of the process."""
    lock: str | Callable[..., str] | None = None
    """The name, from the arguments of the task: a template or a callable. None for no lock."""
    on_busy: Literal["retry", "skip", "raise"] = "retry"
    """What to do while the lock is held: return the message to the queue for `busy_countdown` seconds, drop it, or fail
    with LockTimeout. A retry counts in `request.retries`."""
    busy_countdown: float = 1
    wait: "Duration | None" = 0
    """How long to wait for the lock first, in the worker."""
    ttl: "Duration" = 30
    """The price of a crash: the lock of a worker that was killed is free after this time."""
    once: bool = False
    """Each message runs once, also if the broker delivers it again (`acks_late`, `visibility_timeout`). A message is
    the task's id and the number of the retry. A copy that comes while the first one runs goes back to the queue, and is
    dropped once the first one has returned or has sent its retry. A run that raised, was killed or lost its lease does
    not count."""
    once_for: "Duration" = "24h"
    """How long a message is remembered; it must be longer than the broker can take to deliver it again."""

    _naming: Naming | None = None

    @classmethod
    def bind(cls, app: Any) -> Any:
        bound = super().bind(app)
        if cls.on_busy not in ("retry", "skip", "raise"):
            raise ValueError(f'on_busy={cls.on_busy!r} must be "retry", "skip" or "raise"')
        if cls.lock is not None and cls.run is not Task.run:
            cls._naming = Naming(cls.lock, cls().run, "lock")
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.request.called_directly:  # a plain call of the function, as in a test
            return self._locked(lambda: super(LockedTask, self).__call__(*args, **kwargs), args, kwargs)
        if not self.once:
            return self._locked(lambda: self.run(*args, **kwargs), args, kwargs)
        message, retries = self.request.id, self.request.retries
        decorate = self._client().once(
            lambda: f"celery:{message}:{retries}",
            per=lambda: "run",
            at_least=self.once_for,
            after_failure="retry",
            ttl=self.ttl,
            label=str(self.name)[:100],
        )
        retried: list[Retry] = []

        def once() -> Any:
            try:
                return self._locked(lambda: self.run(*args, **kwargs), args, kwargs)
            except Retry as retry:  # counts as a run that returned: the next message is on its way
                retried.append(retry)
                return None

        try:
            done = decorate(once)()
        except LeaseLost as lost:
            if not retried:
                raise
            retried[0].add_note(lost.message)
            done = None
        if retried:
            raise retried.pop()
        if not isinstance(done, Skipped):
            return done
        if done.why == "running":
            # The same message, not a retry: its run may still fail.
            again: Any = self.signature_from_request(args=args, kwargs=kwargs, countdown=1, retries=retries)
            again.apply_async()
        get_logger().info("task %s %s was delivered again: %s", self.name, message, done.why)
        raise Ignore  # leaves the result of the first run

    def _locked(self, run: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._naming is None:
            return run()
        lock = self._client().lock(self._naming.of(args, kwargs), wait=self.wait, ttl=self.ttl, label=self.request.id)
        try:
            lease = lock.acquire()
        except LockTimeout as busy:
            if self.on_busy == "retry" and not self.request.called_directly:
                raise self.retry(exc=busy, countdown=self.busy_countdown, max_retries=sys.maxsize) from None
            if self.on_busy == "skip":
                get_logger().info("task %s %s is skipped: %s", self.name, self.request.id, busy.message)
                return None
            raise
        with lease:
            return run()

    def _client(self) -> Locks:
        return self.locks if self.locks is not None else _default()


_shared: list[Locks] = []


def _default() -> Locks:
    if not _shared:
        _shared.append(Locks())
    return _shared[0]

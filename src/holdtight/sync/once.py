"""`Locks.once`."""

from collections.abc import Callable
from typing import Any

from holdtight.base.jobs import Run, Skipped
from holdtight.clients.decorating import begun
from holdtight.errors import LockError, LockTimeout
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.once import Once, OnceCall
from holdtight.sync.looking import look

__all__ = ["once"]


def once(locks: Any, options: dict[str, Any], given: dict[str, Any]) -> Callable[[Any], Any]:
    # Wrong options show at decoration.
    Once(locks, options, lambda: None, **{**given, "name": "any name", "per": None})

    def wrap(function: Any) -> Any:
        job = Once(locks, options, function, **given)

        def call(*args: Any, **kwargs: Any) -> Any:
            return _call(locks, job.call(args, kwargs), function, args, kwargs)

        def last(*args: Any, **kwargs: Any) -> Run | None:
            found = job.call(args, kwargs)
            seen: Run | None = locks.run(found.last(), found.name)
            return seen

        def forget(*args: Any, **kwargs: Any) -> None:
            found = job.call(args, kwargs)
            locks.run(found.forget(), found.name)

        return dressed(call, function, job.naming, last=last, forget=forget)

    return decorator("once", wrap, awaits=False)


def _call(locks: Any, call: OnceCall, function: Any, args: Any, kwargs: Any) -> Any:
    job = call.once
    skipped = call.within_itself()
    if skipped is None and call.recorded:
        skipped = _look(locks, call)
    if skipped is not None:
        return job.skip(skipped)
    lease: Any = None
    try:
        lease = call.lock.acquire(wait=job.wait)
    except LockTimeout as error:
        skipped = call.held(error)
    if skipped is not None:
        return job.skip(skipped)
    with lease:
        if not call.recorded:
            return begun(function(*args, **kwargs), function)
        owner, result, written, running = lease.tenure.owner, None, False, False
        try:
            found = locks.run(call.begin(owner), call.name)
            written = found is None
            if written:
                lease.check()  # it may have ended before the answer came
                running = True
                result = begun(function(*args, **kwargs), function)
        except BaseException as error:
            if written or not isinstance(error, LockError):  # else nothing is written
                locks.run(call.end(owner, error, started=running), call.name)
            raise
        if found is None:
            locks.run(call.end(owner, None), call.name)
            return result
        if not isinstance(found, Skipped):
            lease.tenure.lose(found)
            lease.check()
    return job.skip(found)


def _look(locks: Any, call: OnceCall) -> Skipped | None:
    """Whether the record alone decides."""
    records = call.records
    replies = look(locks, records.looks, call.name)
    if replies is not None:
        return call.decided(records.read_look(replies))
    skipped: Skipped | None = locks.run(call.look(), call.name)
    return skipped

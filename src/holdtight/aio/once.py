"""`AsyncLocks.once`."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from holdtight.aio.looking import look
from holdtight.base.jobs import Run, Skipped
from holdtight.clients.decorating import begun
from holdtight.errors import LockError, LockTimeout
from holdtight.recipes.decorating import decorator, dressed
from holdtight.recipes.once import Once, OnceCall

__all__ = ["once"]


def once(locks: Any, options: dict[str, Any], given: dict[str, Any]) -> Callable[[Any], Any]:
    # Wrong options show at decoration.
    Once(locks, options, lambda: None, **{**given, "name": "any name", "per": None})

    def wrap(function: Any) -> Any:
        job = Once(locks, options, function, **given)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await _call(locks, job.call(args, kwargs), function, args, kwargs)

        async def last(*args: Any, **kwargs: Any) -> Run | None:
            found = job.call(args, kwargs)
            seen: Run | None = await locks.run(found.last(), found.name)
            return seen

        async def forget(*args: Any, **kwargs: Any) -> None:
            found = job.call(args, kwargs)
            await locks.run(found.forget(), found.name)

        return dressed(call, function, job.naming, last=last, forget=forget)

    return decorator("once", wrap, awaits=True)


async def _call(locks: Any, call: OnceCall, function: Any, args: Any, kwargs: Any) -> Any:
    job = call.once
    skipped = call.within_itself()
    if skipped is None and call.recorded:
        skipped = await _look(locks, call)
    if skipped is not None:
        return await _skip(job, skipped)
    lease: Any = None
    try:
        lease = await call.lock.acquire(wait=job.wait)
    except LockTimeout as error:
        skipped = call.held(error)
    if skipped is not None:
        return await _skip(job, skipped)
    async with lease:
        if not call.recorded:
            return begun(await function(*args, **kwargs), function)
        owner, result, written, running = lease.tenure.owner, None, False, False
        try:
            found = await locks.run(call.begin(owner), call.name)
            written = found is None
            if written:
                lease.check()  # it may have ended before the answer came
                running = True
                result = begun(await function(*args, **kwargs), function)
        except BaseException as error:
            if written or not isinstance(error, LockError):  # else nothing is written
                await locks.run(call.end(owner, error, started=running), call.name)
            raise
        if found is None:
            await locks.run(call.end(owner, None), call.name)
            return result
        if not isinstance(found, Skipped):
            lease.tenure.lose(found)
            lease.check()
    return await _skip(job, found)


async def _skip(job: Once, skipped: Skipped) -> Any:
    told = job.skip(skipped)
    return await told if isawaitable(told) else told


async def _look(locks: Any, call: OnceCall) -> Skipped | None:
    """Whether the record alone decides."""
    records = call.records
    replies = await look(locks, records.looks, call.name)
    if replies is not None:
        return call.decided(records.read_look(replies))
    skipped: Skipped | None = await locks.run(call.look(), call.name)
    return skipped

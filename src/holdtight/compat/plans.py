"""Plans of the drop-in besides the wait loop, which is the one of `core/contend`."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdtight.clock import boottime
from holdtight.compat.local import Held
from holdtight.plan import LinkDown, Plan, ServerSaid, Step
from holdtight.redis.plain import FOR_EVER, Plain
from holdtight.values import Owner

__all__ = ["give_signed", "insist", "prolong", "sign"]


def insist(step: Step, again: Callable[[], Step | None], failed: LinkDown | None = None) -> Plan[tuple[Any, bool]]:
    """Asks, and once more after a connection that broke or stayed silent: the answer, and whether the first request
    may have been carried out. `failed` is what a first request has come to already; `again` gives None where asking
    twice could do something twice."""
    if failed is None:
        try:
            return (yield step), False
        except LinkDown as down:
            failed = down
    other = again() if failed.sent else step
    if other is None:
        raise failed
    return (yield other), failed.sent


def prolong(plain: Plain, held: Held, seconds: float, mode: str) -> Plan[Any]:
    """Time cannot be added twice: where the first answer is lost, the sum is set instead, reckoned by our own clock."""
    ms = int(seconds * 1000)
    step = plain.keep_step(held.owner, ms, mode)

    def again() -> Step | None:
        if mode != "add":
            return step
        if held.until is None or held.until == FOR_EVER:
            return None  # set by hand: when it ends is not known here
        whole = int((held.until - boottime()) * 1000) + ms
        return plain.keep_step(held.owner, whole, "replace") if whole > 0 else None

    answer, _ = yield from insist(step, again)
    return answer


def sign(plain: Plain, held: Held, text: bytes) -> Plan[bool]:
    """Puts the caller's own text under the key in the place of our owner. False if the lock was lost meanwhile.

    The lock is taken under an owner that nobody else has, and only then signed: two callers may well choose the same
    text, and after a lost answer neither could tell its own from the other's.
    """
    step = plain.sign_step(held.owner, text)
    try:
        answer, asked_before = yield from insist(step, lambda: step)
    except BaseException:
        held.undone = True
        left = (held.until or 0.0) - boottime()
        if left > 0:
            step = plain.unsign_step(held.owner, text, left)
            try:
                covered = (yield step) == 2
            except LinkDown:
                covered = False  # the keeper tries on, and then its time ends it
            except ServerSaid:
                held.undone = covered = False  # nothing is done yet
            if covered and step.then is not None:
                with suppress(LinkDown, ServerSaid):
                    yield step.then
        raise
    return answer == 1 or (answer == 2 and asked_before and boottime() < (held.until or 0.0))


def give_signed(plain: Plain, text: bytes, cover: Owner) -> Plan[tuple[int, bool]]:
    """The way back: an owner that nobody else has in the place of the text, then away with it. Asked twice, a plain
    delete could hit another's lock that has been taken under the same text meanwhile. As `insist`."""
    swap, give = plain.sign_step(text, cover), plain.give_step(cover)
    answer, asked_before = yield from insist(swap, lambda: swap)
    if answer == 0:
        return 0, asked_before
    yield from insist(give, lambda: give)
    return 1, asked_before

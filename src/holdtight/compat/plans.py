"""Plans of the drop-in besides the wait loop, which is the one of `core/contend`.

A request that writes and stayed unanswered may still arrive, until its limit. Until then it stays noted with what is
held (`Held.open`): no expiry is set that it would act on, and a text that others may choose is not free again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown, Park, Plan, Step
from holdtight.base.values import Owner
from holdtight.compat.local import Held, Unanswered
from holdtight.stores.redis.plain_store import CHANGED, LATE, NOT_OURS, Plain, Told

__all__ = ["give_signed", "insist", "prolong", "sign"]

MOST_TRIES = 10
CLOCK = "its clock and ours do not agree about the age of requests"
RESTLESS = "somebody else changes its expiry all the time"
SLACK_MS = 12
"""By so much an expiry may differ from the one that was asked for: see `avoid` in plain_keep.lua."""


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


def ask(plain: Plain, held: Held, make: Callable[[], Step], known: int | None) -> Plan[tuple[Told, LinkDown | None]]:
    """As `insist`, with a request that has an arrival limit: the answer, and what the first request came to if that may
    have been carried out. A request that came too late is made anew."""
    failed: LinkDown | None = None
    for _ in range(MOST_TRIES):
        step = make()
        under_way = Unanswered(step.limit, known)
        held.note(under_way)  # and not when it fails: whatever comes in between, it may arrive
        try:
            told: Told = yield step
        except LinkDown as down:
            if not down.sent:
                held.answered(under_way, 0)
            if failed is not None:
                raise
            failed = down
            continue
        except Exception:
            held.answered(under_way, 0)  # an error is an answer
            raise
        held.answered(under_way, told.now)
        if told.word != LATE:
            return told, failed if failed is not None and failed.sent else None
        plain.client.learn(told.now / 1000, told.sent)
    raise LinkDown(CLOCK, sent=True)


def _keep_step(plain: Plain, held: Held, ms: int, mode: str, known: int | None) -> Step:
    avoid = {each.known for each in held.open if each.known is not None}
    return plain.keep_step(held.owner, ms, mode, known, avoid)


def prolong(plain: Plain, held: Held, seconds: float, mode: str) -> Plan[int]:
    """Changes the expiry that is known here; where none is, or another stands there, it is asked for first. Time is
    added once: after a lost answer the expiry says whether it was."""
    ms = int(seconds * 1000)
    for _ in range(MOST_TRIES):
        known, held.expiry = held.expiry, None  # until there is an answer

        told, failed = yield from ask(plain, held, partial(_keep_step, plain, held, ms, mode, known), known)
        if told.word == NOT_OURS:
            return 0
        if told.word == CHANGED:
            if failed is None or known is None or mode != "add":
                held.expiry = told.expiry
                if not told.now and mode == "add":
                    ms, mode = told.expiry + ms, "replace"  # without the server's time, the sum is set
                continue
            if abs(told.expiry - known - ms) > SLACK_MS * (1 + len(held.open)):
                raise failed  # somebody else has changed it as well: whether time was added cannot be told
        held.expiry, held.until = told.expiry if told.now else None, told.until
        return 1
    raise LinkDown(RESTLESS, sent=False)


def sign(plain: Plain, held: Held, text: bytes) -> Plan[bool]:
    """Puts the caller's own text under the key in the place of our owner. False if the lock was lost meanwhile.

    The lock is taken under an owner that nobody else has, and only then signed: two callers may well choose the same
    text, and after a lost answer neither could tell its own from the other's.
    """
    told, failed = yield from ask(plain, held, lambda: plain.sign_step(held.owner, text), None)
    held.expiry = told.expiry if told.now else None
    return told.word == 1 or (told.word == 2 and failed is not None and boottime() < (held.until or 0.0))


def give_signed(plain: Plain, held: Held, former: Owner | None, cover: Owner) -> Plan[tuple[int, bool]]:
    """The way back: an owner that nobody else has in the place of the text, then away with it. As `insist`.

    The cover stays until nothing else that was sent for this text can arrive: it would act on the lock of another who
    has taken it under the same text."""
    asked_before = False
    for _ in range(MOST_TRIES):
        known = held.expiry
        unsign = partial(plain.unsign_step, former or cover, held.owner, cover, known)
        told, failed = yield from ask(plain, held, unsign, known)
        asked_before = asked_before or failed is not None
        if told.word == NOT_OURS:
            return 0, asked_before
        if told.word != CHANGED:
            break
        held.expiry = told.expiry  # changed by somebody who has the same text
    else:
        raise LinkDown(RESTLESS, sent=False)
    held.covered = True
    until = boottime() + (held.last_arrival - told.now) / 1000 if told.now else 0.0
    while boottime() < until:
        yield Park(cover, until)
    give = plain.give_step(cover)
    yield from insist(give, lambda: give)
    return 1, asked_before

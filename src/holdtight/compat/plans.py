"""The drop-in's plans, except for the wait loop, which is that of `core/contend`.

A write request without an answer may still arrive, until its arrival limit. Until then it stays in `Held.unanswered`:
no expiry is set that it would act on, and a lock with a text that other callers may choose is not released.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdtight.base.clock import boottime
from holdtight.base.plan import CLOCKS_DISAGREE, LinkDown, Park, Plan, Step
from holdtight.base.values import Owner
from holdtight.compat.local import Held, Unanswered
from holdtight.stores.redis.plain_store import CHANGED, LATE, NOT_OURS, Plain, Told

__all__ = ["give_signed", "insist", "prolong", "sign"]

MOST_REQUESTS = 10
RESTLESS = "another client changes its expiry all the time"
SLACK_MS = 12
"""How much an expiry may differ from the requested one: see `avoid` in plain_keep.lua."""


def insist(step: Step, again: Callable[[], Step | None], failed: LinkDown | None = None) -> Plan[tuple[Any, bool]]:
    """Sends a request, and a second one if the connection breaks or times out. Returns the answer, and whether the
    server may have carried out the first request. `failed` is the error of a first request that the caller has sent;
    `again` returns None where a repetition could act twice."""
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
    """Like `insist`, for requests with an arrival limit. Returns the answer, and the error of the first request if the
    server may have carried it out. If a request arrives late, a new one is built."""
    failed: LinkDown | None = None
    for _ in range(MOST_REQUESTS):
        step = make()
        under_way = Unanswered(step.limit, known)
        held.note(under_way)  # before it is sent: after any exception it may still arrive
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
            held.answered(under_way, 0)  # an error reply is an answer
            raise
        held.answered(under_way, told.now)
        if told.word != LATE:
            return told, failed if failed is not None and failed.sent else None
        plain.client.learn(told.now / 1000, told.sent)
    raise LinkDown(CLOCKS_DISAGREE, sent=True)


def _keep_step(plain: Plain, held: Held, ms: int, mode: str, known: int | None) -> Step:
    avoid = {each.known for each in held.unanswered if each.known is not None}
    return plain.keep_step(held.owner, ms, mode, known, avoid)


def prolong(plain: Plain, held: Held, seconds: float, mode: str) -> Plan[int]:
    """Changes the known expiry. If none is known, or the lock has another, asks for it first. Adds time only once:
    after a lost answer, the expiry tells whether the time was added."""
    ms = int(seconds * 1000)
    for _ in range(MOST_REQUESTS):
        known, held.expiry = held.expiry, None  # until there is an answer

        told, failed = yield from ask(plain, held, partial(_keep_step, plain, held, ms, mode, known), known)
        if told.word == NOT_OURS:
            return 0
        if told.word == CHANGED:
            if failed is None or known is None or mode != "add":
                held.expiry = told.expiry
                if not told.now and mode == "add":
                    ms, mode = told.expiry + ms, "replace"  # without the server's time: sets the sum
                continue
            if abs(told.expiry - known - ms) > SLACK_MS * (1 + len(held.unanswered)):
                raise failed  # another client changed it too: it is unknown whether the time was added
        held.expiry, held.until = told.expiry if told.now else None, told.until
        return 1
    raise LinkDown(RESTLESS, sent=False)


def sign(plain: Plain, held: Held, text: bytes) -> Plan[bool]:
    """Replaces our owner in the key by the caller's text. False if the lock was lost meanwhile.

    The lock is first acquired with a unique owner, and only then signed: two callers may choose the same text, and
    after a lost answer neither could tell whose lock it is.
    """
    told, failed = yield from ask(plain, held, lambda: plain.sign_step(held.owner, text), None)
    held.expiry = told.expiry if told.now else None
    return told.word == 1 or (told.word == 2 and failed is not None and boottime() < (held.until or 0.0))


def give_signed(plain: Plain, held: Held, former: Owner | None, cover: Owner) -> Plan[tuple[int, bool]]:
    """Releases a signed lock: replaces the text by a unique cover, then deletes the cover. Returns like `insist`.

    The cover stays until no earlier request for this text can arrive: such a request would act on the lock of another
    caller with the same text."""
    asked_before = False
    for _ in range(MOST_REQUESTS):
        known = held.expiry
        unsign = partial(plain.unsign_step, former or cover, held.owner, cover, known)
        told, failed = yield from ask(plain, held, unsign, known)
        asked_before = asked_before or failed is not None
        if told.word == NOT_OURS:
            return 0, asked_before
        if told.word != CHANGED:
            break
        held.expiry = told.expiry  # changed by another caller with the same text
    else:
        raise LinkDown(RESTLESS, sent=False)
    held.covered = True
    until = boottime() + (held.last_arrival - told.now) / 1000 if told.now else 0.0
    while boottime() < until:
        yield Park(cover, until)
    give = plain.give_step(cover)
    yield from insist(give, lambda: give)
    return 1, asked_before

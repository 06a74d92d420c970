"""`leader`: terms that end in time, and what both colours decide alike.

A term counts as lost `grace` before its lease ends on the server, unless it is renewed meanwhile. So its body has that
long to stop before there can be another leader, and two terms that pass `check()` never overlap.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import Drift, seconds
from holdtight.base.jobs import Leadership
from holdtight.base.names import check_label
from holdtight.base.plan import Plan
from holdtight.base.values import LockInfo, LossReason
from holdtight.clients.decorating import check_body
from holdtight.clients.terms import LockTerms
from holdtight.config.settings import Options
from holdtight.core.again import asked_in_time
from holdtight.errors import LeaseLost

__all__ = [
    "OVERRUN_EXIT",
    "TermLike",
    "block_left_elsewhere",
    "check_run",
    "check_work",
    "grace_of",
    "leadership",
    "proclaim",
    "term_lock",
    "term_of",
    "term_that_ends",
    "watch_overrun",
]

OVERRUN_EXIT = 76
"""The exit code of a process whose leader still ran when its lease had ended."""
WATCH_SECONDS = 0.5


def grace_of(grace: object, options: Options, drift: Drift) -> float:
    number = options.ttl / 5 if grace is None else seconds(grace, "grace")
    if options.ttl * drift.rate + drift.fixed + number >= options.ttl / 2:
        raise ValueError(
            f"grace={number:g} is too long for ttl={options.ttl:g}: together with the drift, less than half"
        )
    return number


def term_lock(locks: Any, name: str, options: Options, grace: float) -> Any:
    """A lock whose leases count as lost `grace` before they end."""
    terms = LockTerms(locks, options)
    drift = terms.drift
    terms.drift = Drift(drift.rate, drift.fixed + grace)
    terms.valid = terms.drift.valid(options.ttl)
    terms.degrades = False  # every process would lead
    return terms.lock_type(locks, name, terms)


class TermLike:
    """What a term has beyond a lease."""

    tenure: Any

    @property
    def since(self) -> float:
        """When the term began, in seconds of the server's time of day.

        Example:
            >>> with locks.leader("poller") as term:
            ...     term.since == term.fence / 1e6
            True
        """
        return float(self.tenure.fence) / 1e6

    def force(self) -> None:
        """The leader was stopped: the body learns that its term is lost."""
        self.tenure.lose(LossReason.FORCED)


def term_of(cls: Any, lease: Any, leader: Any) -> Any:
    """Turns a lease into a term. The lease object is closed and must not be used any more."""
    term = cls.__new__(cls)
    term.__dict__.update(lease.__dict__)
    term.leader = leader
    lease.closed, lease.leak_warning = True, None
    return term


def term_that_ends(entered: Sequence[Any], stack: Sequence[tuple[Any, Any]]) -> Any:
    """The term whose block ends here. Several threads or tasks may be in blocks of one leader, if the terms of the
    others are lost; `stack` has the blocks of this one. A block that is left elsewhere than it was entered is known if
    it is the only one; else None, since a wrong guess would give up a term that goes on."""
    terms = list(entered)
    for key, _ in reversed(stack):
        for term in terms:
            if term.block_key is key:
                return term
    return terms[0] if len(terms) == 1 else None


def block_left_elsewhere(name: str) -> RuntimeError:
    return RuntimeError(
        f"a block of the leader of {name!r} was left in another thread or task than it was entered in: use campaign() "
        "and resign() for that"
    )


def leadership(info: LockInfo) -> Leadership | None:
    if not info.holders:
        return None
    who = info.holders[0]
    return Leadership(who.fence or 0, who.owner, who.host, who.pid, who.label, who.since)


def proclaim(place: Any, name: str, tenure: Any, label: object) -> Plan[None]:
    text = check_label(label) or ""
    place.check_supports("proclaim", name)
    said = yield from asked_in_time(lambda: place.proclaim_step(name, tenure.owner, text))
    if isinstance(said, LossReason):
        tenure.lose(said)
        raise LeaseLost.because(name, said)


def watch_overrun(term: Any, grace: float, done: Callable[[], bool], on_overrun: str) -> None:
    """The work must end before the lease does, whatever the reason for which the term was lost. The keeper's thread
    looks: the work may block the thread or the loop that it runs in."""
    tenure, name = term.tenure, term.name  # not the term: it would never count as dropped
    keeper = tenure.place.runtime.keeper

    def look(now: float) -> None:
        if done():
            return
        if now < tenure.deadline + grace:  # it was renewed
            keeper.at(tenure.deadline + grace, look)
            return
        get_logger().error("leader %r: its work goes on, and its lease has ended", name)
        if on_overrun == "exit":
            os._exit(OVERRUN_EXIT)

    keeper.at(tenure.deadline + grace, look)


def check_work(fn: Any, name: str) -> bool:
    """Whether the work is async. Raises TypeError if a call would not do it, but only make a generator."""
    try:
        return check_body(fn, name)
    except TypeError:
        raise TypeError(
            f"leader {name!r}: a call of {fn!r} only makes an object, such as a generator, and does no work. "
            "Give run() a function that works while it is called, until term.lost"
        ) from None


def check_run(pause: object, on_error: object, on_overrun: object) -> float:
    if on_error not in ("raise", "campaign"):
        raise ValueError(f'on_error={on_error!r} must be "raise" or "campaign"')
    if on_overrun not in ("log", "exit"):
        raise ValueError(f'on_overrun={on_overrun!r} must be "log" or "exit"')
    return seconds(pause, "pause")

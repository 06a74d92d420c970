"""What a caller itself does for the recorder."""

from __future__ import annotations

from timeit import repeat

from bench.variants import Variant

PAIRS = 2000


def own(variant: Variant) -> float:
    """Microseconds for the records of a pair: the best of many runs, since others only add to it."""
    from bench.variants.holdtight import Holdtight
    from holdtight.base.records import ENDED, GRANTED

    assert isinstance(variant, Holdtight)
    locks = variant.locks
    events, clock = locks.events, locks.place.clock
    lease = locks.lock("own", ttl=30).acquire()
    tenure = lease.tenure

    def nothing() -> None:
        for _ in range(PAIRS):
            if events.active and events.active:
                pass

    def records() -> None:
        for _ in range(PAIRS):
            if events.active:
                if events.record is not None:
                    events.record((GRANTED, tenure, 0.0, 0.0, False))
                if events.loud:
                    pass
            if events.active:
                if events.record is not None:
                    events.record((ENDED, tenure, clock(), "released"))
                if events.loud:
                    pass

    spent = min(repeat(records, number=1, repeat=60)) - min(repeat(nothing, number=1, repeat=60))
    lease.release()
    return spent / PAIRS * 1e6

"""Leaders that resign or are killed, and those that follow."""

from __future__ import annotations

import threading
from time import CLOCK_MONOTONIC, clock_gettime

from bench.variants import Variant


def lead_until_killed(variant: Variant, *, name: str, ttl: float) -> None:
    """Leads until somebody kills the process."""
    from bench.variants.holdtight import Holdtight

    assert isinstance(variant, Holdtight)
    variant.locks.leader(name, ttl=ttl).campaign()


def follow(variant: Variant, *, name: str, ttl: float) -> float:
    """When the next term has begun, on the clock that all processes share."""
    from bench.variants.holdtight import Holdtight

    assert isinstance(variant, Holdtight)
    with variant.locks.leader(name, ttl=ttl, wait=60):
        return clock_gettime(CLOCK_MONOTONIC)


def waiting(variant: Variant, *, name: str) -> int:
    from bench.variants.holdtight import Holdtight

    assert isinstance(variant, Holdtight)
    return len(variant.locks.leader(name).contenders())


def resigned(variant: Variant, *, times: int) -> list[float]:
    """Milliseconds from before `resign` until the next term has begun."""
    from bench.variants.holdtight import Holdtight

    assert isinstance(variant, Holdtight)
    locks = variant.locks
    found: list[float] = []
    for number in range(times):
        name, begun = f"poller:{number}", list[float]()

        def wait(name: str = name, begun: list[float] = begun) -> None:
            with locks.leader(name, wait=60):
                begun.append(clock_gettime(CLOCK_MONOTONIC))

        term = locks.leader(name).campaign()
        waiter = threading.Thread(target=wait)
        waiter.start()
        while not locks.inspect(name).waiting:
            pass
        start = clock_gettime(CLOCK_MONOTONIC)
        term.resign()
        waiter.join()
        found.append((begun[0] - start) * 1000)
    return found

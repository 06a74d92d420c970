"""`test_cohort.py` runs this program in a child, and kills it."""

from __future__ import annotations

import threading

from holdtight import Locks


def print_fences(url: str) -> None:
    """Several threads pass a lock along, each printing its fence while it holds it."""

    def work() -> None:
        while True:
            with locks.lock("a", cohort=True, ttl=2) as lease:
                print(lease.fence, flush=True)

    with Locks(url) as locks:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

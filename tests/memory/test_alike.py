"""Random sequences of operations give the same answers in memory and on every real server.

The tests compare what a client sees: grants, errors, rising fences, holders and their permits.
tests/scripts/test_machine.py compares the scripts alone with the engine, reply by reply and with time passing.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdtight import LockError, Locks, NotOwner
from tests.support.servers import RunningServer

EXAMPLES = int(os.environ.get("HOLDTIGHT_EXAMPLES", "60"))
_numbers = itertools.count()

NAMES = ("a", "b")
kinds = st.sampled_from(
    ["lock", "read", "write", "permit 1 of 3", "permit 2 of 3", "permit 1 of 2", "both", "both read"]
)
steps = st.one_of(
    st.tuples(st.just("try"), st.sampled_from(NAMES), kinds),
    st.tuples(st.just("try"), st.sampled_from(NAMES), kinds),
    st.tuples(st.just("acquire"), st.sampled_from(NAMES), kinds),
    st.tuples(st.just("release"), st.integers(0, 9), st.none()),
    st.tuples(st.just("renew"), st.integers(0, 9), st.none()),
    st.tuples(st.just("downgrade"), st.integers(0, 9), st.none()),
    st.tuples(st.just("pass on"), st.integers(0, 9), st.none()),
    st.tuples(st.just("inspect"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("force"), st.sampled_from(NAMES), st.none()),
)


class Player:
    """Plays a sequence on one store, and records the answers without times and ids."""

    def __init__(self, locks: Locks, prefix: str) -> None:
        self._locks, self._prefix = locks, prefix
        self._held: list[Any] = []
        self._fences: dict[str, int] = {}

    def play(self, sequence: list[tuple[str, Any, Any]]) -> list[str]:
        try:
            return [self._told(*step) for step in sequence]
        finally:
            for lease in self._held:
                lease.release()

    def _told(self, verb: str, which: Any, kind: Any) -> str:
        if verb not in ("try", "acquire", "inspect", "force"):
            if not self._held:
                return "nothing"
            which = self._held[which % len(self._held)]
        try:
            return str(getattr(self, "_" + verb.replace(" ", "_"))(which, kind))
        except LockError as error:
            return f"{type(error).__name__} {error.code}"

    def _wanted(self, name: str, kind: str) -> tuple[Any, tuple[int, ...]]:
        locks, full = self._locks, self._prefix + name
        if kind.startswith("permit"):
            _, n, _, permits = kind.split()
            return locks.semaphore(full, permits=int(permits)), (int(n),)
        if kind == "both":
            return locks.multi(*(self._prefix + each for each in NAMES)), ()
        if kind == "both read":
            return locks.multi(*(locks.rwlock(self._prefix + each).read() for each in NAMES)), ()
        if kind == "lock":
            return locks.lock(full), ()
        book = locks.rwlock(full)
        return (book.read() if kind == "read" else book.write()), ()

    def _try(self, name: str, kind: str) -> str:
        lock, n = self._wanted(name, kind)
        return self._took(lock.try_acquire(*n))

    def _acquire(self, name: str, kind: str) -> str:
        lock, n = self._wanted(name, kind)
        return self._took(lock.acquire(*n, wait=0))

    def _took(self, lease: Any) -> str:
        if lease is None:
            return "denied"
        for name, fence in lease.fences.items():
            assert fence > self._fences.get(name, 0), "fences rise"
            self._fences[name] = fence
        self._held.append(lease)
        return f"granted {lease.kind} {sorted(each.removeprefix(self._prefix) for each in lease.fences)} {lease.ttl}"

    def _release(self, lease: Any, _: object) -> str:
        self._held.remove(lease)
        lease.release()
        return f"released {lease.lost} {lease.remaining()}"

    def _renew(self, lease: Any, _: object) -> str:
        lease.renew(25)
        return f"renewed {lease.ttl}"

    def _downgrade(self, lease: Any, _: object) -> str:
        at = self._held.index(lease)
        reader = lease.downgrade()
        self._held[at] = reader
        before, self._fences[reader.name] = self._fences[reader.name], reader.fence
        return f"downgraded {reader.kind} {reader.fence > before}"

    def _pass_on(self, lease: Any, _: object) -> str:
        text = lease.detach(20)
        self._held.remove(lease)
        return "adopted: " + self._took(self._locks.adopt(text))

    def _force(self, name: str, _: object) -> str:
        full = self._prefix + name
        hit = [lease for lease in self._held if full in lease.fences]
        if any(len(lease.fences) > 1 for lease in hit):
            return "left alone: what a multi-lock has besides comes free a moment later"
        record = self._locks.force_release(full, reason="why")
        if record is None:
            return f"nothing to force {len(hit)}"
        assert self._locks.audit(1) == [record]
        assert record.fence > self._fences[full]
        self._fences[full] = record.fence
        for lease in hit:
            self._held.remove(lease)
            with pytest.raises(NotOwner, match="by force"):
                lease.release()
        found = [(holder.kind, holder.n, holder.host, holder.pid, holder.waits_for) for holder in record.holders]
        return f"forced {record.kind} {found} {record.next} {len(hit)}"

    def _inspect(self, name: str, _: object) -> str:
        info = self._locks.inspect(self._prefix + name)
        holders = [(holder.kind, holder.n, holder.fence == self._fences.get(info.name)) for holder in info.holders]
        rising = [holder.fence or 0 for holder in info.holders]
        return f"{info.kind} {info.locked} {holders} {rising == sorted(rising)} {info.waiting}"


def test_memory_and_server_give_the_same_answers(server: RunningServer) -> None:
    with Locks(server.url, ttl=20) as real, Locks("memory://alike", ttl=20) as memory:

        @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(steps, min_size=4, max_size=40))
        def play(sequence: list[tuple[str, Any, Any]]) -> None:
            prefix = f"{next(_numbers)} "
            assert Player(memory, prefix).play(sequence) == Player(real, prefix).play(sequence)

        play()

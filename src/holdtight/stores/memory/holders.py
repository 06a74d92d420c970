"""The shared holders of a name, in the order of their expiry: the counterpart of the server's sorted set.

Every query of an attempt takes a bisection, or a sum over the holders with more than one permit.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Holder", "Holders"]

_AFTER_ALL = b"\xff" * 25
"""Sorts behind every owner with the same expiry."""


@dataclass(slots=True)
class Holder:
    """A reader, or a holder of permits; alive until `expiry` (ms)."""

    owner: bytes
    mode: str
    n: int
    fence: int
    label: bytes
    expiry: int


class Holders:
    # Invariant: _order is sorted, and has (expiry, owner) of each in _by_owner; _greedy has those of n > 1.
    __slots__ = ("_by_owner", "_greedy", "_order")

    def __init__(self) -> None:
        self._by_owner: dict[bytes, Holder] = {}
        self._order: list[tuple[int, bytes]] = []
        self._greedy: dict[bytes, Holder] = {}

    def __len__(self) -> int:
        """Includes expired holders that have not been removed."""
        return len(self._order)

    def __iter__(self) -> Iterator[Holder]:
        return (self._by_owner[who] for _, who in self._order)

    def __contains__(self, who: bytes) -> bool:
        return who in self._by_owner

    def get(self, who: bytes) -> Holder | None:
        return self._by_owner.get(who)

    def alive(self, who: bytes, now: int) -> Holder | None:
        holder = self._by_owner.get(who)
        return holder if holder and holder.expiry > now else None

    def add(self, holder: Holder) -> None:
        self.remove(holder.owner)
        self._by_owner[holder.owner] = holder
        insort(self._order, (holder.expiry, holder.owner))
        if holder.n > 1:
            self._greedy[holder.owner] = holder

    def remove(self, who: bytes) -> bool:
        holder = self._by_owner.pop(who, None)
        if holder is None:
            return False
        del self._order[bisect_right(self._order, (holder.expiry, who)) - 1]
        self._greedy.pop(who, None)
        return True

    def rearm(self, who: bytes, expiry: int, *, exact: bool) -> None:
        holder = self._by_owner[who]
        self.remove(who)
        holder.expiry = expiry if exact else max(expiry, holder.expiry)
        self.add(holder)

    def clear(self) -> None:
        self._by_owner.clear()
        self._order.clear()
        self._greedy.clear()

    def reap(self, now: int, most: int) -> list[bytes]:
        """Removes and returns at most `most` expired holders, oldest expiry first."""
        gone = [who for _, who in self._order[: min(most, self._dead(now))]]
        for who in gone:
            self.remove(who)
        return gone

    def count(self, now: int) -> int:
        """The number of live holders."""
        return len(self._order) - self._dead(now)

    def permits(self, now: int) -> int:
        """The number of permits that the live holders have."""
        return self.count(now) + sum(holder.n - 1 for holder in self._greedy.values() if holder.expiry > now)

    def first(self, now: int) -> Holder | None:
        """The live holder that expires first."""
        dead = self._dead(now)
        return self._by_owner[self._order[dead][1]] if dead < len(self._order) else None

    def last(self) -> Holder | None:
        """The holder with the latest expiry, expired or not."""
        return self._by_owner[self._order[-1][1]] if self._order else None

    def living(self, now: int, most: int) -> list[Holder]:
        """Live holders, earliest expiry first."""
        dead = self._dead(now)
        return [self._by_owner[who] for _, who in self._order[dead : dead + most]]

    def by_fence(self, now: int) -> list[Holder]:
        living = (self._by_owner[who] for _, who in self._order[self._dead(now) :])
        return sorted(living, key=lambda holder: holder.fence)

    def _dead(self, now: int) -> int:
        return bisect_right(self._order, (now, _AFTER_ALL))

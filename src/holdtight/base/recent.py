"""A cache of what was used last, in two small generations: clearing one large cache would stop a caller for a
millisecond."""

from typing import Generic, TypeVar

__all__ = ["YOUNG", "Recent"]

YOUNG = 512
"""A generation has so many entries. A cache has two."""

K = TypeVar("K")
T = TypeVar("T")


class Recent(Generic[K, T]):
    """Safe with threads: the worst that a race does is to forget an entry."""

    __slots__ = ("older", "young")

    def __init__(self) -> None:
        self.young: dict[K, T] = {}
        self.older: dict[K, T] = {}

    def get(self, key: K) -> T | None:
        """Raises TypeError for a key that cannot be hashed."""
        found = self.young.get(key)
        if found is None:
            found = self.older.get(key)
            if found is not None:
                self.put(key, found)  # used again: it belongs to the young ones
        return found

    def put(self, key: K, value: T) -> T:
        if len(self.young) >= YOUNG:
            self.older, self.young = self.young, {}
        self.young[key] = value
        return value

"""Values with an expiry, as a server keeps strings."""

__all__ = ["Shelf"]


class Shelf:
    """Times are ms. A value counts until its expiry has passed, as on a server."""

    def __init__(self) -> None:
        self._values: dict[bytes, tuple[bytes, int | None]] = {}
        self.added: list[bytes] = []
        """Keys that are new since the server last checked."""

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: bytes, value: bytes, until: int | None) -> None:
        if key not in self._values:
            self.added.append(key)
        self._values[key] = value, until

    def replace(self, key: bytes, value: bytes) -> None:
        """Keeps the expiry: SET with KEEPTTL."""
        self._values[key] = value, self._values[key][1]

    def expire(self, key: bytes, until: int) -> None:
        self._values[key] = self._values[key][0], until

    def get(self, key: bytes, now: int) -> bytes | None:
        value, until = self._values.get(key, (None, None))
        return value if until is None or now <= until else None

    def left(self, key: bytes, now: int) -> int:
        """As PTTL: -2 if there is no value, -1 if it stays for ever."""
        if self.get(key, now) is None:
            return -2
        until = self._values[key][1]
        return -1 if until is None else until - now

    def drop(self, key: bytes, now: int) -> bool:
        if self.get(key, now) is None:
            return False
        self._values[key] = b"", -1  # expired; the server drops it later
        return True

    def forget(self, key: bytes) -> None:
        self._values.pop(key, None)

    def time_left(self, now: int) -> dict[bytes, int | None]:
        found = {key: self.left(key, now) for key in self._values}
        return {key: None if left == -1 else left for key, left in found.items() if left != -2}

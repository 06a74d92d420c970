"""The plain store: one key per lock that holds its owner and nothing else, as redis-py and many other libraries do.

It has no fence, no queue and no client record: the server has only the key. `SET NX PX` acquires the lock, a checked
delete releases it. After a lost reply a script asks again: an owner that is the value of the key has the lock.
`compat/` uses this store.

Invariants about requests that their sender gave up and that arrive late:
- a take by script, a keep, a signing and an unsigning carry the time after which the server refuses them;
- a keep acts only if the lock has the expiry that its sender knew: an outdated keep neither shortens nor adds;
- a delete names an owner that was made for one acquisition, or a cover that was made for one release.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from holdtight.base.clock import DRIFT
from holdtight.base.plan import ServerSaid, Step
from holdtight.base.values import Claim, Denied, Grant, Late, Outcome, Owner
from holdtight.errors import LockError
from holdtight.stores.client import OWNERS_IN_A_DRAW, Client
from holdtight.stores.redis import error_replies
from holdtight.stores.redis.resp import bulk, command
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = [
    "ARRIVAL_GRACE",
    "CHANGED",
    "FOR_EVER",
    "LATE",
    "NOT_OURS",
    "PLAIN_SCRIPTS",
    "Deletion",
    "Plain",
    "PlainClient",
    "Polled",
    "Told",
]

FOR_EVER = float("inf")
ARRIVAL_GRACE = 2.0
"""How long a request may still arrive after its sender gave up waiting for the reply, in seconds."""
SHORTEST_PERSISTENCE = 5.0
LONGEST_PERSISTENCE = 60.0
PERSISTENCE_FOR_EVER = 3600.0
"""How long an undo is retried for a lock without a timeout: nothing else would end it."""
_NOISE_SIZE = 16

TAKE = Script("plain_take")
GIVE = Script("plain_give")
KEEP = Script("plain_keep")
SIGN = Script("plain_sign")
UNSIGN = Script("plain_unsign")
PLAIN_SCRIPTS = (TAKE, GIVE, KEEP, SIGN, UNSIGN)

NOT_OURS, LATE, CHANGED = 0, -1, -2
"""Reply codes of the scripts with an arrival limit. `CHANGED`: the lock has another expiry than the sender knew."""


class Told(NamedTuple):
    """The reply to a keep, a signing or an unsigning. The scripts' headers explain the other codes."""

    word: int
    expiry: int
    """The lock's expiry in the server's ms; -1 for never. If `now` is 0, the ms that are left."""
    now: int
    """The server's time in ms; 0 for a user without permission for TIME."""
    sent: float

    @property
    def until(self) -> float:
        """The earliest end of the lock, on our clock."""
        return FOR_EVER if self.expiry < 0 else self.sent + (self.expiry - self.now) / 1000


class PlainClient(Client):
    """Its owners are text, as in the other libraries that use the same keys: 32 hexadecimal digits."""

    known = False

    def __init__(self) -> None:
        super().__init__("ht")

    def owner(self) -> Owner:
        try:
            return self.owners.pop()
        except IndexError:
            noise = os.urandom(_NOISE_SIZE * OWNERS_IN_A_DRAW).hex().encode()
            size = 2 * _NOISE_SIZE
            fresh = [noise[at : at + size] for at in range(0, len(noise), size)]
            last = fresh.pop()
            self.owners.extend(fresh)
            return last


class Deletion:
    """Which checked delete a server supports. The first delete finds out, not a version number."""

    METHODS = (b"DELIFEQ", b"DELEX", b"script")
    SCRIPT = 2

    def __init__(self) -> None:
        self.method = 0
        self.proven = False

    def worked(self) -> None:
        self.proven = True

    def refused(self, method: int, reply: object) -> bool:
        """True if the server lacks this command, or forbids it to this user, and another method is left to try."""
        text = str(reply).lower()
        if method == self.SCRIPT or not ("unknown command" in text or "noperm" in text or "no permissions" in text):
            return False
        self.method, self.proven = method + 1, False
        return True

    def broke(self) -> None:
        """The connection ended without a reply: perhaps a proxy does not know the command."""
        if not self.proven:
            self.method = self.SCRIPT


class _Undo(Step):
    __slots__ = ("persistence", "until")


class Plain:
    """One key with one ttl. Keeps the packed parts of the requests that every acquisition sends."""

    __slots__ = (
        "_give",
        "claim",
        "client",
        "give_patience",
        "key",
        "patience",
        "server",
        "tail",
        "take",
        "ttl_ms",
        "valid",
    )

    def __init__(self, client: Client, server: str, key: bytes, ttl_ms: int | None) -> None:
        self.client = client
        self.server = server
        self.key = key
        self.ttl_ms = ttl_ms or 0
        ttl = ttl_ms / 1000 if ttl_ms else FOR_EVER
        self.claim = Claim(key.decode(errors="replace"), ttl)
        self.valid = DRIFT.valid(ttl) if ttl_ms else FOR_EVER
        # A lock without a ttl is taken by script, which refuses a request that arrives late.
        self.take = b"*6\r\n" + bulk("SET") + bulk(key) if ttl_ms else None
        self.tail = bulk("NX") + bulk("PX") + bulk(self.ttl_ms)
        self._give: list[bytes | None] = [None, None, None]
        self.patience = self.give_patience = LONGEST_PATIENCE

    def give(self, method: int) -> bytes:
        """A checked delete by that method, without its last argument, the owner."""
        found = self._give[method]
        if found is None:
            if method == Deletion.SCRIPT:
                found = GIVE.head(self.key)
            elif method == 0:
                found = b"*3\r\n" + bulk("DELIFEQ") + bulk(self.key)
            else:
                found = b"*4\r\n" + bulk("DELEX") + bulk(self.key) + bulk("IFEQ")
            self._give[method] = found
        return found

    def give_step(self, owner: Owner) -> Step:
        return _step(GIVE, self.key, owner)

    def undo_step(self, owner: Owner, *, until: float = 0.0, otherwise: Step | None = None) -> Step:
        """`until`: the time until which an attempt of this owner may still arrive."""
        step = _undo(GIVE, self.key, owner)
        step.otherwise = otherwise
        step.persistence = self._persistence(self.claim.ttl)
        step.until = until
        return step

    def _persistence(self, left: float) -> float:
        if self.ttl_ms:
            return min(max(SHORTEST_PERSISTENCE, left), LONGEST_PERSISTENCE)
        return PERSISTENCE_FOR_EVER

    def keep_step(self, owner: Owner, ms: int, mode: str, known: int | None, avoid: Iterable[int] = ()) -> Step:
        """`known`: the expiry to change; with None the server only tells it. `avoid`: expiries that must not be set."""
        avoided = " ".join(str(each) for each in sorted(avoid))
        return self._limited(KEEP, owner, ms, mode, _expiry(known), avoided)

    def sign_step(self, owner: Owner, text: bytes) -> Step:
        return self._limited(SIGN, owner, text)

    def unsign_step(self, former: Owner, text: bytes, cover: Owner, known: int | None) -> Step:
        """`former`: another value of ours that the key may have. `known`: the expiry, if known."""
        return self._limited(UNSIGN, former, text, cover, _expiry(known))

    def _limited(self, script: Script, *args: bytes | str | int) -> Step:
        """A step that the server refuses after its sender has given it up."""
        not_after = self.client.server_time(self.client.clock()) + LONGEST_PATIENCE
        step = _step(script, self.key, *args, int(not_after * 1e6))
        step.read = _told
        step.limit = int(not_after * 1000) + 1
        return step

    def look_step(self) -> Step:
        return Step(command("GET", self.key), None, _as_it_is, patience=LONGEST_PATIENCE)

    def arrival_limit(self, now: float, patience: float) -> int:
        """In ms of our own clock: the server does not use it."""
        return int((now + patience + ARRIVAL_GRACE) * 1000)


class Polled:
    """The wait loop's view of this lock: it attempts every `look` seconds."""

    max_waiters = 0

    def __init__(self, plain: Plain, look: float) -> None:
        self.plain = plain
        self.claim = plain.claim
        self.valid = plain.valid
        self._look = look

    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step:
        plain = self.plain
        client = plain.client
        look = self._look if queue else None
        not_after = int((client.server_time(now) + patience) * 1e6)

        def read(reply: Any, sent: float) -> Outcome:
            if reply == 1:
                return Grant(0, sent)
            if reply == 0:
                return self.denied(look)
            client.learn(reply[1] / 1000, sent)
            return Late()

        step = _step(TAKE, plain.key, owner, plain.ttl_ms, not_after)
        step.read = read
        step.patience = patience
        step.limit = plain.arrival_limit(now, patience)
        return step

    @staticmethod
    def denied(look: float | None) -> Denied:
        """Does not name the holder: its value is that owner's secret token."""
        return Denied(b"", 0.0, look)

    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step:
        return self.plain.undo_step(owner, until=marker / 1000, otherwise=otherwise)

    def is_passing(self, said: ServerSaid) -> bool:
        return error_replies.is_passing(said)

    def meaning(self, said: ServerSaid) -> LockError:
        plain = self.plain
        error = error_replies.meaning(said, name=self.claim.name, server=plain.server, key=plain.key)
        error.__cause__ = said
        return error

    # Only stores with a queue of waiters need these.

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        raise NotImplementedError("a plain store keeps no line")

    def holder_step(self, holder: Owner, left: float) -> Step:
        raise NotImplementedError("a plain store does not say who holds a lock")


def _step(script: Script, key: bytes, *args: bytes | str | int) -> Step:
    return Step(script.request((key,), *args), None, _as_it_is, patience=LONGEST_PATIENCE)


def _undo(script: Script, key: bytes, *args: bytes | str | int) -> _Undo:
    request = script.request((key,), *args)
    return _Undo(request, None, _as_it_is, patience=1.0, undo=True)


def _expiry(known: int | None) -> bytes | int:
    return b"" if known is None else known


def _told(reply: Any, sent: float) -> Told:
    word, expiry, now = reply
    return Told(word, expiry, now, sent)


_as_it_is: Callable[[Any, float], Any] = lambda reply, sent: reply  # noqa: E731

"""The scripts' verbs, run by the engine: arguments in the order of ARGV, replies in the form of RETURN."""

from collections.abc import Callable
from typing import Any

from holdtight.stores.memory.engine import Entry, Holder, Name
from holdtight.stores.redis import script, wait_records
from holdtight.stores.redis.fields import cut

__all__ = ["VERBS", "Verb", "attempt_cohort", "long_form", "take_all", "value_of"]

Verb = Callable[..., Any]

FAR = 1 << 62
"""An arrival limit that is never reached: `take_all` has checked the real one."""


def _short(name: Name, reply: Any) -> Any:
    """The short form of a grant where a script would return it, see `long_form`."""
    if reply[0] == 1 and not reply[3] and int(reply[1]) == name.now_us:
        return reply[1]
    return reply


def _attempt(
    name: Name, ttl: bytes, px: bytes, limit: bytes, label: bytes, inbox: bytes, not_after: bytes, owner: bytes
) -> Any:
    reply = name.attempt(owner, ttl=int(ttl), limit=int(limit), label=label, inbox=inbox, not_after=int(not_after))
    return _short(name, reply)


def attempt_cohort(
    name: Name, ttl: bytes, px: bytes, limit: bytes, label: bytes, inbox: bytes, not_after: bytes, owner: bytes
) -> Any:
    reply = name.attempt(owner, ttl=int(ttl), limit=int(limit), label=label, inbox=inbox, not_after=int(not_after))
    if reply[0] != 1 or not name.main:
        return reply
    short = _short(name, reply)
    first = b"%d" % name.reserve(name.main)
    return first if short is not reply else [1, first, *reply[2:]]


def _share(
    name: Name,
    mode: bytes,
    n: bytes,
    permits: bytes,
    ttl: bytes,
    px: bytes,
    limit: bytes,
    label: bytes,
    inbox: bytes,
    not_after: bytes,
    owner: bytes,
) -> Any:
    reply = name.share(
        owner,
        mode=mode.decode(),
        n=int(n),
        permits=int(permits),
        ttl=int(ttl),
        limit=int(limit),
        label=label,
        inbox=inbox,
        not_after=int(not_after),
    )
    return _short(name, reply)


def _release(name: Name, owner: bytes, inbox: bytes = b"", fence: bytes = b"0") -> Any:
    return name.release(owner, int(fence))


def _renew(
    name: Name, owner: bytes, ttl: bytes, px: bytes, not_after: bytes, marker: bytes = b"", fence: bytes = b"0"
) -> Any:
    return name.renew(owner, ttl=int(ttl), not_after=int(not_after), fence=int(fence), **_marker(marker))


def _withdraw(name: Name, owner: bytes, marker: bytes, inbox: bytes | None = None) -> Any:
    return name.withdraw(owner, int(marker), inbox)


def _touch(name: Name, owner: bytes, inbox: bytes, *kept: bytes) -> Any:
    return name.touch(owner, inbox, *map(int, kept))


def _adopt(name: Name, old: bytes, owner: bytes, ttl: bytes, label: bytes, not_after: bytes) -> Any:
    return name.adopt(old, owner, ttl=int(ttl), label=label, not_after=int(not_after))


def _downgrade(
    name: Name,
    owner: bytes,
    ttl: bytes,
    px: bytes,
    label: bytes,
    not_after: bytes,
    marker: bytes = b"",
    fence: bytes = b"0",
) -> Any:
    terms = {"ttl": int(ttl), "not_after": int(not_after), "fence": int(fence)}
    return name.downgrade(owner, label=label, **terms, **_marker(marker))


def _marker(text: bytes) -> dict[str, int]:
    """See lua/lib/mark.lua."""
    return {"marker": int(cut("UNTIL_OF", text) or 0), "ordinal": int(cut("ORDINAL_OF", text) or 0)}


def _blockers(name: Name, waiter: bytes) -> Any:
    return name.blockers(waiter)


def _inspect(name: Name, most: bytes) -> Any:
    _, fence, label, left, alive = name.inspect()
    number = int(most)
    line: list[bytes] = []
    for entry in alive[:number]:
        line += entry.owner, _entry(entry)
    sharing = name.sharing() if name.shared else []
    shared: list[Any] = []
    for holder in sharing[:number]:
        shared += holder.owner, _holder(holder), holder.expiry - name.now
    return [name.now, _value(name, fence, label), left, shared, line, len(name.line), len(sharing)]


def value_of(name: Name) -> bytes | None:
    """The value that the main key would have."""
    main = name.main
    return _value(name, main.fence, main.label) if main else None


def _value(name: Name, fence: int | None, label: bytes) -> bytes:
    main = name.main
    if fence is None or main is None:
        return b""
    flag = b"q" if len(name.line) else b"-"
    if main.owner is not None:
        return b"x1%b%b%016d%b" % (flag, main.owner, fence, label)
    return b"%b%b%016d" % ({"r": b"s1", "p": b"p1"}.get(main.mode, b"t1"), flag, fence)


def _holder(holder: Holder) -> bytes:
    return b"%b%09d%016d%b" % (holder.mode.encode(), holder.n, holder.fence, holder.label)


def _entry(entry: Entry) -> bytes:
    mark = b"m" if entry.passed_over else b"-"
    head = b"%b%b%013d%09d%013d" % (entry.mode.encode(), mark, entry.expiry, entry.ttl, entry.joined)
    wish = b"%09d%09d" % (entry.n, entry.permits) if entry.mode == "p" else b""
    return head + b"%02d%b%b%b" % (len(entry.inbox), entry.inbox, wish, entry.label)


def take_all(names: list[Name], args: list[bytes]) -> Any:
    """Like multi.lua: takes all names if each is available at once, or none."""
    now_us, now = names[0].now_us, names[0].now
    if now_us > int(args[0]):
        return [-1, now]
    owner, wishes = args[1], [args[at : at + 6] for at in range(2, len(args), 6)]
    for place, (name, (mode, n, permits, *_)) in enumerate(zip(names, wishes, strict=True), 1):
        if not name.is_for_the_asking(mode.decode(), int(n), int(permits)):
            return [0, now, place]
    fences: list[bytes] = []
    for name, (mode, n, permits, ttl, _, label) in zip(names, wishes, strict=True):
        how: dict[str, Any] = {"ttl": int(ttl), "limit": 0, "label": label, "inbox": b"", "not_after": FAR}
        if mode == b"x":
            reply = name.attempt(owner, **how)
        else:
            reply = name.share(owner, mode=mode.decode(), n=int(n), permits=int(permits), **how)
        fences.append(reply[1])
    return [1, now, *fences]


VERBS: dict[bytes, Verb] = {}
for _script, _verb in (
    (script.ATTEMPT, _attempt),
    (script.SHARE, _share),
    (script.RELEASE, _release),
    (script.RENEW, _renew),
    (script.WITHDRAW, _withdraw),
    (script.TOUCH, _touch),
    (script.ADOPT, _adopt),
    (script.DOWNGRADE, _downgrade),
    (script.INSPECT, _inspect),
    (wait_records.BLOCKERS, _blockers),
):
    VERBS[_script.sha.encode()] = VERBS[_script.body] = _verb


def long_form(reply: Any) -> Any:
    """Expands the bare fence. It means: granted now, the fence is the server's time, and no holder had expired."""
    return [1, reply, int(reply) // 1000, b""] if isinstance(reply, bytes) else reply

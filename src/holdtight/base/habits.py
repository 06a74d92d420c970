"""Hints for words of other libraries: what a keyword or method is called here, or why it is not needed.

Loaded when a call has failed, not with the package.
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["METHODS", "missing_method", "unknown_words"]

_TTL = 'the lock\'s lifetime is ttl=, in seconds or as a text such as "10s"; it is renewed while you hold the lock'
_WAIT = "how long to wait is wait=, in seconds: 0 does not wait, None waits for ever"
_WHICH_SERVER = 'the server is the first argument, as a URL: "redis://user:password@host:6379/0"'
_NO_POLLING = "leave it out: waiters do not poll, the server wakes them in order"
_OWNER = "leave it out: every grant has its own owner and fence; lease.detach() and locks.adopt() hand one over"

_WORDS: dict[str, str] = {
    "timeout": _TTL,
    "lock_timeout": _TTL,
    "expire": _TTL,
    "expiry": _TTL,
    "expires": _TTL,
    "lease_time": _TTL,
    "auto_release_time": _TTL,
    "px": _TTL,
    "ex": _TTL,
    "lease_duration": _TTL,
    "ttl_ms": 'milliseconds are written as a text: ttl="250ms"',
    "blocking_timeout": _WAIT,
    "wait_time": _WAIT,
    "acquire_timeout": _WAIT,
    "max_wait": _WAIT,
    "retry_times": _WAIT,
    "retry_count": _WAIT,
    "blocking": "wait=0 does not wait and raises LockTimeout; try_acquire() returns None instead",
    "sleep": _NO_POLLING,
    "retry_delay": _NO_POLLING,
    "retry_interval": _NO_POLLING,
    "thread_local": "leave it out: a lease is an object of its own, which any thread may release",
    "auto_renewal": "renew=, which is True unless you say otherwise",
    "auto_extend": "renew=, which is True unless you say otherwise",
    "watchdog": "renew=, which is True unless you say otherwise",
    "token": _OWNER,
    "id": _OWNER,
    "owner": _OWNER,
    "strict": "leave it out: only the holder of a lease can release it",
    "raise_on_release_error": "leave it out: the end of a block raises LeaseLost if the lease was lost, and never "
    "hides an exception of its body",
    "limit": "the number of permits is permits=",
    "value": "the number of permits is permits=",
    "max_leases": "the number of permits is permits=",
    "n": "the number of permits is permits= here; n= is how many acquire() takes of them",
}
_ONCE = {
    "at_most": "ttl= is how long a crash blocks the job: it is renewed while the job runs. max_hold= limits the run",
    "every": "at_least= is how long after a start no other body starts; it does not call the function",
    "interval": "at_least= is how long after a start no other body starts; it does not call the function",
    "timeout": "wait= is how long to wait for a run that is on; ttl= how long a crash blocks the job",
    "reentrant": "leave it out: a call of the job within itself is skipped",
}
_KEPT = "ttl= is how long a value is fresh; lease_ttl= is the lifetime of the lock"
_FLIGHT = {
    **dict.fromkeys(("expire", "expiration_time", "timeout"), _KEPT),
    **dict.fromkeys(("lock_timeout", "renew"), "lease_ttl= is the lifetime of the lock; it is renewed meanwhile"),
    "maxsize": "max_size= is the most bytes of one value; how many are kept is up to the server",
    "serializer": "codec=, an object with dumps and loads",
}
_LEADER = {
    "lease_duration": "ttl=, how long after the end of a process another may lead",
    "renew_deadline": "grace=: a term counts as lost that long before its lease ends",
    "renew": "leave it out: a term is renewed while it lasts",
    "identifier": "label=, which leader.current() and contenders() show",
    "identity": "label=, which leader.current() and contenders() show",
    "data": "label=, which leader.current() and contenders() show",
}
_SET = "its first argument: the time left from now on. It sets, and never adds"
_RENEW: dict[str, str] = dict.fromkeys(
    ("timeout", "additional_time", "expire", "lock_ttl", "replace_ttl", "new_ttl", "seconds"), _SET
)
_CAMPAIGN = {
    "timeout": _WAIT,
    "blocking": "wait=0 does not wait, and raises LockTimeout",
    "ttl": "ttl= belongs to the leader: locks.leader(name, ttl=...)",
}
_RUN = {
    **dict.fromkeys(
        ("timeout", "ttl", "wait", "label"), "ttl=, wait= and label= belong to the leader: locks.leader(name, ttl=...)"
    ),
    "interval": "pause= is how long it waits between two terms",
}
_DETACHED = "ttl= is the time for adopting"
_OF_A_CALL = {"timeout": _WAIT, "ttl": "ttl= belongs to the lock: locks.lock(name, ttl=...)"}
_OF_A_CLIENT = {
    "timeout": "connect_timeout= limits connecting; ttl= is the lifetime of locks; wait= how long callers wait",
    "socket_timeout": "leave it out: every request has a limit that follows from ttl and wait",
    "socket_connect_timeout": "connect_timeout= limits connecting",
    "decode_responses": "leave it out: holdtight reads the replies itself",
    "url": _WHICH_SERVER,
    "host": _WHICH_SERVER,
    "port": _WHICH_SERVER,
    "db": _WHICH_SERVER,
    "redis": "a redis-py or valkey-py client may be given as the first argument",
    "client": "a redis-py or valkey-py client may be given as the first argument",
    "servers": "a list of URLs as the first argument is a quorum",
    "nodes": "a list of URLs as the first argument is a quorum",
    "password": "credentials=, a password or (user, password), or in the URL",
    "username": "credentials=, a password or (user, password), or in the URL",
    "ssl": "rediss:// in the URL, or tls= with an ssl.SSLContext",
    "prefix": "namespace=",
    "key_prefix": "namespace=",
    "max_hold": "max_hold= belongs to the lock, or to a Profile",
    "renew": "renew= belongs to the lock, or to a Profile",
    "reentrant": "reentrant= belongs to the lock",
}
"""Words that mean something else to this call."""
_OF: dict[str, dict[str, str]] = {
    "Locks": _OF_A_CLIENT,
    "AsyncLocks": _OF_A_CLIENT,
    "acquire": _OF_A_CALL,
    "hold": _OF_A_CALL,
    "campaign": _CAMPAIGN,
    "run": _RUN,
    "once": _ONCE,
    "single_flight": _FLIGHT,
    "leader": _LEADER,
    "renew": _RENEW,
    "detach": dict.fromkeys(("timeout", "expire", "wait"), _DETACHED),
}
METHODS: dict[str, dict[str, str]] = {
    "lock": {
        "release": "a lock is configuration, its lease is what you hold: lease = lock.acquire(); lease.release(). "
        "A with block releases by itself",
        "extend": "renewal is automatic; lease.renew(ttl) sets the time left",
        "reacquire": "renewal is automatic; lease.renew() sets the time left to the ttl again",
        "owned": "ask the lease: not lease.lost, or lease.check(), which raises",
        "unlock": "lease.release(), or a with block",
        "reset": "locks.inspect(name) shows the holder; locks.force_release(name, reason=...) takes the lock from it",
        "read_lock": "locks.rwlock(name).read()",
        "write_lock": "locks.rwlock(name).write()",
    },
    "rwlock": {
        "acquire": "its .read() and its .write() each return a lock: with locks.rwlock(name).read() as lease",
        "release": "lease.release(), or a with block",
        "read_lock": "read()",
        "write_lock": "write()",
    },
    "lease": {
        "extend": "lease.renew(ttl) sets the time left; renewal is automatic",
        "reacquire": "lease.renew() sets the time left to the ttl again; renewal is automatic",
        "refresh": "lease.renew(); renewal is automatic",
        "unlock": "lease.release()",
        "acquire": "the lease is held already; the lock has acquire()",
        "owned": "not lease.lost, or lease.check(), which raises",
        "locked": "not lease.lost; lock.locked() says whether anybody holds the lock",
        "token": "lease.owner, or lease.fence for the resource",
    },
    "leader": {
        "acquire": "term = leader.campaign(), or a with block: with leader as term",
        "lead": "with leader as term, or leader.run(fn), which campaigns again",
        "start": "leader.run(fn) calls fn(term) whenever it leads; it blocks: give it a thread, or a task",
        "is_leader": "ask the term: not term.lost, or term.check(), which raises. leader.current() says who leads",
        "release": "term.resign() ends one term, leader.stop() ends run()",
        "resign": "term.resign() ends one term, leader.stop() ends run()",
        "cancel": "leader.stop() ends run()",
        "close": "leader.stop() ends run()",
    },
    "client": {
        "acquire": "locks.lock(name).acquire()",
        "release": "lease.release(), or a with block: with locks.lock(name) as lease",
        "Lock": "locks.lock(name)",
        "redlock": "a list of URLs makes a quorum: Locks([url, url, url]).lock(name)",
        "disconnect": "locks.close(), or await locks.aclose() with AsyncLocks",
    },
}


def unknown_words(call: str, given: Iterable[str], known: Iterable[str]) -> TypeError:
    """The error for keywords that a call does not have."""
    word = next(iter(given))
    hint = _OF.get(call, {}).get(word) or _WORDS.get(word, "")
    if not hint:
        close = get_close_matches(word, list(known), 1, 0.7)
        hint = f"do you mean {close[0]}=?" if close else f"it has {', '.join(f'{each}=' for each in known)}"
    return TypeError(f"{call}() has no argument {word!r}: {hint}")


def missing_method(cls: str, called: str, word: str, of: object) -> AttributeError:
    """The error for a method that other libraries have. `called` is client, lock, rwlock, leader or lease."""
    return AttributeError(f"{cls!r} object has no attribute {word!r}: {METHODS[called][word]}", name=word, obj=of)

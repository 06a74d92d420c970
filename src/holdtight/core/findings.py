"""What `doctor` may find: how bad each finding is, what it means for locks, and what to change."""

from typing import Any

from holdtight.base.operations import Finding, Severity

__all__ = ["TABLE", "finding", "online_replicas"]

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

TABLE: dict[str, tuple[Severity, str, str]] = {
    "UNREACHABLE": (_ERROR, "No lock can be had there", "Start the server, or correct its address"),
    "REFUSED": (_ERROR, "No lock can be had there", "Correct the user and the password"),
    "RIGHT_MISSING": (
        _ERROR,
        "Locks raise NotPermitted",
        "Give the user the rights that docs/permissions.md lists",
    ),
    "NOT_KNOWN": (_NOTE, "Some checks were not made", "Check the server's settings yourself, or grant the right"),
    "OLD_SERVER": (_ERROR, "Scripts fail there", "Upgrade to Redis 6.2 or newer, or to Valkey"),
    "RESP2_ONLY": (
        _WARNING,
        "Waiters cannot be woken: they look now and then, so a hand-over takes longer",
        "Connect without the proxy that speaks RESP2 only, and without protocol=2",
    ),
    "READ_ONLY": (_ERROR, "A replica takes no writes, so no lock can be had", "Use the address of its master"),
    "EVICTION": (
        _ERROR,
        "Under pressure the server deletes held locks: two holders at a time",
        "Set maxmemory-policy noeviction, or give locks a server of their own",
    ),
    "MEMORY_FULL": (
        _WARNING,
        "A full server refuses new locks; held ones are still renewed",
        "Give it more memory, or delete what is not needed",
    ),
    "CLIENTS_NEAR_LIMIT": (
        _WARNING,
        "At the limit no further process can connect, so it gets no lock",
        "Raise maxclients, or find out which programs hold the connections",
    ),
    "NO_PERSISTENCE": (
        _WARNING,
        "A restart frees all locks while their holders go on until their leases end",
        "Turn on appendonly, or check the fence at the resource",
    ),
    "EMPTY_RESTART": (
        _ERROR,
        "A master that restarts empty makes its replicas empty too: all locks are free while their holders go on",
        "Turn on appendonly, on the replicas too",
    ),
    "ASYNC_REPLICAS": (
        _NOTE,
        "A failover may lose the newest grants: two holders at a time",
        "Check the fence at the resource",
    ),
    "SLOW": (
        _WARNING,
        "Renewals come late, and leases are lost when it gets worse",
        "Use a longer ttl, or a server nearby",
    ),
    "CLOCK_OFFSET": (
        _WARNING,
        "Fences are made of the server's time: they jump when its clock is corrected",
        "Synchronise the clocks (NTP)",
    ),
    "FENCE_AHEAD": (
        _ERROR,
        "The server's clock went back: if it loses its data now, fences fall below those already given",
        "Synchronise the clock (NTP), and keep the data until it has passed that fence",
    ),
    "PTTL_ABOVE_TTL": (
        _WARNING,
        "If its holder is dead, the lock is blocked for that long",
        "Look at the holder; if it is dead, release the lock by force",
    ),
    "FOREIGN_KEY": (
        _WARNING,
        "Another program writes into this namespace: a lock of that name raises ScriptError",
        "Use a namespace that nothing else uses",
    ),
    "SHARED_KEYSPACE": (
        _NOTE,
        "list() looks at every key of the database, so it is slow",
        "Give locks a database, or a server, of their own",
    ),
    "MIN_REPLICAS": (
        _WARNING,
        "After a failover an old master that lives takes writes for about 10 s: two holders at a time, for clients "
        "that no Sentinel tells",
        "Set min-replicas-to-write 1 on all servers, and min-replicas-max-lag to some seconds",
    ),
    "SLOW_FAILOVER": (
        _WARNING,
        "A crash of the master outlasts the leases: all of them are lost",
        "Lower down-after-milliseconds of the Sentinels, or use a longer ttl",
    ),
    "REPLICA_PRIORITY": (
        _WARNING,
        "Sentinel ranks the priority before what a replica has received: a failover may lose more than it must",
        "Give all replicas the same replica-priority, above 0",
    ),
    "NO_REPLICA": (_WARNING, "Nothing can take over when the master fails", "Add two replicas"),
    "REPLICA_LAG": (
        _WARNING,
        "Grants that it has not received are lost if it takes over: two holders at a time",
        "Find out what keeps it: network, memory, or a replica that is still loading",
    ),
    "ACKS_UNREACHABLE": (
        _ERROR,
        "The server has fewer replicas than acks asks for: every acquisition ends with Unavailable",
        "Bring the replicas back, or ask for fewer with acks=",
    ),
    "WRITABLE_REPLICA": (
        _ERROR,
        "A program that asks there by mistake gets locks that exclude nobody",
        "Set replica-read-only yes",
    ),
    "CLOCK_SKEW": (
        _WARNING,
        "After a failover leases end earlier or later by that much, and fences may fall if a grant was lost",
        "Synchronise the clocks of all servers (NTP)",
    ),
    "FULL_COVERAGE": (
        _NOTE,
        "One dead shard stops all: no lock can be had on the others either",
        "Set cluster-require-full-coverage no, on all servers",
    ),
    "SLOT_UNSERVED": (
        _ERROR,
        "No lock can be had whose name lies in such a slot",
        "Bring its server back, or give the slots to another one",
    ),
    "SLOT_OPEN": (
        _WARNING,
        "Acquiring, releasing and readers wait until the move of the slot has ended; exclusive leases are kept",
        "End the resharding, or undo it (CLUSTER SETSLOT ... STABLE)",
    ),
    "FEW_SENTINELS": (
        _WARNING,
        "Fewer than three Sentinels that agree cannot be relied on to fail over, and to tell of it",
        "Run three or more, on machines of their own, and name them all in the URL",
    ),
    "NO_MAJORITY": (_ERROR, "No lock can be had", "Bring the nodes back"),
    "SAME_SERVER": (_ERROR, "One server under two addresses has one vote", "Correct the addresses of the nodes"),
    "EVEN_QUORUM": (_NOTE, "It tolerates no more lost nodes than one node fewer would", "Use an odd number of nodes"),
    "FORGETFUL_NODE": (
        _ERROR,
        "A node that restarts forgets its votes: two holders at a time",
        "Turn the restart guard on, or set appendonly yes and appendfsync always",
    ),
    "GUARDED": (
        _WARNING,
        "The node does not vote yet, since it may have lost votes when it started",
        "Wait, or call bless() if no lock was held when it started",
    ),
    "NODE_CLOCKS": (
        _WARNING,
        "Its votes carry another fence than those of the others; above a second it does not count",
        "Synchronise the clocks (NTP)",
    ),
}


def online_replicas(info: dict[str, str]) -> int:
    """How many replicas receive what the server writes, according to its INFO."""
    return sum(word.startswith("slave") and ",state=online," in value for word, value in info.items())


def finding(id_: str, node: str | None, seen: str, **other: Any) -> Finding:
    """`other` replaces a field of the table."""
    severity, means, change = TABLE[id_]
    return Finding(id_, severity, node, seen, means, change)._replace(**other)

"""The texts of NotSupported: everything that holdtight refuses because it would be unsafe, and why."""

from holdtight.errors import NotSupported

__all__ = ["NOT_ON_A_QUORUM"]

# Clients and their targets.


def not_built_yet(argument: str) -> NotSupported:
    return NotSupported(
        f"{argument} is not built yet in this version; it is refused rather than ignored, so that no lock promises "
        "less than you asked for"
    )


def target_not_built_yet(target: object) -> NotSupported:
    return NotSupported(
        f"target: {type(target).__name__} is not built yet in this version; one server (redis://, rediss://, unix://, "
        "valkey://, valkeys://, embedded://), a list of servers (a quorum) and memory:// are"
    )


def drop_in_target(server: str) -> NotSupported:
    return NotSupported(
        f"a lock on {server}: clients of Sentinel and of Cluster are not supported yet by the drop-in; a client of one "
        "server is"
    )


def node_of_a_quorum(position: int, server: str) -> NotSupported:
    return NotSupported(
        f"target[{position}]: {server} cannot be a node of a quorum, which needs independent servers, each with its "
        "own memory (redis://, rediss://, unix://, valkey://, valkeys://)"
    )


def on_unavailable_on_a_quorum() -> NotSupported:
    return NotSupported(
        "on_unavailable is not built yet for a quorum: a node that cannot be reached would have to be told apart from "
        'a node that its restart guard keeps out of votes. Use on_unavailable="raise"'
    )


def max_connections_on_a_quorum() -> NotSupported:
    return NotSupported(
        "max_connections is not supported on a quorum: a caller that waits for a connection to one node while it holds "
        "a connection to another could wait for ever"
    )


def nothing_to_bless() -> NotSupported:
    return NotSupported("there is nothing to bless: only a quorum with its restart guard waits after a start")


_WHY_NO_GREEN_THREADS = {
    "threads": "renewal would depend on the code under the lock giving way",
    "sockets": "connections would depend on a hub that none of our threads runs",
}


def monkey_patched(what: str, module: str) -> NotSupported:
    """`what` is threads or sockets."""
    return NotSupported(
        f"{what} are monkey-patched ({module}): {_WHY_NO_GREEN_THREADS[what]}. Use real threads or asyncio"
    )


# Locks.


def reentrant_semaphore(name: str) -> NotSupported:
    return NotSupported(
        "a semaphore cannot be reentrant: entering again would count as one permit where two are in use. Ask for as "
        "many as are needed with acquire(n=...)",
        name=name,
    )


def upgrade(name: str, who: str) -> NotSupported:
    """`who` is thread or task."""
    return NotSupported(
        f"lock {name!r}: this very {who} holds it for reading, and cannot wait for the write lock meanwhile: two "
        "readers that both do that would wait for each other for ever. Leave the read block first and look at the data "
        "again under write(), or take write() from the start and downgrade().",
        name=name,
    )


def cohort_of(call: str) -> NotSupported:
    """`call` is what made the lock: rwlock, semaphore, multi and so on."""
    return NotSupported(
        f"{call} cannot have cohort=True: only an exclusive lock has one grant that a process can pass along. Use "
        "lock(name, cohort=True)"
    )


def cohort_in_a_multi(name: str) -> NotSupported:
    return NotSupported(
        f"lock {name!r} has cohort=True and cannot be part of a multi: its waiters would pass it along while the multi "
        "still waits for its other parts. Give the multi the name, or a lock without cohort",
        name=name,
    )


NOT_ON_A_QUORUM = {
    "semaphore": "a quorum has no semaphores: permits counted by majorities that overlap do not add up, and more could "
    "be out than the limit says. Use one server for semaphores",
    "downgrade": "cannot downgrade on a quorum: nodes would change over one by one, with no moment at which all agree "
    "that nobody else writes. Release, and take read() anew",
    "detach": "cannot detach on a quorum: it would have to be taken over on every node in one step. Release, and let "
    "the other acquire",
    "cohort": "a quorum has no cohort=True: its nodes agree on the fence of each grant, and cannot reserve a range of "
    "fences for a process. Use one server for that",
    "adopt": "cannot adopt on a quorum: locks of a quorum cannot be detached",
}


def on_a_quorum(what: str, name: str | None) -> NotSupported:
    return NotSupported(NOT_ON_A_QUORUM[what], name=name)


# Leases.


def no_fence(name: str) -> NotSupported:
    return NotSupported(
        f"the lease on {name!r} is degraded: the server could not be reached when it was taken, so nobody gave it a "
        'fence. Look at lease.degraded before you rely on one, or use on_unavailable="raise".',
        name=name,
    )


def one_fence_for_several(name: str) -> NotSupported:
    return NotSupported(
        f"a lease on several locks ({name}) has one fence for each: use fences, which maps name to fence", name=name
    )


def _cannot(verb: str, name: str, why: str) -> NotSupported:
    return NotSupported(f"cannot {verb} {name!r}: {why}", name=name)


def detach_degraded(name: str) -> NotSupported:
    return _cannot("detach", name, "it was taken without the server, nobody else could adopt it")


def detach_shared(name: str, kind: str) -> NotSupported:
    return _cannot("detach", name, f"only an exclusive lock can be handed over, {kind} has several holders")


def detach_several(name: str) -> NotSupported:
    return _cannot("detach", name, "several locks cannot be handed over in one step")


def downgrade_several(name: str) -> NotSupported:
    return _cannot("downgrade", name, "it is several locks; hold them one by one for that")


def downgrade_a_reader(name: str) -> NotSupported:
    return _cannot("downgrade", name, "only a lease that is held for writing can become one for reading")


def entered_again(verb: str, name: str, times: int) -> NotSupported:
    return _cannot(verb, name, f"it is entered {times} times, and the other handles would be left with nothing")


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a package that only an extra brings."""
    return ModuleNotFoundError(f"{error.name} is not installed: {_HOW[extra]}", name=error.name)


_HOW = {
    "prometheus": "pip install 'holdtight[prometheus]'",
    "otel": "pip install 'holdtight[otel]'",
}

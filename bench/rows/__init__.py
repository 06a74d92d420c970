"""The rows of the benchmark, by the name that `--only` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.results import Outcome
from bench.rounds import Bench
from bench.rows import (
    aio,
    cohort,
    drop_in,
    hot,
    imports,
    jobs,
    kinds,
    leases,
    memory,
    new_name,
    operations,
    pair,
    peers,
    quorum,
    recording,
    replicas,
    service,
    shards,
    threads,
    wakeup,
)

RUN: Mapping[str, Callable[[Bench], Outcome]] = {
    "new_name": new_name.run,
    "peers": peers.run,
    "pair": pair.run,
    "kinds": kinds.run,
    "drop_in": drop_in.run,
    "threads": threads.run,
    "asyncio": aio.run,
    "hot": hot.run,
    "cohort": cohort.run,
    "wakeup": wakeup.run,
    "jobs": jobs.by_hand,
    "flight": jobs.flight,
    "stampede": jobs.stampede,
    "leader": jobs.leader,
    "recording": recording.run,
    "instructions": recording.instructions,
    "operations": operations.run,
    "service": service.run,
    "quorum": quorum.pair,
    "fleet": quorum.fleet,
    "bad_node": quorum.bad_node,
    "sentinel": replicas.sentinel,
    "cluster": shards.run,
    "acks": replicas.acks,
    "renewal": leases.renewal,
    "held": leases.held,
    "queue": leases.queue,
    "memory": memory.run,
    "import": imports.run,
}

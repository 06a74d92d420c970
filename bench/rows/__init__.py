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
    kinds,
    leases,
    memory,
    new_name,
    operations,
    pair,
    quorum,
    recording,
    threads,
    wakeup,
)

RUN: Mapping[str, Callable[[Bench], Outcome]] = {
    "new_name": new_name.run,
    "pair": pair.run,
    "kinds": kinds.run,
    "drop_in": drop_in.run,
    "threads": threads.run,
    "asyncio": aio.run,
    "hot": hot.run,
    "cohort": cohort.run,
    "wakeup": wakeup.run,
    "recording": recording.run,
    "operations": operations.run,
    "quorum": quorum.pair,
    "fleet": quorum.fleet,
    "bad_node": quorum.bad_node,
    "renewal": leases.renewal,
    "held": leases.held,
    "queue": leases.queue,
    "memory": memory.run,
    "import": imports.run,
}

"""Two source trees side by side: does a change cost anything?

    python -m bench.compare ../old-tree [--rounds 9] [--only pair]

Runs the same drills with the package of the other tree and with that of this one, each in a process of its own, in
turns, on the same servers. What is compared is processor time per operation, the client's and the server's: other
programs on the machine disturb it far less than they disturb rates. The figure of a drill is the median of the ratios
of neighbouring rounds, new by old.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.servers import Server

HERE = Path(__file__).parent.parent


# The child process. Only the public API: it must work with either tree.


def _pair(urls: list[str], count: int) -> int:
    from holdtight import Locks

    with Locks(urls[0], spin=False) as locks:
        for number in range(count):
            with locks.lock(f"name:{number % 64}"):
                pass
    return count


def _new_name(urls: list[str], count: int) -> int:
    from holdtight import Locks

    with Locks(urls[0], spin=False) as locks:
        for number in range(count):
            with locks.lock(f"new:{time.monotonic_ns()}:{number}"):
                pass
    return count


def _threads(urls: list[str], count: int) -> int:
    from holdtight import Locks

    with Locks(urls[0], spin=False) as locks:

        def run(number: int) -> None:
            for _ in range(count // 16):
                with locks.lock(f"thread:{number}"):
                    pass

        team = [threading.Thread(target=run, args=(number,)) for number in range(16)]
        for each in team:
            each.start()
        for each in team:
            each.join()
    return count // 16 * 16


def _asyncio(urls: list[str], count: int) -> int:
    from holdtight import AsyncLocks

    async def main() -> None:
        async with AsyncLocks(urls[0]) as locks:

            async def run(number: int) -> None:
                for _ in range(count // 64):
                    async with locks.lock(f"task:{number}"):
                        pass

            await asyncio.gather(*map(run, range(64)))

    asyncio.run(main())
    return count // 64 * 64


def _renewal(urls: list[str], count: int) -> int:
    from holdtight import Locks

    with Locks(urls[0], spin=False) as locks:
        leases = [locks.lock(f"held:{number}", ttl=6).acquire() for number in range(count)]
        begun = time.process_time()
        time.sleep(8.2)  # renewed every two seconds: four times
        spent = time.process_time() - begun
        assert not any(lease.lost for lease in leases)
        for lease in leases:
            lease.release()
    globals()["_spent"] = spent
    return count * 4


def _quorum(urls: list[str], count: int) -> int:
    from holdtight import Locks

    with Locks(urls, spin=False, restart_guard=False) as locks:
        for number in range(count):
            with locks.lock(f"name:{number % 64}"):
                pass
    return count


def _import(urls: list[str], count: int) -> int:
    for _ in range(count):
        subprocess.run([sys.executable, "-c", "import holdtight"], check=True)
    return count


DRILLS: dict[str, tuple[Callable[[list[str], int], int], int]] = {
    "pair": (_pair, 4000),
    "new name": (_new_name, 4000),
    "16 threads": (_threads, 8000),
    "asyncio 64": (_asyncio, 16000),
    "renewal": (_renewal, 5000),
    "quorum": (_quorum, 2000),
    "import": (_import, 10),
}


def _child() -> None:
    urls = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        drill, count = DRILLS[line.strip()]
        globals()["_spent"] = None
        drill(urls, max(64, count // 20))  # warm
        before = _used()
        done = drill(urls, count)
        spent = globals()["_spent"]
        if spent is None:
            spent = _used() - before
        print(json.dumps(spent / done * 1e6), flush=True)


def _used() -> float:
    """Seconds of processor time of this process and of its children that have ended. `os.times` counts hundredths."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


# The coordinator.


def _start(tree: Path, urls: list[str]) -> subprocess.Popen[str]:
    compileall.compile_dir(tree / "src", quiet=1)  # or an import would measure the compiler
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(HERE)])}
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.compare", "--child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=HERE,
    )
    assert child.stdin is not None
    print(json.dumps(urls), file=child.stdin, flush=True)
    return child


def _ask(child: subprocess.Popen[str], drill: str) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    print(drill, file=child.stdin, flush=True)
    line = child.stdout.readline()
    if not line:
        raise SystemExit(f"the child ended in {drill!r}")
    return float(json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, help="the other tree, for example a worktree of the commit before")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=DRILLS, action="append")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        _compare(arguments, [stack.enter_context(Server("valkey")) for _ in range(5)])


def _compare(arguments: Any, servers: list[Server]) -> None:
    urls = [server.url for server in servers]
    children = {"old": _start(arguments.tree.resolve(), urls), "new": _start(HERE, urls)}
    try:
        for drill in arguments.only or DRILLS:
            client: dict[str, list[float]] = {"old": [], "new": []}
            server: dict[str, list[float]] = {"old": [], "new": []}
            for number in range(arguments.rounds):
                for which in ("old", "new") if number % 2 == 0 else ("new", "old"):
                    before = _busy(servers)
                    client[which].append(_ask(children[which], drill))
                    server[which].append(_busy(servers) - before)
            print(f"{drill:12} client {_said(client, ' µs')}   server {_said(server, ' s')}", flush=True)
    finally:
        for child in children.values():
            child.terminate()
            child.wait()


def _busy(servers: list[Server]) -> float:
    """Seconds of processor time that they have spent so far."""
    spent = [server.connection.info("cpu") for server in servers]
    return sum(float(each["used_cpu_user"]) + float(each["used_cpu_sys"]) for each in spent)


def _said(spent: dict[str, list[float]], unit: str) -> str:
    ratios = sorted(new / old if old else 1.0 for old, new in zip(spent["old"], spent["new"], strict=True))
    old, new = (statistics.median(spent[which]) for which in ("old", "new"))
    return (
        f"old {old:8.3g}{unit} new {new:8.3g}{unit} ratio {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        _child()
    else:
        main()

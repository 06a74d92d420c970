"""The lock service with something to see: an embedded server, two instances and some traffic. `make serve`.

Prints the address and a token, and ends with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from holdtight import Locks, embedded, history
from holdtight.errors import LockError
from holdtight.server.tokens import add_token

__all__ = ["hanging", "instance", "main", "traffic"]

WORKERS = ("api-gateway", "billing-worker", "checkout", "importer")


@contextlib.contextmanager
def instance(url: str, tokens: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """One instance on this port. Its log goes nowhere."""
    program = "from holdtight.cli import main; main()"
    options = ["--url", url, "--tokens", str(tokens), "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us: we end it
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def traffic(url: str, over: threading.Event, seed: int = 0) -> None:
    """A worker that takes locks, holds them for a while, and now and then waits for another worker's."""
    chance = random.Random(seed)
    label = WORKERS[seed % len(WORKERS)]
    with Locks(url, label=label, ttl="10s") as locks:
        history.install(locks)  # so that the page shows what this program does
        while not over.is_set():
            name = chance.choice(("billing:nightly", f"cart:{chance.randint(1, 40)}", f"mail:{chance.randint(1, 9)}"))
            try:
                with locks.lock(name, wait=5):
                    over.wait(chance.uniform(0.2, 3))
            except LockError:
                continue
            over.wait(chance.uniform(0.0, 0.3))


def hanging(url: str, over: threading.Event, seed: int = 0) -> None:
    """A worker that holds a lock and does not come back, or one that waits for it: the page says so."""
    with Locks(url, label="report-builder" if seed == 0 else f"report-{seed}", ttl="10s") as locks:
        history.install(locks)
        while not over.is_set():
            try:
                with locks.lock("reports:monthly", wait=60):
                    over.wait()
            except LockError:
                continue


def main() -> None:
    port = int(os.environ.get("PORT", "7379"))
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(embedded.Server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tokens = folder / "tokens.toml"
        token = add_token(tokens, "you", "admin", ())
        for at in range(2):
            stack.enter_context(instance(server.url, tokens, port + at))
        threads = [threading.Thread(target=traffic, args=(server.url, over, seed)) for seed in range(16)]
        threads += [threading.Thread(target=hanging, args=(server.url, over, seed)) for seed in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        print(f"http://127.0.0.1:{port}/  and  http://127.0.0.1:{port + 1}/")
        print(f"token: {token}\nCtrl-C ends it.", flush=True)
        try:
            over.wait()
        except KeyboardInterrupt:
            pass
        over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()

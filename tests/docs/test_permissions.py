"""The rights that docs/permissions.md names are enough, for everything that a lock does."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from holdtight import Locks
from holdtight.redis import script
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


def test_every_command_of_every_script_is_listed() -> None:
    """Also of those that a lock alone does not come to."""
    scripts = [each for each in vars(script).values() if isinstance(each, script.Script)]
    commands = {word for each in scripts for word in re.findall(r"\bp?call\('([A-Z]+)'", each.body.decode())}
    assert {"ZADD", "ZCOUNT", "PUBLISH", "TIME"} <= commands
    listed = re.findall(r"\+([a-z]+)", PAGE.read_text())
    assert commands <= {word.upper() for word in listed}


def test_the_rights_that_are_listed_are_enough(private_server: RunningServer) -> None:
    found = re.search(r"^ACL SETUSER .*?(?=^```)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    private_server.command(*found[0].split())
    url = f"redis://locker:secret@127.0.0.1:{private_server.port}/0"
    got: list[int] = []
    with Locks(url, ttl=0.6) as locks:
        lock = locks.lock("a")

        def wait() -> None:
            with lock as lease:
                got.append(lease.fence)

        waiter = threading.Thread(target=wait)
        with lock as lease:
            waiter.start()
            wait_for(lambda: lock.inspect().waiting == 1)
            before = lease.remaining()
            wait_for(lambda: lease.remaining() > before, within=5)
        waiter.join(5)
        assert got
        assert got[0] > lease.fence
        locks.adopt(locks.lock("b").acquire().detach()).release()
        locks.lock("b").acquire(wait=0).release()
    assert private_server.command("ACL", "LOG") == []

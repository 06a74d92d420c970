"""The rights that docs/permissions.md names are enough on the servers and on the Sentinels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtight import Locks, NotPermitted, Severity
from holdtight.events import Event, FailedOver
from tests.support.processes import wait_for
from tests.support.sentinels import Topology

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


def test_the_rights_that_are_listed_are_enough_through_a_failover(topology: Topology) -> None:
    locker, scout = re.findall(r"^ACL SETUSER .*?(?=^```)", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    try:
        for server in topology.servers:
            server.command("ACL", "LOG", "RESET")
            server.command(*locker.split())
        for sentinel in topology.sentinels:
            sentinel.command(*scout.split())
        url = topology.url.replace("://", "://locker:secret@")
        heard: list[Event] = []
        with Locks(url, ttl=5, sentinel_credentials=("scout", "secret")) as locks:
            locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, FailedOver) else None)
            with locks.lock("a", wait=5):
                topology.failover()
                wait_for(lambda: heard, within=2, what="the Sentinels to announce the failover")
            with locks.lock("a", wait=5):
                pass
        assert topology.master.command("ACL", "LOG") == []
        with Locks(url, ttl=60, sentinel_credentials=("scout", "secret")) as locks:
            unknown = [each.seen for each in locks.doctor() if each.id == "NOT_KNOWN"]
            assert len([seen for seen in unknown if seen.startswith("SENTINEL REPLICAS is refused: NOPERM")]) == 3
            for sentinel in topology.sentinels:
                sentinel.command("ACL", "SETUSER", "scout", "+sentinel|replicas", "resetchannels")
            found = locks.doctor()
            assert not [each for each in found if "SENTINEL REPLICAS" in each.seen]
            unheard = [each for each in found if each.seen.startswith("channels: NOPERM")]
            assert [each.severity for each in unheard] == [Severity.WARNING] * 3
        refused = pytest.raises(NotPermitted, match=r"Sentinel .*WRONGPASS")
        with Locks(url, sentinel_credentials=("scout", "wrong")) as locks, refused:
            locks.lock("a").acquire(wait=1)
    finally:
        topology.heal()  # while a Sentinel converts the old master, that server ends every connection to it
        for server in (*topology.servers, *topology.sentinels):
            server.command("ACL", "DELUSER", "locker", "scout")

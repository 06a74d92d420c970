"""Sets of servers that do not form leave no process behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import clusters, sentinels, servers
from tests.support.servers import VALKEY_9


class DoesNotForm(Exception):
    pass


def fails(*_: object) -> Any:
    raise DoesNotForm


@pytest.mark.parametrize(
    ("made", "step", "begin"),
    [
        (clusters.Cluster, "_form", lambda: clusters.start_cluster(VALKEY_9)),
        (clusters.Cluster, "agreed", lambda: clusters.start_cluster(VALKEY_9)),
        (sentinels.Topology, "agreed", lambda: sentinels.start_sentinels(VALKEY_9)),
        (sentinels.SentinelServer, "_config", lambda: sentinels.start_sentinels(VALKEY_9)),
    ],
)
def test_a_set_of_servers_that_does_not_form_leaves_no_process(
    made: type, step: str, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(servers._living)
    begun: list[Any] = []
    launch = servers.RunningServer._launch

    def noted(self: servers.RunningServer) -> bool:
        done = launch(self)
        begun.append(self._process)
        return done

    monkeypatch.setattr(servers.RunningServer, "_launch", noted)
    monkeypatch.setattr(made, step, fails)
    with pytest.raises(DoesNotForm):
        begin()
    assert begun, "some had begun"
    assert not [process for process in begun if process.poll() is None]
    assert servers._living == before

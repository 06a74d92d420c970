"""The end of an instance: in time, whatever hangs meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path

from tests.service.instances import connect, in_background, instance, token_file, waiting
from tests.support.busy import Delay
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


def test_it_ends_within_five_seconds_whatever_hangs(private_server: RunningServer, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "lock")
    with instance(private_server.url, tmp_path, "--tokens", str(path)) as one, connect(one) as stream:
        stream.sendall(b"GET /v1/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\n\r\n" % token.encode())
        assert stream.recv(12) == b"HTTP/1.1 200"  # and no more is read
        one.post("acquire", token, name="a", ttl=60)
        thread, found = in_background(lambda: one.post("acquire", token, name="a", ttl=30, wait=40, request="waits"))
        wait_for(lambda: waiting(private_server, "a") == 1, within=10)
        event = json.dumps({"kind": "forced", "at": 1.0, "name": "a", "reason": "x" * 200_000})
        for _ in range(40):  # more than the buffers between the two take
            private_server.command("XADD", "ht:history", "*", "e", event)
        wait_for(lambda: len(stream.recv(1 << 17, socket.MSG_PEEK)) >= 1 << 15, within=20)
        private_server.pause()
        try:
            looker, _ = in_background(lambda: one.get("/v1/lock", token, name="a"))
            taker, _ = in_background(lambda: one.post("acquire", token, name="b", ttl=60, wait=40))
            wait_for(lambda: one.get("/healthz").status_code == 200, within=10)
            delay, begun = Delay(one.process.pid), time.monotonic()
            one.signal(signal.SIGTERM)
            delay.check(lambda: one.process.poll() is not None, begun, within=5.0, what="it ends")
            assert one.process.returncode == 0
            for each in (thread, looker, taker):
                each.join()
            assert (found[0].status_code, found[0].json()["code"]) == (503, "SHUTTING_DOWN")
        finally:
            private_server.resume()

"""The record that a client keeps on a server: inspections of a lock read host, pid and start time from it."""

import os
import socket
import time
from typing import Any, cast

from holdtight.base.plan import Step
from holdtight.base.values import CLIENT_ID_SIZE, Owner
from holdtight.stores.client import RECORD_SECONDS, Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import command

__all__ = ["read_record", "record_request", "records_step", "removal_request"]

_STARTED = time.time()


def _record_key(client: Client) -> bytes:
    return keys.client_record(client.namespace, client.id)


def record_request(client: Client) -> bytes:
    """Writes, or refreshes, our record."""
    import json  # imported with the first connection, not with the package

    about = {"host": socket.gethostname(), "pid": os.getpid(), "started": _STARTED}
    return command("SET", _record_key(client), json.dumps(about), "EX", RECORD_SECONDS)


def removal_request(client: Client) -> bytes:
    """Removes our record."""
    return command("DEL", _record_key(client))


def read_record(item: bytes | None) -> dict[str, Any]:
    import json

    try:
        found: Any = json.loads(item) if item else {}
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def records_step(client: Client, owners: list[Owner]) -> Step:
    """Reads the records (host, pid, start time) of these owners' clients."""
    wanted = [keys.client_record(client.namespace, owner[:CLIENT_ID_SIZE]) for owner in owners]
    return Step(
        command("MGET", *wanted),
        None,
        lambda reply, sent: [read_record(item) for item in reply],
        patience=1.0,
    )

"""The record that a client keeps on a server: inspections of a lock read host, pid and start time from it."""

import os
import time
from typing import Any, cast

from holdtight.base.plan import Step
from holdtight.base.values import CLIENT_ID_SIZE, Owner
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.resp import command

__all__ = [
    "own_record",
    "read_about",
    "read_record",
    "record_keys",
    "record_request",
    "records_step",
    "removal_request",
]

_STARTED = time.time()


def _record_key(client: Client) -> bytes:
    return keys.client_record(client.namespace, client.id)


def record_request(client: Client) -> bytes:
    """Writes, or refreshes, our record."""
    import json  # imported with the first client, not with the package

    return command("SET", _record_key(client), json.dumps(own_record()), "EX", client.record_seconds)


def own_record() -> dict[str, Any]:
    import socket

    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _STARTED}


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


def records_step(client: Client, owners: list[Owner], holding: int = 0) -> Step:
    """Reads the records (host, pid, start time) of these owners' clients. For the first `holding` owners it adds
    `waits_for`, the name of the lock that the holder waits for, if there is one."""
    clients = list(dict.fromkeys(owner[:CLIENT_ID_SIZE] for owner in owners))
    wanted = [keys.client_record(client.namespace, each) for each in clients]
    wanted += [keys.waits(client.namespace, owner) for owner in owners[:holding]]

    def read(reply: Any, sent: float) -> list[dict[str, Any]]:
        records = {each: read_record(item) for each, item in zip(clients, reply, strict=False)}
        found = [dict(records[owner[:CLIENT_ID_SIZE]]) for owner in owners]
        for about, item in zip(found, reply[len(clients) :], strict=False):
            _add_wait(about, item)
        return found

    return Step(command("MGET", *wanted), None, read, patience=1.0)


def record_keys(client: Client, owner: Owner) -> tuple[bytes, bytes]:
    """What `read_about` reads: the record of the owner's client, and that of its wait."""
    return keys.client_record(client.namespace, owner[:CLIENT_ID_SIZE]), keys.waits(client.namespace, owner)


def read_about(record: bytes | None, wait: bytes | None) -> dict[str, Any]:
    """What the records say of one owner."""
    about = dict(read_record(record))
    _add_wait(about, wait)
    return about


def _add_wait(about: dict[str, Any], item: bytes | None) -> None:
    from holdtight.stores.redis.wait_records import read_wait  # loaded with the first client

    wait = read_wait(item)
    if wait is not None:
        about["waits_for"] = wait.name

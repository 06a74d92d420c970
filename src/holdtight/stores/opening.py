"""Makes the place that a client's target asks for. Loads the modules of that place only."""

from importlib import import_module
from typing import TYPE_CHECKING

from holdtight.config.targets import Cluster, Memory, Quorum, Sentinel
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client
from holdtight.stores.redis.script import SCRIPTS
from holdtight.stores.redis.store import Store

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime
    from holdtight.config.settings import Settings

__all__ = ["open_place"]


def open_place(settings: "Settings", client: Client, runtime: "Runtime") -> Place:
    """Reads every script that a grant may need later: see clients/loading.py."""
    import_module("holdtight.stores.redis.wait_records")  # registers its scripts
    place = _place(settings, client, runtime)
    for script in SCRIPTS:
        script.fetch()
    return place


def _place(settings: "Settings", client: Client, runtime: "Runtime") -> Place:
    place: Place
    if isinstance(settings.target, Quorum):
        from holdtight.stores.redis.quorum_place import QuorumPlace

        return QuorumPlace(settings, client, runtime)
    if isinstance(settings.target, Cluster):
        from holdtight.stores.redis.cluster import ClusterPlace

        return ClusterPlace(settings, client, runtime)
    if isinstance(settings.target, Memory):
        from holdtight.stores.memory.place import MemoryPlace

        place = MemoryPlace(settings.target, client, runtime)
    elif isinstance(settings.target, Sentinel):
        from holdtight.stores.redis.sentinel import SentinelPlace

        place = SentinelPlace(settings.target, client, runtime, settings.tls)
    else:
        from holdtight.stores.redis.single import RedisPlace

        place = RedisPlace(settings.target, client, runtime, settings.tls)
    place.store = Store(client, server=place.display, drift=settings.drift, max_waiters=settings.max_waiters)
    if settings.acks:
        from holdtight.stores.redis.acks import WaitForReplicas

        place.acks = WaitForReplicas(client.namespace, settings.acks)
    return place

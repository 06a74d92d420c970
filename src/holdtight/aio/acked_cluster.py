"""asyncio locks on a cluster with `acks`: routed as those of cluster.py, counted as those of acked.py."""

from typing import TYPE_CHECKING, Any

from holdtight.aio.acked import AsyncAckedLock
from holdtight.aio.backend import Backend
from holdtight.aio.cluster import AsyncClusterCohortLock, AsyncClusterLock, AsyncClusterSemaphore, cluster_backend
from holdtight.config.settings import Settings

if TYPE_CHECKING:
    from holdtight.aio.locks import AsyncLocks

__all__ = ["acked_cluster_backend"]


class AsyncAckedClusterLock(AsyncClusterLock, AsyncAckedLock):
    __slots__ = ()


class AsyncAckedClusterSemaphore(AsyncClusterSemaphore, AsyncAckedClusterLock):
    __slots__ = ()


class AsyncAckedClusterCohortLock(AsyncClusterCohortLock, AsyncAckedClusterLock):
    __slots__ = ()


def acked_cluster_backend(place: Any, settings: Settings, locks: "AsyncLocks") -> Backend:
    return cluster_backend(place, settings, locks)._replace(
        lock_type=AsyncAckedClusterLock,
        semaphore_type=lambda: AsyncAckedClusterSemaphore,
        cohort_lock_type=lambda: AsyncAckedClusterCohortLock,
    )

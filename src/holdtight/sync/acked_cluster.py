"""Blocking locks on a cluster with `acks`: routed as those of cluster.py, counted as those of acked.py."""

from typing import Any

from holdtight.sync.acked import AckedLock
from holdtight.sync.cluster import ClusterBackend, ClusterCohortLock, ClusterLock, ClusterSemaphore

__all__ = ["AckedClusterBackend"]


class AckedClusterLock(ClusterLock, AckedLock):
    __slots__ = ()


class AckedClusterSemaphore(ClusterSemaphore, AckedClusterLock):
    __slots__ = ()


class AckedClusterCohortLock(ClusterCohortLock, AckedClusterLock):
    __slots__ = ()


class AckedClusterBackend(ClusterBackend):
    lock_type = AckedClusterLock

    @property
    def semaphore_type(self) -> Any:
        return AckedClusterSemaphore

    @property
    def cohort_lock_type(self) -> Any:
        return AckedClusterCohortLock

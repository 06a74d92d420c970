"""The store of a cluster: the requests of one server, in their sharded form, with the time of the server that has the
slot. See stores/redis/slots.py for the routing."""

from binascii import crc_hqx
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import Drift
from holdtight.base.plan import Step
from holdtight.base.values import CLIENT_ID_SIZE, Claim, Kind, Owner
from holdtight.stores.client import Client
from holdtight.stores.redis.client_records import own_record
from holdtight.stores.redis.slots import RENEW_ALONE, SLOTS, sharded
from holdtight.stores.redis.store import Prepared, Shape, Store

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace

__all__ = ["ClusterPrepared", "ClusterShape", "ClusterStore"]

_ALONE = b"%b$%d\r\n%b\r\n$24\r\n%b\r\n%b"


class _LastingStep(Step):
    """An undo that the keeper tries until the ttl has ended: the slot may be on its way for that long."""

    __slots__ = ("persistence",)


class ClusterShape(Shape):
    __slots__ = ("alone", "cluster", "homes", "nodes_at", "tag")

    def __init__(self, store: "ClusterStore", claim: Claim) -> None:
        super().__init__(store, claim)
        self.cluster = store.cluster
        self.tag = len(store.client.namespace.encode()) + 2
        """Where a name begins in its main key."""
        self.homes: list[Any] = store.cluster.homes
        self.nodes_at: list[Any] = store.cluster.nodes_at
        attempt, _, release, release_by = map(sharded, self.starts)
        self.starts = attempt, attempt, release, release_by
        self.alone = claim.kind is Kind.EXCLUSIVE

    def prepare(self, name: str) -> "ClusterPrepared":
        return ClusterPrepared(self, name)


class ClusterPrepared(Prepared):
    """`store` is that of the server which has the slot at the moment."""

    __slots__ = ("home",)

    shape: ClusterShape

    def __init__(self, shape: ClusterShape, name: str) -> None:
        super().__init__(shape, name)
        # As `slot_of`, for a key of which is known where its braces are: around the name, up to the end.
        self.home = crc_hqx(self.main[shape.tag : -1], 0) & (SLOTS - 1)

    @property
    def store(self) -> Store:
        found: Store = self.shape.nodes_at[self.home].store
        return found

    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step:
        step = self._lasting(super().withdraw_step(owner, marker=marker, otherwise=otherwise))
        step.before = sharded(step.before)
        return step

    def release_step(self, owner: Owner) -> Step:
        return self._lasting(super().release_step(owner))

    def _lasting(self, step: Step) -> Step:
        made = _LastingStep(
            step.before, step.after, step.read, patience=step.patience, undo=step.undo, otherwise=step.otherwise
        )
        made.persistence = max(Step.persistence, self.claim.ttl)
        return made

    def touch_request(self, owner: Owner, inbox: bytes) -> bytes:
        return sharded(super().touch_request(owner, inbox))

    def renew_request(self, owner: Owner, now: float, ttl: float, patience: float) -> bytes:
        """For an exclusive grant it names the main key alone, unless that was not enough: see lua/renew_alone.lua."""
        wide = self.shape.cluster.wide
        if not self.shape.alone or (wide and wide.pop(owner, None) is not None):
            return super().renew_request(owner, now, ttl, patience)
        main = self.main
        return _ALONE % (RENEW_ALONE.start, len(main), main, owner, self.store.renewal_terms(now, ttl, patience))


class ClusterStore(Store):
    """One namespace on all servers of a cluster."""

    def __init__(self, cluster: "ClusterPlace", client: Client, *, server: str, drift: Drift, max_waiters: int) -> None:
        super().__init__(client, server=server, drift=drift, max_waiters=max_waiters)
        self.cluster = cluster

    def shape(self, claim: Claim) -> ClusterShape:
        return ClusterShape(self, claim)

    def prepare(self, claim: Claim) -> Any:
        return self.shape(claim).prepare(claim.name)

    def records_step(self, owners: list[Owner], holding: int = 0) -> Step:
        """The keeper writes our own record, a moment after the first connection: until then we know what it says."""
        step = super().records_step(owners, holding)
        read, own = step.read, self.client.id

        def read_with_own(reply: Any, sent: float) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = read(reply, sent)
            for owner, about in zip(owners, found, strict=True):
                if owner[:CLIENT_ID_SIZE] == own and "pid" not in about:
                    about |= own_record()
            return found

        step.read = read_with_own
        return step

    def several(self, parts: list[Any]) -> Any:
        raise AssertionError("a cluster takes several names one after another")

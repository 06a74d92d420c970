"""The request that changes the label of a grant."""

from typing import Any

from holdtight.base.plan import Step
from holdtight.base.values import Late, LossReason, Owner
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.script import Script
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["PROCLAIM", "proclaim_step"]

PROCLAIM = Script("proclaim")


def proclaim_step(client: Client, name: str, owner: Owner, label: str, now: float) -> Step:
    """The answer is None if it is changed, the reason why the lock is not ours, or Late."""

    def read(reply: Any, sent: float) -> "LossReason | Late | None":
        match reply:
            case 1:
                return None
            case [0, holder]:
                return LossReason.TAKEN if holder else LossReason.EXPIRED
            case _:
                client.learn(reply[1] / 1000, sent)
                return Late()

    limit = int((client.server_time(now) + LONGEST_PATIENCE) * 1e6)
    request = PROCLAIM.request((keys.main_key(client.namespace, name),), owner, label, limit)
    return Step(request, None, read, patience=LONGEST_PATIENCE, script=PROCLAIM)

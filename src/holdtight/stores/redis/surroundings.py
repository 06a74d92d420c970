"""What `doctor` sees around masters: their Sentinels and replicas, each on a connection of its own.

The connections are made in threads, all at once, so that neither colour waits for a server that is silent. A replica is
only looked at: nothing is learned from it, and nothing is written.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, cast

import hiredis

from holdtight.base.operations import ReplicaSeen, SentinelSeen
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.process import start_thread
from holdtight.errors import quotable
from holdtight.stores.redis.connect import greeted
from holdtight.stores.redis.handshake import Greeting, Handshake
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.watched_sentinel import PROMOTED, SWITCHED, Master, read_answer

if TYPE_CHECKING:
    import ssl

    from holdtight.config.credentials import Login
    from holdtight.config.targets import Address, Cluster, Sentinel
    from holdtight.stores.redis.slots import Endpoint

__all__ = ["LookAround"]

AROUND_PATIENCE = 0.8
_Error = hiredis.ReplyError


class LookAround:
    """`done` is true once all have answered, or had their time. `known` are replicas of which no Sentinel tells."""

    def __init__(
        self,
        target: "Sentinel | Cluster",
        tls_for: "Callable[[Address], ssl.SSLContext | None]",
        known: "Iterable[Endpoint]" = (),
    ) -> None:
        self._target = target
        self._tls_for = tls_for
        self._known = set(known)
        self.done = False
        self.sentinels: list[SentinelSeen] = []
        self.replicas: list[ReplicaSeen] = []

    def begin(self) -> "LookAround":
        start_thread(self._look, "holdtight-look-around")
        return self

    def _look(self) -> None:
        try:
            given = getattr(self._target, "sentinels", ())
            self._side_by_side([partial(self._look_at_sentinel, each) for each in given])
            known = self._known.union(where for seen in self.sentinels for where in seen.replicas)
            self._side_by_side([partial(self._look_at_replica, *where) for where in sorted(known)])
        finally:
            self.done = True

    @staticmethod
    def _side_by_side(jobs: Sequence[Callable[[], None]]) -> None:
        threads: list[threading.Thread] = []
        for job in jobs:
            try:
                threads.append(start_thread(job, "holdtight-look-around"))
            except RuntimeError:
                job()  # no thread is to be had
        for thread in threads:
            thread.join(2 * AROUND_PATIENCE)

    def _ask(self, address: "Address", *requests: bytes) -> tuple[list[Any], str]:
        """The replies, or the reason why there are none."""
        replies: list[Any] = []

        def greeting(login: "Login | None") -> Greeting:
            name = address.client_name or "holdtight-doctor"
            auth = [command("AUTH", *([login.user] if login.user is not None else []), login.password)] if login else []
            words = [*auth, command("CLIENT", "SETNAME", name), *requests]
            answers = yield b"".join(words), len(words)
            if auth and isinstance(answers[0], _Error):
                raise ServerSaid(str(answers[0]))
            replies.extend(answers[-len(requests) :])
            return Handshake(2, b"")

        try:
            greeted(address, greeting, AROUND_PATIENCE, self._tls_for(address)).close()
        except (LinkDown, ServerSaid, OSError) as error:
            return [], quotable(error)
        except Exception as error:  # credentials come from user code
            return [], type(error).__name__
        return replies, ""

    def _look_at_sentinel(self, address: "Address") -> None:
        service = cast("Sentinel", self._target).service
        requests = [command("SENTINEL", *words, service) for words in (("MASTER",), ("GET-MASTER-ADDR-BY-NAME",))]
        requests.append(command("SENTINEL", "REPLICAS", service))
        requests += [command("SUBSCRIBE", channel) for channel in (SWITCHED, PROMOTED)]
        replies, cause = self._ask(address, *requests)
        seen = SentinelSeen(address.endpoint, cause, None, 0.0, 0, ())
        if not cause:
            told = read_answer(replies[0], replies[1])
            if not isinstance(told, Master):
                seen = seen._replace(cause=str(told))
            else:
                state, rest = _fields(replies[0]), (replies[2:3], replies[3:])
                replicas = [] if isinstance(replies[2], _Error) else [_fields(each) for each in replies[2]]
                seen = SentinelSeen(
                    address.endpoint,
                    "",
                    told.where,
                    int(state.get("down-after-milliseconds", "0")) / 1000,
                    int(state.get("num-other-sentinels", "0")) + 1,
                    tuple((each["ip"], int(each["port"])) for each in replicas),
                    *(next((str(reply) for reply in some if isinstance(reply, _Error)), "") for some in rest),
                )
        self.sentinels.append(seen)

    def _look_at_replica(self, host: str, port: int) -> None:
        address = self._target.at(host, port)
        begun = time()
        replies, cause = self._ask(address, command("INFO", "replication"), command("TIME"))
        taken = time() - begun
        refused = next((str(reply) for reply in replies if isinstance(reply, _Error)), "")
        seen = ReplicaSeen(address.display(), cause or refused, {}, 0.0)
        if not seen.cause:
            lines = (line.partition(":") for line in bytes(replies[0]).decode(errors="replace").splitlines())
            info = {word: value.strip() for word, colon, value in lines if colon}
            offset = int(replies[1][0]) + int(replies[1][1]) / 1e6 - (begun + taken / 2)
            seen = seen._replace(info=info, offset=offset)
        self.replicas.append(seen)


def _fields(flat: Any) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in cast("list[bytes]", flat)]
    return dict(zip(words[::2], words[1::2], strict=False))

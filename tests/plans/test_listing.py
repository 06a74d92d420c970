"""The plan behind list: what it asks, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdtight.base.plan import Batch, LinkDown, ServerSaid, Step
from holdtight.base.values import Holder, Kind, LockInfo, owner_text
from holdtight.core.listing import Listing, literal_prefix
from tests.plans.scripted import HOLDER, Lock, Named

STALE = LinkDown("the server closed the connection", sent=True, stale=True)


class Survey:
    first = b"0"

    def scan_step(self, cursor: bytes, prefix: str) -> Step:
        return Named("scan", b"", cursor=cursor, prefix=prefix)

    def restarted(self, cursor: bytes) -> bytes:
        return b"0"

    def passed_over(self, cursor: bytes, down: LinkDown) -> bytes:
        raise down

    def looked_again(self) -> Step | None:
        return None

    def rest(self) -> bytes:
        return b"0"

    def failure(self) -> LinkDown | None:
        return None

    def held_step(self, names: Sequence[str]) -> Step:
        return Named("held", b"", names=list(names))

    def glance_steps(self, name: str) -> tuple[Step, Step]:
        return Named("value", b"", name=name), Named("left", b"", name=name)

    def glanced(self, name: str, value: Any, left: Any) -> LockInfo | None:
        """Names with a "q" have waiters: only the script can tell."""
        assert (value, left) == (f"value of {name}", f"left of {name}")
        return None if "q" in name or name == "foreign" else held(name)

    def inspect_step(self, name: str) -> Step:
        return Named("inspect", b"", name=name)


def held(name: str) -> LockInfo:
    return LockInfo(name, Kind.EXCLUSIVE, (Holder(owner_text(HOLDER)),))


class Server:
    """Answers a listing from a script of SCAN replies; `held` has the names that have a holder."""

    def __init__(self, replies: list[Any], held: set[str]) -> None:
        self.replies, self.held = replies, held
        self.asked: list[Any] = []
        self.batches: list[int] = []

    def answer(self, wish: Any) -> Any:
        if isinstance(wish, Batch):
            self.batches.append(len(wish.steps))
            return [self._read(step.verb, step.details["name"]) for step in wish.steps if isinstance(step, Named)]
        self.asked.append((wish.verb, wish.details))
        if wish.verb == "scan":
            return self.replies.pop(0)
        if wish.verb == "held":
            return [name for name in wish.details["names"] if name in self.held]
        return [{"host": "web-3"} for _ in wish.details["owners"]]

    def _read(self, verb: str, name: str) -> Any:
        if verb != "inspect":
            return f"{verb} of {name}"
        if name == "foreign":
            return ServerSaid("HTFOREIGN the key holds a value that is not a lock of this format")
        return held(name)

    def play(self, listing: Listing) -> list[list[LockInfo]]:
        pages: list[list[LockInfo]] = []
        while not listing.done:
            pages.append(self.page(listing))
        return pages

    def page(self, listing: Listing) -> list[LockInfo]:
        plan, value = listing.page(), None
        try:
            while True:
                wish = plan.throw(value) if isinstance(value, Exception) else plan.send(value)
                value = self.answer(wish)
        except StopIteration as stop:
            found: list[LockInfo] = stop.value
            return found


def listing(pattern: str = "*") -> Listing:
    return Listing(Survey(), Lock(), pattern, {})


def test_a_name_that_the_scan_returns_twice_is_listed_once() -> None:
    server = Server([(b"7", ["a", "b", "a"]), (b"9", ["b"]), (b"0", ["c", "a"])], {"a", "b", "c"})
    pages = server.play(listing())
    assert [[info.name for info in page] for page in pages] == [["a", "b"], ["c"]]
    assert [details["cursor"] for verb, details in server.asked if verb == "scan"] == [b"0", b"7", b"9"]


def test_a_name_that_was_free_when_it_was_first_found_is_listed_when_it_is_found_again() -> None:
    server = Server([(b"7", ["a", "b"]), (b"0", ["b"])], {"a"})
    plan = listing()
    found = server.page(plan)
    server.held = {"a", "b"}
    found += server.page(plan)
    assert [info.name for info in found] == ["a", "b"]
    assert plan.done


def test_names_are_glanced_at_many_at_a_time_and_clients_looked_up_once_a_page() -> None:
    names = [f"n{number}" for number in range(450)]
    server = Server([(b"0", names)], set(names))
    (page,) = server.play(listing())
    assert [info.holders[0].host for info in page] == ["web-3"] * 450
    assert server.batches == [200, 200, 200, 200, 100], "two reads a name"
    assert [verb for verb, _ in server.asked] == ["scan", "held", "records"]


def test_names_with_waiters_are_inspected_a_few_at_a_time() -> None:
    names = [f"q{number}" for number in range(60)]
    server = Server([(b"0", names)], set(names))
    (page,) = server.play(listing())
    assert [info.holders[0].host for info in page] == ["web-3"] * 60
    assert server.batches == [120, 25, 25, 10]
    assert [verb for verb, _ in server.asked] == ["scan", "held", "records"]


def test_what_does_not_match_or_is_not_a_lock_is_left_out() -> None:
    server = Server([(b"0", ["a1", "b1", "A1", "foreign"])], {"a1", "b1", "A1", "foreign"})
    assert [[info.name for info in page] for page in server.play(listing("[af]*"))] == [["a1"]]


def test_after_a_broken_connection_the_scan_starts_again() -> None:
    """A server that was restarted does not know the cursor."""
    server = Server([(b"7", ["a"]), STALE, (b"5", ["a", "b"]), (b"0", ["c"])], {"a", "b", "c"})
    pages = server.play(listing())
    assert [[info.name for info in page] for page in pages] == [["a"], ["b"], ["c"]]
    assert [details["cursor"] for verb, details in server.asked if verb == "scan"] == [b"0", b"7", b"0", b"5"]


def test_a_server_that_stays_away_ends_it() -> None:
    with pytest.raises(LinkDown):
        Server([STALE, STALE], set()).play(listing())


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("*", ""), ("orders:*", "orders:"), ("a?c", "a"), ("x[ab]", "x"), ("plain", "plain"), ("a\\*", "a\\"), ("]", "]")],
)
def test_the_server_is_asked_for_what_every_match_starts_with(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix
    server = Server([(b"0", [])], set())
    server.play(listing(pattern))
    assert server.asked[0][1]["prefix"] == prefix

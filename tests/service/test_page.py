"""The page in a browser: live, countdown, search, force-release, HTML in names, a deadlock drawn, reconnecting."""

from __future__ import annotations

import asyncio
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.base.values import Wait
from holdtight.server.texts import LeaseText
from tests.service.browsing import needs_browser, playwright, visit
from tests.service.instances import Instance, instance, token_file
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer, free_port

pytestmark = [
    needs_browser,
    pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session"),
]
EVIL = 'order:<img src=x onerror="document.title=1">&amp;'


def test_locks_are_shown_as_they_are_and_searched(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    for at in range(60):
        one.post("acquire", admin, name=f"cart:{at:02}", ttl=60)
    one.post("acquire", admin, name=EVIL, ttl=60, label="<b>bold</b>")
    visitor = visit(browser, one)
    page = visitor.page
    visitor.sign_in(admin)
    visitor.go("locks")
    total = page.locator("[data-total]")
    playwright.expect(total).to_have_attribute("data-total", "61")
    assert page.locator("tr[data-name]").count() == 50
    page.get_by_role("button", name="Next").click()
    playwright.expect(page.locator("tr[data-name]")).to_have_count(11)
    page.go_back()
    playwright.expect(page.locator("tr[data-name]")).to_have_count(50)
    page.keyboard.press("/")
    page.get_by_role("searchbox", name="Search locks").fill("onerror")
    playwright.expect(page.locator("tr[data-name]")).to_have_count(1)
    playwright.expect(page.locator("td[data-cell=name] a")).to_have_text(EVIL)
    playwright.expect(page.locator("td[data-cell=holder]")).to_contain_text("<b>bold</b>")
    assert "q=onerror" in page.url
    left = page.locator("[data-left]")
    before = float(left.get_attribute("data-left"))
    wait_for(lambda: float(left.get_attribute("data-left")) < before - 0.9, within=20)  # the browser counts down
    page.get_by_role("searchbox").fill("")
    with Locks(server.url) as locks, locks.lock("zz:live", label="newcomer"):
        playwright.expect(total).to_have_attribute("data-total", "62")  # by itself
    playwright.expect(total).to_have_attribute("data-total", "61")
    assert visitor.wrong == []


def test_an_operator_releases_a_lock_by_force_and_says_why(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (admin, reader) = visited
    one.post("acquire", admin, name="stuck", ttl=60, label="first")
    second = threading.Thread(
        target=lambda: one.post(
            "acquire", admin, name="stuck", ttl=60, label="second", request="r", wait=45, timeout=60
        )
    )
    second.start()  # it waits until the release by force
    visitor = visit(browser, one)
    page = visitor.page
    visitor.sign_in(admin)
    visitor.go("lock?name=stuck")
    playwright.expect(page.locator("[data-holder]")).to_contain_text("first")
    playwright.expect(page.locator("[data-queue] li")).to_have_count(1)
    page.get_by_role("button", name="Force release").click()
    page.get_by_role("button", name="Release now").click()
    playwright.expect(page.get_by_role("alert").filter(has_text="reason")).to_be_visible()
    page.get_by_label("Reason").fill("it hangs")
    page.get_by_role("button", name="Release now").click()
    playwright.expect(page.locator("[data-timeline] [data-kind=forced]")).to_contain_text("it hangs")
    second.join()
    visitor.go("audit")
    playwright.expect(page.locator("[data-audit]").first).to_contain_text("it hangs")
    assert visitor.wrong == []
    other = visit(browser, one)
    other.sign_in(reader)
    other.go("lock?name=stuck")
    playwright.expect(other.page.get_by_role("button", name="Force release")).to_be_hidden()
    playwright.expect(other.page.get_by_role("link", name="Audit")).to_have_count(0)


def is_awaited(one: Instance, token: str, name: str) -> bool:
    return bool(one.get("/v1/lock", token, name=name).json()["waiting"])


def publish(url: str, *waits: tuple[bytes, str]) -> None:
    """Says for each holder which name it waits for, as a program with deadlock detection does."""

    async def main() -> None:
        async with AsyncLocks(url) as locks:
            for owner, name in waits:
                step = locks.waits.publish_step(owner, Wait(owner, name, "a thread"))

                def plan(step: Any = step) -> Any:
                    yield step

                await locks.run(plan(), name)

    thread = threading.Thread(target=lambda: asyncio.run(main()))  # playwright has a loop in this one
    thread.start()
    thread.join()


def test_a_deadlock_is_drawn_as_a_circle(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    sessions = [one.post("session/open", admin, host=name, pid=1).json()["session"] for name in "ab"]
    owners: list[bytes] = []
    for name, session in zip("ab", sessions, strict=True):
        lease = one.post("acquire", admin, name=name, session=session, label=name).json()["lease"]
        owners.append(LeaseText.read(lease).held.owner)
    visitor = visit(browser, one)
    visitor.sign_in(admin)
    visitor.go("graph")
    page = visitor.page

    def wait(name: str, session: str, label: str) -> None:
        ask: dict[str, Any] = {"name": name, "session": session, "label": label, "request": "r", "wait": 45}
        one.post("acquire", admin, timeout=60, **ask)

    waits = [("b", sessions[0], "a"), ("a", sessions[1], "b")]
    threads = [threading.Thread(target=wait, args=each) for each in waits]
    for thread in threads:
        thread.start()
    for look in "ab":
        wait_for(partial(is_awaited, one, admin, look), within=20)
    publish(server.url, (owners[0], "b"), (owners[1], "a"))
    playwright.expect(page.locator("[data-graph] [data-node].cycle")).to_have_count(4)
    playwright.expect(page.locator("[data-edge].cycle")).to_have_count(4)
    playwright.expect(page.get_by_role("alert")).to_contain_text("Deadlock")
    playwright.expect(page.locator("ul.list")).to_contain_text("waits for b")
    for session in sessions:
        one.post("session/close", admin, session=session)
    for thread in threads:
        thread.join()
    assert visitor.wrong == []


def test_a_login_that_is_wrong_says_so_and_signing_out_ends_it(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one)
    page = visitor.page
    page.goto(f"{one.url}/locks?q=a/b&state=held")
    page.get_by_label("Token").fill("ht_wrong")
    page.get_by_role("button", name="Sign in").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("not known")
    page.get_by_label("Token").fill(admin)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{one.url}/locks?q=a%2Fb&state=held")
    playwright.expect(page.get_by_role("searchbox", name="Search locks")).to_have_value("a/b")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    page.goto(f"{one.url}/locks")
    page.wait_for_url("**/login?next=locks")
    page.goto(f"{one.url}/?from=mail")
    page.get_by_label("Token").fill(admin)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{one.url}/?from=mail")


def test_a_page_comes_back_when_its_instance_does(server: RunningServer, browser: Any, tmp_path: Path) -> None:
    path, (token,) = token_file(tmp_path, "admin")
    options = ("--tokens", str(path), "--bind", f"127.0.0.1:{free_port()}")
    with Locks(server.url) as locks:
        with instance(server.url, tmp_path, *options) as one:
            visitor = visit(browser, one, token)
            visitor.go("locks")
            one.signal(signal.SIGKILL)
            visitor.expect("[data-live=reconnecting]").to_be_visible()
            one.process.wait(10)
        with locks.lock("new:meanwhile"), instance(server.url, tmp_path, *options):
            visitor.expect("[data-live=live]").to_be_visible()
            visitor.expect("tr[data-name='new:meanwhile']").to_have_count(1)  # without being loaded again
    assert [each for each in visitor.wrong if "ERR_" not in each] == []


def test_a_hidden_tab_closes_its_stream_and_catches_up_when_it_is_shown(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    """Browsers allow six connections for a host."""
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("locks")

    def turn(hidden: bool) -> None:
        page.evaluate(
            """hidden => {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )

    with page.expect_event("requestfailed", lambda request: "/v1/events" in request.url):
        turn(hidden=True)
    one.post("acquire", admin, name="meanwhile", ttl=60)
    with page.expect_request("**/v1/events*"):
        turn(hidden=False)
    visitor.expect("tr[data-name=meanwhile]").to_have_count(1)
    assert visitor.wrong == []


def hold_many(url: str, number: int) -> None:
    async def main() -> None:
        async with AsyncLocks(url, ttl=600) as locks:
            for start in range(0, number, 500):
                names = [f"many:{at:05}" for at in range(start, start + 500)]
                for lease in await asyncio.gather(*[locks.lock(name).acquire() for name in names]):
                    await lease.detach()

    thread = threading.Thread(target=lambda: asyncio.run(main()))  # playwright has a loop in this one
    thread.start()
    thread.join()


def test_ten_thousand_locks_are_listed_searched_and_paged(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    hold_many(server.url, 10_000)
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("locks?sort=name&order=desc")
    visitor.expect("[data-total]").to_have_attribute("data-total", "10000")
    visitor.expect("tr[data-name]").to_have_count(50)
    assert page.locator("tr[data-name]").first.get_attribute("data-name") == "many:09999"
    page.get_by_role("button", name="Next").click()
    visitor.expect("tr[data-name='many:09949']").to_have_count(1)
    page.get_by_role("searchbox", name="Search locks").fill("many:0123")
    visitor.expect("[data-total]").to_have_attribute("data-total", "10")
    assert visitor.wrong == []

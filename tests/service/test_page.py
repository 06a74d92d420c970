"""The page in a browser: live, countdown, search, force-release, HTML in names, a deadlock drawn, phone, dark."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.base.values import Wait
from holdtight.server.texts import LeaseText
from tests.service.instances import Instance, instance, token_file
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
    pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session"),
]
EVIL = 'order:<img src=x onerror="document.title=1">&amp;'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visitor:
    """A page, and all that went wrong on it."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(base) else self.wrong.append(asked.url))
        page.set_default_timeout(20_000)
        playwright.expect.set_options(timeout=20_000)

    def sign_in(self, token: str) -> None:
        self.page.goto(self.base)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_selector("[data-stat=held]")

    def go(self, path: str) -> None:
        self.page.goto(f"{self.base}/{path}")
        self.page.wait_for_selector("[data-live=live]")


@pytest.fixture(scope="module")
def served(
    shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Instance, list[str]]]:
    folder: Path = tmp_path_factory.mktemp("page")
    path, tokens = token_file(folder, "admin", "read")
    with instance(shared_server.url, folder, "--tokens", str(path)) as one:
        yield one, tokens


def visit(browser: Any, one: Instance, **how: Any) -> Visitor:
    return Visitor(browser.new_context(**how).new_page(), one.url)


def test_locks_are_shown_as_they_are_and_searched(server: RunningServer, served: Any, browser: Any) -> None:
    one, (admin, _) = served
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


def test_an_operator_releases_a_lock_by_force_and_says_why(server: RunningServer, served: Any, browser: Any) -> None:
    one, (admin, reader) = served
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


def test_a_deadlock_is_drawn_as_a_circle(server: RunningServer, served: Any, browser: Any) -> None:
    one, (admin, _) = served
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_and_has_no_error(
    server: RunningServer, served: Any, browser: Any, scheme: str, tmp_path: Path
) -> None:
    one, (admin, _) = served
    one.post("acquire", admin, name="a-rather-long-name:" + "x" * 80, ttl=60, label="worker")
    one.post("session/open", admin, label="job", host="web-1.example.com", pid=7)
    visitor = visit(browser, one, viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page = visitor.page
    visitor.sign_in(admin)
    for path in ("", "locks", "lock?name=none", "contention", "graph", "nodes", "sessions", "audit"):
        visitor.go(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"/{path} is {wide} px wide"
        page.screenshot(path=tmp_path / f"{path.split('?')[0] or 'overview'}-{scheme}.png")
    assert visitor.wrong == []


def test_a_login_that_is_wrong_says_so_and_signing_out_ends_it(
    server: RunningServer, served: Any, browser: Any
) -> None:
    one, (admin, _) = served
    visitor = visit(browser, one)
    page = visitor.page
    page.goto(f"{one.url}/locks")
    page.get_by_label("Token").fill("ht_wrong")
    page.get_by_role("button", name="Sign in").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("not known")
    page.get_by_label("Token").fill(admin)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/locks")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    page.goto(f"{one.url}/locks")
    page.wait_for_url("**/login?next=locks")

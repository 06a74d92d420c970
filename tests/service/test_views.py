"""Every view of the page: what an operator learns from it, with a keyboard, on a phone, in the dark.

`SHOTS=docs/images` keeps the pictures that the documents show.
"""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.browsing import needs_browser, playwright, visit
from tests.service.instances import Instance
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = [
    needs_browser,
    pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session"),
]
VIEWS = ("", "locks", "lock?name=reports:7", "contention", "graph", "nodes", "sessions", "audit")
CONTRAST = """() => {
  const channel = (value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.disabled || node.closest(".visually-hidden, noscript")) continue;
    const style = getComputedStyle(node);
    let behind = node, back = [0, 0, 0, 0];
    while (behind && (back.length === 4 && back[3] === 0)) {
      back = parse(behind instanceof SVGElement ? "rgba(0, 0, 0, 0)" : getComputedStyle(behind).backgroundColor);
      behind = behind.parentElement;
    }
    const front = light(parse(node instanceof SVGElement ? style.fill : style.color));
    const ratio = (Math.max(front, light(back)) + 0.05) / (Math.min(front, light(back)) + 0.05);
    if (ratio < 4.5) found.push(`${node.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""


class Scene:
    """A lock that hangs, with others that wait for it; sessions; a forced release."""

    def __init__(self, one: Instance, token: str) -> None:
        self.one, self.token = one, token
        for at in range(21):  # so long do holders of such names usually need
            lease = self.post("acquire", name=f"reports:{at + 100}", ttl=60).json()["lease"]
            self.post("release", lease=lease)
        self.session = self.post("session/open", ttl=600, label="report-builder", host="worker-3", pid=4711).json()
        self.post("acquire", name="reports:7", session=self.session["session"], request="r", label="report-builder")
        self.held_at = time.monotonic()
        self.post("acquire", name="a-rather-long-name:" + "x" * 80, ttl=600, label="worker")
        self.post("acquire", name="audited", ttl=600, label="hung")
        self.post("force-release", name="audited", reason="its machine is gone")
        self.waiters = [threading.Thread(target=self._wait, args=(at,)) for at in range(3)]
        for waiter in self.waiters:
            waiter.start()
        wait_for(lambda: one.get("/v1/lock", token, name="reports:7").json()["waiting"] == 3, within=20)

    def post(self, verb: str, **body: Any) -> Any:
        return self.one.post(verb, self.token, timeout=90, **body)

    def _wait(self, at: int) -> None:
        answer = self.post("acquire", name="reports:7", ttl=60, wait=50, request=f"w{at}", label=f"mailer-{at}")
        if answer.status_code == 200:
            self.post("release", lease=answer.json()["lease"])

    def end(self) -> None:
        self.post("session/close", session=self.session["session"])
        for waiter in self.waiters:
            waiter.join()


@pytest.fixture
def scene(server: RunningServer, visited: Any) -> Any:
    one, (admin, _) = visited
    made = Scene(one, admin)
    yield made
    made.end()


def keep(page: Any, name: str, folder: Path) -> None:
    page.screenshot(path=Path(os.environ.get("SHOTS", folder)) / f"{name}.png")


def test_a_lock_that_hangs_is_named_with_its_holder_and_what_to_do(
    scene: Scene, visited: Any, browser: Any, tmp_path: Path
) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin, viewport={"width": 1280, "height": 800})
    page = visitor.page
    visitor.expect("[data-trouble='reports:7']").to_contain_text("report-builder")  # after ten seconds
    visitor.expect("[data-trouble='reports:7']").to_contain_text("3 wait")
    visitor.expect("[data-trouble='reports:7']").to_contain_text("worker-3")
    assert time.monotonic() - scene.held_at > 10
    keep(page, "overview", tmp_path)
    page.get_by_role("link", name="What to do").click()
    visitor.expect("[data-advice]").to_contain_text("report-builder (worker-3")
    visitor.expect("[data-advice]").to_contain_text("force the release")
    visitor.expect("[data-holder]").to_contain_text(scene.session["id"])
    visitor.expect("[data-queue] li").to_have_count(3)
    visitor.expect("[data-queue] li:first-child").to_contain_text("mailer")
    keep(page, "lock", tmp_path)
    assert visitor.wrong == []


def test_contention_nodes_sessions_and_the_graph_say_what_is_so(scene: Scene, visited: Any, browser: Any) -> None:
    one, (admin, reader) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("contention")
    visitor.expect("tr[data-name='reports:#'] td:nth-child(2)").to_have_text(re.compile("^2[0-9]$"))
    visitor.go("nodes")
    visitor.expect(".card[data-name]").to_contain_text("answers")
    visitor.expect("[data-severity] >> nth=0").to_contain_text("NO_PERSISTENCE")
    visitor.go("graph")
    visitor.expect("[data-graph] [data-node]").to_have_count(5)  # three waiters, a lock, its holder
    visitor.expect("[data-edge=waits_for]").to_have_count(3)
    visitor.expect("[data-edge=held_by].dashed").to_have_count(1)  # a session's
    visitor.expect("ul.list").to_contain_text("reports:7 is held by report-builder")
    visitor.go("audit")
    playwright.expect(page.locator("[data-audit]").first).to_contain_text("its machine is gone")
    visitor.go("sessions")
    row = page.locator(f"tr[data-name='{scene.session['id']}']")
    playwright.expect(row).to_contain_text("reports:7")
    row.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Close now").click()
    playwright.expect(page.get_by_role("alert").filter(has_text="reason")).to_be_visible()
    page.get_by_label("Reason").fill("it hangs")
    page.get_by_role("button", name="Close now").click()
    playwright.expect(row).to_have_count(0)
    assert one.post("session/beat", admin, session=scene.session["session"]).status_code == 410
    assert visitor.wrong == []
    other = visit(browser, one, reader)
    other.go("sessions")
    playwright.expect(other.page.get_by_role("button", name="Close")).to_have_count(0)


def test_sessions_are_paged_in_the_address_and_show_how_much_of_their_time_is_left(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    oldest = one.post("session/open", admin, ttl=60, label="the oldest").json()["id"]
    for _ in range(52):
        one.post("session/open", admin, ttl=600)
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("sessions")
    rows = page.locator("tr[data-name]")
    playwright.expect(rows).to_have_count(50)
    playwright.expect(page.locator(".head")).to_contain_text("53 open")
    wait_for(lambda: one.get("/v1/sessions", admin).json()["sessions"][-1]["left"] < 55, within=30)
    page.get_by_role("button", name="Next").click()
    playwright.expect(rows).to_have_count(3)
    playwright.expect(page.get_by_role("button", name="Next")).to_be_hidden()
    assert "cursor=" in page.url
    left, length = page.locator(f"tr[data-name='{oldest}'] .ttl").evaluate(
        "node => [node.querySelector('[data-left]').dataset.left, node.querySelector('i').style.transform]"
    )
    assert float(length[7:-1]) == pytest.approx(float(left) / 60, abs=0.02)
    page.go_back()
    playwright.expect(rows).to_have_count(50)
    assert visitor.wrong == []


def test_only_who_holds_permits_is_shown_with_a_number_of_them(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    for at in range(2):
        one.post("acquire", admin, name="read", ttl=60, kind="shared", label=f"reader-{at}")
    one.post("acquire", admin, name="crawl", ttl=60, kind="permits", permits=5, label="crawler")
    visitor = visit(browser, one, admin)
    visitor.go("lock?name=read")
    visitor.expect("[data-holder]").to_have_count(2)
    visitor.expect("section.wide").to_contain_text("Holders (2)")
    visitor.expect("section.wide").not_to_contain_text("Permits")
    visitor.go("lock?name=crawl")
    visitor.expect("[data-holder]").to_contain_text("Permits1")
    assert visitor.wrong == []


def test_a_keyboard_is_enough_and_keeps_its_place(scene: Scene, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("")
    page.keyboard.press("Tab")
    playwright.expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#main")).to_be_focused()
    link = page.get_by_role("region", name="Held longest").get_by_role("link", name="reports:7")
    link.focus()
    stat = page.locator("[data-stat=held] b").inner_text()
    one.post("acquire", admin, name="one:more", ttl=600)
    playwright.expect(page.locator("[data-stat=held] b")).not_to_have_text(stat)  # it was drawn anew
    playwright.expect(link).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/lock?name=reports%3A7")
    visitor.expect("[data-holder]").to_have_count(1)
    force = page.get_by_role("button", name="Force release")
    force.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    playwright.expect(page.get_by_role("dialog")).to_have_count(0)
    playwright.expect(force).to_be_focused()
    assert visitor.wrong == []


def test_a_link_that_gets_the_focus_while_the_page_asks_for_news_keeps_it(
    scene: Scene, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("")
    link = page.get_by_role("region", name="Held longest").get_by_role("link", name="reports:7")
    playwright.expect(link).to_have_count(1)
    held: list[Any] = []
    passing = threading.Event()
    page.route("**/v1/graph", lambda route: route.continue_() if passing.is_set() else held.append(route))
    stat = page.locator("[data-stat=held] b").inner_text()
    with page.expect_request("**/v1/graph", timeout=30_000):
        one.post("acquire", admin, name="one:more", ttl=600)
    link.focus()
    passing.set()
    for route in held:
        route.continue_()
    playwright.expect(page.locator("[data-stat=held] b")).not_to_have_text(stat)  # it was drawn anew
    playwright.expect(link).to_be_focused()
    assert visitor.wrong == []


def test_what_a_reader_selects_to_copy_stays(scene: Scene, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("lock?name=reports:7")

    def choose() -> str:
        """Again, where the page was drawn anew between the two clicks."""
        page.locator("[data-holder] dd").first.dblclick(position={"x": 6, "y": 8})  # at its first word
        return str(page.evaluate("getSelection().toString()").strip())

    chosen = wait_for(choose)
    with page.expect_response(lambda answer: "/v1/lock?" in answer.url, timeout=30_000):
        one.post("force-release", admin, name="reports:7", reason="a test")  # the page would be drawn anew
        page.wait_for_timeout(1500)
        assert page.evaluate("getSelection().toString()").strip() == chosen
        page.evaluate("getSelection().removeAllRanges()")
    visitor.expect("[data-timeline] [data-kind=forced]").to_have_count(1)
    assert visitor.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_view_fits_and_can_be_read(
    scene: Scene, visited: Any, browser: Any, scheme: str, width: int, tmp_path: Path
) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = visitor.page
    page.goto(f"{one.url}/login")
    playwright.expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate(CONTRAST) == []
    visitor.sign_in(admin)
    for view in VIEWS:
        visitor.go(view)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"/{view} is {wide} px wide"
        assert page.evaluate(CONTRAST) == [], view
        keep(page, f"{view.partition('?')[0] or 'overview'}-{scheme}-{width}", tmp_path)
    assert visitor.wrong == []

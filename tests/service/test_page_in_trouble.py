"""The page while the service does not answer, while its user may not look, and while an operator acts twice."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.service.browsing import needs_browser, playwright, visit
from tests.support.processes import wait_for
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = [
    needs_browser,
    pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True, scope="session"),
]


def away(route: Any) -> None:
    route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "Redis does not answer."}')


def only_refusals(wrong: list[str]) -> bool:
    return all(text.startswith("Failed to load resource") for text in wrong)


def test_a_failure_is_told_and_ends_with_the_next_answer(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("locks")
    page.route("**/v1/locks*", away)
    trouble = page.get_by_role("alert")
    playwright.expect(trouble).to_contain_text("Redis does not answer. What you see is from")
    visitor.expect("[data-live=reconnecting]").to_have_count(1)
    page.unroute("**/v1/locks*")
    visitor.expect("[data-live=live]").to_have_count(1)
    playwright.expect(trouble).to_have_count(0)
    assert only_refusals(visitor.wrong)


def test_a_page_that_is_loaded_while_the_service_is_away_comes_by_itself(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    visitor = visit(browser, one, admin)
    page = visitor.page
    page.route("**/v1/me", away)
    page.goto(f"{one.url}/locks")
    playwright.expect(page.get_by_role("alert")).to_contain_text("The page goes on asking")
    page.unroute("**/v1/me")
    visitor.expect("[data-live=live]").to_have_count(1)
    visitor.expect("[data-total]").to_be_visible()
    assert only_refusals(visitor.wrong)


def test_a_reader_learns_why_a_page_is_empty(server: RunningServer, visited: Any, browser: Any) -> None:
    one, (_, reader) = visited
    visitor = visit(browser, one, reader)
    visitor.page.goto(f"{one.url}/audit")
    playwright.expect(visitor.page.get_by_role("alert")).to_contain_text("admin")
    for turn in ("First", "Next"):
        playwright.expect(visitor.page.get_by_role("button", name=turn)).to_be_hidden()
    assert only_refusals(visitor.wrong)


def test_a_release_by_force_that_is_clicked_twice_takes_the_lock_from_the_holder_that_was_seen(
    server: RunningServer, visited: Any, browser: Any
) -> None:
    one, (admin, _) = visited
    one.post("acquire", admin, name="clicked", ttl=60, label="first")
    second = threading.Thread(
        target=lambda: one.post("acquire", admin, name="clicked", ttl=60, label="second", request="r", wait=45)
    )
    second.start()
    wait_for(lambda: one.get("/v1/lock", admin, name="clicked").json()["waiting"] == 1)
    visitor = visit(browser, one, admin)
    page = visitor.page
    visitor.go("lock?name=clicked")
    owner = page.locator("[data-holder]").get_attribute("data-holder")
    sent: list[Any] = []

    def note(route: Any) -> None:
        sent.append(json.loads(route.request.post_data))
        route.continue_()

    page.route("**/v1/force-release", note)
    page.get_by_role("button", name="Force release").click()
    playwright.expect(page.get_by_role("dialog")).to_contain_text("first learns of it")
    page.get_by_label("Reason").fill("it hangs")
    page.get_by_role("button", name="Release now").dblclick()
    playwright.expect(page.locator("[data-holder]")).to_contain_text("second")
    second.join()
    assert sent == [{"name": "clicked", "reason": "it hangs", "owner": owner}]
    again = one.post("force-release", admin, **sent[0]).json()
    assert again["released"] == 0
    assert one.get("/v1/lock", admin, name="clicked").json()["holders"][0]["label"] == "second"
    assert visitor.wrong == []

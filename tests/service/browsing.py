"""Visitors of the page, with a real browser."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.service.instances import Instance

__all__ = ["CHROMIUM", "FLAGS", "Visitor", "needs_browser", "playwright", "visit"]

playwright: Any = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000


class Visitor:
    """A page, and all that went wrong on it: errors, and requests to anybody else."""

    def __init__(self, page: Any, base: str) -> None:
        self.page = page
        self.base = base
        self.wrong: list[str] = []
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(base) else self.wrong.append(asked.url))
        page.set_default_timeout(PATIENCE)
        playwright.expect.set_options(timeout=PATIENCE)

    def sign_in(self, token: str) -> None:
        self.page.goto(self.base)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_selector("[data-stat=held]")

    def go(self, path: str) -> None:
        self.page.goto(f"{self.base}/{path}")
        self.page.wait_for_selector("[data-live=live]")

    def expect(self, selector: str) -> Any:
        return playwright.expect(self.page.locator(selector))


def visit(browser: Any, one: Instance, token: str = "", **how: Any) -> Visitor:
    visitor = Visitor(browser.new_context(**how).new_page(), one.url)
    if token:
        visitor.sign_in(token)
    return visitor

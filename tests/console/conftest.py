"""A headless Chromium and a service for it. Without a browser the tests are skipped; `tools/setup` installs one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.served import Service, serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT = 20_000
"""Milliseconds that a page may take on a busy machine."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, with a new user's folder."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: it is in the `dev` extra"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, headless=True, args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests: they add to it, and take nothing away."""
    with serving(tmp_path_factory.mktemp("served")) as made:
        yield made


class Visit:
    """A window of the browser at a service. What is wrong in it is kept: errors of code, refused contents, requests to
    other hosts."""

    def __init__(self, page: Any, url: str):
        self.page, self.url = page, url
        self.wrong: list[str] = []
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", self._heard)
        page.on("request", lambda request: self._asked(request.url))

    def _heard(self, message: Any) -> None:
        lost = (
            "Failed to load resource" in message.text or "net::ERR" in message.text
        )  # what the server refuses, it tells in the page
        if message.type == "error" and not lost:
            self.wrong.append(f"console: {message.text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.wrong.append(f"another host: {url}")

    def go(self, address: str) -> Any:
        """Open an address and wait for its page."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/#/{address}")
        self.page.wait_for_selector("main h1")
        return self.page

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def wait(self, condition: str) -> None:
        """Wait until an expression of JavaScript holds. The page's own policy allows no code that waits inside it."""
        end = time.monotonic() + WAIT / 1000
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"{condition}: {self.page.locator('main').inner_text()[:500]}"
            self.page.wait_for_timeout(30)


@pytest.fixture
def visit(browser: Any, service: Service) -> Iterator[Callable[..., Visit]]:
    """Opens windows; at the end nothing may have been wrong in any."""
    contexts, visits = [], list[Visit]()

    def open_window(url: str | None = None, **options: Any) -> Visit:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}))
        visits.append(Visit(contexts[-1].new_page(), url or service.api.url))
        return visits[-1]

    yield open_window
    for context in contexts:
        context.close()
    assert [w for v in visits for w in v.wrong] == []


@pytest.fixture
def window(visit: Callable[..., Visit]) -> Visit:
    """One window at the service."""
    return visit()


@pytest.fixture(scope="session")
def axe() -> str:
    """The code of axe."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")

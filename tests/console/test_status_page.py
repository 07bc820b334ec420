"""The status page tells what happens as it happens, also that the server is gone and that it is back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from belvedere.engine.errors.failed_stages import Failed
from tests.console.conftest import Visit
from tests.console.served import Service, bid, serving

pytestmark = pytest.mark.browser


@pytest.mark.smoke
def test_it_tells_epochs_views_and_who_holds_a_stream_back(window: Visit, service: Service) -> None:
    page = window.go("status")
    page.wait_for_selector("tbody td")
    tiles = window.text(".tiles").replace("\n", " ")
    assert re.search(r"Late [2-9] ", tiles), tiles
    assert re.search(r"Rejected [1-9] ", tiles), tiles
    row = window.text('tr:has(th:text-is("Bid"))')
    assert "bidtime: 2024-03-01 09:00:00 UTC" in row
    assert "slow" in row
    assert "fast" not in row
    hourly = page.locator("tr", has=page.locator("th", has_text="Hourly"))
    assert "h: 2024-03-01 09:00:00 UTC" in hourly.inner_text()
    before = service.epoch
    service.commit({"Bid": [bid(1000)]})
    window.wait(f"document.querySelector('.tile dd').textContent.startsWith('{before}')")
    page.get_by_role("link", name="Hourly").click()
    page.wait_for_selector("h1:text-is('Hourly')")


def test_it_says_what_is_in_quarantine_and_why(visit: Callable[..., Visit], tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        why = ('view "Hourly" failed: divide by zero', "in the row item anvil", "write nullif(b, 0)")
        service.failed = (Failed("Hourly", "m", "Hourly", 1, 0, "B7040", *why, {"Hourly": 0}),)
        service.commit({"Bid": [bid(1000)]})
        window = visit(service.api.url)
        page = window.go("status")
        held = page.locator("tr", has=page.locator("th", has_text="Hourly")).locator("td.warning")
        held.wait_for()
        assert 'in quarantine, as of epoch 0 view "Hourly" failed: divide by zero (Hourly)' in held.inner_text()
        assert "in the row item anvil\nwrite nullif(b, 0)" in (held.get_attribute("title") or "")
        page.get_by_role("link", name="Hourly").click()
        page.wait_for_selector(".told.warning")
        assert "Hourly is in quarantine: its rows are those of epoch 0" in window.text(".told")
        service.failed = ()
        service.commit({"Bid": [bid(1001)]})
        page.reload()
        page.wait_for_selector(".told:not(.warning)")


def test_it_says_when_the_server_is_gone_and_when_it_is_back(visit: Callable[..., Visit], tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        window = visit(service.api.url)
        page = window.go("status")
        page.wait_for_selector("#connection[data-state=live]")
        port = service.api.port
        service.api.close()
        page.wait_for_selector("#connection[data-state=gone]")
        assert "does not answer since" in window.text("#banner")
        page.wait_for_selector(".page.stale")
        page.evaluate("location.hash = '#/views/bid'")
        page.wait_for_selector("main .problem")
        service.start(port)
        page.wait_for_selector("#connection[data-state=live]")
        assert window.text("#banner") == "The server is back."
        page.wait_for_selector("tbody td")  # the page that failed comes by itself


REPORTED = """
const asked = window.fetch;
window.fetch = (url, ...more) => String(url).includes("status/events") ? Promise.resolve(new Response(new
    ReadableStream({
  start(stream) {
    window.tell = (store) => stream.enqueue(new TextEncoder().encode(
      `data: ${JSON.stringify({store, epoch: 1, takes_pushes: false, inputs: [], views: []})}\\n\\n`));
    window.tell("away");
  },
}), {headers: {"content-type": "text/event-stream"}})) : asked(url, ...more);
"""


def test_it_says_when_the_store_alone_is_away(window: Visit) -> None:
    window.page.add_init_script(REPORTED)
    page = window.go("status")
    page.wait_for_selector("#connection[data-state=away]")
    assert "cannot reach its store since" in window.text("#banner")
    page.wait_for_selector(".page.stale")
    page.evaluate("tell('here')")
    page.wait_for_selector("#connection[data-state=live]")
    assert window.text("#banner") == "The store is back."
    page.wait_for_selector(".page:not(.stale)")


def test_it_asks_for_the_token(visit: Callable[..., Visit], tmp_path: Path) -> None:
    with serving(tmp_path, {"token": "a secret that nobody guesses"}) as service:
        window = visit(service.api.url)
        page = window.go("views/bid")
        page.wait_for_selector("#token-form:not([hidden])")
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#token-form:not([hidden])")
        page.fill("#token", "a secret that nobody guesses")
        page.keyboard.press("Enter")
        page.wait_for_selector("tbody td")
        page.wait_for_selector("#connection[data-state=live]")
        assert not page.locator("#token-form").is_visible()
        assert "secret" not in page.url


def refuse(route: Any) -> None:
    reported = {"title": "this caller is not allowed to see the status", "status": 403, "code": "B8005"}
    route.fulfill(status=403, content_type="application/problem+json", body=json.dumps(reported))


def test_who_may_not_see_the_status_sees_rows_all_the_same(window: Visit) -> None:
    for path in ("status/events", "lineage"):
        window.page.route(f"**/{path}", refuse)
    page = window.go("views/bid")
    page.wait_for_selector("tbody td")
    page.wait_for_selector("#connection[data-state=unseen]")
    assert window.text("#banner") == ""
    window.go("status").wait_for_selector("text=your token may not see the status")
    window.go("lineage").wait_for_selector("text=nothing that you may see")

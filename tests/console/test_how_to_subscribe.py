"""The page of docs/how-to/subscribe.md in a browser: it shows the events that are there, and those that come."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.console.served import serving

pytestmark = pytest.mark.browser

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "subscribe.md"


def test_the_page_shows_events_as_they_come(browser: Any, tmp_path: Path) -> None:
    html = re.search(
        r"^```html file=index\.html\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert html is not None
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{web.server_port}"
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served", {"cors_origins": [address]}) as service:
        service.commit({}, events=2)
        (tmp_path / "index.html").write_text(
            html[1].replace("http://127.0.0.1:8080", service.api.url), encoding="utf-8"
        )
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("li >> nth=1")
        service.commit({}, events=1)
        page.wait_for_selector("li >> nth=2")
        assert page.locator("li").all_inner_texts() == ["anvil: 901", "anvil: 902", "anvil: 901"]
        page.close()
    web.shutdown()

"""The pictures of the console in docs/pictures: `--update` takes them; otherwise the pages must show the same text.

Beside a picture lies what its page says (`tests/console/pictures`), without figures and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.console.conftest import Visit
from tests.console.served import Service, bid

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SAID = Path(__file__).with_name("pictures")
SIZE = {"width": 1100, "height": 720}
FIGURES = re.compile(r"\d[\d,.:]*(?: (?:ms|s|min|h|days?)\b)?(?: \d[\d,.:]*(?: (?:ms|s|min|h|days?)\b)?)*")
"""Figures with their units, one after the other."""

VARIABLES = '{"n": 2}'
QUERY = """query Items($n: Int) {
  items(limit: $n) {
    item
    name
    hours(limit: 2) { h best n }
  }
}

query Bids {
  bid(filter: {price: {gt: 90}}) { item price }
}"""


def check(visit: Visit, name: str, update: bool) -> None:
    visit.wait("/epoch \\d+, .* ago/.test(document.querySelector('header').innerText)")
    said = FIGURES.sub("0", visit.page.locator("body").inner_text())
    path = SAID / f"{name}.txt"
    if update:
        visit.page.screenshot(path=PICTURES / f"console-{name}.png")
        path.write_text(said + "\n", encoding="utf-8")
    assert said + "\n" == path.read_text(encoding="utf-8"), f"{name} is another page: pytest {__file__} --update"
    assert (PICTURES / f"console-{name}.png").exists()


@pytest.fixture
def small(visit: Callable[..., Visit]) -> Visit:
    return visit(viewport=SIZE)


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


def test_the_chart_of_a_view(small: Visit, update: bool) -> None:
    page = small.go("views/hourly?tab=chart")
    page.wait_for_selector("svg.chart")
    check(small, "chart", update)


def test_the_lineage(small: Visit, update: bool) -> None:
    page = small.go("lineage")
    page.wait_for_selector("svg.lineage")
    page.locator('a[aria-label="Hourly, view"]').click()
    page.wait_for_selector(".details h2:text-is('Hourly')")
    page.wait_for_selector(".details pre")
    check(small, "lineage", update)


def test_the_editor(small: Visit, update: bool) -> None:
    page = small.go(f"query?query={quote(QUERY)}&variables={quote(VARIABLES)}&operation=Items")
    page.wait_for_selector(".asking .editor")
    page.click("button:text-is('Run')")
    small.wait(
        "document.querySelector('.answer .editor').shadowRoot.querySelector('.cm-content').innerText.includes('anvil')"
    )
    check(small, "query", update)


def test_the_status_while_epochs_come(small: Visit, service: Service, update: bool) -> None:
    page = small.go("status")
    page.wait_for_selector("table")
    for number in range(8):
        service.commit({"Bid": [bid(200 + 40 * number + n) for n in range(20 + number)]})
        page.wait_for_timeout(400)
    page.wait_for_selector("svg polyline, svg path")
    check(small, "status", update)

"""Accessibility of every page in both color schemes, wide and at 420 pixels: axe, overflow, keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.console.conftest import Visit
from tests.depth import turn

pytestmark = pytest.mark.browser

PAGES = {
    "status": "main .tile",
    "views": "main .card",
    "views/bid": "main tbody td",
    "views/items?f=name.isNull.true&order=item.desc": "main tbody td",
    "views/hourly?tab=chart": "main svg.chart",
    "views/hourly?tab=definition": "main pre",
    "views/hoursOf": "main .parameters",
    "views/nothing": "main .problem",
    "lineage?node=Hourly": "main .definition pre",
    "query": "main .editor",
    "push/bid": "main .push-form",
}
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`)"""


AT_NIGHT = pytest.mark.nightly


@pytest.mark.parametrize(
    ("width", "colours"),
    [
        (1280, "light"),
        (420, "dark"),
        pytest.param(1280, "dark", marks=AT_NIGHT),
        pytest.param(420, "light", marks=AT_NIGHT),
    ],
)
@pytest.mark.deep
def test_axe_finds_nothing(visit: Callable[..., Visit], axe: str, width: int, colours: Any) -> None:
    window = visit(viewport={"width": width, "height": 800}, color_scheme=colours, bypass_csp=True)
    for address in turn(PAGES, colours == "dark"):
        ready = PAGES[address]
        page = window.go(address)
        page.wait_for_selector(ready)
        page.evaluate(axe)
        assert page.evaluate(RUN_AXE) == [], f"{address} at {width} in {colours}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{address} sticks out"
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert "button-name" in str(page.evaluate(RUN_AXE)), "axe finds what is wrong"


def test_it_is_reached_by_keyboard(window: Visit) -> None:
    page = window.go("status")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("#pages a", has_text="Lineage").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("svg.lineage")
    page.locator('a[aria-label="Bid, input"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".details h2")
    assert "node=Bid" in page.url
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Bid, input", (
        "the focus stays where it was"
    )


def test_heads_of_columns_sort_by_keyboard_and_keep_the_focus(window: Visit) -> None:
    page = window.go("views/bid")
    page.wait_for_selector("tbody td")
    page.locator("th button", has_text="price").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('th[aria-sort="ascending"]')
    assert page.evaluate("document.activeElement.textContent").startswith("price")


def test_colours_are_chosen_and_kept(window: Visit) -> None:
    page = window.go("status")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-label") == "Colours: dark"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    page.wait_for_selector("main h1")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark

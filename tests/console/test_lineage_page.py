"""The lineage as a picture: what reads what, and a click tells of a part."""

from __future__ import annotations

import pytest

from tests.console.conftest import Visit

pytestmark = pytest.mark.browser


def test_it_shows_all_parts_and_tells_of_the_one_that_is_chosen(window: Visit) -> None:
    page = window.go("lineage")
    page.wait_for_selector("svg.lineage")
    names = {n.get_attribute("aria-label") for n in page.locator("svg.lineage a").all()}
    assert names == {
        "Bid, input", "Items, input", "_Dear, view", "Hourly, view", "HoursOf, template", "Dear, subscription",
        "console.hourly, sink",
    }  # fmt: skip
    assert page.locator("svg.lineage .edge").count() == 5
    assert page.locator("svg.lineage .relationship").count() == 1
    places = {n: page.locator(f'a[aria-label="{n}"] rect').bounding_box()["x"] for n in names}
    assert places["Bid, input"] < places["_Dear, view"] < places["Dear, subscription"]
    assert places["Hourly, view"] < places["HoursOf, template"]
    page.locator('a[aria-label="_Dear, view"]').click()
    page.wait_for_selector(".details pre")
    assert "price > 900" in window.text(".details")
    assert "not served" in window.text(".details")
    page.locator('a[aria-label="Hourly, view"]').click()
    page.wait_for_selector(".details h2:text-is('Hourly')")
    page.get_by_role("link", name="its rows").click()
    page.wait_for_selector("table.rows")

"""The page of a view: rows with order, filters and pages in the URL; downloads; a chart; the definition."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import Visit
from tests.console.served import BIDS, HUGE, Service, bid

pytestmark = pytest.mark.browser


def column(page: Any, number: int) -> list[str]:
    return [t.strip() for t in page.locator(f"table.rows tbody td:nth-child({number})").all_inner_texts()]


@pytest.mark.smoke("way console")
def test_rows_are_sorted_filtered_and_paged_and_the_address_says_so(window: Visit) -> None:
    page = window.go("views/bid?size=25")
    page.wait_for_selector("tbody td")
    assert "What people offer." in window.text("main")
    page.click("th button:has-text('price')")
    page.wait_for_selector('th[aria-sort="ascending"]')
    page.click("th button:has-text('price')")
    page.wait_for_selector('th[aria-sort="descending"]')
    page.select_option('[aria-label="Column"]', "item")
    page.select_option('[aria-label="Comparison"]', "contains")
    page.fill('[aria-label="Value"]', 'XL" 🎈')
    page.click("text=Add filter")
    page.wait_for_selector(".chip")
    window.wait("!document.querySelector('table.rows tbody').textContent.includes('anvil')")
    window.wait("document.querySelectorAll('table.rows tbody tr').length === 25")
    prices = [int(p) for p in column(page, 2)]
    assert prices == sorted(prices, reverse=True)
    assert set(column(page, 3)) == {'Größe, "XL" 🎈'}
    page.click("text=Later rows")
    window.wait("document.querySelector('.pager').textContent.includes('rows 26 to')")
    rest = column(page, 2)
    assert len(rest) == sum(bid(n)["item"] == 'Größe, "XL" 🎈' for n in range(BIDS)) - 25
    address = page.url.partition("#/")[2]
    assert "page=2" in address
    assert "order=price.desc" in address
    again = window.go(address)
    again.wait_for_selector("tbody td")
    assert column(again, 2) == rest
    again.click('[aria-label="Remove the filter on item"]')
    window.wait("!document.querySelector('.chip')")
    again.go_back()
    again.wait_for_selector(".chip")


def test_a_wrong_value_is_told_with_what_to_write(window: Visit) -> None:
    page = window.go("views/bid?f=price.gt.many")
    page.wait_for_selector(".problem")
    assert "many" in window.text(".problem")


def test_null_and_large_numbers_are_shown_as_they_are(window: Visit) -> None:
    page = window.go("views/bid?f=item.isNull.true&order=serial.asc&size=25")
    page.wait_for_selector("tbody td")
    expected = [str(bid(n)["serial"]) for n in range(BIDS) if bid(n)["item"] is None]
    assert column(page, 4) == expected[:25]
    assert set(column(page, 3)) == {"NULL"}


@pytest.mark.smoke
def test_rows_come_by_themselves_where_live_is_on(window: Visit, service: Service) -> None:
    page = window.go("views/bid?order=serial.desc&live=1")
    page.wait_for_selector("tbody td")
    number = 2000 + 4 * service.epoch
    service.commit({"Bid": [bid(number)]})
    window.wait(f"document.querySelector('table.rows tbody td:nth-child(4)').textContent === '{HUGE + number}'")


def test_all_rows_of_a_filter_are_downloaded_exactly(window: Visit) -> None:
    page = window.go(f"views/bid?f=serial.gte.{HUGE}&f=serial.lt.{HUGE + BIDS}&order=serial.asc&size=25")
    page.wait_for_selector("tbody td")
    with page.expect_download() as found:
        page.click("button:text-is('CSV')")
    assert found.value.suggested_filename == "bid.csv"
    text = Path(found.value.path()).read_bytes().decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["bidtime", "price", "item", "serial"]
    expected = [bid(n) for n in range(BIDS)]
    shown = [["" if b["price"] is None else str(b["price"]), b["item"] or "", str(b["serial"])] for b in expected]
    assert [r[1:] for r in rows[1:]] == shown
    with page.expect_download() as found:
        page.click("button:text-is('JSON')")
    parsed = json.loads(Path(found.value.path()).read_bytes())
    assert [(r["price"], r["item"], r["serial"]) for r in parsed] == [
        (b["price"], b["item"], b["serial"]) for b in expected
    ]


def test_a_column_of_objects_is_shown(window: Visit) -> None:
    page = window.go("views/items?order=item.asc")
    page.wait_for_selector("tbody td")
    assert json.loads(page.locator("tbody tr").first.locator("td").nth(3).inner_text()) == {
        "cm": 30.5,
        "of": {"part": "horn"},
    }
    page = window.go("views/items?f=size.isNull.true")
    page.wait_for_selector("tbody td")
    assert page.locator("tbody tr").first.locator("td").nth(1).inner_text() == "bell"


def test_related_rows_open_below_a_row(window: Visit) -> None:
    page = window.go("views/items?order=item.asc")
    page.click('[aria-label="More of this row"] >> nth=0')
    page.wait_for_selector("td.related table")
    assert "hours" in window.text("td.related h3")
    assert page.locator("td.related tbody tr").first.locator("td").first.inner_text() == "anvil"


def test_a_row_says_where_it_comes_from_as_far_as_the_database_can(window: Visit) -> None:
    page = window.go("views/hourly?f=item.contains.XL&f=h.eq.2024-03-01T09:00:00Z&size=25")
    page.click('[aria-label="More of this row"] >> nth=0')
    page.click("td.related button:text-is('Why is this row here?')")
    page.wait_for_selector("td.related .why section h3")
    assert "cannot be computed at read time" in window.text("td.related .why h3")
    assert "max(price) AS best" in window.text("td.related .why pre")


def test_what_a_row_was_made_of_is_read_in_a_narrow_window(window: Visit) -> None:
    window.page.set_viewport_size({"width": 420, "height": 800})
    page = window.go("views/hourly?f=item.contains.XL&f=h.eq.2024-03-01T09:00:00Z&size=25")
    page.click('[aria-label="More of this row"] >> nth=0')
    page.click("td.related button:text-is('Why is this row here?')")
    page.wait_for_selector("td.related .why section h3")
    assert page.evaluate("(t => t.offsetWidth > t.parentElement.clientWidth)(document.querySelector('table.rows'))")
    for element in page.query_selector_all("td.related .why h3, td.related .why pre, td.related .why p"):
        box = element.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 420, element.inner_text()


def test_rows_that_a_row_was_made_of_are_opened_in_turn(window: Visit) -> None:
    page = window.go("views/items?order=item.asc")
    item = {"item": "bell", "name": None, "size": None}
    made = {"relation": "Items", "how": "its group by item", "count": 7, "order": ["item"], "rows": [item]}
    parts = {
        "reads": [made],
        "dropped": [{**made, "count": 3, "how": "price > 5", "order": []}],
        "late": [],
        "inputs": [made],
    }
    first, second = ({"epoch": n, "time": f"2024-03-01T0{n}:00:00Z"} for n in (1, 2))
    versions = [
        {"row": item, "since": second, "until": None, "made_by": [{**made, "how": "arrived"}]},
        {"row": item, "since": first, "until": second, "made_by": []},
    ]
    since = {
        "words": "last changed in epoch 2",
        "versions": versions,
        "count": 3,
        "made_by": [],
        "unknown": ["when it appeared"],
    }
    reported = {"view": "Items", "sql": "Items := made up", "row": item, "epoch": 1, "since": since, **parts}
    page.route("**/rest/items/%22anvil%22/why", lambda route: route.fulfill(json=reported))
    page.click('[aria-label="More of this row"] >> nth=0')
    page.click("td.related button:text-is('Why is this row here?')")
    page.wait_for_selector(".why section table")
    assert [t.strip() for t in page.locator(".why h3").all_inner_texts()] == [
        "Items: 7 rows, its group by item",
        "not counted: Items: 3 rows, price > 5",
    ]
    assert "last changed in epoch 2" in window.text(".why .facts")
    hints = page.locator(".why .hint").all_inner_texts()
    assert hints[:2] == ["1 version earlier", "not known: when it appeared"]
    assert "6 rows more, in the order of item" in hints[2]
    assert "2 rows more" in hints
    held = page.locator(".why table >> nth=0").locator("tbody")
    assert "epoch 1, 2024-03-01 01:00:00 UTC" in held.inner_text()
    page.click(".why table button >> nth=0")  # a version opens to what made it
    page.wait_for_selector(".why td.related h3")
    assert "Items: 7 rows, arrived" in window.text(".why td.related h3")
    group = page.locator(".why section", has=page.get_by_role("heading", name="Items: 7 rows, its group by item"))
    group.locator("table button").first.click()  # asked of the server: a row of an input arrived
    page.wait_for_selector(".why >> text=it arrived")
    assert "last arrival: 20" in window.text(".why td.related .why .facts, .why td.related .facts")


def test_an_empty_list_says_why(window: Visit) -> None:
    page = window.go("views/hourly?f=item.eq.Anvil&f=n.gt.0")
    page.click("button:text-is('Why is there no such row?')")
    page.wait_for_selector(".why section h3")
    assert "Hourly" in window.text(".why h3")
    assert "max(price) AS best" in window.text(".why pre")
    page = window.go("views/items?f=item.startsWith.An_&f=name.isNull.false")
    page.click("button:text-is('Why is there no such row?')")
    page.wait_for_selector(".why section p")
    assert "`Items` has no row with item" in window.text(".why section p")
    page = window.go("views/items?f=item.contains.*")
    page.wait_for_selector("td.empty")
    assert not page.locator(".why").count()  # what REST's patterns cannot say


def test_a_row_without_an_address_says_so(window: Visit) -> None:
    page = window.go("views/hourly?f=item.isNull.true&size=25")
    page.click('[aria-label="More of this row"] >> nth=0')
    page.wait_for_selector("td.related p")
    assert "NULL has no address" in window.text("td.related p")


def test_a_template_asks_for_its_parameters(window: Visit) -> None:
    page = window.go("views/hoursOf")
    page.get_by_label("item: String!").fill("bell")
    page.click("button:text-is('Ask')")
    page.wait_for_selector("tbody td")
    assert set(column(page, 1)) == {"bell"}
    assert "p.item=bell" in page.url


def test_the_chart_has_a_line_for_each_part_of_the_key(window: Visit) -> None:
    page = window.go("views/hourly?tab=chart")
    page.wait_for_selector("svg.chart")
    assert page.locator("svg.chart polyline").count() >= 4
    assert "anvil" in window.text(".legend")
    page.locator("svg.chart").focus()
    page.keyboard.press("Home")
    assert window.text("output").startswith("2024-03-01 08:00:00 UTC")
    page.get_by_label("Number").select_option("n")
    page.wait_for_selector("figcaption:has-text('n over time')")
    assert "y=n" in page.url


def test_the_definition_says_sql_and_how_and_why_it_is_kept(window: Visit) -> None:
    page = window.go("views/hourly?tab=definition")
    page.wait_for_selector("main pre")
    text = window.text("main")
    assert "Hourly := SELECT item, hour(bidtime) AS h" in text
    assert "merge" in text
    assert "key: item, h" in text
    page.get_by_role("link", name="Bid").first.click()
    page.wait_for_selector("h1:text-is('Bid')")


def test_what_people_wrote_is_text_and_never_code(window: Visit, service: Service) -> None:
    service.commit({"Items": [{"item": "~<img src=x onerror=alert(1)>", "name": "<b>bold</b>"}]})
    page = window.go("views/items?order=item.desc")
    page.wait_for_selector("tbody td")
    assert "<b>bold</b>" in window.text("table.rows")
    assert page.locator("table.rows img, table.rows b").count() == 0

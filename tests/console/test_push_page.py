"""Rows are pushed by a form: what is refused is told at its field, what is taken says its epoch."""

from __future__ import annotations

import pytest

from tests.console.conftest import Visit

pytestmark = pytest.mark.browser


def test_a_wrong_value_is_told_at_its_field_and_a_good_row_is_taken(window: Visit) -> None:
    page = window.go("push/bid")
    page.get_by_label("bidtime: DateTime!").fill("2024-03-02T08:00:00Z")
    page.get_by_label("price: Int").fill("two")
    page.get_by_label("item: String").fill("Ärger")
    page.click("text=Push the row >> nth=0")
    page.wait_for_selector('[aria-invalid="true"]')
    assert "two" in window.text(".problem-text:not(:empty)")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert page.locator('[aria-invalid="true"]').count() == 1
    page.get_by_label("price: Int").fill("77")
    page.get_by_label("serial: Long").fill("-9007199254740993")
    page.click("text=Push the row >> nth=0")
    page.wait_for_selector(".result .good")
    assert "1 taken; epoch" in window.text(".result .good")
    assert "serial -9007199254740993" in window.text(".result")
    again = window.go("views/bid?f=item.eq.Ärger")
    again.wait_for_selector("tbody td:text-is('77')")


def test_what_must_be_given_is_told_at_its_field(window: Visit) -> None:
    page = window.go("push/bid")
    page.click("text=Push the row >> nth=0")
    page.wait_for_selector('[aria-invalid="true"]')
    assert page.get_by_label("bidtime: DateTime!").get_attribute("aria-invalid") == "true"


def test_late_rows_say_the_bound(window: Visit) -> None:
    page = window.go("push/bid")
    page.get_by_label("bidtime: DateTime!").fill("2001-01-01T00:00:00Z")
    page.click("text=Push the row >> nth=0")
    page.wait_for_selector(".result .problem")
    assert "late" in window.text(".result")


def test_several_rows_go_as_json(window: Visit) -> None:
    page = window.go("push/items")
    page.click("summary")
    box = page.get_by_label("An object, or an array of objects")
    box.fill('[{"item": "x1", "name": ""}, {"item": null}]')
    page.click("text=Push the rows")
    page.wait_for_selector("details .result li")
    assert "1 taken, 1 refused" in window.text("details .result")
    assert "Row 2" in window.text("details .result li")
    box.fill("[")
    page.click("text=Push the rows")
    page.wait_for_selector("details .problem-text:has-text('no JSON')")

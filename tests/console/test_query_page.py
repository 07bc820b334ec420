"""The query page: completion, several operations, variables, errors with hints, tables, docs, live subscriptions."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.console.conftest import Visit
from tests.console.served import Service

pytestmark = pytest.mark.browser

TWO = "query Cheap { bid(limit: 1, order: [{price: ASC}]) { price } }\n"
TWO += "query Items($n: Int) { items(limit: $n, order: [{item: ASC}]) { item } }"
ANSWER = "document.querySelector('.answer .editor').shadowRoot.querySelector('.cm-content').innerText"


def with_query(text: str, variables: str = "") -> str:
    return f"query?query={quote(text)}&variables={quote(variables)}"


def test_one_of_several_operations_runs_with_variables(window: Visit) -> None:
    page = window.go(with_query(TWO, '{"n": 1}'))
    page.wait_for_selector(".asking .editor")
    page.select_option('[aria-label="Operation to run"]', "Items")
    page.click("button:text-is('Run')")
    window.wait(f"{ANSWER}.includes('anvil')")
    assert json.loads(page.evaluate(ANSWER)) == {"items": [{"item": "anvil"}]}
    assert "operation=Items" in page.url
    assert "epoch" in window.text(".told")
    page.click("button:text-is('Table')")
    page.wait_for_selector(".tables td:text-is('anvil')")


def test_a_mistake_is_told_with_its_place(window: Visit) -> None:
    page = window.go(with_query("{ bid { colour } }"))
    page.click("button:text-is('Run')")
    page.wait_for_selector(".problem")
    assert "colour" in window.text(".problem")
    page.wait_for_selector(".cm-lintRange-error")  # also where it is written


def test_names_are_completed_and_explained(window: Visit) -> None:
    page = window.go(with_query("{ bid { it } }"))
    page.locator('[aria-label="GraphQL"]').click()
    page.keyboard.press("Control+End")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".cm-tooltip-autocomplete li:has-text('item')")
    page.wait_for_timeout(200)  # a list that has just come takes no key
    page.keyboard.press("Enter")
    window.wait(
        "document.querySelector('.asking .editor').shadowRoot.querySelector('.cm-content').innerText.includes('item')"
    )
    page.fill('[aria-label="Find a type or field"]', "bidtime")
    page.click("text=Bid.bidtime")
    assert "When it was made." in window.text(".docs")


def test_ctrl_enter_runs_and_tidy_lays_out(window: Visit) -> None:
    page = window.go(with_query("{items(limit:1){item}}"))
    page.click("button:text-is('Tidy')")
    page.locator('[aria-label="GraphQL"]').click()
    page.keyboard.press("Control+Enter")
    window.wait(f"{ANSWER}.includes('anvil')")
    assert page.locator(".asking .cm-line").first.inner_text() == "{"
    assert "{ items(limit: 1)" in window.text(".past")


def test_events_of_a_subscription_come_as_they_are_committed(window: Visit, service: Service) -> None:
    page = window.go(with_query("subscription { dear { price _seq } }"))
    page.click("button:text-is('Run')")
    page.wait_for_selector("button:text-is('Stop')")
    window.wait("document.querySelector('.told').textContent.includes('waiting')")
    page.wait_for_timeout(500)  # the stream begins at what is committed when it opens
    service.commit({}, events=2)
    window.wait("document.querySelector('.told').textContent === '2 events'")
    assert "902" in page.evaluate(ANSWER)
    page.click("button:text-is('Stop')")
    page.wait_for_selector("button:text-is('Run')")


def test_a_header_is_sent(window: Visit) -> None:
    page = window.go(with_query("{ items { item } }"))
    page.click("summary:text-is('Headers')")
    page.locator('[aria-label="Headers, as JSON"]').fill('{"X-Told": "1"}')
    with page.expect_request(lambda r: r.url.endswith("/graphql") and "items" in (r.post_data or "")) as sent:
        page.click("button:text-is('Run')")
    assert sent.value.headers["x-told"] == "1"

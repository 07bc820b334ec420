"""The console for a caller with a role and a JWT: it shows what the role may see, and asks again after expiry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import read_project
from tests.console.conftest import Visit
from tests.console.served import SCRIPT, Service, serving

pytestmark = pytest.mark.browser

SECRET = "a secret of thirty-two characters or more"
PROJECT = f"""
[api.jwt]
key = "{SECRET}"
algorithms = ["HS256"]

[roles.seller]
rights = ["read"]
views = ["Bid", "Items"]
[roles.seller.hidden]
Bid = ["price"]
[roles.seller.rows]
Bid = "item = claim('item')"
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("roles")
    project = read_project(PROJECT, folder, folder / "belvedere.toml", {})
    compiled = compile_script(SCRIPT.replace("EXPORT Hourly TO console.hourly;", ""), project=project)
    assert not project.diagnostics, project.diagnostics
    assert compiled.ok, compiled.diagnostics
    with serving(folder, project.api, compiled.catalog) as made:
        yield made


def token(seconds: float = 600, **claims: Any) -> str:
    return jwt.encode({"role": "seller", "item": "anvil", "exp": time.time() + seconds, **claims}, SECRET, "HS256")


def sign_in(window: Visit, address: str, given: str) -> Any:
    page = window.go(address)
    page.wait_for_selector("#token-form:not([hidden])")
    page.fill("#token", given)
    page.keyboard.press("Enter")
    return page


def test_a_role_sees_its_views_rows_and_columns(visit: Callable[..., Visit], guarded: Service) -> None:
    window = visit(guarded.api.url)
    page = sign_in(window, "views/bid", token())
    page.wait_for_selector("tbody td")
    heads = window.text("thead")
    assert "item" in heads
    assert "price" not in heads
    items = page.locator("tbody tr").all_inner_texts()
    assert items
    assert all("anvil" in row and "bell" not in row for row in items), items
    page = window.go("views")
    page.wait_for_selector("main a:has-text('Bid')")
    assert "Hourly" not in window.text("main")
    page = window.go("status")
    page.wait_for_selector("text=your token may not see the status")
    window.go("push").wait_for_selector("main")
    assert "Bid" not in window.text("main"), "it may push nothing"


@pytest.mark.parametrize("given", [lambda: token(-60), lambda: token(role="nobody"), lambda: "no.token.at all"])
def test_a_token_that_does_not_count_is_asked_for_again(
    visit: Callable[..., Visit], guarded: Service, given: Callable[[], str]
) -> None:
    window = visit(guarded.api.url)
    page = sign_in(window, "views/bid", given())
    page.wait_for_timeout(500)
    page.wait_for_selector("#token-form:not([hidden]), main .problem")
    assert page.locator("tbody td").count() == 0
    assert "anvil" not in window.text("body")

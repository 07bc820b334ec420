"""`docs/reference/sql.md` says what the compiler's tables say."""

from __future__ import annotations

import pytest
from sqlglot import exp

from belvedere.functions.function_table import FUNCTIONS
from belvedere.syntax.supported import READ
from tests.docs.sql_page import CLAUSES, COMMAND, PAGE, page


def test_the_page_is_as_the_tables_are(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), f"run `{COMMAND}`"


def test_every_function_is_on_the_page() -> None:
    text = page()
    assert [name for row in FUNCTIONS for name in row.calls if f"`{name}`" not in text] == []


def test_every_clause_of_a_select_that_is_read_is_on_the_page() -> None:
    assert set(CLAUSES) == set(READ[exp.Select])

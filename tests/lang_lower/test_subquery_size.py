"""Subqueries beside each other: each is computed over the rows of FROM, not over what the others have joined."""

from __future__ import annotations

from itertools import pairwise

import pytest

from belvedere.compiler import compile_script

TABLES = "CREATE TABLE T (id INT, k INT, PRIMARY KEY (id)); CREATE TABLE U (id INT, v INT, PRIMARY KEY (id));"


def size(number: int, subquery: str) -> int:
    """The nodes of a view with so many subqueries."""
    chosen = ", ".join(f"{subquery.format(n)} AS a{n}" for n in range(number))
    compiled = compile_script(f"{TABLES} A := SELECT id, {chosen} FROM T;")
    assert not [d for d in compiled.diagnostics if d.severity == "error"], compiled.diagnostics
    return sum(1 for _ in compiled.catalog.views["A"].plan.walk())


@pytest.mark.parametrize(
    "subquery",
    [
        "(SELECT count(*) FROM U WHERE U.v < T.k AND v <> {})",
        "(SELECT max(v) FROM U WHERE U.v < T.k OR v = {})",
        "EXISTS (SELECT 1 FROM U WHERE U.v < T.k + {})",
        "k + {} > ANY (SELECT v FROM U)",
    ],
)
def test_a_plan_grows_by_as_much_with_each(subquery: str) -> None:
    sizes = [size(n, subquery) for n in range(1, 6)]
    assert len({b - a for a, b in pairwise(sizes)}) == 1, sizes

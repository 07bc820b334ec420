"""Rows that must match are found as sets by both databases, NULLs too; and literals that can never be equal are known."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp, parse_one

from belvedere import Workbench
from belvedere.plan.expressions import column
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import Item, Join, JoinKind, Project, Scan
from belvedere.provenance.constants import is_impossible
from belvedere.schema import Schema
from belvedere.store.protocol import StoredTable
from belvedere.store.read.computed import text_at_read

SCRIPT = """
CREATE TABLE A (k INT, s STRING, n INT, PRIMARY KEY (k));
CREATE TABLE B (id INT, t STRING, m INT, PRIMARY KEY (id));
"""
A = [(1, None, 1), (2, "é", None), (3, "a", 2), (4, None, None), (5, "b", 3)]
B = [(1, None, 1), (2, "é", None), (3, "a", 3), (4, "", 0)]
CONDITIONS: dict[str, Any] = {
    "s <=> t": lambda a, b: a[1] == b[1],
    "s = t": lambda a, b: a[1] is not None and a[1] == b[1],
    "s <=> t AND n <=> m": lambda a, b: a[1:] == b[1:],
    "k <=> id AND n = m": lambda a, b: a[0] == b[0] and a[2] is not None and a[2] == b[2],
    "s <=> t AND n < m": lambda a, b: a[1] == b[1] and None not in (a[2], b[2]) and a[2] < b[2],
}


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_rows_that_match_are_found_as_a_set(spark: Any) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    wb.insert("A", [dict(zip("ksn", r, strict=True)) for r in A])
    wb.insert("B", [dict(zip(("id", "t", "m"), r, strict=True)) for r in B])
    wb.step()
    left, right = (Scan(i, wb.catalog.schema_of(i)) for i in ("A", "B"))
    others = Project(right, tuple(item_of(right.schema[n]) for n in ("id", "t", "m")))
    reader = wb.store.reader()
    for text, holds in CONDITIONS.items():
        for kind in (JoinKind.SEMI, JoinKind.ANTI):
            join = Join(left, others, kind, parse_one(text, dialect="spark"))
            plan = Project(join, (Item("k", column("k"), left.schema["k"].type, nullable=False),))
            query = text_at_read(plan, reader.dialect, at_once=True)
            assert "DISTINCT FROM" not in query or "<" in text, "Postgres would compare each row with each"
            _, (found,) = reader.rows_together([StoredTable("", Schema(plan.schema.columns), query=query)])
            want = [a[0] for a in A if any(holds(a, b) for b in B) is (kind is JoinKind.SEMI)]
            assert sorted(found["k"].to_pylist()) == want, (text, kind)
    reader.close()
    wb.close()


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("CAST(1 AS INT) = 0", True),
        ("CAST(1 AS BIGINT) = 1", False),
        ("1e0 = 1.0e0", False),
        ("-1 = -2", True),
        ("-1 = -1", False),
        ("-1 = 1", True),
        ("(1) = (2)", True),
        ("'a' = CAST('b' AS STRING)", True),
        ("TRUE = FALSE", True),
        ("'1' = 1", False),
        ("CAST('a' AS INT) = 1", False),
        ("CAST('2020-01-01' AS DATE) = CAST('2020-01-02' AS DATE)", False),
        ("1 = NULL", True),
        ("NULL IS NULL", False),
        ("k = 1", False),
    ],
)
def test_literals_that_never_are_equal(text: str, never: bool) -> None:
    test = parse_one(text, dialect="spark")
    assert isinstance(test, exp.Expr)
    assert is_impossible(test) is never

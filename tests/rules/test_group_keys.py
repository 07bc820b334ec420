"""Groups whose keys are maps or texts made of bytes, or that have no key at all: what batch says, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere import Workbench
from tests.rules.batch_answers import are_batch_answers

SCRIPT = """
CREATE TABLE O (id INT, x INT, m MAP<STRING, INT>, s STRUCT<p: MAP<STRING, INT>>, PRIMARY KEY (id));
CREATE TABLE B (id INT, b BINARY, PRIMARY KEY (id));
Whole := SELECT count(*) AS n, sum(x) AS s FROM O GROUP BY GROUPING SETS (());
One := SELECT 1 AS one FROM O GROUP BY GROUPING SETS (());
Sets := SELECT x, count(*) AS n FROM O GROUP BY GROUPING SETS ((x), ());
Absent := SELECT id, x, count(*) AS n FROM O GROUP BY id, x GROUPING SETS ((x));
ByMap := SELECT m, count(*) AS n FROM O GROUP BY m;
ByStruct := SELECT s, count(*) AS n FROM O GROUP BY s;
Rolled := SELECT m, x, count(*) AS n FROM O GROUP BY ROLLUP (m, x);
Each := SELECT DISTINCT m FROM O;
Marked := SELECT m, x, grouping_id(m, x) AS g FROM O GROUP BY CUBE (m, x);
Texts := SELECT id, CAST(b AS STRING) AS t, upper(CAST(b AS STRING)) AS u FROM B;
ByText := SELECT CAST(b AS STRING) AS t, count(*) AS n FROM B GROUP BY CAST(b AS STRING);
Literal := SELECT id, CAST(X'FF' AS STRING) AS t FROM B;
"""
NULLS, ZEROS = {"a": None, "b": 2}, {"a": 0, "b": 2}


def rows(wb: Workbench, view: str) -> list[dict[str, Any]]:
    """The view's rows, which are also what batch says."""
    kept, batch = wb.rows(view), wb.batch(view)
    assert sorted(map(repr, kept)) == sorted(map(repr, batch)), view
    return kept


def counts(wb: Workbench) -> dict[str, int]:
    return {repr(r["m"] and dict(r["m"])): r["n"] for r in rows(wb, "ByMap")}


@pytest.mark.spark
def test_groups_are_told_apart_as_in_batch(spark: Any) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    wb.step()
    assert rows(wb, "Whole") == [{"n": 0, "s": None}]
    assert rows(wb, "One") == [{"one": 1}]
    assert rows(wb, "Sets") == []
    assert rows(wb, "ByMap") == []
    given = [(1, NULLS), (2, ZEROS), (3, dict(reversed(NULLS.items()))), (4, None)]
    wb.insert("O", [{"id": n, "x": 1, "m": m, "s": {"p": m}} for n, m in given])
    wb.step()
    assert counts(wb) == {repr(NULLS): 2, repr(ZEROS): 1, "None": 1}
    assert rows(wb, "Absent") == [{"id": None, "x": 1, "n": 4}]
    assert sorted(r["n"] for r in rows(wb, "ByStruct")) == [1, 1, 2]
    assert {"p": list(NULLS.items())} in [r["s"] for r in rows(wb, "ByStruct")]
    assert len(rows(wb, "Each")) == 3
    assert {"m": list(NULLS.items()), "x": 1, "n": 2} in rows(wb, "Rolled")
    assert sorted({r["g"] for r in rows(wb, "Marked")}) == [0, 1, 2, 3]
    wb.insert("O", [{"id": 5, "x": 1, "m": NULLS, "s": None}])
    wb.delete("O", [{"id": 1}, {"id": 4}])
    wb.step()
    assert counts(wb) == {repr(NULLS): 2, repr(ZEROS): 1}
    assert rows(wb, "Whole") == [{"n": 3, "s": 3}]
    are_batch_answers(wb, ("One", "Sets", "ByStruct", "Rolled", "Each", "Marked"), 3)
    wb.close()


@pytest.mark.spark
def test_bytes_that_are_no_text_become_replacement_characters(spark: Any) -> None:
    wb = Workbench(SCRIPT, spark=spark)
    wb.insert("B", [{"id": 1, "b": b"ok"}, {"id": 2, "b": b"a\xff"}, {"id": 3, "b": None}])
    wb.step()
    assert {r["id"]: r["t"] for r in rows(wb, "Texts")} == {1: "ok", 2: "a\ufffd", 3: None}
    assert {r["t"]: r["n"] for r in rows(wb, "ByText")} == {"ok": 1, "a\ufffd": 1, None: 1}
    assert {r["t"] for r in rows(wb, "Literal")} == {"\ufffd"}
    wb.delete("B", [{"id": 2}])
    wb.step()
    are_batch_answers(wb, ("Texts", "ByText", "Literal"), 2)
    wb.close()

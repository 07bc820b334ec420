"""Maintained subscriptions with arguments: each subscriber gets all events that its arguments select."""

from __future__ import annotations

import random
from typing import Any

import pytest

from belvedere import Workbench

SCRIPT = """
CREATE STREAM T (a INT, b STRING) KEEP 1 DAY;
CREATE TABLE U (id INT, k INT, v DOUBLE, PRIMARY KEY (id));
_Sums := SELECT k, sum(v) AS v FROM U GROUP BY k;
CREATE SUBSCRIPTION AllT ON ADD AS SELECT a, b FROM T WHERE b <> 'x';
ByA(least INT, most INT = 3) := SUBSCRIBE SELECT b FROM T WHERE b <> 'x' AND a BETWEEN :least AND :most;
CREATE SUBSCRIPTION AllU ON CHANGE AS SELECT id, k, v FROM U;
ById(id INT) := SUBSCRIBE ON CHANGE SELECT id, k, v FROM U WHERE id = :id;
CREATE SUBSCRIPTION AllSums ON DELETE AS SELECT * FROM _Sums;
CREATE SUBSCRIPTION ByK(k INT) ON DELETE AS SELECT * FROM _Sums WHERE k = :k;
"""
STREAMS = "_seq _op _event_time"


def events(wb: Workbench, field: str, columns: str) -> list[dict[str, Any]]:
    answer = wb.graphql(f"{{ x: {field} {{ {columns} {STREAMS} }} }}")
    assert "data" in answer, answer
    found: list[dict[str, Any]] = answer["data"]["x"]
    return found


@pytest.mark.usefixtures("each_store")
def test_each_subscriber_sees_what_it_asks_for(executor: Any) -> None:
    draw = random.Random(5)
    wb = Workbench(SCRIPT, spark=executor)
    for epoch in range(5):
        wb.insert(
            "T", [{"a": draw.choice([None, 1, 2, 3, 4]), "b": draw.choice("xyz")} for _ in range(draw.randrange(6))]
        )
        wb.insert("U", [{"id": draw.randrange(3), "k": draw.randrange(2), "v": draw.randrange(3)} for _ in range(3)])
        if epoch % 2:
            wb.delete("U", [{"id": draw.randrange(3)}])
        wb.step()
        if epoch == 2:
            wb.restart()
    of_t = events(wb, "allT", "a b")
    assert [{**e, "a": 0} for e in of_t if e["a"] in (2, 3)] == [
        {**e, "a": 0} for e in events(wb, "byA(least: 2)", "b")
    ]
    assert [e["_seq"] for e in events(wb, "byA(least: 4, most: 4)", "b")] == [e["_seq"] for e in of_t if e["a"] == 4]
    of_u, of_sums = events(wb, "allU", "id k v _old { id k v }"), events(wb, "allSums", "k v")
    assert of_u
    assert of_sums
    for n in range(3):
        assert events(wb, f"byId(id: {n})", "id k v _old") == [e for e in of_u if e["id"] == n]
        assert events(wb, f"byK(k: {n})", "k v") == [e for e in of_sums if e["k"] == n]
    most = max(range(3), key=lambda n: sum(e["id"] == n for e in of_u))
    seen = [e for e in of_u if e["id"] == most]
    assert len(seen) > 1
    assert events(wb, f"byId(id: {most}, after: {seen[0]['_seq']})", "id k v _old") == seen[1:]
    assert events(wb, f"byId(id: {most}, limit: 1)", "id k v _old") == seen[:1]
    wb.close()

"""Stages that wait for small queries run them as one batch; order, failures and rows are those of sequential stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.engine.query_batching import QueryBatching, Task
from belvedere.errors import BelvedereError
from belvedere.spark.joint_queries import one_query, parted


class Asking:
    """Tasks that note what they do; their questions are numbers, the answers ten times these, -1 cannot be answered."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.asked: list[list[int]] = []
        self.turns: QueryBatching[int, int] = QueryBatching(self._together)

    def _together(self, questions: Sequence[int]) -> list[int | Exception]:
        self.asked.append(list(questions))
        return [ValueError("cannot be answered") if q < 0 else q * 10 for q in questions]

    def task(self, name: str, *questions: int, follows: Sequence[str] = ()) -> Task:
        def run() -> None:
            self.notes.append(f"{name} begins")
            try:
                for question in questions:
                    self.notes.append(f"{name} has {self.turns.ask(question)}")
            finally:
                self.notes.append(f"{name} ends")

        return Task(name, follows, run)


def test_what_several_tasks_ask_is_answered_at_once() -> None:
    asking = Asking()
    tasks = [asking.task("a", 1, 2), asking.task("b", 3), asking.task("c"), asking.task("d", 4, follows=["b"])]
    asking.turns.run(tasks)
    assert asking.asked == [[1, 3], [2, 4]]
    assert asking.notes == [
        *("a begins", "b begins", "c begins", "c ends", "a has 10", "b has 30", "b ends", "d begins"),
        *("a has 20", "a ends", "d has 40", "d ends"),
    ]
    assert all(t.seconds > 0 for t in tasks)
    assert not asking.turns.is_on


def test_a_task_begins_when_all_that_it_follows_have_ended() -> None:
    asking = Asking()
    asking.turns.run([asking.task("c", 5, follows=["a", "b", "outside"]), asking.task("a", 1), asking.task("b", 2, 3)])
    assert asking.asked == [[1, 2], [3], [5]]


def test_the_error_is_raised_in_the_task_that_asked_and_ends_all() -> None:
    asking = Asking()
    with pytest.raises(ValueError, match="cannot be answered"):
        asking.turns.run(
            [asking.task("a", 1, 2), asking.task("b", -1), asking.task("c", 3), asking.task("d", follows=["c"])]
        )
    assert asking.notes == [
        *("a begins", "b begins", "c begins", "a has 10", "b ends", "a ends", "c ends"),
    ]
    assert not asking.turns.is_on


def test_a_task_that_fails_by_itself_ends_those_that_wait() -> None:
    asking = Asking()

    def fail() -> None:
        raise KeyError("b")

    with pytest.raises(KeyError):
        asking.turns.run([asking.task("a", 1), Task("b", (), fail)])
    assert (asking.notes, asking.asked) == (["a begins", "a ends"], [])


@pytest.mark.spark
def test_several_queries_as_one_give_the_rows_of_each(spark: Any) -> None:
    fields = [
        *(
            pa.field("a", pa.int64(), False),
            pa.field("b", pa.string()),
            pa.field("c", pa.list_(pa.struct([("x", pa.int32())]))),
        ),
        *(pa.field("d", pa.timestamp("us", "UTC")), pa.field("e", pa.decimal128(12, 2)), pa.field("f", pa.float64())),
    ]
    wide, thin = pa.schema(fields), pa.schema([pa.field("a", pa.string()), pa.field("odd `name`", pa.bool_())])
    queries = [
        (
            "WITH v AS (SELECT id FROM range(3)) "
            "SELECT id AS a, IF(id = 1, NULL, 'é') AS b, array(named_struct('x', CAST(id AS INT))) AS c, "
            "TIMESTAMP '2020-01-01 00:00:00' AS d, CAST(1.5 AS DECIMAL(12, 2)) AS e, DOUBLE('NaN') AS f FROM v",
            wide,
        ),
        ("SELECT 'x' AS a, NULL AS `odd ``name```", thin),
        ("SELECT 'y' AS a, true AS `odd ``name``` WHERE false", thin),
    ]
    alone = [spark.sql(q).toArrow().cast(s) for q, s in queries]
    for few in (True, False):
        sql, schema = one_query(queries, few)
        frame = spark.sql(sql)
        assert (frame.rdd.getNumPartitions() == 1) is few
        found = [t.cast(s) for t, (_, s) in zip(parted(frame.toArrow().cast(schema)), queries, strict=True)]
        assert [repr(t.sort_by("a").to_pylist()) for t in found] == [repr(t.sort_by("a").to_pylist()) for t in alone]
        assert [t.num_rows for t in found] == [3, 1, 0]


SCRIPT = """
CREATE TABLE T (k INT PRIMARY KEY, a INT, b INT);
Sums := SELECT a, sum(b) AS s FROM T GROUP BY a;
Medians := SELECT a, median(b) AS m FROM T GROUP BY a;
Quotients := SELECT k, a div b AS q FROM T;
Over := SELECT s, count(*) AS n FROM Sums GROUP BY s;
"""


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many queries were run since the last call."""
    from belvedere.spark.compute import SparkCompute

    count = [0]
    collect = SparkCompute.collect

    def counted(self: SparkCompute, sql: str, schema: pa.Schema) -> pa.Table:
        count[0] += 1
        return collect(self, sql, schema)

    def taken() -> int:
        found, count[0] = count[0], 0
        return found

    monkeypatch.setattr(SparkCompute, "collect", counted)
    return taken


@pytest.mark.spark
def test_stages_of_one_level_are_one_query_and_a_failure_is_told_of_its_view(
    spark: Any, queries: Callable[[], int]
) -> None:
    counts = []
    for is_on in (False, True):
        wb = Workbench(SCRIPT, spark=spark)
        with pytest.MonkeyPatch.context() as patched:
            if not is_on:
                patched.setattr(QueryBatching, "is_on", False)
            wb.insert("T", [{"k": n, "a": n % 3, "b": n + 1} for n in range(9)])
            wb.step()
            wb.insert("T", [{"k": 1, "a": 2, "b": 7}])
            queries()
            wb.step()
            counts.append(queries())
        if not is_on:
            wb.close()
    assert counts[1] <= counts[0] - 2, "sums, medians and quotients are one"
    for view, batch in wb.batches(("Sums", "Medians", "Quotients", "Over")).items():
        assert sorted(map(repr, wb.rows(view))) == sorted(map(repr, batch))
    before = wb.rows("Sums")
    wb.insert("T", [{"k": 20, "a": 1, "b": 0}])
    with pytest.raises(BelvedereError, match='"Quotients"') as raised:
        wb.step()
    assert "b = 0" in str(raised.value.diagnostics[0])
    assert wb.rows("Sums") == before
    wb.close()

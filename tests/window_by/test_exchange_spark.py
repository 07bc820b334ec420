"""One long partition on Spark in blocks that tell each other of their windows: the rows of one task, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.window_by.test_blocks_spark import KEYS, rows

pytestmark = pytest.mark.spark
SELECT = (
    " SELECT s.o AS o, s.k AS k, LEN(w) AS n, ARRAY_SUM(w[*].v) AS total, ARRAY_MAX(w[*].name) AS last_name, "
    "ARRAY_AVG(w[*].v) AS mean, STRICT_SUM((SELECT VALUE CAST(x.v AS DECIMAL(9, 2)) FROM w AS x)) AS money, "
    "ARRAY_MIN(w[*].at) AS first_at, w[-1].o AS last, w[2].day AS third, "
)
FRAMED = {
    "rise": "ORDER BY r.o TYPE SLIDING START AS s WHEN s.v < 60 END AS e WHEN e.v > s.v + 38",
    "equal": "ORDER BY r.o DESC, r.v TYPE SLIDING START AS s AT sp ONLY END AS e AT ep WHEN e.v = s.v AND ep > sp",
    "pairs": "ORDER BY r.at TYPE TUMBLING START AS s AT sp WHEN s.v < 50 END AS e AT ep WHEN e.v * (ep - sp) > s.v * 40 + 700",
    "never": "ORDER BY r.name, r.o TYPE SLIDING START AS s WHEN s.v = 7 END AS e WHEN e.v > 100",
    "to the end": "ORDER BY r.o TYPE SLIDING START AS s WHEN s.v = 8 END UNBOUNDED",
    "apart": "ORDER BY r.o NULLS LAST TYPE TUMBLING START AS s AT sp WHEN s.v > 80 END NEXT AS n WHEN n.o - s.o > 90",
    "long": "ORDER BY r.day, r.o TYPE TUMBLING START AS s AT sp WHEN s.v > 97 END AS e WHEN e.v = s.v - 1",
}


RUNNING = {
    "growing": "ORDER BY r.o TYPE SLIDING LABEL AS s WHEN s.v < 60 START UNBOUNDED END AS e WHEN e.o >= s.o",
    "further": "ORDER BY r.name DESC TYPE SLIDING LABEL AS s AT sp START UNBOUNDED ONLY END AT ep WHEN ep - sp = 3",
    "days": "ORDER BY r.day, r.o TYPE SLIDING LABEL AS s WHEN s.v > 70 START UNBOUNDED END AS e WHEN e.day > s.day AND e.v > 10",
}


@pytest.mark.parametrize(("number", "name"), list(enumerate(RUNNING)))
def test_running_values_of_one_partition_in_blocks(spark: Any, monkeypatch: pytest.MonkeyPatch, number: int, name: str) -> None:
    from belvedere.spark.window_by import giant
    from belvedere.spark.window_by.run import run_window_query

    found: list[Any] = []
    added_up = giant.added_up
    monkeypatch.setattr(giant, "added_up", lambda *given: found.append(added_up(*given)) or found[-1])
    text = f"FROM t AS r WHERE r.o IS NOT NULL WINDOW BY w {KEYS[number % 3]}{RUNNING[name]}{SELECT} 0 AS z"
    whole = run_window_query(spark, text, {"t": rows(spark)}, blocks=1).collect()
    assert run_window_query(spark, text, {"t": rows(spark)}, blocks=4).collect() == whole, text
    assert len(whole) > 500
    assert found[0] is not None


@pytest.mark.parametrize(("number", "name"), list(enumerate(FRAMED)))
def test_one_partition_in_blocks_that_exchange(spark: Any, monkeypatch: pytest.MonkeyPatch, number: int, name: str) -> None:
    from belvedere.spark.window_by import giant
    from belvedere.spark.window_by.run import run_window_query

    found: list[Any] = []
    exchanged = giant.exchanged
    monkeypatch.setattr(giant, "exchanged", lambda *given: found.append(exchanged(*given)) or found[-1])
    place = "sp" if " sp" in FRAMED[name] else "0"
    text = f"FROM t AS r WINDOW BY w {KEYS[number % 3]}{FRAMED[name]}{SELECT}{place} AS place"
    whole = run_window_query(spark, text, {"t": rows(spark)}, blocks=1).collect()
    assert run_window_query(spark, text, {"t": rows(spark)}, blocks=4).collect() == whole, text
    assert len(whole) > 5
    assert found[0] is not None


def test_too_many_windows_to_tell_of_are_found_by_one_task(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.spark.window_by import exchange_jobs
    from belvedere.spark.window_by.run import run_window_query

    monkeypatch.setattr(exchange_jobs, "MOST_PENDING", 3)
    text = f"FROM t AS r WINDOW BY w {FRAMED['rise']}{SELECT} 0 AS z"
    whole = run_window_query(spark, text, {"t": rows(spark)}, blocks=1).collect()
    assert run_window_query(spark, text, {"t": rows(spark)}, blocks=4).collect() == whole


def test_long_partitions_exchange_where_there_are_cores_enough(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.spark.window_by import cuts, giant
    from belvedere.spark.window_by.run import run_window_query

    monkeypatch.setattr(cuts, "LEAST_ROWS", 1_000)
    monkeypatch.setattr(cuts, "LEAST_CORES", 2)
    monkeypatch.setattr(cuts, "RATE", 1)
    found: list[Any] = []
    cut_giant = giant.cut_giant
    monkeypatch.setattr(
        "belvedere.spark.window_by.windowed.cut_giant", lambda *given: found.append(cut_giant(*given)) or found[-1]
    )
    text = f"FROM t AS r WINDOW BY w {FRAMED['rise']}{SELECT} 0 AS z"
    whole = run_window_query(spark, text, {"t": rows(spark)}, blocks=1).collect()
    for cores, exchanges in ((giant.EXCHANGE_CORES, False), (2, True)):
        monkeypatch.setattr(giant, "EXCHANGE_CORES", cores)
        del found[:]
        assert run_window_query(spark, text, {"t": rows(spark)}).collect() == whole
        assert (found[0] is not None and found[0].told is not None) is exchanges

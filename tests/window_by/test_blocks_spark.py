"""One long partition on Spark in blocks: the rows of one task, in their order."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark
SELECT = (
    " SELECT s.o AS o, s.k AS k, LEN(w) AS n, ARRAY_SUM(w[*].v) AS total, ARRAY_MEDIAN(w[*].v) AS middle, "
    "w[-1].o AS last, "
)
FRAMED = {
    "spells": "ORDER BY r.o TYPE SLIDING START AS s WHEN s.v < 60 END NEXT AS n WHEN n.v >= 90",
    "counted": "ORDER BY r.o DESC, r.v TYPE SLIDING START AS s AT sp PREV AS b WHEN b.v > s.v ONLY END AT ep WHEN ep "
    "- sp = 300",
    "apart": "ORDER BY r.at TYPE SLIDING START AS s END NEXT AS n WHEN n.at - s.at > duration('PT50H')",
    "never": "ORDER BY r.name, r.o TYPE SLIDING START AS s WHEN s.v = 7 END AS e WHEN e.v > 100",
    "tumbling": "ORDER BY r.o TYPE TUMBLING START AS s AT sp WHEN s.v < 60 END NEXT AS n WHEN n.v >= 90 OR n.o < s.o",
    "pieces": "ORDER BY r.o NULLS LAST TYPE TUMBLING START AS s AT sp END AT ep WHEN ep - sp = 6",
    "around": "ORDER BY r.o TYPE SLIDING LABEL AS l AT lp WHEN l.v > 50 START AS s AT sp WHEN lp - sp = 7 END AT ep "
    "WHEN ep - lp = 5",
    "before": "ORDER BY r.name TYPE SLIDING LABEL AS l AT lp START AS s AT sp WHEN lp - sp = 9 ONLY END AT ep WHEN lp "
    "- ep = 3",
    "days": "ORDER BY r.day, r.name TYPE SLIDING LABEL AS l WHEN l.v < 9 START AS s WHEN l.day - s.day <= "
    "duration('P3D') END NEXT AS n WHEN n.day > l.day",
    "until the next": "ORDER BY r.day, r.o TYPE TUMBLING START AS s AT sp WHEN s.v > 80",
}
KEYS = ("", "PARTITION BY r.k ", "PARTITION BY r.k, r.word ")


def rows(spark: Any) -> Any:
    """2,700 of 3,000 rows of one key, between two others."""
    return spark.range(3_000).selectExpr(
        "IF(id % 100 = 0, NULL, (id * 7919) % 3001) AS o",
        "IF(id % 20 = 0, NULL, IF(id % 20 = 1, 9, 5)) AS k",
        "IF(id % 20 < 2, 'b', 'a') AS word",
        "pmod(xxhash64(id), 100) AS v",
        "TIMESTAMP '2020-01-01 00:00:00' + make_dt_interval(0, CAST(id AS INT)) AS at",
        "date_add(DATE '2020-01-01', CAST(id DIV 7 AS INT)) AS day",
        "format_string('%06d', id) AS name",
    )


def cut_everything(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Partitions with most of some thousand rows are cut into blocks; what was cut comes in the list."""
    from belvedere.spark.window_by import cuts, long_partitions, windows

    monkeypatch.setattr(long_partitions, "MIN_ROWS", 1_000)
    monkeypatch.setattr(long_partitions, "MIN_CORES", 2)
    monkeypatch.setattr(long_partitions, "RATE", 1)
    found: list[Any] = []
    cut_giant = cuts.cut_giant
    monkeypatch.setattr(windows, "cut_giant", lambda *given: found.append(cut_giant(*given)) or found[-1])
    return found


def by_one_task(spark: Any, text: str, table: Any) -> Any:
    from belvedere.spark.window_by import windows
    from belvedere.spark.window_by.windows_query import run_window_query

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "cut_giant", lambda *given: None)
        return run_window_query(spark, text, {"t": table}).collect()


@pytest.mark.parametrize(("number", "name"), list(enumerate(FRAMED)))
def test_one_partition_in_blocks_as_by_one_task(
    spark: Any, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    from belvedere.spark.window_by import cuts
    from belvedere.spark.window_by.windows_query import run_window_query

    found = cut_everything(monkeypatch)
    monkeypatch.setattr(cuts, "BLOCK_ROWS", 700)
    monkeypatch.setattr(cuts, "WIDEST", 1 / 1_000)
    place = "sp" if " sp" in FRAMED[name] else "0"
    text = f"FROM t AS r WINDOW BY w {KEYS[number % 3]}{FRAMED[name]}{SELECT}{place} AS place"
    whole = by_one_task(spark, text, rows(spark))
    assert run_window_query(spark, text, {"t": rows(spark)}).collect() == whole, text
    assert len(whole) > 20
    assert found[-1] is not None
    assert len(found[-1][2].begins) >= 5


def test_long_partitions_are_cut_without_being_asked(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from belvedere.spark.window_by.windows_query import run_window_query

    found = cut_everything(monkeypatch)
    frame = rows(spark)

    def is_cut(text: str, table: Any = frame) -> bool:
        whole = by_one_task(spark, text, table)
        del found[:]
        assert run_window_query(spark, text, {"t": table}).collect() == whole
        return found[0] is not None

    head = "FROM t AS r WINDOW BY w PARTITION BY r.k "
    assert is_cut(head + FRAMED["spells"] + SELECT + "0 AS z")
    assert found[0][0].key == (5,)
    assert len(found[0][2].begins) == spark.sparkContext.defaultParallelism + 1
    assert not is_cut(
        head.replace("r.k", "r.o % 3") + FRAMED["spells"] + SELECT + "0 AS z"
    )  # no key has most of the rows
    assert not is_cut(head + FRAMED["never"] + SELECT + "0 AS z")  # windows without end would need all rows
    assert not is_cut(head + FRAMED["spells"] + SELECT + "0 AS z", frame.distinct())  # dear to compute again
    assert not is_cut(head + FRAMED["spells"] + SELECT + "0 AS z", frame.limit(100))
    some = frame.where("rand(3) < 0.99")  # the rows might be others each time they are read
    assert not is_cut(head + FRAMED["spells"] + SELECT + "0 AS z", some)

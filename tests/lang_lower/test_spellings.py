"""Spellings of DataSQRL and Flink SQL: what they mean here, or what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

BASE = """
CREATE STREAM Orders (id INT, ts TIMESTAMP_LTZ(3), items ARRAY<STRUCT<sku STRING, qty INT>>, tags ARRAY<STRING>,
                      WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
"""
WINDOWS = "TABLE(TUMBLE(TABLE Orders, DESCRIPTOR(ts), INTERVAL '7' DAY))"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE A (id INT, t TIMESTAMP_LTZ(3), PRIMARY KEY (id) NOT ENFORCED);",
        "CREATE TABLE A (id INT PRIMARY KEY NOT ENFORCED, t TIMESTAMP(3));",
        "Q(id INT NOT NULL) := SELECT * FROM Orders WHERE id = :id;",
        f"V := SELECT window_time, count(*) AS n FROM {WINDOWS} GROUP BY window_start, window_end, window_time EMIT "
        "AFTER WATERMARK;",
        "V := SELECT o.id, i.sku FROM Orders o CROSS JOIN UNNEST(o.items) i;",
        "V := SELECT o.id, i.q FROM Orders o CROSS JOIN UNNEST(o.items) AS i (s, q);",
        "V := SELECT o.id, t.tag FROM Orders o CROSS JOIN UNNEST(o.tags) AS t (tag);",
        "V := SELECT o.id, i.sku, i.n FROM Orders o CROSS JOIN UNNEST(o.items) WITH ORDINALITY AS i (sku, qty, n);",
        "V := SELECT o.id, t.tag, t.n FROM Orders o CROSS JOIN UNNEST(o.tags) WITH ORDINALITY AS t (tag, n);",
        "V := SELECT o.id, t.item.sku FROM Orders o CROSS JOIN UNNEST(o.items) AS t (item);",
        "CREATE TABLE A (id INT, r ROW<a INT, b ARRAY<ROW<c INT>>>, s ROW(a INT), d BYTES, `row` INT, PRIMARY KEY "
        "(id));",
        "CREATE TEMPORARY TABLE IF NOT EXISTS A (id INT, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED);",
        "V := SELECT sign(id) * floor(abs(CAST(id AS DOUBLE)), 2) AS a, split_part(tags[0], ',', 1) AS b, "
        "sha2(tags[0], 256) AS c, date_format(now(), 'HH:mm:ss') AS d, concat(tags, reverse(tags)) AS e, tags[0] "
        "RLIKE '^[0-9]+$' AS f, try_cast(tags[0] AS DOUBLE) IS NOT NULL AS g, map_concat(map('a', 1), map('b', 2)) AS "
        "h, localtimestamp() AS i, get_json_object(tags[0], '$.a') AS j, to_json(array(id, id)) AS k, hash(id) AS l "
        "FROM Orders;",
        "EXPORT Orders TO print.Orders; EXPORT Orders TO logger.Orders;",
        "CREATE TABLE A (id STRING METADATA FROM 'uuid', at TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp', "
        "WATERMARK FOR at);",
        "CREATE STREAM A (id STRING, `timestamp` TIMESTAMP_LTZ(3) METADATA, a TIMESTAMP METADATA FROM 'timestamp' "
        "VIRTUAL);",
        "Q(me STRING NOT NULL METADATA FROM 'auth.sub') := SELECT * FROM Orders WHERE CAST(id AS STRING) = :me;",
        "CREATE TABLE A (id INT, twice AS id * 2, at AS _ingest_time, PRIMARY KEY (id));",
        "V := SELECT id, COLLECT(ts) AS times, COLLECT(DISTINCT ts) AS d FROM Orders GROUP BY id; W := SELECT "
        "times[0] AS t FROM V;",
        "V := DISTINCT Orders o ON o.id ORDER BY o.ts DESC; W := DISTINCT Orders AS `x` ON id, x.ts;",
    ],
)
def test_what_is_meant_here_too(text: str) -> None:
    compiled = compile_script(BASE + text)
    assert compiled.ok, compiled.diagnostics


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("INSERT INTO sink SELECT * FROM Orders;", "B1008", "EXPORT V TO sink.Name"),
        ("CREATE TABLE A (id INT, b INT) PARTITIONED BY (b);", "B1001", "indexes"),
        ("CREATE TABLE A (id INT) WITH ('connector' = 'kafka');", "B6117", "'topic' = '...'"),
        ("CREATE TABLE A (id INT) WITH ('connector' = 'jdbc');", "B6117", "belvedere.toml"),
        ("SET 'table.exec.state.ttl' = '1 h';", "B1008", "belvedere.toml"),
        ("DROP VIEW Orders;", "B1008", "remove the definition"),
        ("V := SELECT id, PROCTIME() AS p FROM Orders;", "B3005", "now()"),
        ("V := SELECT id, CURRENT_WATERMARK(ts) AS p FROM Orders;", "B3005", "EMIT AFTER WATERMARK"),
        ("V := SELECT endOfDay(ts) AS d FROM Orders;", "B3005", "date_trunc('DAY', t) + 1 DAY"),
        ("V := SELECT TO_TIMESTAMP_LTZ(id, 3) AS t FROM Orders;", "B3002", "timestamp_millis"),
        *[
            (f"V := SELECT {text} AS x FROM Orders;", code, hint)
            for text, code, hint in [
                ("LOCALTIMESTAMP", "B2002", "localtimestamp()"),
                ("JSON_VALUE(tags[0], '$.a')", "B3005", "get_json_object"),
                ("SHA256(tags[0])", "B3005", "sha2(text, 256)"),
                ("ARRAY_CONCAT(tags, tags)", "B3005", "write concat(a, b)"),
                ("SPLIT_INDEX(tags[0], ',', 0)", "B3005", "split_part"),
                ("TRUNCATE(CAST(id AS DOUBLE), 2)", "B3015", "floor(abs(x), 2)"),
                ("MAP['a', 1]", "B3040", "map('a', 1)"),
            ]
        ],
        ("CREATE TABLE A (id INT, m MULTISET<STRING>);", "B1019", "ARRAY<...>"),
        ("V := SELECT ROW(id, ts) AS r FROM Orders;", "B3005", "struct(a, b)"),
        ("CREATE TABLE A (id INT, PRIMARY KEY (id)) COMMENT 'the keys';", "B1001", "/** ... */"),
        ("CREATE TABLE A AS SELECT id FROM Orders;", "B1001", "A := SELECT"),
        ("V := SELECT JSON_OBJECT('a' VALUE id) AS j FROM Orders;", "B3040", "named_struct"),
        (
            "V := SELECT id FROM Orders MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts PATTERN (A B));",
            "B3040",
            "WINDOW BY",
        ),
        *[
            (f"CREATE TABLE A (id INT, b STRING METADATA FROM '{key}');", "B1033", "send it with the row")
            for key in ("offset", "Key", "topic", "partition", "headers", "leader-epoch")
        ],
        ("CREATE TABLE A (id INT, `offset` BIGINT METADATA VIRTUAL);", "B1033", "`_uid`"),
        ("CREATE TABLE A (id INT, b STRING METADATA FROM 'timestamp-type');", "B1033", "remove it"),
        ("CREATE TABLE A (id INT, b STRING METADATA FROM);", "B1001", "METADATA FROM 'timestamp'"),
        ("V := SELECT COLLECT(id, ts) AS c FROM Orders;", "B3002", "1 argument"),
        ("V := DISTINCT Orders o ON Orders.id ORDER BY ts DESC;", "B2004", "`o`"),
        ("V := DISTINCT Orders o id ORDER BY ts DESC;", "B1011", "DISTINCT Orders ON key"),
        ("CREATE STREAM A (s STRING, t AS CAST(s AS TIMESTAMP), WATERMARK FOR t);", "B5001", "rowtime"),
    ],
)
def test_what_to_write_instead(text: str, code: str, hint: str) -> None:
    found = [d for d in compile_script(BASE + text).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code]
    assert hint in (found[0].hint or "")


@pytest.mark.spark
def test_they_give_what_they_say(spark: Any) -> None:
    wb = Workbench(
        BASE
        + f"""
        Weeks := SELECT window_time, count(*) AS n FROM {WINDOWS} GROUP BY window_start, window_end, window_time;
        Numbered := SELECT i.sku, i.n FROM Orders o CROSS JOIN UNNEST(o.items) WITH ORDINALITY AS i (sku, qty, n);
        Lines := SELECT o.id, i.sku, i.qty FROM Orders o CROSS JOIN UNNEST(o.items) i;
        CREATE TABLE A (id INT, twice AS id * 2, PRIMARY KEY (id));
        Latest := DISTINCT Orders o ON o.id ORDER BY o.ts DESC;
        Skus := SELECT o.id, COLLECT(i.sku) AS skus FROM Orders o CROSS JOIN UNNEST(o.items) i GROUP BY o.id;
        """,
        spark=spark,
    )
    wb.insert(
        "Orders", [{"id": 1, "ts": "2024-01-03 00:00:00", "items": [{"sku": "x", "qty": 2}, {"sku": "y", "qty": 1}]}]
    )
    wb.insert("A", [{"id": 4}])
    wb.step()
    assert [(str(r["window_time"])[:23], r["n"]) for r in wb.rows("Weeks")] == [("2024-01-03 23:59:59.999", 1)]
    assert sorted((r["sku"], r["qty"]) for r in wb.rows("Lines")) == [("x", 2), ("y", 1)]
    assert sorted((r["n"], r["sku"]) for r in wb.rows("Numbered")) == [(1, "x"), (2, "y")]
    assert wb.rows("Skus") == [{"id": 1, "skus": ["x", "y"]}]
    assert [(r["id"], str(r["ts"])[:10]) for r in wb.rows("Latest")] == [(1, "2024-01-03")]
    assert wb.rows("A") == [{"id": 4, "twice": 8}]
    wb.close()

"""ASOF JOIN in the spellings of Snowflake and DuckDB: the nearest row under changes on both sides, against DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.pipeline.choose import maintain
from belvedere.workbench.workbench import Workbench
from tests.depth import at_night

START = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)
INPUTS = """
CREATE TABLE Trades (id INT PRIMARY KEY, sym STRING, ts TIMESTAMP, qty INT);
CREATE TABLE Quotes (qid INT PRIMARY KEY, sym STRING, ts TIMESTAMP, price INT);
CREATE STREAM _Ticks (sym STRING, ts TIMESTAMP, n INT, WATERMARK FOR ts);
"""
QUERIES = {
    "Last": ("{t} ASOF LEFT JOIN {q} ON t.sym = q.sym AND t.ts >= q.ts", "t.id, t.qty, q.price, q.qid"),
    "Inner": ("{t} ASOF JOIN {q} ON t.sym = q.sym AND q.ts <= t.ts", "t.id, q.price"),
    "Strict": ("{t} ASOF JOIN {q} ON t.sym = q.sym AND t.ts > q.ts", "t.id, q.price, q.ts AS at"),
    "Following": ("{t} ASOF LEFT JOIN {q} ON t.sym = q.sym AND t.ts <= q.ts", "t.id, q.price"),
    "Unlinked": ("{t} ASOF JOIN {q} ON t.ts >= q.ts", "t.id, q.qid"),
}
VIEWS = {
    name: f"SELECT {items} FROM {text.format(t='Trades t', q='Quotes q')}" for name, (text, items) in QUERIES.items()
}
SNOWFLAKE = (
    "SELECT t.id, t.qty, q.price, q.qid FROM Trades t ASOF JOIN Quotes q MATCH_CONDITION (t.ts >= q.ts) ON "
    "t.sym = q.sym"
)
SPELLED = {
    "Snow": SNOWFLAKE,
    "Ticks": "SELECT t.id, k.n, k.ts AS at FROM Trades t ASOF JOIN _Ticks k MATCH_CONDITION (t.ts >= k.ts) ON k.sym = "
    "t.sym",
    "Total": f"SELECT price, sum(qty) AS qty, count(*) AS n FROM ({SNOWFLAKE}) s GROUP BY price",
}
SCRIPT = INPUTS + "".join(f"{name} := {sql};\n" for name, sql in (VIEWS | SPELLED).items())


def test_the_rule_of_versions_maintains_it() -> None:
    compiled = compile_script(SCRIPT)
    assert compiled.ok, compiled.diagnostics
    rules = {(s.owner, s.rule) for s in maintain(compiled.catalog).stages}
    assert {("Last", "as of"), ("Inner", "as of"), ("Snow", "as of"), ("Ticks", "as of")} <= rules


class Feed:
    """Random changes of both tables, beside the rows that are there."""

    def __init__(self, wb: Workbench, random: Random):
        self.wb, self.random = wb, random
        self.rows: dict[str, dict[int, dict[str, Any]]] = {"Trades": {}, "Quotes": {}}
        self.ticks = 0

    def time(self) -> datetime | None:
        return None if self.random.random() < 0.1 else START + timedelta(seconds=self.random.randint(0, 40))

    def epoch(self) -> None:
        for name, key, value in (("Trades", "id", "qty"), ("Quotes", "qid", "price")):
            live = self.rows[name]
            for _ in range(self.random.randint(0, 5)):
                row = {key: self.random.randint(1, 12), "sym": self.random.choice(["a", "b", None])}
                row |= {"ts": self.unique(name, row[key]), value: self.random.randint(1, 9)}
                live[row[key]] = row
                self.wb.insert(name, [row])
            if live and self.random.random() < 0.5:
                gone = self.random.choice(sorted(live))
                del live[gone]
                self.wb.delete(name, [{key: gone}])
        for _ in range(self.random.randint(0, 2)):
            self.ticks += self.random.randint(1, 9)
            self.wb.insert("_Ticks", [{"sym": "a", "ts": START + timedelta(seconds=self.ticks), "n": self.ticks}])
        self.wb.step()

    def unique(self, name: str, key: int) -> datetime | None:
        """No two quotes of one time: their order is not DuckDB's to say."""
        time = self.time()
        return time if time is None or name == "Trades" else time + timedelta(milliseconds=key)

    def database(self) -> duckdb.DuckDBPyConnection:
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        for name, key, value in (("Trades", "id", "qty"), ("Quotes", "qid", "price")):
            schema = pa.schema(
                {key: pa.int32(), "sym": pa.string(), "ts": pa.timestamp("us", tz="UTC"), value: pa.int32()}.items()
            )
            database.register("arrived", pa.Table.from_pylist(list(self.rows[name].values()), schema))
            database.execute(f"CREATE TABLE {name} AS FROM arrived")
        return database


def bag(rows: list[Any]) -> list[str]:
    plain = (
        [v.timestamp() if isinstance(v, datetime) else v for v in (r.values() if isinstance(r, dict) else r)]
        for r in rows
    )
    return sorted(map(repr, plain))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, *at_night(range(2, 12))])
def test_it_equals_duckdb_and_batch(executor: Any, seed: int) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    try:
        feed = Feed(wb, Random(seed))
        for epoch in range(5):
            feed.epoch()
            if epoch == 2:
                wb.restart()
            database = feed.database()
            for name, sql in VIEWS.items():
                assert bag(wb.rows(name)) == bag(database.execute(sql).fetchall()), (name, epoch)
            assert bag(wb.rows("Snow")) == bag(wb.rows("Last"))
            batches = wb.batches(SPELLED)
            for name in SPELLED:
                assert bag(wb.rows(name)) == bag(batches[name]), (name, epoch)
    finally:
        wb.close()


@pytest.mark.parametrize(
    ("join", "message"),
    [
        ("ASOF JOIN Quotes q ON t.sym = q.sym", "one inequality"),
        ("ASOF JOIN Quotes q ON t.ts > q.ts AND t.qty > q.price", "one inequality"),
        ("ASOF JOIN Quotes q MATCH_CONDITION (t.ts >= q.ts) ON t.qty < q.price", "one inequality"),
        ("ASOF JOIN Quotes q ON t.ts > q.ts AND q.price IS NULL", "takes one inequality"),
        ("ASOF JOIN Quotes q ON t.sym = q.sym AND t.ts > t.ts", "must compare both sides"),
        ("ASOF RIGHT JOIN Quotes q ON t.ts > q.ts", "ASOF RIGHT JOIN is not supported"),
        ("ASOF JOIN Quotes q USING (sym, ts)", "needs one inequality"),
    ],
)
def test_what_does_not_say_which_row_is_refused(join: str, message: str) -> None:
    script = f"{INPUTS}V := SELECT t.id, q.price FROM Trades t {join};"
    (found,) = [d for d in compile_script(script).diagnostics if d.severity == "error"]
    assert found.code == "B3021"
    assert message in found.message


def test_on_window_close_is_after_watermark() -> None:
    stream = "CREATE STREAM _S (ts TIMESTAMP, x INT, WATERMARK FOR ts);\n"
    query = (
        "V := SELECT window_start, count(*) AS n FROM Tumble(_S, ts, INTERVAL 1 HOUR) GROUP BY window_start EMIT {};"
    )
    for ours, theirs in (("AFTER WATERMARK", "ON WINDOW CLOSE"), ("STREAM AFTER WATERMARK", "STREAM ON WINDOW CLOSE")):
        plans = [compile_script(stream + query.format(f)).catalog.views["V"].plan for f in (ours, theirs)]
        assert plans[0] == plans[1]
    assert not compile_script(stream + query.format("ON WINDOW OPEN")).ok
    named = "CREATE TABLE T (k INT PRIMARY KEY);\nV := SELECT a.k FROM T a JOIN T emit ON emit.k = a.k;"
    assert compile_script(named).ok

"""A script of random views run through epochs; differences from DuckDB and from batch as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from belvedere import Workbench
from tests.random_sql.queries import SCRIPT, Query

START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
WORDS = [None, "", "a", "ab", "b", "é", "~", "a|b", "\\", "日本"]
DOUBLES = [None, 0.0, -0.0, 1.5, 2.25, float("nan"), float("inf"), -7.0]
PLAIN = {
    "a": pa.int32(),
    "b": pa.int32(),
    "s": pa.string(),
    "d": pa.float64(),
    "m": pa.decimal128(10, 2),
    "t": pa.timestamp("us", tz="UTC"),
}
LINES = {"k": pa.int32(), "a": pa.int32(), "s": pa.string(), "d": pa.float64()}
TYPES = {
    "Keyed": {"k": pa.int32(), **PLAIN},
    "Bag": PLAIN,
    "Log": {**PLAIN, "xs": pa.list_(pa.int32())},
    "Orders": {"k": pa.int32(), "b": pa.int32()},
    "Lines": LINES,
}
Row = dict[str, Any]


class Run:
    """Random rows in a Workbench and in DuckDB; `differences` after each `epoch`."""

    def __init__(self, queries: Mapping[str, Query], data_seed: int, spark: Any = None, options: Any = None):
        self.random = Random(data_seed)
        self.queries = queries
        views = "\n".join(f"{name} := {query.ours};" for name, query in self.queries.items())
        self.wb = Workbench(f"{SCRIPT}{views}\n", spark=spark, options=options)
        self.live: dict[str, list[Row]] = {"Keyed": [], "Bag": [], "Log": [], "Orders": []}
        self.clock = START

    def epoch(self, most: int = 5) -> None:
        """New rows, updates, deletions, sometimes none at all."""
        self.clock += timedelta(seconds=30)
        self.wb.clock(self.clock)
        some = self.random.choice([0, most, most])
        for name in ("Bag", "Log", "Keyed", "Orders"):
            for _ in range(self.random.randint(0, some)):
                row = self.row(name)
                self.wb.insert(name, [row])
                self.take(name, row)
        for name in ("Bag", "Keyed", "Orders"):
            if some and self.live[name] and self.random.random() < 0.6:
                self.delete(name, self.random.choice(self.live[name]))
        self.wb.step()

    def row(self, name: str) -> Row:
        pick = self.random.choice
        if name == "Orders":
            lines = [{"a": pick([None, 1, 2]), "s": pick(WORDS), "d": pick(DOUBLES)} for _ in range(pick([0, 1, 3]))]
            return {"k": pick(range(5)), "b": pick([None, 1, 2]), "lines": pick([None, lines, lines, lines])}
        row = {
            "a": pick([None, 0, 1, 2, 3, 4, 5]),
            "b": pick([None, 1, 2, 3]),
            "s": pick(WORDS),
            "d": pick(DOUBLES),
            "m": pick([None, Decimal("0.10"), Decimal("-3.25"), Decimal("12345678.99")]),
            "t": pick([None, START + timedelta(seconds=60 * pick(range(-10, 10)))]),
        }
        if name == "Keyed":
            return {"k": pick(range(7)), **row}
        return {**row, "xs": pick([None, [], [1], [1, None, 2], [3, 3]])} if name == "Log" else row

    def take(self, name: str, row: Row) -> None:
        if "k" in row:
            self.live[name] = [r for r in self.live[name] if r["k"] != row["k"]]
        self.live[name].append(row)

    def delete(self, name: str, row: Row) -> None:
        self.wb.delete(name, [{"k": row["k"]} if "k" in row else row])
        self.live[name] = [r for n, r in enumerate(self.live[name]) if n != self.live[name].index(row)]

    def differences(self, batch: bool) -> list[str]:
        """Views that are not what DuckDB answers, nor (if asked, or where DuckDB is silent) what the batch run does."""
        database, found = self.database(), []
        batches = self.wb.batches(n for n, q in self.queries.items() if batch or q.theirs is None)
        for name, query in self.queries.items():
            kept = self.wb.rows(name)
            if query.theirs is not None:
                result = database.execute(query.theirs)
                columns = [d[0] for d in result.description]
                theirs = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
                found += self.difference(name, kept, theirs, f"DuckDB\n  {query.theirs}")
            if name in batches:
                found += self.difference(name, kept, batches[name], "batch")
        return found

    def difference(self, name: str, kept: list[Row], theirs: list[Row], what: str) -> list[str]:
        left, right = plain_rows(kept), plain_rows(theirs)
        if len(left) == len(right) and all(map(same_row, left, right)):
            return []
        return [f"{name}: {self.queries[name].ours}\n  kept {left}\n  not  {right} of {what}"]

    def database(self) -> duckdb.DuckDBPyConnection:
        """The rows that are there now, in DuckDB."""
        database = duckdb.connect()
        database.execute("SET TimeZone = 'UTC'")
        lines = [{"k": o["k"], **line} for o in self.live["Orders"] for line in o["lines"] or ()]
        for name, types in TYPES.items():
            rows = lines if name == "Lines" else self.live[name]
            table = pa.Table.from_pylist([{c: r[c] for c in types} for r in rows], pa.schema(list(types.items())))
            database.register("arrived", table)
            database.execute(f"CREATE TABLE {name} AS FROM arrived")
        return database


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples; instants as UTC, numbers as one type, no negative zero."""
    return sorted((tuple(_plain(v) for v in row.values()) for row in rows), key=lambda row: [_rough(v) for v in row])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return float(value) + 0.0 if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


def _rough(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def same_row(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Equal up to 1e-9 relative in numbers."""
    return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)

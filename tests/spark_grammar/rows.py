"""Random queries as maintained views, against Spark's own answers over the same rows.

In: queries that both sides accept, and a seed of rows. Out: what differs, as text for people. Spark answers the text as
it is written; the views are kept by changes, all in one script. A query that fails on its rows in Spark too (an
overflow, a text that is no number) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from belvedere import Workbench
from belvedere.errors import BelvedereError
from tests import spark_answers
from tests.spark_grammar.samples import SCRIPT, SPARK_TYPES

START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
Row = dict[str, Any]
State = dict[str, list[Row]]


class Rows:
    """Random changes of the three tables: for each epoch rows that come, keys that go, and all rows that are there
    then."""

    def __init__(self, seed: int, epochs: int):
        self.random = Random(seed)
        self.epochs: list[tuple[State, list[tuple[str, int]], State]] = []
        now: State = {"T": [], "U": [], "E": []}
        for number in range(epochs):
            come: State = {name: [self.row(name) for _ in range(self.random.randint(1, 4))] for name in now}
            keyed = [(name, row["id"]) for name in ("T", "U") for row in now[name]]
            gone = [self.random.choice(keyed)] if keyed and number % 2 else []
            come = {n: [r for r in rows if (n, r.get("id")) not in gone] for n, rows in come.items()}
            now = dict(now)
            for name, rows in come.items():
                for row in rows:
                    now[name] = [r for r in now[name] if name == "E" or r["id"] != row["id"]] + [row]
            now = {n: [r for r in rows if (n, r.get("id")) not in gone] for n, rows in now.items()}
            self.epochs.append((come, gone, dict(now)))

    def row(self, table: str) -> Row:
        """A row; every column but the key may be NULL."""
        pick = self.random.choice
        day = date(2024, 1, 31) + timedelta(days=pick(range(40)))
        at = START + timedelta(minutes=pick(range(-3000, 3000, 601)))
        values: Row = {
            "i": pick([0, 1, 1, 2, 3]),
            "j": pick([1, 2, 5]),
            "l": pick([1, 2, 7]),
            "h": pick([1, 2]),
            "n": pick([Decimal("0.10"), Decimal("1.50"), Decimal("-3.25")]),
            "d": pick([0.0, 1.5, -2.25, 1.0]),
            "f": pick([1.5, 2.0]),
            "s": pick(["", "a", "ab", "é", "1", "2024-03-01"]),
            "y": pick([b"", b"ab", b"\x01"]),
            "b": pick([True, False]),
            "day": day,
            "t": at,
            "ntz": at.replace(tzinfo=None),
            "iv": timedelta(minutes=pick([0, 1, 1500])),
            "xs": pick([[], [1], [1, None, 2]]),
            "ss": pick([["a"], ["b", "a"], []]),
            "m": pick([{"a": 1}, {"a": None, "k": 2}]),
            "r": {"a": pick([1, None]), "b": pick(["x", "y"])},
        }
        names = [part.split(" ")[0] for part in _parts(SPARK_TYPES[table])]
        row = {n: values[n] if self.random.random() > 0.15 else None for n in names if n != "id"}
        return {"id": pick(range(6)), **row} if table != "E" else row


class SparkAnswers:
    """Spark's answers to queries over the rows of one moment."""

    def __init__(self, spark: Any, state: State):
        self.spark = spark
        for name, rows in state.items():
            columns = [part.split(" ")[0] for part in _parts(SPARK_TYPES[name])]
            tuples = [tuple(_for_spark(row[c]) for c in columns) for row in rows]
            spark.createDataFrame(tuples, SPARK_TYPES[name]).createOrReplaceTempView(name)

    def answers(self, queries: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]] | Exception]:
        """The rows of each; an error where Spark fails on them."""
        found = spark_answers.answers(self.spark, queries)
        return {
            name: answer if isinstance(answer, Exception) else self._plain_rows(answer)
            for name, answer in found.items()
        }

    def _plain_rows(self, answer: spark_answers.Answer) -> list[tuple[Any, ...]]:
        return _sorted(tuple(_plain(v, maps=True) for v in row) for row in answer.rows)


def kept_views(spark: Any, queries: Mapping[str, str], rows: Rows) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The views' rows after each epoch; and those that failed, with what was said, which are not in it."""
    waiting, failed = dict(queries), {}
    while True:
        try:
            return _run(spark, waiting, rows), failed
        except BelvedereError as error:
            said = " ".join(f"{d.code} {d.message} {d.detail or ''}" for d in error.diagnostics)
            named = next((n for n in waiting if f'"{n}"' in said), None)
            if named is None:
                raise
            failed[named] = said
            del waiting[named]


def _run(spark: Any, queries: Mapping[str, str], rows: Rows) -> list[dict[str, Any]]:
    views = "\n".join(f"{name} := {text};" for name, text in queries.items())
    bench = Workbench(f"{SCRIPT}{views}\n", spark=spark)
    found = []
    try:
        for number, (come, gone, _) in enumerate(rows.epochs):
            bench.clock(START + timedelta(minutes=number))
            for name, some in come.items():
                if some:
                    bench.insert(name, some)
            for name, key in gone:
                bench.delete(name, [{"id": key}])
            bench.step()
            found.append({name: plain_rows(bench.rows(name)) for name in queries})
    finally:
        bench.close()
    return found


def differences(spark: Any, queries: Mapping[str, str], seed: int, epochs: int = 2) -> tuple[dict[str, str], set[str]]:
    """By the name of a query what is wrong with its view; and the names of those that were compared."""
    rows = Rows(seed, epochs)
    theirs: list[dict[str, Any]] = []
    for _, _, state in rows.epochs:
        theirs.append(SparkAnswers(spark, state).answers(queries))
    good = {n: text for n, text in queries.items() if not any(isinstance(a[n], Exception) for a in theirs)}
    kept, found = kept_views(spark, good, rows)
    for number, (ours, right) in enumerate(zip(kept, theirs, strict=True)):
        for name in ours:
            if name not in found and not same_rows(ours[name], right[name]):
                found[name] = f"epoch {number}\n  {good[name]}\n  kept  {ours[name]}\n  Spark {right[name]}"
    return found, set(good)


def plain_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples of values that compare."""
    return _sorted(tuple(map(_plain, row.values())) for row in rows)


def _sorted(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [_rough(v) for v in row])


def _plain(value: Any, maps: bool = False) -> Any:
    """A value that compares: structs as tuples, maps as sorted tuples of pairs. `maps`: whether a dict is a map, as
    Spark has it."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value) + 0.0
    if isinstance(value, dict):
        if maps:
            return tuple(sorted(((_plain(k, maps), _plain(v, maps)) for k, v in value.items()), key=_rough))
        return tuple(_plain(v, maps) for v in value.values())
    if isinstance(value, list | tuple):
        parts = tuple(_plain(v, maps) for v in value)
        is_map = not maps and bool(value) and all(type(v) is tuple and len(v) == 2 for v in value)
        return tuple(sorted(parts, key=_rough)) if is_map else parts
    return bytes(value) if isinstance(value, bytearray) else value


def _rough(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ",".join(map(_rough, value)) + ")"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def same_rows(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    """Equal bags up to 1e-9 relative in numbers."""
    return len(left) == len(right) and all(map(_same, left, right))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def _parts(text: str) -> list[str]:
    """The columns of a schema, which commas divide, but not within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts]


def _for_spark(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value

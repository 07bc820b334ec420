"""Random expressions of SQL++ as text, over rows of every type with NULL, MISSING, nested arrays and objects."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from belvedere.schema import TIMESTAMP
from belvedere.sqlpp.spark_text.sql_values import Object, SqlValue, Value
from tests.window_by.expression_forms import COMMON, FORMS, HOLE, LEAVES
from tests.window_by.interpreter.values import MISSING

POINT = pa.struct([("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())])
TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "j": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "s": pa.string(),
    "p": pa.string(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "t": TIMESTAMP,
    "n": pa.decimal128(10, 2),
    "a": pa.list_(pa.int64()),
    "c": pa.list_(pa.float64()),
    "o": pa.list_(POINT),
    "q": POINT,
    "w": pa.list_(pa.string()),
    "z": pa.list_(pa.list_(pa.int64())),
}
CHOICES: dict[str, list[Any]] = {
    "i": [None, 0, 1, -2, 3, 7],
    "j": [None, 1, 2, -1, 5],
    "x": [None, 0.0, -1.5, 2.25, float("nan"), 1e6],
    "y": [None, 0.5, 3.0, -2.0],
    "s": [None, "", "a", "b", "é", "Ab c", " x "],
    "p": [None, "%", "a%", "_", "\\%", "A_", "1.5", "12"],
    "b": [None, True, False],
    "d": [None, date(2024, 2, 29), date(1969, 12, 31), date(2020, 1, 1)],
    "t": [
        None,
        datetime(2024, 2, 29, 23, 59, 58, 123456, UTC),
        datetime(1969, 12, 31, 1, 2, 3, tzinfo=UTC),
        datetime(2020, 1, 1, tzinfo=UTC),
    ],
    "n": [None, Decimal("1.25"), Decimal("-3.50"), Decimal("0.00")],
    "a": [None, [], [1, None, 3], [2, 2, 1], [5], [-1, 4, None, 4, 0]],
    "c": [None, [], [1.5, None], [0.1, 0.1, 0.1], [4.0, 1.0], [2.0, -7.25, 3.5, 2.0]],
    "w": [None, ["a", "b", None], ["é", "a"], []],
    "z": [None, [[1, 2], None, []], [[3]]],
}
COLUMNS = {**TYPES, "u_id": pa.int64(), "u_s": pa.string(), "u_m": pa.bool_(), "g": pa.int64(), "g_m": pa.bool_()}


def rows(random: Random, number: int) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A table, and its rows as the interpreter sees them. `u` is an object that may be MISSING, `g` a number that
    may."""
    table: list[dict[str, Any]] = []
    for _ in range(number):
        row = {c: random.choice(v) for c, v in CHOICES.items()}
        row["q"] = point(random)
        row["o"] = random.choice([None, [], [point(random) for _ in range(random.randint(1, 4))]])
        u_m, g_m = random.random() < 0.4, random.random() < 0.4
        row |= {
            "u_m": u_m,
            "g_m": g_m,
            "u_id": None if u_m else random.choice([None, 1, 2]),
            "u_s": None if u_m else "u",
        }
        row["g"] = None if g_m else random.choice([None, 4, 5])
        table.append(row)
    seen = [
        {
            **{c: r[c] for c in TYPES},
            "u": MISSING if r["u_m"] else {"id": r["u_id"], "s": r["u_s"]},
            "g": MISSING if r["g_m"] else r["g"],
        }
        for r in table
    ]
    return pa.Table.from_pylist(table, pa.schema(list(COLUMNS.items()))), seen


def point(random: Random) -> dict[str, Any] | None:
    if random.random() < 0.2:
        return None
    return {
        "k": random.choice([None, 1, 2, 3]),
        "v": random.choice([None, 0.5, 2.0, -1.0]),
        "s": random.choice([None, "a", "b"]),
    }


def variables() -> dict[str, Value]:
    """The rows' columns as values."""
    plain: dict[str, Value] = {c: SqlValue(f"`{c}`", t) for c, t in TYPES.items()}
    fields: dict[str, Value] = {"id": SqlValue("`u_id`", pa.int64()), "s": SqlValue("`u_s`", pa.string())}
    return {**plain, "u": Object(fields, "`u_m`"), "g": SqlValue("`g`", pa.int64(), "`g_m`")}


class Expressions:
    """Makes expressions of a kind of value: `int`, `real`, `text`, `bool`, `date`, `time`, `span`, `ints`, `points`,
    `point`."""

    def __init__(self, random: Random):
        self.random = random
        self.scopes: list[dict[str, str]] = []  # variables of subqueries, by kind
        self.names = 0

    def any(self, depth: int) -> str:
        return self.of(self.random.choice(list(LEAVES)), depth)

    def of(self, kind: str, depth: int) -> str:
        inner = [n for scope in self.scopes for n, k in scope.items() if k == kind]
        if depth <= 0 or self.random.random() < 0.15:
            if inner and self.random.random() < 0.6:
                return self.random.choice(inner)
            return self.random.choice(LEAVES[kind])
        form = self.random.choice(FORMS[kind] + COMMON)
        return self.filled(form, kind, depth)

    def filled(self, form: str, kind: str, depth: int) -> str:
        """`<int>` in a form stands for an expression of that kind, `<any>` for one of any, `<same>` for one of the
        form's own kind."""
        if form.startswith("query:"):
            return self.query(form.removeprefix("query:"), depth)

        def made(found: re.Match[str]) -> str:
            return (
                self.any(depth - 1)
                if found[1] == "any"
                else self.of(kind if found[1] == "same" else found[1], depth - 1)
            )

        return HOLE.sub(made, form)

    def query(self, kind: str, depth: int) -> str:
        """A subquery whose results are of a kind."""
        v = self.fresh()
        source = self.random.choice(["ints", "points"])
        collection = self.of(source, depth - 1)
        scope = {v: "int" if source == "ints" else "point"}
        text = f"FROM {collection} AS {v}"
        if self.random.random() < 0.2:
            at = self.fresh()
            text += f" AT {at}"
            scope[at] = "int"
        self.scopes.append(scope)
        if self.random.random() < 0.3:
            other = self.fresh()
            join = self.random.choice([", ", " LEFT JOIN "])
            text += f"{join}{self.of('ints', depth - 1)} AS {other}"
            if join != ", ":
                text += f" ON {self.of('bool', depth - 1)}"
            scope[other] = "int"
        if self.random.random() < 0.3:
            let = self.fresh()
            text += f" LET {let} = {self.of('int', depth - 1)}"
            scope[let] = "int"
        if self.random.random() < 0.5:
            text += f" WHERE {self.of('bool', depth - 1)}"
        if self.random.random() < 0.2:
            key, group = self.fresh(), self.fresh()
            text += f" GROUP BY {self.of('int', depth - 1)} AS {key} GROUP AS {group}"
            total = self.fresh()
            text += f" LET {total} = {self.random.choice(['SUM', 'COUNT', 'MAX', 'AVG'])}({self.of('int', depth - 1)})"
            self.scopes[-1] = {key: "int", total: "int"}
            text += f" HAVING LEN({group}) >= 1 "
        distinct = "DISTINCT " if self.random.random() < 0.15 else ""
        text += f" SELECT {distinct}VALUE {self.of(kind, depth - 1)}"
        if not distinct and self.random.random() < 0.4:
            way = self.random.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
            text += f" ORDER BY {self.of(self.random.choice(['int', 'text', 'real']), depth - 1)}{way}"
        if self.random.random() < 0.3:
            text += f" LIMIT {self.random.randint(0, 3)}"
            if self.random.random() < 0.5:
                text += f" OFFSET {self.random.randint(0, 2)}"
        self.scopes.pop()
        return f"({text})"

    def fresh(self) -> str:
        self.names += 1
        return f"v{self.names}"

"""Every row of the function table is consistent in itself, and with the parser, the stores and WINDOW BY."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from sqlglot.errors import ParseError

from belvedere.errors import BelvedereError
from belvedere.functions import spark_types as t
from belvedere.functions.function import MANY, Function, Kind, Ties
from belvedere.functions.function_table import ARITY, BY_KEY, FUNCTIONS, WINDOW_BY, canonical, function_of
from belvedere.functions.untyped import CAST_NEEDED, COUNTED
from belvedere.lang.types.call_types import _BY_NAME
from belvedere.schema import TIMESTAMP
from belvedere.store.dialects import DIALECTS
from belvedere.store.read.expressions import print_expression
from belvedere.store.read.typed_sql import NameBindings
from belvedere.values.instants import microseconds
from tests.window_by.interpreter.functions import PLAIN, TOLERANT

TYPES = (
    t.INT32,
    t.INT64,
    t.DOUBLE,
    pa.decimal128(10, 2),
    t.STRING,
    t.BOOLEAN,
    t.DATE,
    TIMESTAMP,
    pa.list_(t.INT32),
    t.NULL,
)


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.key)
def test_a_row_is_consistent(row: Function) -> None:
    class_ = getattr(exp, row.key, None)
    assert class_ is not None or row.key.islower(), "no class of the parser"
    assert row.key.islower() or issubclass(class_, exp.Expr)
    assert row.key not in row.calls or row.key.islower()
    assert all(c is None or 0 <= c[0] <= c[1] <= MANY for c in row.calls.values())
    assert row.type is not None or not row.deterministic or row.key in _BY_NAME, "nothing knows its type"
    assert row.kind is Kind.AGGREGATE or row.over_nothing == "NULL"
    assert row.kind is not Kind.SCALAR or (row.ties is None and not row.skips_nulls)
    assert row.kind is not Kind.WINDOW or row.ties in (Ties.ROW, Ties.PEERS, Ties.NTH)
    if row.type is not None:
        for type_ in TYPES:
            assert isinstance(row.type([type_, type_]), pa.DataType | None)
    if row.forgiving is not None:
        assert row.forgiving.startswith("try_")
    if row.stored is not None:
        assert row.type is not None
        assert set(row.stored.sql) == set(DIALECTS), "a template is checked for all stores"


def test_a_name_and_a_key_stand_once() -> None:
    keys = Counter(row.key for row in FUNCTIONS)
    names = Counter(name for row in FUNCTIONS for name in row.calls)
    assert [n for found in (keys, names) for n, times in found.items() if times > 1] == []
    assert set(COUNTED).isdisjoint(names)


@pytest.mark.spark
def test_what_a_cast_says_the_type_of_gives_a_value_for_a_row(spark: Any) -> None:
    catalog, identifier = (
        spark._jsparkSession.sessionState().catalog(),
        spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier,
    )
    groups = {name: catalog.lookupFunctionInfo(identifier(name)).getGroup() for name in CAST_NEEDED}
    assert {
        n: g for n, g in groups.items() if g in ("agg_funcs", "generator_funcs", "window_funcs", "table_funcs")
    } == {}


def test_a_call_finds_its_row() -> None:
    """Rows whose names the parser reads as another class would never be asked."""
    missed = []
    for row in FUNCTIONS:
        for name, counts in row.calls.items():
            shown = [
                f"{name}({', '.join(a[: max((counts or (1, 1))[0], 1)])})" for a in (list("abcdef"), ["'DAY'", "b"])
            ]
            found = set()
            for text in shown if row.key[0].isupper() else ():
                with contextlib.suppress(ParseError):
                    found.add(type(parse_one(text, dialect="spark")).__name__)
            if found and row.key not in found and not found & {"Cast", "Anonymous", "Bracket", "Case", "If"}:
                missed.append((row.key, name, found))
    assert [m for m in missed if m[0] not in SPECIAL] == []


SPECIAL = frozenset(("LogicalOr",))
"""`any(x)` is read as the quantifier."""


def test_every_form_of_window_by_has_a_value() -> None:
    assert WINDOW_BY.keys() == {*PLAIN, *TOLERANT}
    for name, form in WINDOW_BY.items():
        assert canonical(name.lower()) == name
        assert all(canonical(other) == name and other not in WINDOW_BY for other in form.also)
        assert form.most == -1 or form.least <= form.most
        for rule in form.natives:
            rule.text.format(*["x"] * max(form.least, form.most), all="x")


AT = datetime(1969, 12, 31, 23, 59, 59, 250_000, tzinfo=UTC)
CASES: list[tuple[str, dict[str, tuple[pa.DataType, Any]], Any]] = [
    ("abs(n)", {"n": (t.INT32, -5)}, 5),
    ("isnull(n)", {"n": (t.INT64, None)}, True),
    ("isnotnull(s)", {"s": (t.STRING, "x")}, True),
    ("contains(s, p)", {"s": (t.STRING, "a%b"), "p": (t.STRING, "%")}, True),
    ("contains(s, '')", {"s": (t.STRING, "ab")}, True),
    ("startswith(s, 'b')", {"s": (t.STRING, "abb")}, False),
    ("startswith(s, 'ab')", {"s": (t.STRING, "abb")}, True),
    ("length(s)", {"s": (t.STRING, "ä€😀b")}, 4),
    ("concat(s, '-', s) || s", {"s": (t.STRING, "ab")}, "ab-abab"),
    ("trim(s) = 'a b'", {"s": (t.STRING, "  a b ")}, True),
    ("ltrim(s)", {"s": (t.STRING, "  a ")}, "a "),
    ("rtrim(s)", {"s": (t.STRING, "\ta ")}, "\ta"),
    ("nullif(n, 1)", {"n": (t.INT32, 1)}, None),
    ("if(n > 1, n, 0)", {"n": (t.INT32, 1)}, 0),
    ("dayofmonth(t)", {"t": (TIMESTAMP, AT)}, 31),
    ("dayofyear(t)", {"t": (TIMESTAMP, AT)}, 365),
    ("dayofweek(t)", {"t": (TIMESTAMP, AT)}, 4),
    ("dayofweek(to_date(d))", {"d": (t.DATE, -1)}, 4),
    ("to_date(t) = to_date(d)", {"t": (TIMESTAMP, AT), "d": (t.DATE, -1)}, True),
    ("unix_micros(t)", {"t": (TIMESTAMP, AT)}, -750_000),
    ("unix_millis(t)", {"t": (TIMESTAMP, AT)}, -750),
    ("unix_seconds(t)", {"t": (TIMESTAMP, AT)}, -1),
]


def _printed(dialect: str, text: str, columns: dict[str, tuple[pa.DataType, Any]]) -> str:
    found = DIALECTS[dialect]

    def column(name: exp.Column) -> tuple[str, pa.DataType]:
        return name.name, columns[name.name][0]

    return print_expression(parse_one(text, dialect="spark"), NameBindings(found, column)).sql


def test_every_function_of_the_stores_has_a_case() -> None:
    calls = (c for text, _, _ in CASES for c in parse_one(text, dialect="spark").find_all(exp.Func))
    rows = [function_of(c) for c in calls]
    assert {r.key for r in rows if r is not None and r.stored is not None} == {
        row.key for row in FUNCTIONS if row.stored is not None
    }


@pytest.mark.parametrize(("text", "columns", "value"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_what_sqlite_gives(text: str, columns: dict[str, tuple[pa.DataType, Any]], value: Any) -> None:
    bound = [microseconds(v) if isinstance(v, datetime) else v for _, v in columns.values()]
    rows = f"SELECT {', '.join(f'? AS {n}' for n in columns)}"
    with sqlite3.connect(":memory:") as connection:
        found = connection.execute(f"SELECT {_printed('sqlite', text, columns)} FROM ({rows})", bound).fetchone()[0]
    assert found == value


@pytest.mark.postgres
def test_what_postgres_gives(postgres_url: str) -> None:
    from adbc_driver_postgresql import dbapi

    names = {t.INT32: "integer", t.INT64: "bigint", t.STRING: "text", TIMESTAMP: "timestamptz", t.DATE: "date"}
    with dbapi.connect(postgres_url) as connection, connection.cursor() as cursor:
        for text, columns, value in CASES:
            given = {
                n: "NULL" if v is None else "'1969-12-31'" if k == t.DATE else f"'{v}'" for n, (k, v) in columns.items()
            }
            rows = ", ".join(f"CAST({given[n]} AS {names[kind]}) AS {n}" for n, (kind, _) in columns.items())
            cursor.execute(f"SELECT {_printed('postgres', text, columns)} FROM (SELECT {rows}) AS r")
            assert cursor.fetchone()[0] == value, text


def test_a_store_refuses_what_it_does_not_have() -> None:
    for text, type_ in (("upper(a)", t.STRING), ("abs(a)", t.DOUBLE), ("unix_micros(a)", t.DATE)):
        for dialect in DIALECTS:
            with pytest.raises(BelvedereError) as error:
                _printed(dialect, text, {"a": (type_, None)})
            assert error.value.diagnostics[0].code == "B8020"


def test_an_overflow_is_an_error_in_sqlite() -> None:
    sql = _printed("sqlite", "abs(n)", {"n": (t.INT32, None)})
    with sqlite3.connect(":memory:") as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute(f"SELECT {sql} FROM (SELECT -2147483648 AS n)").fetchone()


def test_arities_are_of_known_names() -> None:
    assert ARITY["upper"] == (1, 1)
    assert ARITY["concat"] == (0, MANY)
    assert {name for row in BY_KEY.values() for name, c in row.calls.items() if c is not None} <= set(ARITY)

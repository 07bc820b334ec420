"""CHECK conditions of rows before they are accepted, computed by SQLite in memory with Spark's results.

In: an input and rows of it as Arrow. Out: the first condition that each row violates. NULL violates none, as in SQL.
Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from math import isnan
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.inputs import Check, Input
from belvedere.store.dialects.codec import form
from belvedere.store.dialects.sqlite.python_sqlite import library
from belvedere.store.dialects.sqlite.sqlite import Sqlite
from belvedere.store.read.expressions import print_expression
from belvedere.store.read.typed_sql import NameBindings

_DIALECT = Sqlite()


def broken_checks(table: Input, rows: pa.Table) -> Mapping[int, Check]:
    """Return the number of each row that violates a CHECK, with the first violated one."""
    if not table.checks or not rows.num_rows:
        return {}
    read = _columns(table)
    stored = [form(_DIALECT, rows.schema.field(n).type) for n in read]
    values = [
        [_bound(v) for v in f.encode(rows[n].combine_chunks()).to_pylist()] for n, f in zip(read, stored, strict=True)
    ]
    conditions = ", ".join(f"{_printed(table, c)} IS FALSE" for c in table.checks)
    names = ", ".join(f"c{n} {f.sql}" for n, f in enumerate(stored))
    with closing(library.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE checked ({names})")
        marks = ", ".join("?" * len(read))
        connection.executemany(f"INSERT INTO checked VALUES ({marks})", list(zip(*values, strict=True)))
        found = connection.execute(f"SELECT rowid - 1, {conditions} FROM checked").fetchall()
    return {n: table.checks[broken.index(1)] for n, *broken in found if 1 in broken}


def _bound(value: Any) -> Any:
    """Convert NaN to a text, which SQLite sorts above all numbers."""
    return "NaN" if isinstance(value, float) and isnan(value) else value


def check_computable(table: Input, check: Check) -> None:
    """Raise B8020 for a condition that cannot be computed exactly before rows are accepted."""
    _printed(table, check)


def _columns(table: Input) -> list[str]:
    """Return the columns that any of the conditions reads; at least one."""
    read = {c.name for check in table.checks for c in check.condition.find_all(exp.Column)}
    return [c.name for c in table.schema if c.name in read] or [table.schema.names[0]]


def _printed(table: Input, check: Check) -> str:
    read = _columns(table)

    def column(node: exp.Column) -> tuple[str, pa.DataType]:
        return f"c{read.index(node.name)}", table.schema[node.name].type

    return print_expression(check.condition, NameBindings(_DIALECT, column)).sql

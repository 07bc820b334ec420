"""What the tests of examples share: loading an example's `prepare.py`, and DuckDB's answers to its views."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_prepare(example: str) -> ModuleType:
    """The module `examples/<example>/prepare.py`."""
    spec = importlib.util.spec_from_file_location(f"prepare_{example}", EXAMPLES / example / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def duckdb_queries(example: str) -> dict[str, str]:
    """The queries of `duckdb.sql` by the name of the view that each stands for."""
    text = (EXAMPLES / example / "duckdb.sql").read_text()
    parts = re.split(r"^-- view: ([\w.]+)\n", text, flags=re.MULTILINE)[1:]
    return {name: query.strip().removesuffix(";") for name, query in zip(parts[::2], parts[1::2], strict=True)}


def duckdb_over(tables: Mapping[str, str], clock: datetime | None = None) -> duckdb.DuckDBPyConnection:
    """A database in UTC with a table per name, each made by a query, and the macro `clock()`."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, query in tables.items():
        connection.execute(f"CREATE TABLE {name} AS {query}")
    if clock is not None:
        connection.execute(f"CREATE MACRO clock() AS TIMESTAMPTZ '{clock.isoformat()}'")
    return connection


def answers(connection: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """A query's rows as dicts."""
    result = connection.execute(query)
    names = [d[0] for d in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def differences(ours: Iterable[Mapping[str, Any]], theirs: Iterable[Mapping[str, Any]]) -> list[str]:
    """What two bags of rows do not share, for people; empty where they are the same (doubles up to 1e-9 relative)."""
    left, right = (sorted((_comparable(r) for r in rows), key=_order) for rows in (ours, theirs))
    if len(left) != len(right):
        return [f"{len(left)} rows here, {len(right)} in DuckDB"]
    return [f"{a} here, {b} in DuckDB" for a, b in zip(left, right, strict=True) if not _same(a, b)]


Cells = tuple[tuple[str, Any], ...]


def _comparable(row: Mapping[str, Any]) -> Cells:
    return tuple(sorted((name.lower(), _plain(value)) for name, value in row.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return float(value) if isinstance(value, Decimal) else value


def _order(row: Cells) -> tuple[list[str], list[str]]:
    """Sort by exact values first, so that the last digit of a double pairs no row with another."""
    exact = [repr(value) for _, value in row if not isinstance(value, float)]
    return exact, [f"{value:.8g}" for _, value in row if isinstance(value, float)]


def _same(a: Cells, b: Cells) -> bool:
    if [name for name, _ in a] != [name for name, _ in b]:
        return False
    return all(
        math.isclose(x, y, rel_tol=1e-9) if isinstance(x, float) and isinstance(y, float) else x == y
        for (_, x), (_, y) in zip(a, b, strict=True)
    )

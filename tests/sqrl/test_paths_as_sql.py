"""Random scripts with paths against plain SQL in DuckDB, over random rows with NULLs and rows without related ones."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import pytest

from tests.depth import at_night
from tests.sqrl.paths_as_sql import SCRIPT, columns, view

COLUMNS = {"C": 3, "O": 3, "L": 5, "P": 2}
NAMES = {
    "C": ("id", "city", "factor"),
    "O": ("id", "cust", "weight"),
    "L": ("id", "ord", "sku", "price", "amount"),
    "P": ("sku", "cost"),
}


def rows_of(random: Random) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of all tables; some customers have no orders, some orders no lines, some lines no product."""

    def number(most: int = 4) -> int | None:
        return random.randrange(most) if random.random() < 0.8 else None

    return {
        "C": [(n, random.choice(["a", "b", None]), number()) for n in range(6)],
        "O": [(n, number(6), number()) for n in range(12)],
        "L": [(n, number(12), number(5), number(), number()) for n in range(30)],
        "P": [(n, number()) for n in range(3)],
    }


def answers(database: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return sorted((tuple(map(_plain, row)) for row in database.execute(sql).fetchall()), key=repr)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, bool | int | float) and float(value).is_integer() else value


def check(seed: int, spark: Any, size: int) -> None:
    from belvedere import Workbench

    random = Random(seed)
    views = [view(random, f"V{n}") for n in range(size)]
    added = columns(random, size // 3)
    text = SCRIPT + "".join(f"{name} := {path};\n" for name, path, _ in views) + "".join(s + "\n" for _, s, _ in added)
    database = duckdb.connect()
    wb = Workbench(text, spark=spark)
    try:
        wb.clock("2024-05-01 11:00:00")
        for table, rows in rows_of(random).items():
            names = NAMES[table]
            database.execute(f"CREATE TABLE {table} ({', '.join(f'{n} {_type(n)}' for n in names)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
            wb.insert(table, [dict(zip(names, row, strict=True)) for row in rows])
        wb.step()
        for name, path, sql in views:
            got = sorted((tuple(map(_plain, row.values())) for row in wb.rows(name)), key=repr)
            assert got == answers(database, sql), f"seed {seed}: {path}\n{sql}"
        for n, (table, statement, sql) in enumerate(added):
            got = sorted(((row["id"], _plain(row[f"x{n}"])) for row in wb.rows(table)), key=repr)
            assert got == answers(database, sql), f"seed {seed}: {statement}\n{sql}"
    finally:
        wb.close()


def _type(name: str) -> str:
    return "VARCHAR" if name == "city" else "INT"


@pytest.mark.parametrize("seed", [0, *at_night([1, 2])])
def test_paths_are_the_plain_sql(seed: int, executor: Any) -> None:
    check(seed, executor, 9)


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 16))
def test_many_paths_are_the_plain_sql(seed: int, spark: Any) -> None:
    check(seed, spark, 24)

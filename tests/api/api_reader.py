"""A reader over the example rows, without a store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import api_example as example

from belvedere.api.quarantined_answers import quarantined_sql
from belvedere.store.dialects import DIALECTS
from belvedere.store.dialects.sqlite.python_sqlite import library as sqlite
from belvedere.store.layout import Layout
from belvedere.store.protocol import EpochRow
from belvedere.values.instants import instant


def is_look(sql: str) -> bool:
    """Whether a statement looks into the row of a new epoch: once for each, not once for a request."""
    return sql == quarantined_sql("sqlite" if "?" in sql else "postgres")


class MemoryReader:
    """A SQLite database in memory with the example's rows, in the stored forms of the store's own codec."""

    dialect = "sqlite"

    def __init__(self, committed: bool = True):
        self.statements: list[str] = []
        self.connection = sqlite.connect(":memory:", check_same_thread=False)
        self.connection.execute(
            "CREATE TABLE _belvedere_epoch (epoch BIGINT PRIMARY KEY, clock BIGINT, committed_at BIGINT, content TEXT)"
        )
        rows = example.rows()
        for name, table in example.tables(example.catalog()).items():
            layout = Layout(DIALECTS["sqlite"], table)
            self.connection.execute(layout.create())
            for batch in example.arrow(table, rows[name]).to_batches():
                flat = layout.flatten(batch)
                columns = [["NaN" if str(v) == "nan" else v for v in column.to_pylist()] for column in flat.columns]
                marks = ",".join("?" * len(columns))
                self.connection.executemany(f"INSERT INTO {layout.name} VALUES ({marks})", zip(*columns, strict=True))
        if committed:
            self.connection.execute("INSERT INTO _belvedere_epoch VALUES (7, 1577880000000000, 1577880001000000, '{}')")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if not is_look(sql):
            self.statements.append(sql)
        return self.connection.execute(sql, parameters).fetchall()

    def last_epoch(self) -> EpochRow | None:
        rows = self.connection.execute("SELECT epoch, clock, committed_at FROM _belvedere_epoch").fetchall()
        return EpochRow(rows[0][0], instant(rows[0][1]), committed_at=instant(rows[0][2])) if rows else None

    def document(self, name: str) -> str | None:
        return None

    def close(self) -> None:
        self.connection.close()


class OnLoop:
    """A reader of the API's processes, asked on a loop of its own: the third time a text comes, it is prepared for the
    second."""

    def __init__(self, reader: Any):
        self._reader, self._runner = reader, asyncio.Runner()
        self.dialect = reader.dialect

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found = [self._runner.run(self._reader.fetch(sql, parameters)) for _ in range(3)]
        assert found[0] == found[1] == found[2]
        return found[0]

    def last_epoch(self) -> EpochRow | None:
        return self._reader.last_epoch()

    def document(self, name: str) -> str | None:
        return self._reader.document(name)

    def close(self) -> None:
        self._reader.close()
        self._runner.close()


class Recorded:
    """A reader that notes its statements."""

    def __init__(self, reader: Any):
        self.statements: list[str] = []
        self._reader = reader

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if not is_look(sql):
            self.statements.append(sql)
        return self._reader.execute(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

"""Some of an epoch's rows, in some of their columns, selected in place: by Arrow in the driver, by SQL in Spark.

In: rows, a condition in both forms. Out: a stream of the rows, or the SQL parts with which Spark selects them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from belvedere.engine.rows.epoch_rows import Rows, coming
from belvedere.functions.spark_types import quote
from belvedere.schema import WEIGHT


@dataclass(frozen=True)
class RowTest:
    """A condition on rows: `test` for Arrow, `sql` for Spark over the same columns."""

    test: Callable[[pa.RecordBatch], pa.Array]
    sql: str

    @staticmethod
    def of_column(name: str) -> RowTest:
        """Return the test for rows in which a boolean column is true."""
        return RowTest(lambda batch: batch.column(name), quote(name))


COMING = RowTest(coming, f"{quote(WEIGHT)} > 0")


@dataclass(frozen=True)
class SelectedRows:
    """Rows that satisfy a condition (None: all).

    `columns` maps each column's name to a column of the rows.
    """

    rows: Rows
    choice: RowTest | None
    columns: Mapping[str, str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        own = list(self.columns.values())
        found = self.rows.batches(own) if self.choice is None else self.rows.where(self.choice.test, own)
        yield from (b.rename_columns(list(self.columns)) for b in found)


NewRows: TypeAlias = Rows | SelectedRows | Sequence[Rows | SelectedRows]
"""Rows that replace others, maybe of several origins."""


def choose(rows: Rows, choice: RowTest | None, *without: str) -> SelectedRows:
    """Return the rows that satisfy a condition, without some columns."""
    return SelectedRows(rows, choice, {n: n for n in rows.schema.names if n not in without})


def parts_of(rows: NewRows) -> list[SelectedRows]:
    """Return the rows of each origin that may have some."""
    parts = [rows] if isinstance(rows, (Rows, SelectedRows)) else rows
    found = (p if isinstance(p, SelectedRows) else choose(p, None) for p in parts)
    return [p for p in found if not p.rows.is_empty]


def streamed(rows: NewRows) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all origins."""
    for part in parts_of(rows):
        yield from part.batches()

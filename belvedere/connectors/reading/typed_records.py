"""Records converted to the types of their table without Spark; records that need Spark are left for it.

In: values of columns, each with flags of those that are left. Out: a `RecordPart`: rows in the order of the records,
and the raw records for Spark (`file_rows`). A value that is converted here equals Spark's. Runs in Spark's tasks:
nothing here imports PySpark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.decode.row_values import row_schema
from belvedere.schema import Column

Places: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RecordForm:
    """Target form of records: the table's columns. `header`: the names of CSV fields."""

    columns: tuple[Column, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    header: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows; each may be NULL."""
        return row_schema(self.columns)

    @property
    def only_known(self) -> bool:
        """Whether a record with a member that is not a column is rejected."""
        return self.options.get("new_columns") == "reject"

    @property
    def fields(self) -> dict[str, int]:
        """Index of the CSV field of each column that has one."""
        places = {name.strip().casefold(): n for n, name in enumerate(self.header)}
        return {c.name: places[c.name.casefold()] for c in self.columns if c.name.casefold() in places}


@dataclass(frozen=True)
class RecordPart:
    """Records of one file in order, one row each.

    The rows at `places` do not count: `left` has their records, in the same order, for Spark. `lines` numbers all
    records.
    """

    name: str
    rows: pa.Table
    lines: Places
    places: Places
    left: pa.RecordBatch | None = None

    @property
    def nbytes(self) -> int:
        """Return the approximate bytes of memory."""
        return int(self.rows.nbytes + (0 if self.left is None else self.left.nbytes))


def left_alone(batch: pa.RecordBatch, name: str, lines: Places, form: RecordForm) -> RecordPart:
    """Return a part with all records left for Spark."""
    size = batch.num_rows
    rows = pa.table([pa.nulls(size, f.type) for f in form.schema], schema=form.schema)
    return RecordPart(name, rows, lines, np.arange(size), batch)

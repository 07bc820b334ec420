"""The relational operator of WINDOW BY: one block over an input, kept partition by partition.

In: an input relation and a block of the window language. Out: a relation with one row per window. Windows of one partition
depend on that partition's rows alone, so the keyed rule holds with `partition` as the key: recompute all windows of the partitions that
changed. This module says nothing about how windows are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from belvedere.plan.nodes import Node
from belvedere.schema import Column, Schema


@dataclass(frozen=True)
class WindowBlock(Node):
    """The results of the query `text`, whose FROM names `relation`: the input's visible columns as objects.

    `partition` are the input's columns that PARTITION BY names, kept in the result as hidden columns; `position` is the hidden column with
    the position (from 0) of the window's label or start in its partition. Together they are the key.
    """

    input: Node
    relation: str
    text: str
    partition: tuple[str, ...]
    columns: tuple[Column, ...]
    position: str = "_window"

    @cached_property
    def schema(self) -> Schema:
        hidden = tuple(
            Column(f"_partition_{n}", self.input.schema[n].type, self.input.schema[n].nullable, hidden=True)
            for n in self.partition
        )
        place = Column(self.position, pa.int64(), nullable=False, hidden=True)
        return Schema((*self.columns, *hidden, place), (*(c.name for c in hidden), place.name))

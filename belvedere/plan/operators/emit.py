"""EMIT: when changes appear, and in which form (One SQL, extensions 4 to 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.node import Node
from belvedere.schema import TIMESTAMP, Column, Schema

UNDO, PTIME, VERSION, SEQUENCE = "undo", "ptime", "ver", "_seq"
"""Columns that a changelog adds (One SQL, extension 4), and the hidden number of its rows."""


@dataclass(frozen=True)
class Emit(Node):
    """When the input's changes appear, and in which form (One SQL, extensions 4 to 7).

    `watermark`: a row appears when it is complete. `delay` in microseconds: the changes of a group appear this time
    after the first of them. Without `stream` the result is the relation as last emitted. With it the result is the
    changelog: rows in the order of emission.
    """

    input: Node
    stream: bool = False
    watermark: bool = False
    delay: int | None = None

    @cached_property
    def schema(self) -> Schema:
        if not self.stream:
            return self.input.schema
        added = (
            Column(UNDO, pa.bool_(), nullable=False),
            Column(PTIME, TIMESTAMP, nullable=False),
            Column(VERSION, pa.int64(), nullable=False),
            Column(SEQUENCE, pa.int64(), nullable=False, hidden=True),
        )
        return Schema(self.input.schema.visible + added, (SEQUENCE,))

    is_historic: ClassVar[bool] = True

    @property
    def text(self) -> str:
        words = ["emit"]
        words += ["stream"] if self.stream else []
        words += [f"after delay {self.delay}us"] if self.delay is not None else []
        words += ["after watermark"] if self.watermark else []
        return " ".join(words)

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        # a delay may emit rows after any bound has passed; completion emits all rows of a group
        return (self.input.bounds(known) if self.watermark or self.delay is None else {},)

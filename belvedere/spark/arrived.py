"""What one epoch takes from one input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from belvedere.engine.rows import Rows
from belvedere.spark.records import RejectedRow, SourceFile
from belvedere.time.entries import ProducerAct


@dataclass(frozen=True)
class Mark:
    """A bound among the rows: `position` rows come before it."""

    position: int
    act: ProducerAct


@dataclass(frozen=True)
class Arrived:
    """Rows with the input's columns, what was refused, the files read, and the source's offset once they are committed."""

    rows: pa.Table | Rows
    offset: Mapping[str, Any]
    rejected: tuple[RejectedRow, ...] = ()
    refused: int = 0
    """How many were refused; `rejected` may hold the first of them only."""
    files: tuple[SourceFile, ...] = ()
    marks: Iterable[Mark] = ()
    """The bounds that the source carries, in order; true where there is any."""
    notices: tuple[str, ...] = ()
    """What people should know, once."""

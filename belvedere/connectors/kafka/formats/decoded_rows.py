"""The interface of message formats, and their result.

It runs in Spark's tasks: nothing here imports PySpark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from belvedere.schema import Column
from belvedere.values.rejections import Reason

COLUMN = "value"
"""Column of messages that are not records."""

Sample: TypeAlias = Callable[[], Sequence[bytes]]
"""Function that returns the newest messages; calling it contacts the cluster."""


@dataclass(frozen=True)
class Decoded:
    """Messages as rows, in their order. If a message has no row here, all its columns are NULL.

    By index: `undecided` has the texts left to Spark's JSON reader; `refused` the reason why a message is not a row.
    """

    rows: pa.Table
    undecided: Mapping[int, bytes] = field(default_factory=dict)
    refused: Mapping[int, Reason] = field(default_factory=dict)


class PayloadFormat(Protocol):
    """Interface of the modules of this folder."""

    def columns(self, table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
        """Return the columns of a schema, or of a sample of messages if there is none.

        Raises B6103 if it has none, B6205.
        """

    def decode(self, values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
        """Return the rows of messages."""

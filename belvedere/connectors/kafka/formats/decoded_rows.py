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
"""The column of messages that are no records."""

Sample: TypeAlias = Callable[[], Sequence[bytes]]
"""Function that returns the newest messages; calling it contacts the cluster."""


@dataclass(frozen=True)
class Decoded:
    """Messages as rows, in their order; of a message that has no row here all columns are NULL.

    `undecided`: by place the texts that are left to Spark's reader of JSON; `refused`: by place why a message is no row.
    """

    rows: pa.Table
    undecided: Mapping[int, bytes] = field(default_factory=dict)
    refused: Mapping[int, Reason] = field(default_factory=dict)


class PayloadFormat(Protocol):
    """A module of this folder."""

    def columns(self, table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
        """Return the columns of a schema, or of a sample of messages if there is none.

        Raises B6103 if it has none, B6205.
        """

    def decode(self, values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
        """The rows of messages."""

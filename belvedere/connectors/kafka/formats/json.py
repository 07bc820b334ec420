"""JSON objects. Arrow parses most of them in bulk. Spark's reader, which also reads files, parses those that Arrow does
not.

So the rows are the same as those of files with the same lines (`belvedere.decode.json_objects`). With column types that
Arrow's reader does not support, Spark parses all messages, more slowly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.connectors.kafka.formats.decoded_rows import Decoded, Sample
from belvedere.decode.json_objects import is_readable, rows_of_texts
from belvedere.decode.row_values import placed, row_schema
from belvedere.errors import fail
from belvedere.lang.types.samples import arrow_type, kind_of_value, merge
from belvedere.schema import Column


def columns(table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
    """Return the members of the sample's objects as columns."""
    kinds: dict[str, Any] = {}
    for value in sample():
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            for name, member in found.items():
                kind = kind_of_value(member)
                kinds[name] = merge(kinds[name], kind) if name in kinds else kind
    if not kinds:
        hint = f'send messages, or declare its columns: [sources.<name>.tables.{table}] columns = {{ id = "BIGINT" }}'
        raise fail("B6103", f'table "{table}" has no messages to infer its columns from', hint=hint)
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in kinds.items()])


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """Return the rows, and the texts that Arrow does not parse."""
    if "timestamp_format" in options or not is_readable(columns):
        return Decoded(placed(row_schema(columns).empty_table(), [], len(values)), dict(enumerate(values)))
    rows, left = rows_of_texts(values, columns)
    return Decoded(rows, {n: values[n] for n in np.flatnonzero(left).tolist()})

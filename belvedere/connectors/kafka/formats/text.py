"""Plain text: the message is the value of the one column that is not metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from belvedere.connectors.kafka.formats.decoded_rows import COLUMN, Decoded, Sample
from belvedere.decode.row_values import row_schema
from belvedere.errors import fail
from belvedere.functions.spark_types import type_text
from belvedere.schema import Column
from belvedere.values.rejections import Reason, RejectionKind


def columns(table: str, sample: Sample, options: Mapping[str, Any]) -> pa.Schema:
    """Return one column of text."""
    return pa.schema([pa.field(COLUMN, pa.string())])


def decode(values: Sequence[bytes], columns: Sequence[Column], options: Mapping[str, Any]) -> Decoded:
    """Return the texts. In a text column, bytes that are not UTF-8 are rejected."""
    only = columns[0] if len(columns) == 1 else None
    if only is None or not (pa.types.is_string(only.type) or pa.types.is_binary(only.type)):
        named = ", ".join(f"{c.name} {type_text(c.type)}" for c in columns)
        raise fail(
            "B6204",
            f"a table of text messages has one column, of type STRING or BINARY; declared are: {named or 'none'}",
        )
    texts, refused = list[bytes | None](values), dict[int, Reason]()
    if pa.types.is_string(only.type):
        for place, value in enumerate(values):
            try:
                value.decode()
            except UnicodeDecodeError:
                texts[place], refused[place] = None, Reason("is not UTF-8", RejectionKind.ENCODING)
    return Decoded(
        pa.table([pa.array(texts, pa.binary()).cast(only.type)], schema=row_schema(columns)), refused=refused
    )

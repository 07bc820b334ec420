"""Conversion of raw records to rows of a table, with a reason for every row that does not fit.

In: a DataFrame of raw records (JSON text, CSV fields, or Parquet columns) with `FILE`, `LINE`, `TEXT` and `BAD`, and
the table's columns. Out: a DataFrame with the table's columns, `FILE`, `LINE`, `TEXT` and `REASON` (coded, NULL for a
row that fits).

A row is rejected whole, never repaired. Reasons are: a value that cannot be cast, a NULL in a NOT NULL column, a wrong
number of fields, text after the JSON object. No action runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.connectors.reading.formats import time_formats
from belvedere.connectors.reading.misfits import null_in
from belvedere.connectors.reading.text_records import BAD, FAULT, FIELDS, FILE, LINE, TEXT
from belvedere.connectors.reading.value_reasons import (
    differs,
    joined,
    judged,
    lost_time,
    misfit,
    rounded,
    text_reasons,
    text_value,
    wider,
)
from belvedere.functions.spark_types import quote, type_text
from belvedere.schema import CONTROL, MONTHS, TIMESTAMP, Column
from belvedere.values.rejections import Reason, RejectionKind, code
from belvedere.values.time_range import DAY, FIRST, LAST, beyond, has_times

REASON = "__reason"
CORRUPT = "__corrupt"
RECORD = "__record"
NOT_JSON = "?"
"""Placeholder for a reason that `explain_json` finds later."""
BAD_BYTES = Reason("is not UTF-8", RejectionKind.ENCODING)
HALF_CHARACTER = Reason("has a lone surrogate (half of a UTF-16 pair)")
OPEN_QUOTE = Reason("has a quote that never closes")
MAX_TEXT_LENGTH = 10_000
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
"""Pattern of an escaped surrogate without its partner in a JSON text.

It is not valid, but Spark would read it as `?`.
"""
MAYBE_LOST = r"[.,]\d{6}\d*[1-9]|\d-\d{1,2}[T ]+\d"
PLACE = (FILE, LINE, TEXT)


def json_rows(raw: DataFrame, columns: Sequence[Column], options: Mapping[str, Any]) -> DataFrame:
    """Return rows from JSON objects in `TEXT`. Absent members become NULL; members that the table lacks are ignored."""
    parse: dict[str, str] = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    formats = time_formats(options, "json")
    if formats:
        parse["timestampFormat"] = formats[0]
    # Spark has an option for one format, also within objects; several formats are tried on the text of a time
    apart = [c for c in columns if len(formats) > 1 and c.type == TIMESTAMP]
    short = [c for c in columns if c.type in (pa.int8(), pa.int16())]  # Spark would truncate a larger number
    types = {c.name: "STRING" if c in apart else "BIGINT" if c in short else type_text(c.type) for c in columns}
    schema = ", ".join(f"{quote(n)} {t}" for n, t in types.items()) + f", {CORRUPT} STRING"
    parsed = raw.withColumn(RECORD, F.from_json(F.col(TEXT), schema, parse))
    given = {c.name: F.col(RECORD).getField(c.name) for c in columns}
    member = given | {c.name: _time(given[c.name], formats) for c in apart}
    member |= {c.name: given[c.name].try_cast(type_text(c.type)) for c in short}
    # Spark reads the first JSON value of a text and ignores the rest: check again if there may be more
    suspicious = F.col(TEXT).rlike(r"\}\s*[^,\]}\s]") | ~F.col(TEXT).rlike(r"(?s)^\s*\{.*\}\s*$")
    elements = F.from_json(F.concat(F.lit("["), F.col(TEXT), F.lit("]")), "ARRAY<STRING>")
    followed = suspicious & (F.coalesce(F.size(elements), F.lit(0)) != 1)
    broken = F.col(RECORD).isNull() | F.col(RECORD).getField(CORRUPT).isNotNull() | followed
    times = [_cast_reason(given[c.name], member[c.name], c, given[c.name], formats) for c in apart]
    short_reasons = [misfit(given[c.name], member[c.name], c, given[c.name].cast("string")) for c in short]
    fixed = [c for c in columns if pa.types.is_decimal(c.type)]
    # not from the member's text: Spark's texts of numbers have passed through a double
    decimals = _lost_digits(fixed, member)
    lost = _lost_times(
        [c for c in columns if pa.types.is_date(c.type) or (pa.types.is_timestamp(c.type) and not formats)]
    )
    misfits = F.coalesce(joined([*times, *short_reasons, *decimals, *lost]), null_reasons(member, columns))
    if options.get("new_columns") == "reject":
        known = F.array(*map(F.lit, [CONTROL, *member]))
        new = F.array_except(F.json_object_keys(F.col(TEXT)), known)
        said = F.concat(
            F.lit(code(RejectionKind.NEW_COLUMN) + 'has "'),
            F.array_join(new, '", "'),
            F.lit('", which its table does not have'),
        )
        misfits = F.coalesce(F.when(F.size(new) > 0, said), misfits)
    reason = (
        _fault()
        .when(F.col(BAD), F.lit(BAD_BYTES.coded))
        .when(F.col(TEXT).rlike(LONE_SURROGATE), F.lit(HALF_CHARACTER.coded))
    )
    reason = reason.when(broken, F.lit(NOT_JSON)).otherwise(misfits)
    return _finish(parsed, member, columns, reason)


def _lost_digits(columns: Sequence[Column], member: Mapping[str, SparkColumn]) -> list[SparkColumn]:
    """Return the reasons for numbers in JSON that have more digits than their columns keep."""
    if not columns:
        return []
    kinds = {c.name: wider(c.type) for c in columns}
    exact = [F.from_json(F.col(TEXT), ", ".join(f"{quote(n)} {k[i]}" for n, k in kinds.items())) for i in (0, 1)]
    reasons = []
    for c in columns:
        values = [(e.getField(c.name), kind) for e, kind in zip(exact, kinds[c.name], strict=True)]
        lost = F.coalesce(*(differs(value, member[c.name], kind) for value, kind in values))
        text = F.regexp_replace(F.coalesce(*(value.cast("STRING") for value, _ in values)), "0+$", "")
        reasons.append(rounded(text, lost, c))
    return reasons


def _lost_times(columns: Sequence[Column]) -> list[SparkColumn]:
    """Return the reasons for times in JSON that are more precise than their columns, by a second look at suspicious
    texts."""
    if not columns:
        return []
    suspicious = F.col(TEXT).rlike(MAYBE_LOST)
    texts = F.from_json(F.col(TEXT), ", ".join(f"{quote(c.name)} STRING" for c in columns))
    return [F.when(suspicious, reason) for c in columns for reason in lost_time(texts.getField(c.name), c)]


def csv_rows(raw: DataFrame, columns: Sequence[Column], header: Sequence[str], options: Mapping[str, Any]) -> DataFrame:
    """Return rows from `FIELDS`, arrays of texts in the order of `header`.

    Empty fields and `options["null"]` become NULL.
    """
    places = {name.strip().casefold(): n for n, name in enumerate(header)}
    member: dict[str, SparkColumn] = {}
    count = F.concat(
        F.lit(code(RejectionKind.FIELDS) + "has "), F.size(FIELDS), F.lit(f" fields, expected {len(header)}")
    )
    reasons = []
    for c in columns:
        place = places.get(c.name.casefold())
        if place is None:
            member[c.name] = F.lit(None).cast(type_text(c.type))
            continue
        text = F.nullif(F.get(FIELDS, F.lit(place)), F.lit(""))
        if "null" in options:
            text = F.nullif(text, F.lit(str(options["null"])))
        member[c.name] = _from_text(text, c, options)
        formats = time_formats(options, "csv")
        if c.type == TIMESTAMP and formats:
            reasons.append(_cast_reason(text, member[c.name], c, text, formats))
        else:
            reasons += text_reasons(text, member[c.name], c)
    misfits = F.coalesce(joined(reasons), null_reasons(member, columns))
    reason = _fault().when(F.col(BAD), F.lit(BAD_BYTES.coded)).when(F.col(FIELDS).isNull(), F.lit(OPEN_QUOTE.coded))
    reason = reason.when(F.size(FIELDS) != len(header), count).otherwise(misfits)
    return _finish(raw, member, columns, reason)


def typed_rows(raw: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return rows from typed columns (Parquet): matched by name, ignoring case, and cast if types differ."""
    present = {f.name.casefold(): f for f in raw.schema.fields if f.name not in (FILE, LINE, FAULT)}
    member: dict[str, SparkColumn] = {}
    reasons = []
    for c in columns:
        field = present.get(c.name.casefold())
        if field is None:
            member[c.name] = F.lit(None).cast(type_text(c.type))
            continue
        member[c.name], reason = judged(raw, F.col(quote(field.name)), field.dataType, c)
        reasons.append(reason)
    reason = _fault().otherwise(F.coalesce(joined(reasons), null_reasons(member, columns)))
    everything = F.to_json(F.struct(*[F.col(quote(f.name)) for f in present.values()])) if present else F.lit("{}")
    return _finish(raw.withColumn(TEXT, everything), member, columns, reason)


def _fault() -> SparkColumn:
    return F.when(F.col(FAULT).isNotNull(), F.col(FAULT))


def collectable(rows: DataFrame) -> DataFrame:
    """Return the rows to collect in the driver: without the text of rows that fit."""
    text = F.when(F.col(REASON).isNotNull(), F.substring(TEXT, 1, MAX_TEXT_LENGTH)).alias(TEXT)
    return rows.select(*[F.col(quote(n)) for n in rows.columns if n != TEXT], text)


def _from_text(text: SparkColumn, column: Column, options: Mapping[str, Any]) -> SparkColumn:
    requested = type_text(column.type)
    if requested == "TIMESTAMP" and (formats := time_formats(options, "csv")):
        return _time(text, formats)
    return text_value(text, column)


def _time(text: SparkColumn, formats: Sequence[str]) -> SparkColumn:
    """Return the time in a text, by the first format that fits."""
    return F.coalesce(*(F.try_to_timestamp(text, F.lit(f)) for f in formats))


def _cast_reason(
    value: SparkColumn, cast: SparkColumn, column: Column, text: SparkColumn, formats: Sequence[str] = ()
) -> SparkColumn:
    is_time = formats and column.type == TIMESTAMP
    form = f"is not a time of the form {' or '.join(formats)} (timestamp_format)" if is_time else ""
    return misfit(value, cast, column, text, form)


def null_reasons(member: Mapping[str, SparkColumn], columns: Sequence[Column]) -> SparkColumn:
    """Return the coded reasons for missing values, and for times out of range."""
    nulls = [F.when(member[c.name].isNull(), F.lit(null_in(c).coded)) for c in columns if not c.nullable]
    times = [
        F.when(_is_beyond(member[c.name], c.type), F.lit(beyond(c.name).coded)) for c in columns if has_times(c.type)
    ]
    return joined([*nulls, *times])


def _is_beyond(value: SparkColumn, type_: pa.DataType) -> SparkColumn:
    """Return whether a value contains a time out of range (`belvedere.values.time_range`)."""
    if pa.types.is_struct(type_):
        return reduce(or_, [_is_beyond(value.getField(f.name), f.type) for f in type_ if has_times(f.type)])
    if pa.types.is_map(type_):
        parts = ((F.map_keys(value), type_.key_type), (F.map_values(value), type_.item_type))
        return reduce(or_, [_any_beyond(v, t) for v, t in parts if has_times(t)])
    if pa.types.is_list(type_):
        return _any_beyond(value, type_.value_type)
    if pa.types.is_date(type_):
        days = F.unix_date(value)
        return F.coalesce((days < F.lit(FIRST // DAY)) | (days > F.lit(LAST // DAY)), F.lit(False))
    instant = F.unix_micros(value.cast("TIMESTAMP"))
    return F.coalesce((instant < F.lit(FIRST)) | (instant > F.lit(LAST)), F.lit(False))


def _any_beyond(values: SparkColumn, type_: pa.DataType) -> SparkColumn:
    # no `partial`: PySpark inspects the parameters of a function
    return F.exists(values, lambda value: _is_beyond(value, type_))


def _sent(value: SparkColumn, column: Column) -> SparkColumn:
    """Return the value in a form that Arrow accepts: intervals as whole numbers of months
    (`belvedere.spark.type_encoding`)."""
    return value.cast("INTERVAL MONTH").cast("BIGINT") if column.type == MONTHS else value


def _finish(
    raw: DataFrame, member: Mapping[str, SparkColumn], columns: Sequence[Column], reason: SparkColumn
) -> DataFrame:
    place = [F.col(p) for p in PLACE]
    return raw.select(*[_sent(member[c.name], c).alias(c.name) for c in columns], *place, reason.alias(REASON))

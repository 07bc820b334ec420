"""Turn what files hold into rows of a table, and say of every row that does not fit why.

In: a DataFrame of raw records (JSON text, CSV fields, or Parquet columns) with `FILE`, `LINE`, `TEXT` and `BAD`, and the
table's columns. Out: a DataFrame with the table's columns, `FILE`, `LINE`, `TEXT` and `REASON` (NULL for a row that fits).
A row is refused whole, never mended: a value that cannot be cast, a NULL in a column that must not be NULL, a wrong
number of fields, text behind the JSON object. No action runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from belvedere.connectors.reading.formats import time_formats
from belvedere.connectors.reading.records import BAD, FAULT, FIELDS, FILE, LINE, TEXT
from belvedere.functions.types import quote, type_text
from belvedere.schema import CONTROL, MONTHS, TIMESTAMP, Column
from belvedere.time_range import DAY, FIRST, LAST, beyond, has_times

REASON = "__reason"
CORRUPT = "__corrupt"
RECORD = "__record"
NOT_JSON = "?"
LONGEST_TEXT = 10_000
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LONE_SURROGATE = rf"(?<!\\)(?:\\\\)*(?:{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW})"
"""An escape of half a character in a JSON text: no text has it, though Spark would read it as `?`."""
PLACE = (FILE, LINE, TEXT)


def json_rows(raw: DataFrame, columns: Sequence[Column], options: Mapping[str, Any]) -> DataFrame:
    """Rows from JSON objects in `TEXT`. Absent members are NULL, members that the table lacks are ignored."""
    parse: dict[str, str] = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    formats = time_formats(options, "json")
    if formats:
        parse["timestampFormat"] = formats[0]
    # one format is Spark's own option, also within objects; of several each is tried on the text of a time
    apart = [c for c in columns if len(formats) > 1 and c.type == TIMESTAMP]
    types = {c.name: "STRING" if c in apart else type_text(c.type) for c in columns}
    schema = ", ".join(f"{quote(n)} {t}" for n, t in types.items()) + f", {CORRUPT} STRING"
    parsed = raw.withColumn(RECORD, F.from_json(F.col(TEXT), schema, parse))
    given = {c.name: F.col(RECORD).getField(c.name) for c in columns}
    member = given | {c.name: _time(given[c.name], formats) for c in apart}
    # Spark reads the first JSON value of a text and ignores what follows: look again where something may follow
    suspicious = F.col(TEXT).rlike(r"\}\s*[^,\]}\s]") | ~F.col(TEXT).rlike(r"(?s)^\s*\{.*\}\s*$")
    elements = F.from_json(F.concat(F.lit("["), F.col(TEXT), F.lit("]")), "ARRAY<STRING>")
    followed = suspicious & (F.coalesce(F.size(elements), F.lit(0)) != 1)
    broken = F.col(RECORD).isNull() | F.col(RECORD).getField(CORRUPT).isNotNull() | followed
    times = [_cast_reason(given[c.name], member[c.name], c, given[c.name], formats) for c in apart]
    fixed = [c for c in columns if pa.types.is_decimal(c.type)]
    # not by a text of the member: Spark's texts of numbers have passed through a double
    whole = F.from_json(F.col(TEXT), ", ".join(f"{quote(c.name)} {_widest(c.type)}" for c in fixed)) if fixed else F.lit(None)
    exact = [(whole.getField(c.name), c) for c in fixed]
    decimals = [_rounded(F.regexp_replace(value.cast("STRING"), "0+$", ""), value, member[c.name], c) for value, c in exact]
    misfits = F.coalesce(_joined([*times, *decimals]), _null_reasons(member, columns))
    if options.get("new_columns") == "reject":
        known = F.array(*map(F.lit, [CONTROL, *member]))
        new = F.array_except(F.json_object_keys(F.col(TEXT)), known)
        said = F.concat(F.lit('has "'), F.array_join(new, '", "'), F.lit('", which its table has not'))
        misfits = F.coalesce(F.when(F.size(new) > 0, said), misfits)
    reason = _fault().when(F.col(BAD), F.lit("is not UTF-8"))
    reason = reason.when(
        F.col(TEXT).rlike(LONE_SURROGATE), F.lit("has half of a character of two UTF-16 units (a lone surrogate)")
    )
    reason = reason.when(broken, F.lit(NOT_JSON)).otherwise(misfits)
    return _finish(parsed, member, columns, reason)


def csv_rows(raw: DataFrame, columns: Sequence[Column], header: Sequence[str], options: Mapping[str, Any]) -> DataFrame:
    """Rows from `FIELDS`, an array of texts in the order of `header`. An empty field and `options["null"]` are NULL."""
    places = {name.strip().casefold(): n for n, name in enumerate(header)}
    member: dict[str, SparkColumn] = {}
    count = F.concat(F.lit("has "), F.size(FIELDS), F.lit(f" fields, expected {len(header)}"))
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
        reasons.append(_cast_reason(text, member[c.name], c, text, time_formats(options, "csv")))
        if pa.types.is_decimal(c.type):
            reasons.append(_rounded(text, text.try_cast(_widest(c.type)), member[c.name], c))
    misfits = F.coalesce(_joined(reasons), _null_reasons(member, columns))
    reason = (
        _fault().when(F.col(BAD), F.lit("is not UTF-8")).when(F.col(FIELDS).isNull(), F.lit("has a quote that never closes"))
    )
    reason = reason.when(F.size(FIELDS) != len(header), count).otherwise(misfits)
    return _finish(raw, member, columns, reason)


def typed_rows(raw: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Rows from columns that have types already (Parquet): found by name whatever its case, cast where types differ."""
    present = {f.name.casefold(): f for f in raw.schema.fields if f.name not in (FILE, LINE, FAULT)}
    member: dict[str, SparkColumn] = {}
    reasons = []
    for c in columns:
        field, wanted = present.get(c.name.casefold()), type_text(c.type)
        if field is None:
            member[c.name] = F.lit(None).cast(wanted)
            continue
        value = F.col(quote(field.name))
        if field.dataType.simpleString().casefold() == wanted.replace(": ", ":").replace(", ", ",").replace("`", "").casefold():
            member[c.name] = value
            continue
        is_nested = field.dataType.typeName() in ("struct", "array", "map")
        text = F.to_json(value) if is_nested else value.cast("string")
        # Spark casts structs by position: JSON finds their fields by name
        how = F.from_json(text, wanted, {"mode": "PERMISSIVE"}) if is_nested else value.try_cast(wanted)
        how = text if is_nested and wanted == "STRING" else how
        member[c.name] = how if _is_sound(raw, how) else F.lit(None).cast(wanted)
        reasons.append(_cast_reason(value, member[c.name], c, text))
    reason = _fault().otherwise(F.coalesce(_joined(reasons), _null_reasons(member, columns)))
    everything = F.to_json(F.struct(*[F.col(quote(f.name)) for f in present.values()])) if present else F.lit("{}")
    return _finish(raw.withColumn(TEXT, everything), member, columns, reason)


def _fault() -> SparkColumn:
    return F.when(F.col(FAULT).isNotNull(), F.col(FAULT))


def _is_sound(raw: DataFrame, expression: SparkColumn) -> bool:
    """Whether Spark knows such a conversion at all."""
    try:
        raw.select(expression)
    except AnalysisException:
        return False
    return True


def collectable(rows: DataFrame) -> DataFrame:
    """The rows as they go to the driver: the text stays behind where the row fits."""
    text = F.when(F.col(REASON).isNotNull(), F.substring(TEXT, 1, LONGEST_TEXT)).alias(TEXT)
    return rows.select(*[F.col(quote(n)) for n in rows.columns if n != TEXT], text)


def _from_text(text: SparkColumn, column: Column, options: Mapping[str, Any]) -> SparkColumn:
    wanted = type_text(column.type)
    if wanted.startswith(("STRUCT", "ARRAY", "MAP")):
        return F.from_json(text, wanted)
    if wanted == "STRING":
        return text
    if wanted == "TIMESTAMP" and (formats := time_formats(options, "csv")):
        return _time(text, formats)
    return text.try_cast(wanted)


def _time(text: SparkColumn, formats: Sequence[str]) -> SparkColumn:
    """The time of a text, by the first of the formats that fits."""
    return F.coalesce(*(F.try_to_timestamp(text, F.lit(f)) for f in formats))


def _cast_reason(
    value: SparkColumn, cast: SparkColumn, column: Column, text: SparkColumn, formats: Sequence[str] = ()
) -> SparkColumn:
    wanted = f"is not of type {type_text(column.type)}"
    if formats and column.type == TIMESTAMP:
        wanted = f"is no time of the form {' or '.join(formats)} (timestamp_format)"
    said = F.concat(F.lit(f'column "{column.name}": '), F.substring(text, 1, 200), F.lit(f" {wanted}"))
    return F.when(value.isNotNull() & cast.isNull(), said)


def _widest(type_: pa.Decimal128Type) -> str:
    """The decimal type with as many digits before the point and as many as can be after it."""
    return f"DECIMAL(38, {38 - (type_.precision - type_.scale)})"


def _rounded(text: SparkColumn, exact: SparkColumn, cast: SparkColumn, column: Column) -> SparkColumn:
    """The reason where a decimal has more digits after the point than its column: Spark would round it."""
    said = F.concat(
        F.lit(f'column "{column.name}": '),
        F.substring(text, 1, 200),
        F.lit(f" has more digits than {type_text(column.type)} keeps"),
    )
    return F.when(cast.isNotNull() & exact.isNotNull() & (exact != cast), said)


def _null_reasons(member: Mapping[str, SparkColumn], columns: Sequence[Column]) -> SparkColumn:
    nulls = [F.when(member[c.name].isNull(), F.lit(f'column "{c.name}" is NULL')) for c in columns if not c.nullable]
    times = [F.when(_is_beyond(member[c.name], c.type), F.lit(beyond(c.name))) for c in columns if has_times(c.type)]
    return _joined([*nulls, *times])


def _is_beyond(value: SparkColumn, type_: pa.DataType) -> SparkColumn:
    """Whether a value has a time in it that no column holds (`belvedere.time_range`)."""
    if pa.types.is_struct(type_):
        return reduce(or_, [_is_beyond(value.getField(f.name), f.type) for f in type_ if has_times(f.type)])
    if pa.types.is_map(type_):
        parts = ((F.map_keys(value), type_.key_type), (F.map_values(value), type_.item_type))
        return reduce(or_, [F.exists(v, partial(_is_beyond, type_=t)) for v, t in parts if has_times(t)])
    if pa.types.is_list(type_):
        return F.exists(value, partial(_is_beyond, type_=type_.value_type))
    if pa.types.is_date(type_):
        days = F.unix_date(value)
        return F.coalesce((days < F.lit(FIRST // DAY)) | (days > F.lit(LAST // DAY)), F.lit(False))
    instant = F.unix_micros(value.cast("TIMESTAMP"))
    return F.coalesce((instant < F.lit(FIRST)) | (instant > F.lit(LAST)), F.lit(False))


def _joined(reasons: Sequence[SparkColumn]) -> SparkColumn:
    return F.nullif(F.concat_ws("; ", *reasons), F.lit("")) if reasons else F.lit(None).cast("string")


def _sent(value: SparkColumn, column: Column) -> SparkColumn:
    """As Arrow takes it: months are whole numbers on their way (`belvedere.spark.carried`)."""
    return value.cast("INTERVAL MONTH").cast("BIGINT") if column.type == MONTHS else value


def _finish(raw: DataFrame, member: Mapping[str, SparkColumn], columns: Sequence[Column], reason: SparkColumn) -> DataFrame:
    place = [F.col(p) for p in PLACE]
    return raw.select(*[_sent(member[c.name], c).alias(c.name) for c in columns], *place, reason.alias(REASON))

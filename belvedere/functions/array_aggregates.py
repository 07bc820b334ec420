"""Functions that only SQL++ has: aggregates over arrays, conversions, MISSING.

In: nothing. Out: rows for `belvedere.functions.function_table`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from belvedere.functions import sqlpp_functions as wb
from belvedere.functions.spark_types import DOUBLE, INT64, STRING
from belvedere.functions.sqlpp_functions import DURATION, Native, SqlppFunction, window_by
from belvedere.schema import TIMESTAMP

REAL_AGGREGATES = (
    "AVG",
    "STDDEV",
    "STDDEV_SAMP",
    "STDDEV_POP",
    "VARIANCE",
    "VAR_SAMP",
    "VAR_POP",
    "SKEWNESS",
    "KURTOSIS",
)
_OTHER_NAMES = {"STDDEV_SAMP": "STDDEV", "VAR_SAMP": "VARIANCE", "AVG": "AVERAGE"}


def _aggregates() -> Iterator[SqlppFunction]:
    for prefix in ("ARRAY_", "STRICT_"):
        for name in REAL_AGGREGATES:
            if name not in _OTHER_NAMES.values():
                other = _OTHER_NAMES.get(name)
                yield window_by(f"{prefix}{name}:1", DOUBLE, also="" if other is None else prefix + other)
        yield window_by(f"{prefix}COUNT:1", INT64)
        yield window_by(f"{prefix}SUM:1", wb.total)
        yield window_by(f"{prefix}MIN:1", wb.elements)
        yield window_by(f"{prefix}MAX:1", wb.elements)
    yield window_by("ARRAY_MEDIAN:1", DOUBLE)
    yield window_by("ARRAY_PERCENTILE:2", DOUBLE)


ARRAY_AGGREGATES = tuple(_aggregates())
_REAL = Native("try_cast({0} AS DOUBLE)", wb.is_numeral, DOUBLE)
_TEXT = (
    Native("{0}", pa.types.is_string),
    Native(
        "CAST(CAST('1970-01-01 00:00:00' AS TIMESTAMP_NTZ) + INTERVAL '0.000001' SECOND * {0} AS STRING)",
        pa.types.is_timestamp,
        STRING,
        "micros",
    ),
    Native("CAST({0} AS STRING)", lambda t: wb.is_numeral(t) or pa.types.is_date(t), STRING),
)
"""Conversion to a readable text; instants are in UTC."""
_INSTANT = (Native("{0}", lambda t: t == TIMESTAMP), Native("timestamp_micros({0})", wb.is_time, TIMESTAMP, "micros"))
ARRAYS: tuple[SqlppFunction, ...] = (
    *ARRAY_AGGREGATES,
    window_by("ARRAY_AGG:1", wb.first),
    window_by("TO_DOUBLE:1", DOUBLE, _REAL),
    window_by("TO_NUMBER:1", DOUBLE, _REAL),
    window_by("TO_STRING:1", STRING, _TEXT),
    window_by("TO_BIGINT:1", INT64, Native("try_cast({0} AS BIGINT)", wb.is_numeral, INT64)),
    window_by("IF_NULL:1+", wb.unify, also="IFNULL NVL"),
    window_by("IF_MISSING:1+", wb.unify, also="IFMISSING"),
    window_by("IF_MISSING_OR_NULL:1+", wb.unify, also="IFMISSINGORNULL"),
    window_by("MISSING_IF:2", wb.first, also="MISSINGIF"),
    window_by("DATETIME:1", TIMESTAMP, _INSTANT, also="TIMESTAMP TO_TIMESTAMP"),
    window_by("DURATION:1", DURATION, also="DAY_TIME_DURATION"),
)
GROUP_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "MEDIAN", *REAL_AGGREGATES})
"""Aggregates over the rows of a group."""

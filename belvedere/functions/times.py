"""Functions of dates, times and intervals: one row each.

In: nothing. Out: rows for `belvedere.functions.function_table`. `belvedere.functions.function` defines the fields of a
row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from belvedere.functions.function import Function, Stored, function, stored
from belvedere.functions.spark_types import (
    CALENDAR_INTERVAL,
    DATE,
    DAY_INTERVAL,
    DOUBLE,
    INT8,
    INT16,
    INT32,
    INT64,
    LOCAL_TIMESTAMP,
    MONTH_INTERVAL,
    NULL,
    STRING,
    is_integer,
    is_number,
)
from belvedere.functions.sqlpp_functions import Native, is_time, window_by
from belvedere.functions.type_rules import instant, instant_or_local, number_or_text, plain, time_or_text
from belvedere.schema import TIMESTAMP


def _date(type_: pa.DataType) -> bool:
    return bool(type_ == DATE)


def _calendar_part(format: str, part: str, plus: int = 0) -> Stored:
    """Return the SQL for a field of a date; `plus` is the difference between Spark's first number and that of the
    database."""
    shift = f"+{plus}" if plus else ""
    return stored(
        _date,
        sqlite=f"(CAST(strftime('{format}',{{0}}*86400,'unixepoch') AS INTEGER){shift})",
        postgres=f"(CAST(extract({part} FROM {{0}}) AS integer){shift})",
    )


def _timestamp_of_text(arguments: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `to_timestamp` and its like; a format is only allowed for a text. Flink's
    `to_timestamp_ltz(number, precision)` is a different function."""
    return None if len(arguments) == 2 and is_number(arguments[0]) else TIMESTAMP


def _days_added(arguments: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of a date plus days; the days are an INT or narrower, or a text."""
    fit = time_or_text(arguments[0]) or arguments[0] == NULL
    return DATE if len(arguments) == 2 and fit and arguments[1] in (INT8, INT16, INT32, STRING, NULL) else None


def _local(arguments: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of a local time: names of zones are texts, and the last argument is a time."""
    *zones, time = arguments
    return LOCAL_TIMESTAMP if all(z in (STRING, NULL) for z in zones) and (time_or_text(time) or time == NULL) else None


def _floor(unit: int) -> str:
    """Return the SQL for rounding down to a multiple of `unit` microseconds; division in SQLite truncates
    towards zero."""
    return f"(({{0}}-(({{0}}%{unit})+{unit})%{unit})/{unit})"


def _of_parts(result: pa.DataType) -> Callable[[Sequence[pa.DataType]], pa.DataType | None]:
    """Return a rule for times made of year, month, day, hour, minute, second and an optional zone, or of a date. A date
    with a TIME is not accepted, because there is no type TIME."""
    return lambda args: (
        result
        if (len(args) == 1 and args[0] in (DATE, NULL))
        or (len(args) > 5 and all(a == NULL or number_or_text(a) for a in args[:6]))
        else None
    )


def _since_1970(unit: int) -> Stored:
    """Return the SQL for the number of units of `unit` microseconds since 1970, rounded down."""
    return stored(
        instant, sqlite=_floor(unit), postgres=f"CAST(floor(extract(epoch FROM {{0}})*{1_000_000 // unit}) AS bigint)"
    )


TIMES: tuple[Function, ...] = (
    function("AddMonths", "add_months:2", DATE, total=True),
    function("AtTimeZone", "from_utc_timestamp:2", TIMESTAMP),
    function("convert_timezone", "convert_timezone:2-3", _local),
    function("CurrentDate", "curdate:0 current_date:0", DATE, total=True),
    function("CurrentTimestamp", "current_timestamp:0", TIMESTAMP, total=True),
    function("CurrentTimezone", "current_timezone:0", STRING),
    function(
        "Date",
        "",
        DATE,
        window_by(
            "DATE:1",
            DATE,
            (Native("try_cast({0} AS DATE)", pa.types.is_string, DATE), Native("{0}", is_time, DATE, "day")),
            also="TO_DATE",
        ),
    ),
    function("date_part", "date_part:2", INT32, total=True),
    function("DateAdd", "", DATE),
    function("date_sub", "date_sub:2", _days_added, total=True),
    function("DateDiff", "date_diff:2-3 datediff:2-3", INT32, total=True),
    function("DateFromUnixDate", "date_from_unix_date:1", DATE, first=number_or_text),
    function("datepart", "datepart:2", INT32),
    function("DateSub", "", DATE),
    function("DateTrunc", "trunc:2", DATE, first=time_or_text),
    function(
        "Day",
        "day:1",
        INT32,
        window_by("DAY:1", INT64, Native("CAST(day({0}) AS BIGINT)", is_time, INT64, "day"), also="GET_DAY"),
        first=time_or_text,
        total=True,
    ),
    function("Dayname", "dayname:1", STRING, first=time_or_text),
    function("DayOfMonth", "dayofmonth:1", INT32, first=time_or_text, total=True, stored=_calendar_part("%d", "day")),
    function(
        "DayOfWeek", "dayofweek:1", INT32, first=time_or_text, total=True, stored=_calendar_part("%w", "dow", plus=1)
    ),
    function("DayOfYear", "dayofyear:1", INT32, first=time_or_text, total=True, stored=_calendar_part("%j", "doy")),
    function("FromTimeZone", "to_utc_timestamp:2", TIMESTAMP),
    function(
        "Hour",
        "hour:1",
        INT32,
        window_by("HOUR:1", INT64, Native("(pmod({0}, 86400000000L) DIV 3600000000L)", is_time, INT64, "micros")),
        first=time_or_text,
        total=True,
    ),
    function("LastDay", "last_day:1", DATE, first=time_or_text, total=True, reads_text_as="DATE"),
    function("Localtimestamp", "localtimestamp:0", LOCAL_TIMESTAMP),
    function("make_date", "make_date:3", DATE),
    function("make_dt_interval", "make_dt_interval:0-4", DAY_INTERVAL),
    function("make_timestamp_ltz", "make_timestamp_ltz:2-7", _of_parts(TIMESTAMP), forgiving="try_make_timestamp_ltz"),
    function(
        "make_timestamp_ntz", "make_timestamp_ntz:2-6", _of_parts(LOCAL_TIMESTAMP), forgiving="try_make_timestamp_ntz"
    ),
    function("make_ym_interval", "make_ym_interval:0-2", MONTH_INTERVAL),
    function("MakeInterval", "make_interval:0-7", CALENDAR_INTERVAL),
    function("try_make_interval", "try_make_interval:1-7", CALENDAR_INTERVAL),
    function(
        "Minute",
        "minute:1",
        INT32,
        window_by("MINUTE:1", INT64, Native("(pmod({0}, 3600000000L) DIV 60000000L)", is_time, INT64, "micros")),
        first=time_or_text,
        total=True,
    ),
    function(
        "Month",
        "month:1",
        INT32,
        window_by("MONTH:1", INT64, Native("CAST(month({0}) AS BIGINT)", is_time, INT64, "day"), also="GET_MONTH"),
        first=time_or_text,
        total=True,
    ),
    function("Monthname", "monthname:1", STRING, first=time_or_text),
    function("MonthsBetween", "months_between:2-3", DOUBLE, reads_text_as="TIMESTAMP"),
    function("NextDay", "next_day:2", DATE),
    function("Quarter", "quarter:1", INT32, first=time_or_text, total=True, reads_text_as="DATE"),
    function(
        "Second",
        "second:1",
        INT32,
        window_by("SECOND:1", INT64, Native("(pmod({0}, 60000000L) DIV 1000000L)", is_time, INT64, "micros")),
        first=time_or_text,
        total=True,
    ),
    function("StrToTime", "", TIMESTAMP),
    function("StrToUnix", "unix_timestamp:0-2 to_unix_timestamp:1-2", INT64, first=time_or_text),
    function("timestamp_micros", "timestamp_micros:1", TIMESTAMP, first=is_integer, total=True),
    function("timestamp_millis", "timestamp_millis:1", TIMESTAMP, first=is_integer, total=True),
    function("timestamp_seconds", "timestamp_seconds:1", TIMESTAMP, first=is_number, total=True),
    function("TimestampAdd", "timestampadd:3", TIMESTAMP, total=True),
    function("TimestampDiff", "timestampdiff:3", INT64),
    function("TimestampFromParts", "make_timestamp:1-7", _of_parts(TIMESTAMP), forgiving="try_make_timestamp"),
    function("TimestampTrunc", "date_trunc:2", TIMESTAMP, first=time_or_text, total=True, reads_text_as="TIMESTAMP"),
    function("TimeStrToTime", "", TIMESTAMP, reads_text_as="TIMESTAMP"),
    function("TsOrDsToTimestamp", "", TIMESTAMP, reads_text_as="TIMESTAMP"),
    function("TimeToStr", "date_format:2", STRING),
    function("to_timestamp_ltz", "to_timestamp_ltz:1-2", _timestamp_of_text, first=plain),
    function("to_timestamp_ntz", "to_timestamp_ntz:1-2", LOCAL_TIMESTAMP, first=plain),
    function("try_make_timestamp", "try_make_timestamp:1-7", _of_parts(TIMESTAMP)),
    function("try_make_timestamp_ltz", "try_make_timestamp_ltz:6-7", _of_parts(TIMESTAMP)),
    function("try_make_timestamp_ntz", "try_make_timestamp_ntz:6", _of_parts(LOCAL_TIMESTAMP)),
    function("try_to_date", "try_to_date:1-2", DATE, first=plain),
    function("try_to_timestamp", "try_to_timestamp:1-2", _timestamp_of_text, first=plain),
    function("TsOrDsAdd", "date_add:2-3 dateadd:2-3", _days_added, total=True),
    function(
        "TsOrDsToDate",
        "to_date:1-2",
        DATE,
        first=plain,
        stored=stored(
            instant, converts=True, sqlite=_floor(86_400_000_000), postgres="CAST({0} AT TIME ZONE 'UTC' AS date)"
        ),
    ),
    function(
        "UnixDate",
        "unix_date:1",
        INT32,
        window_by("UNIX_DATE:1", INT64, Native("CAST(unix_date({0}) AS BIGINT)", is_time, INT64, "day")),
        first=_date,
    ),
    function(
        "UnixMicros",
        "unix_micros:1",
        INT64,
        window_by("UNIX_MICROS:1", INT64, Native("{0}", is_time, INT64, "micros")),
        first=instant_or_local,
        total=True,
        stored=stored(instant, sqlite="{0}", postgres="CAST(extract(epoch FROM {0}) * 1000000 AS bigint)"),
    ),
    function("UnixMillis", "unix_millis:1", INT64, first=instant_or_local, total=True, stored=_since_1970(1_000)),
    function("UnixSeconds", "unix_seconds:1", INT64, first=instant_or_local, total=True, stored=_since_1970(1_000_000)),
    function("UnixToStr", "from_unixtime:1-2", STRING, first=number_or_text),
    function("UnixToTime", "", TIMESTAMP),
    function("Week", "week:1", INT32),
    function("weekday", "weekday:1", INT32, first=time_or_text),
    function("WeekOfYear", "weekofyear:1", INT32, first=time_or_text, total=True),
    function(
        "Year",
        "year:1",
        INT32,
        window_by("YEAR:1", INT64, Native("CAST(year({0}) AS BIGINT)", is_time, INT64, "day"), also="GET_YEAR"),
        first=time_or_text,
        total=True,
    ),
)

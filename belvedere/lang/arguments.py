"""Of which types a function's first argument may be. How many it takes is in `belvedere.lang.arity`.

In: a function's name as in `functions` and `aggregates`. Out: what Spark 4.3 reports of it. Where nothing is known here, Spark decides as
the view is first computed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from belvedere.lang import types as t
from belvedere.schema import TIMESTAMP


def fits(name: str, first: pa.DataType) -> bool:
    """Whether a function may take a value of that type as its first argument."""
    return first == t.NULL or name not in _FIRST or _FIRST[name](first)


def _is_number_or_text(type_: pa.DataType) -> bool:
    return t.is_number(type_) or t.is_interval(type_) or type_ == t.STRING


def _is_time_or_text(type_: pa.DataType) -> bool:
    return t.is_time(type_) or type_ == t.STRING


def _is_plain(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


def _is_text_or_bytes(type_: pa.DataType) -> bool:
    return type_ in (t.STRING, t.BINARY)


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (
        _is_number_or_text,
        "Abs Acos Acosh Asin Asinh Atan Atanh Cbrt Ceil Chr Cos Cosh Cot Csc DateFromUnixDate Degrees Exp Factorial Floor IsNan Kurtosis "
        "Ln Log Median Negative Radians Rint Round Sec Sign Sin Sinh Skewness Space Sqrt Stddev StddevPop StddevSamp Tan Tanh "
        "UnixToStr Variance VariancePop bin bround expm1 log1p log2 log10 nullifzero positive std",
    ),
    (
        _is_plain,
        "Ascii BitLength Format FromBase64 Hex Initcap Length Lower ToBinary Trim TsOrDsToDate Unhex Upper btrim is_valid_utf8 "
        "make_valid_utf8 octet_length printf quote sentences to_timestamp_ltz to_timestamp_ntz try_to_binary try_to_date "
        "try_to_timestamp try_url_decode url_decode url_encode",
    ),
    (
        _is_time_or_text,
        "Day DayOfMonth DayOfWeek DayOfYear Dayname Hour LastDay Minute Month Monthname Quarter Second StrToUnix WeekOfYear Year weekday",
    ),
    (t.is_array, "ArrayCompact ArrayDistinct ArrayMax ArrayMin ArraySort"),
    (t.is_integer, "BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg timestamp_micros timestamp_millis"),
    (lambda type_: type_ in (t.BOOLEAN, t.STRING), "CountIf LogicalAnd LogicalOr every some"),
    (_is_text_or_bytes, "MD5 SHA SHA2 ToBase64 crc32"),
    (lambda type_: type_ == t.STRING, "Soundex StrToMap json_array_length mask"),
    (lambda type_: type_ == TIMESTAMP, "UnixMicros UnixMillis UnixSeconds"),
    (lambda type_: not pa.types.is_map(type_), "Max Min hash xxhash64"),
)
_FIRST = {name: kind for kind, names in _KINDS for name in names.split()}

"""What arguments a function takes: how many, where the parser does not say so, and of which types the first may be.

In: a function's name as in `functions` and `aggregates`. Out: what Spark 4.3 reports of it. Where nothing is known here, Spark decides as
the view is first computed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from belvedere.lang import types as t
from belvedere.schema import TIMESTAMP

MANY = 1_000_000
_GROUPS = {
    (0, 0): "e",
    (0, 2): "make_ym_interval unix_timestamp",
    (0, 4): "make_dt_interval",
    (0, 5): "mask",
    (0, MANY): "map_concat",
    (1, 1): (
        "any bin bool_and bool_or cardinality cosh crc32 every expm1 is_valid_utf8 isnotnull isnull json_array_length log10 log1p log2 "
        "make_valid_utf8 map_entries map_values mean nullifzero octet_length positive quote size some space std timestamp_micros "
        "timestamp_millis timestamp_seconds try_avg try_sum try_url_decode unix_micros unix_millis unix_seconds url_decode "
        "url_encode weekday zeroifnull"
    ),
    (
        1,
        2,
    ): "bround btrim ltrim rtrim to_csv to_timestamp to_timestamp_ltz to_timestamp_ntz try_to_binary try_to_date try_to_timestamp",
    (1, 3): "sentences StrToMap",
    (1, 7): "make_timestamp try_make_timestamp",
    (1, MANY): "hash printf xxhash64",
    (2, 2): (
        "array_repeat array_union arrays_overlap date_part date_trunc datepart exists find_in_set forall format_number get hypot "
        "map_filter pmod regexp shiftrightunsigned to_varchar transform_keys transform_values try_element_at try_mod "
        "SafeAdd SafeSubtract SafeMultiply SafeDivide Quantile"
    ),
    (2, 3): "from_json try_parse_url ArgMax ArgMin ApproxQuantile",
    (2, 6): "aes_encrypt make_timestamp_ntz try_make_timestamp_ntz",
    (2, 7): "make_timestamp_ltz try_make_timestamp_ltz",
    (3, 3): "conv make_date slice zip_with",
    (3, MANY): "RegexpReplace",
    (4, 4): "WidthBucket",
}
ARITY: dict[str, tuple[int, int]] = {name: counts for counts, names in _GROUPS.items() for name in names.split()}


def said(counts: tuple[int, int]) -> str:
    """The numbers in words: `2 arguments`, `1 to 3 arguments`."""
    least, most = counts
    plural = "" if counts == (1, 1) else "s"
    if least == most:
        return f"{least or 'no'} argument{plural}"
    if most == MANY:
        return f"{least} arguments or more"
    return f"{least} {'or' if most == least + 1 else 'to'} {most} arguments"


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

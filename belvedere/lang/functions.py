"""The result types of scalar functions, as data: name -> rule.

In: the types of a call's arguments. Out: the type of its result in Spark 4.3, or None where the arguments do not fit. Keys
are sqlglot class names (`Upper`) and, for functions that sqlglot has no class for, lower-case names. Functions with a lambda,
operators, CASE and the like are in `infer`; aggregates in `aggregates`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa

from belvedere.lang import types as t
from belvedere.schema import TIMESTAMP, has_map

Rule = Callable[[Sequence[pa.DataType]], pa.DataType | None]


def always(type_: pa.DataType) -> Rule:
    """The same type whatever the arguments."""
    return lambda _: type_


def nth(index: int) -> Rule:
    """The type of one argument."""
    return lambda args: args[index] if len(args) > index else None


def all_common(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """The common type of all arguments."""
    result: pa.DataType | None = t.NULL
    for arg in args:
        result = None if result is None else t.common_type(result, arg)
    return result


def _greatest(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Unlike elsewhere, text beside other types is not read as theirs; maps have no order."""
    if any(has_map(a) for a in args) or (t.STRING in args and set(args) - {t.STRING, t.NULL}):
        return None
    return all_common(args)


def _round(args: Sequence[pa.DataType]) -> pa.DataType | None:
    # the number of places is a value, not a type: `infer` handles decimals where it is a literal
    return args[0] if args and (t.is_number(args[0]) or args[0] == t.NULL) else t.DOUBLE


def _ceiling(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if len(args) == 1 and t.is_decimal(args[0]):
        type_ = args[0]
        return pa.decimal128(min(t.MAX_PRECISION, type_.precision - type_.scale + 1), 0)
    return t.INT64 if len(args) == 1 else None


def _number(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return args[0] if args and (t.is_number(args[0]) or t.is_interval(args[0])) else t.DOUBLE


def _element(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args:
        return None
    if pa.types.is_map(args[0]):
        return args[0].item_type
    return args[0].value_type if t.is_array(args[0]) else None


def _flatten(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return args[0].value_type if args and t.is_array(args[0]) else None


def _array_of(args: Sequence[pa.DataType]) -> pa.DataType | None:
    element = all_common(args)
    return None if element is None else pa.list_(element)


def _concat(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if args and all(t.is_array(a) for a in args):
        return all_common(args)
    return t.BINARY if args and all(a == t.BINARY for a in args) else t.STRING


def _keys(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0].key_type) if args and pa.types.is_map(args[0]) else None


def _values(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0].item_type) if args and pa.types.is_map(args[0]) else None


def _entries(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args or not pa.types.is_map(args[0]):
        return None
    return pa.list_(pa.struct([pa.field("key", args[0].key_type), pa.field("value", args[0].item_type)]))


def _map_from_entries(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args or not t.is_array_of_struct(args[0]) or args[0].value_type.num_fields != 2:
        return None
    return pa.map_(args[0].value_type[0].type, args[0].value_type[1].type)


def _zip(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return (
        None
        if not all(t.is_array(a) for a in args)
        else pa.list_(pa.struct([pa.field(str(n), a.value_type) for n, a in enumerate(args)]))
    )


def _sequence(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if len(args) < 2:
        return None
    common = reduce(lambda a, b: t.common_type(a, b) or a, args[:2])
    return pa.list_(t.INT64 if common == t.STRING else common)


def _modulo(args: Sequence[pa.DataType]) -> pa.DataType | None:
    common = all_common(args)
    if len(args) == 2 and common is not None and t.is_decimal(common):
        return t.arithmetic_decimal("%", t.as_decimal(args[0]), t.as_decimal(args[1]))
    return common


def _if_null(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return all_common(args[1:])


_STRINGS = (
    "Upper Lower Trim Pad Repeat Space Replace Translate Initcap Substring Left Right Chr Soundex ConcatWs Format "
    "RegexpReplace RegexpExtract RegexpSubstr SplitPart SubstringIndex Overlay Elt MD5 MD5Digest "
    "SHA SHA1 SHA2 ToBase64 Hex TimeToStr UnixToStr "
    "ArrayToString JSONFormat JSONExtractScalar Dayname Monthname ToChar Typeof Decode ParseUrl Insert "
    "bin conv format_number to_csv url_encode url_decode to_varchar quote mask btrim space printf "
    "try_url_decode try_parse_url make_valid_utf8 ltrim rtrim CurrentTimezone"
)
_INTEGERS = (
    "Length ArraySize StrPosition Ascii BitLength Levenshtein Year Month Day DayOfMonth DayOfWeek DayOfYear WeekOfYear Week "
    "Quarter Hour Minute DateDiff RegexpCount RegexpInstr UnixDate BitwiseCount Extract "
    "weekday octet_length find_in_set cardinality hash json_array_length date_part datepart size year month day hour minute Second"
)
_LONGS = (
    "UnixSeconds UnixMillis UnixMicros StrToUnix ArrayPosition Factorial TimestampDiff WidthBucket "
    "xxhash64 crc32 unix_seconds unix_millis unix_micros unix_timestamp"
)
_DOUBLES = (
    "Sqrt Cbrt Exp Ln Log Sin Cos Tan Asin Acos Atan Atan2 Sinh Cosh Tanh Asinh Acosh Atanh Cot Csc Sec Degrees Radians Pow Pi "
    "MonthsBetween Rint Sign Nanvl expm1 log1p hypot log10 log2 e cosh"
)
_BOOLEANS = (
    "Contains StartsWith EndsWith ArrayContains MapContainsKey IsNan RegexpLike EqualNull Exists ILike Like SimilarTo LikeAny "
    "isnull isnotnull arrays_overlap forall is_valid_utf8 regexp"
)
_TIMESTAMPS = (
    "TimestampTrunc AtTimeZone FromTimeZone StrToTime TimestampFromParts TimestampAdd CurrentTimestamp UnixToTime "
    "make_timestamp to_timestamp timestamp_seconds timestamp_millis timestamp_micros make_timestamp_ltz to_timestamp_ltz "
    "try_to_timestamp try_make_timestamp try_make_timestamp_ltz date_trunc"
)
_DATES = (
    "TsOrDsToDate TsOrDsAdd AddMonths LastDay NextDay DateTrunc DateFromUnixDate Date make_date "
    "DateSub DateAdd try_to_date CurrentDate"
)
_BINARIES = "Unhex FromBase64 Encode ToBinary aes_encrypt try_to_binary"
_SAME = (
    "ArrayDistinct ArrayCompact ArrayExcept ArrayIntersect ArrayRemove ArrayAppend ArrayPrepend ArrayInsert ArraySlice ArraySort "
    "BitwiseNot array_union slice Shuffle Collate"
)


def _table() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for names, rule in (
        (_STRINGS, always(t.STRING)),
        (_INTEGERS, always(t.INT32)),
        (_LONGS, always(t.INT64)),
        (_DOUBLES, always(t.DOUBLE)),
        (_BOOLEANS, always(t.BOOLEAN)),
        (_TIMESTAMPS, always(TIMESTAMP)),
        (_DATES, always(t.DATE)),
        (_BINARIES, always(t.BINARY)),
        (_SAME, nth(0)),
    ):
        rules.update(dict.fromkeys(names.split(), rule))
    return rules


RULES: dict[str, Rule] = {
    **_table(),
    "Coalesce": all_common,
    "Greatest": _greatest,
    "Least": _greatest,
    "Nullif": nth(0),
    "Nvl2": _if_null,
    "Abs": _number,
    "Negative": _number,
    "positive": _number,
    "Round": _round,
    "bround": _round,
    "Ceil": _ceiling,
    "Floor": _ceiling,
    "Array": _array_of,
    "array_repeat": lambda args: pa.list_(args[0]) if args else None,
    "Concat": _concat,
    "ArrayMax": _element,
    "ArrayMin": _element,
    "try_element_at": _element,
    "get": _element,
    "Flatten": _flatten,
    "MapKeys": _keys,
    "map_values": _values,
    "map_entries": _entries,
    "MapFromEntries": _map_from_entries,
    "map_concat": all_common,
    "ArraysZip": _zip,
    "RegexpSplit": always(pa.list_(t.STRING)),
    "RegexpExtractAll": always(pa.list_(t.STRING)),
    "sentences": always(pa.list_(pa.list_(t.STRING))),
    "StrToMap": always(pa.map_(t.STRING, t.STRING)),
    "GenerateSeries": _sequence,
    "Getbit": always(t.INT8),
    "BitwiseLeftShift": nth(0),
    "BitwiseRightShift": nth(0),
    "shiftrightunsigned": lambda args: t.INT64 if args and args[0] == t.INT64 else t.INT32,
    "Reverse": lambda args: args[0] if args and t.is_array(args[0]) else t.STRING,
    "pmod": _modulo,
    "MakeInterval": always(t.MONTH_INTERVAL),
    "make_dt_interval": always(t.DAY_INTERVAL),
    "make_ym_interval": always(t.MONTH_INTERVAL),
    "Localtimestamp": always(t.LOCAL_TIMESTAMP),
    "make_timestamp_ntz": always(t.LOCAL_TIMESTAMP),
    "try_make_timestamp_ntz": always(t.LOCAL_TIMESTAMP),
    "to_timestamp_ntz": always(t.LOCAL_TIMESTAMP),
    "nullifzero": nth(0),
    "zeroifnull": lambda args: t.common_type(args[0], t.INT32) if args else None,
}

NEVER_NULL = frozenset(
    "Upper Lower Trim Concat Length Abs Negative Round Ceil Floor Sqrt Exp TimestampTrunc Year Month Day DayOfMonth DayOfWeek "
    "DayOfYear WeekOfYear Quarter Hour Minute Second DateDiff TsOrDsAdd UnixSeconds UnixMillis UnixMicros Replace Substring "
    "ConcatWs Repeat Reverse MD5 SHA SHA2 Hex Array Greatest Least Pow Sign Sin Cos Exp StrPosition StartsWith EndsWith Contains "
    "hash xxhash64 timestamp_seconds timestamp_millis timestamp_micros AddMonths LastDay BitwiseNot TimestampAdd Extract date_part "
    "IsNan EqualNull isnull isnotnull CurrentTimestamp CurrentDate Pi SplitPart BitwiseLeftShift BitwiseRightShift".split()
)
"""Functions whose result is not NULL where no argument is (an error in ANSI mode at worst)."""

NONDETERMINISTIC = frozenset(
    "Rand Randn Randstr Uuid Uniform Shuffle CurrentUser SessionUser CurrentCatalog CurrentDatabase CurrentSchema CurrentTime "
    "monotonically_increasing_id spark_partition_id input_file_name input_file_block_start input_file_block_length user "
    "java_method reflect version try_reflect current_path".split()
)
"""Refused: the same input would not give the same answer (SQRL knows one clock: `now()`)."""

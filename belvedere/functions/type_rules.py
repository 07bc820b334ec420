"""Rules for the type of a function's result, and for the type of its first argument.

In: the types of a call's arguments. Out: the type of its result in Spark 4.3, or None if the arguments do not fit.
`belvedere.lang.types` has the rules of functions with a lambda, operators, CASE and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa

from belvedere.functions import spark_types as t
from belvedere.schema import TIMESTAMP, VARIANT, has_map

ResultType = Callable[[Sequence[pa.DataType]], pa.DataType | None]


def always(type_: pa.DataType) -> ResultType:
    """Return a rule that gives this type for all arguments."""
    return lambda _: type_


def nth(index: int) -> ResultType:
    """Return a rule that gives the type of one argument."""
    return lambda args: args[index] if len(args) > index else None


def all_common(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the common type of all arguments."""
    result: pa.DataType | None = t.NULL
    for arg in args:
        result = None if result is None else t.common_type(result, arg)
    return result


def greatest(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `greatest` and `least`. Texts are not cast to the other types here, and maps have no order."""
    if any(has_map(a) for a in args) or (t.STRING in args and set(args) - {t.STRING, t.NULL}):
        return None
    return all_common(args)


def is_variant(type_: pa.DataType) -> bool:
    return bool(type_ == VARIANT)


def if_comparable(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the first argument's type, if it can be compared with the second."""
    return args[0] if t.same_kind(args[0], args[1]) else None


def member(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the common type of an array's elements and a searched value, without casts from text."""
    return t.plain_common_type(args[0].value_type, args[1]) if t.is_array(args[0]) and len(args) > 1 else None


def if_member(type_: pa.DataType) -> ResultType:
    """Return a rule that gives this type if the second argument may be an element of the first."""
    return lambda args: None if member(args) is None else type_


def widened(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the array type that also holds a further value."""
    element = member(args)
    return None if element is None else pa.list_(element)


def paired(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of two arrays whose elements have a common type."""
    return widened([args[0], args[1].value_type]) if len(args) > 1 and t.is_array(args[1]) else None


def sorted_array(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of an array whose elements have an order."""
    return args[0] if t.is_array(args[0]) and not has_map(args[0]) else None


def text_or_bytes_of(*places: int) -> ResultType:
    """Return a rule that gives BINARY if these arguments are BINARY, else STRING."""
    return lambda args: t.BINARY if all(args[n] == t.BINARY for n in places if n < len(args)) else t.STRING


def listed_text(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `listagg`: a text; BINARY for BINARY without a separator, else both are joined as texts."""
    if args and args[0] == t.BINARY:
        return None if len(args) > 1 else t.BINARY
    return None if len(args) > 1 and args[1] == t.BINARY else t.STRING


def rounded(args: Sequence[pa.DataType]) -> pa.DataType | None:
    # the number of places is a value, not a type: `infer` handles decimals with a literal number
    return args[0] if args and (t.is_number(args[0]) or args[0] == t.NULL) else t.DOUBLE


def whole(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if len(args) == 1 and t.is_decimal(args[0]):
        type_ = args[0]
        return pa.decimal128(min(t.MAX_PRECISION, type_.precision - type_.scale + 1), 0)
    return t.INT64 if len(args) == 1 else None


def number(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return args[0] if args and (t.is_number(args[0]) or t.is_interval(args[0])) else t.DOUBLE


def element(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args:
        return None
    if pa.types.is_map(args[0]):
        return args[0].item_type
    return args[0].value_type if t.is_array(args[0]) else None


def flattened(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return args[0].value_type if args and t.is_array(args[0]) else None


def array_of(args: Sequence[pa.DataType]) -> pa.DataType | None:
    element = all_common(args)
    return None if element is None else pa.list_(element)


def joined(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if any(t.is_array(a) for a in args):
        return all_common(args)
    if any(pa.types.is_map(a) or pa.types.is_struct(a) for a in args):
        return None
    return t.BINARY if args and all(a == pa.binary() for a in args) else t.STRING


def keys_of(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0].key_type) if args and pa.types.is_map(args[0]) else None


def values_of(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0].item_type) if args and pa.types.is_map(args[0]) else None


def entries_of(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args or not pa.types.is_map(args[0]):
        return None
    return pa.list_(pa.struct([pa.field("key", args[0].key_type), pa.field("value", args[0].item_type)]))


def map_from_entries(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args or not t.is_array_of_struct(args[0]) or args[0].value_type.num_fields != 2:
        return None
    return pa.map_(args[0].value_type[0].type, args[0].value_type[1].type)


def inserted(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `array_insert`: an array wide enough for the new element; the position is an INT."""
    return widened((args[0], args[2])) if len(args) == 3 and args[1] != t.INT64 else None


def zipped(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return (
        None
        if not all(t.is_array(a) for a in args)
        else pa.list_(pa.struct([pa.field(str(n), a.value_type) for n, a in enumerate(args)]))
    )


def chosen_text(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `elt`: BINARY if all choices are."""
    return pa.binary() if len(args) > 1 and all(a == pa.binary() for a in args[1:]) else t.STRING


def sequence(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if len(args) < 2:
        return None
    common = reduce(lambda a, b: t.common_type(a, b) or a, args[:2])
    for kind, steps in ((t.is_integer, t.is_integer), (t.is_time, t.is_interval)):
        if any(map(kind, args[:2])) and not (
            all(map(_or_text(kind), args[:2])) and all(map(_or_text(steps), args[2:]))
        ):
            return None
    if all(map(t.is_integer, args)):
        common = reduce(lambda a, b: t.common_type(a, b) or a, args)  # the step also decides
    if not (t.is_integer(common) or t.is_time(common) or common in (t.STRING, t.NULL)):
        return None
    return pa.list_(t.INT64 if common == t.STRING else common)


def _or_text(kind: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda type_: kind(type_) or type_ in (t.STRING, t.NULL)


def most_frequent(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `mode`, whose second argument decides whether the least of several values wins."""
    return args[0] if args and (len(args) < 2 or args[1] == t.BOOLEAN) else None


def decoded(args: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of `decode`: bytes in a character set, or a choice among pairs."""
    return None if len(args) == 2 and args[0] not in (t.BINARY, t.STRING, t.NULL) else t.STRING


def shown_by_format(type_: pa.DataType) -> bool:
    """Return whether `to_char` accepts the type."""
    return t.is_number(type_) or t.is_time(type_) or type_ in (t.BINARY, t.STRING)


def modulo(args: Sequence[pa.DataType]) -> pa.DataType | None:
    common = all_common(args)
    if len(args) == 2 and common is not None and t.is_decimal(common):
        return t.arithmetic_decimal("%", t.as_decimal(args[0]), t.as_decimal(args[1]))
    return common


def after_first(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return all_common(args[1:])


# -- aggregates --


def summed(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args else t.NULL
    if t.is_integer(type_):
        return t.INT64
    if t.is_decimal(type_):
        return t.bounded_decimal(type_.precision + 10, type_.scale)
    return type_ if t.is_interval(type_) else t.DOUBLE if t.is_number(type_) or type_ in (t.STRING, t.NULL) else None


def average(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args else t.NULL
    if t.is_decimal(type_):
        return t.bounded_decimal(type_.precision + 4, type_.scale + 4)
    return type_ if t.is_interval(type_) else t.DOUBLE if t.is_number(type_) or type_ in (t.STRING, t.NULL) else None


def average_of_second(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return average(args[1:])


def percentile(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args and t.is_interval(args[0]) else t.DOUBLE
    return pa.list_(type_) if len(args) > 1 and t.is_array(args[1]) else type_


def approximate_percentile(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args:
        return None
    return pa.list_(args[0]) if len(args) > 1 and t.is_array(args[1]) else args[0]


def listed(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0]) if args else None


# -- types of a first argument --


def number_or_text(type_: pa.DataType) -> bool:
    return t.is_number(type_) or type_ == t.STRING


def number_interval_or_text(type_: pa.DataType) -> bool:
    return number_or_text(type_) or type_ in (t.DAY_INTERVAL, t.MONTH_INTERVAL)


def written_as_json(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_)) or is_variant(type_)


def time_or_text(type_: pa.DataType) -> bool:
    return t.is_time(type_) or type_ == t.STRING


def plain(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_)


def text_or_bytes(type_: pa.DataType) -> bool:
    return type_ in (t.STRING, t.BINARY)


def boolean_or_text(type_: pa.DataType) -> bool:
    return type_ in (t.STRING, t.BOOLEAN)


def text(type_: pa.DataType) -> bool:
    return bool(type_ == t.STRING)


def instant(type_: pa.DataType) -> bool:
    return bool(type_ == TIMESTAMP)


def instant_or_local(type_: pa.DataType) -> bool:
    return type_ in (TIMESTAMP, t.LOCAL_TIMESTAMP)


def no_map(type_: pa.DataType) -> bool:
    return not pa.types.is_map(type_)

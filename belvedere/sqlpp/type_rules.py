"""Result types of operators and CAST as Arrow types, and readable names of types.

In: Arrow types. Out: Arrow types, None if an operation is not possible. Nothing is reported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.sqlpp_functions import DURATION, Type, is_number, unify, unify_numbers
from belvedere.schema import TIMESTAMP
from belvedere.sqlpp.query_tree import Expr

CASTS: Mapping[str, pa.DataType] = {
    "TINYINT": pa.int64(), "SMALLINT": pa.int64(), "INT": pa.int64(), "BIGINT": pa.int64(), "FLOAT": pa.float64(),
    "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(), "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(), "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP, "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "DATETIME": TIMESTAMP,
}  # fmt: skip
EQUAL_OR_BOTH_UNKNOWN = "write a = b OR (a IS UNKNOWN AND b IS UNKNOWN)"
SAME_EVERY_TIME = (
    "a result must depend only on the rows: write the time as DATE('2024-01-31') or DATETIME('2024-01-31T10:00:00')"
)
VALUE_ITSELF = "write its value"
UNSUPPORTED: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.ILike: ("ILIKE", "write LOWER(a) LIKE 'pattern'"),
    exp.RegexpLike: ("RLIKE", "LIKE supports % and _; use other patterns in an SQL view that this query reads"),
    exp.NullSafeEQ: ("<=>", EQUAL_OR_BOTH_UNKNOWN),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", "write NOT (a = b OR (a IS UNKNOWN AND b IS UNKNOWN))"),
    exp.Placeholder: ("a parameter", VALUE_ITSELF),
    exp.Parameter: ("a parameter", VALUE_ITSELF),
    exp.Concat: ("two adjacent strings", "join them with ||"),
    exp.Distinct: (
        "DISTINCT in an aggregate",
        "write GROUP AS g, and ARRAY_COUNT(ARRAY_DISTINCT((FROM g AS x SELECT VALUE x.t.field)))",
    ),
    exp.Extract: ("EXTRACT", "write YEAR(d), MONTH(d), DAY(d), HOUR(d), MINUTE(d) or SECOND(d)"),
    exp.BitwiseXor: ("^", "write POWER(a, b)"),
    exp.CurrentDate: ("CURRENT_DATE", SAME_EVERY_TIME),
    exp.CurrentTimestamp: ("CURRENT_TIMESTAMP", SAME_EVERY_TIME),
}
"""Unsupported expressions by class: the name for messages, and the replacement."""
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF"), 'write a - b: a duration, to compare with duration("P7D")'
    ),
    **dict.fromkeys(("DATE_ADD", "DATEADD"), 'write d + duration("P7D")'),
    **dict.fromkeys(("IF", "IIF"), "write CASE WHEN a THEN b ELSE c END"),
    **dict.fromkeys(("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE"), SAME_EVERY_TIME),
    **dict.fromkeys(("RAND", "RANDOM", "UUID"), "a result must depend only on the rows"),
    **dict.fromkeys(
        ("LAG", "LEAD", "ROW_NUMBER"), "use PREV AS, NEXT AS and AT of a boundary for neighbours and positions"
    ),
}
"""Functions of other dialects, with the replacement."""


def cast_type(node: Expr) -> Type:
    """Return the type that CAST names; None if it is unknown."""
    target = node.args["to"]
    if target.this == exp.DType.DECIMAL:
        sizes = [int(e.name) for e in target.expressions]
        return pa.decimal128(sizes[0] if sizes else 10, sizes[1] if len(sizes) > 1 else 0)
    return CASTS.get(target.this.name)


RELATED = "$related$"
"""Start of the names of fields with related rows. Paths read them without it; results do not have these fields."""


def field_index(names: Sequence[str], requested: str) -> int:
    """Return the index of a field: exact match first, then one that differs in case only, then a related row; -1 for
    none."""
    if requested in names:
        return names.index(requested)
    folded = [n.casefold() for n in names]
    for name in (requested.casefold(), (RELATED + requested).casefold()):
        if folded.count(name) == 1:
            return folded.index(name)
    return -1


def has_related(type_: Type) -> bool:
    """Return whether values of the type have fields with related rows."""
    if type_ is None or not pa.types.is_nested(type_):
        return False
    inner = [type_.field(n) for n in range(type_.num_fields)]
    return any(f.name.startswith(RELATED) or has_related(f.type) for f in inner)


def without_related(type_: Type) -> Type:
    """Return the type of values without related rows."""
    if type_ is None or not has_related(type_):
        return type_
    if pa.types.is_list(type_):
        return pa.list_(without_related(type_.value_type))
    return pa.struct([(f.name, without_related(f.type)) for f in type_ if not f.name.startswith(RELATED)])


def arithmetic_type(node: Expr, left: pa.DataType, right: pa.DataType) -> Type:
    """Return the type of `left op right`; None if it is not possible."""
    if pa.types.is_null(left) or pa.types.is_null(right):
        return pa.null()
    if is_number(left) and is_number(right):
        if isinstance(node, exp.Div):
            return pa.float64()
        if isinstance(node, exp.IntDiv):
            return pa.int64()
        if isinstance(node, exp.Mul) and pa.types.is_decimal(left) and pa.types.is_decimal(right):
            return pa.decimal128(38, min(left.scale + right.scale, 37))
        return unify_numbers([left, right])
    times = [pa.types.is_date(t) or pa.types.is_timestamp(t) for t in (left, right)]
    spans = [pa.types.is_duration(t) for t in (left, right)]
    if isinstance(node, exp.Sub):
        if all(times) or all(spans):
            return DURATION
        return TIMESTAMP if times[0] and spans[1] else None  # a duration may hold hours: a date becomes an instant
    if isinstance(node, exp.Add):
        if all(spans):
            return DURATION
        return TIMESTAMP if (times[0] and spans[1]) or (spans[0] and times[1]) else None
    if isinstance(node, exp.Mul) and (
        (spans[0] and pa.types.is_integer(right)) or (spans[1] and pa.types.is_integer(left))
    ):
        return DURATION
    return None


def describe(type_: Type) -> str:
    """Return a readable name of a type."""
    if type_ is None:
        return "a value of several types"
    if is_number(type_):
        return "a number"
    for test, words in (
        (pa.types.is_string, "a string"), (pa.types.is_boolean, "a boolean"), (pa.types.is_date, "a date"),
        (pa.types.is_timestamp, "a timestamp"), (pa.types.is_duration, "a duration"), (pa.types.is_list, "an array"),
        (pa.types.is_struct, "an object"), (pa.types.is_null, "NULL"),
    ):  # fmt: skip
        if test(type_):
            return words
    return f"a value of type {type_}"


def time_hint(left: pa.DataType, right: pa.DataType) -> str | None:
    if any(pa.types.is_duration(t) for t in (left, right)) and any(is_number(t) for t in (left, right)):
        return 'compare a duration with a duration: duration("P7D") or INTERVAL 7 DAYS'
    return None


def difference(types: Sequence[Type]) -> str | None:
    """Return how the results of UNION ALL differ, and the remedy; None if they do not."""
    first = types[0]
    other = next((t for t in types[1:] if unify([first, t]) is None), None)
    if first is None or other is None:
        return None
    if not pa.types.is_struct(first) or not pa.types.is_struct(other):
        return f"one gives {describe(first)}, another {describe(other)}"
    if [f.name for f in first] != [f.name for f in other]:
        one, two = (", ".join(f.name for f in t) for t in (first, other))
        return f"one gives the columns {one}, another {two}: all need the same names in the same order"
    found = next(n for n, f in enumerate(first) if unify([f.type, other.field(n).type]) is None)
    words = f"{describe(first.field(found).type)} in one and {describe(other.field(found).type)} in another"
    return f'column "{first.field(found).name}" is {words}: write CAST'

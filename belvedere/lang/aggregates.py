"""The result types of aggregate and window functions.

In: the function's sqlglot class or name and its argument types. Out: the type in Spark 4.3. `is_aggregate` tells aggregate calls
from scalar ones; unwrapping FILTER, IGNORE NULLS and DISTINCT is done here too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from belvedere.lang import types as t
from belvedere.lang.functions import Rule, always, nth


def _sum(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args else t.NULL
    if t.is_integer(type_):
        return t.INT64
    if t.is_decimal(type_):
        return t.bounded_decimal(type_.precision + 10, type_.scale)
    return type_ if t.is_interval(type_) else t.DOUBLE if t.is_number(type_) or type_ in (t.STRING, t.NULL) else None


def _average(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args else t.NULL
    if t.is_decimal(type_):
        return t.bounded_decimal(type_.precision + 4, type_.scale + 4)
    return type_ if t.is_interval(type_) else t.DOUBLE if t.is_number(type_) or type_ in (t.STRING, t.NULL) else None


def _percentile(args: Sequence[pa.DataType]) -> pa.DataType | None:
    type_ = args[0] if args and t.is_interval(args[0]) else t.DOUBLE
    return pa.list_(type_) if len(args) > 1 and t.is_array(args[1]) else type_


def _approximate_percentile(args: Sequence[pa.DataType]) -> pa.DataType | None:
    if not args:
        return None
    return pa.list_(args[0]) if len(args) > 1 and t.is_array(args[1]) else args[0]


def _collected(args: Sequence[pa.DataType]) -> pa.DataType | None:
    return pa.list_(args[0]) if args else None


_COUNTS = "Count CountIf ApproxDistinct RegrCount"
_DOUBLES = (
    "Stddev StddevPop StddevSamp Variance VariancePop Corr CovarPop CovarSamp Skewness Kurtosis RegrAvgx RegrAvgy RegrIntercept RegrR2 "
    "RegrSlope RegrSxx RegrSxy RegrSyy std"
)
_SAME = "Min Max First Last AnyValue FirstValue LastValue Mode ArgMax ArgMin BitwiseAndAgg BitwiseOrAgg BitwiseXorAgg"
_BOOLEANS = "LogicalAnd LogicalOr every some bool_and bool_or any"

AGGREGATES: dict[str, Rule] = {
    **dict.fromkeys(_COUNTS.split(), always(t.INT64)),
    **dict.fromkeys(_DOUBLES.split(), always(t.DOUBLE)),
    **dict.fromkeys(_SAME.split(), nth(0)),
    **dict.fromkeys(_BOOLEANS.split(), always(t.BOOLEAN)),
    "Sum": _sum,
    "try_sum": _sum,
    "Avg": _average,
    "mean": _average,
    "try_avg": _average,
    "Median": _percentile,
    "Quantile": _percentile,
    "ApproxQuantile": _approximate_percentile,
    "ArrayAgg": _collected,
    "ArrayUniqueAgg": _collected,
    "GroupConcat": always(t.STRING),
}

WINDOW_FUNCTIONS: dict[str, Rule] = {
    **dict.fromkeys(("RowNumber", "Rank", "DenseRank", "Ntile"), always(t.INT32)),
    **dict.fromkeys(("CumeDist", "PercentRank"), always(t.DOUBLE)),
    **dict.fromkeys(("Lag", "Lead", "NthValue"), nth(0)),
}

COUNTING = frozenset(_COUNTS.split())
"""Aggregates that give 0, not NULL, over no rows."""
EMPTY_ARRAY = frozenset(("ArrayAgg", "ArrayUniqueAgg"))
"""Aggregates that give an empty array over no rows."""
NAMED_ALIKE = frozenset("every some std mean try_sum try_avg bool_and bool_or any".split())


def function_name(call: exp.Expr) -> str:
    """The name under which a function's rules are kept: the class's, or the lower-case name of an unknown one."""
    return call.name.lower() if isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc)) else type(call).__name__


def is_aggregate(node: exp.Expr) -> bool:
    """Whether this very node is an aggregate call, without its FILTER or IGNORE NULLS."""
    name = function_name(node)
    if isinstance(node, exp.Anonymous):
        return name in NAMED_ALIKE
    return isinstance(node, exp.Func) and name in AGGREGATES


def is_window_function(node: exp.Expr) -> bool:
    """Whether the function makes sense with OVER only."""
    return function_name(node) in WINDOW_FUNCTIONS


WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def unwrap_aggregate(node: exp.Expr) -> exp.Expr:
    """The call inside FILTER (...), IGNORE NULLS and the like."""
    while isinstance(node, WRAPPERS):
        node = node.this
    return node

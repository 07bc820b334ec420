"""Function table and look-up of a call's row.

In: a call in a query's tree, or a name. Out: a `Function`, a `SqlppFunction`, numbers of arguments. To add a function,
write a row in the module of its kind, and a test of its result.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from belvedere.functions.aggregates import AGGREGATES
from belvedere.functions.array_aggregates import ARRAY_AGGREGATES, ARRAYS
from belvedere.functions.collections import COLLECTIONS
from belvedere.functions.conditions import CONDITIONS
from belvedere.functions.function import Function, Kind
from belvedere.functions.numbers import NUMBERS
from belvedere.functions.project_functions import own_function
from belvedere.functions.refused import CONTEXT
from belvedere.functions.sqlpp_functions import SqlppFunction
from belvedere.functions.texts import TEXTS
from belvedere.functions.times import TIMES
from belvedere.functions.untyped import COUNTED
from belvedere.spark_sql.dialect import SparkSql

FUNCTIONS: tuple[Function, ...] = (*TEXTS, *NUMBERS, *TIMES, *COLLECTIONS, *CONDITIONS, *AGGREGATES, *CONTEXT)
BY_KEY: Mapping[str, Function] = {f.key: f for f in FUNCTIONS}
_CALLS = {name: counts for f in FUNCTIONS for name, counts in f.calls.items() if counts is not None}
ARITY: Mapping[str, tuple[int, int]] = {**COUNTED, **_CALLS}
"""Minimum and maximum number of arguments by the name as written. sqlglot's class, or Spark, checks functions that are
not listed."""

_FORMS = (*(form for f in FUNCTIONS for form in f.window_by), *ARRAYS)
WINDOW_BY: Mapping[str, SqlppFunction] = {form.name: form for form in _FORMS}
"""Functions of SQL++ by name."""
WINDOW_AGGREGATES = frozenset(form.name for form in ARRAY_AGGREGATES)
_SYNONYMS = {other: form.name for form in _FORMS for other in form.also}


def canonical(name: str) -> str:
    """Return the canonical name of a function of SQL++, in upper case."""
    upper = name.upper()
    return _SYNONYMS.get(upper, upper)


def function_name(call: exp.Expr) -> str:
    """Return the key of a call's row: sqlglot's class, or the name in lower case if the call has no class."""
    return call.name.lower() if isinstance(call, (exp.Anonymous, exp.AnonymousAggFunc)) else type(call).__name__


def shown_name(call: exp.Expr) -> str:
    """Return the name of a function as users write it."""
    if isinstance(call, exp.Anonymous):
        own = own_function(call)
        return own.name if own is not None else call.name
    if isinstance(call, exp.ParseJSON):  # sqlglot prints its argument alone
        return "parse_json"
    if isinstance(call, exp.RegexpReplace):  # sqlglot cannot print a call with too few arguments
        return "regexp_replace"
    text: str = call.sql(SparkSql, unsupported_level=ErrorLevel.IGNORE)
    return text.partition("(")[0].lower()


def function_of(call: exp.Expr) -> Function | None:
    """Return the row of a call; None if there is none."""
    return BY_KEY.get(function_name(call))


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether this node itself is an aggregate call, without FILTER or IGNORE NULLS around it."""
    found = function_of(node)
    return isinstance(node, exp.Func) and found is not None and found.kind is Kind.AGGREGATE


def is_window_function(node: exp.Expr) -> bool:
    """Return whether the function is valid only with OVER."""
    found = function_of(node)
    return found is not None and found.kind is Kind.WINDOW


WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def unwrap_aggregate(node: exp.Expr) -> exp.Expr:
    """Return the call inside FILTER (...), IGNORE NULLS and the like."""
    while isinstance(node, WRAPPERS):
        node = node.this
    return node

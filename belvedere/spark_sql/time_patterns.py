"""Time functions with a pattern. The pattern stays as written, since sqlglot's own patterns cannot express some of
Spark's.

In: arguments of a call, or its node. Out: the node, whose `format` is Spark's pattern; its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

Arguments = list[Any]


def _at(arguments: Arguments, place: int) -> Any:
    return arguments[place] if len(arguments) > place else None


def _to_timestamp(arguments: Arguments) -> exp.Expr:
    if len(arguments) < 2:
        return exp.Cast(this=_at(arguments, 0), to=exp.DataType.build("timestamp", dialect="spark"))
    return exp.StrToTime(this=arguments[0], format=arguments[1])


BUILDERS: dict[str, Callable[[Arguments], exp.Expr]] = {
    "TO_DATE": lambda args: exp.TsOrDsToDate(this=_at(args, 0), format=_at(args, 1), safe=True),
    "TO_TIMESTAMP": _to_timestamp,
    "DATE_FORMAT": lambda args: exp.TimeToStr(this=exp.TimeStrToTime(this=_at(args, 0)), format=_at(args, 1)),
    "FROM_UNIXTIME": lambda args: exp.UnixToStr(this=_at(args, 0), format=_at(args, 1)),
    "UNIX_TIMESTAMP": lambda args: exp.StrToUnix(this=_at(args, 0) or exp.CurrentTimestamp(), format=_at(args, 1)),
    "TO_UNIX_TIMESTAMP": lambda args: exp.StrToUnix(this=_at(args, 0), format=_at(args, 1)),
}


def _to_date_text(printer: SparkGenerator, node: exp.TsOrDsToDate) -> str:
    """Print `to_date` without a nested conversion: the function itself converts its argument to a date."""
    pattern = node.args.get("format")
    if pattern is None and isinstance(node.parent, printer.TS_OR_DS_EXPRESSIONS):
        return printer.sql(node, "this")
    return printer.func("TO_DATE", node.this, pattern)


def _date_format_text(printer: SparkGenerator, node: exp.TimeToStr) -> str:
    """Print `date_format` without a nested conversion: the function itself converts a text to a time."""
    time = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    return printer.func("DATE_FORMAT", time, node.args.get("format"))


def _with_pattern(name: str) -> Callable[[SparkGenerator, Any], str]:
    return lambda printer, node: printer.func(name, node.this, node.args.get("format"))


PRINTERS: dict[type[exp.Expr], Callable[[Any, Any], str]] = {
    exp.TsOrDsToDate: _to_date_text,
    exp.StrToTime: _with_pattern("TO_TIMESTAMP"),
    exp.TimeToStr: _date_format_text,
    exp.UnixToStr: _with_pattern("FROM_UNIXTIME"),
    exp.StrToUnix: _with_pattern("UNIX_TIMESTAMP"),
}

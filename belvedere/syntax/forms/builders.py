"""Calls parsed as other nodes: rounding of times, types as functions, current date, intervals.

In: arguments of a call. Out: the node that replaces it. `belvedere.syntax.dialect` assigns the names.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

UNITS = {
    name: unit
    for unit in ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    for name in (unit, unit + "S")
}
CASTING = ("BIGINT", "BINARY", "BOOLEAN", "DECIMAL", "DOUBLE", "FLOAT", "SMALLINT", "TINYINT")
"""Types that are also functions, in addition to those in sqlglot."""
CALLED = (
    *("array_size", "convert_timezone", "parse_json", "to_number", "try_parse_json", "try_to_number"),
    *("try_variant_get", "variant_get"),
)
"""Functions that are parsed as calls by name, because sqlglot prints its own classes differently for Spark."""
ROUNDS = "rounds"
"""Meta key of a time that is rounded down by a call such as `hour(t)`, which is a number in Spark."""
ROUNDING = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def rounding(unit: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return the builder of `minute(t)`: the timestamp rounded down, not a number as in Spark."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        down = exp.TimestampTrunc(this=arguments[0] if arguments else None, unit=exp.var(unit))
        if unit != "WEEK":  # Spark has no function of this name
            down.meta[ROUNDS] = True
        return down

    return build


OF_ITS_TYPE = "of its type"
"""Meta key of a time rounded down: a DATE remains a DATE."""


def rounded(time: exp.Expr, unit: str, *, up: bool) -> exp.Expr:
    """Build `FLOOR(time TO unit)` and `CEIL(time TO unit)`."""
    down = exp.TimestampTrunc(this=time, unit=exp.var(unit))
    down.meta[OF_ITS_TYPE] = True
    if not up:
        return down
    length = make_interval(*LENGTHS.get(unit, ("1", unit)))
    later = exp.Add(this=down.copy(), expression=length)
    begun = exp.If(this=exp.LT(this=down.copy(), expression=time.copy()), true=later)
    return exp.Case(ifs=[begun], default=down)


LENGTHS = {"WEEK": ("7", "DAY"), "QUARTER": ("3", "MONTH")}
"""Units without an interval in Spark, expressed in other units."""


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Build a call by its name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def called(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return a builder of a call by its name."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        return call(name, *arguments)

    return build


def casting(type_: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return the builder of `smallint(x)` and similar calls: a CAST."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        return exp.Cast(this=arguments[0], to=exp.DataType.build(type_, dialect="spark"))

    return build


def time_difference(arguments: list[exp.Expr]) -> exp.Expr:
    """Build `datediff(UNIT, a, b)`, which is `timestampdiff`, or `datediff(a, b)`, which counts days."""
    if len(arguments) == 3:
        unit = exp.var(arguments[0].name.upper())
        return exp.TimestampDiff(this=arguments[2], expression=arguments[1], unit=unit)
    days = [exp.TsOrDsToDate(this=a) for a in arguments]
    return exp.DateDiff(this=days[0] if days else None, expression=days[1] if len(days) > 1 else None)


def of_now(name: str, type_: str) -> exp.Expr:
    """Build the current date and similar calls from `now()`, the only clock. `meta["called"]` is the text as written,
    which names a select item."""
    node: exp.Expr = exp.cast(exp.CurrentTimestamp(), type_, dialect="spark")
    node.meta["called"] = name
    return node


def make_interval(count: str, unit: str) -> exp.Interval:
    """Build `n UNIT` in its canonical form; a quarter is three months, since Spark has no such unit."""
    name = UNITS[unit.upper()]
    if name == "QUARTER" and count.lstrip("-").isdigit():
        count, name = str(int(count) * 3), "MONTH"
    return exp.Interval(this=exp.Literal.string(count), unit=exp.var(name))

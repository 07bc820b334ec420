"""A window clause as written -> its policies: every static rule of SPL, with the position of the violation.

In: an `SplClause`, and a function that finds a column of the table. Out: an `SplWindow` with times in microseconds.
Raises diagnostics B5201 to B5209.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, counted
from belvedere.functions import spark_types as t
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.spl_windows import (
    Count,
    Delta,
    Forgetting,
    Interval,
    PartitionAge,
    PartitionCount,
    Policy,
    Punctuation,
    Sliding,
    SplWindow,
    Time,
    Tumbling,
    TupleCount,
)
from belvedere.schema import TIMESTAMP
from belvedere.syntax.spl.window_tree import SplClause, SplPart
from belvedere.syntax.spl.window_words import (
    EVICTED,
    FINAL,
    FORGETTING,
    INCOMPLETE,
    INTERVALS,
    KINDS,
    OPTIONS,
    PARTITIONED,
    POLICIES,
    WORDS,
)
from belvedere.syntax.wording import did_you_mean

DIGITS = 18
"""Maximum number of digits of a decimal that `delta` uses."""
Fail = Callable[[str, str, exp.Expr, "str | None"], BelvedereError]
FindColumn = Callable[[exp.Expr], "tuple[str, pa.DataType]"]
FORMS = {
    "tumbling": "write tumbling, count(n), or time(s), delta(column, step), punct()",
    "sliding": "write sliding, an eviction, and perhaps a trigger: sliding, time(10), count(5)",
    "timeinterval": (
        "write timeInterval, intervalDuration(60), and perhaps creationPeriod(10), discardAge(3600), intervalOffset(5)"
    ),
}
ORDER = "write the kind, its policies, partitioned BY ..., the eviction of partitions, and options, in this order"


def window_of(clause: SplClause, find: FindColumn, fail: Fail) -> SplWindow:
    """Return the policies of a clause."""
    return _Check(clause, find, fail).window()


@dataclass(frozen=True)
class _Check:
    clause: SplClause
    find: FindColumn
    fail: Fail

    def window(self) -> SplWindow:
        """Return the clause's policies; its parts are read in the order of SPL's rules."""
        kind, *parts = self.clause.expressions
        if kind.word not in KINDS or kind.args.get("called"):
            raise self.fail(
                "B5201", f"a window cannot begin with `{kind.shown}`", kind, "write tumbling, sliding or timeInterval"
            )
        self._words(parts)
        self._in_order(parts)
        found = self._of(parts, POLICIES), self._of(parts, INTERVALS)
        forgetting = self._forgetting(kind, parts)
        self._partitions(parts)
        made = self._interval(kind, *found) if kind.word == "timeinterval" else self._policies(kind, *found)
        options = self._options(made, parts, forgets=forgetting is not None)
        return SplWindow(made, forgetting, INCOMPLETE in options, EVICTED in options, FINAL in options)

    @staticmethod
    def _of(parts: Sequence[SplPart], words: Sequence[str] | dict[str, str]) -> list[SplPart]:
        return [p for p in parts if p.word in words]

    def _words(self, parts: Sequence[SplPart]) -> None:
        """Check that words are known, occur once, and have brackets if they take arguments."""
        seen: set[str] = set()
        for part in parts:
            if part.word in KINDS or part.word not in WORDS:
                hint = did_you_mean(str(part.args["this"]), tuple(WORDS.values())) or ORDER
                raise self.fail("B5202", f"`{part.shown}` is not allowed in this window", part, hint)
            takes = part.word in POLICIES or part.word in INTERVALS or part.word in FORGETTING
            if takes != bool(part.args.get("called")):
                form = f"write {WORDS[part.word]}{'(...)' if takes else ''}"
                raise self.fail("B5202", f"`{part.shown}` has the wrong form", part, form)
            if part.word in seen and part.word not in POLICIES and part.word not in FORGETTING:
                raise self.fail("B5202", f"`{WORDS[part.word]}` is given twice", part, "keep one of them")
            if part.args.get("value") is not None and not (
                part.word in OPTIONS and isinstance(part.args["value"], exp.Boolean)
            ):
                raise self.fail(
                    "B5202", f"`{part.shown}` takes no value", part, "write the option's name without a value"
                )
            seen.add(part.word)

    def _in_order(self, parts: Sequence[SplPart]) -> None:
        ranks = [
            next(
                n
                for n, words in enumerate(({**POLICIES, **INTERVALS}, (PARTITIONED,), FORGETTING, OPTIONS))
                if p.word in words
            )
            for p in parts
        ]
        for part, rank, before in zip(parts[1:], ranks[1:], ranks, strict=False):
            if rank < before:
                raise self.fail("B5204", f"`{part.shown}` comes too late in the window", part, ORDER)

    # -- policies -----------------------------------------------------------------------------------------------------

    def _policies(self, kind: SplPart, policies: list[SplPart], intervals: list[SplPart]) -> Tumbling | Sliding:
        if intervals:
            name = WORDS[intervals[0].word]
            message = f"`{name}` is for timeInterval windows, not for {kind.word} ones"
            raise self.fail("B5207", message, intervals[0], FORMS[kind.word])
        most = 1 if kind.word == "tumbling" else 2
        if not 1 <= len(policies) <= most:
            takes = "one policy" if most == 1 else "one or two policies"
            place = policies[most] if policies else kind
            raise self.fail(
                "B5203", f"a {kind.word} window takes {takes}, found {len(policies)}", place, FORMS[kind.word]
            )
        if kind.word == "tumbling":
            return Tumbling(self._policy(policies[0], least=1, punct=True))
        first = self._policy(policies[0], least=0)
        trigger = self._policy(policies[1], least=1) if len(policies) == 2 else Count(1)
        assert not isinstance(first, Punctuation)
        assert not isinstance(trigger, Punctuation)
        return Sliding(first, trigger)

    def _policy(self, part: SplPart, least: int, *, punct: bool = False) -> Policy | Punctuation:
        match part.word:
            case "count":
                return Count(self._number(part, least))
            case "time":
                return Time(self._micros(part, least=1))
            case "delta":
                return self._delta(part)
        if part.expressions:
            raise self.fail("B5205", "punct() takes no argument", part, "write punct()")
        if not punct:
            raise self.fail("B5203", "punct() is for tumbling windows", part, "write tumbling, punct()")
        return Punctuation()

    def _delta(self, part: SplPart) -> Delta:
        form = "write delta(column, step)"
        if len(part.expressions) != 2:
            raise self.fail(
                "B5205",
                f"delta takes a column and a step, found {counted(len(part.expressions), 'argument')}",
                part,
                form,
            )
        attribute, step = part.expressions
        if not isinstance(attribute, exp.Column | exp.Dot):
            message = f"delta's first argument must be a column of the table, not `{attribute.sql('spark')}`"
            raise self.fail("B5205", message, attribute, form)
        name, type_ = self.find(attribute)
        if type_ == TIMESTAMP:
            return Delta(name, self._duration(part, step, least=0), of_time=True)
        decimal = t.is_decimal(type_)
        if not (t.is_integer(type_) or pa.types.is_floating(type_)) and not (decimal and type_.precision <= DIGITS):
            hint = (
                f"CAST it to {f'DECIMAL({DIGITS}, {type_.scale})' if decimal else 'BIGINT or DOUBLE'} in a view first"
            )
            raise self.fail(
                "B5205", f"delta needs a number or a timestamp, and this is {t.a_type(type_)}", attribute, hint
            )
        value = self._constant(part, step)
        if value < 0:
            raise self.fail("B5205", "delta's step must not be negative", step, form)
        return Delta(name, value if decimal else math.floor(value) if t.is_integer(type_) else float(value))

    # -- timeInterval -------------------------------------------------------------------------------------------------

    def _interval(self, kind: SplPart, policies: list[SplPart], intervals: list[SplPart]) -> Interval:
        if policies:
            message = f"`{policies[0].shown}` is not allowed in a timeInterval window"
            raise self.fail("B5207", message, policies[0], FORMS[kind.word])
        if not intervals or intervals[0].word != "intervalduration":
            place = intervals[0] if intervals else kind
            raise self.fail("B5203", "a timeInterval window begins with intervalDuration", place, FORMS[kind.word])
        parts = {p.word: p for p in intervals}
        duration = self._micros(intervals[0], least=1)
        period = self._micros(parts["creationperiod"], least=1) if "creationperiod" in parts else duration
        discard = self._micros(parts["discardage"], least=0) if "discardage" in parts else 0
        offset = self._micros(parts["intervaloffset"], least=0) if "intervaloffset" in parts else 0
        if offset >= duration:
            hint = "use an offset of at least 0 and less than intervalDuration"
            raise self.fail("B5205", "intervalOffset must be shorter than the interval", parts["intervaloffset"], hint)
        return Interval(duration, period, discard, offset)

    # -- partitions and options ---------------------------------------------------------------------------------------

    def _partitions(self, parts: Sequence[SplPart]) -> None:
        said = self._of(parts, (PARTITIONED,))
        keys = self.clause.keys
        if keys and not said:
            raise self.fail(
                "B5208", "PARTITION BY needs a window that is `partitioned`", keys[0], "write partitioned BY ..."
            )
        if said and not keys:
            hint = "write partitioned BY column, or PARTITION BY column after the clause"
            raise self.fail("B5208", "`partitioned` has no columns", said[0], hint)

    def _forgetting(self, kind: SplPart, parts: Sequence[SplPart]) -> Forgetting | None:
        found = self._of(parts, FORGETTING)
        if not found:
            return None
        if kind.word == "timeinterval":
            hint = "use discardAge, which removes panes"
            raise self.fail("B5206", f"`{found[0].shown}` is not supported for a timeInterval window", found[0], hint)
        if len(found) > 1:
            raise self.fail("B5206", "a window takes only one eviction of partitions", found[1], "keep one of them")
        if not self._of(parts, (PARTITIONED,)):
            message = f"`{found[0].shown}` needs a partitioned window"
            raise self.fail("B5206", message, found[0], "write partitioned BY column before it")
        match found[0].word:
            case "partitionage":
                return PartitionAge(self._micros(found[0], least=0))
            case "partitioncount":
                return PartitionCount(self._number(found[0], least=1))
        return TupleCount(self._number(found[0], least=1))

    def _options(self, kind: Tumbling | Sliding | Interval, parts: Sequence[SplPart], *, forgets: bool) -> set[str]:
        on = set()
        for part in self._of(parts, OPTIONS):
            value = part.args.get("value")
            if value is None or value.this:
                on.add(part.word)
            name = WORDS[part.word]
            if part.word == INCOMPLETE and not isinstance(kind, Sliding):
                raise self.fail(
                    "B5209",
                    f"{name} is only for sliding windows",
                    part,
                    "remove it: other windows fire when they are full",
                )
            if part.word == EVICTED and not (isinstance(kind, Tumbling) and forgets):
                hint = (
                    "write tumbling, ..., partitioned BY column, partitionAge(s) or partitionCount(n) or tupleCount(n)"
                )
                raise self.fail("B5209", f"{name} is only for tumbling windows that evict partitions", part, hint)
            if part.word == FINAL and not isinstance(kind, Tumbling):
                raise self.fail("B5209", f"{name} is only for tumbling windows", part, "leave it out")
        return on

    # -- arguments ----------------------------------------------------------------------------------------------------

    def _argument(self, part: SplPart, what: str) -> exp.Expr:
        if len(part.expressions) != 1:
            name = WORDS[part.word]
            raise self.fail(
                "B5205", f"{name} takes one argument, found {len(part.expressions)}", part, f"write {name}({what})"
            )
        only: exp.Expr = part.expressions[0]
        return only

    def _constant(self, part: SplPart, value: exp.Expr) -> Decimal:
        found = constant_number(value)
        if found is None:
            name = WORDS[part.word]
            message = f"{name} needs a constant, not `{value.sql('spark')}`"
            raise self.fail("B5205", message, value, "write a number; only delta takes a column, as its first argument")
        return found

    def _number(self, part: SplPart, least: int) -> int:
        argument = self._argument(part, "10")
        value = self._constant(part, argument)
        if value != int(value) or value < least:
            raise self.fail(
                "B5205", f"{WORDS[part.word]} takes a whole number of at least {least}", argument, "write a number"
            )
        return int(value)

    def _micros(self, part: SplPart, least: int) -> int:
        return self._duration(part, self._argument(part, "10"), least)

    def _duration(self, part: SplPart, argument: exp.Expr, least: int) -> int:
        """Return seconds, or an interval, as microseconds."""
        length = interval_length(argument) if isinstance(argument, exp.Interval) else None
        if length is None and isinstance(argument, exp.Interval):
            message = f"{WORDS[part.word]} needs an interval of fixed length"
            raise self.fail("B5205", message, argument, "write seconds, or INTERVAL '10' SECOND")
        found = length if length is not None else round(self._constant(part, argument) * 1_000_000)
        if found < least:
            bound = "an interval greater than zero" if least else "an interval that is not negative"
            raise self.fail(
                "B5205", f"{WORDS[part.word]} takes {bound}", argument, "write seconds, or INTERVAL '10' SECOND"
            )
        return found


def constant_number(expr: exp.Expr) -> Decimal | None:
    """Return the value of a sum, difference, product or quotient of numbers; None for anything else."""
    match expr:
        case exp.Literal() if not expr.is_string:
            return Decimal(expr.name)
        case exp.Paren():
            return constant_number(expr.this)
        case exp.Neg():
            inner = constant_number(expr.this)
            return None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv():
            return _calculated(expr, constant_number(expr.this), constant_number(expr.expression))
        case _:
            return None


def _calculated(expr: exp.Expr, left: Decimal | None, right: Decimal | None) -> Decimal | None:
    if left is None or right is None or (isinstance(expr, exp.Div | exp.IntDiv) and not right):
        return None
    match expr:
        case exp.Add():
            return left + right
        case exp.Sub():
            return left - right
        case exp.Mul():
            return left * right
        case exp.IntDiv():
            return left // right
        case _:
            return left / right

"""Windows of the calendar: of months, quarters and years, and of local days and weeks with a time zone.

In: rows, the kind of window, its lengths in months or local days, and the zone. Out: the rows with the start and end of
each of their windows (One SQL, extension 3). Such a window has no fixed length: February has 28 or 29 days, and the day
of a clock change has 23 or 25 hours. Its ends are non-decreasing expressions of the time, so bounds follow
(`belvedere.plan.rising`). If a row is in several windows, there is a branch for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.functions.calendar import MONTHS
from belvedere.plan.expressions import Expr, column
from belvedere.plan.operators.nodes import Filter, Item, Node, Project, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.time_window import TimeWindowKind
from belvedere.schema import TIMESTAMP
from belvedere.syntax.forms.query_forms import filled

DAYS = {"DAY": 1, "WEEK": 7}
MAX_BRANCHES = 400
"""Maximum number of windows of one row."""


@dataclass(frozen=True)
class CalendarLength:
    """A length in months or local days."""

    count: int
    in_months: bool

    @property
    def interval(self) -> str:
        return f"INTERVAL '{self.count}' {'MONTH' if self.in_months else 'DAY'}"

    def times(self, factor: int) -> CalendarLength:
        return CalendarLength(self.count * factor, self.in_months)


@dataclass(frozen=True)
class CalendarWindows:
    """Windows of a call: `step` is the distance of starts (HOP) or of ends (CUMULATE)."""

    kind: TimeWindowKind
    size: CalendarLength
    step: CalendarLength
    zone: str | None = None

    @property
    def branches(self) -> int:
        """Return the maximum number of windows of one row."""
        return 1 if self.kind is TimeWindowKind.TUMBLE else -(-self.size.count // self.step.count)


def calendar_length(interval: exp.Expr) -> CalendarLength | None:
    """Return the months or days of an interval literal of one unit; None for any other."""
    inner = interval.unnest()
    unit = inner.args.get("unit") if isinstance(inner, exp.Interval) else None
    if (
        not isinstance(unit, exp.Var)
        or not isinstance(inner.this, exp.Literal)
        or not inner.this.name.strip().isdigit()
    ):
        return None
    word, count = unit.name.upper().removesuffix("S"), int(inner.this.name)
    if count and word in MONTHS:
        return CalendarLength(count * MONTHS[word], True)
    return CalendarLength(count * DAYS[word], False) if count and word in DAYS else None


def with_calendar_windows(node: Node, windows: CalendarWindows, time: str, start: str, end: str) -> Node:
    """Return the rows that have a time, once for each window, with its start and end before their columns."""
    present = Filter(node, exp.Not(this=exp.Is(this=column(time), expression=exp.Null())))
    branches = [_branch(present, windows, number, time, (start, end)) for number in range(windows.branches)]
    return branches[0] if len(branches) == 1 else Union(tuple(branches))


def _branch(node: Node, windows: CalendarWindows, number: int, time: str, names: tuple[str, str]) -> Node:
    """Return the rows with their window of this number, counted from the one that begins last (CUMULATE: ends
    first)."""
    local = (
        column(time)
        if windows.zone is None
        else filled(f"from_utc_timestamp(t_, {_text(windows.zone)})", t_=column(time))
    )
    aligned = windows.size if windows.kind is TimeWindowKind.CUMULATE else windows.step
    base = _floor(local, aligned)
    if windows.kind is TimeWindowKind.CUMULATE:
        ends = base, _moved(base, windows.step.times(number + 1), "+")
    else:
        begin = _moved(base, windows.step.times(number), "-")
        ends = begin, _moved(begin, windows.size, "+")
    items = tuple(
        Item(name, _instant(expr, windows.zone), TIMESTAMP, nullable=False)
        for name, expr in zip(names, ends, strict=True)
    )
    made = Project(node, (*items, *map(item_of, node.schema)))
    if windows.kind is TimeWindowKind.TUMBLE:
        return made
    return Filter(made, exp.GT(this=column(names[1]), expression=column(time)))


def is_calendar_start(local: Expr) -> bool:
    """Return whether an expression is the start of a window of the calendar: a rounded time, perhaps moved."""
    inner = local.this if isinstance(local, exp.Sub) and isinstance(local.expression, exp.Interval) else local
    return isinstance(inner, exp.TimestampTrunc | exp.DateTrunc | exp.Cast)


def _text(zone: str) -> str:
    return exp.Literal.string(zone).sql("spark")


def _instant(local: Expr, zone: str | None) -> Expr:
    return local if zone is None else filled(f"to_utc_timestamp(t_, {_text(zone)})", t_=local)


def _moved(local: Expr, length: CalendarLength, sign: str) -> Expr:
    return local if not length.count else filled(f"t_ {sign} {length.interval}", t_=local)


def _floor(local: Expr, length: CalendarLength) -> Expr:
    """Return the start of the window that contains a local time: months count from January 1970, weeks begin on
    Monday."""
    whole = {(1, True): "MONTH", (3, True): "QUARTER", (12, True): "YEAR", (1, False): "DAY", (7, False): "WEEK"}
    unit = whole.get((length.count, length.in_months))
    if unit is not None:
        return filled(f"date_trunc('{unit}', t_)", t_=local)
    n = length.count
    if length.in_months:
        months = f"timestampdiff(MONTH, {FIRST_MONTH}, t_)"
        aligned = f"{months} - pmod({months} - {MONTHS_BEFORE_1970}, {n})"
        return filled(f"CAST(add_months(DATE '0001-01-01', CAST({aligned} AS INT)) AS TIMESTAMP)", t_=local)
    days, first = "unix_date(CAST(t_ AS DATE))", MONDAY if n % 7 == 0 else 0
    return filled(f"CAST(date_from_unix_date({days} - pmod({days} - {first}, {n})) AS TIMESTAMP)", t_=local)


FIRST_MONTH = "TIMESTAMP '0001-01-01 00:00:00'"
MONTHS_BEFORE_1970 = 1969 * 12
MONDAY = 4
"""The 5th of January 1970, in days since 1970."""

"""Clock: filters on now(), whose rows enter and leave as time passes.

Every row has two indexed columns: its time to enter and its time to leave. An epoch handles the times between the
previous epoch's clock and its own. Rows that have not entered yet are in a separate relation. Conditions that cannot be
solved for `now()` (a month interval, OR, functions of the clock) are not split; other rules maintain them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.engine.relation import Relation, delta_schema
from belvedere.engine.rows.epoch_rows import WEIGHT_FIELD, Rows, coming, keys_of
from belvedere.engine.rows.selected_rows import COMING, RowTest, choose
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.functions.spark_types import quote
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.expressions import column, conjunction, conjuncts, reads_clock
from belvedere.plan.monotone import FOREVER
from belvedere.plan.operators.nodes import Expr, Filter, Item, Project
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.rewrite import carry
from belvedere.rules.builder import Draft
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import KEY, WEIGHT
from belvedere.values.instants import microseconds

ENTER = "_enter"
LEAVE = "_leave"
FIXED_UNITS = {"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"}
FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
WAITING = "$waiting"
"""Suffix of the relation with the rows that have not entered yet."""


@dataclass(frozen=True)
class ClockStage(Stage):
    """Stage of a filter on now().

    `plan` gives rows their times; `waiting` is the relation of rows that have not entered yet.
    """

    waiting: str | None

    rule = "clock"

    @property
    def reads_clock(self) -> bool:
        return True

    @property
    def states(self) -> tuple[str, ...]:
        return () if self.waiting is None else (self.waiting,)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"changes": texts.changes(self.plan)}

    def run(self, work: Work) -> Rows | None:
        """Return the change of an epoch: changed input rows, rows whose time to enter has come, and rows whose time to
        leave has come."""
        schema, now = delta_schema(work.output), microseconds(work.clock)
        changed = Rows(schema.append(WEIGHT_FIELD).empty_table())
        if work.put_deltas():
            changed = work.rows("changes", WEIGHT_FIELD)
        touched = [(changed, KEY)]
        is_in = _is_in_sql(schema, now)
        comes = RowTest(lambda b: pc.and_(coming(b), _is_in(b, now)), f"{COMING.sql} AND {is_in}")
        entered = [choose(changed, comes, WEIGHT)]
        if self.waiting is not None:
            due = self._due(self.waiting, work, changed, now)
            entered.append(choose(due, RowTest(lambda b: _is_in(b, now), is_in)))
            touched.append((due, KEY))
        if LEAVE in schema.names:
            touched.append((work.look_up_range(self.output, LEAVE, None, now), KEY))
        keys = keys_of(touched)
        if keys.is_empty:
            return None
        return work.replace(KEY, keys, entered)

    def due(self, clock: int, least: Callable[[str, str], int | None]) -> int:
        """Return the next time at which a row enters or leaves."""
        times = [] if self.waiting is None else [least(self.waiting, ENTER)]
        if LEAVE in self.plan.schema.names:
            times.append(least(self.output, LEAVE))
        return min((t for t in times if t is not None), default=FOREVER)

    def _due(self, waiting: str, work: Work, changed: Rows, now: int) -> Rows:
        """Return the waiting rows whose time to enter has come.

        Replace the waiting rows of changed keys first, and store those that enter later.
        """

        def waits(batch: pa.RecordBatch) -> pa.Array:
            later = pc.and_(coming(batch), pc.greater(batch.column(ENTER), now))
            return pc.and_(later, _lasts(batch, now))

        if not changed.is_empty:
            schema = delta_schema(work.output)
            test = RowTest(waits, f"{COMING.sql} AND {quote(ENTER)} > {now}L AND {_lasts_sql(schema, now)}")
            work.overwrite(waiting, KEY, keys_of([(changed, KEY)]), choose(changed, test, WEIGHT))
        due = work.look_up_range(waiting, ENTER, None, now)
        if not due.is_empty:
            work.storage.delete_range(waiting, ENTER, now)
        return due

    def bounds(self, inputs: Known, relations: Mapping[str, Bounds]) -> Bounds:
        return {}

    def frees(self, relation: Relation) -> str | None:
        if relation.name == self.waiting:
            return "rows leave once their time is reached"
        return "rows leave as now() advances" if LEAVE in relation.ranges else None

    def is_bounded(self, output: Relation) -> bool:
        return LEAVE in output.ranges


def _is_in(batch: pa.RecordBatch, now: int) -> pa.Array:
    """Return a mask of the rows that have entered and not left."""
    lasts = _lasts(batch, now)
    return pc.and_(pc.less_equal(batch.column(ENTER), now), lasts) if ENTER in batch.schema.names else lasts


def _lasts(batch: pa.RecordBatch, now: int) -> pa.Array:
    """Return a mask of the rows whose time to leave has not come."""
    if LEAVE not in batch.schema.names:
        return pa.repeat(pa.scalar(True), batch.num_rows)
    return pc.greater(batch.column(LEAVE), now)


def _is_in_sql(schema: pa.Schema, now: int) -> str:
    """Return the same conditions as Spark SQL."""
    lasts = _lasts_sql(schema, now)
    return f"{quote(ENTER)} <= {now}L AND {lasts}" if ENTER in schema.names else lasts


def _lasts_sql(schema: pa.Schema, now: int) -> str:
    return f"{quote(LEAVE)} > {now}L" if LEAVE in schema.names else "TRUE"


@dataclass(frozen=True)
class ClockFilter:
    """A filter on now(): its `plain` conjuncts, and the microseconds at which a row `enters` and `leaves`."""

    plain: tuple[Expr, ...]
    enters: tuple[Expr, ...]
    leaves: tuple[Expr, ...]


def split_clock_filter(condition: Expr) -> ClockFilter | None:
    """Split a condition by its conjuncts. Return None if a conjunct has no time to enter or leave."""
    plain: list[Expr] = []
    enters: list[Expr] = []
    leaves: list[Expr] = []
    for part in _comparisons(condition):
        if not reads_clock(part):
            plain.append(part)
            continue
        bound = _bound(part)
        if bound is None:
            return None
        leaving, at = bound
        (leaves if leaving else enters).append(at)
    return ClockFilter(tuple(plain), tuple(enters), tuple(leaves))


def _comparisons(condition: Expr) -> tuple[Expr, ...]:
    parts: list[Expr] = []
    for part in conjuncts(condition):
        if isinstance(part, exp.Between) and not part.args.get("symmetric"):
            parts.append(exp.GTE(this=part.this.copy(), expression=part.args["low"].copy()))
            parts.append(exp.LTE(this=part.this.copy(), expression=part.args["high"].copy()))
        else:
            parts.append(part)
    return tuple(parts)


def _bound(part: Expr) -> tuple[bool, Expr] | None:
    """Return for one comparison whether it gives the leaving time, and the time in microseconds."""
    if type(part) not in FLIPPED:
        return None
    kind, row, clock = type(part), part.this, part.expression
    if reads_clock(row):
        kind, row, clock = FLIPPED[kind], clock, row
    if reads_clock(row):
        return None
    shifted = _shift(clock, row)
    if shifted is None:
        return None
    micros = exp.Anonymous(this="unix_micros", expressions=[exp.cast(shifted, "timestamp")])
    one = exp.Literal.number(1)
    # row >= clock: the row is valid up to and including the instant itself
    if kind is exp.GTE:
        return True, exp.Add(this=micros, expression=one)
    if kind is exp.GT:
        return True, micros
    if kind is exp.LTE:
        return False, micros
    return False, exp.Add(this=micros, expression=one)


def _shift(clock: Expr, row: Expr) -> Expr | None:
    """Shift `row` for a comparison with the bare clock: `now() - i` against `r` becomes `now()` against `r + i`."""
    clock = clock.unnest()
    row = row.copy()
    while not isinstance(clock, exp.CurrentTimestamp):
        if isinstance(clock, exp.Sub) and not reads_clock(clock.expression) and _is_fixed(clock.expression):
            row = exp.Add(this=exp.paren(row), expression=clock.expression.copy())
        elif isinstance(clock, exp.Add) and not reads_clock(clock.expression) and _is_fixed(clock.expression):
            row = exp.Sub(this=exp.paren(row), expression=clock.expression.copy())
        else:
            return None
        clock = clock.this.unnest()
    return row


def _is_fixed(interval: Expr) -> bool:
    """Return whether an interval always has the same length."""
    interval = interval.unnest()
    if not isinstance(interval, exp.Interval):
        return False
    unit = interval.args.get("unit")
    return unit is not None and unit.name.upper().rstrip("S") in FIXED_UNITS


def _applies(site: Site) -> Maintain | None:
    split = split_clock_filter(site.top.condition) if isinstance(site.top, Filter) else None
    return None if split is None else partial(_maintain, site, split)


def _maintain(site: Site, split: ClockFilter) -> Relation:
    builder, part = site.builder, site.part
    source = site.top.inputs[0]
    plain = conjunction(split.plain)
    if plain is not None:
        source = Filter(source, plain)
    items = tuple(item_of(c) for c in source.schema)
    valid = [exp.Not(this=exp.Is(this=e.copy(), expression=exp.Null())) for e in (*split.enters, *split.leaves)]
    times = tuple(
        Item(n, _extreme(es, f), pa.int64(), nullable=False, hidden=True)
        for n, es, f in ((ENTER, split.enters, exp.Greatest), (LEAVE, split.leaves, exp.Least))
        if es
    )
    source = Project(Filter(source, conjunction(valid) or exp.true()), items + times)
    timed, _ = carry(site.over(source), source, tuple(Item(t.name, column(t.name), t.type) for t in times))
    rendered, slots = builder.delta_slots(builder.with_relations(timed, part.owner))
    waiting = f"{part.name}{WAITING}" if split.enters else None
    reason = "rows enter and leave as now() advances" if split.enters else "rows leave as now() advances"
    stage = site.stage(ClockStage, rendered, slots, reason, waiting=waiting)
    relation = builder.emit(stage, part, ranges=tuple(t.name for t in times))
    if waiting is not None:
        held_back = Relation(waiting, relation.schema, stored=True, ranges=(ENTER,))
        builder.drafts[waiting] = Draft(held_back, builder.drafts[part.name].paths)
    return relation


def _extreme(times: tuple[Expr, ...], function: type[exp.Expr]) -> Expr:
    if len(times) == 1:
        return times[0].copy()
    return function(this=times[0].copy(), expressions=[t.copy() for t in times[1:]])


CLOCK = Rule("clock", _applies, is_optional=False)

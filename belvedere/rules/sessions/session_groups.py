"""Session groups: aggregates of session windows over append-only input.

A session is one row of accumulators, and its input rows are not stored.

New rows first form sessions among themselves. A new session that overlaps or touches a stored session of its key is
merged with it. A session ends one gap after its last row, so two sessions merge if each begins at or before the other's
end. An epoch reads only the sessions of the changed keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.sql.plan_sql import print_expression, session_end, session_numbers
from belvedere.engine.sql.stage_sql import DELTA, ROWS, Texts
from belvedere.functions.spark_types import quote, type_text
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.expressions import columns_of
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Aggregate, Expr, Item, Node, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.time_window import TimeWindow, TimeWindowKind
from belvedere.plan.plan_properties import needs_clock, partition_of
from belvedere.rules.builder import StageOwner
from belvedere.rules.merge.accumulate import Accumulators, accumulate, accumulators_of
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.top import NEW, OWN, PartialsStage
from belvedere.schema import Schema

SESSION, ALL, ONE = "`_session`", "`_all`", "`_one`"
"""SQL names: the number of a session within its key, the accumulators of its parts, and its own accumulators."""


@dataclass(frozen=True)
class SessionGroupsStage(PartialsStage):
    """Stage of session groups.

    `plan` is an aggregate of the changed sessions, with `_weight`, from which the output's rows are computed.

    `merge` combines `old` and `new` for each accumulator.
    """

    merge: tuple[Expr, ...]

    rule = "session groups"

    @property
    def window(self) -> TimeWindow:
        """Return the session window of the plan."""
        assert isinstance(self.plan, Aggregate)
        assert isinstance(self.plan.input, TimeWindow)
        return self.plan.input

    @property
    def definition(self) -> tuple[str, ...]:
        return (*super().definition, *(print_expression(e) for e in self.merge))

    def texts(self, texts: Texts) -> Mapping[str, str]:
        new, own = (f"SELECT * FROM {quote(texts.view(n, ROWS))}" for n in (NEW, OWN))
        added = self._added(texts)
        return {
            "added": texts.identified(texts.output, added),
            "together": texts.identified(texts.output, self._together(new, own)),
            "rows": texts.identified(texts.output, self._together(added, own)),
        }

    @property
    def _accumulators(self) -> tuple[Item, ...]:
        assert isinstance(self.plan, Aggregate)
        return self.plan.aggregates

    def _added(self, texts: Texts) -> str:
        """Return a query for the sessions of the changes alone."""
        window = self.window
        numbered = session_numbers(window, texts.query(texts.weighted(window.input), DELTA))
        time, by = quote(window.time), [quote(n) for n in window.partition]
        bounds = [
            f"min({time}) AS {quote(window.start)}",
            f"{session_end(window, lambda c: f'max({c})')} AS {quote(window.end)}",
        ]
        items = [f"{_cast(i.expr, i)} AS {quote(i.name)}" for i in self._accumulators]
        return f"SELECT {', '.join([*by, *bounds, *items])} FROM {numbered} GROUP BY {', '.join([*by, SESSION])}"

    def _together(self, *parts: str) -> str:
        """Return a query that merges sessions that overlap or touch."""
        window, names = self.window, [i.name for i in self._accumulators]
        by, (start, end) = [quote(n) for n in window.partition], (quote(n) for n in (window.start, window.end))
        within = f"PARTITION BY {', '.join(by)} ORDER BY {start}" if by else f"ORDER BY {start}"
        columns = ", ".join([*by, start, end, *map(quote, names)])
        both = " UNION ALL ".join(f"SELECT {columns} FROM ({p}) AS p" for p in parts)
        reach = f"max({end}) OVER ({within} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_reach`"
        begins = (
            f"SELECT *, CASE WHEN {start} <= `_reach` THEN 0 ELSE 1 END AS `_new` FROM (SELECT *, {reach} FROM "
            f"({both}) AS b) AS r"
        )
        # sessions with the same start share a number, whatever the order of arrival
        numbered = f"SELECT *, sum(`_new`) OVER ({within} RANGE UNBOUNDED PRECEDING) AS {SESSION} FROM ({begins}) AS n"
        packed = f"collect_list(struct({', '.join(map(quote, names))})) AS {ALL}"
        bounds = f"min({start}) AS {start}, max({end}) AS {end}"
        grouped = (
            f"SELECT {', '.join([*by, bounds, packed])} FROM ({numbered}) AS s GROUP BY {', '.join([*by, SESSION])}"
        )
        fields = ", ".join(
            f"{_cast(m, i)} AS {quote(i.name)}" for m, i in zip(self.merge, self._accumulators, strict=True)
        )
        one = f"aggregate(slice({ALL}, 2, size({ALL})), {ALL}[0], (old, new) -> struct({fields})) AS {ONE}"
        kept = ", ".join([*by, start, end])
        shown = ", ".join(f"{ONE}.{quote(n)} AS {quote(n)}" for n in names)
        return f"SELECT {kept}, {shown} FROM (SELECT {kept}, {one} FROM ({grouped}) AS g) AS o"

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        """Return the bounds below which sessions are not written again: sessions that ended below the bound, and those
        of a key below its bound."""
        return own

    def holds(self, relation: Relation) -> str:
        return (
            f"a row for each session of {', '.join(self.window.partition)}"
            if self.window.partition
            else "a row for each session"
        )


def _cast(expr: Expr, item: Item) -> str:
    return f"CAST({print_expression(expr)} AS {type_text(item.type)})"


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, Aggregate) or top.grouping_sets is not None or needs_clock(top):
        return None
    window = top.input
    if not isinstance(window, TimeWindow) or window.kind is not TimeWindowKind.SESSION:
        return None
    bounds = {window.start, window.end}
    keys = {k.expr.name for k in top.keys if isinstance(k.expr, exp.Column)}
    if (
        len(keys) != len(top.keys)
        or not {*window.partition} <= keys <= {*window.partition, *bounds}
        or not keys & bounds
    ):
        return None
    if any(columns_of(i.expr) & bounds for i in top.aggregates) or not site.builder.grows(window.input):
        return None
    found = [accumulate(i, window.schema, True) for i in top.aggregates]
    known = [f for f in found if f is not None]
    if len(known) < len(found):
        return None
    whole = replace(top, keys=tuple(item_of(window.schema[n]) for n in (*window.partition, window.start, window.end)))
    return partial(_maintain, site, top, window, accumulators_of(whole, tuple(known)))


def _maintain(site: Site, top: Aggregate, window: TimeWindow, state: Accumulators) -> Relation:
    builder, owner = site.builder, site.part.owner
    below = builder.with_relations(window.input, owner)
    source, slots = builder.delta_slots(below)
    partition = partition_of(window) or Partition(((),), (), ())
    slots = builder.hash_changes(below, slots, partition)
    part = StageOwner(builder.fresh(owner), owner, None)
    path = builder.path_of(part, partition.output, partition.types)
    keys = tuple(item_of(c) for c in state.schema.columns[: len(window.partition) + 2])
    plan = Aggregate(window.with_inputs((source,)), keys, state.partials)
    by = ", ".join(window.partition)
    reason = f"a row of accumulators for each session{f' of {by}' if by else ''}, as the input is append-only"
    stage = SessionGroupsStage(part.name, plan, slots, owner, reason, path, state.merge)
    # the key of the aggregate: its rows are then those of the relation
    schema = Schema(state.schema.columns, tuple(k.expr.name for k in top.keys))
    builder.emit(stage, part, schema=schema)
    return site.maintain(_results(Scan(part.name, schema), top, state))


def _results(rows: Scan, top: Aggregate, state: Accumulators) -> Node:
    """Return the aggregate's columns."""
    values = {i.name: i for i in state.results}
    return Project(rows, (*top.keys, *(values[i.name] for i in top.aggregates)))


SESSION_GROUPS = Rule("session groups", _applies)

"""As of: a join of each row with the last version up to the row's time (`FOR SYSTEM_TIME AS OF`).

Only rows whose version may have changed are recomputed.

A version is valid until the next version of its key begins, so the join looks for the version whose interval contains
the row's time; it never creates pairs with older versions. If versions change, the rows of their key are joined again
from the first changed time on. Rows below the bounds of both sides are final; they leave the state with the versions
that ended before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import ColumnValues, Rows, keys_of
from belvedere.engine.sql.stage_sql import ROWS
from belvedere.engine.work import Work
from belvedere.plan.arrival_order import with_ties
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts
from belvedere.plan.operators.join import equalities
from belvedere.plan.operators.nodes import Expr, Item, Join, JoinKind, Node, Order, TopK, Window
from belvedere.plan.operators.project import keep_columns
from belvedere.plan.plan_properties import base_scan, partition_of
from belvedere.plan.rewrites.rewrite import carry, push_down
from belvedere.plan.ties import tie_columns
from belvedere.plan.unused_names import unused_name
from belvedere.rules.joins.outer_expiry import beside_final_results, times_to_carry
from belvedere.rules.keyed import KeyedStage
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import TIMESTAMP
from belvedere.spark_sql.dialect import SparkSql


@dataclass(frozen=True)
class AsOfStage(KeyedStage):
    """Stage that joins again the rows whose version may have changed.

    `row` is the left relation's access path by key; `path` is the output's. `times` are the time columns of rows and
    versions, if both are plain columns.
    """

    row: str
    times: tuple[str, str] | None

    rule = "as of"

    def run_keys(self, work: Work) -> Rows | None:
        events, versions = self.slots
        keys = self._touched(work)
        if keys is None:
            return None
        rows = work.look_up(events.relation, self.row, keys)
        links = keys_of([(rows, events.path)]) if events.path is not None else None
        work.put(events.name, ROWS, rows)
        work.put(versions.name, ROWS, work.look_up(versions.relation, versions.path, links))
        found, limits = work.rows("rows"), work.limits
        if not limits or work.is_fresh:
            return work.replace(self.path, keys, found)
        stored = work.look_up(self.output, self.path, keys)
        return work.replace(self.path, keys, beside_final_results(found, stored, limits))

    def _touched(self, work: Work) -> ColumnValues | None:
        """Return the keys of the changed left rows, and of those for which changed versions may be valid."""
        left, right = work.deltas
        events, versions = self.slots
        found = [] if left is None else [(left, self.row)]
        if right is not None and versions.path is not None:
            matched = work.look_up(events.relation, events.path, keys_of([(right, versions.path)]))
            found.append((self._since(work, matched, right), self.row))
        return keys_of(found) if found else None

    def _since(self, work: Work, rows: Rows, versions: Rows) -> Rows:
        """Return the rows from the first time of the versions on."""
        if self.times is None:
            return rows
        time, begins = self.times
        first = _least(versions.batches([begins]))
        return rows if first is None else work.where(rows, lambda b: pc.greater_equal(b.column(time), first))

    @property
    def counted(self) -> tuple[str, ...]:
        return (self.slots[0].relation,)


def _least(batches: Iterable[pa.RecordBatch]) -> pa.Scalar | None:
    found = [pc.min(b.column(0)) for b in batches if b.num_rows]
    times = [f for f in found if f.is_valid]
    return min(times, key=lambda f: f.cast(pa.int64()).as_py()) if times else None


@dataclass(frozen=True)
class _AsOf:
    """Parts of an as-of join, which has one version per row: the times of the versions and of the row, and the join
    condition."""

    since: str
    time: Expr
    links: tuple[str, ...]


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, TopK) or top.limit != 1 or top.offset or top.by_rows or not isinstance(top.input, Join):
        return None
    join = top.input
    keyed = bool(top.partition) and set(top.partition) == set(join.left.schema.key or ())
    if join.kind not in (JoinKind.INNER, JoinKind.LEFT) or not keyed or join.right.schema.key is None:
        return None
    found = _as_of(top, join)
    return None if found is None else partial(_maintain, site, top, join, found)


def _as_of(top: TopK, join: Join) -> _AsOf | None:
    names = set(join.right.schema.names)
    if not top.order or not all(isinstance(o.expr, exp.Column) and o.expr.name in names for o in top.order):
        return None
    first = top.order[0]
    parts = conjuncts(join.condition)
    before = [p for p in parts if isinstance(p, exp.LTE) and p.this == first.expr]
    rest = [p for p in parts if p not in before]
    pairs = equalities(replace(join, condition=conjunction(rest)))
    if not first.descending or len(before) != 1 or not rest or len(pairs) != len(rest):
        return None
    time = before[0].expression
    if not columns_of(time) <= set(join.left.schema.names) or join.right.schema[first.expr.name].type != TIMESTAMP:
        return None
    return _AsOf(first.expr.name, time, tuple(dict.fromkeys(b.name for _, b, _ in pairs)))


def _maintain(site: Site, top: TopK, join: Join, found: _AsOf) -> Relation:
    builder, part = site.builder, site.part
    until = unused_name("_until", set(join.schema.names))
    right = Window(join.right, (Item(until, _next(top, join.right, found), TIMESTAMP, hidden=True),))
    ends = exp.Or(
        this=exp.Paren(this=exp.Is(this=column(until), expression=exp.Null())),
        expression=exp.Paren(this=exp.LT(this=found.time.copy(), expression=column(until))),
    )
    condition = conjunction([*conjuncts(join.condition), ends])
    asked = replace(join, right=right, condition=condition, versions=(found.since, until))
    slots, operator = builder.slots(asked, partition_of(asked), part.owner)
    assert isinstance(operator, Join)
    whole = site.over(keep_columns(operator, top.schema.names))
    key = join.left.schema.key or ()
    types = tuple(join.left.schema[k].type for k in key)
    times = times_to_carry(whole, operator, builder.bounds_of(operator, slots))
    items = (*(Item(f"_by{n}", column(k), t) for n, (k, t) in enumerate(zip(key, types, strict=True))), *times)
    whole, names = carry(whole, operator, items)
    own = push_down(operator.left, tuple(column(k) for k in key))
    row = builder.drafts[slots[0].relation].path(own, types)
    path = builder.path_of(part, tuple(column(n) for n in names[: len(key)]), types)
    by = ", ".join(found.links)
    reason = (
        f"the version of {by} at {found.time.sql(dialect=SparkSql)}, of each changed row and of those from a "
        "changed version on"
    )
    fields = {"path": path, "row": row, "times": _times(operator, found)}
    return builder.emit(site.stage(AsOfStage, whole, slots, reason, **fields), part)


def _next(top: TopK, right: Node, found: _AsOf) -> Expr:
    """Return the time of the next version of the same key.

    A version without a time matches no row. It sorts last, so it never ends another version.
    """
    first, *rest = (replace(o, descending=not o.descending, nulls_first=not o.nulls_come_first) for o in top.order)
    reverse = [_ordered(o) for o in (replace(first, nulls_first=False), *rest)]
    order = with_ties(exp.Order(expressions=reverse), tie_columns(right.schema))
    return exp.Window(
        this=exp.Lead(this=column(found.since)), partition_by=[column(n) for n in found.links], order=order
    )


def _ordered(order: Order) -> exp.Ordered:
    return exp.Ordered(this=order.expr.copy(), desc=order.descending, nulls_first=order.nulls_come_first)


def _times(operator: Join, found: _AsOf) -> tuple[str, str] | None:
    """Return the columns of both relations with the time of a row and of a version.

    Return None if they are not stored in the form in which they are compared.
    """
    if base_scan(operator.left) is None or base_scan(operator.right) is None:
        return None
    below = (push_down(operator.left, (found.time,)), push_down(operator.right, (column(found.since),)))
    names = [e.name for (e,) in below if isinstance(e, exp.Column)]
    return (names[0], names[1]) if len(names) == 2 else None


AS_OF = Rule("as of", _applies)

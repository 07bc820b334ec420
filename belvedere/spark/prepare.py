"""Compile a pipeline to what an epoch executes: per stage the Spark SQL texts, per relation its stored table.

In: a pipeline. Out: immutable `PreparedStage`s and `StoredTable`s. Everything that could change from epoch to epoch (rows, the
clock) comes through temporary views, so the texts are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.identity import identity_columns, path_hash
from belvedere.engine.relation import Relation, Slot
from belvedere.engine.render import order_text, quote, render
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.keys import item_of
from belvedere.plan.nodes import Filter, Join, JoinKind, Node, Project, Scan, TopK, Union
from belvedere.plan.ties import tie_order
from belvedere.rules.pipeline import OWN, Pipeline, Rule, Stage
from belvedere.rules.rewrite import with_column
from belvedere.schema import KEY, WEIGHT, Column
from belvedere.spark.merge_sql import WEIGHT_COLUMN, merge_terms, view_name
from belvedere.spark.windows import Windows, split_windows
from belvedere.store.protocol import StoredTable

NEW, PLACE = "_new", "_row"
FOLLOWING = "following"
"""The kind of view with rows that go on behind a stored result, which has its accumulators beside them."""
KEY_COLUMN = Column(KEY, pa.string(), nullable=False, hidden=True)


@dataclass(frozen=True)
class PreparedStage:
    """A stage with its SQL. `sql` has one text per term; which term means what is the rule's affair."""

    number: int
    stage: Stage
    output: Relation
    sql: tuple[str, ...]
    slots: tuple[tuple[Slot, Relation], ...]
    state: Relation | None = None
    windows: tuple[Windows, ...] = ()
    """WINDOW BY operators in the plan: their rows become views before the SQL is run."""

    def view(self, slot: Slot, kind: str) -> str:
        """The name of the temporary view that feeds a slot; `kind` is `delta` or `rows`."""
        return view_name(self.number, slot.name, kind)


def stored_table(relation: Relation, indexes: tuple[tuple[str, ...], ...] = (), meaning: str = "") -> StoredTable:
    """How a relation is stored."""
    indexes = (*indexes, *relation.spans)
    return StoredTable(
        relation.name, relation.schema, relation.stored_paths, relation.ranges, indexes, meaning, relation.silent
    )


def prepare(pipeline: Pipeline, qualify: Callable[[str], str]) -> tuple[PreparedStage, ...]:
    """All stages with their SQL; `qualify` makes a temporary view's full name."""
    return tuple(_prepare(n, s, pipeline.relations, qualify) for n, s in enumerate(pipeline.stages))


def _prepare(number: int, stage: Stage, relations: Mapping[str, Relation], qualify: Callable[[str], str]) -> PreparedStage:
    output = relations[stage.output]
    clock = qualify("clock")

    def text(plan: Node, kinds: Mapping[str, str], extra: str = "") -> str:
        def view_of(scan: str) -> str:
            return qualify(view_name(number, scan, kinds[scan]))

        columns = ", ".join(quote(n) for n in output.schema.names)
        return f"SELECT {columns}, {identity_columns(output)}{extra} FROM ({render(plan, view_of, clock)}) AS o"

    slots = tuple((s, relations[s.relation]) for s in stage.slots)
    names = frozenset(s.name for s in stage.slots)
    windows: tuple[Windows, ...] = ()
    match stage.rule:
        case Rule.INGEST:
            sql: tuple[str, ...] = (
                text(
                    with_column(Scan("s0", output.schema), WEIGHT_COLUMN, frozenset({"s0"})), {"s0": "delta"}, f", `{WEIGHT}`"
                ),
            )
        case Rule.EVENTS | Rule.EMIT | Rule.ORDER:
            sql = (text(Scan("s0", output.schema), {"s0": "rows"}),)
        case Rule.HISTORY:
            sql = ()
        case Rule.LINEAR | Rule.CLOCK:
            weighted = with_column(stage.plan, WEIGHT_COLUMN, names)
            sql = (text(weighted, dict.fromkeys(names, "delta"), f", `{WEIGHT}`"),)
        case Rule.CONSTANT:
            sql = (text(stage.plan, {}, f", CAST(1 AS BIGINT) AS `{WEIGHT}`"),)
        case Rule.JOIN:
            sql = _join_terms(stage, text)
        case Rule.EXISTENCE:
            sql = (text(stage.plan, dict.fromkeys(names, "rows")), _matched(number, stage, qualify))
        case Rule.TOP:
            changed = stage.plan.inputs[0].inputs[0]
            sql = (
                text(stage.plan, {**dict.fromkeys(names, "delta"), OWN: "rows"}),
                _groups(number, changed, stage, output, qualify),
            )
        case Rule.SESSIONS:
            grows = all(relation.append_only for _, relation in slots)
            sql = (
                text(_beside_own(stage.plan, output, names, grows), {**dict.fromkeys(names, "delta"), OWN: "rows"}),
                _groups(number, stage.plan.inputs[0], stage, output, qualify),
            )
        case Rule.FIRST:
            sql = _first_terms(stage, text)
        case Rule.MERGE:
            sql = merge_terms(number, stage, relations, qualify)
        case _:
            plan, windows = split_windows(stage.plan, lambda scan: qualify(view_name(number, scan, "rows")), clock)
            sql = (text(plan, dict.fromkeys((*names, *(w.name for w in windows)), "rows")),)
            if stage.following is not None:
                sql = (*sql, text(stage.following.plan, dict.fromkeys(names, FOLLOWING)))
    state = relations[stage.state] if stage.state is not None else None
    return PreparedStage(number, stage, output, sql, slots, state, windows)


def _join_terms(stage: Stage, text: Callable[..., str]) -> tuple[str, ...]:
    """dL x R, L x dR and dL x dR, in which `_new` marks rows that exist after the epoch; and L x R."""
    new = f", `{WEIGHT}` > 0 AS `{NEW}`"
    left = with_column(stage.plan, WEIGHT_COLUMN, frozenset({"s0"}))
    right = with_column(stage.plan, WEIGHT_COLUMN, frozenset({"s1"}))
    return (
        text(left, {"s0": "delta", "s1": "rows"}, new),
        text(right, {"s0": "rows", "s1": "delta"}, new),
        text(stage.plan, {"s0": "delta", "s1": "delta"}, f", FALSE AS `{NEW}`"),
        text(stage.plan, {"s0": "rows", "s1": "rows"}),
    )


def _matched(number: int, stage: Stage, qualify: Callable[[str], str]) -> str:
    """The keys of the left rows that match a changed row of the right side (EXISTENCE)."""
    join = stage.plan
    while not isinstance(join, Join):
        (join,) = join.inputs
    own, other = stage.slots
    left = with_column(join.left, KEY_COLUMN, frozenset({own.name}))
    pairs = Project(Join(left, join.right, JoinKind.INNER, join.condition), (item_of(KEY_COLUMN),))
    views = {own.name: view_name(number, own.name, "rows"), other.name: view_name(number, other.name, "delta")}
    return f"SELECT DISTINCT `{KEY}` FROM ({render(pairs, lambda s: qualify(views[s]), qualify('clock'))}) AS p"


def _first_terms(stage: Stage, text: Callable[..., str]) -> tuple[str, ...]:
    """The first of all rows; and changes beside the stage's own rows (weight 0) with their place `_row` among these."""
    top, names = stage.plan, frozenset(s.name for s in stage.slots)
    assert isinstance(top, TopK)
    changes = with_column(top.input, WEIGHT_COLUMN, names)
    columns = (*top.schema, WEIGHT_COLUMN)
    none = exp.cast(exp.Literal.number(0), "bigint")
    own = Project(Scan(OWN, top.schema), (*(item_of(c) for c in top.schema), replace(item_of(WEIGHT_COLUMN), expr=none)))
    both = Union((Project(changes, tuple(item_of(c) for c in columns)), own))
    order = ", ".join(order_text(o) for o in top.order + tie_order(top)) or "1"
    place = f", `{WEIGHT}`, CAST(row_number() OVER (ORDER BY {order}) AS BIGINT) AS `{PLACE}`"
    return text(top, dict.fromkeys(names, "rows")), text(both, {**dict.fromkeys(names, "delta"), OWN: "rows"}, place)


def _beside_own(plan: Node, output: Relation, names: frozenset[str], grows: bool) -> Node:
    """An operator over its own stored rows but those that have changed, and the changed ones as they are now (SESSIONS)."""
    changes, items = with_column(plan.inputs[0], WEIGHT_COLUMN, names), tuple(item_of(c) for c in plan.inputs[0].schema)
    own: Node = Scan(OWN, output.schema)
    if not grows:
        gone = tuple(replace(item_of(output.schema[n]), name=f"_gone.{n}") for n in output.schema.key or ())
        same = conjunction([exp.NullSafeEQ(this=i.expr, expression=column(i.name)) for i in gone])
        own = Join(own, Project(plan.inputs[0], gone), JoinKind.ANTI, same)
    come = Filter(changes, exp.GT(this=column(WEIGHT), expression=exp.Literal.number(0)))
    return plan.with_inputs((Union((Project(come, items), Project(own, items))),))


def _groups(number: int, changed: Node, stage: Stage, output: Relation, qualify: Callable[[str], str]) -> str:
    """The hashes of the groups that the changes touch (TOP, SESSIONS)."""
    path = output.path(stage.path or "")
    changes = render(changed, lambda s: qualify(view_name(number, s, "delta")), qualify("clock"))
    return f"SELECT DISTINCT {path_hash(path.exprs, path.types)} AS `{path.name}` FROM ({changes}) AS c"

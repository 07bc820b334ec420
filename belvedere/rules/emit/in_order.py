"""In order: SELECT STREAM, which emits arrived rows in the order of their time as soon as no earlier row can arrive.

Rows with a later time wait in a relation of their own and can still change there (a window's values). Emitted rows are
final. ORDER BY ... WITHIN derives its own bound from the times seen and ignores the input's bound. It drops rows below
its bound and rows without a time (SQLstream, T-sort).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Relation, Slot, name_in_script
from belvedere.engine.rows.epoch_rows import Rows, combined, conform
from belvedere.engine.rows.ordered_rows import changes_by_key, in_order, stream
from belvedere.engine.sql.stage_sql import ROWS, Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.errors import fail
from belvedere.functions.spark_types import quote
from belvedere.plan.monotone import NEVER
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.plan_text import plan_text
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.rules.clock import WAITING
from belvedere.rules.emit.emission import Emission, emission_of, explain_emission
from belvedere.rules.events import next_numbers
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import KEY, TIMESTAMP, UID, WEIGHT, Column, Schema
from belvedere.store.stage_memory import Numbered, remembered

AT, ARRIVED = "_at", "_arrived"
WAITING_COLUMNS = (Column(AT, pa.int64(), hidden=True), Column(ARRIVED, pa.int64(), nullable=False, hidden=True))
"""Additional columns of a waiting row: its time in microseconds, and its order of arrival."""


@dataclass
class InOrderMemory(Numbered):
    """`arrived`: number of rows that have arrived.

    `highest`: for a sort by arrival, the highest time seen, in microseconds.
    """

    arrived: int = remembered(" arrived", 0)
    highest: int = remembered(" highest", NEVER)

    def arrivals(self, count: int) -> pa.Array:
        """Return the positions of the next `count` rows in the order of arrival."""
        first, self.arrived = self.arrived, self.arrived + count
        return pa.array(np.arange(first, self.arrived), pa.int64())


@dataclass(frozen=True)
class InOrderStage(Stage):
    """Stage of a SELECT STREAM. `node` gives the time by which rows are ordered, `emission` gives its bound."""

    node: InOrder
    emission: Emission

    rule = "in order"
    in_driver = "the new rows, which it numbers"
    memory = InOrderMemory
    rebuilds = False

    @property
    def states(self) -> tuple[str, ...]:
        return (self.output + WAITING,)

    @property
    def definition(self) -> tuple[str, ...]:
        return (plan_text(self.node),)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"rows": texts.rows(Scan("s0", texts.output.schema), ROWS)}

    def run(self, work: Work) -> Rows | None:
        (delta,) = work.deltas
        node, waiting = self.node, self.output + WAITING
        coming = None if delta is None else _coming(delta, node, work)
        if node.within is None:
            bound = self.emission.bounds(work.bounds.__getitem__)[0]
            bound -= 1 if node.then and bound > NEVER else 0
        else:
            bound = _before(work.recall(InOrderMemory).highest, node.within)
        parts = []
        if bound > NEVER:
            parts.append(work.look_up_range(waiting, AT, None, bound))
            work.storage.delete_range(waiting, AT, bound)
        if coming is not None:
            limit = pa.scalar(bound, pa.int64())
            work.append(work.where(coming, lambda b: pc.greater(b.column(AT), limit)), waiting)
            parts.append(work.where(coming, lambda b: pc.less_equal(b.column(AT), limit)))
        parts = [p for p in parts if not p.is_empty]
        return _released(parts, node, work) if parts else None

    def frees(self, relation: Relation) -> str | None:
        return "rows leave once their time is reached" if relation.name in self.states else None


def _applies(site: Site) -> Maintain | None:
    return partial(_maintain, site, site.top) if isinstance(site.top, InOrder) else None


def _maintain(site: Site, top: InOrder) -> Relation:
    """Maintain the input as a relation of its own, and the waiting rows beside it."""
    if site.plan is not top:
        return site.apart()
    builder, part = site.builder, site.part
    emission = emission_of(builder, top)
    known = builder.drafts[builder.relation_of_scan(top.input)].relation if isinstance(top.input, Scan) else None
    known = known or builder.shared(carry_keys(top.input), part.owner)
    if not known.append_only and not emission.is_final(builder.catalog):
        hint = "write SELECT ... EMIT STREAM, which also emits retractions"
        message = f'"{name_in_script(part.owner)}" streams rows that change: SELECT STREAM needs append-only rows'
        view = builder.catalog.views.get(part.owner)
        raise fail("B5014", message, span=view.span if view is not None else None, hint=hint)
    builder.state_of(part, WAITING, Schema((*known.schema.columns, *WAITING_COLUMNS), known.schema.key), (AT,))
    rendered = top.with_inputs((Scan("s0", known.schema),))
    fields = {"node": top, "emission": emission}
    stage = site.stage(InOrderStage, rendered, (Slot("s0", known.name),), explain_emission(emission), **fields)
    return builder.emit(stage, part, append_only=True)


IN_ORDER = Rule("in order", _applies, is_optional=False)


def _coming(delta: Rows, node: InOrder, work: Work) -> Rows:
    """Return the new rows of a change that are not emitted yet, numbered in the order of arrival."""
    _, relation = work.slots[0]
    name = work.output.name
    schema = work.stored_schema(name + WAITING)
    if relation.append_only:
        rows = delta
    else:
        pieces = changes_by_key(delta, work.name("s0", "changes"), work.compute)
        found = (_still_waiting(t, name + WAITING, work) for t in pieces())
        rows = work.compute.keep(stream(delta.schema, found))
    numbers = [c for c in rows.schema.names if c == UID or c.startswith(f"{UID}_")]
    if rows.is_collected:
        ordered = Rows(rows.table.sort_by([(c, "ascending") for c in (*numbers, KEY)]))
    else:
        ordered = in_order(rows, [quote(c) for c in (*numbers, KEY)], work.name("s0", "arrived"), work.compute)
    arrived = (_arrived(t, node, work) for t in ordered.tables())
    if node.within is not None:
        arrived = (_sorted_in(t, node.within, work) for t in arrived)
    return work.compute.keep(stream(schema, (conform(t, schema) for t in arrived)))


def _still_waiting(delta: pa.Table, waiting: str, work: Work) -> pa.Table:
    """Return a change without the rows that were emitted before. Remove the changed rows from the waiting rows first.

    The change contains all rows of a key.
    """
    olds = delta.filter(pc.less(delta[WEIGHT], 0))
    if not olds.num_rows:
        return delta
    found = work.replace(KEY, combined(olds[KEY]), (), waiting).table
    out = olds.filter(pc.invert(pc.is_in(olds[KEY], value_set=combined(found[KEY]))))
    return delta.filter(pc.invert(pc.is_in(delta[KEY], value_set=combined(out[KEY]))))


def _arrived(delta: pa.Table, node: InOrder, work: Work) -> pa.Table:
    """Return new rows in the order of arrival, with their number and their time. Rows without a time come first."""
    rows = delta.filter(pc.greater(delta[WEIGHT], 0))
    times = rows[node.time].cast(TIMESTAMP).cast(pa.int64())
    if node.within is None:
        times = pc.fill_null(times, NEVER)
    rows = rows.append_column(AT, times)
    return rows.append_column(ARRIVED, work.recall(InOrderMemory).arrivals(rows.num_rows))


def _sorted_in(rows: pa.Table, within: int, work: Work) -> pa.Table:
    """Return the rows that are not too late for the sort, and record the highest time seen in the epoch's memory."""
    memory = work.recall(InOrderMemory)
    rows = rows.filter(pc.is_valid(rows[AT]))
    times = np.asarray(rows[AT].to_numpy(), dtype=np.int64)
    seen = np.maximum.accumulate(np.concatenate([np.array([memory.highest], dtype=np.int64), times]))
    limits = np.where(seen[:-1] == NEVER, NEVER, seen[:-1] - within)
    memory.highest = int(seen[-1])
    return rows.filter(pa.array(times >= limits))


def _before(highest: int, within: int) -> int:
    return highest - within if highest > NEVER else NEVER


def _sorted(parts: list[Rows], then: Sequence[tuple[str, bool, bool]], work: Work) -> Rows:
    """Sort rows by time, then by the keys of ORDER BY, then by arrival."""
    if not all(p.is_collected for p in parts):
        rows = work.compute.keep(stream(parts[0].schema, (t for p in parts for t in p.tables())))
        words = (
            f"{quote(n)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if nulls else 'LAST'}" for n, down, nulls in then
        )
        return in_order(rows, [quote(AT), *words, quote(ARRIVED)], work.name("s0", "due"), work.compute)
    table = pa.concat_tables([p.table for p in parts])
    keys = {AT: table[AT]}
    order = [(AT, "ascending")]
    for number, (name, descending, nulls_first) in enumerate(then):
        way = "descending" if descending else "ascending"
        keys |= {f"null{number}": pc.is_null(table[name]), f"key{number}": table[name]}
        order += [(f"null{number}", "descending" if nulls_first else "ascending")]
        if pa.types.is_floating(table[name].type):
            keys[f"nan{number}"] = pc.is_nan(table[name])  # NaN is the greatest number
            order += [(f"nan{number}", way)]
        order += [(f"key{number}", way)]
    keys[ARRIVED] = table[ARRIVED]
    return Rows(table.take(pc.sort_indices(pa.table(keys), sort_keys=[*order, (ARRIVED, "ascending")])))


def _released(parts: list[Rows], node: InOrder, work: Work) -> Rows:
    """Return the rows that are emitted in this epoch, numbered and stored."""
    found = (_numbered(t, node, work) for t in _sorted(parts, node.then, work).tables())
    rows = work.compute.keep(stream(work.output.schema.arrow, found))
    work.put("s0", ROWS, rows)
    return work.added(work.rows("rows"))


def _numbered(rows: pa.Table, node: InOrder, work: Work) -> pa.Table:
    came = pa.array([work.clock] * rows.num_rows, TIMESTAMP)
    made = {SEQUENCE: next_numbers(work, rows.num_rows), node.came: came}
    columns = {c.name: made[c.name] if c.name in made else rows[c.name] for c in work.output.schema}
    return conform(pa.table(columns), work.output.schema.arrow)

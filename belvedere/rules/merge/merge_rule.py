"""Merge: an aggregate maintained by accumulators. The stage adds the changes to the stored state of their groups.

An epoch reads and writes only one row of state per changed group, whatever the size of the group. If the changes are
few and carry the hash of their group, one query is enough; otherwise a first query aggregates the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Path, Relation, delta_schema
from belvedere.engine.rows.epoch_rows import (
    WEIGHT_FIELD,
    ColumnValues,
    Rows,
    hashes_in,
    keys_of,
    weighted_stream,
    with_hash,
)
from belvedere.engine.rows.selected_rows import RowTest, SelectedRows
from belvedere.engine.sql.plan_sql import print_expression
from belvedere.engine.sql.stage_sql import ROWS, Texts
from belvedere.engine.sql.staged_operators import print_plan
from belvedere.engine.stage import Stage, slots_known
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.bounds import bounds_of
from belvedere.plan.expressions import column
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Aggregate, Expr, Project, Scan
from belvedere.plan.plan_properties import partition_of
from belvedere.plan.rewrites.rewrite import carry
from belvedere.rules.bounds_below import of_keys
from belvedere.rules.merge.accumulate import ROWS as COUNT
from belvedere.rules.merge.accumulate import Accumulator, Accumulators, accumulate, accumulators_of
from belvedere.rules.merge.merge_sql import (
    FLAGS,
    IS,
    NEW_PREFIX,
    OLD_PREFIX,
    STATE_PREFIX,
    WAS,
    merge_texts,
    preserves_rows,
    shown_beside,
)
from belvedere.rules.rule import Maintain, Refusal, Rule, Site
from belvedere.schema import has_map
from belvedere.state.row_differences import differing

SUFFIX = "$state"


@dataclass(frozen=True)
class MergeStage(Stage):
    """A stage with accumulators.

    `plan` reads only `Scan("state")`: the rows of the relation `state`, which has the accumulators.

    `partial` is the contribution of an epoch, over the slots' changes with `_weight`; `merge` combines `old` and `new`
    for each state column after the keys. `path` is the output's access path by the groups.
    """

    state: str
    partial: Aggregate
    merge: tuple[Expr, ...]
    path: str

    rule = "merge"
    reads_once = True
    reads_keys = False

    @property
    def states(self) -> tuple[str, ...]:
        return (self.state,)

    def retracts(self, relations: Mapping[str, Relation]) -> bool:
        return preserves_rows(self.plan)

    @property
    def definition(self) -> tuple[str, ...]:
        return (*super().definition, print_plan(self.partial), *(print_expression(e) for e in self.merge))

    @property
    def restores(self) -> bool:
        return preserves_rows(self.plan)

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return merge_texts(texts, self.plan, self.partial, self.merge, texts.relations[self.state])

    def run(self, work: Work) -> Rows | None:
        """Aggregate the changes, merge them with the groups' old accumulators, and compute the groups' new rows."""
        state = work.prepared.states[self.state]
        any_change = work.put_deltas() or (work.is_fresh and not state.schema.key)
        if not self.restores:
            return self._replace(work, state) if any_change else None
        found = self._merge(work, state) if any_change else None
        if work.is_restored:
            work.put("state", ROWS, work.look_up(state.name, None, None))
            found = work.as_coming(work.rows("rows"))
        return None if found is None else work.take(found)

    def _replace(self, work: Work, state: Relation) -> Rows | None:
        """Replace the output rows of the changed groups, if rows of state and rows of the output do not correspond one
        to one."""
        path = state.paths[0].name
        found = _changed_groups(work, state)
        if found is None:
            return None
        keys, together = found
        merged = work.compute.compute(together + work.sql["state"], delta_schema(state))
        work.overwrite(state.name, path, keys, merged)
        work.put("state", ROWS, merged)
        return work.replace(self.path, keys, work.rows("rows"))

    def _merge(self, work: Work, state: Relation) -> Rows | None:
        """Write the accumulators, and return the change of the output, which is not written yet."""
        if "first" in work.sql and keys_of_changes(work, state.paths[0]) is None:
            return self._merge_many(work, state)
        found = _changed_groups(work, state)
        return None if found is None else _changes(work, _merge_both(work, found[1], state, found[0]))

    def _merge_many(self, work: Work, state: Relation) -> Rows | None:
        """Merge many changes.

        Read the groups' state first, with its columns of the output; new groups have no state.
        """
        shown = shown_beside(self.plan, work.output, state)
        stored, output, path = delta_schema(state), delta_schema(work.output), state.paths[0].name
        more = [output.field(n).with_name(own) for n, own in shown.columns.items() if own not in stored.names]
        added = work.compute.compute(work.sql["first"], pa.schema([*stored, *more]))
        if added.is_empty:
            return None
        keys = keys_of([(added, path)])
        old = work.look_up(state.name, path, keys)
        if work.is_apart(added):  # separating new groups from others would bring rows into the driver
            work.put("new", ROWS, added)
            work.put("old", ROWS, old)
            return _changes(work, _merge_both(work, "", state, keys))
        known = hashes_in(old, path)
        was = with_hash(path, known)

        def is_new(batch: pa.RecordBatch) -> pa.Array:
            return pc.and_not(pc.greater(batch.column(COUNT), 0), was(batch))

        work.append(work.where(added, is_new, stored.names), state.name)
        own = [shown.columns[n] for n in output.names]
        changes: Iterator[tuple[pa.RecordBatch, int]] = (
            (b.select(own).rename_columns(output.names).cast(output), 1)
            for b in added.where(is_new, list(dict.fromkeys(own)))
        )
        if len(known):
            work.put("new", ROWS, work.where(added, was, stored.names))
            work.put("old", ROWS, old)
            both = _merge_both(work, "", state, pa.array(known))
            changes = chain(changes, differences(both.batches(), output, tuple(work.output.internal)))
        return work.compute.keep(weighted_stream(output, changes))

    # --- expiry

    def bounds(self, inputs: Known, relations: Mapping[str, Bounds]) -> Bounds:
        groups = bounds_of(self.partial, slots_known(self.slots, relations))
        return bounds_of(self.plan, lambda _: groups)

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return of_keys(own, output, self.path)

    def final_states(self, relations: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        return {self.state: bounds_of(self.partial, slots_known(self.slots, relations))}

    # --- explaining

    def holds(self, relation: Relation) -> str:
        if relation.name != self.state:
            return super().holds(relation)
        groups = relation.schema.key or ()
        return f"a row for each group by {', '.join(groups)}" if groups else "one row"

    def is_bounded(self, output: Relation) -> bool:
        return not self.partial.keys


def keys_of_changes(work: Work, path: Path) -> ColumnValues | None:
    """Return the hashes of the changed groups, or None if they are not known.

    They are known if the changes are few rows in the driver that carry hashes, or if there is one group.
    """
    if not path.exprs:
        return keys_of((), pa.array([0], pa.int64()))
    found: list[tuple[Rows, str]] = []
    for (slot, _), delta in zip(work.slots, work.deltas, strict=True):
        if delta is None:
            continue
        few = delta.is_collected and delta.num_rows <= work.compute.small
        # rows that come from the store do not carry the hash
        if slot.path is None or not few or slot.path not in delta.schema.names:
            return None
        found.append((delta, slot.path))
    return keys_of(found)


def _changed_groups(work: Work, state: Relation) -> tuple[ColumnValues, str] | None:
    """Return the hashes of the changed groups, and the SQL prefix of a query that merges them with their stored state.

    Return None if no group changed.
    """
    path = state.paths[0]
    keys, together = keys_of_changes(work, path), f"{work.sql['with']} "
    if keys is None:
        added = work.compute.compute(work.sql["added"])
        if added.is_empty:
            return None
        work.put("new", ROWS, added)
        keys, together = keys_of([(added, path.name)]), ""
    work.put("old", ROWS, work.look_up(state.name, path.name, keys))
    return keys, together


def _changes(work: Work, both: Rows) -> Rows:
    """Return the change of the output."""
    shown = delta_schema(work.output)
    return work.mapped(both, shown.append(WEIGHT_FIELD), partial(_weighted, shown, tuple(work.output.internal)))


def _weighted(shown: pa.Schema, internal: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(weighted_stream(shown, differences(batches, shown, internal)))


def _merge_both(work: Work, together: str, state: Relation, keys: ColumnValues | pa.Array) -> Rows:
    """Compute the new accumulators, which are written at once, and the old and new rows of the output, in one query."""
    stored, shown = delta_schema(state), delta_schema(work.output)
    sides = [_prefixed(STATE_PREFIX, stored), _prefixed(OLD_PREFIX, shown), _prefixed(NEW_PREFIX, shown), list(FLAGS)]
    rows = work.compute.compute(together + work.sql["both"], pa.schema([f for side in sides for f in side]))
    named = {n: STATE_PREFIX + n for n in stored.names}
    work.overwrite(state.name, state.paths[0].name, keys, SelectedRows(rows, RowTest.of_column(IS), named))
    return rows


def _prefixed(prefix: str, schema: pa.Schema) -> list[pa.Field]:
    """Return the fields of one side of the query, with a prefix. They are NULL if there is no such row."""
    return [pa.field(prefix + f.name, f.type) for f in schema]


def differences(
    batches: Iterable[pa.RecordBatch], shown: pa.Schema, internal: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the output rows that differ, with weights; the old row comes before the new one."""
    compared = [n for n in shown.names if n not in internal]
    for batch in batches:
        was, is_ = (batch.column(n).to_numpy(zero_copy_only=False) for n in (WAS, IS))
        old, new = (
            batch.select([p + n for n in shown.names]).rename_columns(shown.names) for p in (OLD_PREFIX, NEW_PREFIX)
        )
        differ = ~(was & is_) | differing(old, new, compared)
        for side, chosen, weight in ((old, was & differ, -1), (new, is_ & differ, 1)):
            if chosen.any():
                yield side.filter(pa.array(chosen)).cast(shown), weight


def _applies(site: Site) -> Maintain | Refusal | None:
    """Refuse if an aggregate or key cannot be maintained by accumulators."""
    top, partition = site.top, partition_of(site.top)
    if not isinstance(top, Aggregate) or partition is None:
        return None
    if any(has_map(k.type) for k in top.keys):
        return None  # Spark groups by maps but does not compare them: old and new groups could not be joined
    grows = site.builder.grows(top.input)
    accumulators: list[Accumulator] = []
    for item in top.aggregates:
        found = accumulate(item, top.input.schema, grows)
        if found is None:
            return None
        accumulators.append(found)
    return partial(_maintain, site, top, partition, accumulators_of(top, tuple(accumulators)), grows)


def _maintain(site: Site, top: Aggregate, partition: Partition, state: Accumulators, grows: bool) -> Relation:
    builder, part = site.builder, site.part
    source_plan = builder.with_relations(top.input, part.owner)
    source, slots = builder.delta_slots(source_plan)
    slots = builder.hash_changes(source_plan, slots, partition)
    draft = builder.state_of(part, SUFFIX, state.schema)
    draft.path(tuple(column(i.name) for i in top.keys), partition.types)
    draft.relation = replace(draft.relation, by_path=True)
    results = Project(Scan("state", state.schema), state.results)
    whole, names = carry(site.over(results), results, partition.items)
    path = builder.path_of(part, tuple(column(n) for n in names), partition.types)
    by = ", ".join(i.name for i in top.keys) or "one group"
    reason = f"accumulators by {by}" + (", as the input is append-only" if grows else "")
    partials = Aggregate(source, top.keys, state.partials)
    fields = {"state": draft.relation.name, "partial": partials, "merge": state.merge, "path": path}
    return builder.emit(site.stage(MergeStage, whole, slots, reason, **fields), part)


MERGE = Rule("merge", _applies)

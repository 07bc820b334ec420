"""Keep an aggregate as accumulators: add what the changes bring to the stored state of their groups.

In: the changes of the stage's inputs. Out: the change of the aggregate's rows. Only one row of state per changed group is read
and written, whatever the size of the group. Where the changes carry the hash of their group and are few, one query does it
all; else a first one finds the groups.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.incremental.pipeline import Relation
from belvedere.spark.exchange import Rows, conform
from belvedere.spark.merge_sql import STATE_PREFIX, view_name
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, combined, put_deltas, stored_schema


def run_merge(prepared: PreparedStage, context: Context) -> Rows | None:
    """Aggregate the changes, merge them with the old accumulators of these groups, and compute the groups' new rows."""
    state = prepared.state
    if state is None:
        raise AssertionError(prepared.stage.output)
    first = prepared.stage.output in context.fresh and not state.schema.key
    if not put_deltas(prepared, context) and not first:
        return None
    path = state.paths[0].name
    keys = keys_of_changes(prepared, context)
    if keys is None:
        found = context.exchange.collect(prepared.sql[0], pa.schema([pa.field(path, pa.int64())]))
        keys = combined(pc.unique(found[path]))
    _put(prepared, context, "old", context.look_up(state.name, path, keys))
    if len(prepared.sql) == 2:
        rows = _both(prepared, state, context, keys)
    else:
        merged = context.exchange.collect(prepared.sql[1], stored_schema(state))
        context.replace(state.name, path, keys, merged)
        _put(prepared, context, "state", merged)
        rows = context.exchange.collect(prepared.sql[2], stored_schema(prepared.output))
    return Rows(context.replace(prepared.stage.output, prepared.stage.path, keys, rows))


def keys_of_changes(prepared: PreparedStage, context: Context) -> pa.Array | None:
    """The hashes of the changed groups, where every slot's change is few rows in the driver that carry them."""
    found: list[pa.Array] = []
    for slot, relation in prepared.slots:
        delta = context.delta_of(slot, relation, prepared.stage.output)
        if delta is None:
            continue
        if slot.path is None or not delta.is_collected or delta.table.num_rows > context.exchange.small:
            return None
        if slot.path not in delta.table.schema.names:  # rows that come from the store do not carry it
            return None
        found.append(combined(delta.table[slot.path]))
    if not found:  # a new global aggregate over nothing
        return None
    return combined(pc.unique(pa.chunked_array(found, pa.int64())))


def _both(prepared: PreparedStage, state: Relation, context: Context, keys: pa.Array) -> pa.Table:
    """One query for the new accumulators, which are written at once, and the output's rows, which are returned."""
    kept, shown = stored_schema(state), stored_schema(prepared.output)
    prefixed = [pa.field(STATE_PREFIX + f.name, f.type, f.nullable) for f in kept]
    table = context.exchange.collect(prepared.sql[1], pa.schema([*shown, *prefixed]))
    states = conform(table.select([f.name for f in prefixed]).rename_columns(kept.names), kept)
    context.replace(state.name, state.paths[0].name, keys, states)
    return table.select(shown.names)


def _put(prepared: PreparedStage, context: Context, name: str, table: pa.Table) -> None:
    context.exchange.put(view_name(prepared.number, name, "rows"), Rows(table))

"""Keep an aggregate as accumulators: add what the changes bring to the stored state of their groups.

In: the changes of the stage's inputs. Out: the change of the aggregate's rows. Only one row of state per changed group is read
and written, whatever the size of the group. Where the changes carry the hash of their group and are few, one query does it
all; else a first one finds the groups.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.engine.relation import Relation
from belvedere.spark.exchange import Keys, Rows, keys_of
from belvedere.spark.merge_sql import STATE_PREFIX, view_name
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, put_deltas, stored_schema


def run_merge(prepared: PreparedStage, context: Context) -> Rows | None:
    """Aggregate the changes, merge them with the old accumulators of these groups, and compute the groups' new rows."""
    state = prepared.state
    if state is None:
        raise AssertionError(prepared.stage.output)
    first = prepared.stage.output in context.fresh and not state.schema.key
    if not put_deltas(prepared, context) and not first:
        return None
    path = state.paths[0].name
    keys = keys_of_changes(prepared, context, path)
    _put(prepared, context, "old", context.look_up(state.name, path, keys))
    if len(prepared.sql) == 2:
        rows = _both(prepared, state, context, keys)
    else:
        merged = context.exchange.compute(prepared.sql[1], stored_schema(state))
        context.overwrite(state.name, path, keys, merged.reader())
        _put(prepared, context, "state", merged)
        rows = context.exchange.compute(prepared.sql[2], stored_schema(prepared.output)).reader()
    return context.replace(prepared.stage.output, prepared.stage.path, keys, rows)


def keys_of_changes(prepared: PreparedStage, context: Context, path: str) -> Keys:
    """The hashes of the changed groups: from the changes where these are few rows in the driver that carry them, else by a query."""
    found: list[tuple[Rows, str]] = []
    for (slot, _), delta in zip(prepared.slots, context.deltas_of(prepared), strict=True):
        if delta is None:
            continue
        # rows that come from the store do not carry the hash
        if slot.path is None or not _is_few(delta, context) or slot.path not in delta.schema.names:
            groups = context.exchange.compute(
                prepared.sql[-1 if prepared.state is None else 0], pa.schema([(path, pa.int64())])
            )
            return keys_of([(groups, path)])
        found.append((delta, slot.path))
    return keys_of(found) if found else keys_of((), pa.array([0], pa.int64()))  # a new global aggregate over nothing


def _is_few(rows: Rows, context: Context) -> bool:
    return rows.is_collected and rows.num_rows <= context.exchange.small


def _both(prepared: PreparedStage, state: Relation, context: Context, keys: Keys) -> pa.RecordBatchReader:
    """One query for the new accumulators, which are written at once, and the output's rows, which are returned."""
    kept, shown = stored_schema(state), stored_schema(prepared.output)
    prefixed = [pa.field(STATE_PREFIX + f.name, f.type, f.nullable) for f in kept]
    rows = context.exchange.compute(prepared.sql[1], pa.schema([*shown, *prefixed]))
    context.overwrite(state.name, state.paths[0].name, keys, rows.reader([f.name for f in prefixed], kept.names))
    return rows.reader(shown.names)


def _put(prepared: PreparedStage, context: Context, name: str, rows: Rows) -> None:
    context.exchange.put(view_name(prepared.number, name, "rows"), rows)

"""Keep an operator by its own stored rows: the first rows per key of an input that only grows, and open sessions.

In: changed rows. Out: the change of the operator's rows. What is not among these can never count again, so nothing else is read: a row
that was not among the first, a session that ended below the bound.
"""

from __future__ import annotations

from belvedere.rules.pipeline import OWN
from belvedere.spark.exchange import Rows
from belvedere.spark.merge import keys_of_changes
from belvedere.spark.merge_sql import view_name
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, put_deltas, stored_schema


def run_top(prepared: PreparedStage, context: Context) -> Rows | None:
    """Compute the changed keys from the changed rows and the stored ones, and keep what comes out."""
    if not put_deltas(prepared, context):
        return None
    name, path = prepared.stage.output, prepared.stage.path
    if path is None:
        raise AssertionError(name)
    keys = keys_of_changes(prepared, context, path)
    context.exchange.put(view_name(prepared.number, OWN, "rows"), context.look_up(name, path, keys))
    rows = context.exchange.compute(prepared.sql[0], stored_schema(prepared.output))
    return context.replace(name, path, keys, rows.reader())

"""Run WINDOW BY over rows that only arrive: find the windows of the stored rows, then drop the rows that no open window needs.

In: the changes of the state relation, the bound on its time. Out: the change of the windows. Windows that are final have no row in the
state any more, so they are neither found again nor replaced; where windows look back at such rows, some stay, and are known by their time.
"""

from __future__ import annotations

from belvedere.engine.render import quote
from belvedere.plan.monotone import NEVER
from belvedere.schema import KEY
from belvedere.spark.exchange import Rows, keys_of
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, collect_rows, put_windows
from belvedere.spark.window_forget import SETTLED, forget_settled, open_rows


def run_windows(prepared: PreparedStage, context: Context) -> Rows | None:
    """The windows of the partitions in which rows arrived. A window's key is that of the row at its start."""
    slot, _ = prepared.slots[0]
    settling = prepared.stage.settling
    (delta,) = context.deltas_of(prepared)
    if delta is None or slot.path is None or settling is None:
        return None
    rows = context.look_up(slot.relation, slot.path, keys_of([(delta, slot.path)]))
    context.exchange.put(prepared.view(slot, "rows"), rows)
    put_windows(prepared, context, rows.num_rows)
    sql, replaced = prepared.sql[0], rows
    if prepared.state is not None:
        settled = context.look_up(prepared.state.name, prepared.state.paths[0].name, keys_of([(delta, slot.path)]))
        context.exchange.put(prepared.view(slot, SETTLED), settled)
        if not settled.is_empty:
            replaced = open_rows(prepared, context, settling)
            context.exchange.put(prepared.view(slot, "open"), replaced)
            view = context.exchange.view_name(prepared.view(slot, "open"))
            sql = f"SELECT f.* FROM ({sql}) AS f LEFT SEMI JOIN {quote(view)} AS o ON f.{quote(KEY)} = o.{quote(KEY)}"
    found = collect_rows(prepared, context, sql)
    changed = context.replace(prepared.stage.output, KEY, keys_of([(replaced, KEY)]), found.reader())
    bound = settling.bound(context.bounds.__getitem__)
    if bound > NEVER:
        forget_settled(prepared, context, settling, rows, bound)
    return changed

"""Splitting of long partitions: whether their windows can be found block by block, and the reason if not.

In: a WINDOW BY clause and its items' type. Out: `Ends`, or the reason that there are none. Blocks are consecutive rows;
a block knows some rows before and after it. That is enough if a window that starts before a cut certainly ends soon
after it: END, or an alternative of it, must never move back as the start advances. TUMBLING windows also need a row at
which no window is open, whatever precedes it.
"""

from __future__ import annotations

from belvedere.plan.operators.window_specs import Ends
from belvedere.spark_sql.dialect import SparkSql
from belvedere.sqlpp.query_tree import WindowBy
from belvedere.sqlpp.windows.boundary_classes import Search, TypedWindow
from belvedere.sqlpp.windows.closing import closing_of, constant_of, frame_closing


def ends_of(typed: TypedWindow, nullable: bool = False) -> Ends | str:
    """Return the boundary rows that a block needs, or why they are not enough.

    `nullable`: some tuple may have no order key.
    """
    window, found = typed.window, typed.end
    if window.label is not None:
        closing = frame_closing(typed, nullable)
        return (
            Ends(closing) if closing else "its windows may reach from any row before their labels to any row after them"
        )
    if window.start.unbounded or (window.end is not None and window.end.unbounded):
        return "windows reach to its edge"
    if window.end is None:
        return Ends()
    closing = () if found is None else closing_of(found, typed, nullable)
    if found is None or not closing:
        return "the END of a later start may come before that of an earlier one"
    ends = Ends(closing, tuple(n for n in closing if not found[n].compares), length_of(window, found))
    if window.tumbling and ends.length is None and not ends.at_once:
        return "where a window starts depends on all windows before it"
    return ends


def length_of(window: WindowBy, found: Search) -> int | None:
    """Return the length of TUMBLING windows if every tuple may start one and END counts from it (`ep - sp = 19`)."""
    if not window.tumbling or (window.start.when is not None and window.start.when.sql(SparkSql) != "TRUE"):
        return None
    if len(found) != 1 or found[0].local or len(found[0].compares) != 1:
        return None
    (compare,) = found[0].compares
    roles = [p.role for p in (*compare.searched, *(p for p in compare.known if p.side))]
    counted = compare.operator == "=" and roles == ["position", "position"] and constant_of(compare) >= 0
    return int(constant_of(compare)) + 1 if counted else None

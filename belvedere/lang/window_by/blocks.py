"""How the windows of one long partition are found: block by block, or by one task, and why.

In: a clause WINDOW BY and its items' type. Out: a sentence. Blocks are rows that follow each other; a block
knows some rows before and behind it. That is enough where a window that starts before a cut surely ends soon behind it: END, or an
alternative of it, must never move back as the start moves on. TUMBLING windows also need a place where none is open whatever came before.
"""

from __future__ import annotations

from belvedere.lang.window_by.classes import ItemFacts, Search, classify
from belvedere.lang.window_by.closing import closing_of, frame_closing
from belvedere.lang.window_by.tree import WindowBy

BLOCKS = "in blocks, by as many tasks as there are cores"
FAR = "its windows may reach from anywhere before their labels to anywhere behind them"


def long_partition(window: WindowBy, item: ItemFacts) -> str:
    """How one long partition is done; tuples have order keys."""
    reason = one_task_because(window, item)
    return BLOCKS if reason is None else f"by one task, {reason}"


def one_task_because(window: WindowBy, item: ItemFacts) -> str | None:
    """Why the few rows around a block are not enough; None where they are. Tuples have order keys."""
    if window.label is not None:
        start = None if window.start.unbounded else classify(window, "start", item)
        end = None if window.end is None or window.end.unbounded else classify(window, "end", item)
        return None if frame_closing(window, item, start, end) else FAR
    if window.start.unbounded or (window.end is not None and window.end.unbounded):
        return "windows reach to its edge"
    if window.end is None:
        return None
    found = classify(window, "end", item)
    closing = () if found is None else closing_of(found, window, item)
    if found is None or not closing:
        return "the END of a later start may come before that of an earlier one"
    if not window.tumbling or has_one_length(window, found):
        return None
    if any(not found.conjunctions[n].compares for n in closing):
        return None
    return "where a window starts depends on all windows before it"


def has_one_length(window: WindowBy, found: Search) -> bool:
    """Whether every tuple may start a window and END counts from it (`ep - sp = 19`)."""
    if window.start.when is not None and window.start.when.sql("spark") != "TRUE":
        return False
    if len(found.conjunctions) != 1 or found.conjunctions[0].local or len(found.conjunctions[0].compares) != 1:
        return False
    (compare,) = found.conjunctions[0].compares
    roles = [p.role for p in (*compare.searched, *(p for p in compare.known if p.side))]
    return compare.operator == "=" and roles == ["position", "position"]

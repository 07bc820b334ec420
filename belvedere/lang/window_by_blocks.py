"""Why the windows of one long partition are found by one task, where they cannot be found block by block.

In: a WINDOW BY clause and its items' type. Out: the reason in words, or None for blocks. Blocks are rows that follow each other; a block
knows some rows before and behind it. That is enough where a window that starts before a cut surely ends soon behind it: END, or an
alternative of it, must never move back as the start moves on. TUMBLING windows also need a place where none is open whatever came before.
"""

from __future__ import annotations

from belvedere.lang.window_by import WindowBy
from belvedere.lang.window_by_classes import Item, Search, classify
from belvedere.lang.window_by_ranges import moves_on

BLOCKS = "in blocks, by as many tasks as there are cores"


def one_task_because(window: WindowBy, item: Item) -> str | None:
    """Why not in blocks; None where it is done so. Tuples have order keys."""
    if window.label is not None:
        return "START is looked for from the partition's first tuple on"
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


def closing_of(found: Search, window: WindowBy, item: Item, nullable: bool = False) -> tuple[int, ...]:
    """The places of END's alternatives that never move back as the start moves on; `nullable` as in `moves_on`."""
    descending = window.order[0].descending
    return tuple(n for n, c in enumerate(found.conjunctions) if moves_on(c, item, nullable, descending))


def has_one_length(window: WindowBy, found: Search) -> bool:
    """Whether every tuple may start a window and END counts from it (`ep - sp = 19`)."""
    if window.start.when is not None and window.start.when.sql("spark") != "TRUE":
        return False
    if len(found.conjunctions) != 1 or found.conjunctions[0].local or len(found.conjunctions[0].compares) != 1:
        return False
    (compare,) = found.conjunctions[0].compares
    roles = [p.role for p in (*compare.searched, *(p for p in compare.known if p.side))]
    return compare.operator == "=" and roles == ["position", "position"]

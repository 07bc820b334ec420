"""How the windows of one long partition are found: block by block, or by one task, and why.

In: a block with WINDOW BY and its items' type. Out: a sentence. Blocks are rows that follow each other; a block
knows some rows before and behind it. That is enough where a window that starts before a cut surely ends soon behind it: END, or an
alternative of it, must never move back as the start moves on. TUMBLING windows also need a place where none is open whatever came before.
Where it is not enough, the blocks tell each other of the windows that go from one into the next. Their aggregates are then computed in
parts, so they must have states that merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from belvedere.lang.window_by.classes import Item, Search, classify
from belvedere.lang.window_by.closing import closing_of, frame_closing, running_end
from belvedere.lang.window_by.functions import WINDOW_AGGREGATES, canonical
from belvedere.lang.window_by.names import variables_in
from belvedere.lang.window_by.tree import Block, QueryExpression, WindowBy

BLOCKS = "in blocks, by as many tasks as there are cores"
EXCHANGE = "in blocks that tell each other where their windows end"
PLAIN = f"{EXCHANGE}, if END compares numbers, times and truth values; else by one task, by the interpreter"
RUNNING = "in blocks that tell each other what their rows add up to"
FAR = "its windows may reach from anywhere before their labels to anywhere behind them"
WHOLE = frozenset({"MEDIAN", "PERCENTILE"})


def long_partition(block: Block, item: Item) -> str:
    """How one long partition is done; tuples have order keys."""
    window = block.window
    assert window is not None
    reason = one_task_because(window, item)
    if reason is None:
        return BLOCKS
    if window.label is not None and not runs(window, item):
        return f"by one task, {reason}"
    if wants_whole_windows(block):
        return f"by one task, {reason}, and medians, distinct values and arrays need all of a window's rows at once"
    if window.label is not None:
        return RUNNING
    unknown = window.end is not None and not window.end.unbounded and classify(window, "end", item) is None
    return PLAIN if unknown else EXCHANGE


def one_task_because(window: WindowBy, item: Item) -> str | None:
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


def wants_whole_windows(block: Block) -> bool:
    """Whether the query asks for something of its windows that cannot be computed in parts."""
    assert block.window is not None
    exprs: list[Any] = [let.value for let in block.window_lets]
    exprs += [block.window_having, block.select.value, *(s.expr for s in block.select.items)]
    return any(_is_whole(e, block.window.name.text) for e in exprs if e is not None)


def _is_whole(node: Any, window: str) -> bool:
    if isinstance(node, exp.Anonymous):
        function = canonical(node.name)
        argument = node.expressions[0] if node.expressions else None
        if function in ("LEN", "ARRAY_LENGTH") and _names(argument, window):
            return False
        if function in WINDOW_AGGREGATES and argument is not None:
            distinct = isinstance(argument, exp.Anonymous) and canonical(argument.name) == "ARRAY_DISTINCT"
            return window in variables_in(argument) and (distinct or function.split("_", 1)[1] in WHOLE)
    if isinstance(node, exp.Bracket) and _names(node.this, window):
        return isinstance(node.expressions[0], exp.Star)
    if isinstance(node, QueryExpression):
        return window in variables_in(node)
    return _names(node, window) or any(_is_whole(child, window) for child in _children(node))


def _names(node: Any, window: str) -> bool:
    return isinstance(node, exp.Column) and node.name == window


def _children(node: Any) -> Iterator[Any]:
    for value in node.args.values():
        yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr))


def runs(window: WindowBy, item: Item) -> bool:
    """Whether windows run from the partition's first tuple to an END near their labels; tuples have order keys."""
    if window.label is None or not window.start.unbounded or window.end is None or window.end.unbounded:
        return False
    return bool(running_end(window, item, classify(window, "end", item)))


def has_one_length(window: WindowBy, found: Search) -> bool:
    """Whether every tuple may start a window and END counts from it (`ep - sp = 19`)."""
    if window.start.when is not None and window.start.when.sql("spark") != "TRUE":
        return False
    if len(found.conjunctions) != 1 or found.conjunctions[0].local or len(found.conjunctions[0].compares) != 1:
        return False
    (compare,) = found.conjunctions[0].compares
    roles = [p.role for p in (*compare.searched, *(p for p in compare.known if p.side))]
    return compare.operator == "=" and roles == ["position", "position"]

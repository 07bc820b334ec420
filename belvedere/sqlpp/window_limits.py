"""END's limit: `END AS e WHEN condition WITHIN INTERVAL 1 HOUR`.

In: a block. Out: the block in which END has one alternative more: the tuple after END's is farther from START's tuple,
by ORDER BY's first key, than the limit. So a window ends at the first tuple with the condition, or at the last one
within the limit. The tuples that the alternative compares are variables with names that users cannot write.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.sqlpp.query_tree import Boundary, Expr, Name, QueryBlock, WindowBy, reference
from belvedere.sqlpp.substitute import substituted

HIDDEN = "$"
"""First character of variables that users cannot write."""


def limited(block: QueryBlock) -> QueryBlock:
    """Return the block with END's limit as an alternative of its condition."""
    window = block.window
    end = None if window is None else window.end
    if window is None or end is None or end.within is None:
        return block
    first = window.start.variables.item or Name(f"{HIDDEN}start")
    following = end.variables.next or Name(f"{HIDDEN}next")
    near, far = (_key(block, window, name.text) for name in (first, following))
    if window.order[0].descending:
        near, far = far, near
    distance = exp.GT(this=exp.Sub(this=far, expression=near), expression=end.within.copy())
    start = replace(window.start, variables=replace(window.start.variables, item=first))
    end = replace(_or(end, distance, end.within), variables=replace(end.variables, next=following), within=None)
    return replace(block, window=replace(window, start=start, end=end))


def _or(end: Boundary, alternative: Expr, limit: Expr) -> Boundary:
    """Return END with one alternative more, at the position of the limit."""
    alternative.meta["span"] = limit.meta["span"]
    if end.when is None:
        return replace(end, when=alternative)
    when = exp.Or(this=end.when, expression=alternative)
    when.meta.update(end.when.meta)
    return replace(end, when=when)


def _key(block: QueryBlock, window: WindowBy, variable: str) -> Expr:
    """Return ORDER BY's first key of a variable's tuple."""
    item, names = reference(variable), names_before(block)
    fields = {n: exp.Dot(this=item.copy(), expression=exp.to_identifier(n)) for n in names}
    return substituted(window.order[0].expr, fields if len(names) > 1 else dict.fromkeys(names, item))


def names_before(block: QueryBlock) -> tuple[str, ...]:
    """Return the variables of which an item of the block's WINDOW BY consists."""
    if block.group is not None:
        found = (*(k.name for k in block.group.keys), block.group.group, *(let.name for let in block.group_lets))
        return tuple(n.text for n in found if n is not None)
    terms = (n for s in block.sources for n in (s.variable, s.position))
    return tuple(n.text for n in (*terms, *(let.name for let in block.lets)) if n is not None)

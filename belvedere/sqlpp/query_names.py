"""Names that a query with WINDOW BY uses, and those of them that are tables.

In: syntax trees. Out: names. Nothing is typed or reported here.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import is_dataclass
from typing import Any

from sqlglot import exp

from belvedere.errors import Span
from belvedere.sqlpp.query_tree import MEMBER, Expr, Name, Query, QueryBlock, QueryExpression


def free_names(query: Query, known: Set[str] = frozenset()) -> set[str]:
    """Return the names that a query uses but does not declare, without `known` ones: its tables."""
    found: set[str] = set()
    for let in query.bindings:
        found |= free_in(let.value, known)
        known = known | {let.name.text}
    for block in query.blocks:
        found |= _free_of(block, known)
    rest = [*(k.expr for k in query.order), query.limit, query.offset]
    return found.union(*(free_in(e, known) for e in rest if e is not None))


def free_in(expr: Expr, known: Set[str] = frozenset()) -> set[str]:
    """Return the names that an expression uses, without `known` ones."""
    found = {c.name for c in expr.find_all(exp.Column)} - known
    return found.union(*(free_names(node.query, known) for node in expr.find_all(QueryExpression)))


def _free_of(block: QueryBlock, outer: Set[str]) -> set[str]:
    found: set[str] = set()
    own = outer
    for source in block.sources:
        found |= free_in(source.expr, own)
        own = own | {n.text for n in (source.variable, source.position) if n is not None}
    own = own | {let.name.text for let in (*block.lets, *block.group_lets)}
    if block.group is not None:
        own = own | {n.text for n in (*(k.name for k in block.group.keys), block.group.group) if n is not None}
    found = found.union(*(free_in(e, own) for e in before_window(block)))
    if block.window is not None:
        own = outer | {block.window.name.text, *block.window.variables, MEMBER}
    own = own | {let.name.text for let in block.window_lets}
    return found.union(*(free_in(e, own) for e in after_window(block)))


def before_window(block: QueryBlock) -> Iterator[Expr]:
    """Yield the expressions in the scope of FROM: all but SELECT in a block without WINDOW BY."""
    exprs: list[Any] = [s.condition for s in block.sources]
    exprs += [let.value for let in (*block.lets, *block.group_lets)] + [block.where, block.having]
    exprs += [k.value for k in block.group.keys] if block.group is not None else []
    if block.window is not None:
        exprs += [*block.window.partition, *(k.expr for k in block.window.order)]
    return (e for e in exprs if e is not None)


def after_window(block: QueryBlock) -> Iterator[Expr]:
    """Yield conditions of boundaries and the expressions after WINDOW BY; SELECT alone in a block without it."""
    exprs: list[Any] = [*(let.value for let in block.window_lets), block.window_having, *block.select.expressions]
    exprs += [b.when for _, b in block.window.boundaries] if block.window is not None else []
    return (e for e in exprs if e is not None)


def declared(block: QueryBlock) -> set[str]:
    """Return the names that a block declares."""
    found = {n.text for s in block.sources for n in (s.variable, s.position) if n is not None}
    found |= {let.name.text for let in (*block.lets, *block.group_lets, *block.window_lets)}
    if block.group is not None:
        found |= {n.text for n in (*(k.name for k in block.group.keys), block.group.group) if n is not None}
    return found if block.window is None else found | {block.window.name.text, *block.window.variables}


def parts_of(part: Any) -> Iterator[Any]:
    """Yield a part of a syntax tree and all of its parts, also in queries; for an expression only its queries."""
    parts = [part]
    while parts:
        part = parts.pop()
        yield part
        if isinstance(part, exp.Expr):
            parts += (node.query for node in part.find_all(QueryExpression))
        elif isinstance(part, tuple):
            parts += part
        elif is_dataclass(part) and not isinstance(part, Name | Span):
            parts += (inner for inner in vars(part).values() if inner)


def fields_read(query: Query, variable: str) -> Set[str] | None:
    """Return the folded names of a variable's fields that a query reads; None if it reads the whole value."""
    found = set()
    for expr in (p for p in parts_of(query) if isinstance(p, exp.Expr)):
        for node in (c for c in expr.find_all(exp.Column) if c.name == variable):
            if not isinstance(node.parent, exp.Dot):
                return None
            found.add(node.parent.expression.name.casefold())
    return found

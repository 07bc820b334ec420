"""The blocks that a query nests in FROM, from the outermost to the one that reads a table: what each passes on, row by row.

In: a query and the relation that its innermost block reads. Out: the blocks, and what the variables of one of them are by the columns of
the relation. Nothing is run or rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from belvedere.lang.window_by.joins import variables_of
from belvedere.lang.window_by.names import after_window, before_window, free_in
from belvedere.lang.window_by.relational import Beyond, ColumnObject, Meaning, known
from belvedere.lang.window_by.tree import Block, Expr, FromTerm, Name, Query, QueryExpression, Select, Selected
from belvedere.schema import Schema


def chain_of(query: Query) -> list[Block] | None:
    """The blocks from the outermost to the one that reads the table, where each passes rows on, or the members of their arrays."""
    if len(query.blocks) != 1 or query.bindings:
        return None
    block = query.blocks[0]
    if block.group is not None or block.select.distinct or not block.sources:
        return None
    own = {block.sources[0].variable.text}
    for source in block.sources[1:]:
        if not _is_unnest(source, own):
            return None
        own |= {n.text for n in (source.variable, source.position) if n is not None}
    inner = block.sources[0].expr
    if not isinstance(inner, QueryExpression):
        return [block]
    below = chain_of(inner.query)
    return None if below is None else [block, *below]


def _is_unnest(source: FromTerm, own: set[str]) -> bool:
    """Whether a term of FROM is a path from a variable before it."""
    root = source.expr
    while isinstance(root, (exp.Dot, exp.Bracket)):
        root = root.this
    return isinstance(root, exp.Column) and root.name in own


def queries_of(query: Query) -> Iterator[Query]:
    """The query and those that its FROM and WITH nest."""
    yield query
    for expr in (*(let.value for let in query.bindings), *(s.expr for b in query.blocks for s in b.sources)):
        if isinstance(expr, QueryExpression):
            yield from queries_of(expr.query)


def windowed_of(query: Query) -> Query:
    """The query of the one block with WINDOW BY in a chain, without the blocks around it."""
    while query.blocks[0].window is None:
        inner = query.blocks[0].sources[0].expr
        assert isinstance(inner, QueryExpression)
        query = inner.query
    return Query((query.blocks[0],))


def table_of(block: Block) -> str:
    """The name of the table that the innermost block below (or this one) reads."""
    expr = block.sources[0].expr
    return table_of(expr.query.blocks[0]) if isinstance(expr, QueryExpression) else str(expr.name)


def names_before(block: Block) -> tuple[str, ...]:
    """The variables that an item of the block's WINDOW BY is made of."""
    terms = [n.text for s in block.sources for n in (s.variable, s.position) if isinstance(n, Name)]
    return (*terms, *(let.name.text for let in block.lets))


def values_before(block: Block, schema: Schema) -> dict[str, Meaning]:
    """The block's variables before WINDOW BY, by the columns of the relation that the innermost block reads."""
    first, *others = block.sources
    name, expr = first.variable.text, first.expr
    values: dict[str, Meaning] = {}
    if isinstance(expr, QueryExpression):
        values[name] = _selected(expr.query.blocks[0], schema)
    else:
        values[name] = variables_of(name, schema)
    for source in others:
        for n in (source.variable, source.position):
            if n is not None:
                values[n.text] = Beyond(f"{n.text} is a member of an array")
    for let in block.lets:
        values[let.name.text] = known(let.value, values)
    return values


def _selected(block: Block, schema: Schema) -> Meaning:
    """What SELECT of a block without WINDOW BY makes."""
    values = values_before(block, schema)
    if block.select.value is not None:
        return known(block.select.value, values)
    fields: dict[str, Meaning] = {}
    for number, item in enumerate(block.select.items, 1):
        if item.expr is None:
            fields |= values
        elif not item.star:
            fields[item.name or f"${number}"] = known(item.expr, values)
        else:
            found = known(item.expr, values)
            if not isinstance(found, ColumnObject):
                return Beyond("an inner block selects all fields of an object")
            fields |= found.fields
    return ColumnObject(fields)


def hindrance(query: Query) -> str:
    """Why rows of a table that differ in PARTITION BY may share a window, or a result; nothing where that is not known."""
    if query.bindings:
        return "WITH"
    if len(query.blocks) > 1:
        return "UNION ALL"
    if query.limit is not None or query.offset is not None:
        return "LIMIT or OFFSET counts all results"
    block = query.blocks[0]
    if block.group is not None:
        return "GROUP BY before WINDOW BY" if block.window is not None else "GROUP BY"
    if block.select.distinct:
        return "DISTINCT compares all results"
    if block.sources and isinstance(block.sources[0].expr, QueryExpression):
        return hindrance(block.sources[0].expr.query)
    return ""


def reads_again(block: Block, table: str) -> bool:
    """Whether a block of a chain reads the table in some subquery, beside what its FROM passes on."""
    own = set(names_before(block))
    after = own if block.window is None else set(block.window.variables)
    before = (*(s.expr for s in block.sources[1:]), *before_window(block))
    return any(mentions(e, table, own) for e in before) or any(mentions(e, table, after) for e in after_window(block))


def mentions(expr: Expr, table: str, hidden: set[str]) -> bool:
    """Whether an expression names the table, where these names are variables."""
    return any(n.casefold() == table.casefold() for n in free_in(expr, hidden))


def tuples_of(query: Query, value: Expr) -> Query:
    """The query with this value for each tuple that WINDOW BY reads."""
    block = windowed_of(query).blocks[0]
    select = Select(items=(Selected(value, "one"),))
    return Query((replace(block, window=None, window_lets=(), window_having=None, select=select),))

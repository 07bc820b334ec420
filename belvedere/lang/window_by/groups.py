"""GROUP BY before WINDOW BY, or in a block below it, as a relation of its own: then windows follow the groups that changed.

In: a query and the nodes of the tables. Out: the groups as a node, one column for each key and for each aggregate of the block, and the
query over it. Only what makes the groups is said by the relational plan (WHERE, the keys, the arguments of aggregates); LET, HAVING and
SELECT over a group stay in the query's own language. Where the plan cannot say it with the same meaning, the query is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.functions.arrays import GROUP_AGGREGATES
from belvedere.functions.table import canonical
from belvedere.functions.window_by import is_number
from belvedere.lang.window_by.group import behind_group
from belvedere.lang.window_by.joins import ITEM, table_in, variables_of, within
from belvedere.lang.window_by.names import block_expressions, free_names, renamed
from belvedere.lang.window_by.relational import Meaning, Unsaid, condition, in_words, is_exact, known, never_fails, said
from belvedere.lang.window_by.tree import Block, Expr, FromTerm, Let, Name, Query, QueryExpression, Select, Selected
from belvedere.plan.nodes import Aggregate, Filter, Item, Node

ALL_GROUPS, GROUP = "@groups", "@group"
"""What the new query calls the groups, and one of them."""
FUNCTIONS: Mapping[str, tuple[type[Any], pa.DataType | None, str]] = {
    "SUM": (exp.Sum, None, ""), "AVG": (exp.Avg, pa.float64(), "double"), "MIN": (exp.Min, None, ""), "MAX": (exp.Max, None, ""),
}  # fmt: skip


@dataclass
class _Calls:
    """The aggregates of a block, in the order in which they stand."""

    found: list[Expr] = field(default_factory=list)

    def moved(self, expr: Expr) -> Expr:
        """The expression with a field of the group for each aggregate."""

        def change(node: Any) -> Any:
            if not isinstance(node, exp.Anonymous) or canonical(node.name) not in GROUP_AGGREGATES:
                return node
            if node not in self.found:
                self.found.append(node.copy())
            return _field(f"${self.found.index(node)}")

        changed: Expr = expr.transform(change)
        return changed


def grouped_of(query: Query) -> Block | None:
    """The block with GROUP BY among those that a query nests."""
    if len(query.blocks) != 1:
        return None
    block = query.blocks[0]
    if block.group is not None:
        return block
    inner = block.sources[0].expr if block.sources else None
    return grouped_of(inner.query) if isinstance(inner, QueryExpression) else None


def groups_of(query: Query, tables: Mapping[str, Node]) -> Node | str:
    """The groups of the one table that the query reads, or why they are not kept by themselves."""
    block = grouped_of(query)
    if block is None or block.group is None or block.group.group is not None:
        return "GROUP AS keeps the rows of a group" if block is not None else ""
    names = [k.name.text.casefold() for k in block.group.keys]
    source = block.sources[0] if len(block.sources) == 1 else None
    table = table_in(source, tables) if source is not None else None
    if source is None or table is None or table.schema.key is None:
        return "GROUP BY over something else than one table"
    if any(e.find(QueryExpression) for e in block_expressions(block)) and block.window is None:
        return "a subquery beside GROUP BY"
    if block.window is None and any(item.expr is None for item in block.select.items):
        return "SELECT * beside GROUP BY"
    if len(set(names)) < len(names) or _reads_tables(over_groups(query), tables):
        return "GROUP BY beside another use of the table"
    try:
        return _aggregate(block, source, table)
    except Unsaid as reason:
        return f"GROUP BY before WINDOW BY: {reason}"


def _reads_tables(query: Query, tables: Mapping[str, Node]) -> bool:
    return bool({n.casefold() for n in free_names(query)} & {n.casefold() for n in tables})


def _aggregate(block: Block, source: FromTerm, table: Node) -> Aggregate:
    assert block.group is not None
    name = source.variable.text
    variables: dict[str, Meaning] = {name: variables_of(name, table.schema)}
    for let in block.lets:
        variables[let.name.text] = known(let.value, variables)
    rows = table
    if block.where is not None:
        rows = Filter(table, never_fails(condition(block.where, variables), block.where).expr)
    keys = []
    for key in block.group.keys:
        found = never_fails(said(key.value, variables), key.value)
        if not is_exact(found.type):
            raise Unsaid(f"{in_words(key.value)} is a fraction, or an array or object")
        nullable = not isinstance(found.expr, exp.Column) or table.schema[found.expr.name].nullable
        keys.append(Item(key.name.text, found.expr, found.type, nullable))
    calls = _Calls()
    _moved(block, calls)
    aggregates = tuple(_call(call, f"${n}", variables) for n, call in enumerate(calls.found))
    return Aggregate(rows, tuple(keys), aggregates)


def _call(call: Expr, name: str, variables: Mapping[str, Meaning]) -> Item:
    """An aggregate as a column of the groups. Raises Unsaid."""
    function, argument = canonical(call.name), call.expressions[0]
    if function == "COUNT":
        counted = exp.Star() if isinstance(argument, exp.Star) else never_fails(said(argument, variables), argument).expr.copy()
        return Item(name, exp.Count(this=counted), pa.int64(), nullable=False)
    value = never_fails(said(argument, variables), argument)
    if function not in FUNCTIONS or not (is_exact(value.type) or is_number(value.type)):
        raise Unsaid(f"{in_words(call)} is not kept by itself")
    kind, type_, cast = FUNCTIONS[function]
    if function in ("SUM", "AVG"):
        if not is_number(value.type) or pa.types.is_decimal(value.type):
            raise Unsaid(f"{in_words(call)} is not kept by itself")
        whole = pa.types.is_integer(value.type)
        type_, cast = type_ or (pa.int64() if whole else pa.float64()), cast or ("bigint" if whole else "double")
        return Item(name, kind(this=exp.cast(value.expr.copy(), cast)), type_)
    return Item(name, kind(this=value.expr.copy()), value.type)


# -- the query over the groups --


def over_groups(query: Query) -> Query:
    """The query over the groups in place of the table."""
    block = query.blocks[0]
    if block.group is not None:
        return replace(query, blocks=(_over(block),))
    first, *rest = block.sources
    assert isinstance(first.expr, QueryExpression)
    inner = QueryExpression(query=over_groups(first.expr.query))
    return replace(query, blocks=(replace(block, sources=(replace(first, expr=inner), *rest)),))


def _over(block: Block) -> Block:
    """The block over groups; with WINDOW BY over a block that makes the tuples, whose variables are fields of `@row`."""
    groups, select = _moved(block, _Calls())
    if block.window is None:
        return replace(groups, select=select)
    names = frozenset(let.name.text for let in groups.lets)
    variables = tuple(Selected(exp.Column(this=exp.to_identifier(let.name.text)), let.name.text) for let in groups.lets)
    one = len(names) == 1
    inner = replace(groups, select=Select(value=variables[0].expr) if one else Select(items=variables))
    row = FromTerm(Name(ITEM), QueryExpression(query=Query((inner,))))

    def moved(expr: Expr) -> Expr:
        return renamed(expr, dict.fromkeys(names, ITEM)) if one else within(expr, names)

    window = replace(
        block.window,
        partition=tuple(moved(e) for e in block.window.partition),
        order=tuple(replace(k, expr=moved(k.expr)) for k in block.window.order),
    )
    return Block(block.select, (row,), window=window, window_lets=block.window_lets, window_having=block.window_having)


def _moved(block: Block, calls: _Calls) -> tuple[Block, Select]:
    """The block over groups without SELECT, its variables LETs; and its SELECT, where no WINDOW BY comes before that."""
    assert block.group is not None
    changed = behind_group(block, calls.moved)
    lets = (*(Let(k.name, _field(k.name.text)) for k in block.group.keys), *changed.group_lets)
    source = FromTerm(Name(GROUP), exp.Column(this=exp.to_identifier(ALL_GROUPS)))
    return Block(Select(), (source,), lets, changed.having), changed.select


def _field(name: str) -> Expr:
    return exp.Dot(this=exp.Column(this=exp.to_identifier(GROUP)), expression=exp.to_identifier(name))

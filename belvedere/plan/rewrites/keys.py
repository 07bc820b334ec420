"""Rewrite: every node carries its key.

A projection that dropped key columns gets them back as hidden columns, a union gets a hidden branch number, so that every
row of every relation has an identity that survives updates (SQRL: 'a join's key follows from its sides; else `_uid`').
In: a tree whose scans have keys. Out: an equivalent tree (same visible columns) whose `schema.key` is not None.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Distinct, Item, Join, JoinKind, Node, Project, SetOperation, Union, Values
from belvedere.schema import Column, is_engine_column

POSITION = "_position"
BRANCH = "_branch"
THERE = "_there"


def carry_keys(node: Node) -> Node:
    """The same relation with its key among its columns (hidden where the script does not show it)."""
    if isinstance(node, (Distinct, SetOperation)):
        # every column counts here: hidden key columns of the inputs would change the meaning
        return node.with_inputs(tuple(keep_columns(carry_keys(i), i.schema.names) for i in node.inputs))
    width = len(node.inputs[0].schema.columns) if node.inputs else 0
    node = node.with_inputs(tuple(carry_keys(i) for i in node.inputs))
    if isinstance(node, Project):
        return _carry_through_project(node)
    if isinstance(node, Join):
        return _mark_left(_part_names(node))
    if isinstance(node, Union):
        return _number_branches(node, width)
    if isinstance(node, Values) and node.schema.key is None:
        return _number_rows(node)
    return node


def keep_columns(node: Node, names: tuple[str, ...]) -> Node:
    """A projection on `names`, or the node itself where it has just these."""
    if node.schema.names == names:
        return node
    return Project(node, tuple(item_of(node.schema[n]) for n in names))


def _part_names(node: Join) -> Join:
    """Rename key columns that both sides have come to carry, so that the sides' names stay disjoint."""
    left = set(node.left.schema.names)
    taken = left | set(node.right.schema.names)
    items = []
    for c in node.right.schema:
        name = unused_name(c.name, taken) if c.name in left else c.name
        taken.add(name)
        items.append(item_of(c, name))
    if all(i.name == c.name for i, c in zip(items, node.right.schema, strict=True)):
        return node
    return replace(node, right=Project(node.right, tuple(items)))


def _mark_left(node: Join) -> Join:
    """Let a FULL join say where there is a left row, if its sides' keys do not."""
    keys = [side.schema[k] for side in node.inputs for k in side.schema.key or ()]
    if node.kind is not JoinKind.FULL or node.there is not None or not all(c.nullable for c in keys):
        return node
    return replace(node, there=unused_name(THERE, set(node.schema.names)))


def _carry_through_project(node: Project) -> Project:
    key = node.input.schema.key or ()
    present = {i.expr.name for i in node.items if isinstance(i.expr, exp.Column)}
    taken = {i.name for i in node.items}
    extra = []
    for name in key:
        if name in present:
            continue
        fresh = unused_name(name, taken)
        taken.add(fresh)
        extra.append(item_of(node.input.schema[name], fresh, hidden=True))
    return replace(node, items=node.items + tuple(extra)) if extra else node


def unused_name(name: str, taken: set[str], engine: bool = False) -> str:
    """`name`, or the first of `name_2`, `name_3`, ... that is free; hidden key columns begin with an underscore.

    Names that the engine needs are not free, but for its own columns (`engine`).
    """
    last = name.rpartition(".")[2]  # inside a query columns are called `alias.column`
    stem = last if last.startswith("_") else f"_{last}"
    fresh, n = stem, 1
    folded = {t.casefold() for t in taken}
    while fresh.casefold() in folded or (is_engine_column(fresh) and not engine):
        n += 1
        fresh = f"{stem}_{n}"
    return fresh


def _number_branches(node: Union, width: int) -> Union:
    """Give each branch slots for the key columns of all branches (NULL in the others'), then number the branches."""
    if node.branch is not None or node.key is not None:
        return node
    taken = set(node.branches[0].schema.names[:width])
    slots: list[tuple[str, int, str, pa.DataType]] = []  # name, branch, the branch's column, type
    for n, branch in enumerate(node.branches):
        own = set(branch.schema.names[:width])
        for k in branch.schema.key or ():
            if k not in own:
                slot = unused_name(f"_key{len(slots)}", taken)
                slots.append((slot, n, k, branch.schema[k].type))
                taken.add(slot)
    padded = []
    for n, branch in enumerate(node.branches):
        items = [item_of(c) for c in branch.schema.columns[:width]]
        for slot, owner, name, type_ in slots:
            items.append(Item(slot, column(name) if owner == n else exp.Null(), type_, hidden=True))
        padded.append(Project(branch, tuple(items)))
    return Union(tuple(padded), branch=unused_name(BRANCH, taken))


def item_of(c: Column, name: str | None = None, *, hidden: bool | None = None) -> Item:
    """The column as it is, as an item of a projection; perhaps under another name, hidden or shown."""
    return Item(name or c.name, column(c.name), c.type, c.nullable, c.hidden if hidden is None else hidden, c.doc)


def _number_rows(node: Values) -> Values:
    name = unused_name(POSITION, {c.name for c in node.columns})
    index = Column(name, pa.int32(), nullable=False, hidden=True)
    rows = tuple((*row, exp.Literal.number(n)) for n, row in enumerate(node.rows))
    return Values((*node.columns, index), rows, position=name)

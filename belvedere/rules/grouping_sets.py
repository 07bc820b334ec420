"""GROUPING SETS, ROLLUP and CUBE as plain aggregates, which are maintained group by group.

In: an aggregate with sets. Out: equivalent plans without sets. If accumulators can be used, every row counts once per
set and one aggregate holds all sets. Otherwise each set is an aggregate of its own over the same input. The language
rejects repeated sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Aggregate, Expr, Item, Node, Project, Union, Unnest
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import needs_clock
from belvedere.plan.unused_names import unused_name
from belvedere.rules.merge.accumulate import accumulate
from belvedere.rules.merge.merge_rule import MERGE
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.schema import Column


def grouping_number(node: Aggregate, names: tuple[str, ...]) -> int:
    """Return Spark's `grouping_id()` of a set: one bit per key, 1 for a key that is not in the set; the last key has
    the lowest bit."""
    return sum(1 << n for n, key in enumerate(reversed(node.keys)) if key.name not in names)


def as_one_aggregate(node: Aggregate) -> Node:
    """Return one aggregate by the keys and the set, over rows that are repeated for each set with the keys of that
    set.
    """
    sets = node.grouping_sets or ()
    taken = set(node.input.schema.names)
    each, number = once_for_each(node.input, [grouping_number(node, s) for s in sets], "_set", taken)
    keys = tuple(
        replace(k, name=fresh_name(f"_set_{n}", taken), hidden=True, nullable=True) for n, k in enumerate(node.keys)
    )
    shown = tuple(replace(k, expr=_where_it_counts(node, key, number)) for k, key in zip(keys, node.keys, strict=True))
    rows = Project(each, (*(item_of(c) for c in each.schema), *shown))
    by = tuple(replace(k, expr=column(own.name), nullable=True) for k, own in zip(node.keys, keys, strict=True))
    return in_order_of(node, Aggregate(rows, (*by, _set_item(node, column(number.name))), node.aggregates))


def as_aggregates(node: Aggregate) -> Node:
    """Return a union of one aggregate per set. Keys that are not in a set are NULL."""
    branches = []
    for names in node.grouping_sets or ():
        number = _set_item(node, _number(grouping_number(node, names)))
        own = Aggregate(node.input, (*(k for k in node.keys if k.name in names), number), node.aggregates)
        absent = {k.name for k in node.keys if k.name not in names}
        branches.append(Project(own, tuple(_item(c, c.name in absent) for c in node.schema)))
    return Union(tuple(branches), key=node.schema.key)


def once_for_each(rows: Node, numbers: Sequence[int], name: str, taken: set[str]) -> tuple[Node, Column]:
    """Return the rows repeated for each of the numbers, and the hidden column with the number."""
    number = Column(fresh_name(name, taken), pa.int64(), nullable=False, hidden=True)
    position = Column(fresh_name("_place", taken), pa.int32(), nullable=False, hidden=True)
    return Unnest(rows, exp.Array(expressions=[_number(n) for n in numbers]), (number,), position), number


def in_order_of(node: Aggregate, plain: Node) -> Project:
    """Return the columns of an aggregate in its order, from a plan that has them."""
    return Project(
        plain, tuple(replace(item_of(plain.schema[c.name]), hidden=c.hidden, doc=c.doc) for c in node.schema)
    )


def _set_item(node: Aggregate, expr: Expr) -> Item:
    return Item(node.grouping_id or "", expr, pa.int64(), nullable=False, hidden=True)


def _item(c: Column, absent: bool) -> Item:
    return replace(item_of(c), expr=exp.Null()) if absent else item_of(c)


def _where_it_counts(node: Aggregate, key: Item, number: Column) -> Expr:
    """Return the key's value in the sets that contain the key, and NULL in other sets."""
    sets = [_number(grouping_number(node, s)) for s in node.grouping_sets or () if key.name in s]
    if not sets:
        return exp.Null()
    test = exp.In(this=column(number.name), expressions=sets)
    return exp.Case(ifs=[exp.If(this=test, true=key.expr.copy())])


def _number(value: int) -> Expr:
    return exp.cast(exp.Literal.number(value), "bigint")


def fresh_name(name: str, taken: set[str]) -> str:
    """Return a name that is not in `taken`, and add it to `taken`."""
    fresh = unused_name(name, taken)
    taken.add(fresh)
    return fresh


def _applies(site: Site) -> Maintain | None:
    top = site.top
    if not isinstance(top, Aggregate) or not top.grouping_id or needs_clock(top):
        return None
    grows = site.builder.grows(top.input)
    merges = MERGE.name not in site.builder.options.off
    mergeable = merges and all(accumulate(i, top.input.schema, grows) for i in top.aggregates)
    return partial(site.maintain, as_one_aggregate(top) if mergeable else as_aggregates(top))


GROUPING_SETS = Rule("grouping sets", _applies)

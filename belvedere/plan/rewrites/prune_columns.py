"""Rewrite: columns that nobody reads are dropped as low as possible, and stacked projections become one.

In: a tree with keys. Out: an equivalent tree with the same columns at the top. Key columns are kept, so every node still
has the key that it had. Inputs of set operations and DISTINCT keep all their columns, since each counts there.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.plan.expressions import columns_of, replace_columns
from belvedere.plan.operators.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
)
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_nodes import TimeWindow
from belvedere.plan.rewrites.keys import item_of, keep_columns
from belvedere.plan.rewrites.rewrite import replace_scans


def prune(node: Node) -> Node:
    """The same relation, computed from the columns that matter."""
    return _prune(node, frozenset(node.schema.names))


def _prune(node: Node, wanted: frozenset[str]) -> Node:
    """The node with at least the wanted columns; it may keep others (its key)."""
    match node:
        case Project():
            return _project(node, wanted)
        case Join():
            return _join(node, wanted)
        case Aggregate():
            return _aggregate(node, wanted)
        case Window():
            items = tuple(i for i in node.items if i.name in wanted)
            window = replace(node, items=items)
            return _over(window, wanted) if items else _prune(node.input, wanted)
        case SplAggregate():
            return _spl(node, wanted)
        case SplJoin():
            return _spl_join(node, wanted)
        case Filter() | Unnest():
            return _over(node, wanted)
        case PredicateWindow():
            kept = node.with_results(wanted)
            return _over(kept, kept.reads.union(node.input.schema.key or ()))
        case TopK():
            return _over(node, wanted.union(node.partition, node.input.schema.key or ()))
        case TimeWindow():
            return _over(node, wanted.union((node.time,), node.partition))
        case Distinct() | SetOperation() | Union():
            return node.with_inputs(tuple(_exactly(i) for i in node.inputs))
        case Scan() | Values():
            return node
        case _:
            return node.with_inputs(tuple(_prune(i, frozenset(i.schema.names)) for i in node.inputs))


def _over(node: Node, wanted: frozenset[str]) -> Node:
    """The operator over what it reads of its one input, and what is wanted of that."""
    below = node.inputs[0]
    needed = wanted.union(*map(columns_of, node.expressions)).intersection(below.schema.names)
    return node.with_inputs((_prune(below, needed),))


def _exactly(node: Node) -> Node:
    """Pruned inside, with just the columns that it had: they count by position."""
    return keep_columns(_prune(node, frozenset(node.schema.names)), node.schema.names)


def _project(node: Project, wanted: frozenset[str]) -> Node:
    key = frozenset(node.schema.key or ())
    items = tuple(i for i in node.items if i.name in wanted | key)
    if not items:
        items = node.items[:1]
    below, items = _through(node.input, items)
    return Project(below, items)


def _through(below: Node, items: tuple[Item, ...]) -> tuple[Node, tuple[Item, ...]]:
    """The items over what is below projections that only rename, pruned: putting those into items computes nothing twice."""
    while isinstance(below, Project) and all(isinstance(i.expr, exp.Column) for i in below.items):
        inner = {i.name: i.expr for i in below.items}
        items = tuple(replace(i, expr=replace_columns(i.expr, inner)) for i in items)
        below = below.input
    read = frozenset(c for i in items for c in columns_of(i.expr))
    return _prune(below, read | frozenset(below.schema.key or ())), items


def _join(node: Join, wanted: frozenset[str]) -> Node:
    read = columns_of(node.condition) if node.condition is not None else frozenset()
    keys = frozenset(node.left.schema.key or ()) | frozenset(node.right.schema.key or ())
    needed = wanted | read | keys
    left = _prune(node.left, needed & frozenset(node.left.schema.names))
    half = node.kind in (JoinKind.SEMI, JoinKind.ANTI)
    right_wanted = (read if half else needed) | frozenset(node.right.schema.key or ())
    return replace(node, left=left, right=_prune(node.right, right_wanted & frozenset(node.right.schema.names)))


def _aggregate(node: Aggregate, wanted: frozenset[str]) -> Node:
    aggregates = tuple(i for i in node.aggregates if i.name in wanted)
    if not aggregates and not node.keys:
        aggregates = node.aggregates[:1]
    below, items = _through(node.input, (*node.keys, *aggregates))
    count = len(node.keys)
    return replace(node, input=below, keys=items[:count], aggregates=items[count:])


def _spl(node: SplAggregate, wanted: frozenset[str]) -> Node:
    aggregates = tuple(i for i in node.aggregates if i.name in wanted)
    if node.sort and not aggregates:
        aggregates = node.aggregates[:1]  # one row for each of the contents
    kept = wanted.union(node.schema.key or ())
    readings = tuple(r for r in node.readings if r.name in kept or r.name == node.pane)
    counts = tuple(c for c in node.counts if c.name in wanted)
    pruned = replace(node, aggregates=aggregates, readings=readings, counts=counts)
    read = {n for n in (node.order, node.clock, node.time, node.punctuation) if n is not None}
    return _over(pruned, node.window.columns.union(read))


def _spl_join(node: SplJoin, wanted: frozenset[str]) -> Node:
    read = columns_of(node.condition) if node.condition is not None else frozenset()
    sides = zip(node.inputs, node.windows, strict=True)
    return node.with_inputs(
        tuple(
            _prune(i, frozenset(i.schema.names) & (wanted | read | w.columns) | frozenset(i.schema.key or ())) for i, w in sides
        )
    )


def columns_read(plan: Node) -> dict[str, frozenset[str]]:
    """Of each relation that is scanned, by its name, the columns that make a difference to the rows of a plan."""
    found: dict[str, frozenset[str]] = {}
    for node in prune(replace_scans(plan, lambda scan: Project(scan, tuple(map(item_of, scan.schema))))).walk():
        for scan in (i for i in node.inputs if isinstance(i, Scan)):
            read = frozenset(scan.schema.names)
            if isinstance(node, Project | Aggregate):
                read &= frozenset().union(*map(columns_of, node.expressions))
            found[scan.relation] = found.get(scan.relation, frozenset()) | read
    return found

"""Indexes that a stored relation needs for the API's reads.

In: a catalog and a relation's id. Out: the smallest set of column lists for them. Reads use the key (a row by its key,
the order of pages), a view's own order, and the target side of relationships with their order. They also use the
columns that query templates and relationships compare with parameters, and those that the arguments of hints compare. A
view that is computed at read time passes these reads on to its inputs. Templates that scan by choice need no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import QueryArgument
from belvedere.catalog.relationships import TARGET, Relationship
from belvedere.optimize.covering import Columns, ReadBy, covering, read_by
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.nodes import Aggregate, Distinct, Expr, Filter, Join, Node, Project, Scan, Union
from belvedere.schema import HISTORY, Schema


def read_indexes(catalog: Catalog, relation: str) -> tuple[Columns, ...]:
    """Return the indexes of a stored relation that the API shows; empty for other relations."""
    relation = relation.removesuffix(HISTORY)  # versions are read by the same columns
    if relation not in catalog.public | catalog.placement.parts or relation in catalog.placement.at_read:
        return ()
    schema = catalog.schema_of(relation)
    requested = _asked(catalog, relation)
    for id_, plan in catalog.placement.at_read.items():
        requested += [*_of_plan(plan, relation), *_of_joins(plan, relation)]
        requested += [_read_below(read, plan, relation) for read in _asked(catalog, id_)]
    known = {c.name: c.type for c in schema}
    usable = [
        w for w in requested if all(n in known and not pa.types.is_nested(known[n]) for n in (*w.equal, *w.ordered))
    ]
    return covering(usable)


def _asked(catalog: Catalog, relation: str) -> list[ReadBy]:
    """Return the columns by which the API reads a relation, whether it is stored or not."""
    schema = catalog.schema_of(relation)
    requested = [read_by((), schema.key or ())]
    requested += [_of_relationship(r, schema) for r in catalog.relationships if r.target == relation]
    asking = (t for t in catalog.templates.values() if t.name not in catalog.placement.scanning)
    requested += [c for t in asking for c in _of_plan(t.plan, relation)]
    requested += _of_arguments(catalog.hints.query_by.get(relation, ()))
    view = catalog.views.get(relation)
    if view is not None and view.parent is not None:
        requested.append(read_by((own for own, _ in view.parent_key), (o.expr.name for o in view.order)))
    elif view is not None:
        requested.append(read_by((), (o.expr.name for o in view.order)))
    return requested


def _of_arguments(arguments: Iterable[QueryArgument]) -> list[ReadBy]:
    """Return the columns that are always given, and each other column after them."""
    required = [a.column for a in arguments if a.required]
    return [read_by(required, [a.column]) for a in arguments if not a.required] or [read_by(required)]


def _of_relationship(relationship: Relationship, schema: Schema) -> ReadBy:
    columns = [schema[own].name for _, own in relationship.pairs]
    equal, other = _compared(relationship.residual, schema) if relationship.parameters else ([], [])
    following = [] if relationship.order else other[:1]
    for order in relationship.order:
        found = schema.find(order.expr.name) if isinstance(order.expr, exp.Column) else None
        if found is None:
            break
        following.append(found.name)
    return read_by((*columns, *equal), following)


def _compared(condition: Expr | None, schema: Schema) -> tuple[list[str], list[str]]:
    """Return the target's columns that a relationship compares with parameters: first those compared for equality, then
    the others."""
    equal: list[str] = []
    other: list[str] = []
    for part in map(_bare, conjuncts(condition)):
        columns = {schema[c.name].name for c in part.find_all(exp.Column) if c.table == TARGET}
        alone = len(columns) == len(list(part.find_all(exp.Column))) == 1
        if alone and part.find(exp.Placeholder) is not None:
            (equal if isinstance(part, exp.EQ) else other).extend(columns)
    return equal, other


def _of_plan(plan: Node, relation: str) -> Iterator[ReadBy]:
    """Yield for each filter the columns that are compared for equality, then one that is compared otherwise."""
    for node in plan.walk():
        if not isinstance(node, Filter):
            continue
        names = _stored_names(node.input, relation)
        equal: list[str] = []
        other: list[str] = []
        for part in map(_bare, conjuncts(node.condition)):
            columns = {names.get(c.name) for c in part.find_all(exp.Column)}
            if len(columns) == 1:
                (equal if isinstance(part, exp.EQ) else other).extend(c for c in columns if c is not None)
        if equal or other:
            yield read_by(equal, other[:1])


def _of_joins(plan: Node, relation: str) -> Iterator[ReadBy]:
    """Yield the columns by which a join finds the rows of a relation."""
    for node in plan.walk():
        if not isinstance(node, Join):
            continue
        parts = [p for p in map(_bare, conjuncts(node.condition)) if isinstance(p, exp.EQ)]
        for side in node.inputs:
            mine = (
                c.name
                for p in parts
                for c in (p.this, p.expression)
                if isinstance(c, exp.Column) and side.schema.find(c.name)
            )
            yield read_by(_below(tuple(mine), side, relation))


def _read_below(read: ReadBy, plan: Node, relation: str) -> ReadBy:
    """Translate a read to a relation below.

    It keeps those equal columns that exist there, and its order if all of its columns exist there.
    """
    equal = [found for name in read.equal for found in _below((name,), plan, relation)]
    whole = len(equal) == len(read.equal)
    return read_by(equal, _below(read.ordered, plan, relation) if whole else ())


def _below(columns: Columns, plan: Node, relation: str) -> Columns:
    """Return the first of a plan's columns that are columns of a relation below, under their names there."""
    found: list[str] = []
    for name in columns:
        source = next((c for r, c in stored_columns(plan, name) if r == relation), None)
        if source is None:
            break
        found.append(source)
    return tuple(dict.fromkeys(found))


def stored_columns(node: Node, name: str) -> Iterator[tuple[str, str]]:
    """Yield the stored columns behind a column of a plan. Comparisons of the column can use these instead."""
    if isinstance(node, Scan):
        yield node.relation, node.schema[name].name
    elif isinstance(node, Union):
        for branch in node.branches if name != node.branch else ():
            yield from stored_columns(branch, branch.schema.names[node.branches[0].schema.names.index(name)])
    elif isinstance(node, Project | Aggregate):
        items = node.items if isinstance(node, Project) else node.keys
        item = next((i for i in items if i.name == name), None)
        if item is not None and isinstance(item.expr, exp.Column):
            yield from stored_columns(node.input, item.expr.name)
    elif isinstance(node, Filter | Distinct | Join):
        for below in node.inputs:
            if below.schema.find(name) is not None:
                yield from stored_columns(below, name)


def _stored_names(node: Node, relation: str) -> dict[str, str]:
    """Return the relation's names of a node's columns, if the node only renames them."""
    if isinstance(node, Scan):
        return {n: n for n in node.schema.names} if node.relation == relation else {}
    if isinstance(node, Filter):
        return _stored_names(node.input, relation)
    if not isinstance(node, Project):
        return {}
    inner = _stored_names(node.input, relation)
    found = {i.name: inner.get(i.expr.name) for i in node.items if isinstance(i.expr, exp.Column)}
    return {name: stored for name, stored in found.items() if stored is not None}


def _bare(part: Expr) -> Expr:
    return _bare(part.this) if isinstance(part, exp.Paren) else part

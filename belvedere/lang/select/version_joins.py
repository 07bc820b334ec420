"""`JOIN T FOR SYSTEM_TIME AS OF e.ts t ON t.k = e.k`: the version of T's row that was valid at the event's time.

In: a FROM item with a version, its relation, its ON. Out: the join in the frame's plan: the versions up to that time,
reduced to the last one per left row. So an update that arrives late corrects the result. Relations without versions are
rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.functions import spark_types as t
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.select.query_frame import Frame, named_source, scan
from belvedere.lang.select.subqueries import attach_all
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import column, columns_of, conjunction, conjuncts, equated, reads_clock
from belvedere.plan.operators.nodes import Expr, Filter, Join, JoinKind, Node, Order, Project, Scan, TopK
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import extend_items
from belvedere.plan.unused_names import unused_name
from belvedere.schema import TIMESTAMP, UID


@dataclass(frozen=True)
class RelationVersions:
    """All versions of a relation's rows: `plan` has the relation's columns and those of `order`, the last version
    first.

    `key` are the columns that identify the row of a version; None if only the join can identify it (append-only rows).
    """

    plan: Node
    order: tuple[Order, ...]
    key: tuple[str, ...] | None


def join_as_of(frame: Frame, item: exp.Table, relation: NamedRelation, kind: JoinKind, on: exp.Expr | None) -> None:
    """Join the versions valid at a time; the rest of ON is about the version found (SQRL, 'Functions and time')."""
    context = frame.context
    time = _time(frame, item)
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise context.fail(
            "B5032", f"a {kind.upper()} JOIN has no row with a time on its left", item, "write JOIN or LEFT JOIN"
        )
    found = versions_of(context.definitions, relation)
    if found is None:
        message = f"`{relation.name}` keeps no versions of its rows"
        raise context.fail("B5030", message, item, _hint(context.definitions, relation))
    left = carry_keys(frame.plan)
    right, source = named_source(found.plan, item.alias or relation.name, context.names, relation)
    internal = {c.name: c.internal for c in source.columns}
    shown = set(relation.schema.names)
    frame.scope.sources.append(replace(source, columns=tuple(c for c in source.columns if c.name in shown)))
    order = tuple(replace(o, expr=column(internal[o.expr.name])) for o in found.order)
    links, rest = _conditions(frame, item, on, left, right, found, internal)
    before = exp.LTE(this=order[0].expr.copy(), expression=time)
    joined = Join(left, right, kind, conjunction([*links, before]))
    frame.plan = TopK(joined, order, 1, partition=left.schema.key or (), alike=left.schema.names)
    if rest is None:
        return
    if kind is JoinKind.INNER:
        rest = attach_all(frame, rest)
        frame.plan = Filter(frame.plan, rest)
        return
    if rest.find(SubqueryValue) is not None:
        raise context.fail(
            "B3022", "a subquery in the ON of an outer join is not supported", item, "join the subquery first"
        )
    own = set(right.schema.names)
    only_if = {n: exp.Case(ifs=[exp.If(this=rest.copy(), true=column(n))]) for n in own}
    items = (
        replace(i, expr=only_if[i.name], nullable=True) if i.name in own else i for i in map(item_of, frame.plan.schema)
    )
    frame.plan = Project(frame.plan, tuple(items))


def _time(frame: Frame, item: exp.Table) -> Expr:
    context = frame.context
    version = item.args["version"]
    if version.name.upper() != "TIMESTAMP" or version.text("kind").upper() != "AS OF":
        hint = "write `JOIN T FOR SYSTEM_TIME AS OF e.ts t ON t.k = e.k`"
        raise context.fail("B3027", "only FOR SYSTEM_TIME AS OF is supported", item, hint)
    if frame.empty:
        hint = "name the events first: `FROM Events e JOIN T FOR SYSTEM_TIME AS OF e.ts t ON t.k = e.k`"
        raise context.fail("B5032", "FOR SYSTEM_TIME AS OF needs a table with a time on its left", item, hint)
    if version.expression is None:
        raise context.fail(
            "B1001", "a time is missing after FOR SYSTEM_TIME AS OF", item, "write `FOR SYSTEM_TIME AS OF e.ts`"
        )
    time = Resolver(frame).resolve(version.expression)
    if time.find(SubqueryValue) is not None:
        raise context.fail(
            "B5032",
            "the time of FOR SYSTEM_TIME AS OF cannot be a subquery",
            version.expression,
            "join the subquery first",
        )
    type_ = frame.inference().typed(time).type
    if type_ != TIMESTAMP:
        hint = "CAST it AS TIMESTAMP"
        raise context.fail(
            "B5001", f"the time of FOR SYSTEM_TIME AS OF is {t.a_type(type_)}, not a TIMESTAMP", version, hint
        )
    if reads_clock(time):
        hint = "join the table itself, which has the present rows"
        raise context.fail("B5032", "FOR SYSTEM_TIME AS OF now() is the present version", version.expression, hint)
    if not columns_of(time) <= set(frame.plan.schema.names):
        hint = "use the time of a row in this FROM"
        raise context.fail(
            "B5032", "the time of FOR SYSTEM_TIME AS OF belongs to the outer query", version.expression, hint
        )
    return time


def _conditions(
    frame: Frame,
    item: exp.Table,
    on: exp.Expr | None,
    left: Node,
    right: Node,
    found: RelationVersions,
    internal: dict[str, str],
) -> tuple[list[Expr], Expr | None]:
    """Return the equalities that identify the row, and the other conditions on the version found."""
    context = frame.context
    frame.plan = Join(left, right, JoinKind.INNER, None)
    condition = Resolver(frame).resolve(on) if on is not None else None
    if condition is not None:
        frame.inference().typed(condition)
        if frame.is_outer(condition):
            raise context.fail(
                "B3011", "a correlated condition is not supported in this join", item, "move the condition to WHERE"
            )
    keys = [internal[k] for k in found.key] if found.key is not None else None
    links: list[Expr] = []
    rest: list[Expr] = []
    fixed: set[str] = set()
    for part in conjuncts(condition):
        name = _linked_column(frame, part, left, right)
        if name is not None and (keys is None or name in keys):
            links.append(part)
            fixed.add(name)
        else:
            rest.append(part)
    missing = [k for k in keys or () if k not in fixed]
    if missing or not links:
        names = [k.rpartition(".")[2] for k in missing]
        what = (
            f"the key of `{item.name}`: {', '.join(f'`{n}`' for n in names)}" if names else f"a column of `{item.name}`"
        )
        alias = item.alias or item.name
        hint = f"write ON {' AND '.join(f'{alias}.{n} = ...' for n in names or ['k'])}, with a value of the same type"
        raise context.fail("B5031", f"ON must give {what}", on if on is not None else item, hint)
    return links, conjunction(rest)


def _linked_column(frame: Frame, part: Expr, left: Node, right: Node) -> str | None:
    """Return the right column that an equality with the left side fixes to one value ('1' = 1 and '01' = 1 do not)."""
    for name, other in equated(part):
        read = columns_of(other)
        if name in right.schema.names and read and read <= set(left.schema.names):
            types = (right.schema[name].type, frame.inference().type(other))
            if types[0] == types[1] or all(pa.types.is_integer(x) for x in types):
                return name
    return None


# -- versions ---------------------------------------------------------------------------------------------------------


def versions_of(definitions: Definitions, relation: NamedRelation) -> RelationVersions | None:
    """Return the versions of a relation's rows; None if it has none."""
    input_ = definitions.inputs.get(relation.id)
    if input_ is not None:
        times = [w.column for w in input_.watermarks]
        if len(times) != 1 or (input_.primary_key and times[0] not in input_.primary_key):
            return None
        key = tuple(k for k in input_.primary_key if k != times[0]) or None
        uid = (Order(column(UID), True),) if relation.schema.find(UID) is not None else ()
        return RelationVersions(scan(relation), (Order(column(times[0]), True), *uid), key)
    view = definitions.views.get(relation.id)
    return _versions(definitions, view.plan) if view is not None else None


def _versions(definitions: Definitions, node: Node) -> RelationVersions | None:
    match node:
        case Scan():
            return versions_of(definitions, definitions.relations[node.relation])
        case TopK() if node.limit == 1 and not node.offset and node.partition and _latest(node):
            # the rows from which the last one is selected
            return RelationVersions(node.input, node.order, node.partition)
        case Project():
            below = _versions(definitions, node.input)
            return None if below is None else _projected(below, node)
        case Filter() if not reads_clock(node.condition):
            below = _versions(definitions, node.input)
            return (
                None
                if below is None or below.key is not None
                else replace(below, plan=Filter(below.plan, node.condition))
            )
    return None


def _latest(node: TopK) -> bool:
    """Return whether the node selects the last row by a time."""
    if not node.order or not node.order[0].descending or not all(isinstance(o.expr, exp.Column) for o in node.order):
        return False
    return bool(node.input.schema[node.order[0].expr.name].type == TIMESTAMP)


def _projected(below: RelationVersions, node: Project) -> RelationVersions:
    """Return the same columns of every version; the columns of their order and key are added as hidden."""
    read = dict.fromkeys((*(o.expr.name for o in below.order), *(below.key or ())))
    project, names = extend_items(
        replace(node, input=below.plan), [item_of(below.plan.schema[n], unused_name(n, set())) for n in read]
    )
    kept = dict(zip(read, names, strict=True))
    order = tuple(replace(o, expr=column(kept[o.expr.name])) for o in below.order)
    return RelationVersions(project, order, tuple(kept[k] for k in below.key) if below.key is not None else None)


def _hint(definitions: Definitions, relation: NamedRelation) -> str:
    input_ = definitions.inputs.get(relation.id)
    key = ", ".join(input_.primary_key) if input_ is not None and input_.primary_key else "k"
    if input_ is not None and not input_.primary_key:
        return (
            f"declare its time column: `WATERMARK FOR c`, or write `V := DISTINCT {relation.name} ON k ORDER BY c "
            "DESC` and join V"
        )
    if input_ is not None:
        return f"declare the changes as a stream U, write `V := DISTINCT U ON {key} ORDER BY c DESC`, and join V"
    return "write `V := DISTINCT U ON k ORDER BY c DESC` over the changes U, and join V"

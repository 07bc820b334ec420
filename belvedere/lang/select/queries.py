"""Queries -> plans: WITH, set operations, and SELECT through `lower_select`.

In: a query as written and the definitions that it may use. Out: a plan whose visible columns are the query's outputs,
in order. Later steps add keys (`belvedere.plan.rewrites.keys`) and remove unused columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from belvedere.catalog.relationships import Relationship
from belvedere.errors import BelvedereError, Diagnostic, counted
from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.definitions import Definitions
from belvedere.lang.names.scope import FromItem, Scope
from belvedere.lang.select.query_frame import Frame, StatementContext, scan
from belvedere.lang.select.recursion import lower_recursion, references, refuse_later
from belvedere.lang.select.select import SelectLowering
from belvedere.lang.select.select_list import limit_parameter, limits, make_order, ordinal, sort_keys
from belvedere.lang.select.subqueries import Inner
from belvedere.lang.spl.lower_query import has_window, lower_window
from belvedere.lang.statements.lower_stream import emitted, lower_stream
from belvedere.plan.expressions import column, map_columns, row_number
from belvedere.plan.operators.nodes import (
    Distinct,
    Expr,
    Item,
    Node,
    Order,
    Project,
    Scan,
    SetKind,
    SetOperation,
    TopK,
    Union,
    Window,
)
from belvedere.plan.operators.project import item_of
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.schema import find_named, has_map
from belvedere.syntax.query_tree import WindowByBlock, emit_of, is_stream, span_of, unwrap_query
from belvedere.syntax.wording import did_you_mean, misfit

UNKNOWN = ("B2002", "B2004")
"""Codes for a name that may belong to the outer query."""


def new_context(
    definitions: Definitions, file: str, diagnostics: list[Diagnostic], parameters: dict[str, Typed] | None = None
) -> StatementContext:
    """Return a context for one statement."""
    return StatementContext(definitions, file, diagnostics, lower_subquery, lower_query, parameters=parameters or {})


def lower_query(query: exp.Query, context: StatementContext) -> Node:
    """Lower a whole query: visible columns are its outputs."""
    query = unwrap_query(query)
    if isinstance(query, WindowByBlock):
        return emitted(_window_by(query, context), query, context)
    context = with_tables(query, context)
    return emitted(_unemitted(query, context), query, context)


def _window_by(query: WindowByBlock, context: StatementContext) -> Node:
    """Lower a query in the language of WINDOW BY, over the script's tables and views."""
    from belvedere.sqlpp.lower import lower_window_query  # loaded only by scripts that use it

    definitions = context.definitions
    sources = {relation.name: scan(relation) for relation in definitions}
    start = span_of(query, context.file).start

    def follow(relation: str, name: str) -> tuple[Relationship, Scan] | None:
        step = next(iter(definitions.steps(definitions.relations[relation], [name])), None)
        return None if step is None or step.parameters else (step, scan(definitions.relations[step.target]))

    block, found = lower_window_query(
        query.text_of, sources, context.file, start, definitions.broken, definitions.functions, follow
    )
    context.diagnostics += [d for d in found if d not in context.diagnostics]
    return block


def _unemitted(query: exp.Query, context: StatementContext) -> Node:
    if isinstance(query, exp.Select) and has_window(query):
        return lower_window(query, context)
    if _streams(query):
        return lower_stream(query, context)
    _refuse_within(query, context)
    if isinstance(query, exp.Select):
        return SelectLowering(query, context).lower(named=True).plan
    if isinstance(query, exp.SetOperation):
        return _set_operation(query, context)
    return _limited(lower_query(query.this, context), query, context)


def _streams(query: exp.Expr) -> bool:
    """Return whether its first SELECT has STREAM."""
    while isinstance(query, exp.SetOperation):
        query = query.this
    return is_stream(query)


def _refuse_within(query: exp.Query, context: StatementContext) -> None:
    order: Any = query.args.get("order")
    if order is not None and order.args.get("within") is not None:
        raise context.fail("B5012", "ORDER BY ... WITHIN is for SELECT STREAM", order, "write SELECT STREAM")


def lower_nested(
    query: exp.Select, context: StatementContext, domain: Node, source: FromItem, implied: Sequence[Item]
) -> Inner:
    """Lower a local query of many rows per row of the enclosing table. `source` is that row's FROM item `_`, `implied`
    its key."""
    context = with_tables(query, context)
    return SelectLowering(query, context, None, domain=domain, sources=[source], implied=implied).lower(named=True)


def lower_subquery(
    query: exp.Query, context: StatementContext, outer: Scope | None, *, domain: Node | None = None
) -> Inner:
    """Lower a subquery of an expression, with its correlation to the outer row."""
    query = unwrap_query(query)
    refuse_stream_forms(query, context)
    context = with_tables(query, context)
    if isinstance(query, exp.Select):
        return SelectLowering(query, context, outer, domain=domain).lower(named=False)
    try:
        plan = lower_query(query, replace(context, repeats=True))
    except BelvedereError as error:
        if (
            outer is None
            or not isinstance(query, exp.SetOperation)
            or not any(d.code in UNKNOWN for d in error.diagnostics)
        ):
            raise
        return _linked_sets(query, context, outer, domain, error)
    prefix = context.names.fresh("value") + "."
    items = tuple(item_of(c, prefix + c.name) for c in plan.schema.visible)
    node = Project(plan, items)
    single = node.schema.key == () or carry_keys(node).schema.key == ()
    outputs = tuple(item_of(i.column) for i in items)
    return Inner(node, outputs, (), (), {}, single, grouped=True)


def _linked_sets(
    query: exp.SetOperation, context: StatementContext, outer: Scope, domain: Node | None, error: BelvedereError
) -> Inner:
    """Lower a set operation whose sides read columns of the outer query: the rows of each side for each row of the
    domain.

    Without a domain it only returns these columns: it is lowered again over their values.
    """
    if is_modified_set(query):
        raise error
    sides = [lower_subquery(side, context, outer, domain=domain) for side in (query.left, query.right)]
    used = {**sides[0].used, **sides[1].used}
    if domain is None:
        return replace(sides[0], used=used, pairs=(), residual=(), single=False, grouped=True, open=True, totals=None)
    prefix = context.names.fresh("value")
    links = {c.name: f"{prefix}.link.{c.name}" for c in domain.schema}
    names = [o.name.rpartition(".")[2] for o in sides[0].outputs]
    if len(sides[1].outputs) != len(names):
        raise error
    plans = []
    for side in sides:
        own = {outside.name: name for outside, name, _ in side.pairs}
        linked = (item_of(side.plan.schema[own[name]], link, hidden=False) for name, link in links.items())
        values = (
            item_of(o.column, f"{prefix}.{shown}", hidden=False) for shown, o in zip(names, side.outputs, strict=False)
        )
        plans.append(Project(side.plan, (*linked, *values)))
    left, right = _aligned(plans[0], plans[1], query, context)
    plan = _combined(left, right, query, context)
    outputs = tuple(item_of(c) for c in plan.schema.visible[len(links) :])
    pairs = tuple((column(name), link, True) for name, link in links.items())
    return Inner(plan, outputs, pairs, (), used, single=False, grouped=True)


def is_modified_set(query: exp.SetOperation) -> bool:
    """Return whether clauses follow the set operation."""
    return any(query.args.get(key) for key in ("order", "limit", "offset", "by_name"))


def refuse_stream_forms(query: exp.Query, context: StatementContext) -> None:
    """Reject EMIT, SELECT STREAM and WINDOW BY inside an expression."""
    if isinstance(query, WindowByBlock):
        raise context.fail(
            "B5020", "WINDOW BY is not allowed in an SQL expression", query, "write it as a view, and query the view"
        )
    if emit_of(query) is not None or _streams(query):
        raise context.fail(
            "B5010",
            "EMIT and STREAM are not allowed in a subquery of an expression",
            query,
            "write it as a view, and query the view",
        )
    if has_window(query):
        raise context.fail(
            "B5214",
            "a window is not allowed in a subquery of an expression",
            query,
            "write it as a view, and query the view",
        )
    _refuse_within(query, context)


def with_tables(query: exp.Query, context: StatementContext) -> StatementContext:
    """Return the context with the names of the query's WITH clause."""
    clause = query.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        refuse_later(clause.expressions, context)
    own: set[str] = set()
    for entry in clause.expressions:
        if entry.alias.casefold() in own:
            raise context.fail("B3073", f"WITH has `{entry.alias}` twice", entry, "give one of them another name")
        own.add(entry.alias.casefold())
        plan = _entry(entry, context, bool(clause.args.get("recursive")))
        context = replace(context, tables={**context.tables, entry.alias.casefold(): plan})
    return context


def _entry(entry: exp.CTE, context: StatementContext, recursive: bool) -> Node:
    """Return the plan of one name of a WITH clause."""
    if recursive and references(entry.this, entry.alias):
        return lower_recursion(entry, context)
    plan = lower_query(entry.this, replace(context, repeats=True))
    names = [c.name for c in entry.args["alias"].columns]
    if names and len(names) != len(plan.schema.visible):
        raise context.fail("B3025", misfit(entry.alias, plan.schema.visible, names), entry)
    return (
        Project(plan, tuple(item_of(c, n) for n, c in zip(names, plan.schema.visible, strict=True))) if names else plan
    )


# -- set operations ---------------------------------------------------------------------------------------------------


SHORT = 16
"""Maximum number of queries in a chain of UNION ALL that becomes a tree of pairs. A longer chain becomes one operator,
to limit the depth."""


def _chain(query: exp.SetOperation) -> list[Any]:
    """Return the queries of `a UNION ALL b UNION ALL c`, if only the last has clauses for the whole."""
    parts: list[exp.Expr] = []
    this: exp.Expr = query
    while (
        isinstance(this, exp.Union)
        and this.args.get("distinct") is False
        and not (this is not query and _is_said_of(this))
    ):
        if this.args.get("by_name"):
            break
        parts.append(this.expression)
        this = this.this
    return [this, *reversed(parts)]


def _is_said_of(query: exp.Expr) -> bool:
    return any(query.args.get(key) for key in ("with_", "order", "limit", "offset", "emit"))


def _united(parts: Sequence[Any], query: exp.SetOperation, context: StatementContext) -> Node:
    left = lower_query(parts[0], context)
    united: list[Node] = []
    for part in parts[1:]:
        first, right = _aligned(left, lower_query(part, replace(context, repeats=True)), query, context)
        united = [*united, right] if united and first is left else [first, right]
        left = Union(tuple(united))
    return left


def _set_operation(query: exp.SetOperation, context: StatementContext) -> Node:
    chain = _chain(query)
    if len(chain) > SHORT:
        return _limited(_united(chain, query, context), query, context)
    left = lower_query(query.left, context)
    right = lower_query(query.right, replace(context, repeats=True))
    if query.args.get("by_name"):
        right = _by_name(left, right, query, context)
    left, right = _aligned(left, right, query, context)
    return _limited(_combined(left, right, query, context), query, context)


def _combined(left: Node, right: Node, query: exp.SetOperation, context: StatementContext) -> Node:
    """Return the operation itself, over sides of the same columns."""
    distinct = query.args.get("distinct") is not False
    if isinstance(query, exp.Union):
        node: Node = Union((left, right))
        return Distinct(node) if distinct else node
    _refuse_maps(left, query, context)
    kind = SetKind.INTERSECT if isinstance(query, exp.Intersect) else SetKind.EXCEPT
    return SetOperation(left, right, kind) if distinct else _counted(left, right, kind, context)


def _refuse_maps(side: Node, query: exp.Expr, context: StatementContext) -> None:
    found = next((c for c in side.schema.visible if has_map(c.type)), None)
    if found is not None:
        message = (
            f"column `{found.name}` is {t.a_type(found.type)}, which {type(query).__name__.upper()} cannot compare"
        )
        raise context.fail("B3053", message, query, f"select map_entries({found.name})")


def _by_name(left: Node, right: Node, query: exp.Expr, context: StatementContext) -> Node:
    names = [c.name for c in right.schema.visible]
    if len(names) > len(left.schema.visible):
        extra = next(n for n in names if n.casefold() not in {c.name.casefold() for c in left.schema.visible})
        raise context.fail(
            "B2002", f"column `{extra}` is missing on the left", query, "select the same columns on both sides"
        )
    items = []
    for c in left.schema.visible:
        found = find_named(right.schema.visible, c.name)
        if found is None:
            raise context.fail(
                "B2002", f"column `{c.name}` is missing on the right", query, did_you_mean(c.name, names)
            )
        items.append(item_of(found))
    return Project(right, tuple(items))


def _aligned(left: Node, right: Node, query: exp.Expr, context: StatementContext) -> tuple[Node, Node]:
    """Return both sides with the same number of columns and the same types; names are the left's."""
    a, b = left.schema.visible, right.schema.visible
    if len(a) != len(b):
        sides = f"{counted(len(a), 'column')} and {counted(len(b), 'column')}"
        message = f"the sides of {type(query).__name__.upper()} have {sides}"
        raise context.fail("B3052", message, query, "select the same number of columns on both sides")
    types = []
    for x, y in zip(a, b, strict=True):
        common = t.common_type(x.type, y.type)
        if common is None:
            message = f"column `{x.name}` is {t.a_type(x.type)} on the left and {t.a_type(y.type)} on the right"
            raise context.fail("B3053", message, query, "CAST one of them")
        types.append(common)
    names = [c.name for c in a]
    return _cast(left, names, types), _cast(right, names, types)


def _cast(plan: Node, names: Sequence[str], types: Sequence[Any]) -> Node:
    visible = plan.schema.visible
    if len(visible) == len(plan.schema.columns) and all(
        c.name == n and c.type == x for c, n, x in zip(visible, names, types, strict=True)
    ):
        return plan
    items = []
    for c, name, type_ in zip(visible, names, types, strict=True):
        expr: Expr = column(c.name)
        items.append(Item(name, expr if c.type == type_ else t.cast(expr, type_), type_, c.nullable, doc=c.doc))
    return Project(plan, tuple(items))


def _counted(left: Node, right: Node, kind: SetKind, context: StatementContext) -> Node:
    """Lower the ALL forms: the n-th copy of a row on the left matches the n-th on the right."""
    number = context.names.fresh("copy")
    sides = [_numbered(carry_keys(side), number) for side in (left, right)]
    node = SetOperation(sides[0], sides[1], kind)
    return Project(node, tuple(item_of(c) for c in node.schema if c.name != number))


def _numbered(side: Node, number: str) -> Node:
    visible = side.schema.visible
    keys = [exp.Ordered(this=column(k), nulls_first=True) for k in side.schema.key or ()] or [
        exp.Ordered(this=exp.Literal.number(1))
    ]
    window = row_number([column(c.name) for c in visible], exp.Order(expressions=keys))
    node = Window(side, (Item(number, window, t.INT32, False),))
    items = (*map(item_of, visible), Item(number, column(number), t.INT32, False))
    return Project(node, items)


def _limited(node: Node, query: exp.Query, context: StatementContext) -> Node:
    """Apply ORDER BY and LIMIT around a set operation, over its output columns."""
    limit, offset = limits(query, context)
    most = limit_parameter(query, context)
    orders = []
    for written in sort_keys(query, len(node.schema.visible)):
        orders.append(_output_order(node, written, context))
        Frame(context).check_order(orders[-1].expr, written, node)
    if not orders and limit is None and not offset and not most:
        return node
    return TopK(node, tuple(orders), limit, offset, most=most)


def _output_order(node: Node, ordered: exp.Expr, context: StatementContext) -> Order:
    written = ordered.this if isinstance(ordered, exp.Ordered) else ordered
    position = ordinal(written)
    visible = node.schema.visible
    if position is not None and 1 <= position <= len(visible):
        return make_order(ordered, column(visible[position - 1].name))

    def change(part: exp.Column) -> Expr:
        found = find_named(visible, part.name)
        if found is None:
            hint = did_you_mean(part.name, [c.name for c in visible])
            raise context.fail("B2002", f"column `{part.name}` is not defined", part, hint)
        return column(found.name)

    return make_order(ordered, map_columns(written, change))

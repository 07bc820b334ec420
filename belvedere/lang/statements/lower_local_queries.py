"""`T.c := SELECT ...`: a local query defines a column, or a nested table.

In: the query with `_` for the owner's row. Out: a new version of the owner, or a table under it with `parent` and the
owner's key.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.errors import Diagnostic, Severity, fail
from belvedere.lang.endpoints.view_order import ordered_plan, unlimited
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.relationships.local_tables import inline_local_tables
from belvedere.lang.relationships.path_aggregates import is_scalar
from belvedere.lang.relationships.paths import target_column
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.queries import lower_nested
from belvedere.lang.select.query_frame import StatementContext, named_source, scan
from belvedere.lang.select.select_list import output_name
from belvedere.lang.statements.lower_columns import add_column
from belvedere.lang.statements.lower_inputs import link_nested
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.plan.operators.project import item_of
from belvedere.plan.unused_names import unused_name
from belvedere.syntax.query_tree import WindowByBlock, unwrap_query
from belvedere.syntax.statement_tree import DefineLocalQuery


def define_local_query(script: ScriptLowering, statement: DefineLocalQuery) -> None:
    """Define `T.c := SELECT ...`: one aggregate without GROUP BY is a column, everything else a nested table."""
    owner = script.owner(statement.path.owner, statement.path.span)
    statement = replace(statement, query=inline_local_tables(statement.query))
    query = unwrap_query(statement.query)
    if isinstance(query, WindowByBlock):
        hint = "write it as a view, and a relationship to it"
        raise fail("B5020", "WINDOW BY is not allowed in a local query", span=statement.span, hint=hint)
    if not isinstance(query, exp.Select):
        raise fail(
            "B4023",
            "a local query must be one SELECT",
            span=statement.span,
            hint="define the set operation as a view first",
        )
    if is_scalar(query):
        add_column(script, owner, statement.path, exp.Subquery(this=statement.query), statement.span, statement.doc)
        return
    define_nested(script, owner, statement, query)
    if query.args.get("group") is None and not any(map(contains_aggregate, query.expressions)):
        message = f"`{statement.path.text}` is a nested table: its rows are stored for each row of `{owner.name}`"
        hint = "a relationship is `SELECT *` FROM one table, with WHERE, ORDER BY and LIMIT: nothing is stored for it"
        span = statement.path.span
        script.diagnostics.append(Diagnostic("B4026", message, Severity.NOTICE, span, hint=hint))


def define_nested(script: ScriptLowering, owner: NamedRelation, statement: DefineLocalQuery, query: exp.Select) -> None:
    """Define a table under the owner: its rows per row of the owner."""
    context = script.context()
    domain, source = named_source(scan(owner), OWNER, context.names, owner)
    source = replace(source, bare=False)
    query = _implied_group(query, context)
    implied = []
    for key in owner.schema.key or ():
        internal = domain.schema[target_column(source, key)]
        implied.append(item_of(internal, context.names.fresh(unused_name(key, set())), hidden=False))
    inner = lower_nested(query, context, domain, source, implied)
    name = f"{owner.name}.{statement.path.last.text}"
    pairs = tuple((i.name, key) for i, key in zip(implied, owner.schema.key or (), strict=True))
    taken = {o.name for o in inner.outputs}
    clash = {own for own, _ in pairs} & taken
    if clash:
        raise fail(
            "B3043",
            f"column `{clash.pop()}` is already used by the parent's key",
            span=statement.span,
            hint="use another name",
        )
    plan, order = ordered_plan(inner.plan)
    nested = script.add_view(
        name,
        unlimited(plan),
        statement.span,
        statement.doc,
        parent=(owner, pairs),
        order=order,
        query=context.query(query, owner=owner.id),
    )
    link_nested(script.definitions, owner, nested, statement.path.last.text, statement.doc)


def _implied_group(query: exp.Select, context: StatementContext) -> exp.Select:
    """Group by the plain outputs (and the parent's key) if there are aggregates beside them and no GROUP BY."""
    items = query.expressions
    aggregated = [i for i in items if contains_aggregate(i)]
    if query.args.get("group") is not None or not aggregated or len(aggregated) == len(items):
        return query
    plain = [i for i in items if not contains_aggregate(i)]
    names = ", ".join(output_name(i) for i in plain)
    context.notice("B4024", f"grouped by the parent's key and {names}", plain[0], f"write GROUP BY {names}")
    grouped = query.copy()
    grouped.set("group", exp.Group(expressions=[i.unalias().copy() for i in plain]))
    return grouped

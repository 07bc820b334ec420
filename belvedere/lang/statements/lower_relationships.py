"""`T.r := JOIN X x ON ... ORDER BY ... LIMIT n`: a named join, instantiated in each path that uses it.

In: the statement and the script so far. Out: the owner with one more relationship; a join through other tables becomes
a nested table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER, TARGET, Relationship, relationship_column
from belvedere.errors import fail
from belvedere.lang.endpoints.parameters import declared_parameters, typed_parameters
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem
from belvedere.lang.relationships.relationship_joins import spelled_out, with_equalities
from belvedere.lang.relationships.selected_relationships import selected_relationship
from belvedere.lang.select.from_items import find_relation, lower_item
from belvedere.lang.select.query_frame import Frame, named_source, scan
from belvedere.lang.select.select_list import check_limit, make_order
from belvedere.lang.statements.lower_computed_relationships import define_computed, refuse_taken
from belvedere.lang.statements.lower_local_queries import define_local_query, define_nested
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import conjunction, conjuncts, map_columns
from belvedere.plan.operators.nodes import Expr, JoinKind, Order
from belvedere.syntax.query_tree import path_of
from belvedere.syntax.statement_tree import DefineLocalQuery, DefineRelationship


def define_by_query(script: ScriptLowering, statement: DefineLocalQuery) -> None:
    """Define `T.r := SELECT ...`: unchanged rows of one relation are a relationship; computed rows are a column or a
    nested table."""
    relationship = selected_relationship(statement, script.definitions)
    if relationship is not None and _define(script, relationship):
        if not statement.parameters:  # with parameters it can only be a relationship
            script.selected.append(statement.path)
    elif statement.parameters:
        define_computed(script, statement)
    else:
        define_local_query(script, statement)


def define_relationship(script: ScriptLowering, statement: DefineRelationship) -> None:
    """Define `T.r := JOIN X x ON ... ORDER BY ... LIMIT n`."""
    if not _define(script, statement):
        hint = "put it into a view, or add the related value as a column first"
        raise fail("B4011", "a subquery or path in a relationship is not supported", span=statement.span, hint=hint)


def _define(script: ScriptLowering, statement: DefineRelationship) -> bool:
    """Define the relationship if its condition and order read only its two rows; return whether they do."""
    owner = script.owner(statement.path.owner, statement.path.span)
    owner = script.definitions.relations[owner.id]
    name = statement.path.last.text
    refuse_taken(script.definitions, owner, statement.path)
    parameters = declared_parameters(statement.parameters)
    context = script.context(typed_parameters(parameters))
    frame = Frame(context)
    frame.plan, source = named_source(scan(owner), OWNER, context.names, owner)
    frame.scope.sources.append(replace(source, bare=False))
    statement = spelled_out(frame, statement)
    simple = len(statement.joins) == 1 and _plain_target(statement.joins[0])
    if not simple:
        if parameters:
            define_computed(script, _as_local_query(statement))
        else:
            _define_through(script, owner, statement)
        return True
    join = statement.joins[0]
    target = find_relation(frame, path_of(join.this))
    right, targets = lower_item(frame, join.this)
    frame.scope.sources += targets
    frame.join(right, JoinKind.INNER, None)
    conditions = []
    for written in (join.args.get("on"), statement.where):
        for part in conjuncts(written):
            if part.find(exp.Query) is not None:
                raise context.fail("B4011", "a subquery in a relationship is not supported", part, "put it into a view")
            resolved = Resolver(frame).resolve(part)
            if resolved.find(SubqueryValue) is not None:
                return False
            frame.inference().typed(resolved)
            conditions.append(_named(resolved, source, targets[0]))
    orders = _relationship_order(statement, frame, source, targets[0])
    if any(o.expr.find(SubqueryValue) is not None for o in orders):
        return False
    pairs, residual = _split(conditions)
    if statement.most:
        check_limit(
            statement.most, context.parameters, statement.span, f"{statement.path.text}({statement.most} INT) := ..."
        )
    alias = join.this.alias
    definition = Relationship(
        owner.id, name, target.id, pairs, residual, orders, statement.limit, statement.span, statement.doc, alias,
        parameters=parameters,
        most=statement.most or "",
    )  # fmt: skip
    script.definitions.relate(definition)
    return True


def _plain_target(join: exp.Join) -> bool:
    plain = isinstance(join.this, exp.Table) and isinstance(join.this.this, exp.Identifier)
    return plain and path_of(join.this)[0].name != OWNER


def _relationship_order(
    statement: DefineRelationship, frame: Frame, source: FromItem, target: FromItem
) -> tuple[Order, ...]:
    orders = []
    for written in statement.order:
        expr = Resolver(frame).resolve(written.this)
        frame.check_order(expr, written)
        orders.append(make_order(written, _named(expr, source, target)))
    return tuple(orders)


def _named(expr: Expr, source: FromItem, target: FromItem) -> Expr:
    """Return internal columns as `_.name` and `target.name`."""
    names = {c.internal: (OWNER, c.name) for c in source.columns} | {
        c.internal: (TARGET, c.name) for c in target.columns
    }
    return map_columns(expr, lambda c: relationship_column(*names[c.name]))


def _define_through(script: ScriptLowering, owner: NamedRelation, statement: DefineRelationship) -> None:
    """Define a join through other tables: its rows are stored as a nested table with the last table's columns."""
    local = _as_local_query(statement)
    assert isinstance(local.query, exp.Select)
    define_nested(script, owner, local, local.query)
    current = script.definitions.relations[owner.id]
    relationship = current.relationship(statement.path.last.text)
    if relationship is not None and statement.limit is not None:
        script.definitions.relate(replace(relationship, limit=statement.limit))


def _as_local_query(statement: DefineRelationship) -> DefineLocalQuery:
    query = joined_query(statement)
    if statement.order:
        query.set("order", exp.Order(expressions=[o.copy() for o in statement.order]))
    if statement.limit is not None:
        query.set("limit", exp.Limit(expression=exp.Literal.number(statement.limit)))
    return DefineLocalQuery(
        span=statement.span, doc=statement.doc, path=statement.path, query=query, parameters=statement.parameters
    )


def joined_query(statement: DefineRelationship) -> exp.Select:
    """Return the last table's columns over the joins, without ORDER BY and LIMIT."""
    first, last = statement.joins[0], statement.joins[-1].this
    first = with_equalities(first) if first.args.get("using") else first
    query = exp.Select(expressions=[exp.Column(this=exp.Star(), table=exp.to_identifier(last.alias_or_name))])
    query.set("from_", exp.From(this=first.this.copy()))
    query.set("joins", [j.copy() for j in statement.joins[1:]])
    conditions = [p for p in (first.args.get("on"), statement.where) if p is not None]
    if conditions:
        query.set("where", exp.Where(this=exp.and_(*conditions)))
    return query


def _split(conditions: Sequence[Expr]) -> tuple[tuple[tuple[str, str], ...], Expr | None]:
    """Split conditions into equalities between a column of the owner and one of the target, and the rest."""
    pairs, residual = [], []
    for condition in conditions:
        inner = condition.unnest()
        sides = (inner.this, inner.expression) if isinstance(inner, exp.EQ) else ()
        tables = {s.table: s.name for s in sides if isinstance(s, exp.Column)}
        if set(tables) == {OWNER, TARGET}:
            pairs.append((tables[OWNER], tables[TARGET]))
        else:
            residual.append(condition)
    return tuple(pairs), conjunction(residual)

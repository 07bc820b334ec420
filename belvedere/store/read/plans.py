"""A query template's plan as SQL over stored relations.

In: a plan over stored relations, with placeholders. Out: a SELECT whose columns are those of the plan's schema, in
stored forms. It prints only what the store computes exactly as Spark does (B8020), and refuses a template that reads
unstored relations (B8021).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from belvedere.catalog.shown_names import IMPORTED, is_earlier, shown_names
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import BelvedereError, fail
from belvedere.plan.operators.nodes import (
    Aggregate,
    Filter,
    Node,
    Order,
    Project,
    Scan,
    TopK,
)
from belvedere.plan.operators.recursion import Recursion
from belvedere.spark_sql.dialect import SparkSql
from belvedere.store.dialects import dialects_for
from belvedere.store.dialects.dialect import Dialect
from belvedere.store.identifiers import identifier
from belvedere.store.read.operators import Bind, Plans, Rows
from belvedere.store.read.query import Sort
from belvedere.store.read.recursive import recursive_select
from belvedere.store.read.shared_sets import Sets
from belvedere.store.read.typed_sql import CLOCK, TypedSql


def _to_store(relation: str) -> str:
    """Return the hint on a relation that is not stored."""
    if IMPORTED in relation:
        return "it belongs to another script: import it, too"
    if is_earlier(relation):
        return "write this definition behind the last definition of the name, or of its column"
    return "give the view a name without a leading underscore"


def check_template(template: QueryTemplate, stored: Collection[str], database: str | None = None) -> None:
    """Raise B8020 or B8021 if a template cannot be answered from a store in this kind of database; None: in any."""
    for node in template.plan.walk():
        if isinstance(node, Scan) and node.relation not in stored:
            message = f'{template.title} reads "{shown_names(node.relation)}", which is not stored'
            raise fail("B8021", message, span=template.span, hint=_to_store(node.relation))
    for dialect in dialects_for(database):
        arguments = {p.name: TypedSql("?", p.type) for p in template.all_parameters}
        try:
            print_plan(template.plan, dialect, arguments)
            plan_order(template.plan)
        except BelvedereError as error:
            found = error.diagnostics[0]
            message = f"{template.title}: {found.message}"
            raise fail(found.code, message, span=template.span, hint=found.hint) from error


def print_plan(
    node: Node,
    dialect: Dialect,
    arguments: Mapping[str, TypedSql],
    bind: Bind | None = None,
    clock: str = CLOCK,
    rows: Rows = identifier,
    sets: Sets | None = None,
) -> str:
    """Return the plan as one SELECT.

    `bind` returns the SQL of arguments that are not plain values: patterns, and numbers of rows.

    `sets`: receives the sets of values that EXISTS tests, so that each is computed once, if the database supports sets.
    Pass it if there are many rows; without it, EXISTS looks values up for each row.
    """
    return Plans(dialect, arguments, bind, clock, rows, sets, {Recursion: recursive_select}).query(node)


def plan_order(node: Node) -> tuple[Sort, ...]:
    """Return the order that the plan's ORDER BY gives its result, in columns of the result."""
    names = {n: n for n in node.schema.names}
    while isinstance(node, Project):
        kept = {i.name: i.expr.name for i in node.items if isinstance(i.expr, exp.Column)}
        names = {kept[inner]: outer for inner, outer in names.items() if inner in kept}
        node = node.input
    if not isinstance(node, TopK) or node.partition:
        return ()
    return tuple(_sort(order, names) for order in node.order)


def gives_one(node: Node) -> bool:
    """Return whether a plan has at most one row: an aggregate without groups, or LIMIT 1."""
    while isinstance(node, Project | Filter):
        node = node.input
    if isinstance(node, TopK):
        return not node.partition and node.limit == 1
    return isinstance(node, Aggregate) and not node.keys


def _sort(order: Order, names: Mapping[str, str]) -> Sort:
    if not isinstance(order.expr, exp.Column) or order.expr.name not in names:
        text = order.expr.sql(SparkSql)
        raise fail("B8020", f"`ORDER BY {text}` is not a column of the result", hint="select the column of ORDER BY")
    return Sort(names[order.expr.name], order.descending, order.nulls_come_first)

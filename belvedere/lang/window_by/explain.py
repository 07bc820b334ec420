"""How a WINDOW BY query will be evaluated, in words: the class of each boundary and what it costs.

In: text and schemas. Out: text for a person; nothing is run. Raises `BelvedereError` for a query with errors.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from belvedere.errors import BelvedereError, Severity
from belvedere.functions.table import WINDOW_AGGREGATES, canonical
from belvedere.functions.window_by import Type
from belvedere.lang.window_by.blocks import long_partition
from belvedere.lang.window_by.check import check_query, row_type
from belvedere.lang.window_by.classes import COST, ItemFacts, WindowClass, classify, item_expression
from belvedere.lang.window_by.expressions import VariableScope
from belvedere.lang.window_by.names import after_window
from belvedere.lang.window_by.parser import parse_window_query
from belvedere.lang.window_by.tree import Block, Boundary, Expr, Missing, Query, QueryExpression, WindowBy
from belvedere.lang.window_by.types import Typing
from belvedere.schema import Schema

AGGREGATE_COST = {
    "COUNT": "prefix sums", "SUM": "prefix sums", "AVG": "prefix sums", "MIN": "doubling table", "MAX": "doubling table",
    "MEDIAN": "wavelet matrix", "PERCENTILE": "wavelet matrix",
}  # fmt: skip


def explain_window_query(text: str, schemas: Mapping[str, Schema], file: str = "") -> str:
    """One paragraph per WINDOW BY clause: type, boundaries with class and cost, aggregates."""
    query = parse_window_query(text, file)
    tables = {name: row_type(s) for name, s in schemas.items()}
    errors = [d for d in check_query(query, tables, file) if d.severity == Severity.ERROR]
    if errors:
        raise BelvedereError(errors)
    return "\n".join(explain_query(query, tables)) or "no WINDOW BY: Spark SQL"


def explain_query(query: Query, tables: Mapping[str, Type]) -> tuple[str, ...]:
    """The same for a parsed query without errors, line by line; `tables` are the types of the tables' rows."""
    lines: list[str] = []
    _explain(query, VariableScope(tables=tables), lines)
    return tuple(lines)


def _explain(query: Query, scope: VariableScope, lines: list[str]) -> None:
    typing = Typing()
    for let in query.bindings:
        if isinstance(let.value, QueryExpression):
            _explain(let.value.query, scope, lines)
    scope = typing.with_bindings(query, scope)
    for block in query.blocks:
        for source in block.sources:
            if isinstance(source.expr, QueryExpression):
                _explain(source.expr.query, scope, lines)
        if block.window is not None:
            types = typing.block(block, scope)
            order = item_expression(block.window.order[0].expr, tuple(types.before))
            lines += window_lines(block, block.window, ItemFacts(types.item, order, {}))


def window_lines(block: Block, window: WindowBy, item: ItemFacts) -> list[str]:
    """How the windows of one clause are found."""
    kind = "tumbling" if window.tumbling else "sliding"
    keys = ", ".join(in_words(p) for p in window.partition) or "nothing: one partition"
    lines = [f"window {window.name.text}: {kind}, partitioned by {keys}"]
    for role, boundary in window.boundaries:
        lines.append(f"  {role.upper()}: {_boundary(window, role, boundary, item)}")
    if window.end is None:
        lines.append("  END: before the next start, one pass, O(n)")
    elif window.only:
        lines.append("  only windows whose END is found")
    lines.append(f"  a partition with most of the rows: {long_partition(window, item)}")
    for name in _aggregates(block):
        lines.append(
            f"  {name}: {AGGREGATE_COST.get(name.split('_', 1)[1], 'folds over aligned blocks')}, independent of window length"
        )
    return lines


def _boundary(window: WindowBy, role: str, boundary: Boundary, item: ItemFacts) -> str:
    if boundary.unbounded:
        return "the partition's edge, O(1)"
    if role == "label" or (role == "start" and window.label is None):
        return (
            "every tuple"
            if boundary.when is None or isinstance(boundary.when, exp.Boolean)
            else "a condition on one tuple, O(n)"
        )
    found = classify(window, role, item)
    if found is None:
        return f"class d: {COST[WindowClass.ARBITRARY]}"
    names = " or ".join(f"class {c}" for c in dict.fromkeys(found.classes)) or "never"
    return f"{names}: {COST[found.worst]}"


def _aggregates(block: Block) -> list[str]:
    calls = (n for e in after_window(block) for n in e.find_all(exp.Anonymous))
    return list(dict.fromkeys(canonical(n.name) for n in calls if canonical(n.name) in WINDOW_AGGREGATES))


def in_words(expr: Expr) -> str:
    """An expression as a user wrote it, or what it is."""
    if expr.find(Missing, QueryExpression):
        return (
            "MISSING" if isinstance(expr, Missing) else "a subquery" if isinstance(expr, QueryExpression) else "an expression"
        )
    return expr.sql(dialect="spark")

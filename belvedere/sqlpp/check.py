"""Static checks of a query with WINDOW BY: syntax, names, scopes, types, and advice.

In: text and the schemas of its tables. Out: diagnostics. A query without errors can run. Starts no JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, Diagnostic, Severity
from belvedere.functions.sqlpp_functions import Type
from belvedere.schema import Schema
from belvedere.sqlpp.bindings import members
from belvedere.sqlpp.expression_types import VariableScope
from belvedere.sqlpp.parser import parse_window_query
from belvedere.sqlpp.query_names import parts_of
from belvedere.sqlpp.query_tree import Query, WindowBy
from belvedere.sqlpp.query_types import Typing


def row_type(schema: Schema) -> pa.DataType:
    """Return the type of a table's rows as objects: visible columns, and arrays of objects (nested tables)."""
    return pa.struct([(c.name, c.type) for c in members(schema)])


def check_window_query(text: str, schemas: Mapping[str, Schema], file: str = "") -> tuple[Diagnostic, ...]:
    """Return all findings on the query, errors first in the order of the text."""
    try:
        query = parse_window_query(text, file)
    except BelvedereError as error:
        return error.diagnostics
    return check_query(query, {name: row_type(s) for name, s in schemas.items()}, file)


def check_query(
    query: Query, tables: Mapping[str, Type], file: str = "", relationships: Set[str] = frozenset()
) -> tuple[Diagnostic, ...]:
    """Return the findings of `check_window_query` for a parsed query."""
    typing = Typing(file, relationships)
    output = typing.query(query, VariableScope(tables=tables))
    if output is None and not any(d.severity == Severity.ERROR for d in typing.diagnostics):
        hint = "make all branches of CASE, all members of an array and all blocks give one type, with CAST where needed"
        typing.report("B3614", "some column of the result has values of several types", query.span, hint)
    for window in (part for part in parts_of(query) if isinstance(part, WindowBy)):
        _advise(typing, window)
    return tuple(
        sorted(typing.diagnostics, key=lambda d: (d.severity != Severity.ERROR, d.span.start if d.span else 0))
    )


def _advise(typing: Typing, window: WindowBy) -> None:
    """Report forms that are valid but rarely intended."""
    items = {name for name, (_, role) in window.variables.items() if role != "position"}
    for _, boundary in window.boundaries:
        for node in boundary.when.find_all(exp.EQ) if boundary.when is not None else ():
            sides = (node.this, node.expression)
            if all(isinstance(s, exp.Column) and s.name in items for s in sides):
                typing.report(
                    "B3615",
                    (
                        f'"{sides[0].name} = {sides[1].name}" compares values, '
                        "so an earlier row with equal values also matches"
                    ),
                    boundary.span,
                    "compare the positions of AT variables",
                    Severity.NOTICE,
                )

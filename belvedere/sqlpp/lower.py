"""Translation of a WINDOW BY query into a plan.

In: the query's text with its position, and the relations that it may name. Out: a plan whose visible columns are the
results. Raises `BelvedereError` for a query with errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from sqlglot import exp

from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.functions.project_functions import OwnFunction
from belvedere.plan.operators.nodes import Node, Project, Scan
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_explanation import found_by
from belvedere.plan.rewrites.push_conditions import push_conditions
from belvedere.schema import Schema
from belvedere.sqlpp.bindings import Result, output_items
from belvedere.sqlpp.check import check_query, row_type
from belvedere.sqlpp.linked_tables import Follow, LinkedTables, path_of
from belvedere.sqlpp.lower_queries import QueryLowering
from belvedere.sqlpp.parser import parse_window_query
from belvedere.sqlpp.query_names import free_names, parts_of
from belvedere.sqlpp.query_tree import Expr, FromTerm, Query, QueryBlock, QueryExpression, SourceKind
from belvedere.sqlpp.spark_text.sql_values import Untranslatable, visible


def lower_window_query(
    text: str,
    sources: Mapping[str, Node],
    file: str = "",
    start: int = 0,
    broken: Set[str] = frozenset(),
    functions: Mapping[str, OwnFunction] | None = None,
    follow: Follow | None = None,
) -> tuple[Node, tuple[Diagnostic, ...]]:
    """Return the plan of `text`, over the plans of the `sources` that it names, and notices.

    `text` starts at offset `start` of its file. `functions` are those of the project, by folded name; `follow` finds
    relationships. `broken` are folded names whose own definitions were rejected: a query that names one is rejected
    only for that reason.
    """
    query = parse_window_query(" " * start + text, file, functions)
    query = _with_nested_tables(query, {name.casefold() for name in sources if "." in name})
    relationships: Set[str] = frozenset()
    if follow is not None:
        tables = LinkedTables(dict(sources), follow)
        query, sources = tables.linked(query), tables.sources
        relationships = tables.relationships
    _require_conditions(query, file)
    found = check_query(query, {name: row_type(node.schema) for name, node in sources.items()}, file, relationships)
    if any(d.severity == Severity.ERROR for d in found):
        hidden = any(n.casefold() in broken for n in free_names(query))
        raise BelvedereError(() if hidden else tuple(d for d in found if d.severity == Severity.ERROR))
    if query.order and query.limit is None and query.offset is None:
        span, hint = (
            _placed(query.order[0].expr.meta.get("span"), file),
            "order it in the query that reads it, or add LIMIT",
        )
        message = "a view has no order: ORDER BY without LIMIT is ignored"
        found = (*found, Diagnostic("B3060", message, Severity.NOTICE, span, hint=hint))
        query = replace(query, order=())
    result = lowered_query(query, sources, file)
    try:
        return push_conditions(Project(result.node, tuple(output_items(visible(result.value))))), found
    except BelvedereError as error:
        raise BelvedereError([replace(d, span=_placed(query.span, file)) for d in error.diagnostics]) from None


def explain_window_query(text: str, schemas: Mapping[str, Schema], file: str = "") -> str:
    """Explain how the windows of each WINDOW BY clause will be found, and the cost. Raises as `lower_window_query`."""
    plan, _ = lower_window_query(text, {name: Scan(name, schema) for name, schema in schemas.items()}, file)
    found = [line for node in plan.walk() if isinstance(node, PredicateWindow) for line in found_by(node)]
    return "\n".join(found) or "no WINDOW BY: Spark SQL"


def lowered_query(query: Query, sources: Mapping[str, Node], file: str = "", utc: bool = True) -> Result:
    """Return the relation of a query's results over the `sources` that it names.

    Raises B3624 if no plan can express it.
    """
    requested = {n.casefold() for n in free_names(query)}
    used = {name: node for name, node in sources.items() if name.casefold() in requested}
    try:
        return QueryLowering(used, utc).query(query, {})
    except Untranslatable as reason:
        hint = "write it in a view without WINDOW BY, and read that view in FROM"
        message = f"{reason}: not supported in a query with WINDOW BY"
        raise fail("B3624", message, span=_placed(query.span, file), hint=hint) from None


def _with_nested_tables(query: Query, known: Set[str]) -> Query:
    """Return the query with tables of dotted names in place of the FROM paths with the same names.

    A path that begins with an earlier variable of its FROM is a path of that variable.
    """

    def source(term: FromTerm, earlier: Set[str]) -> FromTerm:
        names, variable, place = list(path_of(term.expr)), term.variable, term.expr.meta["span"]
        dotted = ".".join(n.name for n in names)
        if isinstance(term.expr, QueryExpression):
            table: Expr = QueryExpression(query=_with_nested_tables(term.expr.query, known))
        elif len(names) > 1 and names[0].name not in earlier and dotted.casefold() in known:
            table = exp.Column(this=exp.to_identifier(dotted, quoted=True))
            variable = replace(variable, text=dotted) if variable.span == place else variable  # without AS
        else:
            return term
        table.meta["span"] = place
        return replace(term, expr=table, variable=variable)

    def block(block: QueryBlock) -> QueryBlock:
        variables = [term.variable.text for term in block.sources]
        terms = (source(term, set(variables[:n])) for n, term in enumerate(block.sources))
        return replace(block, sources=tuple(terms))

    return replace(query, blocks=tuple(map(block, query.blocks)))


def _require_conditions(query: Query, file: str) -> None:
    """Raise B1601 if JOIN adds a table without a condition."""
    for block in (part for part in parts_of(query) if isinstance(part, QueryBlock)):
        variables = set[str]()
        for term in block.sources:
            table = isinstance(term.expr, exp.Column) and term.expr.name not in variables
            joined = term.kind in (SourceKind.INNER, SourceKind.LEFT)
            if table and joined and term.condition is None and term.link is None:
                hint = "write JOIN ... ON ..., or a comma for all pairs of rows"
                raise fail("B1601", "this JOIN of a table needs ON", span=_placed(term.variable.span, file), hint=hint)
            variables.add(term.variable.text)


def _placed(span: Span | None, file: str) -> Span | None:
    return None if span is None else replace(span, file=file)

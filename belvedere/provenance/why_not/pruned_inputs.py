"""Rows that are missing in a relation: for a view its query is searched, for an input its near matches.

In: a scan and the tests of its missing rows. Out: the operators that drop them. For an input: rows that satisfy a
single test, rows that differ only in case and surrounding spaces, late rows and rejected rows. Deleted rows cannot be
found; the answer says so if there may have been some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from sqlglot import exp

from belvedere.catalog.inputs import Input
from belvedere.engine.errors.failed_stages import failures_of, quarantined
from belvedere.plan.expression_text import expression_text
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Expr, Item, Node, Project, Scan
from belvedere.plan.operators.project import item_of, keep_columns
from belvedere.provenance.constants import fixed_columns
from belvedere.provenance.findings import PruningKind, PruningOperator
from belvedere.provenance.row_predicates import RowPredicate, test
from belvedere.provenance.why.covering_views import retention_text, why_not_stored
from belvedere.provenance.why_not.pruning import CountedRows, Descent, DescentPath, condition_text, pruning_step, untold
from belvedere.schema import Schema
from belvedere.store.identifiers import SYSTEM
from belvedere.store.read.history import stored_tables

REJECTED = f"{SYSTEM}rejected"


def pruned_by_scan(
    descent: Descent, node: Scan, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Continue in the query of a view, or search the near matches of an input."""
    id_, catalog = node.relation, descent.query_runner.catalog
    view, table, events = catalog.views.get(id_), catalog.inputs.get(id_), catalog.subscriptions.get(id_)
    if descent.query_runner.is_there(id_):
        (there,) = descent.look(CountedRows(node, requested, "are there"))
        if there.untold:
            yield from untold(way, requested, there)
            return
        if there.count:
            yield pruning_step(way, PruningKind.VIEW, _not_taken(descent, way), requested, [(node, there)])
            return
    if view is not None:
        yield from descent.below(keep_columns(view.plan, node.schema.names), requested, way.into(id_))
    elif events is not None:
        query = catalog.views[events.view]
        asked, left = requested.split(query.schema.names)
        yield from descent.below(Scan(query.id, query.schema), asked, way.into(id_).without(left, "the subscription"))
    elif table is not None and descent.query_runner.is_there(id_):
        yield from _beside(descent, node, table, requested, way.into(id_))
    else:
        words = f"{why_not_stored(catalog, id_)}, so it is unknown whether there was such a row"
        yield pruning_step(way.into(id_), PruningKind.UNTOLD, words, requested)


def _not_taken(descent: Descent, way: DescentPath) -> str:
    """Return the reason that a view has not read existing rows."""
    row, name = descent.epoch, descent.query_runner.catalog.name_of(way.view)
    held = quarantined(failures_of(row.extra)) if row is not None else {}
    if way.view in held:
        return f"`{name}` is in quarantine: it has the rows of epoch {held[way.view]}"
    return f"`{name}` differs from the present result of its query: its rows depend on earlier rows"


def _beside(
    descent: Descent, node: Scan, table: Input, requested: RowPredicate, way: DescentPath
) -> Iterator[PruningOperator]:
    """Yield findings on an input without the requested rows."""
    (any_,) = descent.look(CountedRows(node, RowPredicate()))
    looks = [
        *_single_tests(node, requested),
        *_late(descent, node, table, requested),
        *_rejected(descent, table, requested),
    ]
    found = descent.look(*looks)
    near = [*zip((k.node for k in looks), found, strict=True)]
    alike = _alike(requested)
    if alike is not None:
        look = CountedRows(node, alike, "are equal except for case or surrounding spaces")
        near += [(node, r) for r in descent.look(look, cheap=True) if not r.untold]
    words = (
        f"`{table.name}` has no row with {condition_text(requested)}"
        if any_.count
        else f"`{table.name}` has no rows at all"
    )
    yield pruning_step(way, PruningKind.INPUT, words + _gone(descent, table), requested, near)


def _gone(descent: Descent, table: Input) -> str:
    """Return a sentence on whether the input may have had such a row."""
    if table.keep is not None:
        kept = timedelta(microseconds=table.keep)
        row = descent.epoch
        since = f", {(row.clock - kept).isoformat(' ', 'seconds')} now" if row is not None else ""
        return f"; rows leave it {retention_text(kept)} after their arrival (KEEP{since}), so it may have had one"
    return "" if table.append_only else "; a row that was deleted or changed leaves no trace"


def _single_tests(node: Scan, requested: RowPredicate) -> Iterator[CountedRows]:
    """If there are several tests, yield the rows that satisfy each alone."""
    if len(requested.tests) > 1:
        for one in requested.tests:
            yield CountedRows(node, test(one), f"with {expression_text(one)}")


def _late(descent: Descent, node: Scan, table: Input, requested: RowPredicate) -> Iterator[CountedRows]:
    late = descent.query_runner.catalog.late_of(table.id)
    if late is not None and late.id in descent.query_runner.tables:
        yield CountedRows(late_rows(node, Scan(late.id, late.schema)), requested, "arrived late")


def late_rows(relation: Scan, late: Scan) -> Node:
    """Return the late rows of a relation, with the relation's columns."""
    known = set(late.schema.names)
    columns = relation.schema.columns
    items = tuple(item_of(c) if c.name in known else Item(c.name, exp.Null(), c.type, True, True) for c in columns)
    return Project(late, items)


def _rejected(descent: Descent, table: Input, requested: RowPredicate) -> Iterator[CountedRows]:
    """Yield rejected rows of an input whose text contains the values, and files that were rejected as a whole."""
    values = [v for v in (_searched(e) for e in fixed_columns(requested.tests).values()) if v]
    stored = stored_tables(descent.query_runner.reader).get(REJECTED)
    if stored is None or not values:
        return
    descent.query_runner = replace(descent.query_runner, tables={**descent.query_runner.tables, REJECTED: stored})
    rows = Scan(REJECTED, Schema(stored.schema.columns, None))
    has = [
        exp.paren(exp.Or(this=_has(v), expression=exp.Is(this=column("text"), expression=exp.Null()))) for v in values
    ]
    own = exp.EQ(this=column("table"), expression=exp.Literal.string(table.id))
    yield CountedRows(rows, test(own, *has), "were rejected")


def _has(value: str) -> Expr:
    return exp.Contains(this=column("text"), expression=exp.Literal.string(value))


def _searched(value: Expr) -> str | None:
    """Return a value in the form of a rejected row's text, or None; times have many forms."""
    return value.this if isinstance(value, exp.Literal) else None


def _alike(requested: RowPredicate) -> RowPredicate | None:
    """Return the tests with case and surrounding spaces of texts ignored; None if there are no texts."""
    found = [_text_alike(t) for t in requested.tests]
    if all(f is None for f in found):
        return None
    return RowPredicate(
        tuple(t if f is None else f for t, f in zip(requested.tests, found, strict=True)), requested.matches
    )


def _text_alike(one: Expr) -> Expr | None:
    value = one.args.get("expression")
    if not isinstance(one, exp.EQ) or not isinstance(one.this, exp.Column) or not isinstance(value, exp.Literal):
        return None
    if not value.is_string or not value.this.strip():
        return None
    pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in value.this.strip())
    return exp.ILike(this=exp.Trim(this=one.this.copy()), expression=exp.Literal.string(pattern))

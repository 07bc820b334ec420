"""The rows of the inputs that a row of a view comes from, through all views between, as plans.

In: the plan of a view, one of its rows. Out: what is traced down to each input, and the plan of the rows that are named. Asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.plan.operators.nodes import Filter, Node, Project, Scan, TopK, Union
from belvedere.plan.operators.project import keep_columns
from belvedere.provenance.constants import row_tests
from belvedere.provenance.narrowing import narrowed
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate, matching, same
from belvedere.provenance.why.backward import trace
from belvedere.provenance.why.traces import Backward, Traced, Trail


def root_predicate(plan: Node, row: Mapping[str, Any], *, whole: bool = False) -> RowPredicate:
    """Return the predicate that finds a stored row in its view's plan: its key; with `whole`, or if the plan depends on
    history, all comparable columns.
    """
    historic = any(n.is_historic for n in plan.walk())
    key = plan.schema.key or ()
    names = [c.name for c in plan.schema if c.name in row] if historic or whole or not key else key
    return RowPredicate(row_tests(row, {n: plan.schema[n].type for n in names}))


def is_chosen(catalog: Catalog, plan: Node) -> bool:
    """Whether the rows of a plan are first rows of an order: of a row as it once was, the key alone finds the one that is first now."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    if isinstance(plan, Scan) and plan.relation in catalog.views:
        return is_chosen(catalog, catalog.views[plan.relation].plan)
    return isinstance(plan, TopK)


def to_inputs(query_runner: QueryRunner, back: Backward, traced: Traced, *, past: bool = False) -> Iterator[Traced]:
    """Rows of a relation followed through all views to the inputs; `past` as that of a `Trail`."""
    view = query_runner.catalog.views.get(traced.relation.relation)
    if view is None:
        yield traced
        return
    plan = keep_columns(view.plan, traced.relation.schema.names)
    trail = Trail((*traced.words, f"through {view.name}"), traced.certain, past=past, ahead=traced.ahead)
    for found in trace(back, plan, traced.requested, trail):
        if isinstance(found, Traced):
            yield from to_inputs(query_runner, back, found, past=past)


def rows_named(query_runner: QueryRunner, traces: Sequence[Traced]) -> Node:
    """The rows of one relation that any of the traces names, each once."""
    relation = traces[0].relation
    plans = [narrowed(relation, r.requested, query_runner.definition) for r in traces]
    if len(plans) == 1:
        return plans[0]
    key = relation.schema.key or relation.schema.names
    keys = Union(tuple(keep_columns(p, key) for p in plans))
    return narrowed(relation, matching(keys, *same(None, key)), query_runner.definition)


def grouped(traces: Sequence[Traced], key: Callable[[Traced], Hashable]) -> Iterable[list[Traced]]:
    """The traces that have one key together, in the order in which they came."""
    groups: dict[Hashable, list[Traced]] = {}
    for traced in traces:
        groups.setdefault(key(traced), []).append(traced)
    return groups.values()

"""Plans of the input rows of a view's row, traced through all views between.

In: the plan of a view, one of its rows. Out: the traces down to each input, and the plan of the traced rows. This
module sends no query.
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
    """Return the predicate that finds a stored row in its view's plan by its key.

    With `whole`, or if the plan depends on history, it tests all comparable columns.
    """
    historic = any(n.is_historic for n in plan.walk())
    key = plan.schema.key or ()
    names = [c.name for c in plan.schema if c.name in row] if historic or whole or not key else key
    return RowPredicate(row_tests(row, {n: plan.schema[n].type for n in names}))


def is_chosen(catalog: Catalog, plan: Node) -> bool:
    """Return whether a plan selects the first rows of an order.

    Then the key alone finds the present row, not an earlier one.
    """
    while isinstance(plan, Project | Filter):
        plan = plan.input
    if isinstance(plan, Scan) and plan.relation in catalog.views:
        return is_chosen(catalog, catalog.views[plan.relation].plan)
    return isinstance(plan, TopK)


def to_inputs(query_runner: QueryRunner, back: Backward, traced: Traced, *, past: bool = False) -> Iterator[Traced]:
    """Follow rows of a relation through all views to the inputs. `past` is as for `Trail`."""
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
    """Return the plan of the rows of one relation in any of the traces, each once."""
    relation = traces[0].relation
    plans = [narrowed(relation, r.requested, query_runner.definition) for r in traces]
    if len(plans) == 1:
        return plans[0]
    key = relation.schema.key or relation.schema.names
    keys = Union(tuple(keep_columns(p, key) for p in plans))
    return narrowed(relation, matching(keys, *same(None, key)), query_runner.definition)


def grouped(traces: Sequence[Traced], key: Callable[[Traced], Hashable]) -> Iterable[list[Traced]]:
    """Group the traces by a key, in their order."""
    groups: dict[Hashable, list[Traced]] = {}
    for traced in traces:
        groups.setdefault(key(traced), []).append(traced)
    return groups.values()

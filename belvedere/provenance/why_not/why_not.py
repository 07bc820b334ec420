"""The reason that a row is missing: on each path down, the first operator that drops its rows, with the near matches.

In: a store that answers queries, a view, tests of its columns. Out: findings. They are computed on request and stored
nowhere. The tests are pushed down operator by operator, and at each the rows that still satisfy them are counted.

Source: Chapman, Jagadish, "Why not?" (SIGMOD 2009): the operator that removes the last of the rows that could have
produced the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from belvedere.plan.operators.nodes import Scan
from belvedere.provenance.findings import PruningOperator, WhyNot
from belvedere.provenance.found_rows import SAMPLE
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.row_predicates import RowPredicate
from belvedere.provenance.trees import why_not_text
from belvedere.provenance.why_not.pruning import MAX_WAYS, CountedRows, Descent, DescentPath, condition_text
from belvedere.provenance.why_not.pruning_operators import LOSSES

ATTEMPTS = 3


def why_not(
    query_runner: QueryRunner,
    id_: str,
    requested: RowPredicate,
    *,
    size: int = SAMPLE,
    shows: Callable[[str], bool] = lambda _: True,
) -> WhyNot:
    """Find the operators that drop the rows of a relation that would satisfy tests of its columns (`key_tests`).

    The result has up to `size` near matches of each kind. If an epoch changes the data meanwhile, the search is
    repeated. Without Spark, a plan that the database cannot answer gives a `PruningOperator` at `UNTOLD`. Sentences
    contain no values of relations for which `shows` returns False; samples do.
    """
    for _ in range(ATTEMPTS):
        descent = Descent(query_runner, size, LOSSES, shows)
        answer = _asked(descent, id_, requested)
        if len(descent.seen) == 1:
            break
    return answer


def _asked(descent: Descent, id_: str, requested: RowPredicate) -> WhyNot:
    view = descent.query_runner.catalog.views.get(id_)
    scan = Scan(id_, descent.query_runner.catalog.schema_of(id_))
    answer = WhyNot(
        descent.query_runner.catalog,
        why_not_text,
        id_,
        view.sql if view is not None else "",
        condition_text(requested),
        None,
        0,
    )
    if descent.query_runner.is_there(id_):
        (there,) = descent.look(CountedRows(scan, requested))
        answer = replace(answer, there=there.count)
    found = () if answer.there else tuple(islice(_distinct(_ways(descent, scan, requested)), MAX_WAYS))
    row = descent.epoch
    return replace(answer, epoch=row.epoch if row is not None else None, lost=found)


def _ways(descent: Descent, scan: Scan, requested: RowPredicate) -> Iterator[PruningOperator]:
    view = descent.query_runner.catalog.views.get(scan.relation)
    if view is None:
        yield from descent.below(scan, requested, DescentPath(scan.relation))
    else:
        yield from descent.below(view.plan, requested, DescentPath(scan.relation))


def _distinct(found: Iterator[PruningOperator]) -> Iterator[PruningOperator]:
    """Yield each finding once: two paths may end at one operator."""
    reported = set()
    for lost in found:
        place = (lost.view, lost.at, lost.words)
        if place not in reported:
            reported.add(place)
            yield lost

"""Why a row is not there: on each way down from a view the first operator at which its rows vanish, with what nearly matched.

In: a store that can be asked, a view, tests of its columns. Out: findings. Computed when asked, stored nowhere: the tests are pushed down
operator by operator, and at each the rows that still fulfil them are counted.

Source: Chapman, Jagadish, "Why not?" (SIGMOD 2009): the operator that picks the last of the rows out that could have made the answer.
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
    """Where the rows of a relation vanish that would fulfil tests of its columns (`key_tests`).

    `size` rows are shown of each that nearly did. What an epoch changes while it is asked is asked again. Without Spark, what the
    database cannot say is a `PruningOperator` at `UNTOLD`. No sentence has values of rows of relations that `shows` refuses; samples have.
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

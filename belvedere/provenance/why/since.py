"""When a row appeared, and when it last changed.

In: a queryable store, a row of a relation. Out: epochs with their clocks. A history has them, with the input rows that
caused each version. Without one the answer is when the last of its input rows arrived. Unknown facts are listed as
sentences. Nothing is stored for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from belvedere.catalog.inputs import Input
from belvedere.catalog.views import View
from belvedere.engine.epoch_row.source_spans import SPANS
from belvedere.engine.errors.failed_stages import failures_of, quarantined
from belvedere.plan.operators.emit import PTIME, Emit
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.plan_properties import needs_clock
from belvedere.provenance.epoch_lookup import Moment, arrival, emitted_in
from belvedere.provenance.findings import FoundRows, Since
from belvedere.provenance.found_rows import SAMPLE, answered
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.why.covering_views import retention_text, why_not_stored
from belvedere.provenance.why.traces import Traced
from belvedere.provenance.why.versions import questions, rows_of_inputs, versions_of
from belvedere.schema import HISTORY, INGEST_TIME, UID
from belvedere.store.read.history import stored_tables
from belvedere.values.row_texts import value_text


def with_histories(query_runner: QueryRunner) -> QueryRunner:
    """Return the same store with the tables of histories."""
    stored = stored_tables(query_runner.reader)
    names = (SPANS.name, *(i + HISTORY for i in query_runner.catalog.histories))
    return replace(query_runner, tables={**query_runner.tables, **{n: stored[n] for n in names if n in stored}})


def goes_by_arrival(past: QueryRunner, id_: str) -> bool:
    """Return whether only the arrival of input rows dates a relation's rows, because the view has no history."""
    view = past.catalog.views.get(id_)
    return view is not None and id_ + HISTORY not in past.tables and not _is_emitted(view)


def since(
    past: QueryRunner, id_: str, row: Mapping[str, Any], inputs: Sequence[FoundRows], *, size: int = SAMPLE
) -> Since:
    """Return when a row of a relation appeared and last changed.

    `past` is the result of `with_histories`. `row` has all of its stored columns, as `find_row` returns them. `inputs`
    are its rows of each input, with the last one if it `goes_by_arrival`. `size` is the maximum number of versions, and
    of rows of each input.
    """
    table, view = past.catalog.inputs.get(id_), past.catalog.views.get(id_)
    if id_ + HISTORY in past.tables:
        found = _of_history(past, id_, row, size)
    elif table is not None:
        found = _of_input(past, table, row)
    elif view is None:
        words = f"when it appeared: `{past.catalog.name_of(id_)}` is a subscription, whose events are not traced back"
        found = Since(None, None, False, unknown=(words,))
    else:
        found = _of_emitted(past, row) if _is_emitted(view) else _of_view(past, view, row, inputs, size)
    moments = (found.appeared, found.changed, *(v.since for v in found.versions))
    return replace(found, unknown=(*found.unknown, *_forgotten(m for m in moments if m is not None)))


def _forgotten(moments: Iterable[Moment]) -> Iterator[str]:
    for time in dict.fromkeys(m.time for m in moments if m.epoch is None):
        yield (
            f"the epoch of {value_text(time)}: the store has the clocks of only its last 1,000 epochs, "
            "and several may be equal"
        )


def _of_history(past: QueryRunner, id_: str, row: Mapping[str, Any], size: int) -> Since:
    found = versions_of(past, id_, row, size)
    view, unknown = past.catalog.views.get(id_), found.unknown
    untold = [str(v.since.epoch) for v in found.newest if not v.made_by]
    if view is not None and untold:
        words = f"which rows caused the versions since epoch {', '.join(untold)}: they are no longer stored"
        unknown += (words, *_unseen(past, view, rows_of_inputs(past, view, row)))
    return Since(found.appeared, found.changed, found.changed is not None, found.newest, found.count, unknown=unknown)


def _of_input(past: QueryRunner, table: Input, row: Mapping[str, Any]) -> Since:
    """Return the age of an input row.

    Without a key a row never changes; with a key it may have replaced another one.
    """
    moment = arrival(past, table.id, row[INGEST_TIME], row[UID])
    if not table.primary_key:
        return Since(moment, moment, True)
    words = f"when a row of its key appeared, and whether the previous one differed: `{table.name}` has no history"
    return Since(None, moment, False, unknown=(words,))


def _is_emitted(view: View) -> bool:
    """Return whether a view is a changelog."""
    return isinstance(view.plan, Emit) and view.plan.stream


def _of_emitted(past: QueryRunner, row: Mapping[str, Any]) -> Since:
    """Return the age of a changelog's row, which contains its time of emission and never changes."""
    moment = emitted_in(past, row[PTIME])
    return Since(moment, moment, True)


def _of_view(past: QueryRunner, view: View, row: Mapping[str, Any], inputs: Sequence[FoundRows], size: int) -> Since:
    """Return the last arrival of an input row of a view's row."""
    traced = rows_of_inputs(past, view, row)
    last = [(r.last[INGEST_TIME], r.last[UID], r.relation) for r in inputs if r.last is not None]
    words = f"when the row appeared, and whether its last arrival changed it: `{view.name}` has no history"
    untold = (f"the last arrival of `{past.catalog.name_of(r.relation)}`: {r.untold}" for r in inputs if r.untold)
    unknown = (words, *untold, *_quarantine_notice(past, view), *_unseen(past, view, traced))
    if not last:
        return Since(None, None, False, unknown=unknown)
    time, uid, input_ = max(last)
    moment = arrival(past, input_, time, uid)
    arrivals = {
        r.relation: arrival(past, r.relation, r.last[INGEST_TIME], r.last[UID]) for r in inputs if r.last is not None
    }
    may_have = {r.relation for r in inputs if arrivals.get(r.relation, moment) == moment}
    asked = [t for t in traced if (i := t[0].relation.relation) in may_have or i + HISTORY in past.tables]
    _, reads = answered(past, list(questions(past, asked, moment)), size)
    return Since(None, moment, False, made_by=tuple(r for r in reads if r.count or r.untold), unknown=unknown)


def _quarantine_notice(past: QueryRunner, view: View) -> Iterator[str]:
    last = past.reader.last_epoch()
    held = quarantined(failures_of(last.extra)) if last is not None else {}
    if view.id in held:
        yield f"changes after epoch {held[view.id]}: `{view.name}` is in quarantine with the rows of that epoch"


def _unseen(past: QueryRunner, view: View, inputs: list[list[Traced]]) -> Iterator[str]:
    """Yield sentences on changes of the row that its present input rows do not show."""
    for table in (past.catalog.inputs[t[0].relation.relation] for t in inputs):
        if not past.is_there(table.id):
            yield why_not_stored(past.catalog, table.id)
        elif table.keep is not None:
            kept = retention_text(timedelta(microseconds=table.keep))
            yield f"rows of `{table.name}` that have left it, {kept} after their arrival (KEEP)"
        elif not table.append_only and table.id + HISTORY not in past.tables:
            yield f"rows of `{table.name}` that were deleted or replaced: it has no history"
    if any(needs_clock(node) for v in _below(past, view) for node in v.plan.walk()):
        yield "changes caused only by the clock: the query reads now()"


def _below(past: QueryRunner, view: View) -> list[View]:
    """Return a view and all views that it reads, directly or indirectly."""
    found, views = [view], past.catalog.views
    for one in found:
        scanned = (n.relation for n in one.plan.walk() if isinstance(n, Scan))
        found += dict.fromkeys(views[i] for i in scanned if i in views and views[i] not in found)
    return found

"""Plan for stored relations, including the records of views in quarantine and resumed views.

In: the pipeline, the stored relations, the failed stages in the last epoch's row. Out: a `TablePlan`, and the failed
stages as stages of this script. A corrected view whose earlier rows are not available continues from the rows of its
former definition if the script asks for it (`/*+ resume */`), with the changes it missed. A view that no epoch has
filled has missed everything, and needs no such hint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.engine.change.complete_inputs import complete_inputs, count_rows_of
from belvedere.engine.change.lost_rows import lost_rows, not_retained, refuse
from belvedere.engine.change.stored_relations import StoredRelations, stored_now
from belvedere.engine.change.table_diff import compare_tables
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.errors.failed_stages import Failed, failures_of
from belvedere.engine.errors.missed_changes import SUFFIX
from belvedere.engine.errors.quarantine import Isolation
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.stage import Stage
from belvedere.plan.operators.nodes import Scan
from belvedere.schema import Schema
from belvedere.state.state import State
from belvedere.store.protocol import Store


@dataclass(frozen=True)
class Planned:
    """Plan for relations; `failed` stages are those of this script."""

    tables: TablePlan
    failed: tuple[Failed, ...] = ()


def plan_tables(
    catalog: Catalog, pipeline: Pipeline, store: Store, state: State, again: Collection[str] = frozenset()
) -> Planned:
    """Compare the relations that the pipeline needs with the stored ones.

    The rows of inputs in `again` can be re-read from their sources.

    Raises BelvedereError B7030 if a view must be rebuilt from rows that were not kept, B7031 if a pushed input has
    changed.
    """
    stored = stored_now(store, store.tables(), state)
    found = planned(catalog, pipeline, stored, again, partial(count_rows_of, store))
    if stored.last is not None:
        t = found.tables
        refuse(lost_rows(catalog, pipeline, t.fresh, t.restored, stored.filled, t.misfits, t.again, t.waiting))
    return found


def planned(
    catalog: Catalog,
    pipeline: Pipeline,
    stored: StoredRelations,
    readable: Collection[str],
    count: Callable[[str], int],
) -> Planned:
    """Return the plan without a check that the needed rows exist.

    `count` returns the number of rows of a table.
    """
    if stored.last is None:
        return Planned(compare_tables(catalog, pipeline, stored, readable))
    isolation = Isolation(catalog, pipeline)
    failed, is_whole = corrected(isolation, stored, failures_of(stored.last.extra))
    waiting = isolation.resumable(failed) - _filled_otherwise(isolation, stored)
    compare = partial(compare_tables, catalog, pipeline, stored, readable)
    tables = compare(waiting=waiting)
    lacking = {relation for _, relation in not_retained(pipeline, tables.fresh, tables.restored)} - tables.again
    held = complete_inputs(catalog, pipeline, stored.last, count, lacking)
    tables = compare(held=held, waiting=waiting) if held else tables
    resumed = frozenset[str]()
    while is_whole and (more := _resumable(isolation, stored, tables) - resumed):
        resumed |= more
        tables = compare(held=held, waiting=waiting, resumed=resumed)
    if resumed & tables.fresh:  # their inputs are recomputed: all rows would count twice
        tables = compare(held=held, waiting=waiting)
    return Planned(tables, failed)


def corrected(
    isolation: Isolation, stored: StoredRelations, failed: Iterable[Failed]
) -> tuple[tuple[Failed, ...], bool]:
    """Return the failed stages, including those that a corrected script has changed, and whether the changes missed by
    all of them are still usable."""
    known, outputs = set(isolation.fingerprints.values()), {s.output for s in isolation.pipeline.stages}
    kept = {n.removesuffix(SUFFIX) for n in stored.in_state if n.endswith(SUFFIX)}
    found, is_whole = [], True
    for one in failed:
        if one.fingerprint in known or not one.resumes:
            found.append(one)
        elif not one.lost and one.stage in outputs and isolation.outside(one.stage) <= kept:
            found.append(replace(one, fingerprint=isolation.fingerprints[one.stage]))
        elif not one.lost or one.owner not in _said(isolation.catalog):
            is_whole = False  # otherwise the script resumes it without the missed changes, which were too many
    return tuple(found), is_whole


def _filled_otherwise(isolation: Isolation, stored: StoredRelations) -> frozenset[str]:
    """Return the relations that have rows of another definition."""
    filled = stored.filled
    return frozenset(n for n in isolation.pipeline.relations if n in filled and filled[n] != isolation.fingerprints[n])


def _resumable(isolation: Isolation, stored: StoredRelations, tables: TablePlan) -> frozenset[str]:
    """Return the relations that cannot be recomputed, and are resumed by a hint: their rows have the same columns and
    keys."""
    pipeline = isolation.pipeline
    said = [s.output for s in pipeline.stages if s.owner in _said(isolation.catalog)]
    behind = frozenset[str]().union(*map(isolation.downstream, said))
    schemas, filled = stored.schemas, stored.filled
    keys = {t.name: t.schema.key for t in stored.tables}
    found = set[str]()
    for stage, relation in not_retained(pipeline, tables.fresh, tables.restored):
        if stage.output in tables.waiting or relation in tables.again:
            continue
        own = _stored_above(pipeline, stage) & tables.fresh
        if own <= behind & filled.keys() and all(
            _types(schemas[n]) == _types(pipeline.relations[n].schema) for n in own
        ):
            found |= {n for n in own if keys.get(n) in (None, pipeline.relations[n].schema.key)}
    return frozenset(found)


def _stored_above(pipeline: Pipeline, stage: Stage) -> frozenset[str]:
    """Return the stored relations that a stage fills, including those above an output that is not stored."""
    found = {n for n in (stage.output, *stage.states) if pipeline.relations[n].stored}
    if not pipeline.relations[stage.output].stored:
        readers = (s for s in pipeline.stages if any(r.relation == stage.output for r in s.slots))
        found = found.union(*(_stored_above(pipeline, s) for s in readers))
    return frozenset(found)


def _said(catalog: Catalog) -> frozenset[str]:
    """Return the views that the script resumes, with the views that read them.

    A private view can be a part of these.
    """
    found = set(catalog.hints.resumed)
    for id_, view in catalog.views.items():  # a view reads earlier ones
        if any(isinstance(n, Scan) and n.relation in found for n in view.plan.walk()):
            found.add(id_)
    return frozenset(found)


def _types(schema: Schema) -> list[tuple[str, pa.DataType]]:
    return [(c.name, c.type) for c in schema]

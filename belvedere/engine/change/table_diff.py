"""Comparison of stored relations with a changed script: kept, copied, rebuilt, or dropped.

In: the pipeline, the tables of the store and its state. Out: a `TablePlan`. A relation is identified by fingerprints:
of its definition (its plan and all its inputs) and of its access paths. Same definition: its rows are kept, and copied
if their place or their indexes change. Another definition: rebuilt from its inputs. All of it happens in the first
epoch, so that readers see the old views until the new ones are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.catalog.views import View
from belvedere.engine.change.continued_events import continued_tellers
from belvedere.engine.change.fingerprints import definition_fingerprints, path_print
from belvedere.engine.change.lost_rows import not_retained
from belvedere.engine.change.schema_evolution import SchemaEvolution, evolution_of, evolved_rows
from belvedere.engine.change.stored_relations import StoredRelations
from belvedere.engine.change.table_plan import TablePlan
from belvedere.engine.compute import Compute
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation, Slot, arranged_schema
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.row_identity import identity_columns
from belvedere.engine.stage import Stage
from belvedere.functions.spark_types import quote
from belvedere.optimize.indexes import read_indexes
from belvedere.schema import INGEST_TIME, KEY
from belvedere.state.fingerprint import Fingerprint
from belvedere.state.sorted_run import Arranged
from belvedere.state.state import State
from belvedere.store.dialects import DIALECTS
from belvedere.store.protocol import EpochRow, Store, Transaction
from belvedere.store.public_views import ShownView
from belvedere.store.read.computed_views import computed_table
from belvedere.store.stored_table import StoredTable
from belvedere.time.event_time import Clocks

COPIED = "copied"


def unread_inputs(catalog: Catalog, last: EpochRow) -> frozenset[str]:
    """Return the inputs of which no epoch has read a row."""
    counts = Clocks.of_document(last.bounds).counts
    return frozenset(i for i in catalog.inputs if not (i in counts and counts[i].given) and not last.offsets.get(i))


def compare_tables(
    catalog: Catalog,
    pipeline: Pipeline,
    now: StoredRelations,
    readable: Collection[str] = frozenset(),
    held: Collection[str] = frozenset(),
    waiting: Collection[str] = frozenset(),
    resumed: frozenset[str] = frozenset(),
) -> TablePlan:
    """Return the plan for each relation.

    It does not check whether the needed rows exist; `readable` inputs can be re-read.

    All earlier rows of `held` inputs are in their own tables. `waiting` relations are in quarantine, and their missed
    changes were kept since they were fresh: nothing is rebuilt for them. `resumed` relations have changed and continue
    with their rows.
    """
    fingerprints = definition_fingerprints(pipeline)
    served, looked_up = served_relations(pipeline), looked_up_relations(pipeline)
    stored = {n: r for n, r in pipeline.relations.items() if r.stored}
    tables = {n: _table(r, catalog, fingerprints[n], n in looked_up) for n, r in stored.items() if n in served}
    arranged = {n: _arranged(r, fingerprints[n]) for n, r in stored.items() if n in looked_up or n not in served}
    in_tables, filled = now.filled_tables, now.filled
    found = (
        evolution_of(pipeline, filled, fingerprints, now.schemas) if now.last is not None else SchemaEvolution({}, {})
    )
    evolved = {n: s for n, s in found.evolved.items() if n in stored}
    fresh = frozenset(n for n in stored if filled.get(n) != fingerprints[n] and n not in evolved and n not in resumed)
    restored: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    still: frozenset[str] = frozenset()
    if now.last is not None:
        again = unread_inputs(catalog, now.last).union(readable, held) & {
            i for i, t in catalog.inputs.items() if t.append_only
        }
    refilled = fresh & again - filled.keys()
    changed = fresh = fresh - refilled
    if now.last is not None:
        forgetful = frozenset(n for n, f in now.in_state.items() if f.final)
        fresh |= {n for n in forgetful if n in served}  # a private view that is read now: all its rows count
        empty = fresh.intersection(waiting)
        fresh, restored = with_forgotten(pipeline, fresh - empty, forgetful)
        still, fresh = empty - fresh, fresh | empty
    tellers = fresh & in_tables.keys() & {s.output for s in pipeline.stages if s.emits_changes}
    continued = continued_tellers(pipeline, now, tellers)
    fresh, changed = fresh - continued, changed - continued
    copied = {}
    for name in stored.keys() - fresh - refilled:
        to_table = name in tables and in_tables.get(name) != fingerprints[name]
        to_state = name in arranged and now.in_state.get(name) != arranged[name].fingerprint
        if to_table or to_state:
            copied[name] = (to_table, to_state)
    remade = fresh | evolved.keys() | {n for n in continued | resumed if in_tables.get(n) != fingerprints[n]}
    outdated = tuple(t.name for t in now.tables if t.fingerprint and (t.name not in tables or t.name in remade))
    computed = {i: computed_table(catalog, i, plan, DIALECTS[now.dialect]) for i, plan in pipeline.at_read.items()}
    outdated, unmade = _outdated_queries(now.tables, computed, outdated)
    again &= refilled | {relation for _, relation in not_retained(pipeline, fresh, restored)}
    return TablePlan(
        tables,
        arranged,
        fresh,
        copied,
        outdated,
        computed,
        unmade,
        restored,
        evolved,
        found.misfits,
        refilled,
        changed,
        again,
        again.intersection(held) - refilled,
        continued,
        tellers - continued,
        resumed,
        still,
    )


def _outdated_queries(
    known: Iterable[StoredTable], computed: Mapping[str, StoredTable], outdated: tuple[str, ...]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the dropped tables, views of the database before the tables that they read, and the views to create."""
    queries = {t.name: t for t in known if t.query}
    same = {n for n, t in queries.items() if computed.get(n) == t}
    tables = tuple(n for n in outdated if n not in queries)
    if tables:  # no table can be dropped below a view of the database
        same = set()
    return (*(n for n in queries if n not in same), *tables), frozenset(computed.keys() - same)


def served_relations(pipeline: Pipeline) -> frozenset[str]:
    """Return the relations that are tables of the database: public views and inputs, events, histories."""
    results = {s.output for s in pipeline.stages if s.is_result and not s.is_input}
    return frozenset(results.union(pipeline.served.values()))


def looked_up_relations(pipeline: Pipeline) -> frozenset[str]:
    """Return the relations whose old rows a stage needs: those that it reads by key or whole, and those whose rows it
    replaces."""
    found = {s.relation for stage in pipeline.stages for s in stage.slots if reads_rows(stage, s, pipeline.relations)}
    relations = pipeline.relations
    replaced = {s.output for s in pipeline.stages if not (relations[s.output].append_only or s.retracts(relations))}
    results = {s.output for s in pipeline.stages if s.is_result and not s.is_input}
    kept = {n for n in found if relations[n].keep is not None}
    return frozenset((found - kept | replaced) - results)


def reads_rows(stage: Stage, slot: Slot, relations: Mapping[str, Relation]) -> bool:
    """Return whether a stage needs more of a slot's relation than its changes."""
    return stage.looks_up or (slot.path is not None and relations[slot.relation].path(slot.path).stored)


def with_forgotten(
    pipeline: Pipeline, fresh: frozenset[str], forgetful: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Add the relations that lack rows for a rebuild.

    State that is missing, or has dropped rows, is rebuilt too, with everything that it feeds.

    `forgetful` are the relations of the store that drop rows; a changed script may need these for longer. The second
    set are the relations rebuilt from the state of their own stage, which is unchanged.
    """
    found, restored = set(fresh), set[str]()
    while True:
        before = len(found)
        for stage in pipeline.stages:
            inputs = {s.relation for s in stage.slots}
            forgets = any(n in found | forgetful or pipeline.relations[n].loses_rows for n in stage.states)
            if stage.output in found and stage.restores and not forgets and not inputs & found:
                restored.add(stage.output)
                continue
            restored.discard(stage.output)
            if stage.output in found:
                found |= {n for n in inputs if n in forgetful or not _has_all(n, pipeline)}
            if stage.output in found or inputs & found:
                found |= {stage.output, *stage.states}
        if len(found) == before:
            return frozenset(found), frozenset(restored)


def _has_all(name: str, pipeline: Pipeline) -> bool:
    """Return whether all rows of a relation exist. Rows of inputs cannot be recomputed."""
    relation = pipeline.relations[name]
    is_input = any(s.is_input for s in pipeline.stages if s.output == name)
    return is_input or (relation.stored and not relation.loses_rows)


def make_tables(
    plan: TablePlan,
    catalog: Catalog,
    pipeline: Pipeline,
    state: State,
    transaction: Transaction,
    compute: Compute,
    past: Mapping[str, Rows],
) -> Callable[[Store], None]:
    """Move rows to their new places, inside an open epoch.

    Return the function that does the work in the database, after the reads.

    `past` are the rows so far of the inputs that are re-read.
    """
    rows = {n: compute.keep(rows_of_today(n, plan, pipeline, state, transaction)) for n in plan.copied}
    for name, (_, to_state) in plan.copied.items():
        if to_state:
            state.arrangements[name].append(_hashed(rows[name], pipeline.relations[name], compute).batches())
    put = {n: rows[n] for n, (to_table, _) in plan.copied.items() if to_table}
    for name in plan.refilled & past.keys():
        hashed = _hashed(past[name], pipeline.relations[name], compute)
        if hashed.frame is not None and not hashed.is_collected:
            hashed = compute.keep(hashed.reader())
        if name in plan.tables:
            put[name] = hashed
        if name in plan.arranged:
            state.arrangements[name].append(hashed.batches(plan.arranged[name].schema.names))

    def make(store: Store) -> None:
        """Drop outdated tables, create missing ones, and fill those whose rows exist already."""
        if plan.outdated:
            store.drop(plan.outdated)
        store.create(tuple(plan.tables.values()))
        store.create(tuple(plan.computed.values()))
        for name, found in put.items():
            transaction.append(name, found.reader(plan.tables[name].arrow.names))
        store.show(shown_views(catalog, pipeline, {**plan.tables, **plan.computed}))

    return make


def shown_views(catalog: Catalog, pipeline: Pipeline, tables: Mapping[str, StoredTable]) -> list[ShownView]:
    """Return the views for other tools: the public relations of the script that have an endpoint, by their names."""
    relations = {**{i: i for i in pipeline.at_read}, **pipeline.served}
    known: list[Input | View] = [*catalog.inputs.values(), *catalog.views.values()]
    shown = [k for k in known if k.id in catalog.public - catalog.unlisted and k.id in relations and k.schema.visible]
    return [ShownView(k.name, tables[relations[k.id]], k.doc) for k in shown]


def _stored_rows(name: str, state: State, transaction: Transaction) -> pa.RecordBatchReader:
    """Return all rows of a relation from its table or arrangement."""
    found = state.stored(name)
    if found is None:
        return transaction.lookup(name)
    return pa.RecordBatchReader.from_batches(found.arranged.schema, found.look_up(None, None))


def rows_of_today(
    name: str, plan: TablePlan, pipeline: Pipeline, state: State, transaction: Transaction
) -> pa.RecordBatchReader:
    """Return all rows of a relation with its present columns."""
    rows = _stored_rows(name, state, transaction)
    if name not in plan.evolved:
        return rows
    requested = pipeline.relations[name].schema.arrow.append(pa.field(KEY, pa.string(), nullable=False))
    return pa.RecordBatchReader.from_batches(requested, evolved_rows(rows, requested))


def _hashed(rows: Rows, relation: Relation, compute: Compute) -> Rows:
    """Return the rows with the hashes of the present access paths."""
    compute.put(COPIED, rows)
    columns = ", ".join(quote(n) for n in relation.schema.names)
    text = f"SELECT {columns}, {identity_columns(relation)} FROM {quote(compute.view_name(COPIED))}"
    return compute.compute(text, arranged_schema(relation))


def _table(relation: Relation, catalog: Catalog, definition: str, is_arranged: bool) -> StoredTable:
    """Return a relation as a table of the database. If it is also arranged, its rows are looked up there."""
    ranges = relation.ranges if not is_arranged else (INGEST_TIME,) if relation.keep is not None else ()
    view = catalog.views.get(relation.name)
    order = tuple((o.expr.name, o.descending, o.nulls_come_first) for o in view.order) if view is not None else ()
    return StoredTable(relation.name, relation.schema, ranges, read_indexes(catalog, relation.name), definition, order)


def _arranged(relation: Relation, definition: str) -> Arranged:
    """Return a relation as an arrangement."""
    whole = Fingerprint(definition, path_print(relation), ",".join(relation.final))
    schema, internal = arranged_schema(relation), frozenset(relation.internal)
    paths, ranges = relation.stored_paths, relation.ranges
    return Arranged(relation.name, schema, paths, ranges, relation.spans, internal, relation.append_only, whole)

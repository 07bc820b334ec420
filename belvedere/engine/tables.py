"""What becomes of stored tables when a script has changed: kept, hashed anew, rebuilt, or dropped.

In: the pipeline and what the store holds. Out: a `TablePlan`. A relation is known by two fingerprints: of its meaning (its plan and
all that feeds it) and of its access paths. Same meaning and paths: kept. Same meaning, other paths: its own rows are hashed
anew. Another meaning: rebuilt from its inputs. All of it happens in the first epoch's transaction, so that readers see the old views
until the new ones are filled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.catalog import Catalog
from belvedere.engine.compute import Compute
from belvedere.engine.identity import identity_columns
from belvedere.engine.lost_rows import refuse_lost_rows
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.engine.render import print_expression, quote, spark_type
from belvedere.engine.stage import Stage
from belvedere.optimize.indexes import read_indexes
from belvedere.store.protocol import EpochRow, Store, StoredTable, Transaction

REHASHED = "rehashed"


@dataclass(frozen=True)
class TablePlan:
    """The stored tables; `fresh` ones are filled from their inputs, `rehashed` ones from their own old rows."""

    tables: Mapping[str, StoredTable]
    fresh: frozenset[str]
    rehashed: frozenset[str]
    outdated: tuple[str, ...]


def plan_tables(catalog: Catalog, pipeline: Pipeline, store: Store) -> TablePlan:
    """Compare what the pipeline needs with what the store holds.

    A table counts as filled when an epoch that knew its meaning was committed: one that was only made does not.
    Raises BelvedereError B7030 where a view must be rebuilt from rows that were not kept, B7031 where a pushed input has changed.
    """
    last = store.last_epoch()
    meaning, paths = meanings(pipeline), {r.name: path_print(r) for r in pipeline.relations.values()}
    tables = {
        r.name: stored_table(r, read_indexes(catalog, r.name), f"{meaning[r.name]}.{paths[r.name]}.{','.join(r.final)}")
        for r in pipeline.relations.values()
        if r.stored
    }
    stored = store.tables()
    known = {t.name: t.meaning for t in stored if t.meaning}
    filled = _filled(last, known)
    fresh = frozenset(n for n, t in tables.items() if filled.get(n, "").split(".")[0] != t.meaning.split(".")[0])
    if last is not None:
        forgetful = frozenset(t.name for t in stored if t.final and t.name in filled)
        fresh |= {n for n in forgetful if pipeline.is_served(n)}  # a private view that is read now: all its rows count
        fresh = _with_forgotten(pipeline, fresh, forgetful) & tables.keys()
    rehashed = frozenset(n for n, t in tables.items() if n not in fresh and filled[n] != t.meaning)
    if last is not None:
        refuse_lost_rows(catalog, pipeline, fresh, filled)
    outdated = tuple(n for n in known if n not in tables or n in fresh or n in rehashed)
    return TablePlan(tables, fresh, rehashed, outdated)


def _with_forgotten(pipeline: Pipeline, fresh: frozenset[str], forgetful: frozenset[str]) -> frozenset[str]:
    """What is rebuilt needs all rows of its inputs: state that has let some go is rebuilt too, and all that it feeds.

    `forgetful` are the relations of the store that let rows go; under a changed script they may be needed for longer.
    """
    found = set(fresh)
    while True:
        before = len(found)
        for stage in pipeline.stages:
            if stage.output in found:
                found |= {
                    s.relation for s in stage.slots if pipeline.relations[s.relation].loses_rows or s.relation in forgetful
                }
            if stage.output in found or any(s.relation in found for s in stage.slots):
                found |= {stage.output, *stage.states}
        if len(found) == before:
            return frozenset(found)


def _filled(last: EpochRow | None, known: Mapping[str, str]) -> dict[str, str]:
    committed: Mapping[str, str] = last.extra.get("meanings", {}) if last else {}
    return {n: m for n, m in known.items() if committed.get(n) == m}


def make_tables(plan: TablePlan, pipeline: Pipeline, store: Store, transaction: Transaction, compute: Compute) -> None:
    """Drop what is outdated, make what is missing, and hash kept rows anew; inside an open epoch."""
    kept = {n: compute.keep(transaction.lookup(n, None, None)) for n in plan.rehashed}
    if plan.outdated:
        store.drop(plan.outdated)
    store.create(tuple(plan.tables.values()))
    for name, rows in kept.items():
        relation = pipeline.relations[name]
        compute.put(REHASHED, rows)
        columns = ", ".join(quote(n) for n in relation.schema.names)
        text = f"SELECT {columns}, {identity_columns(relation)} FROM {quote(compute.view_name(REHASHED))}"
        schema = plan.tables[name].arrow
        transaction.append(name, compute.compute(text, schema).reader())


def meanings(pipeline: Pipeline) -> dict[str, str]:
    """A fingerprint per relation: of its rule and plan and of all that feeds it, so that a change shows in all above it."""
    found: dict[str, str] = {}
    for stage in pipeline.stages:
        digest = _digest(*_content(stage, pipeline), *(found[s.relation] for s in stage.slots))
        found |= dict.fromkeys((stage.output, *stage.states), digest)
    return found


def _content(stage: Stage, pipeline: Pipeline) -> list[str]:
    relation = pipeline.relations[stage.output]
    columns = [f"{c.name} {spark_type(c.type)} {c.nullable}" for c in relation.schema]
    return [stage.rule, *stage.meaning, *columns, str(relation.schema.key), str(relation.keep), relation.serves]


def path_print(relation: Relation) -> str:
    """A fingerprint of the stored access paths and range columns."""
    paths = [f"{p.name} {[print_expression(e) for e in p.exprs]} {p.types}" for p in relation.paths if p.stored]
    return _digest(*paths, *relation.ranges)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def stored_table(relation: Relation, indexes: tuple[tuple[str, ...], ...] = (), meaning: str = "") -> StoredTable:
    """How a relation is stored."""
    indexes = (*indexes, *relation.spans)
    return StoredTable(
        relation.name, relation.schema, relation.stored_paths, relation.ranges, indexes, meaning, relation.silent
    )

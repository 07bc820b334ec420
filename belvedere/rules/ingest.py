"""Ingest: an input's rows become a relation: appended, upserted by key, or a multiset from which equal rows are
removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.catalog.inputs import Input
from belvedere.engine.relation import Relation
from belvedere.engine.sql.stage_sql import Texts
from belvedere.engine.stage import Stage
from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Scan
from belvedere.rules.builder import Builder, StageOwner
from belvedere.schema import INGEST_TIME


@dataclass(frozen=True)
class IngestStage(Stage):
    """Stage of an input: rows stamped with their keys and hashes.

    The epoch receives the arrived rows and runs these stages first.
    """

    rule = "ingest"
    is_result = True
    is_input = True

    def texts(self, texts: Texts) -> Mapping[str, str]:
        return {"changes": texts.changes_of_scan("s0")}

    def bounds(self, inputs: Known, relations: Mapping[str, Bounds]) -> Bounds:
        return inputs(self.output) or {}

    def frees(self, relation: Relation) -> str | None:
        return "rows leave when their time to be served is over" if relation.keep is not None else None


def maintain_input(builder: Builder, table: Input) -> None:
    """Create the relation of an input. It is not stored if it is append-only and no stage needs its old rows."""
    stored = table.id in builder.stored_ids or not table.append_only
    retention = table.keep if table.append_only else None
    part = StageOwner(table.id, table.id, table.id)
    if not table.append_only and not table.primary_key:
        visible = tuple(c for c in table.schema if not c.hidden)
        builder.path_of(part, tuple(column(c.name) for c in visible), tuple(c.type for c in visible))
    reason = "append-only" if table.append_only else "rows are upserted by key and may be deleted"
    if not stored:
        reason += "; private and not needed as state: not stored"
    reason += "".join(f"; `{name}` is {found.meaning}" for name, found in table.metadata.items())
    stage = IngestStage(table.id, Scan(table.id, table.schema), (), table.id, reason)
    ranges = (INGEST_TIME,) if retention is not None else ()
    builder.emit(stage, part, stored=stored, ranges=ranges, append_only=table.append_only, keep=retention)

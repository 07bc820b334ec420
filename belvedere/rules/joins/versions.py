"""Versions: the next time of each row, `lead(t) OVER (PARTITION BY k ORDER BY t)`, for rows that arrive above a bound.

A new row changes only its predecessor, which is the last row below the bound or a later one. Rows whose next time is
below the bound are final. They leave the state, and the other rows are computed without them. The state of a key is
therefore what is valid at the bound or later. If no bound is possible, the plain rules store all rows of a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from belvedere.engine.relation import Relation
from belvedere.engine.sql.stage_sql import Texts
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Node, Project, Scan, Union, Window
from belvedere.plan.operators.project import item_of
from belvedere.plan.operators.window import next_time
from belvedere.plan.plan_properties import partition_of
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.top_k.top import OWN, OwnRowsStage
from belvedere.spark_sql.dialect import SparkSql


@dataclass(frozen=True)
class VersionsStage(OwnRowsStage):
    """Stage that recomputes the rows of the changed keys that are not final, from stored rows and new ones."""

    rule = "versions"

    @property
    def changed(self) -> Node:
        return self.plan.inputs[0]

    def beside_own(self, texts: Texts) -> Node:
        given = self.plan.inputs[0]
        items = tuple(item_of(c) for c in given.schema)
        return self.plan.with_inputs((Union((Project(given, items), Project(Scan(OWN, texts.output.schema), items))),))


def _applies(site: Site) -> Maintain | None:
    top, partition = site.top, partition_of(site.top)
    if not isinstance(top, Window) or len(top.items) != 1 or partition is None:
        return None
    found = next_time(top.items[0].expr)
    if found is None or found.rows != 1 or found.has_default or not site.builder.grows(top.input):
        return None
    time = found.time
    return (
        None if site.builder.final_source(top.input, time) is None else partial(_maintain, site, top, partition, time)
    )


def _maintain(site: Site, top: Window, partition: Partition, time: str) -> Relation:
    if site.plan is not top or site.part.view is not None:
        return site.apart()
    builder, part = site.builder, site.part
    source, slots = builder.delta_slots(builder.with_relations(top.input, part.owner))
    slots = builder.hash_changes(top.input, slots, partition)
    path = builder.path_of(part, partition.output, partition.types)
    by = ", ".join(e.sql(dialect=SparkSql) for e in partition.output)
    reason = f"each row of the changed {by} with the {time} of the next; rows leave once that is below its watermark"
    return builder.emit(
        site.stage(VersionsStage, top.with_inputs((source,)), slots, reason, path=path), part, schema=top.schema
    )


VERSIONS = Rule("versions", _applies)

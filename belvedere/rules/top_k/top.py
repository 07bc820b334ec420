"""Top: the first rows per key of an append-only input. Its output is the only state that it needs.

A row that is not among the first rows now can never become one, so the stage reads nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.relation import Relation
from belvedere.engine.rows.epoch_rows import ColumnValues, Rows, hashes_in, keys_of, with_hash
from belvedere.engine.sql.stage_sql import DELTA, ROWS, Texts
from belvedere.engine.stage import Stage
from belvedere.engine.work import Work
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Node, Project, Scan, TopK, Union
from belvedere.plan.operators.project import item_of
from belvedere.plan.plan_properties import base_scan, partition_of
from belvedere.rules.bounds_below import of_keys
from belvedere.rules.builder import Builder
from belvedere.rules.merge.merge_rule import keys_of_changes
from belvedere.rules.rule import Maintain, Rule, Site
from belvedere.rules.whole import OperatorStage
from belvedere.schema import KEY

OWN, NEW = "own", "new"
"""Scans from which a stage reads its own rows, and the first rows of its changes."""


@dataclass(frozen=True)
class OwnRowsStage(Stage):
    """Stage that computes the changed keys from the changed rows and its own stored ones.

    `path` is the output's access path by these keys.
    """

    path: str

    def texts(self, texts: Texts) -> Mapping[str, str]:
        """Return the text `rows` for the rows of the changed keys, and the texts that `many` needs."""
        kinds = {**dict.fromkeys(texts.names, DELTA), OWN: ROWS}
        return {"rows": texts.rows(self.beside_own(texts), kinds), **self.texts_of_many(texts)}

    def texts_of_many(self, texts: Texts) -> Mapping[str, str]:
        """Return the texts that `many` runs."""
        return {"groups": texts.groups(self.changed, self.path)}

    def beside_own(self, texts: Texts) -> Node:
        """Return the operator over changes and `Scan(OWN)`."""
        raise NotImplementedError

    @property
    def changed(self) -> Node:
        """Return the operator's input over the slots alone."""
        raise NotImplementedError

    def run(self, work: Work) -> Rows | None:
        if not work.put_deltas():
            return None
        keys = keys_of_changes(work, work.output.path(self.path))
        if keys is None:
            return self.run_many(work)
        return None if keys.is_empty else self.run_groups(work, keys)

    def run_groups(self, work: Work, keys: ColumnValues) -> Rows:
        """Compute the groups with these hashes."""
        work.put(OWN, ROWS, work.look_up(self.output, self.path, keys))
        return work.replace(self.path, keys, work.rows("rows"))

    def run_many(self, work: Work) -> Rows | None:
        """Compute the output if there are many changes without group hashes. A separate query finds the groups."""
        keys = keys_of([(work.compute.compute(work.sql["groups"], pa.schema([(self.path, pa.int64())])), self.path)])
        return None if keys.is_empty else self.run_groups(work, keys)


@dataclass(frozen=True)
class PartialsStage(OwnRowsStage):
    """Stage that first reduces many changes to partial results. For a group without stored rows, these are the result.

    Texts: `added` gives the rows of the changes alone; `together` gives those of `Scan(NEW)` and `Scan(OWN)`.
    """

    reads_once = True

    def run_many(self, work: Work) -> Rows | None:
        added = work.rows("added")
        keys = keys_of([(added, self.path)])
        if keys.is_empty:
            return None
        own = work.look_up(self.output, self.path, keys)
        if work.is_apart(added):  # separating new rows would bring rows into the driver
            together = added if own.is_empty else self._both(work, added, own)
            return work.replace(KEY, keys_of([(own, KEY), (together, KEY)]), together)
        if own.is_empty:
            return work.replace(self.path, keys, added)
        known = with_hash(self.path, hashes_in(own, self.path))
        together = self._both(work, work.where(added, known), own)
        return work.replace(self.path, keys, [work.where(added, lambda b: pc.invert(known(b))), together])

    @staticmethod
    def _both(work: Work, added: Rows, own: Rows) -> Rows:
        work.put(NEW, ROWS, added)
        work.put(OWN, ROWS, own)
        return work.rows("together")


@dataclass(frozen=True)
class TopStage(OperatorStage, PartialsStage):
    """Stage of the first rows per key.

    `plan` is a TopK over the union of the changes and its own rows. Many changes are first reduced to their own first
    rows.
    """

    rule = "top"

    def texts_of_many(self, texts: Texts) -> Mapping[str, str]:
        assert isinstance(self.plan, TopK)
        added = texts.rows(replace(self.plan, input=self.changed), DELTA)
        first = replace(self.plan, input=Union((_stored(self.plan, NEW), _stored(self.plan, OWN))))
        return {"added": added, "together": texts.rows(first, ROWS)}

    def beside_own(self, texts: Texts) -> Node:
        return self.plan

    @property
    def changed(self) -> Node:
        return self.plan.inputs[0].inputs[0]

    def writes_from(self, own: Bounds, output: Relation) -> Bounds:
        return of_keys(own, output, self.path)


def needs_only_top(builder: Builder, top: TopK) -> bool:
    """Return whether the first rows of an append-only input are enough: no other row is ever needed."""
    chosen = TOP.name not in builder.options.off and top.limit is not None and not top.offset
    return chosen and base_scan(top.input) is not None and builder.grows(top.input)


def _applies(site: Site) -> Maintain | None:
    top, partition = site.top, partition_of(site.top)
    if not isinstance(top, TopK) or partition is None or not needs_only_top(site.builder, top):
        return None
    return partial(maintain_top, site, top, partition)


def maintain_top(site: Site, top: TopK, partition: Partition) -> Relation:
    """Maintain the first rows as a relation of their own with the input's key."""
    if site.plan is not top:
        return site.apart()
    builder, part = site.builder, site.part
    source, slots = builder.delta_slots(top.input)
    slots = builder.hash_changes(top.input, slots, partition)
    ordered = top.order + top.tie_order  # a union has no key to break ties by
    both = replace(top, input=Union((source, _stored(top, OWN))), order=ordered)
    path = builder.path_of(part, partition.output, partition.types)
    by = f" by {', '.join(top.partition)}" if top.partition else ""
    reason = f"the first {top.limit}{by}: its input is append-only, so no other row can be needed"
    # new and stored rows are disjoint, so the key stays
    return builder.emit(site.stage(TopStage, both, slots, reason, path=path), part, schema=top.schema)


def _stored(top: TopK, scan: str) -> Node:
    """Return the first rows found earlier, as the operator's input: they are numbered again."""
    rows = Scan(scan, top.schema)
    if top.number is None:
        return rows
    return Project(rows, tuple(item_of(c) for c in top.schema if c.name != top.number.name))


TOP = Rule("top", _applies)

"""Builder of a pipeline: creates relations and stages. The choice of every rule uses it.

In: ids and plan nodes. Out: the relation behind each, created on first use, with the access paths that its readers
need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import LatePolicy
from belvedere.engine.change.table_diff import reads_rows
from belvedere.engine.expiry import final_below, final_inputs, relation_bounds
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Path, Relation, Slot
from belvedere.engine.stage import Stage, slots_known
from belvedere.plan.bound_rules import Bounds
from belvedere.plan.bounds import bounds_of, event_time_columns
from belvedere.plan.operators.node import Partition
from belvedere.plan.operators.nodes import Expr, Join, JoinKind, Node, Project, Scan, Values
from belvedere.plan.operators.project import keep_columns
from belvedere.plan.plan_properties import base_scan, is_linear, needs_clock
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.rewrite import inline, plain_columns, push_down, replace_node, replace_scans
from belvedere.rules.options import Options
from belvedere.schema import Schema
from belvedere.time.event_time import Clocks, bounds_by_input


@dataclass
class Draft:
    """A relation to which consumers can still add access paths."""

    relation: Relation
    paths: list[Path] = field(default_factory=list)

    def path(self, exprs: tuple[Expr, ...], types: tuple[pa.DataType, ...], stored: bool = True) -> str:
        """Return the name of the access path by these expressions, and create it on first use.

        A path stays stored once a caller asked for it to be stored.
        """
        for n, known in enumerate(self.paths):
            if known.exprs == exprs and known.types == types:
                self.paths[n] = replace(known, stored=known.stored or stored)
                return known.name
        self.paths.append(Path(f"_h{len(self.paths)}", exprs, types, stored))
        return self.paths[-1].name


@dataclass(frozen=True)
class StageOwner:
    """The owner of a stage: the relation that it produces, the view to which it belongs, and its id if it is itself a
    view."""

    name: str
    owner: str
    view: str | None


KeyExpressions = tuple[tuple[Expr, ...], tuple[pa.DataType, ...]]
"""Key of an access path: expressions over the relation's columns, and their types."""

Choose = Callable[["Builder", Node, StageOwner], Relation]
"""Function that chooses a rule for the top operator of a plan and returns the relation."""
Make = Callable[["Builder", str], None]
"""Function that creates the stages behind an id of the catalog."""


class Builder:
    """Creates relations and stages on demand, in the order in which an epoch runs them."""

    def __init__(self, catalog: Catalog, options: Options, stored: tuple[str, ...], choose: Choose, make: Make):
        self.catalog = catalog
        self.options = options
        self.drafts: dict[str, Draft] = {}
        self.stages: list[Stage] = []
        self.names: dict[str, str] = {}
        self.own: dict[Node, Relation] = {}
        self.stored_ids = frozenset(stored)
        self.choose, self.make = choose, make
        self.never_final = never_final_inputs(catalog, options.expire)
        self._bounds: dict[str, Bounds] = {}

    def pipeline(self) -> Pipeline:
        relations = {n: replace(d.relation, paths=tuple(d.paths)) for n, d in self.drafts.items()}
        served = {i: self.names[i] for i in self.stored_ids if i in self.names}
        relations |= _with_internal(relations, self.stages, frozenset(served.values()))
        made = Pipeline(
            relations, tuple(self.stages), served, self.never_final, self.options.cost, self.catalog.placement.at_read
        )
        found = final_below(made, bounds_by_input(self.catalog, Clocks()).__getitem__)
        for name, columns in found.items():
            known = relations[name]
            ranges = tuple(dict.fromkeys((*known.ranges, *columns)))
            relations[name] = replace(known, final=tuple(columns), ranges=ranges)
        relations |= {n: replace(relations[n], stored=False, final=()) for n in _passing(made)}
        relations |= {n: replace(relations[n], stored=False, final=(), by_path=True) for n in _unread(made)}
        return made

    def relation_of(self, id_: str) -> str:
        """Return the maintained relation of an input or view. Create its stages on the first call."""
        if id_ not in self.names:
            self.make(self, id_)
            self.names[id_] = id_
        return self.names[id_]

    def definition(self, id_: str) -> Node | None:
        """Return the plan of a view that can be inlined: the view is private and linear down to other relations."""
        view = self.catalog.views.get(id_)
        if view is None or id_ in self.stored_ids or id_ in self.names:
            return None
        node = view.plan
        while is_linear(node) and len(node.inputs) == 1:
            node = node.inputs[0]
        return inline(view.plan, self.definition) if isinstance(node, Scan) else None

    def maintain(self, plan: Node, part: StageOwner) -> Relation:
        """Create the stages that maintain `plan` as the relation of `part`."""
        return self.choose(self, inline(plan, self.definition), part)

    def shared(self, plan: Node, owner: str) -> Relation:
        """Return the relation of an operator's own state. Views that need the same operator share it."""
        plan = inline(plan, self.definition)
        if plan not in self.own:
            self.own[plan] = self.maintain(plan, StageOwner(self.fresh(owner), owner, None))
        return self.own[plan]

    def with_relations(self, plan: Node, owner: str) -> Node:
        """Return a linear tree in which nonlinear parts (below a union) are replaced by relations of their own."""
        if isinstance(plan, Scan):
            return plan
        if is_linear(plan):
            return plan.with_inputs(tuple(self.with_relations(i, owner) for i in plan.inputs))
        part = self.shared(plan, owner)
        return Scan(part.name, part.schema)

    def relation_of_scan(self, scan: Scan) -> str:
        """Return the relation behind a scan of a catalog id or of an operator's own state."""
        return scan.relation if scan.relation in self.drafts else self.relation_of(scan.relation)

    def fresh(self, owner: str) -> str:
        n = 1
        while f"{owner}${n}" in self.drafts or any(s.output == f"{owner}${n}" for s in self.stages):
            n += 1
        self.drafts.setdefault(f"{owner}${n}", Draft(Relation(f"{owner}${n}", Schema(()), stored=True)))
        return f"{owner}${n}"

    def path_of(self, part: StageOwner, exprs: tuple[Expr, ...], types: tuple[pa.DataType, ...]) -> str:
        """Return the name of an access path of a relation that is not created yet."""
        draft = self.drafts.setdefault(part.name, Draft(Relation(part.name, Schema(()), stored=True)))
        return draft.path(exprs, types)

    def state_of(self, part: StageOwner, suffix: str, schema: Schema, ranges: tuple[str, ...] = ()) -> Draft:
        """Create a relation for the state of a stage, in addition to its output."""
        draft = Draft(Relation(part.name + suffix, schema, stored=True, ranges=ranges))
        self.drafts[part.name + suffix] = draft
        return draft

    def emit(self, stage: Stage, part: StageOwner, schema: Schema | None = None, **facts: Any) -> Relation:
        """Add a stage. Its output has the plan's schema (or `schema`), and these `facts` as a `Relation`."""
        schema = schema or stage.plan.schema
        if schema.key is None:
            raise AssertionError(f"relation {stage.output} has no key")
        relation = Relation(stage.output, schema, **({"stored": True, "view": part.view} | facts))
        known = self.drafts.get(stage.output)
        self.drafts[stage.output] = Draft(relation, known.paths if known else [])
        self.stages.append(stage)
        return relation

    def only_grow(self, slots: tuple[Slot, ...]) -> bool:
        """Return whether the relations of these slots are append-only."""
        return all(self.drafts[s.relation].relation.append_only for s in slots)

    def delta_slots(self, plan: Node) -> tuple[Node, tuple[Slot, ...]]:
        """Return a linear tree over slots that read only changes."""
        slots: list[Slot] = []

        def to_slot(scan: Scan) -> Scan:
            slots.append(Slot(f"s{len(slots)}", self.relation_of_scan(scan)))
            return Scan(slots[-1].name, scan.relation_schema)

        return replace_scans(plan, to_slot), tuple(slots)

    def slot(self, number: int, fragment: Node, keys: KeyExpressions | None, owner: str) -> tuple[Slot, Node]:
        """Return the slot for one input of an operator, and the fragment to render in its place."""
        fragment = self._of_shared(fragment, owner)
        base = base_scan(fragment)
        if base is not None:
            relation = self.relation_of_scan(base)
            draft = self.drafts[relation]
            if draft.relation.is_state:
                path = None
                if keys is not None:
                    path = draft.path(push_down(fragment, keys[0]), keys[1])
                slot = Slot(f"s{number}", relation, path)
                return slot, replace_scans(fragment, lambda s: Scan(slot.name, s.relation_schema))
        # the input of DISTINCT and set operations has no key: its rows need one when they are stored
        state = self.shared(carry_keys(fragment), owner)
        path = None if keys is None else self.drafts[state.name].path(*keys)
        slot = Slot(f"s{number}", state.name, path)
        return slot, keep_columns(Scan(slot.name, state.schema), fragment.schema.names)

    def _of_shared(self, fragment: Node, owner: str) -> Node:
        """Rewrite a plan that only renames an operator's columns as a read of the operator's own relation.

        Other plans can share this relation.
        """
        below = fragment
        while isinstance(below, Project) and _renames(below):
            below = below.input
        if below is fragment or isinstance(below, Scan) or is_linear(below):
            return fragment
        state = self.shared(carry_keys(below), owner)
        return replace_node(fragment, below, keep_columns(Scan(state.name, state.schema), below.schema.names))

    def slots(self, top: Node, partition: Partition | None, owner: str) -> tuple[tuple[Slot, ...], Node]:
        slots, inputs = [], []
        for n, fragment in enumerate(top.inputs):
            keys = None if partition is None else (partition.inputs[n], partition.types)
            slot, rendered = self.slot(n, fragment, keys, owner)
            slots.append(slot)
            inputs.append(rendered)
        return tuple(slots), top.with_inputs(tuple(inputs))

    def span(self, relation: str, path: str | None, by: str) -> None:
        """Record that this access path is used to look up part of a key's rows, in the order of a column."""
        draft = self.drafts[relation]
        assert path is not None
        draft.relation = replace(draft.relation, spans=tuple(dict.fromkeys((*draft.relation.spans, (path, by)))))

    def grows(self, node: Node) -> bool:
        """Return whether a relation is append-only."""
        if isinstance(node, Scan):
            return self.drafts[self.relation_of_scan(node)].relation.append_only
        if is_linear(node) or (isinstance(node, Join) and node.kind is JoinKind.INNER and not needs_clock(node)):
            return all(self.grows(i) for i in node.inputs)
        return isinstance(node, Values)

    def bounds_of(self, operator: Node, slots: tuple[Slot, ...]) -> Bounds:
        """Return the columns of an operator over slots that can have a bound; no bound has a value yet."""
        return bounds_of(operator, slots_known(slots, self.bounds()))

    def bounds(self) -> Mapping[str, Bounds]:
        """Return, for every relation created so far, the columns that can have a bound."""
        inputs = final_inputs(self.never_final, bounds_by_input(self.catalog, Clocks()).__getitem__)
        self._bounds = relation_bounds(tuple(self.stages[len(self._bounds) :]), inputs, self._bounds)
        return self._bounds

    def final_source(self, node: Node, time: str) -> Node | None:
        """Return a plan down to the catalog's inputs, or None if no bound on its column `time` makes its rows final."""
        views = self.catalog.views
        source = inline(node, lambda i: views[i].plan if i in views else None)
        if {n.relation for n in source.walk() if isinstance(n, Scan)} & self.never_final:
            return None
        known = bounds_by_input(self.catalog, Clocks()).__getitem__
        return source if time in event_time_columns(source, known) else None

    def hash_changes(self, source: Node, slots: tuple[Slot, ...], partition: Partition) -> tuple[Slot, ...]:
        """Add the hash of the group to the changes of an append-only relation.

        This saves the query that finds the groups.
        """
        base = base_scan(source)
        if base is None or len(slots) != 1 or not self.drafts[slots[0].relation].relation.append_only:
            return slots
        exprs = push_down(source, partition.inputs[0])
        path = self.drafts[slots[0].relation].path(exprs, partition.types, stored=False)
        return (replace(slots[0], path=path),)


def _with_internal(
    relations: Mapping[str, Relation], stages: list[Stage], served: frozenset[str]
) -> Iterator[tuple[str, Relation]]:
    """Mark the columns of operators' own relations that no reader reads.

    A change of these columns alone is not a change.
    """
    readers: dict[str, list[frozenset[str] | None]] = {}
    for stage in stages:
        for slot in stage.slots:
            readers.setdefault(slot.relation, []).append(stage.columns_read(slot))
    for stage in stages:
        relation, read = relations[stage.output], readers.get(stage.output, [])
        if stage.output in served or stage.is_result or stage.is_input or relation.append_only or not read:
            continue
        if relation.view is None and all(r is not None for r in read):
            requested = frozenset().union(*(r for r in read if r is not None))
            internal = tuple(n for n in relation.schema.names if n not in requested)
            yield stage.output, replace(relation, internal=tuple(dict.fromkeys((*relation.internal, *internal))))


def _renames(project: Project) -> bool:
    """Return whether a projection shows every column of its input unchanged, possibly renamed."""
    plain = plain_columns(project)
    return len(plain) == len(project.items) and set(plain.values()) == set(project.input.schema.names)


def _passing(pipeline: Pipeline) -> Iterator[str]:
    """Yield the relations of which one stage reads the changes and no stage reads the rows. They need not be stored."""
    for stage in pipeline.stages:
        name, relation = stage.output, pipeline.relations[stage.output]
        readers = [(s, slot) for s in pipeline.stages for slot in s.slots if slot.relation == name]
        if not stage.defers or not relation.append_only or pipeline.is_served(name) or len(readers) != 1:
            continue
        ((reader, slot),) = readers
        if reader.reads_once and not reads_rows(reader, slot, pipeline.relations):
            yield name


def _unread(pipeline: Pipeline) -> Iterator[str]:
    """Yield the operators' own relations that need not be stored.

    Their changes are known without their rows, and no stage looks rows up or reads the key of a change.
    """
    for stage in pipeline.stages:
        name, relation = stage.output, pipeline.relations[stage.output]
        readers = [(s, slot) for s in pipeline.stages for slot in s.slots if slot.relation == name]
        if relation.view is not None or pipeline.is_served(name) or not readers or not relation.schema.key:
            continue  # without a key: a group over no rows has a row from the start
        if any(s.reads_keys or reads_rows(s, slot, pipeline.relations) for s, slot in readers):
            continue
        if not stage.defers and stage.retracts(pipeline.relations):
            yield name


def never_final_inputs(catalog: Catalog, expire: bool) -> frozenset[str]:
    """Return the inputs whose bounds make no row final: all inputs if `expire` is false."""
    tables = catalog.inputs.values()
    return frozenset(t.id for t in tables if not expire or not t.append_only or t.late is LatePolicy.KEEP)

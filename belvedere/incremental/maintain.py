"""Choose how every view is kept: catalog -> pipeline.

In: a catalog whose views' plans carry their keys. Out: relations and stages. Views that are private and linear are inlined;
every nonlinear operator becomes a stage whose output is stored, with the linear operators above it in the same stage. An
operator's input is looked up in the stored relation below it, through the linear chain between; where there is none (a
private stream, a union), the chain's result is stored for it. Nothing is run here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog import Catalog, ChangeKind, Input, Subscription
from belvedere.errors import fail
from belvedere.incremental.accumulate import accumulate, state_of
from belvedere.incremental.clock_filter import ENTER, LEAVE, ClockFilter, split_clock_filter
from belvedere.incremental.emission import (
    EMITTED,
    GROUPS,
    PLAIN,
    WAITING_COLUMNS,
    explain_emission,
    plan_emission,
    unsettled_inputs,
)
from belvedere.incremental.event_time import Clocks, bounds_by_input
from belvedere.incremental.facts import Partition, base_scan, equalities, is_linear, needs_clock, partition_of
from belvedere.incremental.pipeline import (
    CHANGES,
    EVENT_COLUMNS,
    OWN,
    SEQUENCE,
    STATE,
    WAITING,
    Path,
    Pipeline,
    Relation,
    Rule,
    Slot,
    Stage,
)
from belvedere.incremental.rewrite import carry, inline, push_down, replace_scans
from belvedere.plan.expressions import column, conjunction
from belvedere.plan.keys import carry_keys, item_of, keep_columns
from belvedere.plan.nodes import (
    Aggregate,
    Distinct,
    Emit,
    Expr,
    Filter,
    InOrder,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    TopK,
    Union,
    Values,
)
from belvedere.plan.ties import tie_order
from belvedere.schema import INGEST_TIME, Schema

SAID = {ChangeKind.ADD: "new", ChangeKind.CHANGE: "changed", ChangeKind.DELETE: "gone"}


@dataclass(frozen=True)
class Options:
    """Which of the cheaper rules may be used; the plain rules are their oracle."""

    join: bool = True
    merge: bool = True
    top: bool = True
    forget: bool = True
    """Whether state that bounds have made final is dropped."""


def maintain(catalog: Catalog, options: Options | None = None) -> Pipeline:
    """Decide how each public view, and what it builds on, is kept."""
    builder = _Builder(catalog, options or Options())
    for id_ in _roots(catalog):
        builder.relation_of(id_)
    for id_ in dict.fromkeys(e.relation for e in catalog.exports if e.relation not in catalog.subscriptions):
        builder.changes_of(id_)
    return builder.pipeline()


def _roots(catalog: Catalog) -> tuple[str, ...]:
    """What must be stored: public ids, observed queries, exports, and what query templates read."""
    order = (*catalog.inputs, *catalog.views, *catalog.subscriptions)
    wanted = set(catalog.public) | {s.view for s in catalog.subscriptions.values()} | set(catalog.subscriptions)
    wanted |= {e.relation for e in catalog.exports if e.relation in catalog.views}
    wanted |= {i for i, table in catalog.inputs.items() if table.late_of is not None}
    for template in catalog.templates.values():
        wanted |= {n.relation for n in template.plan.walk() if isinstance(n, Scan)}
    return tuple(i for i in order if i in wanted)


@dataclass
class _Draft:
    """A relation while consumers still add access paths to it."""

    relation: Relation
    paths: list[Path] = field(default_factory=list)

    def path(self, exprs: tuple[Expr, ...], types: tuple[pa.DataType, ...], stored: bool = True) -> str:
        """The name of the access path by these expressions, made on first use; once stored, it stays stored."""
        for n, known in enumerate(self.paths):
            if known.exprs == exprs and known.types == types:
                self.paths[n] = replace(known, stored=known.stored or stored)
                return known.name
        self.paths.append(Path(f"_h{len(self.paths)}", exprs, types, stored))
        return self.paths[-1].name


@dataclass(frozen=True)
class _Part:
    """What a stage is a part of: the relation it makes, the view it belongs to, and the id it is if it is one itself."""

    name: str
    owner: str
    view: str | None


_Keys = tuple[tuple[Expr, ...], tuple[pa.DataType, ...]]


class _Builder:
    """Makes relations and stages on demand, in the order in which an epoch runs them."""

    def __init__(self, catalog: Catalog, options: Options):
        self.catalog = catalog
        self.options = options
        self.drafts: dict[str, _Draft] = {}
        self.stages: list[Stage] = []
        self.names: dict[str, str] = {}
        self.own: dict[Node, Relation] = {}
        self.stored_ids = frozenset(_roots(catalog))

    def pipeline(self) -> Pipeline:
        relations = {n: replace(d.relation, paths=tuple(d.paths)) for n, d in self.drafts.items()}
        served = {i: self.names[i] for i in self.stored_ids if i in self.names}
        return Pipeline(relations, tuple(self.stages), served)

    # --- relations of the catalog

    def relation_of(self, id_: str) -> str:
        """The maintained relation of an input or view; makes its stages on the first call."""
        if id_ not in self.names:
            if id_ in self.catalog.inputs:
                self._ingest(self.catalog.inputs[id_])
            elif id_ in self.catalog.subscriptions:
                self._events(self.catalog.subscriptions[id_])
            else:
                self._maintain(self.catalog.views[id_].plan, id_, owner=id_, view=id_)
            self.names[id_] = id_
        return self.names[id_]

    def _ingest(self, table: Input) -> None:
        stored = table.id in self.stored_ids or not table.append_only
        keep = table.keep if table.append_only else None
        ranges = (INGEST_TIME,) if keep is not None else ()
        relation = Relation(table.id, table.schema, stored, (), ranges, table.append_only, keep, view=table.id)
        self.drafts[table.id] = _Draft(relation)
        if not table.append_only and not table.primary_key:
            visible = tuple(c for c in table.schema if not c.hidden)
            self.drafts[table.id].path(tuple(column(c.name) for c in visible), tuple(c.type for c in visible))
        reason = "rows only arrive" if table.append_only else "rows are upserted by key and may be deleted"
        if not stored:
            reason += "; private and not needed as state: not stored"
        self.stages.append(Stage(table.id, Rule.INGEST, Scan(table.id, table.schema), owner=table.id, reason=reason))

    def _events(self, subscription: Subscription) -> None:
        observed = self.relation_of(subscription.view)
        schema = self.drafts[observed].relation.schema
        slot = Slot("s0", observed)
        reason = f"one event for each row of the observed query that is {SAID[subscription.on]}"
        stage = Stage(
            subscription.id, Rule.EVENTS, Scan("s0", schema), (slot,), None, subscription.id, reason, on=subscription.on
        )
        relation = Relation(
            subscription.id, subscription.schema, stored=True, ranges=(SEQUENCE,), append_only=True, view=subscription.id
        )
        self.drafts[subscription.id] = _Draft(relation)
        self.stages.append(stage)

    def changes_of(self, id_: str) -> None:
        """The changes of an exported relation, kept until they are delivered."""
        relation = self.drafts[self.relation_of(id_)].relation
        shown = tuple(c for c in relation.schema if not c.hidden)
        schema = Schema(shown + EVENT_COLUMNS, (SEQUENCE,))
        name = id_ + CHANGES
        reason = "one event for each row that is new, changed or gone, until it is exported"
        self.drafts[name] = _Draft(Relation(name, schema, stored=True, ranges=(SEQUENCE,), append_only=True))
        scan = Scan("s0", relation.schema)
        self.stages.append(Stage(name, Rule.EVENTS, scan, (Slot("s0", relation.name),), None, id_, reason))

    def _definition(self, id_: str) -> Node | None:
        """The plan of a view that is worth inlining: private, and linear down to other relations."""
        view = self.catalog.views.get(id_)
        if view is None or id_ in self.stored_ids or id_ in self.names:
            return None
        plan = inline(view.plan, self._definition)
        node = plan
        while is_linear(node) and len(node.inputs) == 1:
            node = node.inputs[0]
        return plan if isinstance(node, Scan) else None

    # --- stages

    def _maintain(self, plan: Node, name: str, *, owner: str, view: str | None = None, store: bool = True) -> Relation:
        """Make the stages that keep `plan` as relation `name`."""
        plan = inline(plan, self._definition)
        top = plan
        while is_linear(top) and len(top.inputs) == 1:
            top = top.inputs[0]
        part = _Part(name, owner, view)
        if isinstance(top, (Scan, Values)) or is_linear(top):
            return self._linear(plan, part)
        if isinstance(top, Filter):
            split = split_clock_filter(top.condition)
            if split is not None:
                return self._clock(plan, top, split, part)
        if isinstance(top, (Emit, InOrder)):
            return self._emission(plan, top, part)
        if isinstance(top, Distinct) and self.options.merge:
            groups = Aggregate(top.input, tuple(item_of(c) for c in top.schema), ())
            return self._maintain(_replace_node(plan, top, groups), name, owner=owner, view=view)
        partition = partition_of(top)
        if isinstance(top, TopK) and partition is not None and self._keeps_top(top):
            return self._top(plan, top, partition, part)
        if isinstance(top, Aggregate) and self.options.merge and partition is not None:
            merged = self._merge(plan, top, partition, part)
            if merged is not None:
                return merged
        if isinstance(top, Join) and top.kind is JoinKind.INNER and self.options.join and not needs_clock(top):
            return self._join(plan, top, part)
        if partition is None:
            return self._whole(plan, top, part)
        return self._keyed(plan, top, partition, part)

    def _emission(self, plan: Node, top: Emit | InOrder, part: _Part) -> Relation:
        """What is emitted when: the input is a relation of its own, beside it the state of its groups or the rows that wait."""
        if plan is not top:
            first = self._shared(top, part.owner)
            above = _replace_node(plan, top, Scan(first.name, first.schema))
            return self._maintain(above, part.name, owner=part.owner, view=part.view)
        source = inline(top.input, lambda i: self.catalog.views[i].plan if i in self.catalog.views else None)
        unsettled = unsettled_inputs(self.catalog, self.options.forget)
        emission = plan_emission(top, source, bounds_by_input(self.catalog, Clocks()), unsettled)
        scan = top.input if isinstance(top.input, Scan) else None
        known = self.drafts[self.relation_of_scan(scan)].relation if scan is not None else None
        needs_rows = isinstance(top, Emit) and not emission.at_once
        if known is None or (needs_rows and not known.is_state):
            known = self._shared(carry_keys(top.input), part.owner)
        keys = tuple(column(n) for n in emission.group), tuple(known.schema[n].type for n in emission.group)
        path = self.drafts[known.name].path(*keys) if isinstance(top, Emit) else None
        slot = Slot("s0", known.name, path)
        rendered = top.with_inputs((Scan(slot.name, known.schema),))
        rule = Rule.EMIT if isinstance(top, Emit) else Rule.ORDER
        stage = Stage(part.name, rule, rendered, (slot,), None, part.owner, explain_emission(emission), emission=emission)
        if isinstance(top, InOrder):
            if not known.append_only and not emission.settles(self.catalog):
                hint = "write SELECT ... EMIT STREAM: it shows rows that are taken back too"
                raise fail(
                    "B5014", f'"{part.owner}" streams rows that change: SELECT STREAM needs rows that only arrive', hint=hint
                )
            waiting = Schema((*known.schema.columns, *WAITING_COLUMNS), known.schema.key)
            self._state_of(part, WAITING, waiting, (WAITING_COLUMNS[0].name,))
            return self._emit(stage, True, part.view)
        self._state_of(part, GROUPS, emission.groups_schema, tuple(n for n in emission.groups_schema.names if n not in PLAIN))
        if top.stream and needs_rows:
            self._state_of(part, EMITTED, known.schema, ()).path(*keys)
        idle = any(w.idle_after is not None for t in self.catalog.inputs.values() for w in t.watermarks)
        timed = emission.delay is not None or (emission.watermark and idle)
        relation = self._emit(replace(stage, reads_clock=timed), top.stream, part.view)
        if not top.stream:
            self.stages[-1] = replace(self.stages[-1], path=self.drafts[part.name].path(*keys))
        return relation

    def _state_of(self, part: _Part, suffix: str, schema: Schema, ranges: tuple[str, ...]) -> _Draft:
        """A relation of a stage's own beside its output."""
        draft = _Draft(Relation(part.name + suffix, schema, stored=True, ranges=ranges))
        self.drafts[part.name + suffix] = draft
        return draft

    def _linear(self, plan: Node, part: _Part) -> Relation:
        if any(isinstance(n, Scan) or not is_linear(n) for n in plan.walk() if n.inputs or isinstance(n, Scan)):
            plan = self._settle(plan, part.owner)
        rendered, slots = self._delta_slots(plan)
        grows = all(self.drafts[s.relation].relation.append_only for s in slots)
        rule = Rule.LINEAR if slots else Rule.CONSTANT
        reason = "each changed row by itself" if slots else "does not depend on any input"
        return self._emit(Stage(part.name, rule, rendered, slots, None, part.owner, reason), grows, part.view)

    def _delta_slots(self, plan: Node) -> tuple[Node, tuple[Slot, ...]]:
        """A linear tree over slots that are fed by changes alone."""
        slots: list[Slot] = []

        def to_slot(scan: Scan) -> Scan:
            slots.append(Slot(f"s{len(slots)}", self.relation_of_scan(scan)))
            return Scan(slots[-1].name, scan.relation_schema)

        return replace_scans(plan, to_slot), tuple(slots)

    def _shared(self, plan: Node, owner: str) -> Relation:
        """The relation of an operator's own state; operators of several views that need the same share it."""
        plan = inline(plan, self._definition)
        if plan not in self.own:
            self.own[plan] = self._maintain(plan, self._fresh(owner), owner=owner)
        return self.own[plan]

    def _settle(self, plan: Node, owner: str) -> Node:
        """A linear tree in which nonlinear parts (below a union) have become relations of their own."""
        if isinstance(plan, Scan):
            return plan
        if is_linear(plan):
            return plan.with_inputs(tuple(self._settle(i, owner) for i in plan.inputs))
        part = self._shared(plan, owner)
        return Scan(part.name, part.schema)

    def relation_of_scan(self, scan: Scan) -> str:
        """The relation behind a scan of a catalog id or of an operator's own state."""
        return scan.relation if scan.relation in self.drafts else self.relation_of(scan.relation)

    def _fresh(self, owner: str) -> str:
        n = 1
        while f"{owner}${n}" in self.drafts or any(s.output == f"{owner}${n}" for s in self.stages):
            n += 1
        self.drafts.setdefault(f"{owner}${n}", _Draft(Relation(f"{owner}${n}", Schema(()), stored=True)))
        return f"{owner}${n}"

    def _emit(
        self, stage: Stage, append_only: bool, view: str | None, ranges: tuple[str, ...] = (), schema: Schema | None = None
    ) -> Relation:
        schema = schema or stage.plan.schema
        if schema.key is None:
            raise AssertionError(f"relation {stage.output} has no key")
        relation = Relation(stage.output, schema, stored=True, append_only=append_only, view=view, ranges=ranges)
        known = self.drafts.get(stage.output)
        self.drafts[stage.output] = _Draft(relation, known.paths if known else [])
        self.stages.append(stage)
        return relation

    # --- inputs of nonlinear operators

    def _slot(self, number: int, fragment: Node, keys: _Keys | None, owner: str) -> tuple[Slot, Node]:
        """The slot for one input of an operator, and the fragment to render in its place."""
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
        # what DISTINCT and set operations read has no key of its own: as state its rows need one
        state = self._shared(carry_keys(fragment), owner)
        path = None if keys is None else self.drafts[state.name].path(*keys)
        slot = Slot(f"s{number}", state.name, path)
        return slot, keep_columns(Scan(slot.name, state.schema), fragment.schema.names)

    def _slots(self, top: Node, partition: Partition | None, owner: str) -> tuple[tuple[Slot, ...], Node]:
        slots, inputs = [], []
        for n, fragment in enumerate(top.inputs):
            keys = None if partition is None else (partition.inputs[n], partition.types)
            slot, rendered = self._slot(n, fragment, keys, owner)
            slots.append(slot)
            inputs.append(rendered)
        return tuple(slots), top.with_inputs(tuple(inputs))

    def _keyed(self, plan: Node, top: Node, partition: Partition, part: _Part) -> Relation:
        slots, operator = self._slots(top, partition, part.owner)
        whole = _replace_node(plan, top, operator)
        extra = tuple(Item(f"_by{n}", e, t) for n, (e, t) in enumerate(zip(partition.output, partition.types, strict=True)))
        whole, names = carry(whole, operator, extra)
        reason = "key by key: " + (", ".join(e.sql(dialect="spark") for e in partition.output) or "one group")
        stage = Stage(part.name, Rule.KEYED, whole, slots, None, part.owner, reason)
        relation = self._emit(stage, False, part.view)
        path = self.drafts[part.name].path(tuple(column(n) for n in names), partition.types)
        self.stages[-1] = replace(stage, path=path)
        return relation

    def _merge(self, plan: Node, top: Aggregate, partition: Partition, part: _Part) -> Relation | None:
        """An aggregate kept as accumulator columns in a relation of its own; None where some aggregate cannot be."""
        grows = self._grows(top.input)
        kept = [accumulate(i, top.input.schema, grows) for i in top.aggregates]
        if not all(kept):
            return None
        settled = self._settle(top.input, part.owner)
        source, slots = self._delta_slots(settled)
        slots = self._hash_changes(settled, slots, partition)
        state = state_of(top, tuple(a for a in kept if a is not None))
        name = f"{part.name}{STATE}"
        relation = Relation(name, state.schema, stored=True)
        self.drafts[name] = _Draft(relation)
        self.drafts[name].path(tuple(column(i.name) for i in top.keys), partition.types)
        whole = _replace_node(plan, top, Project(Scan("state", state.schema), state.results))
        extra = tuple(Item(f"_by{n}", e, t) for n, (e, t) in enumerate(zip(partition.output, partition.types, strict=True)))
        whole, names = carry(whole, next(n for n in whole.walk() if isinstance(n, Project) and n.items == state.results), extra)
        by = ", ".join(i.name for i in top.keys) or "one group"
        reason = f"accumulators by {by}" + (", as rows only arrive" if grows else "")
        partial = Aggregate(source, top.keys, state.partials)
        stage = Stage(
            part.name, Rule.MERGE, whole, slots, None, part.owner, reason, state=name, partial=partial, merge=state.merge
        )
        result = self._emit(stage, False, part.view)
        path = self.drafts[part.name].path(tuple(column(n) for n in names), partition.types)
        self.stages[-1] = replace(stage, path=path)
        return result

    def _hash_changes(self, source: Node, slots: tuple[Slot, ...], partition: Partition) -> tuple[Slot, ...]:
        """Let the changes of a relation that only grows carry the hash of the group: it saves the query that finds the groups."""
        base = base_scan(source)
        if base is None or len(slots) != 1 or not self.drafts[slots[0].relation].relation.append_only:
            return slots
        exprs = push_down(source, partition.inputs[0])
        path = self.drafts[slots[0].relation].path(exprs, partition.types, stored=False)
        return (replace(slots[0], path=path),)

    def _keeps_top(self, top: TopK) -> bool:
        """Whether the first rows of what only grows can be kept by themselves: no row below them will ever be needed."""
        chosen = self.options.top and top.limit is not None and not top.offset
        return chosen and base_scan(top.input) is not None and self._grows(top.input)

    def _top(self, plan: Node, top: TopK, partition: Partition, part: _Part) -> Relation:
        """The first rows per key of an input that only grows: its own output is all the state it needs."""
        if plan is not top:
            first = self._shared(top, part.owner)
            above = _replace_node(plan, top, Scan(first.name, first.schema))
            return self._maintain(above, part.name, owner=part.owner, view=part.view)
        source, slots = self._delta_slots(top.input)
        slots = self._hash_changes(top.input, slots, partition)
        ordered = top.order + tie_order(top)  # a union has no key to break ties by
        both = replace(top, input=Union((source, Scan(OWN, top.schema))), order=ordered)
        reason = f"the first {top.limit} by {', '.join(top.partition)}: rows only arrive, so no other is ever needed"
        stage = Stage(part.name, Rule.TOP, both, slots, None, part.owner, reason)
        relation = self._emit(stage, False, part.view, schema=top.schema)  # new and kept rows are apart: the key stays
        path = self.drafts[part.name].path(partition.output, partition.types)
        self.stages[-1] = replace(stage, path=path)
        return relation

    def _grows(self, node: Node) -> bool:
        """Whether a relation only ever gains rows."""
        if isinstance(node, Scan):
            return self.drafts[self.relation_of_scan(node)].relation.append_only
        if is_linear(node) or (isinstance(node, Join) and node.kind is JoinKind.INNER and not needs_clock(node)):
            return all(self._grows(i) for i in node.inputs)
        return isinstance(node, Values)

    def _whole(self, plan: Node, top: Node, part: _Part) -> Relation:
        slots, operator = self._slots(top, None, part.owner)
        clocked = needs_clock(top)
        why = "it reads now()" if clocked else _why_whole(top)
        rendered = _replace_node(plan, top, operator)
        stage = Stage(part.name, Rule.WHOLE, rendered, slots, None, part.owner, f"recomputed whole: {why}", clocked)
        return self._emit(stage, False, part.view)

    def _join(self, plan: Node, top: Join, part: _Part) -> Relation:
        pairs = equalities(top)
        partition = None
        if pairs:
            sides = (tuple(a for a, _, _ in pairs), tuple(b for _, b, _ in pairs))
            partition = Partition(sides, (), tuple(t for _, _, t in pairs))
        slots, operator = self._slots(top, partition, part.owner)
        grows = all(self.drafts[s.relation].relation.append_only for s in slots)
        reason = "changed rows joined with all rows of the other side: no equality to look up by"
        if pairs:
            reason = f"changed rows of one side joined with rows of the other by {', '.join(a.name for a, _, _ in pairs)}"
        rendered = _replace_node(plan, top, operator)
        return self._emit(Stage(part.name, Rule.JOIN, rendered, slots, None, part.owner, reason), grows, part.view)

    def _clock(self, plan: Node, top: Filter, split: ClockFilter, part: _Part) -> Relation:
        """A filter on now(): its rows with their times to enter and leave; those that wait are kept aside."""
        source = top.input
        plain = conjunction(split.plain)
        if plain is not None:
            source = Filter(source, plain)
        items = tuple(Item(c.name, column(c.name), c.type, c.nullable, c.hidden, c.doc) for c in source.schema)
        valid = [exp.Not(this=exp.Is(this=e.copy(), expression=exp.Null())) for e in (*split.enters, *split.leaves)]
        times = tuple(
            Item(n, _extreme(es, f), pa.int64(), nullable=False, hidden=True)
            for n, es, f in ((ENTER, split.enters, exp.Greatest), (LEAVE, split.leaves, exp.Least))
            if es
        )
        source = Project(Filter(source, conjunction(valid) or exp.true()), items + times)
        timed, _ = carry(_replace_node(plan, top, source), source, tuple(Item(t.name, column(t.name), t.type) for t in times))
        rendered, slots = self._delta_slots(self._settle(timed, part.owner))
        ranges = tuple(t.name for t in times)
        waiting = f"{part.name}{WAITING}"
        reason = "rows enter and leave as now() passes" if split.enters else "rows leave as now() passes"
        stage = Stage(part.name, Rule.CLOCK, rendered, slots, None, part.owner, reason, reads_clock=True)
        relation = self._emit(stage, False, part.view, ranges)
        if split.enters:
            self.drafts[waiting] = _Draft(
                Relation(waiting, relation.schema, stored=True, ranges=(ENTER,)), self.drafts[part.name].paths
            )
        return relation


def _extreme(times: tuple[Expr, ...], function: type[exp.Expr]) -> Expr:
    if len(times) == 1:
        return times[0].copy()
    return function(this=times[0].copy(), expressions=[t.copy() for t in times[1:]])


def _replace_node(tree: Node, old: Node, new: Node) -> Node:
    """The chain `tree` with `new` in place of `old`."""
    if tree is old:
        return new
    return tree.with_inputs(tuple(_replace_node(i, old, new) if _contains(i, old) else i for i in tree.inputs))


def _contains(tree: Node, wanted: Node) -> bool:
    return any(n is wanted for n in tree.walk())


def _why_whole(node: Node) -> str:
    match node:
        case TopK():
            return "a limit over all rows"
        case Join():
            return f"a {node.kind} join without an equality between columns"
        case Aggregate():
            return "grouping sets share no key"
        case _:
            return "no key to split by"

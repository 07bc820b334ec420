"""Which rows of operators' own state bounds make final: no later change needs them, so they leave the store.

In: a pipeline and bounds of its inputs. Out: per private relation the columns whose bound says so, with that bound. A row leaves a
relation once it can neither change itself nor be looked up by any stage: its group is complete, or no row to come of the other side of a
join can match it (One SQL, section 5: state is freed when the watermark is sufficiently advanced). Rows that are served never leave: they
are results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from belvedere.engine.relation import Relation, Slot
from belvedere.plan.bounds import Bounds, Known, bounds_of, implied_bounds
from belvedere.plan.expressions import column
from belvedere.plan.monotone import FOREVER, NEVER, combine, reach
from belvedere.plan.nodes import Expr, Filter, Join, Node, Project, Scan, Unnest
from belvedere.plan.time_nodes import TimeWindow, TimeWindowKind
from belvedere.rules.facts import is_linear, needs_clock, partition_of
from belvedere.rules.outer_expiry import join_of, needed, standing
from belvedere.rules.pipeline import Pipeline, Rule, Stage
from belvedere.schema import TIMESTAMP

Final = dict[str, dict[str, int]]
NO_ROWS = (
    Rule.LINEAR,
    Rule.MERGE,
    Rule.TOP,
    Rule.SESSIONS,
    Rule.EVENTS,
    Rule.CLOCK,
    Rule.ORDER,
    Rule.CONSTANT,
    Rule.HISTORY,
)
"""Rules that read the changes of their inputs alone."""

RESULTS = (Rule.INGEST, Rule.HISTORY, Rule.EVENTS)
"""Rules whose rows are what somebody asked for, whatever their name: they never leave."""


def final_below(pipeline: Pipeline, inputs: Known, earlier: Callable[[int], Known] | None = None) -> Final:
    """Relation -> column -> bound: rows below it are final. `inputs` are the bounds of the inputs, unsettled ones too.

    `earlier` gives them as they were some microseconds ago (without it: as they are): rows that a delay has yet to emit stay.
    """
    bounds = _relation_bounds(pipeline, inputs)
    then = earlier or (lambda _: inputs)
    found: Final = {}
    for stage in pipeline.stages:
        if stage.state is not None and stage.partial is not None:
            groups = bounds_of(stage.partial, slots_known(stage.slots, bounds))
            found[stage.state] = _times(pipeline.relations[stage.state], groups)
        output = pipeline.relations[stage.output]
        private = stage.rule not in RESULTS and not pipeline.is_served(stage.output)
        if private and output.stored and stage.output not in found:
            found[stage.output] = _times(output, _least(_needs(pipeline, stage, bounds, inputs, then)))
    return {name: columns for name, columns in found.items() if columns}


def standing_below(pipeline: Pipeline, inputs: Known) -> Final:
    """Output -> column -> bound: rows of it below the bound stand as they are, though not all that they were made of is there."""
    found: Final = {}
    bounds: Mapping[str, Bounds] | None = None
    for stage in pipeline.stages:
        touched = (stage.output, *(s.relation for s in stage.slots))
        if join_of(stage) is None or not any(pipeline.relations[n].final for n in touched):
            continue
        bounds = bounds or _relation_bounds(pipeline, inputs)
        found[stage.output] = standing(stage, bounds[stage.output])
    return found


def held_by(pipeline: Pipeline, inputs: Known, relation: str) -> tuple[str, ...]:
    """The stages that look rows of a relation up however old they are, so that no bound frees it."""
    bounds = _relation_bounds(pipeline, inputs)
    users = [(s, slot) for s in pipeline.stages for slot in s.slots if slot.relation == relation and s.rule not in NO_ROWS]
    return tuple(dict.fromkeys(s.output for s, slot in users if not _need(s, slot, bounds, inputs)))


def settled(unsettled: frozenset[str], inputs: Known) -> Known:
    """The bounds of inputs whose rows do not change below them; none of the others."""
    return lambda i: {} if i in unsettled else inputs(i) or {}


def _relation_bounds(pipeline: Pipeline, inputs: Known) -> dict[str, Bounds]:
    """The bounds of every relation's columns, from stage to stage."""
    known = settled(pipeline.unsettled, inputs)
    found: dict[str, Bounds] = {}
    for stage in pipeline.stages:
        found[stage.output] = bounds_of_stage(stage, known, found)
    return found


def bounds_of_stage(stage: Stage, inputs: Known, found: Mapping[str, Bounds]) -> Bounds:
    """The bounds of a stage's output; `found` are those of the relations before it, `inputs` those of settled inputs."""
    if stage.rule is Rule.INGEST:
        return inputs(stage.output) or {}
    if stage.rule is Rule.CLOCK or any(needs_clock(n) for n in stage.plan.walk()):
        return {}  # time alone takes rows away
    known = slots_known(stage.slots, found)
    if stage.partial is None:
        return bounds_of(stage.plan, known)
    groups = bounds_of(stage.partial, known)
    return bounds_of(stage.plan, lambda _: groups)


def slots_known(slots: tuple[Slot, ...], bounds: Mapping[str, Bounds]) -> Known:
    """The bounds behind the scans of a stage's plan; its own rows hold nothing back."""
    relations = {s.name: s.relation for s in slots}
    return lambda scan: bounds.get(relations[scan], {}) if scan in relations else None


def _needs(
    pipeline: Pipeline, made: Stage, bounds: Mapping[str, Bounds], inputs: Known, earlier: Callable[[int], Known]
) -> Iterator[Bounds]:
    """What each use of the rows that a stage makes asks of a row that leaves; nothing at all where no stage looks them up."""
    relation = pipeline.relations[made.output]
    if not relation.append_only:
        yield _replaced(made, relation, bounds)
    for stage in pipeline.stages:
        for slot in stage.slots:
            if slot.relation != relation.name or stage.rule in NO_ROWS:
                continue
            if stage.emission is not None and stage.emission.delay is not None:
                then = earlier(stage.emission.delay)
                yield _need(stage, slot, _relation_bounds(pipeline, then), then)
            else:
                yield _need(stage, slot, bounds, inputs)


def _replaced(stage: Stage, relation: Relation, bounds: Mapping[str, Bounds]) -> Bounds:
    """Bounds below which the stage itself writes no row again: key by key it writes all rows of a key, but those that stand."""
    own = bounds[stage.output]
    if stage.rule in (Rule.WHOLE, Rule.FIRST, Rule.EXISTENCE):
        return {}
    if stage.emission is not None:
        return {t: own[t] for t in stage.emission.times if t in own}
    if stage.path is None or stage.rule is Rule.SESSIONS:
        return own  # of a session that has ended no row is read to find the others
    keys = {e.name for e in relation.path(stage.path).exprs if isinstance(e, exp.Column)}
    return {n: b for n, b in own.items() if n in keys} | standing(stage, own)


def _need(stage: Stage, slot: Slot, bounds: Mapping[str, Bounds], inputs: Known) -> Bounds:
    known = slots_known(stage.slots, bounds)
    if stage.emission is not None:
        emission = stage.emission
        if emission.at_once:
            return bounds[slot.relation]
        own = bounds[slot.relation]
        final = dict(zip(emission.times, emission.final_bounds(inputs), strict=True))
        return {t: min(b, own[t]) for t, b in final.items() if t in own}
    operator = stage.plan
    while is_linear(operator) and len(operator.inputs) == 1:
        operator = operator.inputs[0]
    side = next((n for n, i in enumerate(operator.inputs) if _scans(i, slot.name)), None)
    if side is None:
        return {}
    if stage.rule is Rule.JOIN and isinstance(operator, Join):
        below = bounds_of(operator.inputs[1 - side], known)
        columns = operator.inputs[side].schema.names
        wanted = {n: b for n, b in implied_bounds(below, operator.condition).items() if n in columns}
        return _through(operator.inputs[side], ((column(n), b) for n, b in wanted.items()))
    if join_of(stage) is not None:
        together = _through(
            operator.inputs[side], ((column(n), b) for n, b in needed(stage, bounds[stage.output], side).items())
        )
        return together or _by_key(stage, operator, side, known)
    return _by_key(stage, operator, side, known)


def _by_key(stage: Stage, operator: Node, side: int, known: Known) -> Bounds:
    """Bounds below which no row of an operator's key comes again."""
    partition = partition_of(operator) if stage.rule is Rule.KEYED else None
    if partition is None:
        return {}
    sides = [bounds_of(i, known) for i in operator.inputs]
    keys = []
    for n, expr in enumerate(partition.inputs[side]):
        least = [combine(b, exprs[n]) for b, exprs in zip(sides, partition.inputs, strict=True)]
        known_ones = [b for b in least if b is not None]
        if len(known_ones) == len(least):
            keys.append((expr, min(known_ones)))
    return _through(operator.inputs[side], iter(keys))


def _scans(node: Node, name: str) -> bool:
    return any(isinstance(n, Scan) and n.relation == name for n in node.walk())


def _through(fragment: Node, wanted: Iterator[tuple[Expr, int]]) -> dict[str, int]:
    """Bounds on expressions over a fragment's rows as bounds on columns of the relation below it."""
    found: dict[str, int] = {}
    for expr, bound in wanted:
        below = _below(fragment, expr)
        if below is not None:
            name, above = below
            limit = bound if bound in (NEVER, FOREVER) else bound - above
            found[name] = max(found.get(name, NEVER), limit)
    return found


def _below(node: Node, expr: Expr) -> tuple[str, int] | None:
    """A column of the scan below a linear chain and how far above it the expression can be, in every row that is made of it."""
    found = reach(expr)
    if found is None:
        return None
    name, above = found
    match node:
        case Scan():
            return name, above
        case Project():
            below = _below(node.input, next(i.expr for i in node.items if i.name == name))
        case TimeWindow() if node.kind is not TimeWindowKind.SESSION and name in (node.start, node.end):
            below = _below(node.input, column(node.time))
            above += node.size if name == node.end else 0
        case Filter() | TimeWindow() | Unnest():
            below = _below(node.inputs[0], column(name)) if name in node.inputs[0].schema.names else None
        case _:
            return None
    return None if below is None else (below[0], below[1] + above)


def _least(needs: Iterator[Bounds]) -> Bounds:
    """The columns by which every need is met, with the least bound of each."""
    all_needs = list(needs)
    if not all_needs:
        return {}
    shared = set(all_needs[0]).intersection(*all_needs[1:])
    return {n: min(need[n] for need in all_needs) for n in shared}


def _times(relation: Relation, bounds: Bounds) -> dict[str, int]:
    names = {c.name for c in relation.schema if c.type == TIMESTAMP}
    return {n: b for n, b in bounds.items() if n in names and b != FOREVER}

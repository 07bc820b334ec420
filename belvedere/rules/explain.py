"""Say how each view is kept: key, stages with their reasons, state, what is read at query time.

In: a catalog and its pipeline. Out: plain data that the command line prints as text or JSON. Sizes come from the store and are
added by the caller.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from belvedere.catalog import Catalog, Input
from belvedere.engine.relation import Relation
from belvedere.plan.nodes import Join
from belvedere.rules.emit.emission import EMITTED, GROUPS
from belvedere.rules.expiry import held_by
from belvedere.rules.pipeline import STATE, WAITING, Pipeline, Rule, Stage
from belvedere.rules.state_bounds import bound_of, operator_of
from belvedere.time.event_time import Clocks, bounds_by_input

RULES = {
    Rule.INGEST: "taken in",
    Rule.CONSTANT: "computed once",
    Rule.LINEAR: "linear",
    Rule.KEYED: "keyed",
    Rule.WHOLE: "recomputed whole",
    Rule.JOIN: "delta join",
    Rule.EXISTENCE: "delta existence",
    Rule.MERGE: "merged",
    Rule.TOP: "top rows",
    Rule.FIRST: "first rows",
    Rule.CLOCK: "clock filter",
    Rule.EVENTS: "events",
    Rule.EMIT: "emitted",
    Rule.ORDER: "in order",
    Rule.WINDOWS: "open windows",
    Rule.SESSIONS: "open sessions",
    Rule.HISTORY: "history",
}


@dataclass(frozen=True)
class StageExplanation:
    """One step: the relation it makes, by which rule and why, from which relations."""

    output: str
    rule: str
    reason: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class StateExplanation:
    """A stored relation that serves as state: its columns, its access paths, what bounds it."""

    relation: str
    columns: tuple[str, ...]
    paths: tuple[str, ...]
    bound: str


@dataclass(frozen=True)
class ViewExplanation:
    """How one view is kept."""

    name: str
    key: tuple[str, ...]
    stages: tuple[StageExplanation, ...]
    state: tuple[StateExplanation, ...]
    reads: str

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON data."""
        return asdict(self)


def explain(catalog: Catalog, pipeline: Pipeline) -> tuple[ViewExplanation, ...]:
    """One explanation per view and subscription that has stages of its own, in the order of definition."""
    owners = dict.fromkeys(s.owner for s in pipeline.stages)
    return tuple(_explain(o, catalog, pipeline) for o in owners)


def _explain(owner: str, catalog: Catalog, pipeline: Pipeline) -> ViewExplanation:
    stages = [s for s in pipeline.stages if s.owner == owner]
    own = pipeline.relations[owner] if owner in pipeline.relations else pipeline.relations[stages[-1].output]
    state = [(r, s) for s in stages for r in _relations(s, pipeline) if r.stored]
    return ViewExplanation(
        owner,
        own.schema.key or (),
        tuple(_stage(s, pipeline) for s in stages),
        tuple(_state(r, s, catalog, pipeline) for r, s in state),
        _reads(owner, own, catalog),
    )


def _relations(stage: Stage, pipeline: Pipeline) -> list[Relation]:
    names = (stage.output, *(stage.output + suffix for suffix in (STATE, WAITING, GROUPS, EMITTED)))
    return [pipeline.relations[n] for n in names if n in pipeline.relations]


def _stage(stage: Stage, pipeline: Pipeline) -> StageExplanation:
    reason = stage.reason
    relations = [pipeline.relations[n] for n in (stage.output, *(s.relation for s in stage.slots))]
    plain = not (relations[0].append_only or any(r.loses_rows for r in relations))
    if pipeline.by_cost and stage.rule in (Rule.KEYED, Rule.JOIN, Rule.EXISTENCE) and plain:
        reason += "; whole in epochs that change a third of the rows or more"
    return StageExplanation(stage.output, RULES[stage.rule], reason, tuple(s.relation for s in stage.slots))


def _timed_inputs(name: str, catalog: Catalog, pipeline: Pipeline) -> list[Input]:
    """The inputs behind a relation that have event time."""
    feeds = {n: s for s in pipeline.stages for n in (s.output, s.state) if n is not None}
    found: dict[str, None] = {}
    todo = [name]
    while todo:
        stage = feeds.get(todo.pop())
        if stage is None or stage.output in found:
            continue
        found[stage.output] = None
        todo += [s.relation for s in stage.slots]
    return [catalog.inputs[n] for n in found if n in catalog.inputs and catalog.inputs[n].watermarks]


def _event_times(name: str, catalog: Catalog, pipeline: Pipeline) -> list[str]:
    """The event-time columns of the inputs behind a relation whose bounds free it."""
    inputs = [t for t in _timed_inputs(name, catalog, pipeline) if t.id not in pipeline.unsettled]
    return sorted(f"{t.name}.{w.column}" for t in inputs for w in t.watermarks)


def _why_kept(name: str, catalog: Catalog, pipeline: Pipeline) -> str:
    """Why no bound frees a relation of an operator's own; nothing where there is no event time behind it."""
    known = bounds_by_input(catalog, Clocks()).__getitem__
    timed = _timed_inputs(name, catalog, pipeline)
    users = held_by(pipeline, known, name)
    if not timed or not users:
        return ""
    changing = [t.name for t in timed if t.id in pipeline.unsettled]
    if changing:
        return f"; no bound frees it: rows of {', '.join(changing)} may change below any"
    hint = next((h for s in pipeline.stages if s.output in users and (h := _limit(s, catalog, pipeline))), "")
    return f"; no bound frees it: {', '.join(users)} needs all rows, however old{hint}"


def _limit(stage: Stage, catalog: Catalog, pipeline: Pipeline) -> str:
    """What to write so that bounds free both sides of a join; nothing for other operators, or where a side has no event time."""
    times = [_event_times(s.relation, catalog, pipeline) for s in stage.slots]
    if not isinstance(operator_of(stage), Join) or len(times) != 2 or not all(times):
        return ""
    (one, *_), (other, *_) = times
    return f" (its ON may limit them: {other} BETWEEN {one} AND {one} + INTERVAL ...)"


def _state(relation: Relation, stage: Stage, catalog: Catalog, pipeline: Pipeline) -> StateExplanation:
    paths = tuple(", ".join(e.sql(dialect="spark") for e in p.exprs) or "all rows" for p in relation.paths if p.stored)
    bound = bound_of(relation, stage, pipeline)
    behind = ", ".join(_event_times(relation.name, catalog, pipeline))
    settling = next((s.settling for s in pipeline.stages if s.settling and s.slots[0].relation == relation.name), None)
    if relation.final:
        bound = f"rows leave once {' or '.join(relation.final)} is below its bound, which follows {behind}"
    elif settling is not None:
        bound = f"rows leave once all windows with them end below the bound on {settling.resume.column}, which follows {behind}"
    elif not pipeline.is_served(relation.name) and relation.name != stage.state and "nothing bounds" in bound:
        bound += _why_kept(relation.name, catalog, pipeline)
    return StateExplanation(relation.name, relation.schema.names, paths, bound)


def _reads(owner: str, relation: Relation, catalog: Catalog) -> str:
    if owner in catalog.public and relation.stored:
        return f'table "{owner}" by its key or index: nothing is computed when it is read'
    return "not served: it feeds other views"

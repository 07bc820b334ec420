"""Explains how each view is maintained: key, stages with their reasons, state, and the part computed at read time.

In: a catalog and its pipeline. Out: plain data that the command line prints as JSON, or as lines for people. The caller
adds sizes from the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.catalog.shown_names import shown_names
from belvedere.engine.expiry import readers_of_old_rows
from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.engine.stage import Stage
from belvedere.plan.operators.nodes import Join, Scan
from belvedere.rules.bounds_below import operator_of
from belvedere.spark_sql.dialect import SparkSql
from belvedere.state.state import Size
from belvedere.time.event_time import Clocks, bounds_by_input


@dataclass(frozen=True)
class StageExplanation:
    """One step: its output relation, its rule with the reason, and its input relations."""

    output: str
    rule: str
    reason: str
    reads: tuple[str, ...]
    driver: str = ""
    """Rows of a large epoch that pass through the driver of a cluster."""


@dataclass(frozen=True)
class StateExplanation:
    """A stored relation that serves as state: its columns, its access paths, and its bounds."""

    relation: str
    columns: tuple[str, ...]
    paths: tuple[str, ...]
    bound: str


@dataclass(frozen=True)
class ViewExplanation:
    """Explanation of how one view is maintained."""

    name: str
    key: tuple[str, ...]
    stages: tuple[StageExplanation, ...]
    state: tuple[StateExplanation, ...]
    reads: str

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON data."""
        found: dict[str, Any] = _shown(asdict(self))
        return found


def explain(catalog: Catalog, pipeline: Pipeline) -> tuple[ViewExplanation, ...]:
    """Return one explanation per view and subscription that has stages of its own, in the order of definition."""
    owners = dict.fromkeys((*(s.owner for s in pipeline.stages), *pipeline.at_read))
    return tuple(_explain(o, catalog, pipeline) for o in owners)


def _explain(owner: str, catalog: Catalog, pipeline: Pipeline) -> ViewExplanation:
    stages = [s for s in pipeline.stages if s.owner == owner]
    if not stages:
        return ViewExplanation(owner, catalog.views[owner].schema.key or (), (), (), _reads_at_read(owner, pipeline))
    own = pipeline.relations[owner] if owner in pipeline.relations else pipeline.relations[stages[-1].output]
    reads = _reads_at_read(owner, pipeline) if owner in pipeline.at_read else _reads(owner, own, catalog)
    state = [(r, s) for s in stages for r in _relations(s, pipeline) if r.stored]
    return ViewExplanation(
        owner,
        own.schema.key or (),
        tuple(_stage(s, pipeline) for s in stages),
        tuple(_state(r, s, catalog, pipeline) for r, s in state),
        reads,
    )


def _relations(stage: Stage, pipeline: Pipeline) -> list[Relation]:
    return [pipeline.relations[n] for n in (stage.output, *stage.states)]


def _stage(stage: Stage, pipeline: Pipeline) -> StageExplanation:
    reason = stage.explain(pipeline.relations, pipeline.by_cost)
    return StageExplanation(stage.output, stage.rule, reason, tuple(s.relation for s in stage.slots), stage.in_driver)


def _timed_inputs(name: str, catalog: Catalog, pipeline: Pipeline) -> list[Input]:
    """Return the inputs behind a relation that have event time."""
    feeds = {n: s for s in pipeline.stages for n in (s.output, *s.states)}
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
    """Return the event-time columns of the inputs behind a relation whose bounds free its rows."""
    inputs = [t for t in _timed_inputs(name, catalog, pipeline) if t.id not in pipeline.never_final]
    return sorted(f"{t.name}.{w.column}" for t in inputs for w in t.watermarks)


def _why_retained(name: str, catalog: Catalog, pipeline: Pipeline) -> str:
    """Return why no bound frees a relation of an operator's own, or an empty text if no input behind it has
    event time."""
    known = bounds_by_input(catalog, Clocks()).__getitem__
    timed = _timed_inputs(name, catalog, pipeline)
    users = readers_of_old_rows(pipeline, known, name)
    if not timed or not users:
        return ""
    changing = [t.name for t in timed if t.id in pipeline.never_final]
    if changing:
        return f"; never freed: rows of {', '.join(changing)} can change below the watermark"
    hint = next((h for s in pipeline.stages if s.output in users and (h := _limit(s, catalog, pipeline))), "")
    return f"; never freed: {', '.join(users)} needs all rows, however old{hint}"


def _limit(stage: Stage, catalog: Catalog, pipeline: Pipeline) -> str:
    """Return a hint that lets watermarks free both sides of a join; empty for other operators, or if a side has no
    event time.
    """
    times = [_event_times(s.relation, catalog, pipeline) for s in stage.slots]
    if not isinstance(operator_of(stage.plan), Join) or len(times) != 2 or not all(times):
        return ""
    (one, *_), (other, *_) = times
    return f" (its ON may limit them: {other} BETWEEN {one} AND {one} + INTERVAL ...)"


def _state(relation: Relation, stage: Stage, catalog: Catalog, pipeline: Pipeline) -> StateExplanation:
    paths = tuple(", ".join(e.sql(dialect=SparkSql) for e in p.exprs) or "all rows" for p in relation.paths if p.stored)
    behind = ", ".join(_event_times(relation.name, catalog, pipeline))
    if relation.final:
        bound = f"rows leave once {' or '.join(relation.final)} is below its watermark, which follows {behind}"
    elif relation.leaves:
        bound = f"{relation.leaves}, which follows {behind}"
    else:
        bound = stage.frees(relation) or _rows(relation, stage, pipeline)
        if not pipeline.is_served(relation.name) and relation.name == stage.output and "unbounded" in bound:
            bound += _why_retained(relation.name, catalog, pipeline)
    return StateExplanation(relation.name, relation.schema.names, paths, bound)


def _rows(relation: Relation, stage: Stage, pipeline: Pipeline) -> str:
    """Return a description of a relation's number of rows, in terms of its inputs."""
    if relation.append_only:
        return "unbounded: it is append-only"
    held = stage.holds(relation)
    appended = _appended_inputs(stage, pipeline)
    return f"{held}, unbounded: from append-only {', '.join(appended)}" if appended else held


def _appended_inputs(stage: Stage, pipeline: Pipeline) -> tuple[str, ...]:
    """Return the inputs that grow without limit and that may make a stage grow too."""
    output = pipeline.relations[stage.output]
    if stage.is_input:
        return (stage.output,) if output.append_only else ()
    if stage.is_bounded(output):
        return ()
    stages = {s.output: s for s in pipeline.stages}
    found = (n for relation in stage.counted for n in _appended_inputs(stages[relation], pipeline))
    return tuple(sorted(dict.fromkeys(found)))


def _reads_at_read(owner: str, pipeline: Pipeline) -> str:
    sources = dict.fromkeys(f'"{n.relation}"' for n in pipeline.at_read[owner].walk() if isinstance(n, Scan))
    return f"computed by the database at read time from {', '.join(sources)}"


def _reads(owner: str, relation: Relation, catalog: Catalog) -> str:
    if owner in catalog.public and relation.stored:
        return f'table "{owner}" by its key or index: nothing is computed at read time'
    return "not served: it feeds other views"


def explanation_text(explanation: ViewExplanation, sizes: Mapping[str, Size] | None = None) -> str:
    """Return one view's explanation as text for people."""
    sizes = sizes or {}
    key = ", ".join(explanation.key) or "none: it has one row"
    lines = [explanation.name, f"  key    {key}"]
    for stage in explanation.stages:
        source = f" from {', '.join(dict.fromkeys(stage.reads))}" if stage.reads else ""
        name = "" if stage.output == explanation.name else f"{stage.output}: "
        lines.append(f"  kept   {name}{stage.rule}{source}: {stage.reason}")
    for stage in (s for s in explanation.stages if sizes and s.driver):
        lines.append(f"  driver {stage.output}: {stage.driver}")
    for entry in explanation.state:
        size = f"; {sizes[entry.relation]}" if entry.relation in sizes else ""
        paths = f"; found by ({'), ('.join(entry.paths)})" if entry.paths else ""
        lines.append(f"  state  {entry.relation}: {entry.bound}{paths}{size}")
    lines.append(f"  read   {explanation.reads}")
    return shown_names("\n".join(lines))


def _shown(data: Any) -> Any:
    """Return the data with relations under the names that people use."""
    if isinstance(data, dict):
        return {name: _shown(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_shown(value) for value in data]
    return shown_names(data) if isinstance(data, str) else data

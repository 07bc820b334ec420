"""Rows of operators' own state that bounds make final: no later change needs them, so they are deleted.

In: a pipeline and bounds of its inputs. Out: per private relation the columns with a bound below which rows are final.
A row is deleted once it can neither change nor be looked up by any stage. Then its group is complete, or no future row
of a join's other side can match it. Source: One SQL, section 5 (state is freed when the watermark is sufficiently
advanced). A stage's rule defines what it still writes and looks up (`Stage.writes_from`, `reads_from`). Served rows are
never deleted: they are results.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from datetime import date, datetime, timedelta

import pyarrow as pa

from belvedere.engine.pipeline import Pipeline
from belvedere.engine.relation import Relation
from belvedere.engine.stage import BoundsNow, Stage
from belvedere.engine.work import EpochContext
from belvedere.plan.bound_rules import Bounds, Known, is_time
from belvedere.plan.monotone import FOREVER, NEVER
from belvedere.schema import INGEST_TIME, TIMESTAMP
from belvedere.time.past_bounds import PastBounds
from belvedere.values.instants import instant, microseconds

Final = dict[str, dict[str, int]]


def final_below(pipeline: Pipeline, inputs: Known, earlier: Callable[[int], Known] | None = None) -> Final:
    """Return relation -> column -> bound: rows below it are final.

    `inputs` are the bounds of the inputs, including those that are never final.

    `earlier` returns them as of some microseconds ago (default: the present ones).
    """
    now = _now(pipeline, inputs, earlier)
    found: Final = {}
    for stage in pipeline.stages:
        for state, bounds in stage.final_states(now.relations).items():
            found[state] = _times(pipeline.relations[state], bounds)
        output = pipeline.relations[stage.output]
        private = not stage.is_result and not pipeline.is_served(stage.output)
        if private and output.stored and stage.output not in found:
            found[stage.output] = _times(output, _least(_needs(pipeline, stage, now)))
    return {name: columns for name, columns in found.items() if columns}


def final_results_below(pipeline: Pipeline, inputs: Known) -> Final:
    """Return output -> column -> bound: rows of the output below the bound are final, even if some of their input rows
    no longer exist."""
    losing = [
        s
        for s in pipeline.stages
        if any(pipeline.relations[n].final for n in (s.output, *(i.relation for i in s.slots)))
    ]
    if not losing:
        return {}
    bounds = _now(pipeline, inputs, None).relations
    return {s.output: found for s in losing if (found := s.final_results(bounds[s.output]))}


def readers_of_old_rows(pipeline: Pipeline, inputs: Known, relation: str) -> tuple[str, ...]:
    """Return the stages that look up rows of a relation of any age, so that no bound frees them."""
    now = _now(pipeline, inputs, None)
    users = [(s, slot) for s in pipeline.stages if s.looks_up for slot in s.slots if slot.relation == relation]
    return tuple(dict.fromkeys(s.output for s, slot in users if not s.reads_from(slot, now)))


def final_inputs(never_final: frozenset[str], inputs: Known) -> Known:
    """Return the bounds of inputs whose rows do not change below them; none for other inputs."""
    return lambda i: {} if i in never_final else inputs(i) or {}


def relation_bounds(
    stages: tuple[Stage, ...], inputs: Known, known: Mapping[str, Bounds] | None = None
) -> dict[str, Bounds]:
    """Return the bounds of every relation's columns, stage by stage. `known` are those of earlier relations."""
    found = dict(known or {})
    for stage in stages:
        found[stage.output] = stage.bounds(inputs, found)
    return found


class Expiry:
    """Deletes rows at the end of each epoch: those that bounds have made final, and those of inputs that are only
    served for a limited time."""

    def __init__(self, pipeline: Pipeline):
        self._pipeline = pipeline
        self._done: dict[tuple[str, str], int] = {}
        """The bounds up to which rows were deleted, by relation and column."""
        self._past = PastBounds(pipeline.delays)

    def note(self, clock: int, bounds: Mapping[str, Mapping[str, int] | None]) -> None:
        """Record the bounds after an epoch was committed, at its clock (microseconds since 1970)."""
        self._past.note(clock, bounds)

    def expire(self, context: EpochContext, waiting: Container[str] = frozenset()) -> None:
        """Delete these rows, except final ones of `waiting` relations, which stages in quarantine still need.

        It reads only the columns that are indexed for it. No view changes.
        """
        for relation in self._pipeline.relations.values():
            if relation.keep is not None and relation.stored:
                kept_since = context.clock - timedelta(microseconds=relation.keep)
                context.storage.delete_range(relation.name, INGEST_TIME, kept_since)
        if not any(r.final for r in self._pipeline.relations.values()):
            return
        now = microseconds(context.clock)
        final = final_below(self._pipeline, context.bounds.__getitem__, lambda delay: self._past.before(now, delay))
        for name, columns in final.items():
            if name not in waiting:
                self._expire(name, columns, context)

    def _expire(self, name: str, columns: Mapping[str, int], context: EpochContext) -> None:
        schema = self._pipeline.relations[name].schema
        for column, bound in columns.items():
            if bound == NEVER or (self._done.get((name, column)) == bound and name not in context.deltas):
                continue
            try:
                last = _last_below(bound, schema[column].type)
            except OverflowError:
                continue
            context.storage.delete_range(name, column, last)
            self._done[name, column] = bound


def _now(pipeline: Pipeline, inputs: Known, earlier: Callable[[int], Known] | None) -> BoundsNow:
    relations = relation_bounds(pipeline.stages, final_inputs(pipeline.never_final, inputs))
    return BoundsNow(relations, inputs, lambda delay: _now(pipeline, earlier(delay) if earlier else inputs, None))


def _needs(pipeline: Pipeline, made: Stage, now: BoundsNow) -> Iterator[Bounds]:
    """Yield the conditions under which each use of a stage's rows lets a row be deleted; nothing if no stage looks them
    up."""
    output = pipeline.relations[made.output]
    if not output.append_only:
        yield made.writes_from(now.relations[made.output], output)
    for stage in pipeline.stages:
        if stage.looks_up:
            yield from (stage.reads_from(slot, now) for slot in stage.slots if slot.relation == made.output)


def _least(needs: Iterator[Bounds]) -> Bounds:
    """Return the columns that satisfy every need, with the least bound of each."""
    all_needs = list(needs)
    if not all_needs:
        return {}
    shared = set(all_needs[0]).intersection(*all_needs[1:])
    return {n: min(need[n] for need in all_needs) for n in shared}


def _times(relation: Relation, bounds: Bounds) -> dict[str, int]:
    """Return the bounds of columns of times, and of numbers computed from times, in the order of the schema.

    The columns are stored with its rows.
    """
    names = (c.name for c in relation.schema if is_time(c.type) or pa.types.is_integer(c.type))
    return {n: bounds[n] for n in names if bounds.get(n, FOREVER) != FOREVER}


def _last_below(bound: int, type_: pa.DataType) -> datetime | date | int:
    """Return the greatest value of a type that is below a bound. Raises OverflowError if there is none."""
    if pa.types.is_integer(type_):
        greatest: int = 2 ** (type_.bit_width - 1) - 1
        if bound <= -greatest:
            raise OverflowError
        return min(bound - 1, greatest)
    last = instant(bound - 1)
    if pa.types.is_date(type_):
        return last.date()
    return last if type_ == TIMESTAMP else last.replace(tzinfo=None)

"""What bounds each stored relation, in words; that nothing does is said too.

In: a relation, the stage that keeps it, the pipeline. Out: a phrase for `explain`.
"""

from __future__ import annotations

from belvedere.engine.relation import Relation
from belvedere.plan.nodes import Aggregate, Join, JoinKind, Node, Scan, TopK
from belvedere.rules.clock_filter import LEAVE
from belvedere.rules.emit.emission import EMITTED, GROUPS
from belvedere.rules.facts import is_linear
from belvedere.rules.pipeline import CHANGES, WAITING, Pipeline, Rule, Stage
from belvedere.schema import HISTORY

ONE_SIDED = (JoinKind.SEMI, JoinKind.ANTI)


def bound_of(relation: Relation, stage: Stage, pipeline: Pipeline) -> str:
    """What bounds a stored relation of a stage; says so where nothing does."""
    return _special(relation, stage) or _rows(relation, stage, pipeline)


def _special(relation: Relation, stage: Stage) -> str | None:
    """What takes rows out by itself."""
    if relation.keep is not None:
        return "rows leave when their time to be served is over"
    if relation.serves:
        return "rows leave once the windows that they are in are final"
    if relation.name.endswith(HISTORY):
        known = stage.keep is not None
        return "versions leave some time after they are over" if known else "nothing bounds it: every version stays"
    if relation.name.endswith(CHANGES):
        return "changes leave once they are delivered"
    if relation.name.endswith((GROUPS, EMITTED)):
        leaves = stage.emission is not None and stage.emission.forgets
        return "groups leave once a bound makes them final" if leaves else "nothing bounds it: no bound makes a group final"
    if relation.name.endswith(WAITING):
        return "rows leave once their time is reached"
    if stage.rule is Rule.CLOCK and LEAVE in relation.ranges:
        return "rows leave as now() passes"
    return None


def _rows(relation: Relation, stage: Stage, pipeline: Pipeline) -> str:
    """How many rows there are, by those of the inputs."""
    if stage.rule is Rule.CONSTANT:
        return "its rows never change"
    if relation.append_only:
        return "nothing bounds it: rows only arrive"
    if stage.rule is Rule.INGEST:
        return "the view's own rows"
    operator = operator_of(stage)
    if relation.name == stage.state and stage.reach is not None:
        kept = "a row for each window: where it ends"
    elif relation.name == stage.state and stage.settling is not None:
        by = ", ".join(stage.settling.block.by) or "the sequence"
        return f"a row for each {by}: from when on its windows are not final"
    elif relation.name == stage.state:
        groups = relation.schema.key or ()
        kept = f"a row for each group by {', '.join(groups)}" if groups else "one row"
    elif isinstance(operator, TopK) and operator.limit is not None and relation.view is None:
        by = f" for each group by {', '.join(operator.partition)}" if operator.partition else ""
        kept = f"at most {operator.limit} rows{by}"
    else:
        kept = "the view's own rows" if relation.view is not None else "as many rows as its input asks for"
    growing = () if _is_bounded(stage, pipeline) else _growing_inputs(stage, pipeline)
    return f"{kept}, which nothing bounds: rows of {', '.join(growing)} only arrive" if growing else kept


def _growing_inputs(stage: Stage, pipeline: Pipeline) -> tuple[str, ...]:
    """The inputs that have ever more rows and of which a stage may have ever more."""
    if stage.rule is Rule.INGEST:
        return (stage.output,) if pipeline.relations[stage.output].append_only else ()
    if _is_bounded(stage, pipeline):
        return ()
    stages = {s.output: s for s in pipeline.stages}
    found = (n for slot in _slots_that_count(stage) for n in _growing_inputs(stages[slot], pipeline))
    return tuple(sorted(dict.fromkeys(found)))


def _slots_that_count(stage: Stage) -> tuple[str, ...]:
    """The relations of which more rows may be more rows of the stage."""
    operator = operator_of(stage)
    names = {s.name for s in stage.slots}
    if isinstance(operator, Join) and operator.kind in ONE_SIDED:
        names &= {n.relation for n in operator.left.walk() if isinstance(n, Scan)}
    return tuple(s.relation for s in stage.slots if s.name in names)


def _is_bounded(stage: Stage, pipeline: Pipeline) -> bool:
    """Whether the number of rows does not follow that of the inputs' rows: one group, the first so many, or those of a time."""
    relation = pipeline.relations[stage.output]
    operator = operator_of(stage)
    if stage.rule is Rule.CLOCK:
        return LEAVE in relation.ranges
    if stage.rule is Rule.MERGE or isinstance(operator, Aggregate):
        keys = stage.partial.keys if stage.partial is not None else operator.keys if isinstance(operator, Aggregate) else ()
        return not keys
    return isinstance(operator, TopK) and operator.limit is not None and not operator.partition


def operator_of(stage: Stage) -> Node:
    """The first operator below the linear ones."""
    node = stage.plan
    while is_linear(node) and len(node.inputs) == 1:
        node = node.inputs[0]
    return node

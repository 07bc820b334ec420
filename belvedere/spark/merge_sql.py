"""The Spark SQL of a MERGE stage.

In: a stage with its state relation. Out: the texts `run_merge` chooses from. Common table expressions carry the names of the
temporary views that they stand for, so one text serves with and without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from belvedere.engine.identity import identity_columns, path_hash
from belvedere.engine.relation import Relation
from belvedere.engine.render import print_expression, quote, render, spark_type
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Item, Node, Project, Scan
from belvedere.rules.merge.accumulate import ROWS
from belvedere.rules.pipeline import Stage
from belvedere.rules.rewrite import carry, replace_scans, with_column
from belvedere.schema import KEY, WEIGHT, Column

WEIGHT_COLUMN = Column(WEIGHT, pa.int64(), nullable=False, hidden=True)
STATE_PREFIX = "_state."


def view_name(number: int, slot: str, kind: str) -> str:
    """A stage's temporary views, told apart by stage, slot and kind."""
    return f"{number}_{slot}_{kind}"


def merge_terms(number: int, stage: Stage, relations: Mapping[str, Relation], qualify: Callable[[str], str]) -> tuple[str, ...]:
    """(the hashes of the changed groups, their new rows from the changes and `old`[, final rows from `state`]).

    Where the operators above the aggregate keep every row, new rows hold both the output's columns and, prefixed, those of the
    state; else they are the state alone and a third text makes the output of it.
    """
    if stage.state is None or stage.partial is None:
        raise AssertionError(stage.output)
    state, output = relations[stage.state], relations[stage.output]
    names = {k: quote(qualify(view_name(number, k, "rows"))) for k in ("new", "old", "state")}
    clock = qualify("clock")

    def delta_view(scan: str) -> str:
        return qualify(view_name(number, scan, "delta"))

    def state_view(_: str) -> str:
        return qualify(view_name(number, "state", "rows"))

    path = state.paths[0]
    by = render(Project(stage.partial.input, stage.partial.keys), delta_view, clock) if stage.partial.keys else "SELECT 0"
    groups = f"SELECT DISTINCT {path_hash(path.exprs, path.types)} AS {quote(path.name)} FROM ({by}) AS g"
    weighted = with_column(stage.partial.input, WEIGHT_COLUMN, frozenset(s.name for s in stage.slots))
    new = f"WITH {names['new']} AS ({render(replace(stage.partial, input=weighted), delta_view, clock)})"
    together = _together(stage, state, names)
    if _keeps_rows(stage.plan):
        final = _final_with_state(stage.plan, state, output, lambda plan: render(plan, state_view, clock))
        return (groups, f"{new}, {names['state']} AS ({together}) {final}")
    shown = ", ".join(quote(n) for n in output.schema.names)
    final = f"SELECT {shown}, {identity_columns(output)} FROM ({render(stage.plan, state_view, clock)}) AS o"
    return (groups, f"{new} {together}", final)


def _keeps_rows(plan: Node) -> bool:
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Scan)


def _together(stage: Stage, state: Relation, names: Mapping[str, str]) -> str:
    """Old and new accumulators as one; groups without rows are gone."""
    assert stage.partial is not None
    keys = [quote(i.name) for i in stage.partial.keys]
    items = [f"CASE WHEN new.`{ROWS}` IS NULL THEN old.{k} ELSE new.{k} END AS {k}" for k in keys]
    items += [
        f"CAST({print_expression(m)} AS {spark_type(p.type)}) AS {quote(p.name)}"
        for m, p in zip(stage.merge, stage.partial.aggregates, strict=True)
    ]
    on = " AND ".join(f"new.{k} <=> old.{k}" for k in keys) or "TRUE"
    kept = f" WHERE `{ROWS}` > 0" if keys else ""
    both = f"{names['new']} AS new FULL JOIN {names['old']} AS old ON {on}"
    columns = ", ".join(quote(n) for n in state.schema.names)
    return f"SELECT {columns}, {identity_columns(state)} FROM (SELECT {', '.join(items)} FROM {both}) AS m{kept}"


def _final_with_state(plan: Node, state: Relation, output: Relation, printed: Callable[[Node], str]) -> str:
    """The output's rows beside the state's, in one query."""
    extra = (
        Column(KEY, pa.string(), nullable=False, hidden=True),
        Column(state.paths[0].name, pa.int64(), nullable=False, hidden=True),
    )
    schema = replace(state.schema, columns=state.schema.columns + extra)
    scan = Scan("state", schema)
    items = tuple(Item(f"{STATE_PREFIX}{c.name}", column(c.name), c.type, c.nullable, hidden=True) for c in schema)
    carried, names = carry(replace_scans(plan, lambda _: scan), scan, items)
    shown = ", ".join(quote(n) for n in output.schema.names)
    kept = ", ".join(f"{quote(n)} AS {quote(STATE_PREFIX + c.name)}" for n, c in zip(names, schema, strict=True))
    return f"SELECT {shown}, {identity_columns(output)}, {kept} FROM ({printed(carried)}) AS o"

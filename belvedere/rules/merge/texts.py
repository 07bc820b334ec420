"""The Spark SQL of an aggregate maintained by accumulators.

In: the stage's plan and its state relation. Out: the texts `MergeStage.run` chooses from. Common table expressions carry the names of the
temporary views that they stand for, so one text serves with and without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from belvedere.engine.identity import identity_columns, path_hash
from belvedere.engine.relation import Relation
from belvedere.engine.render import print_expression, quote, spark_type
from belvedere.engine.texts import DELTA, ROWS, Texts
from belvedere.plan.expressions import column
from belvedere.plan.nodes import Aggregate, Expr, Item, Node, Project, Scan
from belvedere.plan.rewrite import carry, replace_scans
from belvedere.rules.merge.accumulate import ROWS as COUNT
from belvedere.schema import KEY, Column

STATE_PREFIX = "_state."


def merge_texts(texts: Texts, plan: Node, partial: Aggregate, merge: tuple[Expr, ...], state: Relation) -> Mapping[str, str]:
    """`added`, what the changes add to their groups; `both`, the groups' new rows and state from the view `new` of it and from `old`.

    Where operators above the aggregate drop or double rows there is, in place of `both`, the new `state`, and `rows` made of it.
    `with` comes before these where `new` is computed in the same query.
    """
    new, old, together = (quote(texts.view(n, ROWS)) for n in ("new", "old", "state"))
    path = state.paths[0]
    partials = texts.query(replace(partial, input=texts.weighted(partial.input)), DELTA)
    added = f"SELECT *, {path_hash(path.exprs, path.types)} AS {quote(path.name)} FROM ({partials}) AS g"
    found = {"added": added, "with": f"WITH {new} AS ({partials})"}
    merged = _together(partial, merge, state, new, old)
    if _preserves_rows(plan):
        return found | {"both": f"{together} AS ({merged}) {_final_with_state(texts, plan, state)}"}
    return found | {"state": merged, "rows": texts.rows(plan, ROWS)}


def _preserves_rows(plan: Node) -> bool:
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Scan)


def _together(partial: Aggregate, merge: tuple[Expr, ...], state: Relation, new: str, old: str) -> str:
    """Old and new accumulators as one; groups without rows are gone."""
    keys = [quote(i.name) for i in partial.keys]
    items = [f"CASE WHEN new.`{COUNT}` IS NULL THEN old.{k} ELSE new.{k} END AS {k}" for k in keys]
    items += [
        f"CAST({print_expression(m)} AS {spark_type(p.type)}) AS {quote(p.name)}"
        for m, p in zip(merge, partial.aggregates, strict=True)
    ]
    on = " AND ".join(f"new.{k} <=> old.{k}" for k in keys) or "TRUE"
    filled = f" WHERE `{COUNT}` > 0" if keys else ""
    columns = ", ".join(quote(n) for n in state.schema.names)
    both = f"SELECT {', '.join(items)} FROM {new} AS new FULL JOIN {old} AS old ON {on}"
    return f"SELECT {columns}, {identity_columns(state)} FROM ({both}) AS m{filled}"


def _final_with_state(texts: Texts, plan: Node, state: Relation) -> str:
    """The output's rows beside the state's, in one query."""
    extra = (
        Column(KEY, pa.string(), nullable=False, hidden=True),
        Column(state.paths[0].name, pa.int64(), nullable=False, hidden=True),
    )
    schema = replace(state.schema, columns=state.schema.columns + extra)
    scan = Scan("state", schema)
    items = tuple(Item(f"{STATE_PREFIX}{c.name}", column(c.name), c.type, c.nullable, hidden=True) for c in schema)
    carried, names = carry(replace_scans(plan, lambda _: scan), scan, items)
    stored = ", ".join(f"{quote(n)} AS {quote(STATE_PREFIX + c.name)}" for n, c in zip(names, schema, strict=True))
    return texts.rows(carried, ROWS, f", {stored}")

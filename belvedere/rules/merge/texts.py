"""The Spark SQL of an aggregate maintained by accumulators.

In: the stage's plan and its state relation. Out: the texts `MergeStage.run` chooses from. Common table expressions carry the names of the
temporary views that they stand for, so one text serves with and without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from belvedere.engine.identity import identity_columns, key_text, path_hash
from belvedere.engine.relation import Relation
from belvedere.engine.render import print_expression
from belvedere.engine.texts import DELTA, ROWS, Texts
from belvedere.functions.types import quote, type_text
from belvedere.plan.expressions import column, replace_columns
from belvedere.plan.nodes import Aggregate, Expr, Node, Project, Scan
from belvedere.plan.rewrite import push_down
from belvedere.rules.merge.accumulate import ROWS as COUNT
from belvedere.schema import KEY, Schema

STATE_PREFIX, OLD_PREFIX, NEW_PREFIX = "_state.", "_old.", "_new."
"""The sides of a query for all at once: the groups' new accumulators, their rows of the output as they were, and as they are."""
WAS, IS = "_was", "_is"
FLAGS = (pa.field(WAS, pa.bool_(), nullable=False), pa.field(IS, pa.bool_(), nullable=False))
"""Whether the group was there before, and is there now."""


def merge_texts(texts: Texts, plan: Node, partial: Aggregate, merge: tuple[Expr, ...], state: Relation) -> Mapping[str, str]:
    """`added`, what the changes add to their groups; `both`, from the view `new` of it and from `old`, the groups' new state and
    beside it the output's rows as they were and are.

    Where operators above the aggregate drop or double rows there is, in place of `both`, the new `state`, and `rows` made of it.
    `with` comes before these where `new` is computed in the same query.
    """
    new, old = (quote(texts.view(n, ROWS)) for n in ("new", "old"))
    path = state.paths[0]
    partials = texts.query(replace(partial, input=texts.weighted(partial.input)), DELTA)
    added = f"SELECT *, {path_hash(path.exprs, path.types)} AS {quote(path.name)} FROM ({partials}) AS g"
    found = {"added": added, "with": f"WITH {new} AS ({partials})"}
    if preserves_rows(plan):
        return found | {"both": _side_by_side(texts, plan, partial, merge, state, new, old)}
    items = [f"{i} AS {quote(n)}" for n, i in _merged(partial, merge).items()]
    filled = f" WHERE `{COUNT}` > 0" if partial.keys else ""
    columns = ", ".join(quote(n) for n in state.schema.names)
    together = f"SELECT {', '.join(items)} FROM {_paired(partial, new, old)}"
    merged = f"SELECT {columns}, {identity_columns(state)} FROM ({together}) AS m{filled}"
    return found | {"state": merged, "rows": texts.rows(plan, ROWS)}


def preserves_rows(plan: Node) -> bool:
    """Whether the operators above an aggregate make one row of each of its rows."""
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Scan)


def _merged(partial: Aggregate, merge: tuple[Expr, ...]) -> dict[str, str]:
    """The columns of the state, of old and new accumulators. A group that was there keeps its key as it was written."""
    found = {
        i.name: f"CASE WHEN old.`{COUNT}` IS NULL THEN new.{quote(i.name)} ELSE old.{quote(i.name)} END" for i in partial.keys
    }
    for m, p in zip(merge, partial.aggregates, strict=True):
        found[p.name] = f"CAST({print_expression(m)} AS {type_text(p.type)})"
    return found


def _paired(partial: Aggregate, new: str, old: str) -> str:
    """Old and new accumulators side by side."""
    on = " AND ".join(f"new.{quote(i.name)} <=> old.{quote(i.name)}" for i in partial.keys) or "TRUE"
    return f"{new} AS new FULL JOIN {old} AS old ON {on}"


def _side_by_side(
    texts: Texts, plan: Node, partial: Aggregate, merge: tuple[Expr, ...], state: Relation, new: str, old: str
) -> str:
    """The new state, and the output's rows of old and new state, in one query; groups without rows are gone."""
    names = state.schema.names
    merged = _merged(partial, merge)
    sides = [f"{merged[n]} AS {quote(n)}" for n in names] + [f"old.{quote(n)} AS {quote(OLD_PREFIX + n)}" for n in names]
    both = f"SELECT {', '.join(sides)}, old.`{COUNT}` IS NOT NULL AS `{WAS}` FROM {_paired(partial, new, old)}"
    there = f"`{COUNT}` > 0" if partial.keys else "TRUE"
    flagged = f"SELECT *, {there} AS `{IS}` FROM ({both}) AS m"
    outputs = push_down(plan, tuple(column(n) for n in plan.schema.names))
    before = {n: column(OLD_PREFIX + n) for n in names}
    shown = [
        f"CASE WHEN `{flag}` THEN CAST({print_expression(e)} AS {type_text(c.type)}) END AS {quote(prefix + c.name)}"
        for prefix, flag, columns in ((OLD_PREFIX, WAS, before), (NEW_PREFIX, IS, {}))
        for c, e in zip(plan.schema, (replace_columns(o, columns) for o in outputs), strict=True)
    ]
    kept = [f"{quote(n)} AS {quote(STATE_PREFIX + n)}" for n in names]
    rows = f"SELECT {', '.join([*kept, *shown])}, `{WAS}`, `{IS}` FROM ({flagged}) AS f"
    identities = [
        _identity(relation, prefix)
        for relation, prefix in ((state, STATE_PREFIX), (texts.output, OLD_PREFIX), (texts.output, NEW_PREFIX))
    ]
    return f"SELECT *, {', '.join(identities)} FROM ({rows}) AS r"


def _identity(relation: Relation, prefix: str) -> str:
    """`_key` and the hashes of a relation whose columns have a prefix; they have it, too."""
    schema, names = relation.schema, {n: column(prefix + n) for n in relation.schema.names}
    columns = tuple(replace(c, name=prefix + c.name) for c in schema)
    renamed = Schema(columns, tuple(prefix + n for n in schema.key or ()))
    items = [f"{key_text(renamed)} AS {quote(prefix + KEY)}"]
    for path in relation.paths:
        exprs = tuple(replace_columns(e, names) for e in path.exprs)
        items.append(f"{path_hash(exprs, path.types)} AS {quote(prefix + path.name)}")
    return ", ".join(items)

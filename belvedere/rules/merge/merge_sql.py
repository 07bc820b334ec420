"""Spark SQL of an aggregate maintained by accumulators.

In: the stage's plan and its state relation. Out: the texts from which `MergeStage.run` chooses. Common table
expressions have the names of the temporary views that they replace, so one text works with and without these views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.engine.relation import Relation
from belvedere.engine.sql.plan_sql import print_expression
from belvedere.engine.sql.row_identity import identity_columns, key_text, path_hash
from belvedere.engine.sql.stage_sql import DELTA, ROWS, Texts
from belvedere.functions.spark_types import quote, type_text
from belvedere.plan.expressions import column, replace_columns
from belvedere.plan.operators.nodes import Aggregate, Expr, Node, Project, Scan
from belvedere.plan.rewrites.rewrite import push_down
from belvedere.rules.merge.accumulate import ROWS as COUNT
from belvedere.schema import KEY, Schema

STATE_PREFIX, OLD_PREFIX, NEW_PREFIX = "_state.", "_old.", "_new."
"""Prefixes of the sides of a combined query: the groups' new accumulators, their old rows of the output, and their new
rows."""
WAS, IS = "_was", "_is"
FLAGS = (pa.field(WAS, pa.bool_(), nullable=False), pa.field(IS, pa.bool_(), nullable=False))
"""Whether the group existed before, and whether it exists now."""


def merge_texts(
    texts: Texts, plan: Node, partial: Aggregate, merge: tuple[Expr, ...], state: Relation
) -> Mapping[str, str]:
    """Return the SQL texts of the stage.

    `added` gives the contribution of the changes to their groups. `both` reads this as the view `new`, and the view
    `old`; it gives the groups' new state with the old and new rows of the output. `rows` gives the output's rows of the
    view `state`.

    `first` is `added` with the output's rows of groups that have no other rows. It computes these rows for all groups,
    so it exists only if they cannot fail. If operators above the aggregate drop or duplicate rows, the new `state`
    replaces `both`. `with` comes before these texts if `new` is computed in the same query.
    """
    new, old = (quote(texts.view(n, ROWS)) for n in ("new", "old"))
    path = state.paths[0]
    partials = texts.query(replace(partial, input=texts.weighted(partial.input)), DELTA)
    added = f"SELECT *, {path_hash(path.exprs, path.types)} AS {quote(path.name)} FROM ({partials}) AS g"
    found = {"added": added, "with": f"WITH {new} AS ({partials})", "rows": texts.rows(plan, ROWS)}
    if preserves_rows(plan):
        if all(_cannot_fail(e, state.schema) for e in _outputs(plan)):
            found["first"] = shown_beside(plan, texts.output, state).query(state, partials)
        return found | {"both": _side_by_side(texts, plan, partial, merge, state, new, old)}
    items = [f"{i} AS {quote(n)}" for n, i in _merged(partial, merge).items()]
    filled = f" WHERE `{COUNT}` > 0" if partial.keys else ""
    columns = ", ".join(quote(n) for n in state.schema.names)
    together = f"SELECT {', '.join(items)} FROM {_paired(partial, new, old)}"
    merged = f"SELECT {columns}, {identity_columns(state)} FROM ({together}) AS m{filled}"
    return found | {"state": merged}


def preserves_rows(plan: Node) -> bool:
    """Return whether the operators above an aggregate make exactly one row from each of its rows."""
    while isinstance(plan, Project):
        plan = plan.input
    return isinstance(plan, Scan)


def _outputs(plan: Node) -> tuple[Expr, ...]:
    """Return the columns of a plan as expressions over the state."""
    return push_down(plan, tuple(column(n) for n in plan.schema.names))


def _cannot_fail(expr: Expr, state: Schema) -> bool:
    """Return whether an expression cannot fail for the changes of a group alone, whose counts can be negative.

    Expressions that are not known to be safe count as unsafe.
    """
    match expr.unnest():
        case exp.Column() | exp.Literal():
            return True
        case exp.GT(this=exp.Column() as compared, expression=exp.Literal() as least):
            return bool(least.is_int) and pa.types.is_integer(state[compared.name].type)
        case exp.Case(args={"ifs": [branch]} as parts) if parts.get("default") is None and parts.get("this") is None:
            return _cannot_fail(branch.this, state) and _cannot_fail(branch.args["true"], state)
    return False


@dataclass(frozen=True)
class Shown:
    """The output's columns for a row of state. Most of them are columns of the state, its `_key` or its hashes.

    `columns` gives the position of each column of the output, its `_key` and its hashes. The others have texts over the
    state, or over these columns.
    """

    columns: Mapping[str, str]
    values: Mapping[str, str]
    identities: Mapping[str, str]

    def query(self, state: Relation, rows: str) -> str:
        """Return a query for rows of state, with their identity and all shown columns."""
        keys = state.schema.key or ()
        typed = ", ".join(
            quote(c.name) if c.name in keys else f"CAST({quote(c.name)} AS {type_text(c.type)}) AS {quote(c.name)}"
            for c in state.schema
        )
        text = (
            f"SELECT *, {identity_columns(state)}{_listed(self.values)} FROM (SELECT {typed} FROM ({rows}) AS p) AS g"
        )
        return f"SELECT *{_listed(self.identities)} FROM ({text}) AS r" if self.identities else text


def shown_beside(plan: Node, output: Relation, state: Relation) -> Shown:
    """Return the output's columns, for a plan that makes one row from each row of state."""
    types = {c.name: c.type for c in state.schema}
    columns, values, identities = {}, {}, {}
    for c, e in zip(plan.schema, _outputs(plan), strict=True):
        is_same = isinstance(e, exp.Column) and types.get(e.name) == c.type
        columns[c.name] = e.name if is_same else NEW_PREFIX + c.name
        if not is_same:
            values[NEW_PREFIX + c.name] = f"CAST({print_expression(e)} AS {type_text(c.type)})"
    known = {text: name for name, text in _identity(state, {n: n for n in state.schema.names}).items()}
    for name, text in _identity(output, columns).items():
        columns[name] = known.get(text, NEW_PREFIX + name)
        if text not in known:
            identities[NEW_PREFIX + name] = text
    return Shown(columns, values, identities)


def _listed(texts: Mapping[str, str]) -> str:
    return "".join(f", {text} AS {quote(name)}" for name, text in texts.items())


def _merged(partial: Aggregate, merge: tuple[Expr, ...]) -> dict[str, str]:
    """Return the columns of the state, merged from old and new accumulators.

    An existing group keeps its key as first written.
    """
    found = {
        i.name: f"CASE WHEN old.`{COUNT}` IS NULL THEN new.{quote(i.name)} ELSE old.{quote(i.name)} END"
        for i in partial.keys
    }
    for m, p in zip(merge, partial.aggregates, strict=True):
        found[p.name] = f"CAST({print_expression(m)} AS {type_text(p.type)})"
    return found


def _paired(partial: Aggregate, new: str, old: str) -> str:
    """Join old and new accumulators by the key."""
    on = " AND ".join(f"new.{quote(i.name)} <=> old.{quote(i.name)}" for i in partial.keys) or "TRUE"
    return f"{new} AS new FULL JOIN {old} AS old ON {on}"


def _side_by_side(
    texts: Texts, plan: Node, partial: Aggregate, merge: tuple[Expr, ...], state: Relation, new: str, old: str
) -> str:
    """Return one query for the new state and the output's rows of the old and new state.

    Groups without rows are marked as deleted.
    """
    names = state.schema.names
    merged = _merged(partial, merge)
    sides = [f"{merged[n]} AS {quote(n)}" for n in names] + [
        f"old.{quote(n)} AS {quote(OLD_PREFIX + n)}" for n in names
    ]
    both = f"SELECT {', '.join(sides)}, old.`{COUNT}` IS NOT NULL AS `{WAS}` FROM {_paired(partial, new, old)}"
    there = f"`{COUNT}` > 0" if partial.keys else "TRUE"
    flagged = f"SELECT *, {there} AS `{IS}` FROM ({both}) AS m"
    outputs = _outputs(plan)
    before = {n: column(OLD_PREFIX + n) for n in names}
    shown = [
        f"CASE WHEN `{flag}` THEN CAST({print_expression(e)} AS {type_text(c.type)}) END AS {quote(prefix + c.name)}"
        for prefix, flag, columns in ((OLD_PREFIX, WAS, before), (NEW_PREFIX, IS, {}))
        for c, e in zip(plan.schema, (replace_columns(o, columns) for o in outputs), strict=True)
    ]
    kept = [f"{quote(n)} AS {quote(STATE_PREFIX + n)}" for n in names]
    rows = f"SELECT {', '.join([*kept, *shown])}, `{WAS}`, `{IS}` FROM ({flagged}) AS f"
    identities = (
        {prefix + n: text for n, text in _identity(relation, {n: prefix + n for n in relation.schema.names}).items()}
        for relation, prefix in ((state, STATE_PREFIX), (texts.output, OLD_PREFIX), (texts.output, NEW_PREFIX))
    )
    return f"SELECT *{''.join(map(_listed, identities))} FROM ({rows}) AS r"


def _identity(relation: Relation, names: Mapping[str, str]) -> dict[str, str]:
    """Return `_key` (if the relation has one) and the hashes of a relation whose columns have other names."""
    schema = relation.schema
    renamed = Schema(tuple(replace(c, name=names[c.name]) for c in schema), tuple(names[n] for n in schema.key or ()))
    columns = {n: column(names[n]) for n in schema.names}
    paths = {p.name: path_hash(tuple(replace_columns(e, columns) for e in p.exprs), p.types) for p in relation.paths}
    return paths if relation.by_path else {KEY: key_text(renamed), **paths}

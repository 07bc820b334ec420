"""FROM: tables, paths, subqueries, joins, unnesting and windowing calls.

In: the FROM, JOIN and LATERAL clauses of a select. Out: the frame's plan and its FROM items. Conditions that correlate
an item with the outer query are returned, not applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.errors import BelvedereError
from belvedere.lang.names.resolve import Resolver
from belvedere.lang.names.scope import FromItem
from belvedere.lang.relationships.local_aggregates import expand_within
from belvedere.lang.relationships.path_ways import ways_of_query
from belvedere.lang.relationships.paths import follow_path
from belvedere.lang.select.asof_join import join_nearest
from belvedere.lang.select.from_items import find_relation, lower_item, refuse_options, renamed
from belvedere.lang.select.from_using import equalities, join_using, shared_columns
from belvedere.lang.select.grouping import contains_aggregate
from belvedere.lang.select.query_frame import Frame, named_source, scan
from belvedere.lang.select.subqueries import attach_all, attach_to
from belvedere.lang.select.unnesting import add_lateral, add_lateral_query, is_generator, start_empty
from belvedere.lang.select.version_joins import join_as_of
from belvedere.lang.types.typing_scope import SubqueryValue
from belvedere.plan.expressions import conjunction, conjuncts
from belvedere.plan.operators.nodes import Expr, Filter, Join, JoinKind, Node
from belvedere.syntax.query_tree import WindowCall, path_of


def lower_from(frame: Frame, select: exp.Select) -> list[Expr]:
    """Add all FROM items of a select. Return the conditions on outer columns: from paths that begin there, and from
    inner joins."""
    correlated: list[Expr] = []
    clause = select.args.get("from_")
    if clause is not None:
        correlated += add_item(frame, clause.this, JoinKind.INNER, None)
    for join in select.args.get("joins") or ():
        correlated += add_join(frame, join)
    for lateral in select.args.get("laterals") or ():
        add_lateral(frame, lateral, JoinKind.INNER)
    start_empty(frame)
    return correlated


def add_join(frame: Frame, join: exp.Join) -> list[Expr]:
    """Add one JOIN or comma."""
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    method = (join.args.get("method") or "").upper()
    if method == "ASOF":
        right, sources = _alone(frame, join.this)
        for source in sources:
            _check_alias(frame, source, join.this)
        join_nearest(frame, join, right, sources)
        return []
    if kind in ("SEMI", "ANTI"):
        if method not in ("", "NATURAL") or side not in ("", "LEFT"):
            shown = " ".join(w for w in (method, side, kind, "JOIN") if w)
            hint = f"write LEFT {kind} JOIN ... ON, which keeps rows of the left side"
            raise frame.fail("B3026", f"{shown} is not supported", join, hint)
        return _semi_join(frame, join, JoinKind(kind.lower()))
    join_kind = JoinKind(side.lower()) if side in ("LEFT", "RIGHT", "FULL") else JoinKind.INNER
    if method == "NATURAL" or join.args.get("using"):
        right, sources = _alone(frame, join.this)
        join_using(frame, join, right, sources, join_kind)
        return []
    conditions = add_item(frame, join.this, join_kind, join.args.get("on"))
    for nested in join.this.args.get("joins") or () if isinstance(join.this, exp.Table) else ():
        conditions += add_join(frame, nested)
    return conditions


def add_item(frame: Frame, item: exp.Expr, kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    """Join one FROM item with the previous ones. Return conditions on outer columns."""
    item = named_late(item)
    if isinstance(item, exp.Table) and item.args.get("version"):
        return _add_version(frame, item, kind, on)
    special = bool(item.args.get("pivots"))
    if isinstance(item, exp.Table) and not special and not isinstance(item.this, (WindowCall, exp.Func, exp.Anonymous)):
        path = path_of(item)
        refuse_options(frame, item)
        step = _path_start(frame, path)
        if step is not None:
            source, names = step
            _, conditions = follow_path(frame, source, names, item.alias or None, kind)
            _rename(frame, item)
            return conditions + _apply_on(frame, on, kind)
    if isinstance(item, exp.Lateral) or is_generator(item):
        add_lateral(frame, item, kind)
        return _apply_on(frame, on, kind)
    try:
        right, sources = _alone(frame, item)
    except BelvedereError as error:
        if not _may_be_linked(frame, item, error):
            raise
        _add_linked(frame, item, kind, error)
        return _apply_on(frame, on, kind)
    for source in sources:
        _check_alias(frame, source, item)
    return _combine(frame, right, sources, kind, on)


def _may_be_linked(frame: Frame, item: exp.Expr, error: BelvedereError) -> bool:
    """Return whether an unknown name in a subquery of FROM may belong to the outer query."""
    unknown = any(d.code in ("B2001", "B2002", "B2004") for d in error.diagnostics)
    around = frame.scope.outer is not None or frame.scope.aliased(OWNER) is not None
    return unknown and around and isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query)


def _add_linked(frame: Frame, item: exp.Expr, kind: JoinKind, error: BelvedereError) -> None:
    """Join a subquery of FROM by its correlation with the outer query. It does not see the other items of FROM."""
    beside = frame.scope.sources
    frame.scope.sources = [s for s in beside if s.alias == OWNER]
    hidden = [s for s in beside if s.alias != OWNER]
    start_empty(frame)
    try:
        add_lateral_query(frame, item, item.this, kind)
    except BelvedereError:
        raise error from None
    finally:
        added = [s for s in frame.scope.sources if s.alias != OWNER]
        frame.scope.sources = [*(s for s in beside if s.alias == OWNER), *hidden, *added]


def _add_version(frame: Frame, item: exp.Table, kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    """Add `T FOR SYSTEM_TIME AS OF time`."""
    path = path_of(item)
    if not path or _path_start(frame, path) is not None or path[0].name.casefold() in frame.context.tables:
        hint = "define it as a view: `V := DISTINCT U ON k ORDER BY c DESC`, and join V"
        raise frame.fail("B5032", "FOR SYSTEM_TIME AS OF needs the name of a table or view", item, hint)
    relation = find_relation(frame, path)
    if frame.scope.aliased(item.alias or relation.name) is not None:
        raise frame.fail(
            "B2005", f"alias `{item.alias or relation.name}` is given twice", item, "give one another alias"
        )
    join_as_of(frame, item, relation, kind, on)
    _rename(frame, item)
    return []


def named_late(item: exp.Expr) -> exp.Expr:
    """Replace `LATE(T)` in FROM by the name of the table with T's late rows."""
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Anonymous) or item.this.name.upper() != "LATE":
        return item
    parts = item.this.expressions
    if len(parts) != 1 or not isinstance(parts[0], exp.Column):
        return item
    named = item.copy()
    path = ".".join(p.name for p in parts[0].parts)
    name = exp.to_identifier(f"LATE({path})", quoted=True)
    name.meta.update(item.this.meta)
    named.set("this", name)
    return named


def _combine(frame: Frame, right: Node, sources: Sequence[FromItem], kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    frame.scope.sources += sources
    if frame.empty:
        frame.plan = right
        return _apply_on(frame, on, kind)
    left = frame.plan
    frame.join(right, kind if on is None else JoinKind.INNER, None)
    if on is None:
        return []
    condition = _condition(frame, on)
    if condition.find(SubqueryValue) is not None:
        if kind is JoinKind.INNER:
            return _filtered(frame, attach_all(frame, condition))
        left, right, condition = _sides(frame, left, right, condition, on)
    own, outer = _by_reach(frame, condition)
    if outer and kind is not JoinKind.INNER:
        raise frame.fail(
            "B3011", "a correlated condition is not supported in an outer join", on, "move the condition to WHERE"
        )
    frame.plan = Join(left, right, kind, own)
    return outer


def _sides(frame: Frame, left: Node, right: Node, condition: Expr, on: exp.Expr) -> tuple[Node, Node, Expr]:
    """Join the subqueries of a join's condition to the side whose columns each reads. Return both sides and the
    condition."""
    left, condition = attach_to(frame, left, condition)
    right, condition = attach_to(frame, right, condition)
    if condition.find(SubqueryValue) is not None:
        hint = "compute it in a subquery of FROM, or write WHERE [NOT] EXISTS (SELECT 1 FROM ... WHERE ...)"
        raise frame.fail("B3022", "a subquery in ON that reads both sides is not supported", on, hint)
    return left, right, condition


def _condition(frame: Frame, on: exp.Expr) -> Expr:
    if contains_aggregate(on):
        join, place = on.parent, on.arg_key
        expand_within(on, ways_of_query(frame.context, frame.scope))
        on = on if join is None or place is None else join.args[place]
    if contains_aggregate(on):
        raise frame.fail(
            "B3031", "an aggregate is not allowed in ON", on, "compute it in a subquery of FROM, and join that"
        )
    condition = Resolver(frame).resolve(on)
    frame.check_condition(condition, on, "ON")
    return condition


def _by_reach(frame: Frame, condition: Expr) -> tuple[Expr | None, list[Expr]]:
    """Split a condition into the part about this FROM, and the parts that correlate it with the outer query."""
    parts = conjuncts(condition)
    return conjunction(c for c in parts if not frame.is_outer(c)), [c for c in parts if frame.is_outer(c)]


def _apply_on(frame: Frame, on: exp.Expr | None, kind: JoinKind) -> list[Expr]:
    """Apply an ON after a path or an unnesting: a further condition of the join just made."""
    if on is None or (isinstance(on, exp.Boolean) and on.this):
        return []
    condition = _condition(frame, on)
    top = frame.plan
    if kind is not JoinKind.INNER and isinstance(top, Join) and condition.find(SubqueryValue) is None:
        frame.plan = replace(top, condition=conjunction([*conjuncts(top.condition), *conjuncts(condition)]))
        return []
    if kind is not JoinKind.INNER:
        hint = "write ON TRUE, and put the condition inside the subquery or into an outer query"
        raise frame.fail(
            "B3022", "a condition on an unnested array or an aggregate is not supported in an outer join", on, hint
        )
    return _filtered(frame, attach_all(frame, condition))


def _filtered(frame: Frame, condition: Expr) -> list[Expr]:
    """Filter the rows of FROM by the parts of a condition about them. Return the parts that correlate them with the
    outer query."""
    own, outer = _by_reach(frame, condition)
    if own is not None:
        frame.plan = Filter(frame.plan, own)
    return outer


def _semi_join(frame: Frame, join: exp.Join, kind: JoinKind) -> list[Expr]:
    right, sources = _alone(frame, join.this)
    left, equal = frame.plan, None
    if join.args.get("method") or join.args.get("using"):
        shared = shared_columns(frame, join, sources)
        equal = equalities(shared)
        frame.scope.merge([own for own, _ in shared], frame.scope.sources, [])
    count = len(frame.scope.sources)
    frame.scope.sources += sources
    frame.join(right, JoinKind.INNER, None)
    on = join.args.get("on")
    condition = _condition(frame, on) if on is not None else None
    if on is not None and condition is not None and condition.find(SubqueryValue) is not None:
        left, right, condition = _sides(frame, left, right, condition, on)
    del frame.scope.sources[count:]
    frame.scope.merged = [m for m in frame.scope.merged if any(m.before is s for s in frame.scope.sources)]
    frame.plan = Join(left, right, kind, condition if equal is None else equal)
    return []


def _alone(frame: Frame, item: exp.Expr) -> tuple[Node, list[FromItem]]:
    """Return an item before it is joined; `(a JOIN b)` is also one."""
    nested = isinstance(item, (exp.Subquery, exp.Paren)) and isinstance(item.this, (exp.Table, exp.Subquery))
    if nested and not item.alias and not item.args.get("pivots"):
        return _nested_joins(frame, item)
    return lower_item(frame, item)


def _nested_joins(frame: Frame, item: exp.Expr) -> tuple[Node, list[FromItem]]:
    inner = Frame(frame.context, frame.scope.outer)
    add_item(inner, item.this, JoinKind.INNER, None)
    for join in [*(item.this.args.get("joins") or ()), *(item.args.get("joins") or ())]:
        add_join(inner, join)
    frame.scope.merged += inner.scope.merged
    return inner.plan, inner.scope.sources


def _path_start(frame: Frame, path: Sequence[exp.Identifier]) -> tuple[FromItem, Sequence[exp.Identifier]] | None:
    """Return the FROM item at which a path begins, here or in the outer query, and the remaining steps; None for a
    plain table."""
    if len(path) < 2:
        return None
    reachable = frame.scope.reachable(path[0].name)
    if reachable is not None:
        return reachable[0], path[1:]
    definitions = frame.context.definitions
    if definitions.find(".".join(p.name for p in path)) is not None:
        return None
    for n in range(len(path) - 1, 0, -1):
        relation = definitions.find(".".join(p.name for p in path[:n]))
        if relation is not None:
            node, source = named_source(
                scan(relation), path[n - 1].name, frame.context.names, relation, addressable=False
            )
            _combine(frame, node, [source], JoinKind.INNER, None)
            return source, path[n:]
    return None


def _check_alias(frame: Frame, source: FromItem, node: exp.Expr) -> None:
    if source.alias and source.addressable and frame.scope.aliased(source.alias) is not None:
        raise frame.fail("B2005", f"alias `{source.alias}` is given twice", node, "give one of them another alias")


def _rename(frame: Frame, item: exp.Expr) -> None:
    frame.scope.sources[-1] = renamed(frame, frame.scope.sources[-1], item)

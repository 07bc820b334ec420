"""FROM: tables, paths, subqueries, joins, unnesting and windowing calls.

In: the FROM, JOIN and LATERAL clauses of a select. Out: the frame's plan and its FROM items. Conditions that link an item to the
query around are handed back, not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError
from belvedere.lang import types as t
from belvedere.lang.as_of import join_as_of
from belvedere.lang.definitions import Relation
from belvedere.lang.durations import microseconds
from belvedere.lang.frame import Frame, named_source, scan
from belvedere.lang.names import did_you_mean
from belvedere.lang.relationships import follow_path
from belvedere.lang.resolve import Resolver
from belvedere.lang.scope import Source, SourceColumn
from belvedere.lang.statements import WindowCall, path_of
from belvedere.lang.subqueries import attach_all, needs_domain, over_domain
from belvedere.lang.types import Typed
from belvedere.plan.expressions import column, conjunction, conjuncts
from belvedere.plan.nodes import (
    Expr,
    Filter,
    Item,
    Join,
    JoinKind,
    Node,
    Project,
    TimeWindow,
    TimeWindowKind,
    Unnest,
    Values,
)
from belvedere.schema import TIMESTAMP, Column

UNSUPPORTED = {"pivots": "PIVOT", "sample": "TABLESAMPLE", "when": "time travel", "version": "FOR SYSTEM_TIME AS OF"}
GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest)


def lower_from(frame: Frame, select: exp.Select) -> list[Expr]:
    """All FROM items of a select; gives the conditions on outer columns (of paths that begin there, and of inner joins)."""
    correlated: list[Expr] = []
    clause = select.args.get("from_")
    if clause is not None:
        correlated += add_item(frame, clause.this, JoinKind.INNER, None)
    for join in select.args.get("joins") or ():
        correlated += add_join(frame, join)
    for lateral in select.args.get("laterals") or ():
        add_lateral(frame, lateral, JoinKind.INNER)
    if frame.empty:
        frame.plan = Values((Column("one", pa.int32(), False, hidden=True),), ((exp.Literal.number(1),),))
    return correlated


def add_join(frame: Frame, join: exp.Join) -> list[Expr]:
    """One JOIN or comma."""
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    method = (join.args.get("method") or "").upper()
    if method in ("ASOF", "NATURAL") and method == "ASOF":
        raise frame.context.fail("B3021", "ASOF JOIN is not supported", join, "join with a condition on both times")
    if kind in ("SEMI", "ANTI"):
        return _semi_join(frame, join, JoinKind(kind.lower()))
    if kind == "CROSS" or not (side or kind):
        side = side or ""
    join_kind = JoinKind(side.lower()) if side in ("LEFT", "RIGHT", "FULL") else JoinKind.INNER
    before = list(frame.scope.sources)
    if method == "NATURAL" or join.args.get("using"):
        return _using_join(frame, join, join_kind, natural=method == "NATURAL")
    conditions = add_item(frame, join.this, join_kind, join.args.get("on"))
    for nested in join.this.args.get("joins") or () if isinstance(join.this, exp.Table) else ():
        conditions += add_join(frame, nested)
    del before
    return conditions


def add_item(frame: Frame, item: exp.Expr, kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    """One FROM item, joined to what is there; gives conditions on outer columns."""
    item = named_late(item)
    if isinstance(item, exp.Table) and item.args.get("version"):
        return _add_version(frame, item, kind, on)
    if isinstance(item, exp.Table) and not isinstance(item.this, (WindowCall, exp.Func, exp.Anonymous)):
        path = path_of(item)
        _refuse_options(frame, item)
        step = _path_start(frame, path)
        if step is not None:
            source, names = step
            _, conditions = follow_path(frame, source, names, item.alias or None, kind)
            _rename(frame, item)
            return conditions + _apply_on(frame, on, kind, joined=True)
    if _is_generator(item):
        add_lateral(frame, item, kind)
        return _apply_on(frame, on, kind, joined=True)
    if isinstance(item, exp.Lateral):
        add_lateral(frame, item, kind)
        return _apply_on(frame, on, kind, joined=True)
    right, sources = lower_item(frame, item)
    for source in sources:
        _check_alias(frame, source, item)
    return _combine(frame, right, sources, kind, on)


def _add_version(frame: Frame, item: exp.Table, kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    """`T FOR SYSTEM_TIME AS OF time`."""
    path = path_of(item)
    if not path or _path_start(frame, path) is not None or path[0].name.casefold() in frame.context.tables:
        hint = "define it as a view: `V := DISTINCT U ON k ORDER BY c DESC`, and join V"
        raise frame.context.fail("B5032", "FOR SYSTEM_TIME AS OF needs the name of a table or view", item, hint)
    relation = find_relation(frame, path)
    if frame.scope.source(item.alias or relation.name) is not None:
        raise frame.context.fail(
            "B2005", f"alias `{item.alias or relation.name}` is given twice", item, "give one another alias"
        )
    join_as_of(frame, item, relation, kind, on)
    _rename(frame, item)
    return []


def named_late(item: exp.Expr) -> exp.Expr:
    """`LATE(T)` in FROM is the name of a table: that of T's late rows."""
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Anonymous) or item.this.name.upper() != "LATE":
        return item
    parts = item.this.expressions
    if len(parts) != 1 or not isinstance(parts[0], exp.Column):
        return item
    named = item.copy()
    name = exp.to_identifier(f"LATE({parts[0].name})", quoted=True)
    name.meta.update(item.this.meta)
    named.set("this", name)
    return named


def _combine(frame: Frame, right: Node, sources: Sequence[Source], kind: JoinKind, on: exp.Expr | None) -> list[Expr]:
    frame.scope.sources += sources
    if frame.empty:
        frame.plan = right
        return _apply_on(frame, on, kind, joined=True)
    if on is None:
        frame.join(right, kind, None)
        return []
    left = frame.plan
    frame.plan = Join(left, right, JoinKind.INNER, None)
    resolver = Resolver(frame)
    condition = resolver.resolve(on)
    frame.inference().typed(condition)
    own = [c for c in conjuncts(condition) if not frame.is_outer(c)]
    outer = [c for c in conjuncts(condition) if frame.is_outer(c)]
    if resolver.pending:
        frame.plan = left
        return _join_with_subqueries(frame, right, kind, condition, resolver)
    if outer and kind is not JoinKind.INNER:
        raise frame.context.fail(
            "B3011", "an outer join cannot be linked to the query around", on, "move the condition to WHERE"
        )
    frame.plan = Join(left, right, kind, conjunction(own))
    return outer


def _join_with_subqueries(frame: Frame, right: Node, kind: JoinKind, condition: Expr, resolver: Resolver) -> list[Expr]:
    if kind is not JoinKind.INNER:
        raise frame.context.fail("B3022", "a subquery in the ON of an outer join is not supported", condition, "join it before")
    frame.join(right, JoinKind.INNER, None)
    frame.plan, condition = attach_all(frame.plan, condition, resolver.pending)
    frame.plan = Filter(frame.plan, condition)
    return []


def _apply_on(frame: Frame, on: exp.Expr | None, kind: JoinKind, *, joined: bool) -> list[Expr]:
    """An ON beside a path or an unnesting: a further condition of the join that was just made."""
    if on is None or (isinstance(on, exp.Boolean) and on.this):
        return []
    resolver = Resolver(frame)
    condition = resolver.resolve(on)
    frame.inference().typed(condition)
    top = frame.plan
    if kind is not JoinKind.INNER and joined and isinstance(top, Join) and not resolver.pending:
        frame.plan = replace(top, condition=conjunction([*conjuncts(top.condition), *conjuncts(condition)]))
        return []
    if kind is not JoinKind.INNER and joined:
        hint = "write ON TRUE, and the condition inside the subquery or in an outer query"
        raise frame.context.fail("B3022", "a condition on what an outer join unnests or aggregates is not supported", on, hint)
    frame.plan, condition = attach_all(frame.plan, condition, resolver.pending)
    outer = [c for c in conjuncts(condition) if frame.is_outer(c)]
    own = conjunction([c for c in conjuncts(condition) if not frame.is_outer(c)])
    if own is not None:
        frame.plan = Filter(frame.plan, own)
    return outer


def _semi_join(frame: Frame, join: exp.Join, kind: JoinKind) -> list[Expr]:
    right, sources = lower_item(frame, join.this)
    left = frame.plan
    count = len(frame.scope.sources)
    frame.scope.sources += sources
    frame.plan = Join(left, right, JoinKind.INNER, None)
    on = join.args.get("on")
    condition = Resolver(frame).resolve(on) if on is not None else None
    if condition is not None:
        frame.inference().typed(condition)
    del frame.scope.sources[count:]
    frame.plan = Join(left, right, kind, condition)
    return []


def _using_join(frame: Frame, join: exp.Join, kind: JoinKind, *, natural: bool) -> list[Expr]:
    """USING and NATURAL: one column for both sides, the left's (FULL: whichever is there)."""
    left_sources = list(frame.scope.sources)
    left_merged = dict(frame.scope.merged)
    right, sources = lower_item(frame, join.this)
    written = [i.name for i in join.args.get("using") or ()]
    names = written or [
        n for n in dict.fromkeys(n for s in left_sources for n in s.names) if any(s.find(n) is not None for s in sources)
    ]
    conditions, merged = [], {}
    for name in names:
        left = left_merged.get(name.casefold()) or _single(frame, left_sources, name, join)
        other = _single(frame, sources, name, join)
        conditions.append(exp.EQ(this=column(left.internal), expression=column(other.internal)))
        merged[name.casefold()] = (left, other)
    frame.scope.sources += sources
    frame.join(right, kind, conjunction(conditions))
    for folded, (left, other) in merged.items():
        frame.scope.merged[folded] = _merged(frame, kind, left, other)
    return []


def _merged(frame: Frame, kind: JoinKind, left: SourceColumn, right: SourceColumn) -> SourceColumn:
    if kind is JoinKind.RIGHT:
        return replace(right, name=left.name)
    if kind is not JoinKind.FULL:
        return left
    internal = frame.context.names.fresh("using") + "." + left.name
    value = exp.Coalesce(this=column(left.internal), expressions=[column(right.internal)])
    kept = tuple(Item(c.name, column(c.name), c.type, c.nullable, c.hidden, c.doc) for c in frame.plan.schema)
    frame.plan = Project(frame.plan, (*kept, frame.item(internal, value)))
    found = frame.plan.schema[internal]
    return SourceColumn(left.name, internal, Typed(found.type, found.nullable))


def _single(frame: Frame, sources: Sequence[Source], name: str, node: exp.Expr) -> SourceColumn:
    found = [c for s in sources if (c := s.find(name)) is not None]
    if len(found) == 1:
        return found[0]
    names = [n for s in sources for n in s.names]
    problem = "is not on both sides" if not found else "is there more than once"
    raise frame.context.fail("B2002", f"column `{name}` of USING {problem}", node, did_you_mean(name, names))


# -- items that need nothing of the frame's plan ----------------------------------------------------------------------


def lower_item(frame: Frame, item: exp.Expr) -> tuple[Node, list[Source]]:
    """A FROM item on its own: a plan and the names in it."""
    if isinstance(item, exp.Table):
        if isinstance(item.this, WindowCall):
            node, source = _window_call(frame, item)
        elif isinstance(item.this, (exp.Func, exp.Anonymous)):
            raise frame.context.fail("B3023", f"table function `{item.this.name or item.this.sql()}` is not known", item, None)
        else:
            _refuse_options(frame, item)
            node, source = _table(frame, item)
        return node, [_renamed(frame, source, item)]
    if isinstance(item, (exp.Subquery, exp.Paren)) and isinstance(item.this, (exp.Table, exp.Subquery)) and not item.alias:
        return _nested_joins(frame, item)
    if isinstance(item, exp.Values):
        return _values(frame, item)
    if isinstance(item, exp.Query):
        return _derived(frame, item)
    raise frame.context.fail("B3023", f"`{item.sql('spark')}` cannot stand in FROM", item)


def _nested_joins(frame: Frame, item: exp.Expr) -> tuple[Node, list[Source]]:
    inner = Frame(frame.context, frame.scope.outer)
    add_item(inner, item.this, JoinKind.INNER, None)
    for join in [*(item.this.args.get("joins") or ()), *(item.args.get("joins") or ())]:
        add_join(inner, join)
    frame.scope.merged.update(inner.scope.merged)
    return inner.plan, inner.scope.sources


def _derived(frame: Frame, item: exp.Query) -> tuple[Node, list[Source]]:
    query = (
        item.this
        if isinstance(item, exp.Subquery) and item.args.get("limit") is None and item.args.get("order") is None
        else item
    )
    _refuse_options(frame, item)
    if isinstance(query, exp.Table):
        raise frame.context.fail("B3023", "write the table without parentheses", item)
    node = frame.context.lower_query(query, frame.context, None)
    node, source = named_source(node, item.alias or "subquery", frame.context.names)
    return node, [_renamed(frame, source, item)]


def _values(frame: Frame, item: exp.Values) -> tuple[Node, list[Source]]:
    rows: list[tuple[Expr, ...]] = []
    empty = Frame(frame.context)
    lower = Resolver(empty)
    for row in item.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        rows.append(tuple(lower.resolve(p) for p in parts))
    if len({len(r) for r in rows}) != 1:
        raise frame.context.fail("B3024", "the rows of VALUES have different numbers of columns", item)
    alias = item.args.get("alias")
    names = (
        [c.name for c in alias.columns] if alias is not None and alias.columns else [f"col{n + 1}" for n in range(len(rows[0]))]
    )
    inference = empty.inference()
    columns = []
    for n, name in enumerate(names[: len(rows[0])]):
        typed = [inference.typed(r[n]) for r in rows]
        type_ = typed[0].type
        for other in typed[1:]:
            common = t.common_type(type_, other.type)
            if common is None:
                raise frame.context.fail("B3002", f"column `{name}` of VALUES has no common type", item, "CAST the values")
            type_ = common
        columns.append(Column(name, type_, any(x.nullable for x in typed)))
    node, source = named_source(Values(tuple(columns), tuple(rows)), item.alias or "values", frame.context.names)
    return node, [source]


def _table(frame: Frame, item: exp.Table) -> tuple[Node, Source]:
    path = path_of(item)
    context = frame.context
    if len(path) == 1:
        common = context.tables.get(path[0].name.casefold())
        if common is not None:
            return named_source(common, item.alias or path[0].name, context.names)
    relation = find_relation(frame, path)
    return named_source(scan(relation), item.alias or path[-1].name, context.names, relation)


def find_relation(frame: Frame, path: Sequence[exp.Identifier]) -> Relation:
    """The relation of a name or of a nested table's path."""
    from belvedere.errors import Span

    context = frame.context
    name = ".".join(p.name for p in path)
    first, last = path[0], path[-1]
    span = Span(context.file, first.meta.get("start", 0), last.meta.get("end", 0))
    found = context.definitions.find(name)
    if found is not None:
        return found
    if len(path) > 1 and path[0].name.casefold() not in context.definitions.broken:
        aliases = [s.alias for s in frame.scope.sources if s.addressable]
        hint = did_you_mean(first.name, aliases) if aliases else did_you_mean(name, context.definitions.names)
        raise context.fail("B2001", f"`{first.name}` is neither a table nor an alias of this query", first, hint)
    _ = span
    names = list(context.definitions.names) + list(context.tables)
    if first.name.casefold() in context.definitions.broken:
        raise BelvedereError(())
    raise context.fail("B2001", f"table `{name}` is not defined", first, did_you_mean(name, names))


def _path_start(frame: Frame, path: Sequence[exp.Identifier]) -> tuple[Source, Sequence[exp.Identifier]] | None:
    """The FROM item that a path begins at, here or in the query around, with the steps that follow; None for a plain table."""
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
            node, source = named_source(scan(relation), path[n - 1].name, frame.context.names, relation, addressable=False)
            _combine(frame, node, [source], JoinKind.INNER, None)
            return source, path[n:]
    return None


def _window_call(frame: Frame, item: exp.Table) -> tuple[Node, Source]:
    call: Any = item.this
    context = frame.context
    data = call.args["data"]
    alias = item.alias or call.args["function"]
    if isinstance(data, exp.Table):
        inner = Frame(context, frame.scope.outer)
        node, source = _table(inner, data)
    else:
        node, source = named_source(context.lower_query(data, context, None), alias, context.names)
    time = _column_of(frame, source, call.args["timecol"])
    if time.typed.type != TIMESTAMP:
        hint = "CAST the column to TIMESTAMP in a view first"
        raise context.fail(
            "B5001", f"`{time.name}` is {t.a_type(time.typed.type)}, not a TIMESTAMP", call.args["timecol"], hint
        )
    kind = TimeWindowKind(call.args["function"])
    lengths = {n: _length(frame, call, n) for n in ("dur", "hopsize", "offset", "gap") if call.args.get(n) is not None}
    names = ("window_start", "window_end") if call.args.get("flink") else ("wstart", "wend")
    prefix = context.names.fresh(alias)
    start, end = (f"{prefix}.{n}" for n in names)
    partition = tuple(_column_of(frame, source, k).internal for k in call.args.get("keys") or ())
    size = lengths["gap"] if kind is TimeWindowKind.SESSION else lengths["dur"]
    node = TimeWindow(
        node, kind, time.internal, size, lengths.get("hopsize", 0), lengths.get("offset", 0), partition, start, end
    )
    bounds = tuple(SourceColumn(n, i, Typed(TIMESTAMP, False)) for n, i in zip(names, (start, end), strict=True))
    return node, Source(alias, bounds + source.columns, None)


def _length(frame: Frame, call: Any, name: str) -> int:
    length = microseconds(call.args[name])
    if length is None or (length <= 0 and name != "offset"):
        raise frame.context.fail(
            "B5002", f"`{name}` must be a positive interval of fixed length", call.args[name], "write INTERVAL '10' MINUTES"
        )
    return length


def _column_of(frame: Frame, source: Source, written: exp.Expr) -> SourceColumn:
    found = source.find(written.name)
    if found is None:
        raise frame.context.fail(
            "B2002", f"column `{written.name}` is not defined", written, did_you_mean(written.name, source.names)
        )
    return found


# -- unnesting and LATERAL --------------------------------------------------------------------------------------------


def _is_generator(item: exp.Expr) -> bool:
    if isinstance(item, exp.Unnest):
        return True
    return isinstance(item, exp.Table) and generator_call(item.this) is not None


def generator_call(call: exp.Expr | None) -> tuple[str, exp.Expr, bool] | None:
    """(explode | posexplode | inline, its argument, outer) of a generator function's call."""
    if isinstance(call, exp.Unnest):
        return "explode", call.expressions[0], False
    if isinstance(call, exp.Anonymous) and call.name.lower() in ("inline_outer", "explode_outer", "posexplode_outer", "unnest"):
        name = call.name.lower()
        return ("explode" if name == "unnest" else name.removesuffix("_outer")), call.expressions[0], name.endswith("outer")
    kinds: tuple[tuple[type[exp.Expr], str], ...] = (
        (exp.Posexplode, "posexplode"),
        (exp.Explode, "explode"),
        (exp.Inline, "inline"),
    )
    for class_, name in kinds:
        if isinstance(call, class_):
            return name, call.this, type(call).__name__.endswith("Outer")
    return None


def add_lateral(frame: Frame, item: exp.Expr, kind: JoinKind) -> None:
    """LATERAL VIEW, `unnest(...)`, `explode(...)` in FROM, and LATERAL (SELECT ...)."""
    call = item.this if isinstance(item, (exp.Lateral, exp.Table)) else item
    if isinstance(item, exp.Lateral) and isinstance(call, exp.Query):
        _lateral_query(frame, item, call, kind)
        return
    found = generator_call(call)
    if found is None:
        raise frame.context.fail(
            "B3023", f"`{call.sql('spark')}` cannot stand in FROM", item, "explode, posexplode and inline can"
        )
    if frame.empty:
        frame.plan = Values((Column("one", pa.int32(), False, hidden=True),), ((exp.Literal.number(1),),))
    name, argument, outer = found
    alias = item.args.get("alias")
    written = [c.name for c in alias.columns] if alias is not None else []
    outer = outer or bool(item.args.get("outer")) or kind is JoinKind.LEFT
    table = alias.name if alias is not None and alias.this is not None else name
    ordinality = isinstance(call, exp.Unnest) and bool(call.args.get("offset"))
    expr = Resolver(frame).resolve(argument)
    source = unnest(frame, name, expr, table, written, outer=outer, ordinality=ordinality, node=item)
    frame.scope.sources.append(source)


def unnest(
    frame: Frame,
    function: str,
    expr: Expr,
    alias: str,
    written: Sequence[str],
    *,
    outer: bool,
    ordinality: bool = False,
    node: exp.Expr,
) -> Source:
    """Put an Unnest on the frame's plan; gives its columns as a FROM item."""
    type_ = frame.inference().type(expr)
    prefix = frame.context.names.fresh(alias)
    inline = function == "inline"
    if pa.types.is_map(type_) and not inline:
        shapes = [("key", type_.key_type), ("value", type_.item_type)]
    elif inline and t.is_array_of_struct(type_):
        shapes = [(f.name, f.type) for f in type_.value_type]
    elif t.is_array(type_) and not inline:
        shapes = [("col", type_.value_type)]
    else:
        raise frame.context.fail("B3002", f"{function} takes an array or a map, not {t.a_type(type_)}", node)
    columns = tuple(Column(f"{prefix}.{n}", x) for n, x in shapes)
    shown = function == "posexplode" or ordinality
    position = Column(f"{prefix}.pos", pa.int32(), outer, hidden=not shown)
    frame.plan = Unnest(frame.plan, expr, columns, position, inline, outer)
    names = [n for n, _ in shapes]
    if shown:
        names = [*names, "pos"] if ordinality else ["pos", *names]
    if written and len(written) != len(names):
        hint = "its columns are " + ", ".join(f"`{n}`" for n in names)
        raise frame.context.fail("B3025", f"`{alias}` has {len(names)} columns, {len(written)} names are given", node, hint)
    internals = {**{n: c for (n, _), c in zip(shapes, columns, strict=True)}, "pos": position}
    found = [
        SourceColumn(w, internals[n].name, Typed(internals[n].type, True)) for n, w in zip(names, written or names, strict=True)
    ]
    if not shown:
        found.append(SourceColumn("pos", position.name, Typed(position.type, outer), hidden=True))
    return Source(alias, tuple(found))


def _lateral_query(frame: Frame, item: exp.Lateral, query: exp.Expr, kind: JoinKind) -> None:
    """A subquery that sees the FROM items before it: joined by what links it."""
    from belvedere.lang.resolve import unwrap_query

    inner = frame.context.lower_select(unwrap_query(query), frame.context, frame.scope)
    if needs_domain(inner):
        if not set(inner.used) <= set(frame.plan.schema.names):
            hint = "select what it reads in the query that it stands in"
            raise frame.context.fail("B3026", "a LATERAL subquery reads columns of a query further out", item, hint)
        inner = over_domain(frame.plan, unwrap_query(query), frame.context, frame.scope, {n: column(n) for n in inner.used})
    pairs = [(exp.NullSafeEQ if nulls else exp.EQ)(this=column(n), expression=e) for e, n, nulls in inner.pairs]
    condition = conjunction([*pairs, *inner.residual])
    alias = item.alias or "lateral"
    internals = [i.name for i in inner.outputs]
    totals = inner.totals
    if totals is not None:  # one row, also where nothing links
        frame.join(totals.plan, JoinKind.LEFT, condition)
        if totals.having is not None and kind is JoinKind.INNER:
            frame.plan = Filter(frame.plan, totals.having.copy())
        kept = tuple(Item(c.name, column(c.name), c.type, c.nullable, c.hidden, c.doc) for c in frame.plan.schema)
        values = (frame.item(n, totals.where_it_is(v.copy())) for n, v in zip(internals, totals.values, strict=True))
        frame.plan = Project(frame.plan, (*kept, *values))
    else:
        frame.join(inner.plan, kind, condition)
    written = [c.name for c in item.args["alias"].columns] if item.args.get("alias") else []
    names = written or [i.name.rpartition(".")[2] for i in inner.outputs]
    if len(names) != len(internals):
        raise frame.context.fail("B3025", f"`{alias}` has {len(internals)} columns, {len(names)} names are given", item)
    types = [frame.plan.schema[i] for i in internals]
    columns = tuple(SourceColumn(n, c.name, Typed(c.type, c.nullable)) for n, c in zip(names, types, strict=True))
    frame.scope.sources.append(Source(alias, columns))


# -- small matters ----------------------------------------------------------------------------------------------------


def _refuse_options(frame: Frame, item: exp.Expr) -> None:
    for key, word in UNSUPPORTED.items():
        if item.args.get(key):
            hint = "write `JOIN T FOR SYSTEM_TIME AS OF e.ts t ON t.k = e.k`" if key == "version" else None
            raise frame.context.fail("B3027", f"{word} is not supported here", item, hint)


def _check_alias(frame: Frame, source: Source, node: exp.Expr) -> None:
    if source.addressable and frame.scope.source(source.alias) is not None:
        raise frame.context.fail("B2005", f"alias `{source.alias}` is given twice", node, "give one of them another alias")


def _rename(frame: Frame, item: exp.Expr) -> None:
    frame.scope.sources[-1] = _renamed(frame, frame.scope.sources[-1], item)


def _renamed(frame: Frame, source: Source, item: exp.Expr) -> Source:
    """`FROM t AS x (a, b)` gives the columns other names."""
    alias = item.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return source
    visible = [c for c in source.columns if not c.hidden]
    if len(names) != len(visible):
        raise frame.context.fail("B3025", f"`{source.alias}` has {len(visible)} columns, {len(names)} names are given", item)
    renamed = {c.internal: n for c, n in zip(visible, names, strict=True)}
    return replace(source, columns=tuple(replace(c, name=renamed.get(c.internal, c.name)) for c in source.columns))


LowerQuery = Callable[..., Node]

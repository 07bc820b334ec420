"""Statements -> definitions: views, DISTINCT ON, columns, local queries, relationships, subscriptions, templates, exports.

In: one statement at a time and the definitions so far. Out: the definitions, grown by it. Imports are in `lower_imports`, inputs in
`lower_inputs`; queries in `lower_query`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog import ChangeKind, Export, Parameter, QueryTemplate, Subscription, View
from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.lang import types as t
from belvedere.lang.aggregates import is_aggregate
from belvedere.lang.definitions import OWNER, TARGET, Definitions, Relation, RelationshipDefinition
from belvedere.lang.frame import Context, Frame, named_source, scan
from belvedere.lang.from_items import find_relation, lower_item
from belvedere.lang.grouping import contains_aggregate
from belvedere.lang.lower_inputs import PARENT, link_nested
from belvedere.lang.lower_query import lower_nested, lower_query, new_context
from belvedere.lang.names import did_you_mean
from belvedere.lang.parameters import default_of, infer_parameters
from belvedere.lang.path_aggregates import Steps, expand_path_aggregates, is_scalar
from belvedere.lang.relationships import relationship_column
from belvedere.lang.resolve import Resolver, unwrap_query
from belvedere.lang.scope import Source, column_parts
from belvedere.lang.select_items import make_order, output_name
from belvedere.lang.statements import (
    CreateSubscription,
    DefineColumn,
    DefineLocalQuery,
    DefineRelationship,
    DefineTemplate,
    DefineView,
    DistinctOn,
    ExportStatement,
    Path,
    path_of,
    span_of,
)
from belvedere.lang.subqueries import attach_all
from belvedere.lang.types import Typed
from belvedere.plan.expressions import column, columns_of, conjuncts
from belvedere.plan.keys import carry_keys, unused_name
from belvedere.plan.nodes import Expr, Item, JoinKind, Node, Order, Project, TopK
from belvedere.plan.prune import prune
from belvedere.schema import TIMESTAMP, UID, Column, Schema

OPERATION, EVENT_TIME, SEQUENCE, OLD = "_op", "_event_time", "_seq", "_old"


class StatementLowering:
    """Grows `definitions`; collects templates, exports and diagnostics."""

    def __init__(self, definitions: Definitions, file: str, text: str, diagnostics: list[Diagnostic]):
        self.definitions = definitions
        self.file = file
        self.text = text
        self.diagnostics = diagnostics
        self.templates: dict[str, QueryTemplate] = {}
        self.exports: list[Export] = []
        self.sinks: frozenset[str] | None = None

    def context(self, parameters: dict[str, Typed] | None = None) -> Context:
        return new_context(self.definitions, self.file, self.diagnostics, parameters)

    def written(self, span: Span) -> str:
        """The text of a place in the script."""
        return self.text[span.start : span.end]

    # -- views --------------------------------------------------------------------------------------------------------

    def define_view(self, statement: DefineView) -> None:
        """`V := query`."""
        context = self.context()
        plan = lower_query(statement.query, context)
        plan = self._unordered(plan, statement.query, context)
        self.add_view(statement.path.text, plan, statement.span, statement.doc, query=statement.query)

    def _unordered(self, plan: Node, query: exp.Query, context: Context) -> Node:
        """A view is a set: an ORDER BY without LIMIT says nothing about it."""
        if isinstance(plan, TopK) and plan.limit is None and not plan.offset:
            self._order_notice(query, context)
            return plan.input
        if isinstance(plan, Project) and isinstance(plan.input, TopK) and plan.input.limit is None and not plan.input.offset:
            self._order_notice(query, context)
            return replace(plan, input=plan.input.input)
        return plan

    @staticmethod
    def _order_notice(query: exp.Query, context: Context) -> None:
        order = unwrap_query(query).args.get("order") or query
        context.notice(
            "B3060", "a view has no order: ORDER BY without LIMIT is left out", order, "order it where it is read, or add LIMIT"
        )

    def add_view(
        self,
        name: str,
        plan: Node,
        span: Span,
        doc: str | None,
        *,
        query: exp.Expr | None = None,
        like: Relation | None = None,
        parent: tuple[Relation, tuple[tuple[str, str], ...]] | None = None,
    ) -> Relation:
        """A new version of a name. `like` is the version before, whose relationships it keeps."""
        plan = finish_plan(plan)
        self._refuse_unstorable(plan, span)
        id_ = self.definitions.new_id(name)
        of, pairs = parent if parent is not None else (None, ())
        relation = Relation(
            id_,
            like.name if like is not None else name,
            plan.schema,
            dict(like.relationships) if like is not None else {},
            of.name if of is not None else None,
            pairs,
            query,
            span,
        )
        sql = self.written(span)
        self.definitions.views[id_] = View(
            id_, relation.name, plan, plan.schema, span, doc, of.id if of is not None else None, pairs, sql
        )
        self.definitions.add(relation)
        return relation

    @staticmethod
    def _refuse_unstorable(plan: Node, span: Span) -> None:
        """Intervals and the type of NULL have no form in a store."""
        for c in plan.schema:
            if t.is_interval(c.type):
                hint = "give a number: `unix_micros(a) - unix_micros(b)`, or extract a field of it"
                raise fail("B3044", f"column `{c.name}` is an interval, which cannot be stored", span=span, hint=hint)
            if c.type == t.NULL:
                raise fail(
                    "B3044", f"column `{c.name}` is always NULL and has no type", span=span, hint="write CAST(NULL AS type)"
                )

    def define_distinct(self, statement: DistinctOn) -> None:
        """`V := DISTINCT T ON k ORDER BY c`: the first row per key."""
        context = self.context()
        relation = self.owner(statement.table.parts, statement.table.span)
        frame = Frame(context)
        frame.plan, source = named_source(scan(relation), relation.name, context.names, relation)
        frame.scope.sources.append(source)
        keys = [Resolver(frame).resolve(k) for k in statement.keys]
        orders = [make_order(o, Resolver(frame).resolve(o.this)) for o in statement.order]
        for order in orders:
            frame.inference().typed(order.expr)
        partition = []
        for key, written in zip(keys, statement.keys, strict=True):
            if not isinstance(key, exp.Column):
                raise context.fail(
                    "B4020", "DISTINCT ON takes columns", written, "add the expression as a column of the table first"
                )
            partition.append(key.name)
        top = TopK(frame.plan, (*orders, *_arrival(source, orders)), 1, partition=tuple(partition))
        plan = Project(top, tuple(_renamed_item(frame.plan.schema[c.internal], c.name) for c in source.columns))
        name = statement.path.text
        same = self.definitions.find(name)
        like = same if same is not None and same.name == relation.name else None
        self.add_view(name, plan, statement.span, statement.doc, like=like)

    # -- tables by path -----------------------------------------------------------------------------------------------

    def owner(self, parts: Sequence[object], span: Span) -> Relation:
        """The table that a statement names, by one name or the path of a nested table."""
        names = [p.text for p in parts]  # type: ignore[attr-defined]
        found = self.definitions.find(".".join(names))
        if found is not None:
            return found
        first = self.definitions.get(names[0], parts[0].span)  # type: ignore[attr-defined]
        relation = first
        for n, name in enumerate(names[1:], 1):
            step = self.definitions.relations[relation.id].relationship(name)
            if step is None:
                if f"{'.'.join(names[: n + 1])}".casefold() in self.definitions.broken:
                    raise BelvedereError(())
                known = [r.name for r in relation.relationships.values()]
                raise fail(
                    "B4001",
                    f"`{relation.name}` has no nested table `{name}`",
                    span=parts[n].span,  # type: ignore[attr-defined]
                    hint=did_you_mean(name, known),
                )
            target = self.definitions.latest(self.definitions.relations[step.target])
            if target.parent is None or target.parent.casefold() != relation.name.casefold():
                hint = f"define it on `{target.name}` itself"
                raise fail("B4004", f"`{name}` is a relationship to `{target.name}`, not a nested table", span=span, hint=hint)
            relation = target
        return relation

    # -- columns ------------------------------------------------------------------------------------------------------

    def define_column(self, statement: DefineColumn) -> None:
        """`T.c := expression`, also with aggregates over paths."""
        owner = self.owner(statement.path.owner, statement.path.span)
        expression = expand_path_aggregates(statement.expression, self._path_steps(owner))
        self.add_column(owner, statement.path, expression, statement.span, statement.doc)

    def _path_steps(self, owner: Relation) -> Steps:
        """Whether names lead from a table through relationships: how many of them do."""

        def steps(names: Sequence[str]) -> int:
            relation = owner
            for n, name in enumerate(names):
                step = self.definitions.relations[relation.id].relationship(name)
                if step is None:
                    return n
                relation = self.definitions.latest(self.definitions.relations[step.target])
            return len(names)

        return steps

    def add_column(self, owner: Relation, path: Path, expression: exp.Expr, span: Span, doc: str | None) -> None:
        """A new version of the owner with one more column, or another one of that name."""
        owner = self.definitions.relations[owner.id]
        owner = replace(owner, relationships=dict(owner.relationships))  # the version before keeps its own
        context = self.context()
        frame = Frame(context)
        frame.plan, source = named_source(scan(owner), OWNER, context.names, owner)
        frame.scope.sources.append(source)
        frame.scope.sources.append(replace(source, alias=owner.name.rpartition(".")[2], bare=False))
        if contains_aggregate(expression):
            raise self._pathless_aggregate(expression, owner, context)
        resolver = Resolver(frame)
        expr = resolver.resolve(expression)
        if not resolver.pending:
            frame.inference().typed(expr)
        frame.plan, expr = attach_all(frame.plan, expr, resolver.pending)
        self._refuse_windows(expr, expression, context)
        name = path.last.text
        if owner.relationship(name) is not None and owner.schema.find(name) is None:
            raise fail(
                "B4005", f"`{owner.name}` has a relationship `{name}` already", span=path.last.span, hint="choose another name"
            )
        new = frame.item(name, expr, doc=doc)
        plan = Project(frame.plan, tuple(self._with_column(frame, source, owner, new)))
        view = self.definitions.views.get(owner.id)
        parent = None
        if owner.parent is not None and view is not None:
            parent = (self.definitions.get(owner.parent), owner.parent_key)
        before = (
            view.doc
            if view is not None
            else self.definitions.inputs[owner.id].doc
            if owner.id in self.definitions.inputs
            else None
        )
        self.add_view(owner.name, plan, span, before, like=owner, parent=parent)

    @staticmethod
    def _pathless_aggregate(expression: exp.Expr, owner: Relation, context: Context) -> BelvedereError:
        call = next(n for n in expression.walk() if is_aggregate(n))
        written = next(iter(call.find_all(exp.Column)), None)
        names = [r.name for r in owner.relationships.values()]
        first = column_parts(written)[0].name if written is not None else ""
        hint = did_you_mean(first, names, shown=4) if first else None
        example = f"`count({names[0]})`" if names else f"define one first: `{owner.name}.r := JOIN ... ON ...`"
        message = "an aggregate in a column's expression is over a relationship of its table"
        return context.fail("B4021", message, call, hint or f"aggregate over a relationship: {example}")

    def _with_column(self, frame: Frame, source: Source, owner: Relation, new: Item) -> list[Item]:
        """All columns in their order, the new one in its place or after the last visible one. An overridden column that the key or a
        relationship still needs stays under a hidden name."""
        items: list[Item] = []
        replaced = owner.schema.find(new.name)
        for c, shown in zip(owner.schema, source.columns, strict=True):
            if replaced is not None and c.name == replaced.name:
                items.append(replace(new, name=c.name, doc=new.doc or c.doc))
                continue
            items.append(_renamed_item(frame.plan.schema[shown.internal], c.name))
        if replaced is None:
            at = max((n for n, i in enumerate(items) if not i.hidden), default=-1) + 1
            items.insert(at, new)
        elif replaced.name in self._needed(owner):
            taken = {i.name for i in items}
            hidden = unused_name(replaced.name, taken)
            internal = source.find(replaced.name)
            assert internal is not None
            items.append(Item(hidden, column(internal.internal), replaced.type, replaced.nullable, hidden=True))
            self._rename_in_relationships(owner, replaced.name, hidden)
        return items

    def _needed(self, owner: Relation) -> set[str]:
        """Columns that the key and the relationships of a table rest on."""
        current = self.definitions.relations[owner.id]
        names = set(owner.schema.key or ())
        for r in current.relationships.values():
            names |= {o for o, _ in r.pairs}
            names |= {c.name for e in r.residual for c in e.find_all(exp.Column) if c.table == OWNER}
        return names

    def _rename_in_relationships(self, owner: Relation, old: str, new: str) -> None:
        """Later versions find the old value under its hidden name."""
        current = self.definitions.relations[owner.id]

        def change(node: Expr) -> Expr:
            if isinstance(node, exp.Column) and node.table == OWNER and node.name == old:
                return relationship_column(OWNER, new)
            return node

        for folded, r in list(current.relationships.items()):
            pairs = tuple((new if o == old else o, x) for o, x in r.pairs)
            residual = tuple(e.copy().transform(change) for e in r.residual)
            owner.relationships[folded] = replace(r, pairs=pairs, residual=residual)
        for nested in [r for r in self.definitions if r.parent is not None and r.parent.casefold() == owner.name.casefold()]:
            self._rename_parent_key(nested, old, new)

    def _rename_parent_key(self, nested: Relation, old: str, new: str) -> None:
        pairs = tuple((own, new if p == old else p) for own, p in nested.parent_key)
        relationships = dict(nested.relationships)
        if PARENT in relationships:
            relationships[PARENT] = replace(relationships[PARENT], pairs=pairs)
        self.definitions.relations[nested.id] = replace(nested, parent_key=pairs, relationships=relationships)
        if nested.id in self.definitions.views:
            self.definitions.views[nested.id] = replace(self.definitions.views[nested.id], parent_key=pairs)

    @staticmethod
    def _refuse_windows(expr: Expr, written: exp.Expr, context: Context) -> None:
        if expr.find(exp.Window) is not None:
            raise context.fail(
                "B4022", "a window function cannot be a column of its own", written, "write a view that selects it"
            )

    # -- local queries ------------------------------------------------------------------------------------------------

    def define_local_query(self, statement: DefineLocalQuery) -> None:
        """`T.c := SELECT ...`: one aggregate without GROUP BY is a column, everything else a nested table."""
        owner = self.owner(statement.path.owner, statement.path.span)
        query = unwrap_query(statement.query)
        if not isinstance(query, exp.Select):
            raise fail(
                "B4023", "a local query is one SELECT", span=statement.span, hint="define the set operation as a view first"
            )
        if is_scalar(query):
            self.add_column(owner, statement.path, exp.Subquery(this=statement.query), statement.span, statement.doc)
            return
        self._define_nested(owner, statement, query)

    def _define_nested(self, owner: Relation, statement: DefineLocalQuery, query: exp.Select) -> None:
        context = self.context()
        domain, source = named_source(scan(owner), OWNER, context.names, owner)
        source = replace(source, bare=False)
        query = self._implied_group(query, context)
        implied = []
        for key in owner.schema.key or ():
            internal = source.find(key)
            assert internal is not None
            item = owner.schema[key]
            implied.append(
                Item(context.names.fresh(unused_name(key, set())), column(internal.internal), item.type, item.nullable)
            )
        inner = lower_nested(query, context, domain, source, implied)
        name = f"{owner.name}.{statement.path.last.text}"
        pairs = tuple((i.name, key) for i, key in zip(implied, owner.schema.key or (), strict=True))
        taken = {o.name for o in inner.outputs}
        clash = {own for own, _ in pairs} & taken
        if clash:
            raise fail(
                "B3043", f"column `{clash.pop()}` is taken by the parent's key", span=statement.span, hint="use another name"
            )
        nested = self.add_view(name, inner.plan, statement.span, statement.doc, query=query, parent=(owner, pairs))
        link_nested(self.definitions, owner, nested, statement.path.last.text)

    def _implied_group(self, query: exp.Select, context: Context) -> exp.Select:
        """Aggregates beside plain outputs and no GROUP BY: grouped by the plain outputs (and the parent's key)."""
        items = query.expressions
        aggregated = [i for i in items if contains_aggregate(i)]
        if query.args.get("group") is not None or not aggregated or len(aggregated) == len(items):
            return query
        plain = [i for i in items if not contains_aggregate(i)]
        names = ", ".join(output_name(i) for i in plain)
        context.notice("B4024", f"grouped by the parent's key and {names}", plain[0], f"write GROUP BY {names}")
        grouped = query.copy()
        grouped.set("group", exp.Group(expressions=[i.unalias().copy() for i in plain]))
        return grouped

    # -- relationships ------------------------------------------------------------------------------------------------

    def define_relationship(self, statement: DefineRelationship) -> None:
        """`T.r := JOIN X x ON ... ORDER BY ... LIMIT n`."""
        owner = self.owner(statement.path.owner, statement.path.span)
        owner = self.definitions.relations[owner.id]
        name = statement.path.last.text
        if owner.schema.find(name) is not None and not owner.schema[name].hidden:
            raise fail(
                "B4005",
                f"`{owner.name}` has a column `{name}` already",
                span=statement.path.last.span,
                hint="choose another name",
            )
        context = self.context()
        simple = len(statement.joins) == 1 and self._plain_target(statement.joins[0])
        if not simple:
            self._define_through(owner, statement, context)
            return
        join = statement.joins[0]
        frame = Frame(context)
        frame.plan, source = named_source(scan(owner), OWNER, context.names, owner)
        frame.scope.sources.append(replace(source, bare=False))
        target = find_relation(frame, path_of(join.this))
        right, targets = lower_item(frame, join.this)
        frame.scope.sources += targets
        frame.join(right, JoinKind.INNER, None)
        conditions = []
        for written in (join.args.get("on"), statement.where):
            for part in conjuncts(written):
                if part.find(exp.Query) is not None:
                    raise context.fail("B4011", "a subquery in a relationship is not supported", part, "put it into a view")
                resolved = Resolver(frame).resolve(part)
                frame.inference().typed(resolved)
                conditions.append(self._named(resolved, source, targets[0]))
        orders = self._relationship_order(statement, frame, source, targets[0])
        pairs, residual = _split(conditions)
        alias = join.this.alias
        definition = RelationshipDefinition(
            name, target.id, pairs, residual, orders, statement.limit, statement.span, statement.doc, alias
        )
        self.definitions.relate(owner, definition)

    @staticmethod
    def _plain_target(join: exp.Join) -> bool:
        plain = isinstance(join.this, exp.Table) and isinstance(join.this.this, exp.Identifier) and not join.args.get("using")
        return plain and path_of(join.this)[0].name != OWNER

    def _relationship_order(
        self, statement: DefineRelationship, frame: Frame, source: Source, target: Source
    ) -> tuple[Order, ...]:
        orders = []
        for written in statement.order:
            expr = Resolver(frame).resolve(written.this)
            frame.inference().typed(expr)
            orders.append(make_order(written, self._named(expr, source, target)))
        return tuple(orders)

    @staticmethod
    def _named(expr: Expr, source: Source, target: Source) -> Expr:
        """Internal columns as `_.name` and `target.name`."""
        names = {c.internal: (OWNER, c.name) for c in source.columns} | {c.internal: (TARGET, c.name) for c in target.columns}
        return expr.copy().transform(lambda n: relationship_column(*names[n.name]) if isinstance(n, exp.Column) else n)

    def _define_through(self, owner: Relation, statement: DefineRelationship, context: Context) -> None:
        """A join through other tables: its rows are kept as a nested table with the last table's columns."""
        last = statement.joins[-1]
        alias = last.this.alias_or_name if isinstance(last.this, exp.Table) else last.this.alias
        first = statement.joins[0]
        items: list[exp.Expr] = [exp.Column(this=exp.Star(), table=exp.to_identifier(alias))]
        query = exp.Select(expressions=items)
        query.set("from_", exp.From(this=first.this.copy()))
        query.set("joins", [j.copy() for j in statement.joins[1:]])
        conditions = [p for p in (first.args.get("on"), statement.where) if p is not None]
        if conditions:
            query.set("where", exp.Where(this=exp.and_(*conditions)))
        if statement.order:
            query.set("order", exp.Order(expressions=[o.copy() for o in statement.order]))
        if statement.limit is not None:
            query.set("limit", exp.Limit(expression=exp.Literal.number(statement.limit)))
        local = DefineLocalQuery(span=statement.span, doc=statement.doc, path=statement.path, query=query)
        self._define_nested(owner, local, query)
        current = self.definitions.relations[owner.id]
        relationship = current.relationship(statement.path.last.text)
        if relationship is not None and statement.limit is not None:
            self.definitions.relate(current, replace(relationship, limit=statement.limit))

    # -- subscriptions, exports, templates ----------------------------------------------------------------------------

    def define_subscription(self, statement: CreateSubscription) -> None:
        """`CREATE SUBSCRIPTION S ON ADD AS query`: the query is a view, its events a relation."""
        context = self.context()
        name = statement.path.text
        plan = self._unordered(lower_query(statement.query, context), statement.query, context)
        observed = self.add_view(f"{name}~query", plan, statement.span, None, query=statement.query)
        columns = [replace(c, hidden=c.hidden) for c in observed.schema]
        old = pa.struct([pa.field(c.name, c.type, c.nullable) for c in observed.schema.visible])
        columns += [
            Column(OPERATION, pa.string(), False),
            Column(EVENT_TIME, TIMESTAMP, False),
            Column(SEQUENCE, pa.int64(), False),
        ]
        if statement.on is ChangeKind.CHANGE:
            columns.append(Column(OLD, old, False))
        schema = Schema(tuple(columns), (SEQUENCE,))
        id_ = self.definitions.new_id(name)
        self.definitions.subscriptions[id_] = Subscription(
            id_, name, statement.on, observed.id, schema, statement.span, statement.doc
        )
        self.definitions.add(Relation(id_, name, schema, span=statement.span))

    def define_export(self, statement: ExportStatement) -> None:
        """`EXPORT V TO sink.Name`."""
        relation = self.owner(statement.relation.parts, statement.relation.span)
        if self.sinks is not None and statement.sink.text.casefold() not in {s.casefold() for s in self.sinks}:
            hint = did_you_mean(statement.sink.text, self.sinks) or f"add [sinks.{statement.sink.text}] to belvedere.toml"
            raise fail("B6110", f"sink `{statement.sink.text}` is not configured", span=statement.sink.span, hint=hint)
        self.exports.append(Export(relation.id, statement.sink.text, statement.target.text, {}, statement.span))

    def define_template(self, statement: DefineTemplate) -> None:
        """`Q(name TYPE) := query` or a top-level SELECT with `?` or `:name`."""
        parameters: dict[str, Typed] = {}
        defaults: dict[str, bool | int | float | str] = {}
        for written in statement.parameters:
            type_ = t.arrow_type(written.type)
            if type_ is None:
                raise fail("B3003", f"type {written.type.sql('spark')} is not supported", span=written.span)
            if written.default is not None:
                defaults[written.name.text] = default_of(written.default, type_, written.name.text, written.span)
            parameters[written.name.text] = Typed(type_, False)
        if not statement.parameters:
            parameters = infer_parameters(statement.query, self.context())
        plan = finish_plan(lower_query(statement.query, self.context(parameters)))
        name = statement.path.text if statement.path is not None else self._template_name()
        if name in self.templates:
            raise fail("B2008", f"query template `{name}` is defined twice", span=statement.span, hint="choose another name")
        listed = tuple(Parameter(n, p.type, p.nullable, defaults.get(n)) for n, p in parameters.items())
        self.templates[name] = QueryTemplate(
            name, listed, plan, plan.schema, statement.span, statement.doc, self.written(statement.span)
        )

    def _template_name(self) -> str:
        n = 1
        while f"query{n}" in self.templates or self.definitions.find(f"query{n}") is not None:
            n += 1
        return f"query{n}"


def finish_plan(plan: Node) -> Node:
    """A query's plan with its key, and without what nobody reads."""
    return prune(carry_keys(plan))


def _arrival(source: Source, orders: Sequence[Order]) -> tuple[Order, ...]:
    """Among equal order keys the later arrival counts as greater: it comes first where the order descends."""
    uid = source.find(UID)
    descending = bool(orders) and orders[-1].descending
    return (Order(column(uid.internal), descending=descending),) if uid is not None else ()


def _renamed_item(c: Column, name: str) -> Item:
    return Item(name, column(c.name), c.type, c.nullable, c.hidden, c.doc)


def _split(conditions: Sequence[Expr]) -> tuple[tuple[tuple[str, str], ...], tuple[Expr, ...]]:
    """The equalities between a column of the owner and one of the target, and the rest."""
    pairs, residual = [], []
    for condition in conditions:
        inner = condition.unnest()
        sides = (inner.this, inner.expression) if isinstance(inner, exp.EQ) else ()
        tables = {s.table: s.name for s in sides if isinstance(s, exp.Column)}
        if set(tables) == {OWNER, TARGET}:
            pairs.append((tables[OWNER], tables[TARGET]))
        else:
            residual.append(condition)
    return tuple(pairs), tuple(residual)


__all__ = ["Severity", "StatementLowering", "columns_of", "finish_plan", "span_of"]

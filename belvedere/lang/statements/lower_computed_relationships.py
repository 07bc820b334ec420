"""`T.r(a INT) := SELECT x, count(*) AS n FROM ... WHERE y = _.y AND z > :a GROUP BY x`: a relationship with parameters
that computes its rows.

In: the query with `_` for the owner's row. Out: a query template under the owner. The columns of `_` are parameters
whose values are in the owner's row, so one request answers the template for each row that it selects. Nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from belvedere.catalog.relationships import OWNER
from belvedere.catalog.templates import Parameter, QueryTemplate, RowParameter
from belvedere.errors import fail
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.endpoints.parameters import declared_parameters, typed_parameters
from belvedere.lang.endpoints.view_order import ordered_plan
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.names.scope import name_parts
from belvedere.lang.notices.uncomputable import refuse_unbound
from belvedere.lang.relationships.local_tables import inline_local_tables
from belvedere.lang.select.queries import lower_query
from belvedere.lang.statements.script_lowering import ScriptLowering, finish_plan, refuse_variants
from belvedere.syntax.query_tree import path_of, span_of
from belvedere.syntax.statement_tree import DefineLocalQuery, DottedName


def define_computed(script: ScriptLowering, statement: DefineLocalQuery) -> None:
    """Define a relationship with parameters that computes its rows."""
    owner = script.owner(statement.path.owner, statement.path.span)
    refuse_taken(script.definitions, owner, statement.path)
    if owner.relationship(statement.path.last.text) is not None:
        raise _taken(owner, statement.path, "relationship")
    values = _RowValues(owner, script.file)
    query = values.bound(inline_local_tables(statement.query))
    parameters = declared_parameters(statement.parameters)
    known = typed_parameters((*parameters, *(r.parameter for r in values.found.values())))
    context = replace(script.context(known), is_read=True)
    plan = finish_plan(ordered_plan(lower_query(query, context))[0])
    refuse_unbound(plan, statement.span)
    refuse_variants(plan, statement.span)
    shown = f"{owner.name}.{statement.path.last.text}"
    script.definitions.computed[shown.casefold()] = QueryTemplate(
        shown,
        parameters,
        plan,
        plan.schema,
        statement.span,
        statement.doc,
        script.written(statement.span),
        owner=owner.id,
        row=tuple(values.found.values()),
    )


def refuse_taken(definitions: Definitions, owner: NamedRelation, path: DottedName) -> None:
    """Raise B4005 if the owner has a column, or a relationship that computes rows, of this name."""
    name = path.last.text
    if owner.schema.find(name) is not None and not owner.schema[name].hidden:
        raise _taken(owner, path, "column")
    if definitions.computed_of(owner, name) is not None:
        raise _taken(owner, path, "relationship")


def _taken(owner: NamedRelation, path: DottedName, kind: str) -> Exception:
    message = f"`{owner.name}` has a {kind} `{path.last.text}` already"
    return fail("B4005", message, span=path.last.span, hint="choose another name")


@dataclass
class _RowValues:
    """The values of the owner's row in a query: parameters by column."""

    owner: NamedRelation
    file: str
    found: dict[str, RowParameter] = field(default_factory=dict)

    def bound(self, query: exp.Query) -> exp.Query:
        """Return a copy of a query in which parameters replace the columns of `_`, and subqueries over the row with the
        same key replace the paths from `_`."""
        copied = query.copy()
        for table in list(copied.find_all(exp.Table)):
            if _is_owner(path_of(table)[0]) and len(path_of(table)) > 1:
                table.replace(self._rows(table))
        for column in list(copied.find_all(exp.Column)):
            if column.find_ancestor(_Bound) is None and _is_owner(column.parts[0]):
                self._bind(column)
        for made in list(copied.find_all(_Bound)):
            made.replace(made.this)
        return copied

    def _bind(self, column: exp.Column) -> None:
        node: exp.Expr = column
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            node = node.parent
        names = name_parts(node)
        known = self.owner.schema.find(names[1].name) if len(names) == 2 else None
        if known is not None:
            node.replace(self._parameter(known.name))
        elif any(is_aggregate(n) for n in _above(node)) and len(names) > 2:
            path = ".".join(n.name for n in names[:-1])
            message = f"an aggregate over `{path}` cannot be computed in a relationship with parameters"
            hint = f"aggregate over rows of FROM: `SELECT sum(x.{names[-1].name}) FROM {path} x`"
            raise fail("B4041", message, span=span_of(node, self.file), hint=hint)
        else:
            node.replace(_Bound(this=exp.Subquery(this=self._of_row(node.copy()))))

    def _rows(self, table: exp.Table) -> exp.Expr:
        """Return the rows of a path from `_` as a subquery of FROM."""
        alias = table.alias_or_name
        path = table.copy()
        path.set("joins", None)
        path.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        star = exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))
        made = exp.Subquery(this=self._of_row(star, path), alias=exp.TableAlias(this=exp.to_identifier(alias)))
        made.set("joins", [j.copy() for j in table.args.get("joins") or ()] or None)
        made.meta.update(table.meta)
        return _Bound(this=made)

    def _of_row(self, selected: exp.Expr, path: exp.Table | None = None) -> exp.Select:
        """Return a query of the owner's row, found by its key."""
        parts = [exp.to_identifier(p, quoted=True) for p in self.owner.name.split(".")]
        own = exp.Table(this=parts[-1], alias=exp.TableAlias(this=exp.to_identifier(OWNER)))
        for argument, part in zip(("db", "catalog"), reversed(parts[:-1]), strict=False):
            own.set(argument, part)
        query = exp.Select(expressions=[selected]).from_(own, copy=False)
        if path is not None:
            query.set("joins", [exp.Join(this=path)])
        return query.where(*(self._same(k) for k in self.owner.schema.key or ()), copy=False)

    def _same(self, key: str) -> exp.Expr:
        kind = exp.NullSafeEQ if self.owner.schema[key].nullable else exp.EQ
        return kind(this=exp.column(key, OWNER, quoted=True), expression=self._parameter(key))

    def _parameter(self, column: str) -> exp.Placeholder:
        known = self.owner.schema[column]
        name = f"{OWNER}.{known.name}"
        self.found[known.name] = RowParameter(Parameter(name, known.type, known.nullable), known.name)
        return exp.Placeholder(this=name)


class _Bound(exp.Expression):
    """Marks a subquery over the owner's row, in which `_` is a FROM item."""


def _above(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions around a node, within its query."""
    above = node.parent
    while isinstance(above, exp.Expr) and not isinstance(above, exp.Query):
        yield above
        above = above.parent


def _is_owner(name: object) -> bool:
    return isinstance(name, exp.Identifier) and name.name == OWNER and not name.args.get("quoted")

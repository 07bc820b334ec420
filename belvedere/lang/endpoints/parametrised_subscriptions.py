"""`N(i INT) := SUBSCRIBE SELECT ... WHERE k = :i`: a subscription with arguments, which filter the events of each
subscriber.

In: the statement. Out: the equivalent statements: a subscription to all rows (without the conditions on parameters),
and a query template that filters its events. Nothing is resolved here; queries that cannot be split are rejected
(B4037).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from belvedere.catalog.subscriptions import ChangeKind
from belvedere.errors import BelvedereError, fail
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.types.leaf_types import parameter_name
from belvedere.plan.expressions import conjuncts
from belvedere.syntax.query_tree import WindowByBlock, span_of, unwrap_query
from belvedere.syntax.statement_tree import CreateSubscription, DefineTemplate, Part, TemplateParameter

SEQUENCE = "_seq"
AFTER = "after"
WHOLE = ("group", "having", "distinct", "limit", "offset", "fetch", "qualify", "with_", "emit", "laterals", "windows")
"""Clauses that prevent moving a condition on rows to the result."""
HINT = "define the rows as a view, and write `N(i INT) := SUBSCRIBE SELECT * FROM V WHERE column = :i`"


def split_parameters(statement: CreateSubscription) -> tuple[CreateSubscription, DefineTemplate]:
    """Return the subscription to all rows, and the template that filters its events. Raises B4037."""
    split = _Split(statement)
    query, conditions = split.query()
    events = replace(statement, parameters=(), query=query, hidden=tuple(split.hidden))
    name = statement.path.last
    found = exp.select(exp.Star()).from_(exp.Table(this=exp.to_identifier(name.text, quoted=True)))
    for condition in conditions:
        found = found.where(condition, copy=False)
    named = next((p for p in statement.parameters if p.name.text.casefold() == AFTER), None)
    if named is not None:
        message = f"`{AFTER}` is the name of the argument for the last event that a subscriber has"
        raise fail("B4037", message, span=named.span, hint="give the parameter another name")
    found = found.where(exp.GT(this=exp.column(SEQUENCE), expression=exp.Placeholder(this=AFTER)), copy=False)
    unused = next((p for p in statement.parameters if not any(_reads(c, p) for c in conditions)), None)
    if unused is not None:
        message = f"parameter `{unused.name.text}` of the subscription is not used"
        raise fail("B4037", message, span=unused.span, hint=f"compare it: `WHERE column = :{unused.name.text}`")
    found = found.order_by(exp.column(SEQUENCE), copy=False)
    template = DefineTemplate(
        span=statement.span,
        doc=statement.doc,
        path=statement.path,
        parameters=(*statement.parameters, _after(name)),
        query=found,
        events=True,
    )
    return events, template


def _reads(condition: exp.Expr, parameter: TemplateParameter) -> bool:
    found = (parameter_name(p) for p in condition.find_all(exp.Placeholder))
    return parameter.name.text.casefold() in {name.casefold() for name in found}


def _after(name: Part) -> TemplateParameter:
    """Return the parameter for the number of the last event that a returning subscriber has."""
    type_ = exp.DataType.build("BIGINT", dialect="spark")
    return TemplateParameter(name=Part(AFTER, name.span), type=type_, default=exp.Literal.number(0), span=name.span)


@dataclass
class _Split:
    """A query while its parameters are removed. `hidden` are the columns that are added only for the conditions."""

    statement: CreateSubscription
    hidden: list[str] = field(default_factory=list)

    def query(self) -> tuple[exp.Query, list[exp.Expr]]:
        """Return the query without the conditions on parameters, and these conditions over its columns."""
        query = unwrap_query(self.statement.query).copy()
        if not isinstance(query, exp.Select) or isinstance(query, WindowByBlock):
            raise self._refused(query)
        where = query.args.get("where")
        parts = list(conjuncts(where.this)) if where is not None else []
        chosen = [p for p in parts if p.find(exp.Placeholder) is not None]
        rest = [p for p in parts if p.find(exp.Placeholder) is None]
        query.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        for elsewhere in query.find_all(exp.Placeholder):
            raise self._refused(elsewhere)
        for name in WHOLE if chosen else ():
            if query.args.get(name):
                raise self._refused(chosen[0])
        if any(is_aggregate(n) or isinstance(n, exp.Window) for i in query.expressions for n in i.walk()) and chosen:
            raise self._refused(chosen[0])
        return query, [self._over_result(p, query) for p in chosen]

    def _over_result(self, condition: exp.Expr, query: exp.Select) -> exp.Expr:
        """Return a condition with the column names of the result."""
        inner = condition.find(exp.Query)
        if inner is not None:
            raise self._refused(inner)

        def named(node: exp.Expr) -> exp.Expr:
            return exp.column(self._output(node, query), quoted=True) if isinstance(node, exp.Column) else node

        return condition.transform(named)

    def _output(self, column: exp.Column, query: exp.Select) -> str:
        """Return the name of a column in the result; it is added if the query does not select it."""
        alone = not query.args.get("joins")
        for item in query.expressions:
            if isinstance(item, exp.Star) and alone and not any(item.args.values()):
                return column.name
            found = item.unalias()
            if isinstance(found, exp.Column) and (
                found == column or (alone and found.name.casefold() == column.name.casefold())
            ):
                return str(item.alias_or_name)
        if self.statement.on is ChangeKind.CHANGE:
            hint = f"select `{column.name}`: events only report changes of selected columns"
            raise self._refused(column, hint)
        name = f"_argument{len(self.hidden) + 1}"
        query.select(exp.alias_(column.copy(), name, quoted=True), copy=False)
        self.hidden.append(name)
        return name

    def _refused(self, node: exp.Expr, hint: str = HINT) -> BelvedereError:
        message = f"`{self.statement.path.text}` does not compare its parameters with columns in WHERE"
        return fail("B4037", message, span=span_of(node, self.statement.span.file), hint=hint)

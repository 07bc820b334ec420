"""State of a query while it is lowered: its plan so far and its names.

In: definitions and FROM items. Out: a plan that grows operator by operator, and types of expressions over it.
`lower_from`, `lower_select` and similar functions decide the order of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from belvedere.catalog.resolved_query import ResolvedPath, ResolvedQuery
from belvedere.errors import BelvedereError, Diagnostic, Severity, fail
from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.names.scope import REPEATED, SAME, FromItem, InternalAliases, Scope, SourceColumn
from belvedere.lang.types.infer import Inference
from belvedere.plan.monotone import interval_length
from belvedere.plan.operators.nodes import Filter, Item, Join, JoinKind, Node, Project, Scan
from belvedere.plan.operators.project import item_of
from belvedere.schema import has_map
from belvedere.syntax.query_tree import span_of


@dataclass
class StatementContext:
    """Shared context of all parts of one statement."""

    definitions: Definitions
    file: str
    diagnostics: list[Diagnostic]
    lower_select: Callable[..., Any]
    """Function that lowers a subquery; its module is on a higher floor than its callers."""
    lower_query: Callable[..., Any]
    names: InternalAliases = field(default_factory=InternalAliases)
    parameters: dict[str, Typed] = field(default_factory=dict)
    tables: Mapping[str, Node] = field(default_factory=dict)
    """Plans of the WITH clause's names, by folded name."""
    repeats: bool = False
    """Whether columns of the query may have equal names: in a subquery of FROM and in WITH, where they need not be
    referenced."""
    is_read: bool = False
    """Whether the query is computed at request time: its rows then have the order of the view that it reads."""
    paths: dict[int, ResolvedPath] = field(default_factory=dict)
    """Resolved names of tables and paths, by the position of their last part."""

    def resolved(self, parts: Sequence[exp.Identifier], path: ResolvedPath) -> None:
        """Record the meaning of a dotted name."""
        self.paths[parts[-1].meta.get("start", -1)] = path

    def query(self, tree: exp.Expr, *, column: str = "", owner: str | None = None) -> ResolvedQuery:
        """Return a definition's tree with the meanings of its names: of a view, of a `column`, or of a table under the
        `owner` (an id)."""
        return ResolvedQuery(tree, self.paths, column, owner)

    def fail(self, code: str, message: str, node: exp.Expr, hint: str | None = None) -> BelvedereError:
        """Return an error at a node of the script."""
        return fail(code, message, span=span_of(node, self.file), hint=hint)

    def notice(self, code: str, message: str, node: exp.Expr, hint: str | None = None) -> None:
        """Report a notice, once."""
        found = Diagnostic(code, message, Severity.NOTICE, span_of(node, self.file), hint=hint)
        if found not in self.diagnostics:
            self.diagnostics.append(found)

    def length(
        self, interval: exp.Expr, message: str, hint: str, least: int | None = 0, place: exp.Expr | None = None
    ) -> int:
        """Return the microseconds of an interval. Raises an error if it has no fixed length or is less than `least`."""
        found = interval_length(interval)
        if found is None or (least is not None and found < least):
            raise self.fail("B5002", message, place or interval, hint)
        return found


class Frame:
    """The plan of a query's FROM so far, with its scope."""

    def __init__(self, context: StatementContext, outer: Scope | None = None):
        self.context = context
        self.scope = Scope(context.file, outer=outer)
        self._plan: Node | None = None
        self._typed: tuple[Node, dict[str, Typed]] | None = None
        """Cache of the column types of the last requested plan: the plan and its types."""
        self.final = False
        """Whether FROM is complete, so expressions may join related rows to the plan."""
        self.open = False
        """Whether FROM depends on the outer row by more than conditions: it must be joined to that row."""
        self.navigated: dict[str, dict[str, str]] = {}
        """The related rows already joined, by folded path: the internal names of their columns, by folded name."""

    @property
    def plan(self) -> Node:
        if self._plan is None:
            raise ValueError("no FROM yet")
        return self._plan

    @plan.setter
    def plan(self, plan: Node) -> None:
        self._plan = plan

    @property
    def empty(self) -> bool:
        """Return whether there is no FROM item yet."""
        return self._plan is None

    def inference(self, plan: Node | None = None) -> Inference:
        """Return the types over the plan's columns and the outer columns."""
        columns: dict[str, Typed] = {}
        scope: Scope | None = self.scope.outer
        if scope is not None:
            columns.update({c.internal: c.typed for c in scope.columns()})
            columns.update({m.column.internal: m.column.typed for m in scope.merged})
        columns.update({c.internal: c.typed for c in self.scope.used.values()})
        at = plan or self._plan
        if at is not None:
            if self._typed is None or self._typed[0] is not at:
                self._typed = at, {c.name: Typed(c.type, c.nullable) for c in at.schema}
            columns.update(self._typed[1])
        return Inference(columns, file=self.context.file, parameters=self.context.parameters)

    def item(self, name: str, expr: exp.Expr, *, hidden: bool = False, doc: str | None = None) -> Item:
        """Return a typed item over the plan."""
        typed = self.inference().typed(expr)
        return Item(name, expr, typed.type, typed.nullable, hidden, doc)

    def check_order(self, expr: exp.Expr, written: exp.Expr, plan: Node | None = None) -> None:
        """Reject a sort key that has no type, or whose type has no order."""
        type_ = self.inference(plan).type(expr)
        if has_map(type_):
            hint = "order by one of its values, or by to_json(...)"
            raise self.context.fail("B3002", f"{t.a_type(type_)} has no order", written, hint)

    def fail(self, code: str, message: str, node: exp.Expr, hint: str | None = None) -> BelvedereError:
        """Return an error at a node of the script."""
        return self.context.fail(code, message, node, hint)

    def subquery(self, query: exp.Expr, domain: Node | None = None) -> Any:
        """Lower a query that sees the FROM items of this one; over `domain` if these are the rows that it sees."""
        return self.context.lower_select(query, self.context, self.scope, domain=domain)

    def check_condition(self, condition: exp.Expr, written: exp.Expr, clause: str) -> None:
        """Reject a condition of a clause that is not BOOLEAN, or that computes over other rows."""
        if condition.find(exp.Window) is not None:
            hint = "write QUALIFY, or compute it in a subquery of FROM"
            raise self.fail("B3038", f"a window function is not allowed in {clause}", written, hint)
        self.inference().condition(condition, written)

    def filter(self, condition: exp.Expr, written: exp.Expr, clause: str) -> None:
        """Filter the plan to the rows for which the condition is TRUE."""
        if clause == "HAVING" and self.inference().type(condition) == t.NULL:
            condition = t.cast(condition, t.BOOLEAN)  # as in Spark, only here
        self.check_condition(condition, written, clause)
        self.plan = Filter(self.plan, condition)

    def join(self, right: Node, kind: JoinKind, condition: exp.Expr | None) -> None:
        """Join a relation to the plan."""
        self.plan = Join(self.plan, right, kind, condition)

    def is_outer(self, expr: exp.Expr) -> bool:
        """Return whether an expression reads columns of the outer query."""
        own = set(self.plan.schema.names) if self._plan is not None else set()
        return any(c.name not in own and c.name in self.scope.used for c in expr.find_all(exp.Column))


def named_source(
    node: Node, alias: str, names: InternalAliases, relation: NamedRelation | None = None, *, addressable: bool = True
) -> tuple[Node, FromItem]:
    """Return a relation as a FROM item: its columns are named `alias.column` inside the plan."""
    prefix = names.fresh(alias)
    items = []
    columns = []
    for c in node.schema:
        internal = f"{prefix}.{c.name}"
        items.append(item_of(c, internal))
        shown, _, again = c.name.partition(REPEATED)
        sealed = relation is not None and c.name in relation.sealed
        columns.append(
            SourceColumn(shown, internal, Typed(c.type, c.nullable), c.hidden, c.doc, again.endswith(SAME), sealed)
        )
    return Project(node, tuple(items)), FromItem(alias, tuple(columns), relation, addressable)


def scan(relation: NamedRelation) -> Scan:
    """Return a scan of all rows of a relation."""
    return Scan(relation.id, relation.schema)

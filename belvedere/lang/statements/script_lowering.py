"""State of a script while it is lowered: its definitions so far, and functions that all kinds of statements share.

In: the definitions, the text, and the diagnostics so far. Out: new versions of names, with keys and ids. `lower_views`,
`lower_columns`, `lower_local_queries`, `lower_relationships` and `lower_outputs` define the meaning of statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from belvedere.catalog.resolved_query import ResolvedQuery
from belvedere.catalog.subscriptions import Export
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.views import View
from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.lang.endpoints.query_hints import ON_ERROR, PLACEMENTS, PROMISES, QUERY_BY, RESUME, idle_hint
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.notices.uncomputable import refuse_unbound
from belvedere.lang.relationships.nested_rows import by_content
from belvedere.lang.select.queries import new_context
from belvedere.lang.select.query_frame import StatementContext
from belvedere.lang.statements.lower_inputs import retention_of
from belvedere.plan.operators.nodes import Filter, Node, Order, Project
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.rewrites.keys import carry_keys
from belvedere.plan.rewrites.nested_joins import Definition, join_nested
from belvedere.plan.rewrites.prune_columns import prune
from belvedere.plan.rewrites.ties_by_arrival import in_arrival_order
from belvedere.syntax.statement_tree import (
    DefineTemplate,
    DottedName,
    Hint,
    HistoryClause,
    Part,
    Statement,
    defined_name,
)
from belvedere.syntax.wording import did_you_mean, refuse_engine_columns


@dataclass
class ScriptLowering:
    """Extends `definitions`; collects templates, exports and diagnostics."""

    file: str
    text: str
    sinks: frozenset[str] | None = None
    definitions: Definitions = field(default_factory=Definitions)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    templates: dict[str, QueryTemplate] = field(default_factory=dict)
    exports: list[Export] = field(default_factory=list)
    selected: list[DottedName] = field(default_factory=list)
    """Relationships that were written as queries."""
    no_query: set[str] = field(default_factory=set)
    """Folded names without an endpoint."""
    query_by: dict[tuple[str, str], Hint] = field(default_factory=dict)
    """Hints for the arguments of an endpoint, by the folded name of their relation and of the hint."""
    placed: dict[str, list[Hint]] = field(default_factory=dict)
    """Hints that set where a view is computed, by its folded name."""
    on_error: dict[str, Hint] = field(default_factory=dict)
    """Hints that set the action when a view fails, by its folded name."""
    resumed: dict[str, Hint] = field(default_factory=dict)
    """Hints with which a corrected view continues, by its folded name."""
    promised: dict[tuple[str, str], Hint] = field(default_factory=dict)
    """Hints for a rate or a latency, by the name of their relation and of the hint."""

    def copy(self) -> ScriptLowering:
        """Return an independent copy."""
        evolved = {name: copy(value) for name, value in vars(self).items() if isinstance(value, list | dict | set)}
        made = replace(self, definitions=self.definitions.copy())
        vars(made).update(evolved, placed={name: list(hints) for name, hints in self.placed.items()})
        return made

    def context(self, parameters: dict[str, Typed] | None = None) -> StatementContext:
        return new_context(self.definitions, self.file, self.diagnostics, parameters)

    def written(self, span: Span) -> str:
        """Return the text of a span of the script."""
        return self.text[span.start : span.end]

    def add_view(
        self,
        name: str,
        plan: Node,
        span: Span,
        doc: str | None,
        *,
        like: NamedRelation | None = None,
        parent: tuple[NamedRelation, tuple[tuple[str, str], ...]] | None = None,
        order: tuple[Order, ...] = (),
        overrides: str | None = None,
        query: ResolvedQuery | None = None,
    ) -> NamedRelation:
        """Define a new version of a name. `like` is the preceding version, whose relationships it keeps; it `overrides`
        a column of that."""
        plan = finish_plan(plan, self._nested)
        refuse_unbound(plan, span)
        self._refuse_unstorable(plan, span)
        id_ = self.definitions.new_id(name)
        of, pairs = (parent[0].id, parent[1]) if parent is not None else (None, ())
        shown, text = like.name if like is not None else name, self.written(span)
        view = View(id_, shown, plan, plan.schema, span, doc, of, pairs, text, order, query)
        if like is None:
            return self.definitions.define(view)
        relation = self.definitions.define(view, like.relationships, like.sealed, like.id, overrides)
        if like.id in self.definitions.histories:  # a table with one more column is the same table
            self.definitions.histories[id_] = self.definitions.histories.pop(like.id)
        return relation

    def by_content(self, plan: Node) -> Node:
        """Return a plan whose rows are identified by their values, if their positions in arrays can change."""
        return by_content(finish_plan(plan, self._nested), self.definitions)

    def _nested(self, id_: str) -> Node | None:
        """Return the plan of a view."""
        view = self.definitions.views.get(id_)
        return None if view is None else view.plan

    def keep_history(self, made: NamedRelation, clause: HistoryClause | None) -> None:
        """Apply `WITH HISTORY [KEEP d]` of a definition."""
        if clause is not None:
            self.definitions.histories[made.id] = retention_of(clause.keep, clause.span)

    @staticmethod
    def _refuse_unstorable(plan: Node, span: Span) -> None:
        """Reject calendar intervals and the type of NULL, which stores cannot hold, and reserved column names."""
        refuse_engine_columns((c.name for c in plan.schema.visible), span)
        refuse_variants(plan, span)
        refuse_months_in_windows(plan, span)
        for c in plan.schema:
            if interval := t.unstorable_interval(c.type):
                message = f"column `{c.name}` has {interval}, which cannot be stored"
                hint = (
                    "split it into columns: make_ym_interval(years, months), make_dt_interval(days, hours, minutes, "
                    "seconds)"
                )
                raise fail("B3044", message, span=span, hint=hint)
            if c.type == t.NULL:
                raise fail(
                    "B3044",
                    f"column `{c.name}` is always NULL and has no type",
                    span=span,
                    hint="write CAST(NULL AS type)",
                )

    def read_hints(self, statement: Statement) -> None:
        """Read `/*+ no_query */`, `/*+ query_by_all(a, b) */` and `/*+ at_read */` before a definition; report others
        as having no effect."""
        name = defined_name(statement)
        template = next(reversed(self.templates)) if isinstance(statement, DefineTemplate) else None
        for hint in statement.hints:
            word = hint.name.casefold()
            if word == "no_query" and name is not None:
                self.no_query.add(name.casefold())
            elif word in QUERY_BY and name is not None:
                self.query_by[name.casefold(), word] = hint
            elif word in PLACEMENTS and name is not None and not hint.arguments:
                self.placed.setdefault(name.casefold(), []).append(hint)
            elif word == ON_ERROR and name is not None:
                self.on_error[name.casefold()] = hint
            elif word == RESUME and name is not None and not hint.arguments:
                self.resumed[name.casefold()] = hint
            elif word in PROMISES and (name or template) is not None:
                self.promised[name or template or "", word] = hint
            else:
                self.diagnostics.append(idle_hint(hint, name, self.file))

    def notice_selected(self) -> None:
        """Report a notice (B4025) that names the queries that are relationships."""
        if not self.selected:
            return
        names = ", ".join(f"`{p.text}`" for p in self.selected)
        are = "is a relationship" if len(self.selected) == 1 else "are relationships"
        message = f"{names} {are}: they select unchanged rows of a table, so nothing is stored"
        hint = "name the columns instead of `*` to define a nested table with its own rows"
        self.diagnostics.append(Diagnostic("B4025", message, Severity.NOTICE, self.selected[0].span, hint=hint))

    # -- tables by path -----------------------------------------------------------------------------------------------

    def owner(self, parts: Sequence[Part], span: Span) -> NamedRelation:
        """Return the table that a statement names, by one name or the path of a nested table."""
        names = [p.text for p in parts]
        found = self.definitions.find(".".join(names))
        if found is not None:
            return found
        relation = self.definitions.get(names[0], parts[0].span)
        for n, name in enumerate(names[1:], 1):
            step = next(iter(self.definitions.steps(relation, [name])), None)
            if step is None:
                if ".".join(names[: n + 1]).casefold() in self.definitions.broken:
                    raise BelvedereError(())
                hint = did_you_mean(name, [r.name for r in relation.relationships.values()])
                raise fail("B4001", f"`{relation.name}` has no nested table `{name}`", span=parts[n].span, hint=hint)
            target = self.definitions.relations[step.target]
            if target.parent is None or target.parent.casefold() != relation.name.casefold():
                hint = f"define it on `{target.name}` itself"
                raise fail(
                    "B4004", f"`{name}` is a relationship to `{target.name}`, not a nested table", span=span, hint=hint
                )
            relation = target
        return relation


def refuse_months_in_windows(plan: Node, span: Span) -> None:
    """Raise B3044 if rows of WINDOW BY have year-month intervals, which its kernels do not support."""
    for node in plan.walk():
        found = next((c for c in node.schema if isinstance(node, PredicateWindow) and t.has_months(c.type)), None)
        if found is not None:
            message = "WINDOW BY does not take year-month intervals"
            raise fail(
                "B3044", message, span=span, hint="use a number of months: CAST(CAST(i AS INTERVAL MONTH) AS INT)"
            )


def refuse_variants(plan: Node, span: Span) -> None:
    """Raise B3044 if an operator would store or show VARIANT values."""
    for node in plan.walk():
        found = next((c for c in node.schema if t.has_variant(c.type)), None)
        if found is not None and (node is plan or not isinstance(node, Project | Filter)):
            name = found.name.rpartition(".")[2]
            message = f"`{name}` is a VARIANT, which cannot be a column"
            hint = "select a part, variant_get(v, '$.a', 'int'), or its text, to_json(v); store JSON in STRING columns"
            raise fail("B3044", message, span=span, hint=hint)


def finish_plan(plan: Node, definition: Definition = lambda _: None) -> Node:
    """Return a query's plan with its key, and without unused columns; nested tables are read from their
    parents' rows."""
    return prune(in_arrival_order(join_nested(carry_keys(plan), definition)))

"""Syntax tree of a script, statement by statement: the parser's result and the input of lowering.

In: nothing. Out: frozen dataclasses, one per form. Names are unresolved; nothing here is checked against a schema.

Expressions and queries are sqlglot trees: `belvedere.syntax.query_tree`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.catalog.inputs import InputKind, LatePolicy
from belvedere.catalog.subscriptions import ChangeKind
from belvedere.errors import Diagnostic, Severity, Span
from belvedere.syntax.query_tree import QueryTree


@dataclass(frozen=True, slots=True)
class Part:
    """One name as written, without its quotes."""

    text: str
    span: Span
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class DottedName:
    """Names joined by dots; at least one."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Return the names joined by dots."""
        return ".".join(part.text for part in self.parts)

    @property
    def span(self) -> Span:
        """Return the span from the first name to the last."""
        first, last = self.parts[0].span, self.parts[-1].span
        return Span(first.file, first.start, last.end)

    @property
    def last(self) -> Part:
        """Return the defined part: a view's name, or the column or relationship in a table."""
        return self.parts[-1]

    @property
    def owner(self) -> tuple[Part, ...]:
        """Return the path of the table under which the last name is defined; empty for a top-level name."""
        return self.parts[:-1]


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint of a `/*+ ... */` comment, its arguments in brackets, and its position in the text."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement: its position (without doc comment and `;`) and the text of its `/** */` comment."""

    span: Span
    doc: str | None = None
    hints: tuple[Hint, ...] = ()
    """Hints of the `/*+ ... */` comments before it."""


@dataclass(frozen=True, kw_only=True)
class WatermarkClause:
    """`WATERMARK FOR column [AS expression] [IDLE AFTER interval]`. Without an expression only explicit bounds
    count."""

    column: Part
    expression: exp.Expr | None = None
    idle_after: exp.Interval | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class InputClauses:
    """Clauses after an import or the columns of an input. None = absent.

    `keep` is the time for which rows are served. `idle_after` is outside WATERMARK clauses and applies to those without
    their own. `history` is the position of `WITH HISTORY`.
    """

    watermarks: tuple[WatermarkClause, ...] = ()
    late: LatePolicy | None = None
    keep: exp.Interval | None = None
    idle_after: exp.Interval | None = None
    history: Span | None = None


@dataclass(frozen=True, kw_only=True)
class ImportTable(Statement):
    """`IMPORT origin.Table [AS Name] ...`: a table of a source or a view of another script; only the project can decide
    which.

    Also `IMPORT folder.script AS Name`: all public views of a script as `Name.View`; `origin` may then have no parts.
    """

    origin: DottedName
    table: Part
    alias: Part | None = None
    clauses: InputClauses = field(default_factory=InputClauses)

    @property
    def name(self) -> Part:
        """Return the name that the script uses."""
        return self.alias or self.table


@dataclass(frozen=True, kw_only=True)
class ImportAll(Statement):
    """`IMPORT origin.* [AS Name]`: all tables of a source, or all public views of another script; with AS as
    `Name.Table`."""

    origin: DottedName
    alias: Part | None = None
    clauses: InputClauses = field(default_factory=InputClauses)


@dataclass(frozen=True, kw_only=True)
class MetadataClause:
    """`METADATA FROM 'name'` after a column or a parameter."""

    name: str
    span: Span


@dataclass(frozen=True, kw_only=True)
class ColumnDefinition:
    """`name TYPE [NOT NULL] [METADATA FROM 'name']` in CREATE STREAM or TABLE."""

    name: Part
    type: exp.DataType
    nullable: bool = True
    doc: str | None = None
    metadata: MetadataClause | None = None
    default: exp.Expr | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class CheckClause:
    """`[CONSTRAINT name] CHECK (condition)` beside or after a column."""

    name: str | None = None
    condition: exp.Expr
    span: Span


@dataclass(frozen=True, kw_only=True)
class ComputedColumn:
    """`name AS expression` in CREATE STREAM or TABLE."""

    name: Part
    expression: exp.Expr
    doc: str | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class OptionClause:
    """`'key' = 'value'` in `WITH (...)` of an input."""

    key: str
    value: str
    span: Span


@dataclass(frozen=True, kw_only=True)
class CreateInput(Statement):
    """`CREATE STREAM|TABLE name (columns, [PRIMARY KEY (...)], [WATERMARK FOR ...]) [clauses]`; `kind` is STREAM or
    TABLE.

    Also with `LIKE 'file'`, which adds columns, and `WITH ('connector' = ...)`.
    """

    kind: InputKind
    name: Part
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[Part, ...] = ()
    clauses: InputClauses = field(default_factory=InputClauses)
    computed: tuple[ComputedColumn, ...] = ()
    checks: tuple[CheckClause, ...] = ()
    like: Part | None = None
    """The file whose columns come before its own."""
    options: tuple[OptionClause, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistoryClause:
    """`WITH HISTORY [KEEP interval]` after a view: retention of former versions; None = no limit."""

    keep: exp.Interval | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class DefineView(Statement):
    """`CREATE [OR REPLACE] VIEW V AS query` or `V := query`. `path` has one part."""

    path: DottedName
    query: QueryTree
    history: HistoryClause | None = None


@dataclass(frozen=True, kw_only=True)
class DistinctOn(Statement):
    """`V := DISTINCT table [alias] ON key, ... ORDER BY ...`. `path` and `table` have more parts for a nested table."""

    path: DottedName
    table: DottedName
    alias: Part | None = None
    keys: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...] = ()
    history: HistoryClause | None = None


@dataclass(frozen=True, kw_only=True)
class DefineColumn(Statement):
    """`T.c := expression`; the owner has at least one part."""

    path: DottedName
    expression: exp.Expr


@dataclass(frozen=True, kw_only=True)
class DefineLocalQuery(Statement):
    """`T.c := SELECT ...`: a scalar column, a nested table or a relationship; lowering decides which. With parameters
    it is a relationship."""

    path: DottedName
    query: QueryTree
    parameters: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DefineRelationship(Statement):
    """`T.r[(a INT)] := JOIN X x ON ... [JOIN ...] [WHERE ...] [ORDER BY ...] [LIMIT n]`; the target is the last join's
    table."""

    path: DottedName
    joins: tuple[exp.Join, ...]
    where: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    most: str | None = None
    """Name of the parameter that gives the limit."""
    parameters: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateSubscription(Statement):
    """`CREATE SUBSCRIPTION S ON ADD|CHANGE|DELETE AS query`, `SUBSCRIBE`, `STREAM ON ADD AS`, also with parameters.
    `path` has one part."""

    path: DottedName
    on: ChangeKind
    query: QueryTree
    parameters: tuple[TemplateParameter, ...] = ()
    hidden: tuple[str, ...] = ()
    """Columns of the query that events contain only for conditions."""


@dataclass(frozen=True, kw_only=True)
class ExportStatement(Statement):
    """`EXPORT relation TO sink.target`."""

    relation: DottedName
    sink: Part
    target: Part


@dataclass(frozen=True, kw_only=True)
class TemplateParameter:
    """`name TYPE [= default]`, or `name TYPE METADATA FROM 'auth.claim'`."""

    name: Part
    type: exp.DataType
    default: exp.Expr | None = None
    metadata: MetadataClause | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class DefineTemplate(Statement):
    """`Q(name TYPE, ...) := query`, or a top-level SELECT (then `path` is None and its parameters are `?` or
    `:name`)."""

    path: DottedName | None
    parameters: tuple[TemplateParameter, ...]
    query: QueryTree
    events: bool = False  # whether it selects among the events of the subscription of its name


@dataclass(frozen=True)
class Script:
    """A parsed file. Statements that could not be parsed are missing, and the diagnostics report them. Stray hints
    precede no statement."""

    file: str
    text: str
    statements: tuple[Statement, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    unread: frozenset[str] = frozenset()
    """Folded paths defined by statements that could not be parsed. A missing name of this set needs no further
    diagnostic."""
    stray_hints: tuple[Hint, ...] = ()
    parsed: Mapping[tuple[int, int], tuple[Statement | None, tuple[Diagnostic, ...]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Parse results of each statement, by its position: reused for another text of the script with the same
    beginning."""

    @property
    def ok(self) -> bool:
        """Return whether no diagnostic is an error."""
        return not any(d.severity is Severity.ERROR for d in self.diagnostics)


def defined_name(statement: Statement) -> str | None:
    """Return the name of the table or view that a statement defines, or None."""
    if isinstance(statement, (DefineView, DistinctOn, DefineLocalQuery, CreateSubscription)):
        return statement.path.text
    return statement.name.text if isinstance(statement, (ImportTable, CreateInput)) else None

"""What a script says, statement by statement: the parser's result and the input of lowering.

In: nothing. Out: frozen dataclasses, one per form. Names are unresolved; nothing here is checked against a schema.

**Expressions and queries** are sqlglot trees (dialect `belvedere.lang.statements.dialect.Sqrl`). Every node's `meta["start"]` and
`meta["end"]` are character offsets of the script, half-open; `span_of(node, file)` makes a `Span` of them. `copy()` keeps them.
What the dialect has already made the same, whatever its spelling:

* `@`, `this` and `_` as the row of the enclosing table are the identifier `_` (unquoted `exp.Identifier`).
* `n UNIT`, `INTERVAL n UNITS`, `INTERVAL 'n' UNIT` are `exp.Interval(this=Literal.string(n), unit=Var(UNIT))`, UNIT singular,
  upper case (a QUARTER is three MONTHs).
* `second(t)` ... `year(t)` and `FLOOR(t TO HOUR)` are `exp.TimestampTrunc(this=t, unit=Var(HOUR))`;
  `now()` is `exp.CurrentTimestamp`.
* `EMIT ...` is `EmitClause`, at `query.args["emit"]` of the `exp.Query` (select or set operation) it belongs to: `emit_of(query)`.
* `SELECT STREAM` sets `select.args["stream"] = True`: `is_stream(query)`.
* `ORDER BY t WITHIN INTERVAL d` sets `order.args["within"]` (an `exp.Interval`) on the `exp.Order`.
* `Tumble(...)`, `Hop(...)`, `Cumulate(...)`, `Session(...)` in FROM are `exp.Table(this=WindowCall)`, the alias on the Table.
* A WHERE after GROUP BY is in `args["where"]` as usual, with `meta["after_group"]`; the notice is among the diagnostics.
* `JOIN s.readings r` without ON has no `on`; `CAST` is `exp.Cast`, only `TRY_CAST` is `exp.TryCast`.
* A path in FROM (`_.sensors.readings`, `s.readings r`) is an `exp.Table`: `path_of(table)` gives its parts in order.
* `?` is `exp.Placeholder()` with `meta["index"]` (from 0 per statement); `:name`, `@name` are `exp.Placeholder(this=name)`.
* SPL's window of a table is an `SplClause` (`belvedere.lang.spl.tree`) at `args["spl"]` of what stands in FROM; those with a label
  are a list at `args["spl"]` of the select.
* A query with `WINDOW BY` is not parsed here: it is a `WindowByBlock` that holds its text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sqlglot import exp

from belvedere.catalog import ChangeKind, InputKind, LatePolicy
from belvedere.errors import Diagnostic, Severity, Span


class EmitClause(exp.Expression):
    """`EMIT [STREAM] [AFTER DELAY d] [AND] [AFTER WATERMARK]`: `stream` and `watermark` are booleans, `delay` an interval."""

    arg_types: ClassVar[dict[str, bool]] = {"stream": False, "delay": False, "watermark": False}


class WindowCall(exp.Expression):
    """A windowing table function in FROM.

    `function` is `tumble`, `hop`, `cumulate` or `session`. `data` is an `exp.Table` or an `exp.Query`; `timecol` and the
    elements of `keys` (session) are `exp.Column`; `dur`, `hopsize`, `offset`, `gap` are expressions or absent (`cumulate`:
    `hopsize` is the step, `dur` the greatest size). `flink` is True for the order and names of Calcite and Flink: then the
    columns that it adds are `window_start` and `window_end`, not `wstart` and `wend`.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "function": True,
        "data": True,
        "timecol": True,
        "dur": False,
        "hopsize": False,
        "offset": False,
        "gap": False,
        "keys": False,
        "flink": False,
    }


class WindowByBlock(exp.Expression, exp.Query):
    """A query with WINDOW BY, as written: `text` (a string) and its place `start`, `end` in the script (also in `meta`).

    `emit` is the EMIT clause after it; the text is without it.
    """

    arg_types: ClassVar[dict[str, bool]] = {"text": True, "start": True, "end": True, "with_": False, "emit": False}

    @property
    def text_of(self) -> str:
        """The query's text, exactly as in the script."""
        return str(self.args["text"])


QueryTree = exp.Query
"""A select, a set operation, a parenthesised query or a `WindowByBlock`."""


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
        """The names joined by dots."""
        return ".".join(part.text for part in self.parts)

    @property
    def span(self) -> Span:
        """From the first name to the last."""
        first, last = self.parts[0].span, self.parts[-1].span
        return Span(first.file, first.start, last.end)

    @property
    def last(self) -> Part:
        """What is defined: a view's name, or the column or relationship in a table."""
        return self.parts[-1]

    @property
    def owner(self) -> tuple[Part, ...]:
        """The path of the table under which the last name is defined; empty for a top-level name."""
        return self.parts[:-1]


@dataclass(frozen=True, slots=True)
class Hint:
    """One word of a `/*+ ... */` comment, what stands in brackets behind it, and its place in the text."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement: its place (without doc comment and `;`) and the text of its `/** */` comment."""

    span: Span
    doc: str | None = None
    hints: tuple[Hint, ...] = ()
    """What `/*+ ... */` comments before it say."""


@dataclass(frozen=True, kw_only=True)
class WatermarkClause:
    """`WATERMARK FOR column [AS expression] [IDLE AFTER interval]`. Without expression only explicit bounds count."""

    column: Part
    expression: exp.Expr | None = None
    idle_after: exp.Interval | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class InputClauses:
    """What may follow an import or the columns of an input. None = not said.

    `keep` is how long the rows are served; `idle_after` stands after no WATERMARK clause and applies to those that do not say
    their own; `history` is where `WITH HISTORY` stands.
    """

    watermarks: tuple[WatermarkClause, ...] = ()
    late: LatePolicy | None = None
    keep: exp.Interval | None = None
    idle_after: exp.Interval | None = None
    history: Span | None = None


@dataclass(frozen=True, kw_only=True)
class ImportTable(Statement):
    """`IMPORT origin.Table [AS Name] ...`: a table of a source or a view of another script; only the project can tell. Also
    `IMPORT folder.script AS Name`: all public views of a script as `Name.View`; `origin` may have no parts then.
    """

    origin: DottedName
    table: Part
    alias: Part | None = None
    clauses: InputClauses = field(default_factory=InputClauses)

    @property
    def name(self) -> Part:
        """The name that the script uses."""
        return self.alias or self.table


@dataclass(frozen=True, kw_only=True)
class ImportAll(Statement):
    """`IMPORT origin.* [AS Name]`: all tables of a source, or all public views of another script; with a name as `Name.Table`."""

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
    span: Span


@dataclass(frozen=True, kw_only=True)
class ComputedColumn:
    """`name AS expression` in CREATE STREAM or TABLE."""

    name: Part
    expression: exp.Expr
    doc: str | None = None
    span: Span


@dataclass(frozen=True, kw_only=True)
class CreateInput(Statement):
    """`CREATE STREAM|TABLE name (columns, [PRIMARY KEY (...)], [WATERMARK FOR ...]) [clauses]`; `kind` is STREAM or TABLE."""

    kind: InputKind
    name: Part
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[Part, ...] = ()
    clauses: InputClauses = field(default_factory=InputClauses)
    computed: tuple[ComputedColumn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistoryClause:
    """`WITH HISTORY [KEEP interval]` after a view: how long versions that are over stay; None = always."""

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
    """`T.c := SELECT ...`: a scalar column, a nested table or a relationship; lowering decides which. With parameters a relationship."""

    path: DottedName
    query: QueryTree
    parameters: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DefineRelationship(Statement):
    """`T.r[(a INT)] := JOIN X x ON ... [JOIN ...] [WHERE ...] [ORDER BY ...] [LIMIT n]`; the target is the last join's table."""

    path: DottedName
    joins: tuple[exp.Join, ...]
    where: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    most: str | None = None
    """The parameter that is the limit."""
    parameters: tuple[TemplateParameter, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CreateSubscription(Statement):
    """`CREATE SUBSCRIPTION S ON ADD|CHANGE|DELETE AS query`, `SUBSCRIBE`, `STREAM ON ADD AS`, also with parameters. `path` has one part."""

    path: DottedName
    on: ChangeKind
    query: QueryTree
    parameters: tuple[TemplateParameter, ...] = ()
    hidden: tuple[str, ...] = ()
    """Columns of the query that its events have for conditions alone."""


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
    """`Q(name TYPE, ...) := query`, or a top-level SELECT (then `path` is None and its parameters are `?` or `:name`)."""

    path: DottedName | None
    parameters: tuple[TemplateParameter, ...]
    query: QueryTree
    events: bool = False  # whether it chooses among the events of the subscription of its name


@dataclass(frozen=True)
class Script:
    """A parsed file. Statements that could not be parsed are absent and explained by the diagnostics; stray hints stand before none."""

    file: str
    text: str
    statements: tuple[Statement, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    unread: frozenset[str] = frozenset()
    """Paths (folded) that statements define which could not be read: who finds such a name missing need not say so again."""
    stray_hints: tuple[Hint, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no diagnostic is an error."""
        return not any(d.severity is Severity.ERROR for d in self.diagnostics)


def place_of(node: exp.Expr) -> tuple[int, int]:
    """Where a node stands: its own place, or that of the nearest node around it that has one."""
    place: exp.Expr | None = node
    while place is not None and "start" not in place.meta:
        place = place.parent
    return (place.meta["start"], place.meta["end"]) if place is not None else (0, 0)


def span_of(node: exp.Expr, file: str) -> Span:
    """The same as a place in its script; the empty span at 0 for a node that a rewrite made up."""
    return Span(file, *place_of(node))


def emit_of(query: exp.Expr) -> EmitClause | None:
    """The EMIT clause that belongs to this very query."""
    found = query.args.get("emit")
    return found if isinstance(found, EmitClause) else None


def is_stream(query: exp.Expr) -> bool:
    """Whether a select says SELECT STREAM."""
    return bool(query.args.get("stream"))


def is_modified(query: exp.Expr) -> bool:
    """Whether clauses stand after, or before, the parentheses around a query."""
    return isinstance(query, exp.Subquery) and any(query.args.get(k) for k in ("with_", "order", "limit", "offset", "emit"))


def unwrap_query(query: exp.Expr) -> exp.Query:
    """The query inside parentheses."""
    while isinstance(query, (exp.Subquery, exp.Paren)) and isinstance(query.this, (exp.Query, exp.Paren, exp.Values)):
        if is_modified(query):
            break
        query = query.this
    if isinstance(query, exp.Values):
        return exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
    assert isinstance(query, exp.Query)
    return query


def path_of(table: exp.Table) -> tuple[exp.Identifier, ...]:
    """The names of a table reference in the order in which they are written; empty for a function call."""
    return tuple(part for part in table.parts if isinstance(part, exp.Identifier))


def defined_name(statement: Statement) -> str | None:
    """The name of the table or view that a statement defines."""
    if isinstance(statement, (DefineView, DistinctOn, DefineLocalQuery, CreateSubscription)):
        return statement.path.text
    return statement.name.text if isinstance(statement, (ImportTable, CreateInput)) else None

"""What a script defines, resolved: inputs, views, relationships, templates, subscriptions, exports.

In: nothing below the plan. Out: immutable values that the compiler makes once and everybody else reads.

**Ids and names.** A script may define a name again: every definition has an `id` of its own; the last one of a name has
the name itself as its id, earlier ones `Name~1`, `Name~2` ... A plan's `Scan` names ids. Names are shown as they were
written; look-ups ignore case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Span
from belvedere.functions.project_functions import OwnFunction
from belvedere.plan.expressions import map_columns
from belvedere.plan.operators.nodes import Expr, Node, Order
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, Column, Schema


class InputKind(StrEnum):
    IMPORT = "import"
    STREAM = "stream"
    TABLE = "table"


class LatePolicy(StrEnum):
    REJECT = "reject"
    DROP = "drop"
    KEEP = "keep"


@dataclass(frozen=True)
class Watermark:
    """An event-time column of an input. `delay` in microseconds behind its rows; None = only explicit bounds count."""

    column: str
    delay: int | None = None
    idle_after: int | None = None


class MetadataKind(StrEnum):
    TIMESTAMP = "timestamp"
    UUID = "uuid"
    CLAIM = "auth"


@dataclass(frozen=True)
class Metadata:
    """Where a value comes from that no client gives: the clock at arrival, an identity made at arrival, or a claim of the caller's token.

    `claim` is the claim's path in the token: `auth.realm.user` is `("realm", "user")`.
    """

    kind: MetadataKind
    claim: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """What the value is, for people."""
        if self.kind is MetadataKind.CLAIM:
            return f"the claim `{'.'.join(self.claim)}` of the caller's token"
        return "the time of arrival" if self.kind is MetadataKind.TIMESTAMP else "an identity that is made at arrival"


@dataclass(frozen=True)
class SourceTable:
    """Where an import reads from: a source of the project file and the table's name in it, with its options."""

    source: str
    table: str
    connector: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    """The columns where rows told them: they hold for as long as the store does."""


ARRIVAL_COLUMNS = (
    Column(UID, pa.int64(), nullable=False, hidden=True),
    Column(INGEST_TIME, TIMESTAMP, nullable=False, hidden=True),
)


@dataclass(frozen=True)
class Check:
    """A condition that each row of an input fulfils, or leaves open; by its name, or its text where it has none."""

    name: str
    text: str
    condition: exp.Expr
    span: Span | None = None


@dataclass(frozen=True)
class Input:
    """A table that rows arrive in. Its schema ends with the hidden `_uid` BIGINT and `_ingest_time` TIMESTAMP.

    `schema.key` is the declared primary key, else `("_uid",)`. Nested data stays in array and struct columns here;
    nested tables are views that unnest them.
    """

    id: str
    name: str
    kind: InputKind
    schema: Schema
    primary_key: tuple[str, ...] = ()
    source: SourceTable | None = None
    watermarks: tuple[Watermark, ...] = ()
    late: LatePolicy = LatePolicy.KEEP
    keep: int | None = None
    span: Span | None = None
    doc: str | None = None
    late_of: str | None = None
    """The id of the input whose late rows these are."""
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    """The columns that the intake fills in, by name."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What a row has in a column that it does not bring, by name; as rows bring it."""
    checks: tuple[Check, ...] = ()

    @property
    def append_only(self) -> bool:
        """Whether rows only ever arrive: neither updates nor deletes."""
        return not self.primary_key and self.kind is not InputKind.TABLE


def late_input(table: Input) -> Input:
    """`LATE(T)`: the rows of an input that came below its bound and were not used, each with the reason and the bound."""
    columns = [replace(c, hidden=False, nullable=True) for c in table.schema if c.name not in (UID, INGEST_TIME)]
    taken = {c.name.casefold() for c in columns}
    for name, type_ in ((LATE_REASON, pa.string()), (LATE_BOUND, TIMESTAMP)):
        columns.append(Column(name if name not in taken else f"late_{name}", type_))
    schema = Schema((*columns, *ARRIVAL_COLUMNS), (UID,))
    return Input(f"LATE({table.id})", f"LATE({table.name})", InputKind.STREAM, schema, span=table.span, late_of=table.id)


LATE_REASON, LATE_BOUND = "reason", "bound"


@dataclass(frozen=True)
class View:
    """A maintained query. `plan` carries its key (`belvedere.plan.rewrites.keys.carry_keys`); `schema` is the plan's.

    `parent` is the id of the table under which it is nested (then `parent_key` pairs its columns with the parent's).
    `sql` is the definition as written, for people.
    """

    id: str
    name: str
    plan: Node
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    parent: str | None = None
    parent_key: tuple[tuple[str, str], ...] = ()
    sql: str = ""
    order: tuple[Order, ...] = ()
    """The order of its rows where a reader says no other: by its columns, hidden ones too."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query template or relationship; `:name` in the query is `exp.Placeholder(this=name)`."""

    name: str
    type: pa.DataType
    nullable: bool = False
    default: bool | int | float | str | None = None
    """What holds where the caller gives nothing, in the form in which a client would write it; None: it must be given."""
    metadata: Metadata | None = None
    """The claim of the caller's token that it is; then no client gives it."""


OWNER, TARGET = "_", "target"


def relationship_column(side: str, name: str) -> exp.Column:
    """`_.name` or `target.name`, as relationships have them."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(side))


@dataclass(frozen=True)
class Relationship:
    """A named join from the rows of `owner` to rows of `target` (both ids).

    `condition` refers to columns as `_.name` (the owner's row) and `target.name`: `exp.Column` with these table parts.
    `pairs` are its equalities (owner column, target column); `residual` is what is left of it, or None.
    """

    owner: str
    name: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    residual: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    span: Span | None = None
    doc: str | None = None
    alias: str = ""
    """The target's alias in the definition, for people."""
    kept: str | None = None
    """The id of the table that stores the related rows per row of the owner, where the API cannot find them when it reads."""
    kept_order: tuple[Order, ...] = ()
    """The order among columns of that table."""
    parameters: tuple[Parameter, ...] = ()
    """What a request says for the `exp.Placeholder`s of the condition and the order."""
    most: str = ""
    """The parameter that is the limit; `limit` is None then."""

    def leads_to_one(self, owner: Schema, target: Schema) -> bool:
        """Whether at most one row belongs to each row of the owner: by LIMIT 1, or since the join fixes the target's whole key."""
        return self.limit == 1 or fixes_key(self.pairs, owner, target)

    def columns_of(self, side: str) -> set[str]:
        """The columns of one side, OWNER or TARGET, that the condition beside `pairs` and the order read."""
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        return {c.name for e in exprs for c in e.find_all(exp.Column) if c.table == side}

    def reads_any(self, columns: Mapping[str, frozenset[str]]) -> bool:
        """Whether its condition or its order reads one of these columns, by the ids of relations."""
        own = {o for o, _ in self.pairs} | self.columns_of(OWNER)
        exprs = [*([] if self.residual is None else [self.residual]), *(o.expr for o in self.order)]
        theirs = {t for _, t in self.pairs} | {c.name for e in exprs for c in e.find_all(exp.Column) if c.table != OWNER}
        return not (own.isdisjoint(columns.get(self.owner, ())) and theirs.isdisjoint(columns.get(self.target, ())))

    def over(self, change: Callable[[exp.Column], Expr]) -> Relationship:
        """The same with other columns in its condition beside `pairs` and its order."""
        residual = None if self.residual is None else map_columns(self.residual, change)
        return replace(self, residual=residual, order=tuple(replace(o, expr=map_columns(o.expr, change)) for o in self.order))


def equal_as_they_are(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of two types are compared without a cast that loses something."""
    return one == other or bool(pa.types.is_integer(one) and pa.types.is_integer(other))


def fixes_key(pairs: Iterable[tuple[str, str]], owner: Schema, target: Schema) -> bool:
    """Whether columns that are equal in pairs (owner, target) name one row of the target. A cast between types may make keys equal."""
    fixed = {target[theirs].name for own, theirs in pairs if equal_as_they_are(owner[own].type, target[theirs].type)}
    return target.key is not None and fixed >= set(target.key)


@dataclass(frozen=True)
class QueryTemplate:
    """A registered query: `plan` holds `exp.Placeholder`s for its parameters. `name` is made up for a nameless SELECT."""

    name: str
    parameters: tuple[Parameter, ...]
    plan: Node
    schema: Schema
    span: Span | None = None
    doc: str | None = None
    sql: str = ""
    events: bool = False
    """Whether its rows are events of the subscription of its name."""


@dataclass(frozen=True)
class QueryArgument:
    """An argument of an endpoint that a column equals; `required`: it must be given."""

    column: str
    required: bool


class ChangeKind(StrEnum):
    ADD = "add"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True)
class Subscription:
    """Events about a query's result. `view` is the id of the view that holds the observed query.

    The events are a relation `id` with the observed columns and `_op`, `_event_time`, `_seq` (and `_old` for CHANGE).
    """

    id: str
    name: str
    on: ChangeKind
    view: str
    schema: Schema
    span: Span | None = None
    doc: str | None = None


@dataclass(frozen=True)
class Export:
    """A view's changes or a subscription's events on their way to `sink.target`."""

    relation: str
    sink: str
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None


class Placement(StrEnum):
    """Who computes a view: epochs, which store it, or requests, each for itself."""

    MAINTAIN = "maintain"
    AT_READ = "at_read"


class OnError(StrEnum):
    """What becomes of a view on whose rows an expression fails."""

    STOP = "stop"
    """The run ends, at the last good epoch."""
    NULL = "null"
    """The expression gives NULL."""
    QUARANTINE = "quarantine"
    """The view keeps the rows of its last good epoch, and others go on."""


@dataclass(frozen=True)
class Promise:
    """What is expected of the requests for a view or query template: how many a second, and the most seconds that one may take."""

    rate: float | None = None
    latency: float | None = None


class Right(StrEnum):
    """What a caller may do."""

    READ = "read"
    PUSH = "push"
    STATUS = "status"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)


@dataclass(frozen=True)
class RowCondition:
    """Which rows of a relation a role may see. `condition` is over its columns, which `schema` has; `parameters` are the claims of the
    caller's token in it.
    """

    condition: Expr
    schema: Schema
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True)
class Grant:
    """What callers of a role may do and see (`[roles.NAME]` of the project file); what is not in it they may not."""

    role: str
    rights: frozenset[Right] = frozenset((Right.READ,))
    relations: frozenset[str] = frozenset()
    """The ids of inputs, views and subscriptions that they may read."""
    templates: frozenset[str] = frozenset()
    pushes: frozenset[str] = frozenset()
    """The ids of inputs that they may push to."""
    hidden: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns of these relations that are not there for them, by id."""
    rows: Mapping[str, RowCondition] = field(default_factory=dict)
    """Of which relations they see only some rows."""


@dataclass(frozen=True)
class Catalog:
    """Everything a script defines. Mappings have the order of definition; their keys are ids (templates: names)."""

    inputs: Mapping[str, Input] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    relationships: tuple[Relationship, ...] = ()
    templates: Mapping[str, QueryTemplate] = field(default_factory=dict)
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    exports: tuple[Export, ...] = ()
    public: frozenset[str] = frozenset()
    """Ids that the API shows and the store therefore holds: the last definition of every public name."""
    unlisted: frozenset[str] = frozenset()
    """Of these, the ids without an endpoint of their own: served through the templates and relationships that read them."""
    histories: Mapping[str, int | None] = field(default_factory=dict)
    """Ids whose former versions are retained (WITH HISTORY), each with the microseconds for which they are; None = always."""
    query_by: Mapping[str, tuple[QueryArgument, ...]] = field(default_factory=dict)
    """The arguments that endpoints have beside `filter`, by id (`/*+ query_by_all(a) */`)."""
    placed: Mapping[str, Placement] = field(default_factory=dict)
    """What the script says of views, by id (`/*+ maintain */`, `/*+ at_read */`): no optimizer decides otherwise."""
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    """What becomes of views that fail, by id: the script says it (`/*+ on_error(quarantine) */`), or the project file; else they stop."""
    resumed: frozenset[str] = frozenset()
    """Views that go on, once corrected, from the rows of their former definition where they cannot be computed anew, by id
    (`/*+ resume */`)."""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    """What the script states (`/*+ rate(200), latency(20 ms) */`), by the id of a view or the name of a query template."""
    at_read: Mapping[str, Node] = field(default_factory=dict)
    """Public views that are not stored, each with its plan over relations that are: the store computes them when they are read."""
    placed_parts: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Of such views that are stored in part, where these parts stand in their plans."""
    parts: frozenset[str] = frozenset()
    """Private views that are stored as parts of such views: what the database does not compute of them."""
    scanning: frozenset[str] = frozenset()
    """Query templates that have no index of their own: the choice lets them scan."""
    functions: tuple[OwnFunction, ...] = ()
    """The functions of the project, which queries may call."""
    database: str | None = None
    """The kind of database of the store (`sqlite`, `postgres`): what it cannot compute is refused. None: not known, any may be meant."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    """What callers of a role may see, by the role's name."""
    seen_by: Grant | None = None
    """The role for which this is all that there is (`belvedere.api.reads.role_view`); None: for everybody."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What the API reads by name: public relations and query templates, in a fixed order."""
        return tuple(sorted({*self.public, *(t.name for t in self.templates.values())}))

    def schema_of(self, relation: str) -> Schema:
        """The schema of an input, view or subscription by its id."""
        found = self.inputs.get(relation) or self.views.get(relation) or self.subscriptions[relation]
        return found.schema

    def name_of(self, relation: str) -> str:
        """The name of an input, view or subscription as the script spells it."""
        found = self.inputs.get(relation) or self.views.get(relation) or self.subscriptions[relation]
        return found.name

    def late_of(self, table: str) -> Input | None:
        """The input that holds the late rows of an input."""
        return next((t for t in self.inputs.values() if t.late_of == table), None)

    def find(self, name: str) -> str | None:
        """The id of the last definition of a name, whatever its case."""
        ids = (*self.inputs, *self.views, *self.subscriptions)
        return next((i for i in ids if i == name), None) or next((i for i in ids if i.casefold() == name.casefold()), None)


IMPORTED = "~imported"
"""Ends the name of a relation of another script that no IMPORT names; it begins with an underscore more."""
EVENT_COLUMNS = frozenset(("_op", "_event_time", "_seq", "_old"))
"""The columns that an event has beside those of its row: served, though they begin with an underscore."""
_HIDDEN = re.compile(rf"_((?:\w|[().`])+){IMPORTED}")
_EARLIER = re.compile(r"(?<=\w)~(\d+)(\$\w+)?")


def shown_names(text: str) -> str:
    """A text for people in which earlier definitions of a name are called so: `Hot~1$state` is `Hot$state (definition 1)`.

    Relations of another script that no IMPORT names have the names that they have there.
    """
    text = _HIDDEN.sub(lambda found: found[1], text) if IMPORTED in text else text
    return _EARLIER.sub(lambda found: f"{found[2] or ''} (definition {found[1]})", text)


def pushed_inputs(catalog: Catalog) -> dict[str, Input]:
    """The inputs that clients push to, by id: those that no source feeds."""
    pushes = catalog.inputs.keys() if catalog.seen_by is None else catalog.seen_by.pushes
    return {i: t for i, t in catalog.inputs.items() if t.source is None and t.late_of is None and i in pushes}

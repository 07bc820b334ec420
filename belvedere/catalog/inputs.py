"""Input tables: their sources, conditions on rows, and limits for late rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import Span
from belvedere.project.settings import ProjectSettings, Source
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
    """Event-time column of an input. `delay` is the watermark delay in microseconds; None = only explicit
    bounds count."""

    column: str
    delay: int | None = None
    idle_after: int | None = None


class MetadataKind(StrEnum):
    TIMESTAMP = "timestamp"
    UUID = "uuid"
    CLAIM = "auth"


@dataclass(frozen=True)
class Metadata:
    """Origin of a column value that clients do not send: the clock at arrival, an id created at arrival, or a claim of
    the caller's token.

    `claim` is the claim's path in the token: `auth.realm.user` is `("realm", "user")`.
    """

    kind: MetadataKind
    claim: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """Return a description of the value for messages."""
        if self.kind is MetadataKind.CLAIM:
            return f"the claim `{'.'.join(self.claim)}` of the caller's token"
        return "the time of arrival" if self.kind is MetadataKind.TIMESTAMP else "an identity assigned on arrival"


@dataclass(frozen=True)
class SourceTable:
    """The table that an import reads: a source of the project file and the table's name in it, with options."""

    source: str
    table: str
    connector: str
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: pa.Schema | None = None
    """Columns inferred from rows; they are fixed for the life of the store."""
    declared: Source | None = None
    """Source declared in the script's WITH clause; None if the project file declares it."""

    def source_in(self, project: ProjectSettings) -> Source | None:
        """Return the source, from the script or else from the project file."""
        return self.declared or project.source(self.source)


ARRIVAL_COLUMNS = (
    Column(UID, pa.int64(), nullable=False, hidden=True),
    Column(INGEST_TIME, TIMESTAMP, nullable=False, hidden=True),
)


@dataclass(frozen=True)
class Check:
    """CHECK condition of an input's rows; it accepts true and NULL. `name` is its text if the script does not
    name it."""

    name: str
    text: str
    condition: exp.Expr
    span: Span | None = None


@dataclass(frozen=True)
class Input:
    """A table that receives rows. Its schema ends with the hidden `_uid` BIGINT and `_ingest_time` TIMESTAMP.

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
    """Id of the input whose late rows this input holds."""
    metadata: Mapping[str, Metadata] = field(default_factory=dict)
    """Columns that the ingest service fills in, by name."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values by column, in their input form."""
    checks: tuple[Check, ...] = ()

    @property
    def append_only(self) -> bool:
        """Return whether rows are only inserted, never updated or deleted."""
        return not self.primary_key and self.kind is not InputKind.TABLE


LATE_REASON, LATE_BOUND = "reason", "bound"


def late_input(table: Input) -> Input:
    """Return `LATE(T)`: the rows of an input that arrived below its bound and were not used, each with reason and
    bound."""
    columns = [replace(c, hidden=False, nullable=True) for c in table.schema if c.name not in (UID, INGEST_TIME)]
    taken = {c.name.casefold() for c in columns}
    for name, type_ in ((LATE_REASON, pa.string()), (LATE_BOUND, TIMESTAMP)):
        columns.append(Column(name if name not in taken else f"late_{name}", type_))
    schema = Schema((*columns, *ARRIVAL_COLUMNS), (UID,))
    return Input(
        f"LATE({table.id})", f"LATE({table.name})", InputKind.STREAM, schema, span=table.span, late_of=table.id
    )

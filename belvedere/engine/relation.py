"""Maintained relations, the access paths by which their rows are looked up, and the slots that read them.

In: nothing. Out: immutable descriptions that rules create and the engine runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.shown_names import shown_names
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import KEY, Schema


def name_in_script(relation: str) -> str:
    """Return a relation under its name in the script: `Hot` for an operator's own state (`Hot$1`) and for earlier
    definitions (`Hot~1`)."""
    return shown_names(relation.partition("$")[0]).partition("~")[0].partition(" (definition")[0]


@dataclass(frozen=True)
class Path:
    """An access path: rows are looked up by a hash of these expressions over the relation's own columns."""

    name: str
    exprs: tuple[Expr, ...]
    types: tuple[pa.DataType, ...]
    stored: bool = True
    """Whether the hash is a stored, indexed column. Otherwise changes carry it and the store does not."""


@dataclass(frozen=True)
class Relation:
    """A maintained relation. It is not stored if nothing needs its old rows (an append-only private stream)."""

    name: str
    schema: Schema
    stored: bool
    paths: tuple[Path, ...] = ()
    ranges: tuple[str, ...] = ()
    append_only: bool = False
    keep: int | None = None
    """Microseconds for which an input's rows are served. Such rows cannot be another operator's state."""
    final: tuple[str, ...] = ()
    """Event-time columns whose bound makes rows final. Final rows are deleted (an operator's own state only)."""
    view: str | None = None
    """Id of the input or view that this relation is; None for an operator's own state."""
    serves: str = ""
    """The only plan for which the state is valid, as text, if rows are deleted that another plan would need
    (WINDOWS)."""
    leaves: str = ""
    """Cause that removes its rows, in words, if that is neither a bound on its own columns nor its own stage."""
    internal: tuple[str, ...] = ()
    """Columns that only the engine uses.

    If only internal columns change, the row is updated and no change is emitted.
    """
    spans: tuple[tuple[str, str], ...] = ()
    """Access paths with a column by which part of a key's rows is looked up, in its order."""

    by_path: bool = False
    """Whether its rows are looked up and replaced only by access paths. They then have no `_key`."""

    @property
    def is_state(self) -> bool:
        """Return whether all its rows are stored and can be looked up."""
        return self.stored and self.keep is None

    @property
    def loses_rows(self) -> bool:
        """Return whether rows are deleted that still count.

        The stored rows are then enough for its readers key by key, but not complete.
        """
        return bool(self.final or self.serves)

    @property
    def stored_paths(self) -> tuple[str, ...]:
        """Return the names of the stored hash columns."""
        return tuple(p.name for p in self.paths if p.stored)

    def path(self, name: str) -> Path:
        """Return the access path of that name."""
        return next(p for p in self.paths if p.name == name)

    def has_in_key(self, path: str | None) -> bool:
        """Return whether all rows of a key have the same hash of an access path, since it is over columns of
        the key."""
        key = frozenset(self.schema.key or ())
        exprs = self.path(path).exprs if path in {p.name for p in self.paths} else None
        return exprs is not None and all(c.name in key for e in exprs for c in e.find_all(exp.Column))


@dataclass(frozen=True)
class Slot:
    """One input of a stage: `Scan(name)` in the stage's plan reads `relation`, looked up by `path` (None: whole)."""

    name: str
    relation: str
    path: str | None = None


def arranged_schema(relation: Relation) -> pa.Schema:
    """Return the Arrow schema of a relation's rows with `_key` and the stored hashes."""
    return _schema(relation, relation.stored_paths)


def delta_schema(relation: Relation) -> pa.Schema:
    """Return the Arrow schema of a relation's changes without `_weight`: with `_key` and all hashes."""
    return _schema(relation, tuple(p.name for p in relation.paths))


def _schema(relation: Relation, paths: tuple[str, ...]) -> pa.Schema:
    fields = [pa.field(c.name, c.type, c.nullable) for c in relation.schema.columns]
    hashes = [pa.field(p, pa.int64(), nullable=False) for p in paths]
    key = [] if relation.by_path else [pa.field(KEY, pa.string(), nullable=False)]
    return pa.schema([*fields, *key, *hashes])

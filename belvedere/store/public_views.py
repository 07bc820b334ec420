"""The views for other tools: one for each public relation, with only its declared columns, in readable forms.

In: stored tables, a dialect, the place of such views. Out: SQL statements that create and drop them. It runs no SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from belvedere.schema import TIMESTAMP, Schema
from belvedere.store.dialects.dialect import Dialect, literal
from belvedere.store.identifiers import identifier, quoted, stored_name
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import EPOCH

EPOCH_VIEW = "_epoch"
"""View with the epoch that all other views show. No public relation begins with `_`."""
EPOCH_DOC = "the last epoch, which all views show: its number, its clock, and when it was committed"


@dataclass(frozen=True)
class ShownView:
    """A public relation as a view for other tools: its name in the script, and the table that holds it."""

    name: str
    table: StoredTable
    doc: str | None = None


@dataclass(frozen=True)
class ViewSchema:
    """The place of these views in a database.

    `taken` are names there, in lower case, of objects that are not Belvedere's.
    """

    schema: str = ""
    """Schema of the views. Empty: beside the tables, under names that begin with `views_`."""
    first: tuple[str, ...] = ()
    """Statements before the first view is created."""
    reader: str = ""
    """Role that can read them; empty: none."""
    taken: frozenset[str] = field(default_factory=frozenset)
    has_comments: bool = False

    def name(self, view: str) -> str:
        """Return the name of a view there, without its schema."""
        return stored_name(view if self.schema else f"views_{view}")

    def target(self, view: str) -> str:
        """Return the name of a view there as SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name(view))}" if self.schema else quoted(self.name(view))

    def is_free(self, view: str) -> bool:
        """Return whether the name is not used by another object."""
        return self.name(view).lower() not in self.taken


@dataclass(frozen=True)
class ViewGrant:
    """A right on a view, or on one column of it; `role` is None for all roles."""

    role: str | None
    right: str
    column: str | None = None
    may_pass_on: bool = False


def granting(grants: Iterable[ViewGrant], columns: Collection[str], target: str) -> Iterator[str]:
    """Yield the statements that restore grants on a recreated table or view, for its stored `columns`."""
    for grant in grants:
        if grant.column is None or grant.column in columns:
            column = f" ({quoted(grant.column)})" if grant.column is not None else ""
            role = "PUBLIC" if grant.role is None else quoted(grant.role)
            more = " WITH GRANT OPTION" if grant.may_pass_on else ""
            yield f"GRANT {grant.right}{column} ON {target} TO {role}{more}"


def making(view: ShownView, place: ViewSchema, dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create a view, with its comments and the right to read it."""
    columns = view.table.schema.visible
    names = ", ".join(identifier(c.name) for c in columns)
    values = ", ".join(dialect.readable(identifier(c.name), c.type) for c in columns)
    docs = {identifier(c.name): c.doc for c in columns if c.doc}
    return _statements(view, f"({names}) AS SELECT {values} FROM {identifier(view.table.name)}", docs, place)


def making_epoch(place: ViewSchema, dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that create the view of the last epoch."""
    clock, committed = (dialect.readable(dialect.clock.format(n), TIMESTAMP) for n in ("clock", "committed_at"))
    last = f"SELECT epoch, {clock}, {committed} FROM {EPOCH} ORDER BY {EPOCH}.epoch DESC LIMIT 1"
    view = ShownView(EPOCH_VIEW, StoredTable(EPOCH, Schema(())), EPOCH_DOC)
    return _statements(view, f"(epoch, clock, committed_at) AS {last}", {}, place)


def dropping(name: str, place: ViewSchema) -> str:
    """Return the statement that drops a view."""
    return f"DROP VIEW IF EXISTS {place.target(name)}"


def _statements(view: ShownView, body: str, docs: dict[str, str], place: ViewSchema) -> tuple[str, ...]:
    target = place.target(view.name)
    if not place.has_comments:  # the text of a view is kept unchanged
        said = [view.doc, *(f"{c}: {d}" for c, d in docs.items())]
        comment = "".join(f"\n/* {s.replace('*/', '* /')} */" for s in said if s)
        return (f"CREATE VIEW {target} {body}{comment}",)
    found = [f"CREATE VIEW {target} {body}"]
    if view.doc:
        found.append(f"COMMENT ON VIEW {target} IS {literal(view.doc)}")
    found += [f"COMMENT ON COLUMN {target}.{column} IS {literal(doc)}" for column, doc in docs.items()]
    if place.reader:
        found.append(f"GRANT SELECT ON {target} TO {quoted(place.reader)}")
    return tuple(found)

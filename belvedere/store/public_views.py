"""The views that other tools read: one for each public relation, with its declared columns alone, in forms that people read.

In: stored tables, a dialect, the place where such views lie. Out: SQL statements that make and drop them. It runs no SQL.
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
"""The view that says which epoch all others show: no public relation begins with `_`."""
EPOCH_DOC = "the last epoch, which all views show: its number, its clock, and when it was committed"


@dataclass(frozen=True)
class ShownView:
    """A public relation as other tools read it: by its name in the script, from the table that holds it."""

    name: str
    table: StoredTable
    doc: str | None = None


@dataclass(frozen=True)
class ViewSchema:
    """Where a database has these views. `taken` are names of things there that are not Belvedere's, in small letters."""

    schema: str = ""
    """Empty: beside the tables, under names that begin with `views_`."""
    first: tuple[str, ...] = ()
    """Statements before the first view is created."""
    reader: str = ""
    """The role that may read them; empty: there is none."""
    taken: frozenset[str] = field(default_factory=frozenset)
    has_comments: bool = False

    def name(self, view: str) -> str:
        """The name of a view there, without its schema."""
        return stored_name(view if self.schema else f"views_{view}")

    def target(self, view: str) -> str:
        """The same as SQL names it."""
        return f"{quoted(self.schema)}.{quoted(self.name(view))}" if self.schema else quoted(self.name(view))

    def is_free(self, view: str) -> bool:
        """Whether nothing else has the name."""
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
    """The statements that make a view, with its comments and the right to read it."""
    columns = view.table.schema.visible
    names = ", ".join(identifier(c.name) for c in columns)
    values = ", ".join(dialect.readable(identifier(c.name), c.type) for c in columns)
    docs = {identifier(c.name): c.doc for c in columns if c.doc}
    return _statements(view, f"({names}) AS SELECT {values} FROM {identifier(view.table.name)}", docs, place)


def making_epoch(place: ViewSchema, dialect: Dialect) -> tuple[str, ...]:
    """The statements that make the view of the last epoch."""
    clock, committed = (dialect.readable(dialect.clock.format(n), TIMESTAMP) for n in ("clock", "committed_at"))
    last = f"SELECT epoch, {clock}, {committed} FROM {EPOCH} ORDER BY {EPOCH}.epoch DESC LIMIT 1"
    view = ShownView(EPOCH_VIEW, StoredTable(EPOCH, Schema(())), EPOCH_DOC)
    return _statements(view, f"(epoch, clock, committed_at) AS {last}", {}, place)


def dropping(name: str, place: ViewSchema) -> str:
    """The statement that takes a view out."""
    return f"DROP VIEW IF EXISTS {place.target(name)}"


def _statements(view: ShownView, body: str, docs: dict[str, str], place: ViewSchema) -> tuple[str, ...]:
    target = place.target(view.name)
    if not place.has_comments:  # the text of a view is kept as it is written
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

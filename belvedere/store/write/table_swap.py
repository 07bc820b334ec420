"""Tables that a script has changed, replaced in one epoch: new tables are filled beside the old ones, and take their
names in the commit.

In: the tables to create and to drop, in the session's open transaction. Out: nothing. Readers read the old tables until
the commit, and wait only for its last moments: only `finish` locks them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from belvedere.store.dialects.session import Session
from belvedere.store.identifiers import quoted, stored_name
from belvedere.store.layout import Layout
from belvedere.store.public_views import ShownView, granting
from belvedere.store.stored_table import StoredTable
from belvedere.store.write.tables import Tables
from belvedere.store.write.views import Views


class Replacement:
    """Tables that one epoch drops and creates."""

    def __init__(self, session: Session, tables: Tables, views: Views):
        self._session, self._tables, self._views = session, tables, views
        self._going: dict[str, Layout] = {}
        self._queries: dict[str, Layout] = {}
        """Views of the database, created over the tables under their final names."""
        self._fresh: dict[str, StoredTable] = {}
        self._statements: dict[str, None] = {}
        self._shown: Sequence[ShownView] | None = None

    def drop(self, layouts: Iterable[Layout]) -> None:
        """Mark tables to be dropped at the commit."""
        for layout in layouts:
            self._going.setdefault(layout.table.name, layout)
            self._tables.forget(layout)

    def create(self, layouts: Iterable[Layout]) -> None:
        """Create tables with their indexes, beside old ones with the same names."""
        for layout in layouts:
            name = layout.table.name
            if name not in self._tables.layouts:
                self._fresh[name] = layout.table
            if layout.table.query:
                self._queries[name] = layout
                self._tables.note(layout.table)
                continue
            if name in self._going:
                self._tables.aside.add(name)
            self._statements |= dict.fromkeys(self._tables.make(replace(layout, aside=name in self._tables.aside)))

    def show(self, views: Sequence[ShownView]) -> None:
        """Set the relations that other tools can read."""
        self._shown = views

    def finish(self) -> None:
        """Put all tables in their place just before the commit. It can be called again if an object is locked."""
        gone = list(self._going.values())
        if gone or self._fresh:
            self._views.hide([*(g.table for g in gone), *self._fresh.values()])
        granted = {n: self._session.grants_on(self._going[n].name) for n in self._tables.aside}
        for layout in gone:
            self._session.execute(layout.drop())
        for statement in self._statements:
            self._session.execute(statement)
        for name, grants in granted.items():
            layout = self._tables.layouts[name]
            columns = {stored_name(c.name) for c in layout.stored}
            for statement in (*_renaming(layout), *granting(grants, columns, replace(layout, aside=False).name)):
                self._session.execute(statement)
        for layout in self._queries.values():
            self._session.execute(layout.create())
        if self._shown is not None:
            self._views.show(self._shown)

    @property
    def is_needed(self) -> bool:
        """Return whether there is anything to replace."""
        return bool(self._going or self._queries or self._fresh or self._statements or self._shown is not None)


def _renaming(layout: Layout) -> Iterator[str]:
    """Yield the statements that rename a table beside another one, and its indexes."""
    final = replace(layout, aside=False)
    yield f"ALTER TABLE {layout.name} RENAME TO {final.name}"
    for before, after in zip(layout.indexes(), final.indexes(), strict=True):
        yield f"ALTER INDEX {quoted(before)} RENAME TO {quoted(after)}"

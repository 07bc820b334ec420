"""The stored tables of one store: created, indexed, dropped, and recorded in a table of the store's own.

In: `StoredTable`s, in the session's open transaction. Out: their layouts. It begins and ends no transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belvedere.errors import fail
from belvedere.store.definitions import same_definition, table_from_text, table_to_text
from belvedere.store.dialects.session import Session
from belvedere.store.identifiers import quoted, stored_name
from belvedere.store.layout import Layout
from belvedere.store.stored_table import StoredTable
from belvedere.store.system import TABLE


class Tables:
    """The tables as they are stored now, by name."""

    def __init__(self, session: Session):
        self._session = session
        self.layouts: Mapping[str, Layout] = {}
        self.aside: set[str] = set()
        """Tables that exist beside the ones they replace, until the open transaction is committed."""

    def load(self) -> None:
        """Reload the stored tables."""
        rows = self._session.execute(f"SELECT definition FROM {TABLE} ORDER BY place")
        tables = [table_from_text(str(r[0])) for r in rows]
        self.layouts = {t.name: Layout(self._session.dialect, t, t.name in self.aside) for t in tables}

    def layout(self, name: str) -> Layout:
        found = self.layouts.get(name)
        if found is None:
            raise fail("B7014", f'there is no stored table "{name}"', hint="create the table before an epoch writes it")
        return found

    def changed(self, tables: Sequence[StoredTable]) -> list[Layout]:
        """Return the tables that are not stored in this form.

        Raises B7009 if one is stored with another definition, B7017 for their names.
        """
        requested = [Layout(self._session.dialect, t) for t in tables]
        self._check_names(requested)
        for layout in requested:
            stored = self.layouts.get(layout.table.name)
            if stored and not same_definition(stored.table, layout.table):
                raise fail(
                    "B7009",
                    f'the stored table "{layout.table.name}" has a new definition',
                    hint="drop and rebuild it, or choose another --store",
                )
        return [w for w in requested if (found := self.layouts.get(w.table.name)) is None or found.table != w.table]

    def _check_names(self, requested: Sequence[Layout]) -> None:
        names: dict[str, str] = {stored_name(n).casefold(): n for n in self.layouts}
        for layout in requested:
            name = layout.table.name
            other = names.setdefault(stored_name(name).casefold(), name)
            if other != name:
                raise fail(
                    "B7017", f'the stored tables "{other}" and "{name}" differ only in case', hint="rename one of them"
                )
            seen: dict[str, str] = {}
            for field, column in zip(layout.stored, layout.columns, strict=True):
                if (other := seen.setdefault(column.casefold(), field.name)) != field.name:
                    raise fail("B7017", f'the columns "{other}" and "{field.name}" of "{name}" differ only in case')
            if len(seen) < len(layout.columns):
                hint = "rename one of the columns"
                raise fail("B7017", f'the stored table "{name}" has a column twice', hint=hint)

    def make(self, layout: Layout) -> list[str]:
        """Create the table if it is missing, and its indexes. Return the statements that drop other indexes."""
        stored = self.layouts.get(layout.table.name)
        if stored is None:
            self._session.execute(layout.create())
        before = set(stored.indexes()) if stored else set()
        indexes = layout.indexes()
        for name, statement in indexes.items():
            if name not in before:
                self._session.execute(statement)
        self.note(layout.table)
        return [f"DROP INDEX IF EXISTS {quoted(name)}" for name in before - set(indexes)]

    def note(self, table: StoredTable) -> None:
        """Record the table under its name."""
        place = (
            f"coalesce((SELECT place FROM {TABLE} WHERE name = ?), (SELECT coalesce(max(place), 0) + 1 FROM {TABLE}))"
        )
        name = stored_name(table.name)
        self._session.execute(
            f"INSERT INTO {TABLE} VALUES (?, ?, {place}) ON CONFLICT (name) DO UPDATE SET definition = "
            "excluded.definition",
            (name, table_to_text(table), name),
        )

    def drop(self, layout: Layout) -> None:
        """Drop the table with its indexes, or the view."""
        self._session.execute(layout.drop())
        self.forget(layout)

    def forget(self, layout: Layout) -> None:
        """Record that nothing is stored under the table's name."""
        self._session.execute(f"DELETE FROM {TABLE} WHERE name = ?", (stored_name(layout.table.name),))

    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Return rows and bytes of each table that holds rows."""
        names = {name: stored_name(name) for name, layout in self.layouts.items() if not layout.table.query}
        sizes = self._session.bytes_of(tuple(names.values()))
        counted = {
            n: self._session.execute(f"SELECT count(*) FROM {quoted(stored)}")[0][0] for n, stored in names.items()
        }
        return {name: (int(counted[name]), sizes[stored]) for name, stored in names.items()}

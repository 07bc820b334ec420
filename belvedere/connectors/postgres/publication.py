"""The publication of a source, and its tables.

In: a server, the tables. Out: its identity, the tables with their entries; or a diagnostic with the statement that the
owner of the tables runs. Rows and columns that a publication filters are never in the log; such filters are rejected,
because a first read does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from belvedere.connectors.postgres.server import Server
from belvedere.connectors.postgres.tables import Table, in_quotes
from belvedere.errors import BelvedereError, fail

_PUBLICATION = """SELECT oid::int8, xmin::text, pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot,
    puballtables
                  FROM pg_publication WHERE pubname = %s"""
_TABLES = """
SELECT p.tablename, coalesce(r.oid, s.oid, %s)::int8, r.prqual IS NOT NULL, r.prattrs IS NOT NULL,
    r.oid IS NULL AND s.oid IS NOT NULL
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relname = p.tablename AND c.relnamespace = n.oid
LEFT JOIN pg_publication_rel r ON r.prpubid = %s AND r.prrelid = c.oid
LEFT JOIN pg_publication_namespace s ON s.pnpubid = %s AND s.pnnspid = n.oid
WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = ANY(%s)
"""


def published(server: Server, tables: Mapping[str, Table]) -> tuple[tuple[int, str], dict[str, Table]]:
    """Return the publication's number and the writer of its row, and the tables with their entries.

    Raises B6222, B6223, B6224.
    """
    ((level,),) = server.ask("SELECT current_setting('wal_level')")
    if level != "logical":
        hint = "set `wal_level = logical` and restart the server"
        raise fail("B6224", f'the server of source "{server.source}" has wal_level = {level}', hint=hint)
    made = publication_statement(server, tables)
    found = server.ask(_PUBLICATION, server.publication)
    if not found:
        message = f'source "{server.source}" has no publication "{server.publication}"'
        raise fail("B6224", message, hint=f"the owner runs: {made}")
    oid, writer, is_whole, by_root, _ = found[0]
    if not is_whole:
        hint = f"the owner runs: {_altered(server)} SET (publish = 'insert, update, delete, truncate')"
        raise fail("B6224", f'the publication "{server.publication}" does not publish all kinds of changes', hint=hint)
    rows = server.ask(_TABLES, oid, oid, oid, server.publication, server.schema, list(tables))
    places = {name: tuple(place) for name, *place in rows}
    for table in tables.values():
        _check(server, table, places, by_root)
    return (oid, writer), {
        n: with_place(t, places[n][0], t.row_type if places[n][3] else "") for n, t in tables.items()
    }


def with_place(table: Table, published: int, moved: str) -> Table:
    """Return a table with its entry in a publication."""
    return replace(table, state=replace(table.state, published=published, moved=moved))


def _check(server: Server, table: Table, places: Mapping[str, tuple[Any, ...]], by_root: bool) -> None:
    """Raise an error if a table's entry in the publication is not usable."""
    name, quoted = table.name, table.quoted
    if table.is_secured:
        hint = "let the role bypass the policies: ALTER ROLE ... BYPASSRLS"
        raise fail(
            "B6222", f'policies of table "{name}" of source "{server.source}" hide rows from this role', hint=hint
        )
    if table.is_partitioned and not by_root:
        hint = f"the owner runs: {_altered(server)} SET (publish_via_partition_root = true)"
        message = (
            f'the publication "{server.publication}" publishes changes of table "{name}" under the names of '
            "its partitions"
        )
        raise fail("B6224", message, hint=hint)
    if not table.is_logged:
        hint = f"the owner runs: ALTER TABLE {quoted} SET LOGGED"
        raise fail("B6224", f'table "{name}" of source "{server.source}" is unlogged', hint=hint)
    if name not in places:
        hint = f"the owner runs: {addition_statement(server, [name])}"
        raise fail("B6224", f'the publication "{server.publication}" does not contain table "{name}"', hint=hint)
    _, is_filtered, is_cut, _ = places[name]
    if is_filtered or is_cut:
        what = "rows" if is_filtered else "columns"
        hint = f"the owner runs: {_altered(server)} DROP TABLE {quoted}; {_altered(server)} ADD TABLE {quoted}"
        raise fail(
            "B6224", f'the publication "{server.publication}" does not publish {what} of table "{name}"', hint=hint
        )
    if table.state.identity == "f" and any(c.is_generated for c in table.state.columns):
        _check_generated(server, table)
    _check_partitions(server, table)


def _check_partitions(server: Server, table: Table) -> None:
    """Check the replica identity of each partition: it must include the table's key, since each partition has its own
    log."""
    for partition in table.partitions:
        what = f'partition "{partition.name}" of table "{table.name}" of source "{server.source}"'
        if not partition.is_logged:
            hint = f"the owner runs: ALTER TABLE {partition.quoted} SET LOGGED"
            raise fail("B6224", f"{what} is unlogged", hint=hint)
        if partition.logged is not None and not set(table.key) <= partition.logged:
            is_primary = any(
                i.is_primary and {table.state.names[n] for n in i.columns} == set(table.key) for i in table.indexes
            )
            identity = "DEFAULT" if is_primary else "FULL"
            hint = f"the owner runs: ALTER TABLE {partition.quoted} REPLICA IDENTITY {identity}"
            raise fail("B6223", f"{what} does not log its key", hint=hint)


def _check_generated(server: Server, table: Table) -> None:
    """Check generated columns.

    From Postgres 18 on, REPLICA IDENTITY FULL without them makes the table's updates fail.
    """
    if server.connection.info.server_version < 180000:
        return
    ((kind,),) = server.ask("SELECT pubgencols::text FROM pg_publication WHERE pubname = %s", server.publication)
    if kind != "s":
        hint = f"the owner runs: ALTER TABLE {table.quoted} REPLICA IDENTITY DEFAULT"
        message = f'table "{table.name}" of source "{server.source}" has a generated column, and REPLICA IDENTITY FULL'
        raise fail("B6223", message, hint=hint)


def publication_statement(server: Server, tables: Iterable[str]) -> str:
    """Return the statement that the owner of these tables runs."""
    listed = f"FOR TABLE {_listed(server, tables)} WITH (publish_via_partition_root = true)"
    return f"CREATE PUBLICATION {in_quotes(server.publication)} {listed}"


def addition_statement(server: Server, tables: Iterable[str]) -> str:
    """Return the statement that adds these tables to the publication."""
    return f"{_altered(server)} ADD TABLE {_listed(server, tables)}"


def left_publication(server: Server, table: str) -> BelvedereError:
    """Return the diagnostic B6225 of a table whose changes were not logged for a while."""
    return server.slot_lost(f'table "{table}" was temporarily not in the publication "{server.publication}"')


def _altered(server: Server) -> str:
    return f"ALTER PUBLICATION {in_quotes(server.publication)}"


def _listed(server: Server, tables: Iterable[str]) -> str:
    return ", ".join(f"{in_quotes(server.schema)}.{in_quotes(t)}" for t in tables)

"""Report on another database for `belvedere sources`.

In: a source, the inputs that it feeds with their offsets. Out: a row for each table of its schema, and one for its
slot. It writes nothing, and reads no row of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from belvedere.connectors.connector import Imported, SourcePart
from belvedere.connectors.postgres.server import Server
from belvedere.project.settings import Source

_TABLES = """
SELECT c.relname,
       EXISTS (SELECT 1 FROM pg_publication_tables p
           WHERE p.pubname = %s AND p.schemaname = n.nspname AND p.tablename = c.relname),
       EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1
"""
_SLOT = (
    "SELECT (confirmed_flush_lsn - '0/0')::int8, wal_status, active, "
    "plugin FROM pg_replication_slots WHERE slot_name = %s"
)


def table_parts(source: Source, imports: Sequence[Imported]) -> list[SourcePart]:
    """Return the tables of the schema, then the slot. Raises B6220, B6222."""
    with Server(source) as server:
        end = server.flushed()
        by_table = {i.table: i for i in imports}
        found = [
            _table(name, by_table.get(name), is_published, has_key, end)
            for name, is_published, has_key in server.ask(_TABLES, server.publication, server.schema)
        ]
        there = {p.table for p in found}
        found += (
            SourcePart(t, imported=i.name, note="there is no such table") for t, i in by_table.items() if t not in there
        )
        return [*found, *_slot(server, end)]


def position_text(position: int) -> str:
    """Return a position of the log as Postgres writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _table(name: str, imported: Imported | None, is_published: bool, has_key: bool, end: int) -> SourcePart:
    note = "" if has_key else "has no key, so its changes cannot be followed"
    if imported is None:
        return SourcePart(name, facts={"published": is_published}, note=note)
    taken = imported.offset.get("lsn")
    return SourcePart(
        name,
        imported=imported.name,
        facts={"published": is_published},
        end=position_text(end),
        taken=None if taken is None else position_text(taken),
        behind=None if taken is None else max(0, end - taken),
        unit="bytes",
        note=note,
    )


def _slot(server: Server, end: int) -> Iterator[SourcePart]:
    name = f"slot {server.slot}"
    for confirmed, status, is_active, plugin in server.ask(_SLOT, server.slot):
        note = "the server has removed log that was not read yet" if status == "lost" else ""
        note = note if plugin == "pgoutput" else f"is of the plugin {plugin}"
        facts = {"wal_status": status, "active": bool(is_active)}
        if confirmed is None:
            yield SourcePart("", name, facts=facts, end=position_text(end), note=note)
        else:
            yield SourcePart(
                "",
                name,
                facts=facts,
                end=position_text(end),
                taken=position_text(confirmed),
                behind=end - confirmed,
                unit="bytes",
                note=note,
            )
        return
    yield SourcePart("", name, note="does not exist yet: the first run creates it")

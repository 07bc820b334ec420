"""The connector `postgres`: tables of another database as tables, by its change feed; and as a sink.

In: a source with a `url`, the offset in the epoch's row: a position in the server's log of changes. Out: the rows of a
first consistent read, then the inserts, updates and deletes of transactions, with all tables of a transaction in one
epoch. The modules:

- `server` queries the database, `wal` parses its log, `text_values` converts its texts to columns
- `slot` divides the log into epochs for all tables of a source, `feed` is the feed of one table
- `report` describes tables and the slot for users, `sink` is the sink
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from belvedere.connectors.connector import FeedRequest, Imported, Outgoing, Sampled, SourcePart
from belvedere.connectors.postgres.feed import TableFeed, open_table, sampled_table
from belvedere.connectors.postgres.report import table_parts
from belvedere.connectors.postgres.server import Server
from belvedere.connectors.postgres.sink import PostgresOutlet, place
from belvedere.project.settings import Source


def tables(source: Source) -> Sequence[str]:
    """Return the tables of the source's schema. Raises B6220, B6222."""
    with Server(source) as server:
        return server.tables()


def columns(source: Source, table: str) -> pa.Schema:
    """Return the columns of a table; those of its key are marked. Raises B6220, B6222."""
    with Server(source) as server:
        return server.table(table).schema


def parts(source: Source, imports: Sequence[Imported]) -> Sequence[SourcePart]:
    """Return the tables of the source's schema, and its slot. Raises B6220, B6222."""
    return table_parts(source, imports)


def sample(requested: FeedRequest, rows: int, spark: Callable[[], object]) -> Sampled:
    """Return the first and last rows by the key, and whether the log can be read; creates no slot.

    Raises B6101, B6220, B6222, B6223, B6226.
    """
    return sampled_table(requested, rows)


def open_feed(requested: FeedRequest) -> TableFeed:
    """Open the feed of a table at its offset."""
    return open_table(requested)


def open_outlet(outgoing: Outgoing) -> PostgresOutlet:
    """Open the writer of one export to a table."""
    return PostgresOutlet(outgoing)


__all__ = ["columns", "open_feed", "open_outlet", "parts", "place", "sample", "tables"]

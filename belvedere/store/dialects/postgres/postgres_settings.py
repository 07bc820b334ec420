"""Initial settings of every connection to a Postgres store: the store's schema, and no timeouts.

In: nothing. Out: statements, each a SELECT; and a check of the database's encoding.
"""

from __future__ import annotations

from collections.abc import Iterable

from belvedere.errors import fail
from belvedere.store.dialects.dialect import literal
from belvedere.store.dialects.faults import without_password
from belvedere.store.system import EPOCH

OWN_SCHEMA = f"""
SELECT set_config('search_path', quote_ident(coalesce((
  SELECT found.name FROM unnest(current_schemas(false)) WITH ORDINALITY AS found(name, place)
  WHERE current_setting('search_path') ~ '^\\s*"\\$user"'
  AND to_regclass(format('%I.%I', found.name, {literal(EPOCH)})) IS NOT NULL
  ORDER BY found.place LIMIT 1
), current_schema()::text)), false) WHERE current_schema() IS NOT NULL
"""
"""The store is in the first schema of the URL's search path, and only there.

If the path begins with the schema of the user's name, as by default, a schema of that name created later is not the
store's.
"""
UNHURRIED = """
SELECT count(set_config(name, '0', false)) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')
"""
"""Settings without timeouts.

The transaction of an epoch waits while the epoch is computed. Versions of Postgres know some of these settings.
"""
ENCODING = "SELECT current_setting('server_encoding')"


def holding(tables: Iterable[str]) -> str:
    """Return the statement that prevents tables from being replaced until the transaction ends.

    It begins no snapshot.
    """
    return f"LOCK TABLE {', '.join(tables)} IN ACCESS SHARE MODE"


def refuse_encoding(encoding: str, url: str) -> None:
    """Raise B7028 if a database does not store texts as UTF-8. Other tools would read broken texts."""
    if encoding != "UTF8":
        hint = "create a database for the store: CREATE DATABASE shop ENCODING 'UTF8' TEMPLATE template0"
        raise fail(
            "B7028",
            f"the database has the encoding {encoding}, but a store needs UTF8: {without_password(url)}",
            hint=hint,
        )

"""Unused names for columns that a plan adds."""

from __future__ import annotations

from belvedere.schema import is_engine_column


def unused_name(name: str, taken: set[str], engine: bool = False) -> str:
    """Return `name`, or the first unused name of `name_2`, `name_3`, ...; hidden key columns begin with an underscore.

    Names reserved for the engine are only used for its own columns (`engine`).
    """
    last = name.rpartition(".")[2]  # inside a query columns are named `alias.column`
    stem = last if last.startswith("_") else f"_{last}"
    fresh, n = stem, 1
    folded = {t.casefold() for t in taken}
    while fresh.casefold() in folded or (is_engine_column(fresh) and not engine):
        n += 1
        fresh = f"{stem}_{n}"
    return fresh

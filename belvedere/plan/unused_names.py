"""Names of columns that a plan adds."""

from __future__ import annotations

from belvedere.schema import is_engine_column


def unused_name(name: str, taken: set[str], engine: bool = False) -> str:
    """`name`, or the first of `name_2`, `name_3`, ... that is free; hidden key columns begin with an underscore.

    Names that the engine needs are not free, but for its own columns (`engine`).
    """
    last = name.rpartition(".")[2]  # inside a query columns are called `alias.column`
    stem = last if last.startswith("_") else f"_{last}"
    fresh, n = stem, 1
    folded = {t.casefold() for t in taken}
    while fresh.casefold() in folded or (is_engine_column(fresh) and not engine):
        n += 1
        fresh = f"{stem}_{n}"
    return fresh

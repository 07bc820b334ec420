"""Names that the API serves besides relations: query templates and fields with related rows.

In: a catalog. Out: a list for the epoch's row, by which the plan of a later start finds what clients will miss.
"""

from __future__ import annotations

from collections.abc import Iterable

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.templates import Parameter

SERVED = "served"
"""Name of the list in `EpochRow.extra`."""


def served_names(catalog: Catalog) -> list[str]:
    """Return each name in the script's form, with its arguments: `query Top(n)`, `field Orders.items`."""
    named = ((t, f"{'field' if t.owner else 'query'} {t.name}") for t in catalog.templates.values())
    found = [f"{name}{_arguments(t.parameters)}" for t, name in named]
    for r in catalog.relationships:
        if not r.name.startswith("_") and {r.owner, r.target} <= catalog.public:
            found.append(f"field {catalog.name_of(r.owner)}.{r.name}{_arguments(r.parameters)}")
    return sorted(set(found))


def _arguments(parameters: Iterable[Parameter]) -> str:
    names = ", ".join(p.name for p in parameters if p.metadata is None)
    return f"({names})" if names else ""

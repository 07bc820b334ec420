"""GraphQL names for the names of a script.

In: names in the script's spelling (any Unicode, dotted paths). Out: unique names that GraphQL accepts. Names that
GraphQL already accepts are unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_REFUSED = re.compile(r"[^_0-9A-Za-z]+")

SCALARS = (
    "Int",
    "Float",
    "String",
    "Boolean",
    "ID",
    "Long",
    "Decimal",
    "DateTime",
    "Date",
    "Duration",
    "YearMonthDuration",
    "JSON",
    "Cursor",
    "Bytes",
)
TYPES = (
    "Related",
    "Aggregate",
    "Group",
    "Counts",
    "DistinctCounts",
    "Sums",
    "Averages",
    "Extremes",
    "AggregateOrder",
    "NumbersOrder",
)
"""Suffixes of type names that an entity has for filters on related rows, and for aggregates."""
RESERVED_TYPES = (
    "Query",
    "Mutation",
    "Subscription",
    "SortOrder",
    "AsOf",
    "PushStatus",
    *SCALARS,
    *(f"{s}Filter" for s in SCALARS),
    *(f"{s}MemberFilter" for s in SCALARS),
)


def graphql_name(name: str) -> str:
    """Return the name with `_` for each character that GraphQL rejects; letters lose their accents first."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() if not name.isascii() else name
    result = _REFUSED.sub("_", plain) or "_"
    if result[0].isdigit():
        result = "_" + result
    while result.startswith("__"):
        result = result[1:]
    return result if result != "_" or name == "_" else f"_{sum(name.encode()):x}"


def first_lower(name: str) -> str:
    """Return the name with a lower-case first letter: `MonitoringGroup` -> `monitoringGroup`."""
    return name[:1].lower() + name[1:]


class Namespace:
    """Unique names: the second claim of a name returns `name_2`.

    `folded`: names must differ in more than case, since code generators capitalize type names.
    """

    def __init__(self, taken: Iterable[str] = (), folded: bool = False):
        self._key = str.casefold if folded else str
        self._taken = {self._key(name) for name in taken}

    def claim(self, requested: str) -> str:
        """Return the requested name, or the first free name with a number as suffix."""
        name, number = requested, 1
        while name in self:
            number += 1
            name = f"{requested}_{number}"
        self._taken.add(self._key(name))
        return name

    def __contains__(self, name: str) -> bool:
        return self._key(name) in self._taken

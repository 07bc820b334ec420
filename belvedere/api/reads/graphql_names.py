"""GraphQL names for the names of a script.

In: names as the script spells them (any unicode, dotted paths). Out: names that GraphQL takes, each used once.
A name that GraphQL takes already stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_REFUSED = re.compile(r"[^_0-9A-Za-z]+")


def graphql_name(name: str) -> str:
    """The name with every character that GraphQL refuses made `_` (letters lose their accents first)."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() if not name.isascii() else name
    result = _REFUSED.sub("_", plain) or "_"
    if result[0].isdigit():
        result = "_" + result
    while result.startswith("__"):
        result = result[1:]
    return result if result != "_" or name == "_" else f"_{sum(name.encode()):x}"


def first_lower(name: str) -> str:
    """`MonitoringGroup` -> `monitoringGroup`."""
    return name[:1].lower() + name[1:]


class Namespace:
    """Names that must differ from each other: the second to ask for a name gets `name_2`.

    `folded`: by more than the size of letters. Those who make classes of types give them large ones.
    """

    def __init__(self, taken: Iterable[str] = (), folded: bool = False):
        self._key = str.casefold if folded else str
        self._taken = {self._key(name) for name in taken}

    def claim(self, requested: str) -> str:
        """The wanted name, or the first free one with a number behind it."""
        name, number = requested, 1
        while name in self:
            number += 1
            name = f"{requested}_{number}"
        self._taken.add(self._key(name))
        return name

    def __contains__(self, name: str) -> bool:
        return self._key(name) in self._taken

"""Display names of ids."""

from __future__ import annotations

import re

IMPORTED = "~imported"
"""Suffix of the name of a relation that an imported script defines and no IMPORT names. The name also gets a leading
underscore."""


_HIDDEN = re.compile(rf"_((?:\w|[().`])+){IMPORTED}")


_EARLIER = re.compile(r"(?<=\w)~(\d+)(\$\w+)?")


def shown_names(text: str) -> str:
    """Return a text with ids replaced by display names: `Hot~1$state` becomes `Hot$state (definition 1)`.

    Relations of an imported script that no IMPORT names get the names that they have in that script.
    """
    text = _HIDDEN.sub(lambda found: found[1], text) if IMPORTED in text else text
    return _EARLIER.sub(lambda found: f"{found[2] or ''} (definition {found[1]})", text)


def is_earlier(id_: str) -> bool:
    """Return whether a relation is a definition of its name that a later one replaced."""
    return _EARLIER.search(id_) is not None

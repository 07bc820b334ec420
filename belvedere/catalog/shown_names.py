"""Ids as people read them."""

from __future__ import annotations

import re

IMPORTED = "~imported"
"""Ends the name of a relation of another script that no IMPORT names; it begins with an underscore more."""


_HIDDEN = re.compile(rf"_((?:\w|[().`])+){IMPORTED}")


_EARLIER = re.compile(r"(?<=\w)~(\d+)(\$\w+)?")


def shown_names(text: str) -> str:
    """A text for people in which earlier definitions of a name are called so: `Hot~1$state` is `Hot$state (definition 1)`.

    Relations of another script that no IMPORT names have the names that they have there.
    """
    text = _HIDDEN.sub(lambda found: found[1], text) if IMPORTED in text else text
    return _EARLIER.sub(lambda found: f"{found[2] or ''} (definition {found[1]})", text)

"""Canonical addresses: one text for all spellings of a path or URL.

In: a path, or a URL. Out: a text that is the same for all spellings. No name is resolved, so two names of a host are
two hosts.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}


def same_address(text: str) -> str:
    """Return the canonical spelling of an address.

    Links and `..` are resolved, double slashes and default ports removed, hosts and schemes in lower case.
    """
    if "://" not in text:
        return os.path.realpath(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # not an address: the run reports it
        return text
    if parts.scheme == "file":
        return os.path.realpath(unquote(parts.path))
    where = (parts.hostname or "") + (f":{port}" if port not in (None, _PORTS.get(parts.scheme)) else "")
    path = re.sub("/+", "/", parts.path).rstrip("/")
    return f"{parts.scheme}://{where}{path}" + (f"?{parts.query}" if parts.query else "")

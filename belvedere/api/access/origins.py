"""Detection of requests that a foreign web page causes.

In: a request's method and headers, the origins that the project file allows. Out: yes or no. It reads what browsers
send: Fetch Metadata, or else Origin compared with Host. Clients other than browsers send neither header, and are never
foreign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit


def is_foreign(method: str, headers: Mapping[bytes, bytes], allowed: Collection[str]) -> bool:
    """Return whether a page of another origin made the browser send the request. A followed link is not foreign."""
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin in allowed:
        return False
    site = headers.get(b"sec-fetch-site")
    if site is None:
        return origin != "" and _place(origin) != headers.get(b"host", b"").decode("latin-1").lower()
    return site not in (b"same-origin", b"none") and not _is_followed_link(method, headers)


def _is_followed_link(method: str, headers: Mapping[bytes, bytes]) -> bool:
    return (
        method == "GET"
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _place(origin: str) -> str | None:
    """Return host and port of an origin; None for an opaque origin (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None

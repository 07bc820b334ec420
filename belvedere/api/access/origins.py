"""Whether a request comes from a foreign web page.

In: a request's method and headers, the origins that the project file allows. Out: yes or no. It follows what browsers say of themselves
(Fetch Metadata, and Origin against Host where they do not); what is no browser sends neither header and is never foreign.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit


def is_foreign(method: str, headers: Mapping[bytes, bytes], allowed: Collection[str]) -> bool:
    """Whether a page of another origin made the browser send this. A link that a person follows is not foreign."""
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
    """Host and port of an origin; None for one that hides itself (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None

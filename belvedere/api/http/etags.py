"""Entity tags by epoch (RFC 9110, 8.8.3): the same request is answered the same way until another epoch is committed.

In: an epoch, when it was committed, and the API's own print. Out: a weak tag: an answer says its age besides, which the tag leaves out.
"""

from __future__ import annotations

from belvedere.store.protocol import EpochRow
from belvedere.values.instants import microseconds

HEADERS = {"cache-control": "private, no-cache", "vary": "Authorization, Accept, Accept-Encoding, Prefer"}
"""Headers of every answer with a tag: clients may store it, and revalidate it each time."""


def entity_tag(epoch: int, committed: int, api: str) -> str:
    """The tag of answers from an epoch that was committed at `committed` (microseconds since 1970), by an API of that print."""
    return f'W/"{epoch}-{committed:x}-{api}"'


def tag_of(row: EpochRow | None, api: str) -> str | None:
    """The tag of answers from that epoch."""
    if row is None or row.committed_at is None:
        return None
    return entity_tag(row.epoch, microseconds(row.committed_at), api)


def matches(given: bytes, tag: str | None) -> bool:
    """Whether `If-None-Match` has the tag; the comparison is the weak one."""
    if not given or tag is None:
        return False
    return tag.removeprefix("W/") in [t.strip().removeprefix("W/") for t in given.decode("latin-1").split(",")]

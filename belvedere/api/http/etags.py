"""Entity tags by epoch (RFC 9110, 8.8.3): a request has the same answer until the next epoch is committed.

In: an epoch, its commit time, and the API's fingerprint. Out: a weak tag, since answers also contain their age.
"""

from __future__ import annotations

from belvedere.store.protocol import EpochRow
from belvedere.values.instants import microseconds

HEADERS = {"cache-control": "private, no-cache", "vary": "Authorization, Accept, Accept-Encoding, Prefer"}
"""Headers of every answer with a tag: clients may store it, and revalidate it each time."""


def entity_tag(epoch: int, committed: int, api: str) -> str:
    """Return the tag of answers of an epoch.

    `committed` is its commit time (microseconds since 1970), `api` the fingerprint of the API.
    """
    return f'W/"{epoch}-{committed:x}-{api}"'


def tag_of(row: EpochRow | None, api: str) -> str | None:
    """Return the tag of answers of the epoch in `row`."""
    if row is None or row.committed_at is None:
        return None
    return entity_tag(row.epoch, microseconds(row.committed_at), api)


def matches(given: bytes, tag: str | None) -> bool:
    """Return whether `If-None-Match` contains the tag, by weak comparison."""
    if not given or tag is None:
        return False
    return tag.removeprefix("W/") in [t.strip().removeprefix("W/") for t in given.decode("latin-1").split(",")]

"""Which rows an arrangement has: three fingerprints, as a manifest stores them.

In: nothing. Out: a value that is stored as one text, its fields joined by dots.
"""

from __future__ import annotations

from dataclasses import dataclass

DIGEST = 24
"""Length of a digest, in hexadecimal digits."""


@dataclass(frozen=True)
class Fingerprint:
    """Rows are good for as long as `definition` stays the same, their indexes for as long as `paths` does."""

    definition: str = ""
    """The definition fingerprint: of what makes the rows."""
    paths: str = ""
    """Fingerprint of their access paths."""
    final: str = ""
    """The columns whose bounds make rows leave that still count, with commas; empty where none does."""

    @property
    def text(self) -> str:
        """As it is stored."""
        return f"{self.definition}.{self.paths}.{self.final}"

    @classmethod
    def of_text(cls, text: str) -> Fingerprint:
        """The inverse of `text`. Names of columns have any character; so has a name that is given in place of a digest."""
        definition, paths, final = [*text.split(".", 2), "", ""][:3]
        if len(definition) == len(paths) == DIGEST:
            return cls(definition, paths, final)
        return cls(*[*text.rsplit(".", 2), "", ""][:3])


UNKNOWN = Fingerprint()
"""Fingerprint of rows that are never compared."""

"""Identity of an arrangement's rows: three fingerprints, as a manifest stores them.

In: nothing. Out: a value that is stored as one text, its fields joined by dots.
"""

from __future__ import annotations

from dataclasses import dataclass

DIGEST = 24
"""Length of a digest, in hexadecimal digits."""


@dataclass(frozen=True)
class Fingerprint:
    """Fingerprints of an arrangement.

    Rows are valid while `definition` stays the same, their indexes while `paths` does.
    """

    definition: str = ""
    """Fingerprint of the definition that computes the rows."""
    paths: str = ""
    """Fingerprint of their access paths."""
    final: str = ""
    """Columns whose bounds delete rows that still count, separated by commas; empty if there are none."""

    @property
    def text(self) -> str:
        """Return the stored form."""
        return f"{self.definition}.{self.paths}.{self.final}"

    @classmethod
    def of_text(cls, text: str) -> Fingerprint:
        """Parse a stored text.

        Names of columns can contain any character, and so can a name used in place of a digest.
        """
        definition, paths, final = [*text.split(".", 2), "", ""][:3]
        if len(definition) == len(paths) == DIGEST:
            return cls(definition, paths, final)
        return cls(*[*text.rsplit(".", 2), "", ""][:3])


UNKNOWN = Fingerprint()
"""Fingerprint of rows that are never compared."""

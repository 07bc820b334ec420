"""How many examples a property is tried on: all of them at night and where a file is run by itself, a quarter in `make test`.

Mark such a test `deep`: `make nightly` runs it too.
"""

from __future__ import annotations

PART = 4
quick = False
"""Set by conftest before test modules are read."""


def examples(number: int) -> int:
    """`number`, or its quarter in `make test`."""
    return -(-number // PART) if quick else number

"""The formats of stores: whether this version can read one, and the migrations from earlier formats.

In: the format that a store declares. Out: the pending steps, or a diagnostic. One file is one step; `MIGRATIONS` is
their order. A change of `FORMAT` needs a new step, and the tests migrate stores of the previous format.
"""

from __future__ import annotations

from importlib.metadata import version

from belvedere.errors import BelvedereError, fail
from belvedere.store.migrations.migration import Migration
from belvedere.store.system import FORMAT

__all__ = ["FORMAT_CODES", "MIGRATIONS", "Migration", "pending", "refuse_other_format"]

MIGRATIONS: tuple[Migration, ...] = ()
"""The migrations in order. Empty: no store was written before the first release, which has format 7."""
FORMAT_CODES = frozenset({"B7016", "B7027"})
"""Codes for a store of another format."""


def pending(found: str) -> tuple[Migration, ...]:
    """Return the steps from a format to the present one, in order. Empty if there is no path."""
    if MIGRATIONS and found.isdecimal() and int(found) >= MIGRATIONS[0].format - 1:
        return tuple(m for m in MIGRATIONS if m.format > int(found))
    return ()


def refuse_other_format(found: str | None, written_by: str | None) -> None:
    """Raise B7016 if a newer version wrote the store or its format has no migration, B7027 if an earlier version wrote
    it.

    `written_by` is the version that last set the store's format.
    """
    if found not in (None, FORMAT):
        raise _other_format(str(found), written_by)


def _other_format(found: str, written_by: str | None) -> BelvedereError:
    ours = f"this one ({version('belvedere')}) reads format {FORMAT}"
    if pending(found):
        hint = (
            "`belvedere run` upgrades it; earlier versions cannot read it afterwards, so take a backup with them first"
        )
        return fail("B7027", f"the store was made by an earlier Belvedere: it has format {found}, {ours}", hint=hint)
    if found.isdecimal() and int(found) < int(FORMAT):
        hint = "choose a new --store: all sources are re-read"
        return fail(
            "B7016", f"the store has format {found} of a development version, which cannot be upgraded", hint=hint
        )
    by = f" ({written_by})" if written_by else ""
    hint = (
        f"install Belvedere {written_by or 'of that version'} or later, or restore a backup from before the "
        "upgrade into a new store"
    )
    return fail("B7016", f"the store was made by a newer Belvedere{by}: it has format {found}, {ours}", hint=hint)

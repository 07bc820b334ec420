"""The formats of stores: whether this version reads one, and the steps from an earlier one to the present one.

In: the format that a store says it has. Out: the steps that are to be done, or a diagnostic. One file is one step; `MIGRATIONS` is their
order. A step is added where `FORMAT` changes, and the tests take stores of the format before through it.
"""

from __future__ import annotations

from importlib.metadata import version

from belvedere.errors import BelvedereError, fail
from belvedere.store.migrations.migration import Migration
from belvedere.store.system import FORMAT

__all__ = ["FORMAT_CODES", "MIGRATIONS", "Migration", "pending", "refuse_other_format"]

MIGRATIONS: tuple[Migration, ...] = ()
"""None yet: no store was written before the first release, which has format 7."""
FORMAT_CODES = frozenset({"B7016", "B7027"})
"""Codes that say that a store has another format."""


def pending(found: str) -> tuple[Migration, ...]:
    """The steps from a format to the present one, in order; none from formats without a way."""
    if MIGRATIONS and found.isdecimal() and int(found) >= MIGRATIONS[0].format - 1:
        return tuple(m for m in MIGRATIONS if m.format > int(found))
    return ()


def refuse_other_format(found: str | None, written_by: str | None) -> None:
    """Raises B7016 where a newer version made the store or there is no way from its format, B7027 where an earlier one made it.

    `written_by` is the version that brought the store to its format.
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
    hint = f"install Belvedere {written_by or 'of that version'} or later, or restore a backup from before the upgrade into a new store"
    return fail("B7016", f"the store was made by a newer Belvedere{by}: it has format {found}, {ours}", hint=hint)

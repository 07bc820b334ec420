"""Plan for stored relations in the first epoch of a script.

In: nothing. Out: a `TablePlan`, which `table_diff` creates and the engine executes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.schema import Schema
from belvedere.state.sorted_run import Arranged
from belvedere.store.stored_table import StoredTable


@dataclass(frozen=True)
class TablePlan:
    """Tables of the database and arrangements.

    `fresh` relations are filled from their inputs, `copied` ones from their own rows.

    `copied` gives the destination of a relation's rows: its table or its arrangement. Among the fresh ones, `restored`
    ones are filled from the state of their own stage.
    """

    tables: Mapping[str, StoredTable]
    arranged: Mapping[str, Arranged]
    fresh: frozenset[str]
    copied: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    outdated: tuple[str, ...] = ()
    computed: Mapping[str, StoredTable] = field(default_factory=dict)
    """Views of the database: relations without stored rows, which are computed at read time."""
    unmade: frozenset[str] = frozenset()
    """Relations among them that the first epoch creates."""
    restored: frozenset[str] = frozenset()
    evolved: Mapping[str, Schema] = field(default_factory=dict)
    """The inputs that only have additional columns or wider types, with their former columns.

    They are copied too.
    """
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Reasons why the rows of other changed inputs are no longer valid."""
    refilled: frozenset[str] = frozenset()
    """The inputs that are stored from now on.

    Their rows so far are re-read and inserted without emitting changes.
    """
    changed: frozenset[str] = frozenset()
    """Fresh relations that are new or have changed themselves; others are rebuilt because of these."""
    again: frozenset[str] = frozenset()
    """All inputs whose rows so far are re-read: `refilled` ones, and unstored inputs that fresh relations need."""
    held: frozenset[str] = frozenset()
    """Inputs of `again` with KEEP from which no row has been removed yet.

    Their rows so far are in their own tables.
    """
    continued: frozenset[str] = frozenset()
    """Relations that emit changes of changed relations: their rows are kept, and they emit the differences."""
    resent: frozenset[str] = frozenset()
    """Relations that cannot emit the differences and emit all rows again."""
    resumed: frozenset[str] = frozenset()
    """Relations of corrected views that continue from the rows of their former definition, as the script requests."""
    waiting: frozenset[str] = frozenset()
    """Fresh relations in quarantine whose missed changes are all kept."""

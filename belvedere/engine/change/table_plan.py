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
    """Tables of the database and arrangements; `fresh` relations are filled from their inputs, `copied` ones from their own rows.

    `copied` says where the rows of a relation go: to its table, to its arrangement. Of the fresh ones, `restored` are filled from the state
    of their own stage.
    """

    tables: Mapping[str, StoredTable]
    arranged: Mapping[str, Arranged]
    fresh: frozenset[str]
    copied: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    outdated: tuple[str, ...] = ()
    computed: Mapping[str, StoredTable] = field(default_factory=dict)
    """Views of the database: relations without rows, which are computed when they are read."""
    unmade: frozenset[str] = frozenset()
    """Relations among them that the first epoch creates."""
    restored: frozenset[str] = frozenset()
    evolved: Mapping[str, Schema] = field(default_factory=dict)
    """The inputs whose columns have only grown, with those of before: copied too."""
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Why the rows of other changed inputs have no place any more."""
    refilled: frozenset[str] = frozenset()
    """The inputs that are stored from now on: their rows so far are read again, and put in without a change for anybody."""
    changed: frozenset[str] = frozenset()
    """Fresh relations that are new or have changed themselves; others are rebuilt because of these."""
    again: frozenset[str] = frozenset()
    """All inputs whose rows so far are read again: those, and what fresh relations need of inputs that are not stored."""
    held: frozenset[str] = frozenset()
    """Inputs of `again` with KEEP of which no row has left yet: their rows so far are in their own tables."""
    continued: frozenset[str] = frozenset()
    """Relations that emit changes of changed relations: their rows are kept, and they emit the differences."""
    resent: frozenset[str] = frozenset()
    """Relations that cannot: they emit all rows again."""
    resumed: frozenset[str] = frozenset()
    """Relations of corrected views that go on from the rows of their former definition, as the script says."""
    waiting: frozenset[str] = frozenset()
    """Fresh relations in quarantine whose missed changes are all kept."""

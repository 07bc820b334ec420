"""Events of a subscription by definition: a relation's rows epoch by epoch, compared in memory.

In: all rows of the observed query after each epoch, with the texts of their keys. Out: all events so far. This is the
test oracle of `rules/events.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.subscriptions import ChangeKind
from belvedere.engine.sql.row_identity import key_text
from belvedere.plan.operators.nodes import Item, Node, Project
from belvedere.plan.operators.observed import Observed
from belvedere.plan.operators.project import item_of
from belvedere.rules.events import EVENT_TIME, OLD, OPERATION, SEQUENCE
from belvedere.schema import KEY

Row = dict[str, Any]


def with_keys(below: Node) -> Node:
    """Return the rows with the text of their keys."""
    key = Item(KEY, exp.Var(this=key_text(below.schema)), pa.string(), nullable=False)
    return Project(below, (*map(item_of, below.schema), key))


@dataclass
class EventFold:
    """The state of one subscription from epoch to epoch."""

    node: Observed
    before: dict[str, Row] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)

    def epoch(self, rows: list[Row], clock: datetime) -> list[Row]:
        """Return all events after an epoch. `rows` are the rows of the observed query after it."""
        now = {row[KEY]: row for row in sorted(rows, key=_place)}
        found: list[tuple[Row, Row | None]]
        if self.node.on == ChangeKind.ADD:
            found = [(row, None) for key, row in now.items() if key not in self.before]
        elif self.node.on == ChangeKind.DELETE:
            found = [(row, None) for key, row in self.before.items() if key not in now]
        else:
            found = [
                (row, self.before[key]) for key, row in now.items() if key in self.before and self._differs(key, row)
            ]
        for row, old in found:
            event = {c.name: row.get(c.name) for c in self.node.events}
            own = {OPERATION: str(self.node.on).upper(), EVENT_TIME: clock, SEQUENCE: len(self.log) + 1}
            self.log.append(event | own | ({} if old is None else {OLD: self._shown(old)}))
        self.before = now
        return list(self.log)

    def _shown(self, row: Row) -> Row:
        return {c.name: row[c.name] for c in self.node.input.schema.visible}

    def _differs(self, key: str, row: Row) -> bool:
        return repr(self._shown(row)) != repr(self._shown(self.before[key]))


def _place(row: Row) -> tuple[int, str]:
    """Return the sort key of an event: its key, or its number if the query is a changelog."""
    return int(row.get(SEQUENCE) or 0), row[KEY]

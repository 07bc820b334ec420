"""Shared parts of the rules that recompute only some rows of a key: window functions by their frames, WINDOW BY by its
windows.

In: the changed input rows of a stage. Out: the change of its output. If a change needs too many rows around it, or the
stage needs all rows, the stage recomputes whole keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.engine.rows.epoch_rows import Rows, combined
from belvedere.engine.sql.stage_sql import ROWS
from belvedere.engine.work import Work
from belvedere.rules.key_ranges import TooMuch
from belvedere.rules.keyed import KeyedStage
from belvedere.rules.whole import replace_all
from belvedere.schema import KEY


@dataclass(frozen=True)
class AffectedRangeStage(KeyedStage):
    """Base of stages that recompute only the results that a change can reach."""

    kind: ClassVar[str] = ROWS
    """Name of the view with the rows around the changes, and of the text that reads it."""

    def neighbourhood(self, work: Work, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
        """Return the rows from which changed results can be computed, and the keys of these results.

        Return None if the stage needs all rows of the keys. Raise TooMuch if the driver has no room for the rows.
        """
        raise NotImplementedError

    def run(self, work: Work) -> Rows | None:
        if work.is_fresh or work.limits:
            return super().run(work)
        if work.prefers_whole():
            return replace_all(work)
        (delta,) = work.deltas
        if delta is None:
            return None
        few = delta.is_collected and delta.num_rows <= work.compute.small
        found = self._neighbourhood(work, delta.table) if few else None
        if found is None:
            return self.run_keys(work)
        rows, keys = found
        work.put(self.slots[0].name, self.kind, Rows(rows))
        work.put_windows(rows.num_rows)
        results = work.rows(self.kind)
        requested = combined(pc.unique(pa.chunked_array([*keys, combined(delta.table[KEY])], pa.string())))
        again = work.where(results, lambda b: pc.is_in(b.column(KEY), value_set=requested))
        return work.replace(KEY, requested, again)

    def _neighbourhood(self, work: Work, delta: pa.Table) -> tuple[pa.Table, list[pa.Array]] | None:
        try:
            return self.neighbourhood(work, delta)
        except TooMuch:
            return None

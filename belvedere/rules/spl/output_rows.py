"""Results of a window as rows of its output.

In: rows in their order. Out: the rows with their numbers, `_key` and hashes.
"""

from __future__ import annotations

import pyarrow as pa

from belvedere.engine.arrow_copy import identified, is_identified
from belvedere.engine.rows.epoch_rows import Rows, conform
from belvedere.engine.sql.stage_sql import ROWS as VIEW
from belvedere.engine.work import Work
from belvedere.plan.operators.emit import SEQUENCE
from belvedere.rules.events import next_numbers


def numbered(work: Work, rows: pa.Table) -> pa.Table:
    """Number append-only rows with the next numbers."""
    numbers = next_numbers(work, rows.num_rows)
    columns = {c.name: numbers if c.name == SEQUENCE else rows[c.name] for c in work.output.schema}
    return conform(pa.table(columns), work.output.schema.arrow)


def identified_rows(work: Work, rows: pa.Table) -> Rows:
    """Return rows of the output with their `_key` and hashes.

    If Arrow cannot compute these, the stage's text `rows` does.
    """
    if is_identified(work.output):
        return Rows(identified(rows, work.output))
    work.put("made", VIEW, Rows(rows))
    return work.rows("rows")

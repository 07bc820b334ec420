"""Report of an epoch, for its callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from belvedere.engine.errors.failed_stages import Failed


@dataclass(frozen=True)
class EpochReport:
    """Report of an epoch: rows accepted per input, rows changed per relation, seconds per stage."""

    epoch: int
    clock: datetime
    rows_in: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    whole: tuple[str, ...] = ()
    """The relations that were recomputed whole, since most of their input changed or is new to them."""
    driver_bytes: int = 0
    """Bytes of rows that passed through this process."""
    task_jobs: int = 0
    """Number of jobs whose tasks looked up or changed state."""
    intake_jobs: int = 0
    """Number of jobs whose tasks read, judged or stamped new rows."""
    failing: tuple[Failed, ...] = ()
    healed: tuple[Failed, ...] = ()
    """The stages that have failed in it and are in quarantine now, and those that have recovered."""
    quarantined: Mapping[str, int | None] = field(default_factory=dict)
    """The public views in quarantine after it, each with its last good epoch."""
    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    """The changes of stored relations, with `_weight`, if the caller requested them."""
    arrivals: Mapping[str, pa.Table] = field(default_factory=dict)
    """The stamped rows of each input, if the caller requested deltas."""
    bounds: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    """The bounds of the inputs' event-time columns, if the caller requested deltas."""

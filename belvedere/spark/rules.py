"""Which function runs which rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from belvedere.rules.pipeline import Rule
from belvedere.spark.by_key import run_by_key
from belvedere.spark.emit import run_emit
from belvedere.spark.emit_order import run_in_order
from belvedere.spark.events import run_events
from belvedere.spark.exchange import Rows
from belvedere.spark.existence import run_existence
from belvedere.spark.first import run_first
from belvedere.spark.history import run_history
from belvedere.spark.merge import run_merge
from belvedere.spark.prepare import PreparedStage
from belvedere.spark.stages import Context, run_clock, run_constant, run_join, run_linear, run_whole
from belvedere.spark.top import run_top
from belvedere.spark.window_stage import run_windows

RUNNERS: Mapping[Rule, Callable[[PreparedStage, Context], Rows | None]] = {
    Rule.LINEAR: run_linear,
    Rule.CONSTANT: run_constant,
    Rule.KEYED: run_by_key,
    Rule.WHOLE: run_whole,
    Rule.JOIN: run_join,
    Rule.EXISTENCE: run_existence,
    Rule.MERGE: run_merge,
    Rule.TOP: run_top,
    Rule.FIRST: run_first,
    Rule.CLOCK: run_clock,
    Rule.EVENTS: run_events,
    Rule.EMIT: run_emit,
    Rule.ORDER: run_in_order,
    Rule.WINDOWS: run_windows,
    Rule.SESSIONS: run_top,
    Rule.HISTORY: run_history,
}


def run_stage(prepared: PreparedStage, context: Context) -> Rows | None:
    """The change of the stage's output, already written to the transaction; None where it cannot have changed."""
    return RUNNERS[prepared.stage.rule](prepared, context)

"""Prepares all stages of a pipeline.

In: stages and relations. Out: each stage with its SQL, which stays the same from epoch to epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from belvedere.engine.arrow_copy import is_identified, moved_columns
from belvedere.engine.relation import Relation
from belvedere.engine.sql.stage_sql import PreparedStage, Texts
from belvedere.engine.stage import Stage


class ReadyStage(NamedTuple):
    """A stage and its prepared form."""

    stage: Stage
    prepared: PreparedStage


def prepare(
    stages: tuple[Stage, ...], relations: Mapping[str, Relation], qualify: Callable[[str], str]
) -> tuple[ReadyStage, ...]:
    """Return all stages with their SQL."""
    return tuple(_prepare(n, s, relations, qualify) for n, s in enumerate(stages))


def _prepare(number: int, stage: Stage, relations: Mapping[str, Relation], qualify: Callable[[str], str]) -> ReadyStage:
    output = relations[stage.output]
    texts = Texts(number, output, stage.slots, relations, qualify)
    sql = stage.texts(texts)
    slots = tuple((s, relations[s.relation]) for s in stage.slots)
    states = {n: relations[n] for n in stage.states}
    moved = moved_columns(stage.plan) if len(slots) == 1 and is_identified(output) else None
    fused = stage.defers and not output.stored
    prepared = PreparedStage(
        number, output, stage.owner, sql, slots, states, tuple(texts.windows), moved, stage.memory, fused
    )
    return ReadyStage(stage, prepared)

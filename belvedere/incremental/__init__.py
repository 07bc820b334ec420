"""A plan -> how each view is kept."""

from belvedere.incremental.maintain import maintain
from belvedere.incremental.options import Options
from belvedere.incremental.pipeline import Path, Pipeline, Relation, Rule, Slot, Stage

__all__ = ["Options", "Path", "Pipeline", "Relation", "Rule", "Slot", "Stage", "maintain"]

"""A plan -> how each view is kept."""

from belvedere.rules.maintain import maintain
from belvedere.rules.options import Options
from belvedere.rules.pipeline import Pipeline, Rule, Stage

__all__ = ["Options", "Pipeline", "Rule", "Stage", "maintain"]

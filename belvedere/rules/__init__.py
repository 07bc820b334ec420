"""How views are maintained: one file is one rule. `RULES` is the order of choice."""

from belvedere.rules.maintain import RULES, maintain, plain, without
from belvedere.rules.options import Options

__all__ = ["RULES", "Options", "maintain", "plain", "without"]

"""How views are maintained: one file is one rule. Their order of choice is `RULES` (`belvedere.pipeline.choose`)."""

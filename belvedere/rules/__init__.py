"""Rules that maintain views, one file per rule.

`RULES` (`belvedere.pipeline.choose`) is the order in which they are tried.
"""

"""Immutable relational tree, the input of all later steps."""

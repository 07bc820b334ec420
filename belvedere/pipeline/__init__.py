"""Catalog -> pipeline: how each view is kept, what a start would change, what `explain` says."""

"""Rewrites that keep a plan's meaning: one module each."""

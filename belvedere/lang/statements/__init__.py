"""Statements -> catalog: one kind of statement, one module (`lower_*`). `lower` is the way in."""

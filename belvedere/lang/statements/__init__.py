"""Statements -> catalog: one module (`lower_*`) per kind of statement. `lower` is the entry point."""

"""Queries as plans: FROM, WHERE, GROUP BY, window functions, subqueries and paths, one module each. `queries` is the
entry point."""

"""Queries with WINDOW BY on Spark: `windows` finds the windows of one operator, `run` answers a query."""
